//! Why a query has no answer.

use super::access::AccessError;
use super::group::Unanswered;
use super::memory::Full;
use super::operations::{SORTED, Unsorted};
use super::query::BadQuery;
use super::reason::Reason;

/// Why a query has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// The query is wrong.
    #[error("{0}")]
    Query(#[from] BadQuery),
    /// The access point is unknown, or cannot be asked which rows may be seen.
    #[error("{0}")]
    Access(#[from] AccessError),
    /// There are more rows than are put into another order.
    #[error(
        "more than {SORTED} captures, which would have to be sorted: narrow the query by from, to or filter, or say \
         limit"
    )]
    TooMany,
    /// Every source that was asked exceeds its limits.
    #[error(
        "every source has more than its limits of bytes and rows (max_bytes, max_rows) or of rows to be sorted: narrow \
         the query by from, to or filter, or say limit"
    )]
    TooMuch,
    /// All requests together exceed the memory limit at the moment.
    #[error("other requests take all the memory that there is for them: ask again later")]
    Busy,
    /// No source that was asked answered.
    #[error("{0}")]
    Unanswered(Unanswered),
}

impl From<Unanswered> for Failure {
    /// Where there is too much of everything, that is for who asks to change.
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
