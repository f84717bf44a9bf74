//! Lines of secondary indexes.

use crate::sorted::line::trimmed;

/// A block, as a line of the secondary index tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Urlkey and timestamp of the first line in it.
    pub begin: Box<[u8]>,
    /// The name of the file that has it.
    pub part: Box<str>,
    /// Offset in that file, in bytes.
    pub offset: u64,
    /// Length, compressed, in bytes.
    pub length: u64,
    /// The number of the line, if it has one.
    pub number: Option<u64>,
    /// How many lines the block has, if that is told. Only indexes of jobs do, in one more column.
    pub lines: Option<u64>,
}

impl Block {
    /// `None` when the line is none.
    pub(crate) fn read(line: &[u8]) -> Option<Block> {
        let mut columns = trimmed(line).split(|&byte| byte == b'\t');
        let key = columns.next()?;
        let part = std::str::from_utf8(columns.next()?).ok()?;
        let mut number = || std::str::from_utf8(columns.next()?).ok()?.parse().ok();
        let (offset, length) = (number()?, number()?);
        (!key.is_empty() && !part.is_empty()).then(|| Block {
            begin: key.into(),
            part: part.into(),
            offset,
            length,
            number: number(),
            lines: number(),
        })
    }
}

/// How much of a line says where it belongs: what stands before the part.
pub(crate) fn begin_of(line: &[u8]) -> Option<usize> {
    Block::read(line)?;
    Some(memchr::memchr(b'\t', line)? + 1)
}
