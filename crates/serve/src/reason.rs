//! What clients are told of a failure. The whole reason, with paths and addresses, is for the operator: in the log,
//! and at `/_status`.

use std::fmt;

use super::resource::record::LoadError;
use crawlspace_index::source::SourceError;

/// The kind of a failure, in fixed words: no path, no address, no text of another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum Reason {
    /// The timeout ran out.
    Timeout,
    /// The source failed too often of late, and is not asked for a while.
    Skipped,
    /// The address is one that must not be connected to.
    Refused,
    /// No connection came about, or it broke.
    Unreachable,
    /// Another server answered with this HTTP status.
    Status(u16),
    /// Another server answered with what cannot be used.
    BadAnswer,
    /// There are more rows or bytes than may be.
    Limit,
    /// This server has no memory left for it at the moment.
    Busy,
    /// A file or database here cannot be read.
    Unreadable,
    /// Parts of the source are missing from the answer.
    Incomplete,
    /// The source cannot be asked a question of this kind.
    Unsupported,
    /// The record is not where it should be.
    NotFound,
    /// The record is invalid, or belongs to another capture.
    BadRecord,
    /// The capture redirects to its own URL.
    SelfRedirect,
    /// The row says nothing that the loader works with.
    Unfit,
    /// The request cannot be sent on.
    BadRequest,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Timeout => "timeout",
            Reason::Skipped => "skipped after too many failures",
            Reason::Refused => "refused by access rules",
            Reason::Unreachable => "unreachable",
            Reason::Status(status) => return write!(f, "HTTP status {status}"),
            Reason::BadAnswer => "bad answer",
            Reason::Limit => "limit exceeded",
            Reason::Busy => "busy, try again later",
            Reason::Unreadable => "unreadable",
            Reason::Incomplete => "incomplete, parts cannot be read",
            Reason::Unsupported => "unsupported query",
            Reason::NotFound => "not found",
            Reason::BadRecord => "invalid record",
            Reason::SelfRedirect => "a redirect to its own URL",
            Reason::Unfit => "no loader for this row",
            Reason::BadRequest => "request cannot be sent on",
        })
    }
}

impl From<&SourceError> for Reason {
    fn from(error: &SourceError) -> Reason {
        match error {
            SourceError::Timeout => Reason::Timeout,
            SourceError::Skipped => Reason::Skipped,
            SourceError::Forbidden(_) => Reason::Refused,
            SourceError::Connection(_) => Reason::Unreachable,
            SourceError::Status(status) => Reason::Status(*status),
            SourceError::Answer(_) => Reason::BadAnswer,
            SourceError::TooLarge(_) => Reason::Limit,
            SourceError::Io(_) | SourceError::Changed(_) => Reason::Unreadable,
            SourceError::Incomplete(_) => Reason::Incomplete,
            SourceError::Unsupported(_) => Reason::Unsupported,
            SourceError::Busy => Reason::Busy,
        }
    }
}

impl From<&LoadError> for Reason {
    fn from(error: &LoadError) -> Reason {
        match error {
            LoadError::Unfit(_) => Reason::Unfit,
            LoadError::Request(_) => Reason::BadRequest,
            LoadError::Missing(_) => Reason::NotFound,
            LoadError::Net(error) => Reason::from(error),
            LoadError::Record(_) => Reason::BadRecord,
            LoadError::SelfRedirect => Reason::SelfRedirect,
            LoadError::Limit(_) => Reason::Limit,
            LoadError::Io(_) => Reason::Unreadable,
        }
    }
}
