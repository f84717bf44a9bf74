//! Reasons of failures for clients. The detailed errors, with paths and addresses, are for the operator: in the log and
//! at `/_status`.

use std::fmt;

use super::resource::record::LoadError;
use crawlspace_index::source::SourceError;

/// Kind of a failure, in fixed words: without paths, addresses or messages of other servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum Reason {
    /// Timeout.
    Timeout,
    /// The source failed too often recently and is paused.
    Skipped,
    /// Connections to the address are forbidden.
    Refused,
    /// The connection failed or broke.
    Unreachable,
    /// Another server answered with an error status.
    Status(u16),
    /// Another server sent an unusable response.
    BadAnswer,
    /// The limit of rows or bytes is exceeded.
    Limit,
    /// The memory limit of this server is exhausted at the moment.
    Busy,
    /// A local file or database cannot be read.
    Unreadable,
    /// The answer lacks parts of the source.
    Incomplete,
    /// WARC files of the source are not indexed yet.
    Indexing,
    /// The source does not support this kind of query.
    Unsupported,
    /// No record is at the location that the index gives.
    NotFound,
    /// The record is invalid or belongs to another capture.
    BadRecord,
    /// The capture redirects to its own URL.
    SelfRedirect,
    /// The row lacks the fields that the loader needs.
    Unfit,
    /// The request cannot be forwarded.
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
            Reason::Indexing => "indexing",
            Reason::Unsupported => "unsupported query",
            Reason::NotFound => "not found",
            Reason::BadRecord => "invalid record",
            Reason::SelfRedirect => "a redirect to its own URL",
            Reason::Unfit => "no loader for this row",
            Reason::BadRequest => "request cannot be forwarded",
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
            SourceError::Indexing(_) => Reason::Indexing,
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
