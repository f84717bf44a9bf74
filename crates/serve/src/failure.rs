//! Errors of queries.

use super::access::AccessError;
use super::group::Unanswered;
use super::memory::Full;
use super::operations::{SORTED, Unsorted};
use super::query::BadQuery;
use super::reason::Reason;

/// The reason why a query has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// The query is invalid.
    #[error("{0}")]
    Query(#[from] BadQuery),
    /// The access point is unknown, or the tag space is unavailable.
    #[error("{0}")]
    Access(#[from] AccessError),
    /// The answer would need sorting, and has too many rows for it.
    #[error(
        "more than {SORTED} captures would have to be sorted: narrow the query with from, to or filter, or set limit"
    )]
    TooMany,
    /// The limits of all selected sources are exceeded.
    #[error(
        "every source exceeds max_bytes, max_rows or the maximum number of rows to sort: \
         narrow the query with from, to or filter, or set limit"
    )]
    TooMuch,
    /// The memory limit of all requests is exhausted at the moment.
    #[error("other requests use all the memory for requests: try again later")]
    Busy,
    /// The selected sources all failed.
    #[error("{0}")]
    Unanswered(Unanswered),
}

impl From<Unanswered> for Failure {
    /// Converts missing sources; if all of them exceed their limits, the client has to narrow the
    /// query.
    fn from(sources: Unanswered) -> Failure {
        if sources.all(Reason::Limit) {
            Failure::TooMuch
        } else {
            Failure::Unanswered(sources)
        }
    }
}

impl From<Full> for Failure {
    fn from(_: Full) -> Failure {
        Failure::Busy
    }
}

impl From<Unsorted> for Failure {
    fn from(unsorted: Unsorted) -> Failure {
        match unsorted {
            Unsorted::TooMany => Failure::TooMany,
            Unsorted::Full => Failure::Busy,
        }
    }
}
