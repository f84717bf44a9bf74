//! Errors of requests.

use std::time::Duration;

use thiserror::Error;

use crate::source::SourceError;

/// The reason why a request failed, or why its body was interrupted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// The head of the response did not arrive in time.
    #[error("the server does not answer")]
    Timeout,
    /// The body of the response stalled for too long.
    #[error("the server stopped sending")]
    Silence,
    /// The guard permits none of the addresses of the host; the text names one of these addresses.
    #[error("{0}")]
    Private(String),
    /// Requests to this server are never sent, even if the guard permits them; the text contains
    /// the reason.
    #[error("{0}")]
    Refused(String),
    /// The request violates HTTP; the text names the rule.
    #[error("{0}")]
    Request(String),
    /// Connecting to the server failed.
    #[error("no connection to {server}: {why}")]
    Unreachable {
        /// Host and port.
        server: String,
        /// The error of the operating system.
        why: String,
    },
    /// The connection broke; the text says at which point.
    #[error("{0}")]
    Connection(String),
    /// The server's certificate is not valid for this system; the text contains the reason.
    #[error("its certificate is not trusted ({0})")]
    Untrusted(String),
    /// The response is invalid; the text contains the reason.
    #[error("{0}")]
    Answer(String),
    /// The response exceeds the limit, which the text names.
    #[error("{0}")]
    TooLarge(String),
    /// The file changed after its first response; the text says how this was detected.
    #[error("the file changed while it was read: {0}")]
    Changed(String),
    /// The server answered with an HTTP status that means failure.
    #[error("HTTP status {status}")]
    Status {
        /// The status.
        status: u16,
        /// The time until the next attempt that the server asks for (`Retry-After`), if any.
        wait: Option<Duration>,
    },
}

impl From<Error> for SourceError {
    fn from(error: Error) -> SourceError {
        match error {
            Error::Timeout | Error::Silence => SourceError::Timeout,
            Error::Private(why) => SourceError::Forbidden(format!(
                "{why}; `allow_private` in the configuration lists addresses that are allowed anyway"
            )),
            Error::Refused(why) => SourceError::Forbidden(why),
            Error::Request(why) => SourceError::Unsupported(why),
            Error::Unreachable { .. } | Error::Connection(_) | Error::Untrusted(_) => {
                SourceError::Connection(error.to_string())
            }
            Error::Answer(why) => SourceError::Answer(why),
            Error::TooLarge(why) => SourceError::TooLarge(why),
            Error::Changed(_) => SourceError::Changed(error.to_string()),
            Error::Status { status, .. } => SourceError::Status(status),
        }
    }
}

/// Returns the text of the innermost error, which names the actual cause.
pub(super) fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
