//! Failures of requests: transient ones, which may be retried, and permanent ones.

use std::time::Duration;

use super::super::Error;
use crawlspace_fetch as fetch;
use crawlspace_wacz::Problem;

/// A failure of a request.
#[derive(Debug)]
pub(super) enum Failure {
    /// A temporary failure, which may be retried, after this time if the server states one.
    Transient(String, Option<Duration>),
    /// An invalid response, or a permanent error of the server.
    Answer(String),
    /// An error on the client's side.
    Own(Error),
}

impl Failure {
    /// Creates the failure of an invalid response.
    pub(super) fn answer(what: impl Into<String>) -> Failure {
        Failure::Answer(what.into())
    }

    /// Creates the failure of a broken connection.
    pub(super) fn broken(why: String) -> Failure {
        Failure::Transient(why, None)
    }

    /// Prepends `what` to the text of an invalid response; other failures are unchanged.
    pub(super) fn about(self, what: &str) -> Failure {
        match self {
            Failure::Answer(text) => Failure::Answer(format!("{what}: {text}")),
            other => other,
        }
    }

    /// Converts the failure to an error for the caller.
    pub(super) fn into_error(self, url: &str) -> Error {
        let remote = |what| Error::Remote {
            url: url.to_owned(),
            what,
        };
        match self {
            Failure::Transient(what, _) | Failure::Answer(what) => remote(what),
            Failure::Own(error) => error,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Own(error)
    }
}

impl From<fetch::Error> for Failure {
    fn from(error: fetch::Error) -> Failure {
        match Problem::from(error) {
            Problem::Connection(how) => Failure::Transient(how, None),
            // Do not use the text of `Problem` here, because it mentions files.
            Problem::Answer(why) => Failure::Answer(why),
            problem => Failure::Answer(problem.to_string()),
        }
    }
}
