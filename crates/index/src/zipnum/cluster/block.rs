//! Parses blocks: lines of secondary indexes, and gzip members.

use std::borrow::Cow;
use std::io::Read as _;

use flate2::bufread::MultiGzDecoder;
use memchr::memmem;
use serde::Deserialize;

use crate::sorted::line::trimmed;

/// A block, as described by a line of the secondary index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The urlkey and the timestamp of its first line.
    pub begin: Box<[u8]>,
    /// The name of the file that contains the block.
    pub part: Box<str>,
    /// Offset in that file, in bytes.
    pub offset: u64,
    /// Compressed length in bytes.
    pub length: u64,
    /// The number of the line, if it has one.
    pub number: Option<u64>,
    /// Number of lines in the block, if known. Only indexes of jobs have this additional column.
    pub lines: Option<u64>,
}

impl Block {
    /// Parses a line in either form: columns, or urlkey, timestamp and JSON. Returns `None` if the line is invalid.
    pub(crate) fn read(line: &[u8]) -> Option<Block> {
        let line = trimmed(line);
        if line.ends_with(b"}") {
            return Block::read_json(line);
        }
        let mut columns = line.split(|&byte| byte == b'\t');
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

    /// Parses a line as cdxj-indexer, wacz, js-wacz and Browsertrix Crawler write it.
    fn read_json(line: &[u8]) -> Option<Block> {
        #[derive(Deserialize)]
        struct About<'a> {
            offset: u64,
            length: u64,
            #[serde(borrow, default)]
            filename: Cow<'a, str>,
        }
        let at = memmem::find(line, b" {")?;
        let about: About<'_> = serde_json::from_slice(&line[at + 1..]).ok()?;
        let mut begin = line[..at].to_vec();
        if !begin.contains(&b' ') {
            // A key without a timestamp sorts before all of its lines.
            begin.push(b' ');
        }
        (at > 0 && line[0] != b'!').then(|| Block {
            begin: begin.into(),
            part: about.filename.into(),
            offset: about.offset,
            length: about.length,
            number: None,
            lines: None,
        })
    }
}

/// Parses the first line of a secondary index (`!meta 0 {"filename": …}`): the name of the file that contains the
/// blocks, without the folder in which it was created.
pub(crate) fn part_of_header(line: &[u8]) -> Option<Box<str>> {
    #[derive(Deserialize)]
    struct About<'a> {
        #[serde(borrow)]
        filename: Cow<'a, str>,
    }
    let at = memmem::find(line, b" {").filter(|_| line.starts_with(b"!meta "))?;
    let about: About<'_> = serde_json::from_slice(&line[at + 1..]).ok()?;
    let name = about.filename.rsplit(['/', '\\']).next()?;
    (!name.is_empty()).then(|| name.into())
}

/// Returns the length of the part of a line that is compared: the text before the part, or before the JSON.
pub(crate) fn begin_of(line: &[u8]) -> Option<usize> {
    Block::read(line)?;
    if trimmed(line).ends_with(b"}") {
        return Some(memmem::find(line, b" {")? + 1);
    }
    Some(memchr::memchr(b'\t', line)? + 1)
}

/// Maximum size of a block, compressed and uncompressed, in bytes. 3000 lines take about a megabyte.
pub(crate) const MAX_BLOCK: u64 = 32 << 20;

/// The reason why a block cannot be decompressed.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// The text is longer than [`MAX_BLOCK`] bytes.
    TooLarge,
    /// The data is not a sequence of complete gzip members.
    Broken(String),
}

/// Decompresses one or more complete gzip members, and appends the text.
pub(crate) fn inflate(packed: &[u8], text: &mut Vec<u8>) -> Result<(), Unfit> {
    let before = text.len();
    let mut members = MultiGzDecoder::new(packed).take(MAX_BLOCK + 1);
    members
        .read_to_end(text)
        .map_err(|error| Unfit::Broken(error.to_string()))?;
    if (text.len() - before) as u64 > MAX_BLOCK {
        Err(Unfit::TooLarge)
    } else {
        Ok(())
    }
}
