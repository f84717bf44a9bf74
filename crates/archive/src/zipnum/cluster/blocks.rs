//! The blocks of a cluster that a query is about, as text.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::Cluster;
use super::block::Block;
use crate::sorted::lines::{Lines, Pieces, Stretch};
use crate::sorted::steps::spend;
use crate::source::SourceError;

/// Minimum size of what is given at once of a block, in bytes.
const PIECE: usize = 2 << 10;

/// The blocks of a cluster that lines of a span can be in, one after the other.
#[derive(Debug)]
pub(crate) struct Blocks {
    cluster: Arc<Cluster>,
    /// Those of the secondary index. Forward they begin at one that is not after the span, backward before one that is
    /// not before it.
    lines: Lines<Stretch>,
    from: Vec<u8>,
    to: Vec<u8>,
    /// Forward: the last block that begins before the span, until there is one that does not, and that one.
    held: Option<Block>,
    /// No block of the span has been found yet.
    near: bool,
    end: bool,
    /// Of those that come, only these.
    some: Range<u64>,
    seen: u64,
    /// What is left of the block that is read.
    text: Bytes,
}

impl Blocks {
    /// Blocks with lines from `from` on, and before `to` unless that is empty.
    pub(crate) fn of(
        cluster: Arc<Cluster>,
        lines: Lines<Stretch>,
        from: &[u8],
        to: &[u8],
    ) -> Blocks {
        Blocks {
            cluster,
            lines,
            from: from.to_vec(),
            to: to.to_vec(),
            held: None,
            near: true,
            end: false,
            some: 0..u64::MAX,
            seen: 0,
            text: Bytes::new(),
        }
    }

    /// Only some of the blocks, by their number among those that the span is about.
    pub(crate) fn only(mut self, some: Range<u64>) -> Blocks {
        self.some = some;
        self
    }

    /// The next block as the secondary index has it, without its text.
    ///
    /// # Errors
    /// When the secondary index cannot be read.
    pub(crate) async fn next(&mut self) -> Result<Option<Block>, SourceError> {
        while let Some(block) = self.any().await? {
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
        Ok(None)
    }

    async fn any(&mut self) -> Result<Option<Block>, SourceError> {
        if !self.near
            && let Some(held) = self.held.take()
        {
            return Ok(Some(held));
        }
        while !self.end {
            if !self.lines.next().await? {
                break;
            }
            let line = self.lines.line();
            let Some(block) = Block::read(line) else {
                continue;
            };
            let before = line < &self.from[..];
            let after = !self.to.is_empty() && line >= &self.to[..];
            match self.lines {
                // What is looked for may be at the end of the last block that begins before it.
                Lines::Forward(_) if before && self.near => self.held = Some(block),
                Lines::Forward(_) if after => break,
                Lines::Backward(_) if after => {}
                Lines::Forward(_) => {
                    self.near = false;
                    let Some(last) = self.held.take() else {
                        return Ok(Some(block));
                    };
                    self.held = Some(block);
                    return Ok(Some(last));
                }
                Lines::Backward(_) => {
                    self.end = before;
                    return Ok(Some(block));
                }
            }
        }
        self.end = true;
        Ok(self.held.take())
    }

    /// Sees to it that there is text of a block; false when no block is left. Lines that come before the span in the
    /// direction of reading are left out.
    async fn more(&mut self) -> Result<bool, SourceError> {
        while self.text.is_empty() {
            let Some(block) = self.next().await? else {
                return Ok(false);
            };
            let text = self.unpacked(&block).await?;
            self.text = match self.lines {
                Lines::Forward(_) => text.slice(first_from(&text, &self.from)..),
                Lines::Backward(_) if self.to.is_empty() => text,
                Lines::Backward(_) => text.slice(..first_from(&text, &self.to)),
            };
        }
        Ok(true)
    }

    async fn unpacked(&self, block: &Block) -> Result<Bytes, SourceError> {
        let mut last = None;
        for part in self.cluster.parts.files(&block.part).await? {
            let file = part.file();
            let text = match file.snapshot().await {
                Ok(Some(snapshot)) => self.cluster.unpacked.text(&snapshot, block).await,
                Ok(None) => Err(SourceError::Io(format!(
                    "{}: there is no such file",
                    file.path().display()
                ))),
                Err(error) => Err(error),
            };
            part.note(text.is_ok());
            match text {
                // Perhaps it is whole at another place.
                Err(error) => last = Some(error),
                text => return text,
            }
        }
        let nowhere = || SourceError::Io(format!("part {:?} is in no file", block.part));
        Err(last.unwrap_or_else(nowhere))
    }
}

/// Blocks come in the direction in which the secondary index is read.
impl Pieces for Blocks {
    fn path(&self) -> &Path {
        &self.cluster.index
    }

    async fn after(&mut self, bytes: usize, into: &mut Vec<u8>) -> Result<bool, SourceError> {
        let there = self.more().await?;
        let bytes = bytes.max(PIECE).min(self.text.len());
        spend(bytes).await;
        into.extend_from_slice(&self.text.split_to(bytes));
        Ok(there)
    }

    async fn before(&mut self, bytes: usize, into: &mut Vec<u8>) -> Result<bool, SourceError> {
        let there = self.more().await?;
        let bytes = bytes.max(PIECE).min(self.text.len());
        spend(bytes).await;
        into.extend_from_slice(&self.text.split_off(self.text.len() - bytes));
        Ok(there)
    }
}

/// Where the first line begins that does not come before `key`, in lines that are in order.
fn first_from(text: &[u8], key: &[u8]) -> usize {
    // A line begins at both, or the text ends there; that before the first one comes before the key.
    let (mut low, mut high) = (0, text.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let begin = memchr::memrchr(b'\n', &text[low..middle]).map_or(low, |feed| low + feed + 1);
        let length = memchr::memchr(b'\n', &text[begin..high]);
        let end = length.map_or(high, |length| begin + length);
        if text[begin..end] < *key {
            low = (end + 1).min(high);
        } else {
            high = begin;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::first_from;

    #[test]
    fn a_line_is_found_wherever_it_is() {
        let lines: Vec<String> = (0..200)
            .map(|n| format!("{:03}{}", n * 5, "x".repeat(n % 7)))
            .collect();
        for count in [0, 1, 2, 3, 50, 200] {
            let text = lines[..count]
                .iter()
                .map(|line| format!("{line}\n"))
                .collect::<String>();
            for key in 0..1010 {
                let key = format!("{key:03}");
                let before = lines[..count].iter().take_while(|line| ***line < *key);
                let expected: usize = before.map(|line| line.len() + 1).sum();
                assert_eq!(
                    first_from(text.as_bytes(), key.as_bytes()),
                    expected,
                    "{count} {key}"
                );
            }
            assert_eq!(first_from(text.as_bytes(), b""), 0);
        }
    }
}
