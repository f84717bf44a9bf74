//! The text of the blocks of a cluster that can contain lines of a query.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::Cluster;
use super::block::Block;
use crate::sorted::lines::{Lines, Pieces, Stretch};
use crate::sorted::steps::spend;
use crate::source::{Gaps, SourceError};

/// Minimum size of a piece of a block that is returned, in bytes.
const PIECE: usize = 2 << 10;

/// The blocks of a cluster that can contain lines of a span, one after the other.
#[derive(Debug)]
pub(crate) struct Blocks {
    cluster: Arc<Cluster>,
    /// Lines of the secondary index. In forward direction, they start at a block that does not
    /// begin after the span; in backward direction, they start before a block that does not begin
    /// before the span.
    lines: Lines<Stretch>,
    from: Vec<u8>,
    to: Vec<u8>,
    /// The block that the look-behind holds, in forward direction only. While `near` is true, this is the last block
    /// that begins before the span, because its end may have the first matching lines. Afterwards, this is the first
    /// block of the span, until it is returned.
    held: Option<Block>,
    /// True until a block of the span has been found.
    near: bool,
    end: bool,
    /// Restricts the blocks to this range, by their number among the matching blocks.
    some: Range<u64>,
    seen: u64,
    /// The unread rest of the text of the current block.
    text: Bytes,
    /// Collects blocks that cannot be read; if `None`, the first such block is an error.
    gaps: Option<Arc<Gaps>>,
    /// The state of the search, if the secondary index is only a hint.
    hint: Option<Box<Hint>>,
    /// True if the text of the blocks is not cached.
    passing: bool,
    /// Timeout of a read on a server.
    patience: Option<Duration>,
}

/// The search in a cluster whose secondary index may be wrong by some lines or blocks. The search reads whole
/// blocks around the span, because only the text of a block shows which keys the block contains.
#[derive(Debug)]
struct Hint {
    /// Lines of the secondary index, read in the other direction.
    back: Lines<Stretch>,
    /// Lines of the secondary index that were passed over before the first block that is read, the
    /// nearest one last.
    passed: Vec<u8>,
    /// The line of the block after the blocks that were read to find the start.
    ahead: Option<Vec<u8>>,
    begun: bool,
    /// The text of blocks that were read in advance, that of the next block last.
    ready: Vec<Bytes>,
}

impl Blocks {
    /// Returns the blocks with lines from `from` on; `to` is the exclusive end, or empty.
    pub(crate) fn of(
        cluster: Arc<Cluster>,
        lines: Lines<Stretch>,
        back: Lines<Stretch>,
        from: &[u8],
        to: &[u8],
    ) -> Blocks {
        let hint = cluster.is_hinted().then(|| {
            Box::new(Hint {
                back,
                passed: Vec::new(),
                ahead: None,
                begun: false,
                ready: Vec::new(),
            })
        });
        Blocks {
            gaps: None,
            hint,
            passing: false,
            patience: None,
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

    /// Restricts the blocks to a range, by their number among the matching blocks.
    pub(crate) fn only(mut self, some: Range<u64>) -> Blocks {
        self.some = some;
        self
    }

    /// Sets the timeout of a read on a server.
    pub(crate) fn with_patience(mut self, patience: Option<Duration>) -> Blocks {
        self.patience = patience;
        self
    }

    /// Reads the blocks without caching them.
    pub(crate) fn passing(mut self) -> Blocks {
        self.passing = true;
        self
    }

    /// Skips blocks that cannot be read, and collects their errors in `gaps`.
    pub(crate) fn with_gaps(mut self, gaps: Option<&Arc<Gaps>>) -> Blocks {
        self.gaps = gaps.cloned();
        self
    }

    /// Returns the next block of the secondary index, without its text.
    ///
    /// # Errors
    /// Fails if the secondary index cannot be read.
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
                // The first matching lines may be at the end of the last block that begins before them.
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

    /// Reads the text of the next block, unless some text is still unread; returns false when no block is
    /// left. Omits the lines that come before the span in the direction of reading.
    async fn more(&mut self) -> Result<bool, SourceError> {
        while self.text.is_empty() {
            if let Some(mut hint) = self.hint.take() {
                let there = self.more_by_hint(&mut hint).await;
                self.hint = Some(hint);
                match there? {
                    Some(text) => self.text = text,
                    None => return Ok(false),
                }
                continue;
            }
            let Some(block) = self.next().await? else {
                return Ok(false);
            };
            let Some(text) = self.readable(&block).await? else {
                continue;
            };
            self.text = match self.lines {
                Lines::Forward(_) => text.slice(first_from(&text, &self.from)..),
                Lines::Backward(_) if self.to.is_empty() => text,
                Lines::Backward(_) => text.slice(..first_from(&text, &self.to)),
            };
        }
        Ok(true)
    }

    /// Returns the next text of the span, in the direction of reading.
    async fn more_by_hint(&mut self, hint: &mut Hint) -> Result<Option<Bytes>, SourceError> {
        let forward = matches!(self.lines, Lines::Forward(_));
        if !hint.begun {
            hint.begun = true;
            self.begin_by_hint(hint, forward).await?;
        }
        if let Some(text) = hint.ready.pop() {
            return Ok(Some(text));
        }
        while !self.end {
            let block = match hint.ahead.take() {
                Some(line) => Block::read(&line),
                None if self.lines.next().await? => Block::read(self.lines.line()),
                None => break,
            };
            let Some(block) = block else {
                continue;
            };
            let Some(text) = self.readable(&block).await? else {
                continue;
            };
            let (lines, before, behind) = self.cut(&text, forward);
            self.end = if forward { behind } else { before };
            if !lines.is_empty() {
                return Ok(Some(lines));
            }
        }
        self.end = true;
        Ok(None)
    }

    /// Finds the first block with lines of the span: the block that the secondary index names, and earlier ones until
    /// their text proves that no line of the span can come before them.
    async fn begin_by_hint(&mut self, hint: &mut Hint, forward: bool) -> Result<(), SourceError> {
        while self.lines.next().await? {
            let line = self.lines.line();
            let is_before = if forward {
                line < &self.from[..]
            } else {
                !self.to.is_empty() && line >= &self.to[..]
            };
            if forward && !is_before {
                // The first matching lines may be at the end of the previous block.
                hint.ahead = Some(line.to_vec());
            } else {
                hint.passed.extend_from_slice(line);
                hint.passed.push(b'\n');
            }
            if !is_before {
                break;
            }
        }
        while let Some(block) = hint.before().await? {
            let Some(text) = self.readable(&block).await? else {
                continue;
            };
            let (lines, before, behind) = self.cut(&text, forward);
            let (is_enough, ends) = if forward {
                (before, behind)
            } else {
                (behind, before)
            };
            self.end |= ends;
            hint.ready.push(lines);
            if is_enough {
                break;
            }
        }
        Ok(())
    }

    /// Cuts off the lines of a block that come before the span in the direction of reading. Also returns whether the
    /// block has lines before the span, and lines after it.
    fn cut(&self, text: &Bytes, forward: bool) -> (Bytes, bool, bool) {
        if forward {
            let begin = first_from(text, &self.from);
            let lines = text.strip_suffix(b"\n").unwrap_or(text);
            let last = memchr::memrchr(b'\n', lines).map_or(0, |feed| feed + 1);
            let is_after = |line: &[u8]| !self.to.is_empty() && line >= &self.to[..];
            let is_behind = is_after(&lines[last..]);
            // If the span has lines, keep the lines after them: they prove that later spans are empty.
            let end = if is_after(&text[begin..]) {
                begin
            } else {
                text.len()
            };
            return (text.slice(begin..end), begin > 0, is_behind);
        }
        let end = match &self.to[..] {
            b"" => text.len(),
            to => first_from(text, to),
        };
        let is_before = !text.is_empty() && text[..] < self.from[..];
        (text.slice(..end), is_before, end < text.len())
    }

    /// Returns the text of a block; `None` for an unreadable block that was recorded as a gap.
    async fn readable(&self, block: &Block) -> Result<Option<Bytes>, SourceError> {
        match (self.unpacked(block).await, &self.gaps) {
            (Err(SourceError::Changed(why)), _) => Err(SourceError::Changed(why)),
            (Err(error), Some(gaps)) => {
                gaps.add(error);
                Ok(None)
            }
            (text, _) => text.map(Some),
        }
    }

    async fn unpacked(&self, block: &Block) -> Result<Bytes, SourceError> {
        let mut last = None;
        let part = match &*block.part {
            "" => self.cluster.part(),
            part => part,
        };
        for part in self.cluster.parts.files(part).await? {
            let file = part.file();
            let text = match file.snapshot().await {
                Ok(Some(snapshot)) => {
                    let snapshot = snapshot.with_patience(self.patience);
                    let unpacked = &self.cluster.unpacked;
                    unpacked.text(&snapshot, block, !self.passing).await
                }
                Ok(None) => Err(self.cluster.lost(file.path())),
                Err(error) => Err(error),
            };
            part.note(text.is_ok());
            match text {
                // Another copy of the part may be intact.
                Err(error) => last = Some(error),
                text => return text,
            }
        }
        let nowhere = || SourceError::Io(format!("part {:?} was not found", block.part));
        Err(last.unwrap_or_else(nowhere))
    }
}

impl Hint {
    /// Returns the block before all blocks read so far, in the direction of reading.
    async fn before(&mut self) -> Result<Option<Block>, SourceError> {
        while self.passed.pop().is_some() {
            let begin = memchr::memrchr(b'\n', &self.passed).map_or(0, |feed| feed + 1);
            let block = Block::read(&self.passed[begin..]);
            self.passed.truncate(begin);
            if block.is_some() {
                return Ok(block);
            }
        }
        while self.back.next().await? {
            if let Some(block) = Block::read(self.back.line()) {
                return Ok(Some(block));
            }
        }
        Ok(None)
    }
}

/// Returns blocks in the direction in which the secondary index is read.
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

/// Returns the offset of the first line that does not come before `key`, in sorted lines.
fn first_from(text: &[u8], key: &[u8]) -> usize {
    // Invariant: `low` and `high` are starts of lines or the end of the text, and the line before `low` comes before
    // the key.
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
    fn line_is_found_in_any_position() {
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
