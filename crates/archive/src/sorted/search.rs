//! Finding an offset in a sorted file.

use crate::lines::MAX_LINE;
use crate::sorted::Pieces;
use crate::sorted::file::Snapshot;
use crate::sorted::line::Shape;
use crate::sorted::lines::Forward;
use crate::sorted::pivots::Pivot;
use crate::sorted::steps::{Budget, Halt};

/// Size of the first read of a block, in bytes.
const PROBE: usize = 2 << 10;

/// A search for the first line that does not come before another one. It can be taken up again where it halted.
#[derive(Debug)]
pub(crate) struct Search {
    file: Snapshot,
    /// Blocks: the first line of one comes before what is looked for, that of the other does not.
    low: u64,
    high: u64,
    node: u64,
    /// Where these lines begin.
    low_at: u64,
    high_at: u64,
    probe: Option<Forward>,
    begin_of: BeginOf,
}

/// How many bytes of a line say where it belongs; `None` for a line that is none.
pub(crate) type BeginOf = fn(&[u8]) -> Option<usize>;

/// Where the place is: a line begins at each of both, or the file ends there, and what is looked for begins after
/// the first, or there, and not after the second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub after: u64,
    pub until: u64,
}

/// A line of an index: up to the blank after its timestamp.
pub(crate) fn capture(line: &[u8]) -> Option<usize> {
    Some(Shape::of(line)?.second + 1)
}

impl Search {
    pub(crate) fn new(file: Snapshot, begin_of: BeginOf) -> Search {
        Search {
            low: 0,
            high: file.pivots().blocks(),
            node: 1,
            low_at: 0,
            high_at: file.size(),
            probe: None,
            file,
            begin_of,
        }
    }

    pub(crate) fn file(&self) -> &Snapshot {
        &self.file
    }

    /// Runs the search to its end, or until `work` is used up; the next call continues it.
    pub(crate) fn run(&mut self, key: &[u8], budget: &mut Budget) -> Result<Bounds, Halt> {
        while self.high - self.low > 1 {
            let middle = self.low + (self.high - self.low) / 2;
            let (at, before) = match self.known(key) {
                Some(known) => known,
                None => self.look(middle, key, budget)?,
            };
            self.node = self.node.saturating_mul(2);
            if before {
                self.low = middle;
                self.low_at = at.unwrap_or(self.low_at);
                self.node += 1;
            } else {
                self.high = middle;
                self.high_at = at.unwrap_or(self.high_at);
            }
        }
        Ok(Bounds {
            after: self.low_at,
            until: self.high_at.max(self.low_at),
        })
    }

    /// What was seen before: where the first line from the middle on begins, and whether it comes before the key.
    fn known(&self, key: &[u8]) -> Option<(Option<u64>, bool)> {
        match self.file.pivots().get(self.node)? {
            Pivot::Nothing => Some((None, false)),
            // What is known of it may not be enough.
            Pivot::Line { begin, .. } if key.len() > begin.len() && key.starts_with(begin) => None,
            Pivot::Line { at, begin } => Some((Some(*at), **begin < *key)),
        }
    }

    #[cold]
    fn look(
        &mut self,
        middle: u64,
        key: &[u8],
        budget: &mut Budget,
    ) -> Result<(Option<u64>, bool), Halt> {
        let block = self.file.pivots().block();
        let end = self.high.saturating_mul(block).min(self.file.size());
        let probe = self.probe.get_or_insert_with(|| {
            // A line that begins right there has the end of the one before it in front of it.
            let at = (middle * block).saturating_sub(1);
            let pieces = Pieces::of(self.file.clone(), at);
            Forward::amid(pieces.up_to(end.saturating_add(MAX_LINE as u64)), PROBE)
        });
        let found = loop {
            if !probe.next(budget)? {
                break None;
            }
            let at = probe.offset();
            if at >= end {
                break None;
            }
            let line = probe.line();
            if let Some(begin) = (self.begin_of)(line) {
                let before = line < key;
                let begin = line.get(..begin).unwrap_or(line);
                self.file.pivots().put(self.node, Some((at, begin)));
                break Some((at, before));
            }
        };
        self.probe = None;
        Ok(match found {
            Some((at, before)) => (Some(at), before),
            None => {
                self.file.pivots().put(self.node, None);
                (None, false)
            }
        })
    }
}
