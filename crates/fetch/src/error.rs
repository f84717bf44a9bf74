//! Why a request has no answer.

use thiserror::Error;

use crate::source::SourceError;

/// Why a request has no answer, or no more of it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// No head of an answer came in time.
    #[error("the server does not answer")]
    Timeout,
    /// The body of an answer did not go on in time.
    #[error("the server stopped sending")]
    Silence,
    /// The guard permits none of the addresses of the host; the text says which it has.
    #[error("{0}")]
    Private(String),
    /// No request goes there, whatever the guard permits; the text says why.
    #[error("{0}")]
    Refused(String),
    /// The request breaks a rule of HTTP; the text says which.
    #[error("{0}")]
    Request(String),
    /// No connection to the server came about.
    #[error("no connection to {server}: {why}")]
    Unreachable {
        /// Host and port.
        server: String,
        /// What the system says.
        why: String,
    },
    /// The connection broke; the text says when.
    #[error("{0}")]
    Connection(String),
    /// The server's certificate is not valid for this system; the text says why.
    #[error("its certificate is not valid here ({0})")]
    Untrusted(String),
    /// The answer is not what it should be; the text says why.
    #[error("{0}")]
    Answer(String),
    /// The answer is larger than the limit, which the text names.
    #[error("{0}")]
    TooLarge(String),
}

impl From<Error> for SourceError {
    fn from(error: Error) -> SourceError {
        match error {
            Error::Timeout | Error::Silence => SourceError::Timeout,
            Error::Private(why) => SourceError::Forbidden(format!(
                "{why}; `allow_private` in the configuration lists those that may be asked all the same"
            )),
            Error::Refused(why) => SourceError::Forbidden(why),
            Error::Request(why) => SourceError::Unsupported(why),
            Error::Unreachable { .. } | Error::Connection(_) | Error::Untrusted(_) => {
                SourceError::Connection(error.to_string())
            }
            Error::Answer(why) => SourceError::Answer(why),
            Error::TooLarge(why) => SourceError::TooLarge(why),
        }
    }
}

/// The error at the bottom, which says what happened.
pub(super) fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
