//! The blocks of a cluster that a query is about, as text.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::Cluster;
use super::line::Block;
use crate::sorted::backward::Backward;
use crate::sorted::lines::Forward;
use crate::sorted::steps::{Budget, Halt};
use crate::source::SourceError;

/// The blocks of a cluster that lines of a span can be in, one after the other.
#[derive(Debug)]
pub struct Blocks {
    cluster: Arc<Cluster>,
    lines: IndexLines,
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
enum IndexLines {
    Forward(Box<Forward>),
    Backward(Box<Backward>),
}

impl Blocks {
    /// Those from `from` on. The lines of the index begin at one that is not after it.
    pub(crate) fn forward(cluster: Arc<Cluster>, lines: Forward, from: &[u8], to: &[u8]) -> Blocks {
        Blocks::new(cluster, IndexLines::Forward(Box::new(lines)), from, to)
    }

    /// Those before `to`, the last one first. The lines of the index begin at one that is not before it.
    pub(crate) fn backward(
        cluster: Arc<Cluster>,
        lines: Backward,
        from: &[u8],
        to: &[u8],
    ) -> Blocks {
        Blocks::new(cluster, IndexLines::Backward(Box::new(lines)), from, to)
    }

    fn new(cluster: Arc<Cluster>, lines: IndexLines, from: &[u8], to: &[u8]) -> Blocks {
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
    pub(crate) fn text(&mut self, budget: &mut Budget, into: &mut Vec<u8>) -> Result<bool, Halt> {
        if self.waiting.is_none() {
            self.waiting = self.next(budget)?;
        }
        let Some(block) = &self.waiting else {
            return Ok(false);
        };
        let text = self.unpacked(block, budget)?;
        self.waiting = None;
        into.extend_from_slice(&text);
        Ok(true)
    }

    fn unpacked(&self, block: &Block, budget: &mut Budget) -> Result<Bytes, Halt> {
        let mut last = None;
        for part in self.cluster.parts.files(&block.part, budget)? {
            let file = part.file();
            let text = match file.snapshot(budget) {
                Ok(Some(snapshot)) => self.cluster.unpacked.text(&snapshot, block, budget),
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
        let nowhere = || SourceError::Io(format!("part {:?} is in no file", block.part));
        Err(last.unwrap_or_else(|| Halt::Failed(nowhere())))
    }

    /// The line of the secondary index, and the block, without its text.
    ///
    /// # Errors
    /// When the secondary index cannot be read now, or has no valid line.
    pub fn next(&mut self, budget: &mut Budget) -> Result<Option<Block>, Halt> {
        loop {
            let Some(block) = self.any(budget)? else {
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

    fn any(&mut self, budget: &mut Budget) -> Result<Option<Block>, Halt> {
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
                IndexLines::Forward(lines) => lines.next(budget)?,
                IndexLines::Backward(lines) => lines.next(budget)?,
            };
            let line = match &self.lines {
                _ if !there => {
                    self.end = true;
                    continue;
                }
                IndexLines::Forward(lines) => lines.line(),
                IndexLines::Backward(lines) => lines.line(),
            };
            let Some(block) = Block::read(line) else {
                continue;
            };
            let before = line < &self.from[..];
            let after = !self.to.is_empty() && line >= &self.to[..];
            match &self.lines {
                // What is looked for may be at the end of the last block that begins before it.
                IndexLines::Forward(_) if before && self.near => self.held = Some(block),
                IndexLines::Forward(_) if after => self.end = true,
                IndexLines::Forward(_) => {
                    self.near = false;
                    if let Some(last) = self.held.replace(block) {
                        return Ok(Some(last));
                    }
                }
                IndexLines::Backward(_) if after => {}
                IndexLines::Backward(_) => {
                    self.end = before;
                    return Ok(Some(block));
                }
            }
        }
    }
}
