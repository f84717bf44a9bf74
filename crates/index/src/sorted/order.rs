//! The order of the rows of a query.

use std::cmp::Ordering;

use crate::row::Row;
use crate::timestamp::{self, Timestamp};

/// The order in which a query returns rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By urlkey, then by time.
    Ascending,
    /// The reverse of [`Order::Ascending`].
    Descending,
    /// By the distance in time, regardless of the urlkey. Rows at the same distance are in ascending order.
    Closest(Timestamp),
}

impl Order {
    /// Compares two rows.
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

/// Returns the seconds between a capture and a time. A capture with an invalid timestamp sorts last.
pub(crate) fn distance(row: &Row, moment: Timestamp) -> u64 {
    match Timestamp::earliest(row.timestamp()) {
        Some(captured) => captured.seconds().abs_diff(moment.seconds()),
        None => u64::MAX,
    }
}
