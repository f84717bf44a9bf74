//! Ordered rows of many sources as one.

use std::cmp::Ordering;

use futures_util::stream::{self, BoxStream, StreamExt};

use crawlspace_archive::row::Row;
use crawlspace_archive::sorted::Order;
use crawlspace_archive::source::Batch;

/// Number of rows that ends a batch; a batch ends earlier when the next row has to be waited for.
const BATCH: usize = 512;

/// Rows of one source, in order. The stream cannot fail: its maker has handled errors.
pub(crate) type Ordered = BoxStream<'static, Batch>;

/// Merges streams that are in that order. Of rows that are equal in it, those of an earlier stream come first.
///
/// No row leaves before every stream has given a batch or has ended; of each stream one batch is kept.
pub fn merge(streams: Vec<Ordered>, order: Order) -> Ordered {
    let mut streams = streams;
    if streams.len() <= 1 {
        return streams.pop().unwrap_or_else(|| stream::empty().boxed());
    }
    let heads = streams.into_iter().map(Head::new).collect();
    stream::unfold(Merge { heads, order }, |mut merge| async move {
        let batch = merge.next().await;
        (!batch.is_empty()).then_some((batch, merge))
    })
    .boxed()
}

struct Merge {
    /// Streams that have more rows, in their order.
    heads: Vec<Head>,
    order: Order,
}

struct Head {
    /// What is left of a batch.
    rows: std::vec::IntoIter<Row>,
    stream: Ordered,
}

impl Head {
    fn new(stream: Ordered) -> Head {
        Head {
            rows: Vec::new().into_iter(),
            stream,
        }
    }

    fn first(&self) -> Option<&Row> {
        self.rows.as_slice().first()
    }
}

impl Merge {
    /// Empty at the end.
    async fn next(&mut self) -> Batch {
        let mut out = Batch::new();
        while out.len() < BATCH {
            if self.heads.iter().any(|head| head.first().is_none()) {
                // What is ready is not held back for a source that has to be waited for.
                if !out.is_empty() {
                    break;
                }
                self.fill().await;
            }
            let order = self.order;
            let mut best: Option<(usize, &Row)> = None;
            let mut second: Option<&Row> = None;
            for (at, head) in self.heads.iter().enumerate() {
                let Some(row) = head.first() else { continue };
                match best {
                    Some((_, first)) if order.compare(row, first) == Ordering::Less => {
                        second = Some(first);
                        best = Some((at, row));
                    }
                    Some(_) => match second {
                        Some(other) if order.compare(row, other) != Ordering::Less => {}
                        _ => second = Some(row),
                    },
                    None => best = Some((at, row)),
                }
            }
            let Some((at, _)) = best else { break };
            // Sources have runs: as long as its rows come before all others, no other one needs a look.
            let second = second.cloned();
            let head = &mut self.heads[at];
            out.extend(head.rows.next());
            while let (Some(row), true) = (head.first(), out.len() < BATCH) {
                let before = second
                    .as_ref()
                    .is_none_or(|s| order.compare(row, s) == Ordering::Less);
                if !before {
                    break;
                }
                out.extend(head.rows.next());
            }
        }
        out
    }

    /// Waits until every stream has a row, and drops those that have ended.
    async fn fill(&mut self) {
        let waiting = self.heads.iter_mut().map(|head| async move {
            while head.first().is_none() {
                match head.stream.next().await {
                    Some(batch) => head.rows = batch.into_iter(),
                    None => return,
                }
            }
        });
        futures_util::future::join_all(waiting).await;
        self.heads.retain(|head| head.first().is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use crawlspace_archive::timestamp::Timestamp;
    use futures_util::FutureExt;
    use proptest::prelude::*;

    fn row(key: u8, time: u32, source: usize) -> Row {
        let line = format!(
            "com,{key:02})/ {} {{\"source\": \"{source}\"}}",
            20000101000000 + u64::from(time)
        );
        Row::new(Bytes::from(line)).unwrap()
    }

    fn orders() -> impl Strategy<Value = Order> {
        let moment = (0..60_u32).prop_map(|second| {
            let digits = (20000101000000 + u64::from(second)).to_string();
            Order::Closest(Timestamp::earliest(digits.as_bytes()).unwrap())
        });
        prop_oneof![Just(Order::Ascending), Just(Order::Descending), moment]
    }

    proptest! {
        #[test]
        fn it_is_what_sorting_gives(
            sources in proptest::collection::vec(
                proptest::collection::vec((0..4_u8, 0..60_u32, 1..4_usize), 0..12), 0..6),
            order in orders(),
        ) {
            let mut all = Vec::new();
            let streams = sources.iter().enumerate().map(|(number, rows)| {
                let mut rows: Vec<_> = rows.iter().map(|&(key, time, cut)| (row(key, time, number), cut)).collect();
                rows.sort_by(|(a, _), (b, _)| order.compare(a, b));
                let mut batches = vec![Batch::new()];
                for (row, cut) in rows {
                    all.push(row.clone());
                    batches.last_mut().unwrap().push(row);
                    if cut == 1 {
                        batches.push(Batch::new());
                    }
                }
                stream::iter(batches).boxed()
            }).collect();
            let merged: Vec<Row> = merge(streams, order)
                .map(stream::iter).flatten().collect().now_or_never().unwrap();
            all.sort_by(|a, b| order.compare(a, b));
            prop_assert_eq!(merged, all);
        }
    }

    #[test]
    fn no_row_leaves_before_every_source_has_answered() {
        let waiting = stream::pending::<Batch>().boxed();
        let ready = stream::iter([vec![row(1, 1, 0)]]).boxed();
        let mut merged = merge(vec![ready, waiting], Order::Ascending);
        assert!(merged.next().now_or_never().is_none());
    }

    #[test]
    fn what_is_ready_is_not_held_back() {
        let first = stream::iter([vec![row(1, 1, 0)]])
            .chain(stream::pending())
            .boxed();
        let second = stream::iter([vec![row(2, 1, 1)]]).boxed();
        let mut merged = merge(vec![first, second], Order::Ascending);
        let batch = merged.next().now_or_never().flatten().unwrap();
        assert_eq!(batch, [row(1, 1, 0)]);
        assert!(
            merged.next().now_or_never().is_none(),
            "the first may have another one before"
        );
    }
}
