//! The order in which rows are wanted.

use std::cmp::Ordering;

use crate::row::Row;
use crate::timestamp::{self, Timestamp};

/// The order of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By urlkey, then time.
    Ascending,
    /// The other way round.
    Descending,
    /// By the distance in time, whatever the urlkey; of two that are as far, that which comes first when ascending.
    Closest(Timestamp),
}

impl Order {
    /// Which of two rows comes first.
    pub fn compare(self, a: &Row, b: &Row) -> Ordering {
        match self {
            Order::Ascending => ascending(a, b),
            Order::Descending => ascending(b, a),
            Order::Closest(moment) => {
                let by_distance = distance(a, moment).cmp(&distance(b, moment));
                by_distance.then_with(|| ascending(a, b))
            }
        }
    }
}

fn ascending(a: &Row, b: &Row) -> Ordering {
    let by_key = a.urlkey().cmp(b.urlkey());
    by_key.then_with(|| timestamp::compare(a.timestamp(), b.timestamp()))
}

/// Seconds between a capture and a moment. A capture without a time is further away than any other one.
pub(crate) fn distance(row: &Row, moment: Timestamp) -> u64 {
    match Timestamp::earliest(row.timestamp()) {
        Some(captured) => captured.seconds().abs_diff(moment.seconds()),
        None => u64::MAX,
    }
}
