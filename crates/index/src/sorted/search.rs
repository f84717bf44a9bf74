//! Binary search for an offset in a sorted file.

use crate::lines::MAX_LINE;
use crate::sorted::file::Snapshot;
use crate::sorted::line::Shape;
use crate::sorted::lines::{Forward, Stretch};
use crate::sorted::pivots::Pivot;
use crate::source::SourceError;

/// Size of the first read of a block, in bytes.
const PROBE: usize = 2 << 10;

/// Returns the length of the part of a line that is compared with the key; `None` for an invalid line.
pub(crate) type BeginOf = fn(&[u8]) -> Option<usize>;

/// Bounds of an offset. Each bound is the start of a line or the end of the file. The first matching line begins at or
/// after `after`, and not after `until`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub after: u64,
    pub until: u64,
}

/// Returns the length of the urlkey and the timestamp of a line, including the blank after them.
pub(crate) fn capture(line: &[u8]) -> Option<usize> {
    Some(Shape::of(line)?.second + 1)
}

/// Finds the first line that does not come before `key`, by halving the blocks of the file.
pub(crate) async fn search(
    file: &Snapshot,
    begin_of: BeginOf,
    key: &[u8],
) -> Result<Bounds, SourceError> {
    let pivots = file.pivots();
    // Invariant: the first line of block `low` comes before the key, and the first line of block `high` does not.
    let (mut low, mut high) = (0, pivots.blocks());
    let mut bounds = Bounds {
        after: 0,
        until: file.size(),
    };
    let mut node: u64 = 1;
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let (at, before) = match known(pivots.get(node), key) {
            Some(known) => known,
            None => Box::pin(look(file, begin_of, key, node, middle..high)).await?,
        };
        node = node.saturating_mul(2);
        if before {
            low = middle;
            bounds.after = at.unwrap_or(bounds.after);
            node = node.saturating_add(1);
        } else {
            high = middle;
            bounds.until = at.unwrap_or(bounds.until);
        }
    }
    bounds.until = bounds.until.max(bounds.after);
    Ok(bounds)
}

/// Returns the cached result for a node: the offset of its first line, and whether that line comes before the key.
fn known(pivot: Option<&Pivot>, key: &[u8]) -> Option<(Option<u64>, bool)> {
    match pivot? {
        Pivot::Nothing => Some((None, false)),
        // The cached prefix of the line may be too short to decide.
        Pivot::Line { begin, .. } if key.len() > begin.len() && key.starts_with(begin) => None,
        Pivot::Line { at, begin } => Some((Some(*at), **begin < *key)),
    }
}

/// Reads the first line that begins in these blocks.
#[cold]
async fn look(
    file: &Snapshot,
    begin_of: BeginOf,
    key: &[u8],
    node: u64,
    blocks: std::ops::Range<u64>,
) -> Result<(Option<u64>, bool), SourceError> {
    let pivots = file.pivots();
    let end = blocks.end.saturating_mul(pivots.block()).min(file.size());
    // Start one byte before the block: if a line begins exactly at the start of the block, this byte is the
    // line feed before the line.
    let at = (blocks.start * pivots.block()).saturating_sub(1);
    let text = Stretch::of(file.clone(), at).up_to(end.saturating_add(MAX_LINE as u64));
    let mut lines = Forward::amid(text, PROBE);
    while lines.next().await? && lines.offset() < end {
        let (at, line) = (lines.offset(), lines.line());
        if let Some(begin) = begin_of(line) {
            pivots.put(node, Some((at, line.get(..begin).unwrap_or(line))));
            return Ok((Some(at), line < key));
        }
    }
    pivots.put(node, None);
    Ok((None, false))
}
