//! Reads an index sequentially: the lines of its secondary index, and the text of its blocks.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::writer::Source;
use super::{files, part};
use crate::Error;
use crate::lines::MAX_LINE;
use crate::sorted::line::Shape;
use crate::zipnum::cluster::block::{Block, MAX_BLOCK, Unfit, inflate};

/// Size of a read of a secondary index, in bytes.
const PIECE: usize = 8 << 10;
/// Maximum size of a buffer that is kept for the next block, in bytes.
const ROOM: usize = 1 << 20;

/// Reads the decompressed blocks of an index, one after the other, into the same buffer.
///
/// Every byte of both files is checked: the result is either the text that was written, or an
/// error.
pub struct Blocks {
    secondary: Secondary,
    packed: Vec<u8>,
    text: Vec<u8>,
}

impl Blocks {
    /// Opens the index with this stem in a folder.
    ///
    /// # Errors
    /// Fails if the folder has no index with this stem.
    pub fn open(folder: &Path, stem: &str) -> Result<Blocks, Error> {
        Ok(Blocks {
            secondary: Secondary::open(folder, stem, true)?,
            packed: Vec::new(),
            text: Vec::new(),
        })
    }

    /// Returns the text of the next block: whole lines with their line ends. Returns `None` after the
    /// last block.
    ///
    /// # Errors
    /// [`Error::Damaged`], with the offset, if the two files do not match or a block is damaged.
    #[allow(clippy::should_implement_trait)] // the text borrows the reader, so this cannot be an Iterator
    pub fn next(&mut self) -> Result<Option<&[u8]>, Error> {
        let Some(block) = self.secondary.next()? else {
            return Ok(None);
        };
        self.secondary
            .text(&block, &mut self.packed, &mut self.text)?;
        Ok(Some(&self.text))
    }
}

/// Reads the blocks of an index from its secondary index, one after the other.
pub(super) struct Secondary {
    idx: Contents,
    part: String,
    /// The text that was read, and the offset of its unused part.
    buffer: Vec<u8>,
    at: usize,
    read: u64,
    /// End of the blocks read so far, their number, and the beginning of the last block.
    covered: u64,
    number: u64,
    begin: Box<[u8]>,
    /// The file that contains the blocks.
    gz: Contents,
}

/// A file that is read at offsets.
struct Contents {
    path: Arc<Path>,
    size: u64,
    /// The open file; `None` if it is closed between reads because there are too many.
    file: Option<Arc<File>>,
    keep: bool,
}

impl Secondary {
    /// Opens the index with this stem. Unless `keep` is true, its files are opened for each read.
    pub(crate) fn open(folder: &Path, stem: &str, keep: bool) -> Result<Secondary, Error> {
        let (gz, idx) = files(folder, stem);
        Ok(Secondary {
            idx: Contents::open(idx, keep)?,
            part: part(stem),
            buffer: Vec::new(),
            at: 0,
            read: 0,
            covered: 0,
            number: 0,
            begin: Box::default(),
            gz: Contents::open(gz, keep)?,
        })
    }

    /// Returns the next block; `None` at the end.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the two files do not match.
    pub(crate) fn next(&mut self) -> Result<Option<Block>, Error> {
        let place = self.read - (self.buffer.len() - self.at) as u64;
        let Some(line) = self.line(place)? else {
            return if self.covered == self.gz.size {
                Ok(None)
            } else {
                Err(self.damaged(
                    place,
                    &format!(
                        "the blocks end at byte {}, but {} ends at byte {}",
                        self.covered, self.part, self.gz.size
                    ),
                ))
            };
        };
        let block = match self.read_line(line) {
            Ok(block) => block,
            Err(why) => return Err(self.damaged(place, &why)),
        };
        self.covered = block.offset + block.length;
        self.number += 1;
        self.begin.clone_from(&block.begin);
        Ok(Some(block))
    }

    /// Returns the range of the next line in the buffer, without its line end.
    fn line(&mut self, place: u64) -> Result<Option<std::ops::Range<usize>>, Error> {
        let mut searched = self.at;
        loop {
            let rest = &self.buffer[searched..];
            if let Some(length) = memchr::memchr(b'\n', rest) {
                let line = self.at..searched + length;
                self.at = line.end + 1;
                return Ok(Some(line));
            }
            self.buffer.drain(..self.at);
            self.at = 0;
            searched = self.buffer.len();
            if self.read == self.idx.size {
                return if self.buffer.is_empty() {
                    Ok(None)
                } else {
                    Err(self.damaged(place, "the last line has no line feed"))
                };
            }
            if searched > MAX_LINE + PIECE {
                return Err(self.damaged(place, "it exceeds the maximum length of a line"));
            }
            let left = usize::try_from(self.idx.size - self.read).unwrap_or(PIECE);
            let piece = left.min(PIECE);
            self.idx.read(self.read, piece, &mut self.buffer)?;
            self.read += piece as u64;
        }
    }

    fn read_line(&self, line: std::ops::Range<usize>) -> Result<Block, String> {
        let line = self.buffer.get(line).unwrap_or_default();
        let Some(block) = Block::read(line) else {
            return Err("it is not a line of a secondary index".to_owned());
        };
        let begin = [&block.begin[..], b" "].concat();
        if Shape::of(&begin).is_none_or(|shape| shape.second != block.begin.len()) {
            return Err("it does not begin with a key and a timestamp".to_owned());
        }
        if *block.part != *self.part {
            return Err(format!(
                "the block is in {:?} instead of {:?}",
                block.part, self.part
            ));
        }
        let end = block.offset.checked_add(block.length);
        if block.offset != self.covered || end.is_none_or(|end| end > self.gz.size) {
            return Err(format!(
                "a block of {} bytes at byte {}: the previous block ends at byte {}, and {} ends at byte {}",
                block.length, block.offset, self.covered, self.part, self.gz.size
            ));
        }
        if block.length == 0 || block.length > MAX_BLOCK {
            return Err(format!("a block of {} bytes", block.length));
        }
        if block.number != Some(self.number + 1) || block.lines.is_none_or(|lines| lines == 0) {
            return Err(format!(
                "block number {:?} with {:?} lines, but this is block {}, which must have lines",
                block.number,
                block.lines,
                self.number + 1
            ));
        }
        if block.begin < self.begin {
            return Err("it sorts before the previous block".to_owned());
        }
        Ok(block)
    }

    /// Replaces `text` by the text of a block, and checks its number of lines and its first line.
    pub(crate) fn text(
        &mut self,
        block: &Block,
        packed: &mut Vec<u8>,
        text: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let length = usize::try_from(block.length).unwrap_or(usize::MAX);
        packed.clear();
        text.clear();
        text.shrink_to(ROOM);
        self.gz.read(block.offset, length, packed)?;
        let wrong = |what: &str| Error::Damaged {
            entry: self.gz.path.to_path_buf(),
            what: format!("block at byte {}: {what}", block.offset),
        };
        // A gzip member ends with the size of its text. Reserve memory for the text, if the size is plausible.
        let size = packed
            .last_chunk()
            .map_or(0, |size| u32::from_le_bytes(*size));
        text.reserve_exact((size as usize).min(packed.len().saturating_mul(8)));
        inflate(packed, text).map_err(|unfit| match unfit {
            Unfit::Broken(why) => wrong(&why),
            Unfit::TooLarge => wrong(&format!("it decompresses to more than {MAX_BLOCK} bytes")),
        })?;
        packed.shrink_to(ROOM);
        let begins = text
            .strip_prefix(&block.begin[..])
            .is_some_and(|rest| rest.starts_with(b" "));
        if !begins || !text.ends_with(b"\n") {
            return Err(wrong(
                "its first line differs, or its last line has no line feed",
            ));
        }
        let lines = memchr::memchr_iter(b'\n', text).count() as u64;
        if block.lines != Some(lines) {
            return Err(wrong(&format!("it has {lines} lines")));
        }
        Ok(())
    }

    /// Returns the file that contains the blocks, to copy from.
    pub(crate) fn source(&mut self) -> Result<Source, Error> {
        let file = self.gz.file()?;
        self.gz.file = Some(Arc::clone(&file));
        Ok(Source {
            path: Arc::clone(&self.gz.path),
            file,
        })
    }

    /// Closes the file that blocks were copied from.
    pub(crate) fn release(&mut self) {
        self.gz.release();
    }

    fn damaged(&self, place: u64, what: &str) -> Error {
        Error::Damaged {
            entry: self.idx.path.to_path_buf(),
            what: format!("line at byte {place}: {what}"),
        }
    }
}

impl Contents {
    fn open(path: PathBuf, keep: bool) -> Result<Contents, Error> {
        let file = File::open(&path).map_err(Error::io(&path, "open"))?;
        let metadata = file.metadata().map_err(Error::io(&path, "open"))?;
        if !metadata.is_file() {
            return Err(Error::Damaged {
                what: "it is not a regular file".to_owned(),
                entry: path,
            });
        }
        Ok(Contents {
            path: path.into(),
            size: metadata.len(),
            file: keep.then(|| Arc::new(file)),
            keep,
        })
    }

    fn file(&self) -> Result<Arc<File>, Error> {
        match &self.file {
            Some(file) => Ok(Arc::clone(file)),
            None => {
                let file = File::open(&self.path).map_err(Error::io(&self.path, "open"))?;
                Ok(Arc::new(file))
            }
        }
    }

    fn release(&mut self) {
        if !self.keep {
            self.file = None;
        }
    }

    /// Appends `length` bytes at an offset, which the file had when it was opened.
    fn read(&self, at: u64, length: usize, into: &mut Vec<u8>) -> Result<(), Error> {
        let begin = into.len();
        into.resize(begin + length, 0);
        let room = into.get_mut(begin..).unwrap_or_default();
        match self.file()?.read_exact_at(room, at) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(Error::Damaged {
                entry: self.path.to_path_buf(),
                what: format!("it was truncated, and had {} bytes before", self.size),
            }),
            read => read.map_err(Error::io(&self.path, "read")),
        }
    }
}
