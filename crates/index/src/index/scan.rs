//! Merges the rows of many files into one stream.

use std::cmp::Ordering;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as Memory};

use super::cursor::Cursor;
use super::files::Files;
use crate::loser_tree::LoserTree;
use crate::row::member;
use crate::sorted::Order;
use crate::sorted::disorder::Disorder;
use crate::sorted::line::{Shape, Writer};
use crate::sorted::steps::{Rows, batches, pause};
use crate::source::{Batches, SourceError};
use crate::zipnum::cluster::block::Block;

/// Size of the first batch of rows, in bytes; later batches are larger.
const FIRST_BATCH: usize = 16 << 10;
/// Maximum size of a batch of rows, in bytes.
const MAX_BATCH: usize = 256 << 10;
/// Number of blocks that are listed in a batch.
const BLOCKS: usize = 1000;

impl Files {
    /// Streams up to `at_most` rows of all files, in the order of the query. Adds the number of invalid lines to
    /// `broken`, and files whose lines are out of order to `disorder`.
    pub fn rows(
        self,
        writer: Writer,
        at_most: Option<u64>,
        broken: Arc<AtomicU64>,
        disorder: Arc<Disorder>,
    ) -> Batches {
        batches(writer, |rows| {
            scan(
                Box::new(self),
                at_most.unwrap_or(u64::MAX),
                rows,
                broken,
                disorder,
            )
        })
    }

    /// Streams a row for each matching block of the clusters.
    pub fn blocks_as_rows(mut self, writer: Writer) -> Batches {
        batches(writer, |rows| async move {
            while let Some(mut blocks) = self.blocks().await? {
                while let Some(block) = blocks.next().await? {
                    push(&block, &rows);
                    if rows.lock().size().0 >= BLOCKS {
                        pause().await;
                    }
                }
            }
            Ok(())
        })
    }
}

/// The cursors of a scan. A cursor is dropped at its end, which frees its memory and closes its file.
struct Cursors {
    order: Order,
    all: Vec<Option<Cursor>>,
    broken: Arc<AtomicU64>,
}

async fn scan(
    mut files: Box<Files>,
    at_most: u64,
    rows: Rows,
    broken: Arc<AtomicU64>,
    disorder: Arc<Disorder>,
) -> Result<(), SourceError> {
    let mut cursors = Cursors {
        order: files.order,
        all: Vec::new(),
        broken,
    };
    let gaps = files.gaps.clone();
    let skip = |error: SourceError| match &gaps {
        Some(gaps) => {
            gaps.add(error);
            Ok(())
        }
        None => Err(error),
    };
    loop {
        // Boxed, because this future is larger than all other futures, and smaller allocations are
        // cheaper.
        let begun = match Box::pin(files.cursors()).await {
            Ok(Some(begun)) => begun,
            Ok(None) => break,
            Err(error) if files.skips(&error) => {
                skip(error)?;
                continue;
            }
            Err(error) => return Err(error),
        };
        let missed = gaps.as_ref().map_or(0, |gaps| gaps.len());
        let mut found = false;
        for cursor in begun {
            cursors.all.push(Some(cursor));
            let last = cursors.all.len() - 1;
            match cursors.next(last).await {
                Ok(true) => found = true,
                Ok(false) => _ = cursors.all.pop(),
                Err(error) if files.skips(&error) => {
                    cursors.all.pop();
                    skip(error)?;
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(gaps) = gaps.as_ref().filter(|gaps| found || gaps.len() == missed) {
            gaps.read();
        }
    }
    let mut tree = LoserTree::new(cursors.all.len(), |a, b| cursors.comes_first(a, b));
    let (mut left, mut full) = (at_most, FIRST_BATCH);
    // Distance of the last row from the requested time.
    let mut distance = 0;
    while left > 0
        && let Some(Some(cursor)) = cursors.all.get(tree.winner())
    {
        let is_full = {
            let mut writer = rows.lock();
            let before = writer.last();
            let follows = match cursors.order {
                Order::Ascending => before <= cursor.both(),
                Order::Descending => before.is_empty() || cursor.both() <= before,
                Order::Closest(_) => distance <= cursor.distance(),
            };
            if !follows {
                disorder.note(cursor.path());
            }
            distance = cursor.distance();
            let line = cursor.line();
            if writer.size().0 == 0 {
                writer.expect(match full {
                    FIRST_BATCH => line.len() * 2 + 256,
                    full => full + line.len() * 2,
                });
            }
            if writer.push(line, cursor.shape(), cursor.package) {
                left -= 1;
            } else {
                cursors.broken.fetch_add(1, Memory::Relaxed);
            }
            writer.size().1 >= full
        };
        if is_full {
            full = (full * 4).min(MAX_BATCH);
            pause().await;
        }
        if left > 0 {
            if let Err(error) = cursors.next(tree.winner()).await {
                cursors.end(tree.winner());
                skip(error)?;
            }
            tree.replay(|a, b| cursors.comes_first(a, b));
        }
    }
    match gaps.and_then(|gaps| gaps.only()) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

impl Cursors {
    /// Advances a cursor. Returns false at the end of the cursor.
    async fn next(&mut self, which: usize) -> Result<bool, SourceError> {
        let Some(place) = self.all.get_mut(which) else {
            return Ok(false);
        };
        let there = match place {
            Some(cursor) => cursor.next().await?,
            None => false,
        };
        if !there && let Some(ended) = place.take() {
            self.broken.fetch_add(ended.broken(), Memory::Relaxed);
        }
        Ok(there)
    }

    /// Drops a cursor after a failed read.
    fn end(&mut self, which: usize) {
        if let Some(ended) = self.all.get_mut(which).and_then(Option::take) {
            self.broken.fetch_add(ended.broken(), Memory::Relaxed);
        }
    }

    fn comes_first(&self, one: usize, other: usize) -> bool {
        let (Some(Some(a)), Some(b)) = (self.all.get(one), self.all.get(other)) else {
            return false;
        };
        let Some(b) = b else {
            return true;
        };
        let ascending = || a.both().cmp(b.both()).then(one.cmp(&other));
        let order = match self.order {
            Order::Ascending => ascending(),
            Order::Descending => ascending().reverse(),
            Order::Closest(_) => a.distance().cmp(&b.distance()).then_with(ascending),
        };
        order == Ordering::Less
    }
}

impl Drop for Cursors {
    fn drop(&mut self) {
        let broken: u64 = self.all.iter().flatten().map(Cursor::broken).sum();
        self.broken.fetch_add(broken, Memory::Relaxed);
    }
}

/// Adds a row for a line of a secondary index.
fn push(block: &Block, rows: &Rows) {
    let mut members = String::new();
    member("part", &block.part, &mut members);
    let number = block.number.map(|number| ("lineno", number));
    let all = [
        Some(("offset", block.offset)),
        Some(("length", block.length)),
        number,
    ];
    for (name, value) in all.into_iter().flatten() {
        // Writing to a string cannot fail.
        let _ = write!(members, ", \"{name}\": {value}");
    }
    let mut line = block.begin.to_vec();
    line.extend_from_slice(format!(" {{{members}}}").as_bytes());
    if let Some(shape) = Shape::of(&line) {
        rows.lock().push(&line, shape, 0);
    }
}
