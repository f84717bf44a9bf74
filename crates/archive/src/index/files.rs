//! Where in files a query begins.

use std::ops::Range;
use std::sync::Arc;

use crate::index::cursor::Cursor;
use crate::index::scan::Start;
use crate::index::span::Span;
use crate::sorted::Order;
use crate::sorted::Pieces;
use crate::sorted::backward::Backward;
use crate::sorted::file::{NamedFile, Snapshot};
use crate::sorted::lines::Forward;
use crate::sorted::search::{BeginOf, Bounds, Search, capture};
use crate::sorted::steps::{Budget, Halt};
use crate::zipnum::cluster::line::begin_of as secondary;
use crate::zipnum::cluster::{Blocks, Cluster};

/// Files, and what is looked for in them.
pub struct Files {
    entries: Arc<[Arc<NamedFile>]>,
    next: usize,
    search: Option<(Search, Option<Arc<Cluster>>)>,
    span: Arc<Span>,
    order: Order,
    /// What is searched.
    key: Vec<u8>,
    /// As much is read of a file at first.
    piece: usize,
    some: Option<Range<u64>>,
}

impl Files {
    /// `split` is where a search for what is closest begins.
    pub fn new(
        entries: Arc<[Arc<NamedFile>]>,
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
            search: None,
            key,
            piece: if entries.len() > 256 {
                4 << 10
            } else {
                8 << 10
            },
            some: None,
            entries,
            span,
            order,
        }
    }
}

impl Files {
    /// Only some blocks of each cluster, by their number among those that the query is about.
    pub fn only(mut self, some: Range<u64>) -> Files {
        self.some = Some(some);
        self
    }

    /// The blocks of the next cluster, in ascending order.
    ///
    /// # Errors
    /// When a file cannot be read now, or not at all.
    pub fn blocks(&mut self, budget: &mut Budget) -> Result<Option<Blocks>, Halt> {
        while let Some(text) = self.find(budget)? {
            if let Some(cluster) = &text.cluster {
                return Ok(Some(text.blocks_forward(cluster, &self.span)));
            }
        }
        Ok(None)
    }

    /// Searches in the next file.
    fn find(&mut self, budget: &mut Budget) -> Result<Option<Text>, Halt> {
        if self.span.is_empty() {
            return Ok(None);
        }
        let (search, cluster) = loop {
            if let Some((search, cluster)) = &mut self.search {
                break (search, cluster);
            }
            let Some(entry) = self.entries.get(self.next) else {
                return Ok(None);
            };
            let snapshot = entry.snapshot(budget)?;
            self.next += 1;
            let cluster = entry.cluster().cloned();
            let begin_of = cluster.as_ref().map_or(capture as BeginOf, |_| secondary);
            self.search = snapshot.map(|snapshot| (Search::new(snapshot, begin_of), cluster));
        };
        let endless = self.order == Order::Descending && self.key.is_empty();
        let found = if endless {
            let end = search.file().size();
            Bounds {
                after: end,
                until: end,
            }
        } else {
            search.run(&self.key, budget)?
        };
        let text = Text {
            file: search.file().clone(),
            cluster: cluster.take(),
            piece: self.piece,
            found,
            some: self.some.clone(),
        };
        self.search = None;
        Ok(Some(text))
    }
}

impl Start for Files {
    fn next(&mut self, budget: &mut Budget) -> Result<Option<Vec<Cursor>>, Halt> {
        let Some(text) = self.find(budget)? else {
            return Ok(None);
        };
        let (span, order) = (&self.span, self.order);
        Ok(Some(match order {
            Order::Ascending => vec![Cursor::forward(text.forward(span), span, order)],
            Order::Descending => vec![Cursor::backward(text.backward(span), span, order)],
            Order::Closest(_) => {
                let (earlier, later) = span.halves(&self.key);
                vec![
                    Cursor::runs(text.backward(&earlier), &earlier, order),
                    Cursor::forward(text.forward(&later), &later, order),
                ]
            }
        }))
    }
}

/// A file, or a cluster with the file as its secondary index, and what was found there.
struct Text {
    file: Snapshot,
    cluster: Option<Arc<Cluster>>,
    piece: usize,
    found: Bounds,
    some: Option<Range<u64>>,
}

impl Text {
    /// Everything that comes after what was looked for, and perhaps a little before.
    fn forward(&self, span: &Span) -> Forward {
        match &self.cluster {
            Some(cluster) => {
                let blocks = self.blocks_forward(cluster, span);
                Forward::new(Pieces::Blocks(Box::new(blocks)), 0)
            }
            None => self.lines_forward(),
        }
    }

    fn lines_forward(&self) -> Forward {
        Forward::new(
            Pieces::of(self.file.clone(), self.found.after),
            self.piece(),
        )
    }

    fn blocks_forward(&self, cluster: &Arc<Cluster>, span: &Span) -> Blocks {
        let lines = self.lines_forward();
        let blocks = Blocks::forward(Arc::clone(cluster), lines, &span.from, &span.to);
        match &self.some {
            Some(some) => blocks.only(some.clone()),
            None => blocks,
        }
    }

    /// Everything that comes before, and perhaps a little after.
    fn backward(&self, span: &Span) -> Backward {
        let lines = Backward::new(
            Pieces::of(self.file.clone(), self.found.until),
            self.piece(),
        );
        let Some(cluster) = &self.cluster else {
            return lines;
        };
        let blocks = Blocks::backward(Arc::clone(cluster), lines, &span.from, &span.to);
        Backward::new(Pieces::Blocks(Box::new(blocks)), 0)
    }

    /// As much as is enough as a rule to have the first lines.
    fn piece(&self) -> usize {
        let far = self.found.until.saturating_sub(self.found.after);
        let far = usize::try_from(far).unwrap_or(usize::MAX);
        far.saturating_add(1 << 10)
            .clamp(self.piece / 2, self.piece * 2)
    }
}
