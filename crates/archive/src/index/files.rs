//! Files of a query, and where in each it begins.

use std::ops::Range;
use std::sync::Arc;

use super::cursor::{Cursor, Text};
use super::entry::Entry;
use super::span::Span;
use crate::sorted::Order;
use crate::sorted::file::Snapshot;
use crate::sorted::lines::Direction::{self, Backward, Forward};
use crate::sorted::lines::{Lines, Pieces, Stretch};
use crate::sorted::search::{BeginOf, Bounds, capture, search};
use crate::source::SourceError;
use crate::zipnum::cluster::block::begin_of as secondary;
use crate::zipnum::cluster::{Blocks, Cluster};

/// Files, and what is looked for in them.
pub struct Files {
    entries: Arc<[Arc<Entry>]>,
    next: usize,
    span: Arc<Span>,
    pub(super) order: Order,
    /// What is searched.
    key: Vec<u8>,
    /// As much is read of a file at first.
    piece: usize,
    some: Range<u64>,
}

impl Files {
    /// `split` is where a search for what is closest begins.
    pub fn new(
        entries: Arc<[Arc<Entry>]>,
        span: Arc<Span>,
        order: Order,
        split: Option<Vec<u8>>,
    ) -> Files {
        let key = match (order, split) {
            (Order::Closest(_), Some(split)) => span.nearest(&split).to_vec(),
            (Order::Descending, _) => span.to.clone(),
            _ => span.from.clone(),
        };
        Files {
            next: 0,
            key,
            piece: if entries.len() > 256 {
                4 << 10
            } else {
                8 << 10
            },
            some: 0..u64::MAX,
            entries,
            span,
            order,
        }
    }

    /// Only some blocks of each cluster, by their number among those that the query is about.
    pub fn only(mut self, some: Range<u64>) -> Files {
        self.some = some;
        self
    }

    /// The cursors of the next file, which are before its first line; `None` after the last one.
    pub(super) async fn cursors(&mut self) -> Result<Option<Vec<Cursor>>, SourceError> {
        let Some(found) = self.find().await? else {
            return Ok(None);
        };
        let (span, order) = (&self.span, self.order);
        Ok(Some(match order {
            Order::Ascending => vec![Cursor::new(found.lines(Forward, span), span, order)],
            Order::Descending => vec![Cursor::new(found.lines(Backward, span), span, order)],
            Order::Closest(_) => {
                let (earlier, later) = span.halves(&self.key);
                vec![
                    Cursor::new(found.lines(Backward, &earlier), &earlier, order),
                    Cursor::new(found.lines(Forward, &later), &later, order),
                ]
            }
        }))
    }

    /// The blocks of the next cluster, in ascending order.
    pub(super) async fn blocks(&mut self) -> Result<Option<Blocks>, SourceError> {
        while let Some(found) = self.find().await? {
            if let Some(cluster) = &found.cluster {
                return Ok(Some(found.blocks(cluster, Direction::Forward, &self.span)));
            }
        }
        Ok(None)
    }

    /// Searches in the next file that is there.
    async fn find(&mut self) -> Result<Option<Found>, SourceError> {
        if self.span.is_empty() {
            return Ok(None);
        }
        while let Some(entry) = self.entries.get(self.next) {
            self.next += 1;
            let Some(file) = entry.file.snapshot().await? else {
                continue;
            };
            let endless = self.order == Order::Descending && self.key.is_empty();
            let bounds = if endless {
                let end = file.size();
                Bounds {
                    after: end,
                    until: end,
                }
            } else {
                let cluster = entry.cluster.as_ref();
                let begin_of = cluster.map_or(capture as BeginOf, |_| secondary);
                search(&file, begin_of, &self.key).await?
            };
            return Ok(Some(Found {
                file,
                cluster: entry.cluster.clone(),
                piece: self.piece,
                bounds,
                some: self.some.clone(),
            }));
        }
        Ok(None)
    }
}

/// A file, or a cluster with the file as its secondary index, and where in it a query begins.
struct Found {
    file: Snapshot,
    cluster: Option<Arc<Cluster>>,
    piece: usize,
    bounds: Bounds,
    some: Range<u64>,
}

impl Found {
    /// Everything that comes after what was looked for and perhaps a little before; backward, the other way round.
    fn lines(&self, direction: Direction, span: &Span) -> Lines<Text> {
        match &self.cluster {
            None => self.lines_of_file(direction, Text::File),
            Some(cluster) => {
                let blocks = self.blocks(cluster, direction, span);
                Lines::of(Text::Blocks(Box::new(blocks)), direction, self.piece / 2)
            }
        }
    }

    fn blocks(&self, cluster: &Arc<Cluster>, direction: Direction, span: &Span) -> Blocks {
        let lines = self.lines_of_file(direction, |file| file);
        Blocks::of(Arc::clone(cluster), lines, &span.from, &span.to).only(self.some.clone())
    }

    fn lines_of_file<P: Pieces>(
        &self,
        direction: Direction,
        text: impl FnOnce(Stretch) -> P,
    ) -> Lines<P> {
        let Bounds { after, until } = self.bounds;
        let at = match direction {
            Direction::Forward => after,
            Direction::Backward => until,
        };
        // As much as is enough as a rule to have the first lines.
        let far = usize::try_from(until.saturating_sub(after)).unwrap_or(usize::MAX);
        let piece = far.saturating_add(1 << 10);
        let piece = piece.clamp(self.piece / 2, self.piece * 2);
        Lines::of(text(Stretch::of(self.file.clone(), at)), direction, piece)
    }
}
