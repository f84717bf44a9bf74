//! Where in files a query begins.

use std::sync::Arc;

use super::super::super::query::Order;
use super::super::sorted::ahead::Ahead;
use super::super::sorted::back::Back;
use super::super::sorted::cursor::Cursor;
use super::super::sorted::scan::Start;
use super::super::sorted::Pieces;
use super::super::span::Span;
use super::super::work::{Halt, Work};
use super::handle::Entry;
use super::search::{capture, Search};

/// Files, and what is looked for in them.
pub(crate) struct Files {
    entries: Arc<[Arc<Entry>]>,
    next: usize,
    search: Option<Search>,
    span: Arc<Span>,
    order: Order,
    /// What is searched.
    key: Vec<u8>,
    /// As much is read of a file at first.
    piece: usize,
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
            search: None,
            key,
            piece: if entries.len() > 256 {
                4 << 10
            } else {
                8 << 10
            },
            entries,
            span,
            order,
        }
    }
}

impl Start for Files {
    fn next(&mut self, work: &mut Work) -> Result<Option<Vec<Cursor>>, Halt> {
        if self.span.is_empty() {
            return Ok(None);
        }
        let search = loop {
            if let Some(search) = &mut self.search {
                break search;
            }
            let Some(entry) = self.entries.get(self.next) else {
                return Ok(None);
            };
            let snapshot = entry.snapshot(work)?;
            self.next += 1;
            self.search = snapshot.map(|snapshot| Search::new(snapshot, capture));
        };
        let endless = self.order == Order::Descending && self.key.is_empty();
        let size = search.file().size();
        let (after, until) = if endless {
            (size, size)
        } else {
            let found = search.run(&self.key, work)?;
            (found.after, found.until)
        };
        let file = search.file().clone();
        self.search = None;
        let far = usize::try_from(until - after).unwrap_or(usize::MAX);
        let piece = far
            .saturating_add(1 << 10)
            .clamp(self.piece / 2, self.piece * 2);
        let ahead = |from: u64| Ahead::new(Pieces::of(file.clone(), from), piece);
        let back = |from: u64| Back::new(Pieces::of(file.clone(), from), piece);
        let (span, order) = (&self.span, self.order);
        Ok(Some(match order {
            Order::Ascending => vec![Cursor::ahead(ahead(after), span, order)],
            Order::Descending => vec![Cursor::back(back(until), span, order)],
            Order::Closest(_) => {
                let (earlier, later) = span.halves(&self.key);
                vec![
                    Cursor::runs(back(until), &earlier, order),
                    Cursor::ahead(ahead(after), &later, order),
                ]
            }
        }))
    }
}
