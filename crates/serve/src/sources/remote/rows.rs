//! Rows of servers whose order is unknown in advance.

use std::cmp::Ordering;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use tokio::time::Instant;

use crate::source::{Lookup, Rows};
use crawlspace_index::row::Row;
use crawlspace_index::sorted::Order;
use crawlspace_index::source::{Batch, Limits, SourceError};

/// Maximum number of rows of an answer that is sorted here.
const SORTED: usize = 2000;

/// A sequence of batches.
pub(super) trait Batched: Send + 'static {
    /// Returns the next rows, or `None` at the end. The batch is empty if nothing arrived by
    /// `until`.
    fn next(&mut self, until: Option<Instant>)
    -> BoxFuture<'_, Result<Option<Batch>, SourceError>>;
}

/// Returns the answer of a source. The rows are in order if they arrived in order or are few;
/// otherwise the caller must sort them.
///
/// Waits for the end of a small answer, but not longer than half of the timeout for the first row.
pub(super) async fn rows(
    mut batches: impl Batched,
    lookup: &Arc<Lookup>,
    limits: &Limits,
) -> Result<Rows, SourceError> {
    let order = lookup.order;
    let until = Instant::now() + limits.first / 2;
    let mut first: Batch = Vec::new();
    let mut is_whole = false;
    while first.len() < SORTED {
        // Before the first row, the caller's timeout applies.
        let patience = (!first.is_empty()).then_some(until);
        match batches.next(patience).await {
            Ok(Some(batch)) => first.extend(batch),
            Ok(None) => {
                is_whole = true;
                break;
            }
            Err(error) if first.is_empty() => return Err(error),
            // Returns the rows that arrived before the error.
            Err(error) => {
                sort(&mut first, order);
                let batches = stream::iter([Ok(first), Err(error)]).boxed();
                return Ok(Rows::whole(true, batches));
            }
        }
        if !first.is_empty() && Instant::now() >= until {
            break;
        }
    }
    let in_order = first.windows(2).all(|pair| match pair {
        [a, b] => order.compare(a, b) != Ordering::Greater,
        _ => true,
    });
    if is_whole {
        if !in_order {
            sort(&mut first, order);
        }
        let batches = stream::iter((!first.is_empty()).then_some(Ok(first)));
        return Ok(Rows::whole(true, batches.boxed()));
    }
    let checked = in_order.then_some(order);
    let mut last = first.last().cloned();
    let rest = stream::try_unfold(batches, |mut batches| async move {
        Ok(batches.next(None).await?.map(|batch| (batch, batches)))
    });
    let rest = rest.map(move |batch: Result<Batch, SourceError>| {
        let batch = batch?;
        if let Some(order) = checked {
            check(&batch, &mut last, order)?;
        }
        Ok(batch)
    });
    Ok(Rows::whole(
        in_order,
        stream::iter([Ok(first)]).chain(rest).boxed(),
    ))
}

fn sort(rows: &mut Batch, order: Order) {
    rows.sort_by(|a, b| order.compare(a, b));
}

/// Checks that the rows of a batch are in order, and sort after the last row of the previous batch.
fn check(batch: &Batch, last: &mut Option<Row>, order: Order) -> Result<(), SourceError> {
    for row in batch {
        if last
            .as_ref()
            .is_some_and(|last| order.compare(last, row) == Ordering::Greater)
        {
            let what = "its first rows were in order, but a later one was not";
            return Err(SourceError::Answer(what.to_owned()));
        }
        *last = Some(row.clone());
    }
    Ok(())
}
