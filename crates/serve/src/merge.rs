//! Merges ordered rows of many sources.

use futures_util::stream::{self, BoxStream, StreamExt};

use crawlspace_index::LoserTree;
use crawlspace_index::row::Row;
use crawlspace_index::sorted::Order;
use crawlspace_index::source::Batch;

/// Maximum number of rows in a batch; a batch ends earlier if the next row is not available yet.
const BATCH: usize = 512;

/// Ordered rows of one source. The stream cannot fail: errors were handled by its creator.
pub(crate) type Ordered = BoxStream<'static, Batch>;

/// Merges streams sorted in `order`. Rows that compare as equal keep the order of their streams.
///
/// No row is returned before every stream has returned a batch or ended; one batch of each stream is
/// buffered.
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
    /// Streams, in the order given.
    heads: Vec<Head>,
    order: Order,
}

struct Head {
    /// Rest of the current batch.
    rows: std::vec::IntoIter<Row>,
    /// `None` once the stream has ended.
    stream: Option<Ordered>,
}

impl Head {
    fn new(stream: Ordered) -> Head {
        Head {
            rows: Vec::new().into_iter(),
            stream: Some(stream),
        }
    }

    fn first(&self) -> Option<&Row> {
        self.rows.as_slice().first()
    }

    fn has_to_wait(&self) -> bool {
        self.first().is_none() && self.stream.is_some()
    }

    /// Waits until a row is available or the stream has ended.
    async fn fill(&mut self) {
        while self.first().is_none()
            && let Some(stream) = &mut self.stream
        {
            match stream.next().await {
                Some(batch) => self.rows = batch.into_iter(),
                None => self.stream = None,
            }
        }
    }
}

impl Merge {
    /// Returns the next batch, which is empty at the end.
    async fn next(&mut self) -> Batch {
        let order = self.order;
        let before = |heads: &[Head], a: usize, b: usize| match (heads[a].first(), heads[b].first())
        {
            (Some(first), Some(second)) => order.compare(first, second).then(a.cmp(&b)).is_lt(),
            (first, _) => first.is_some(),
        };
        let heads = &mut self.heads;
        futures_util::future::join_all(heads.iter_mut().map(Head::fill)).await;
        let mut tree = LoserTree::new(heads.len(), |a, b| before(heads, a, b));
        let mut out = Batch::new();
        while let Some(row) = heads[tree.winner()].rows.next() {
            out.push(row);
            // Returns the available rows instead of waiting for a source that is not ready.
            if out.len() >= BATCH || heads[tree.winner()].has_to_wait() {
                break;
            }
            tree.replay(|a, b| before(heads, a, b));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use crawlspace_index::timestamp::Timestamp;
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
        fn merge_equals_sorting(
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
    fn no_row_is_sent_before_every_source_has_answered() {
        let waiting = stream::pending::<Batch>().boxed();
        let ready = stream::iter([vec![row(1, 1, 0)]]).boxed();
        let mut merged = merge(vec![ready, waiting], Order::Ascending);
        assert!(merged.next().now_or_never().is_none());
    }

    #[test]
    fn available_rows_are_not_held_back() {
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
