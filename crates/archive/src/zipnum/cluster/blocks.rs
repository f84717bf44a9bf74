//! The blocks of a cluster that a query is about, as text.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::Cluster;
use super::line::Block;
use crate::sorted::ahead::Ahead;
use crate::sorted::back::Back;
use crate::sorted::work::{Halt, Work};
use crate::source::SourceError;

/// The blocks of a cluster that lines of a span can be in, one after the other.
#[derive(Debug)]
pub struct Blocks {
    cluster: Arc<Cluster>,
    lines: Lines,
    from: Vec<u8>,
    to: Vec<u8>,
    /// The block that comes next, as far as it is known.
    held: Option<Block>,
    /// The last block that begins before the span has yet to be found.
    near: bool,
    /// There is none after it.
    end: bool,
    /// The block whose text could not be had yet.
    waiting: Option<Block>,
    /// Of those that come, only these.
    some: Range<u64>,
    seen: u64,
}

/// Lines of the secondary index.
#[derive(Debug)]
enum Lines {
    Ahead(Box<Ahead>),
    Back(Box<Back>),
}

impl Blocks {
    /// Those from `from` on. The lines of the index begin at one that is not after it.
    pub(crate) fn ahead(cluster: Arc<Cluster>, lines: Ahead, from: &[u8], to: &[u8]) -> Blocks {
        Blocks::new(cluster, Lines::Ahead(Box::new(lines)), from, to)
    }

    /// Those before `to`, the last one first. The lines of the index begin at one that is not before it.
    pub(crate) fn back(cluster: Arc<Cluster>, lines: Back, from: &[u8], to: &[u8]) -> Blocks {
        Blocks::new(cluster, Lines::Back(Box::new(lines)), from, to)
    }

    fn new(cluster: Arc<Cluster>, lines: Lines, from: &[u8], to: &[u8]) -> Blocks {
        Blocks {
            cluster,
            lines,
            from: from.to_vec(),
            to: to.to_vec(),
            held: None,
            near: true,
            end: false,
            waiting: None,
            some: 0..u64::MAX,
            seen: 0,
        }
    }

    /// The secondary index.
    pub(crate) fn path(&self) -> &Path {
        &self.cluster.index
    }

    /// Only some of the blocks, by their number among those that the span is about.
    pub(crate) fn only(mut self, some: Range<u64>) -> Blocks {
        self.some = some;
        self
    }

    /// Appends the text of the next block. False when there is none.
    pub(crate) fn text(&mut self, work: &mut Work, into: &mut Vec<u8>) -> Result<bool, Halt> {
        if self.waiting.is_none() {
            self.waiting = self.next(work)?;
        }
        let Some(block) = &self.waiting else {
            return Ok(false);
        };
        let text = self.unpacked(block, work)?;
        self.waiting = None;
        into.extend_from_slice(&text);
        Ok(true)
    }

    fn unpacked(&self, block: &Block, work: &mut Work) -> Result<Bytes, Halt> {
        let mut last = None;
        for part in self.cluster.parts.files(&block.part, work)? {
            let file = part.file();
            let text = match file.snapshot(work) {
                Ok(Some(snapshot)) => self.cluster.unpacked.text(&snapshot, block, work),
                Ok(None) => Err(Halt::Failed(SourceError::Io(format!(
                    "{}: there is no such file",
                    file.path().display()
                )))),
                Err(halt) => Err(halt),
            };
            match text {
                // Perhaps it is whole at another place.
                Err(Halt::Failed(error)) => {
                    part.note(false);
                    last = Some(Halt::Failed(error));
                }
                Err(halt) => return Err(halt),
                Ok(text) => {
                    part.note(true);
                    return Ok(text);
                }
            }
        }
        let nowhere = || SourceError::Io(format!("{:?} is nowhere", block.part));
        Err(last.unwrap_or_else(|| Halt::Failed(nowhere())))
    }

    /// The line of the secondary index, and the block, without its text.
    pub fn next(&mut self, work: &mut Work) -> Result<Option<Block>, Halt> {
        loop {
            let Some(block) = self.any(work)? else {
                return Ok(None);
            };
            let number = self.seen;
            self.seen += 1;
            if number >= self.some.end {
                self.end = true;
                self.held = None;
                return Ok(None);
            }
            if number >= self.some.start {
                return Ok(Some(block));
            }
        }
    }

    fn any(&mut self, work: &mut Work) -> Result<Option<Block>, Halt> {
        loop {
            if (!self.near || self.end)
                && let Some(block) = self.held.take()
            {
                return Ok(Some(block));
            }
            if self.end {
                return Ok(None);
            }
            let there = match &mut self.lines {
                Lines::Ahead(lines) => lines.next(work)?,
                Lines::Back(lines) => lines.next(work)?,
            };
            let line = match &self.lines {
                _ if !there => {
                    self.end = true;
                    continue;
                }
                Lines::Ahead(lines) => lines.line(),
                Lines::Back(lines) => lines.line(),
            };
            let Some(block) = Block::read(line) else {
                continue;
            };
            let before = line < &self.from[..];
            let after = !self.to.is_empty() && line >= &self.to[..];
            match &self.lines {
                // What is looked for may be at the end of the last block that begins before it.
                Lines::Ahead(_) if before && self.near => self.held = Some(block),
                Lines::Ahead(_) if after => self.end = true,
                Lines::Ahead(_) => {
                    self.near = false;
                    if let Some(last) = self.held.replace(block) {
                        return Ok(Some(last));
                    }
                }
                Lines::Back(_) if after => {}
                Lines::Back(_) => {
                    self.end = before;
                    return Ok(Some(block));
                }
            }
        }
    }
}
