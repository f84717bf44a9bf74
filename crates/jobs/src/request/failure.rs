//! Why a server did not give what it was asked for, and whether it may do so later.

use std::time::Duration;

use super::super::Error;
use crawlspace_fetch as fetch;
use crawlspace_wacz::Problem;

/// What went wrong.
#[derive(Debug)]
pub(super) enum Failure {
    /// It may go well when it is tried again, after that time if the server says when.
    Transient(String, Option<Duration>),
    /// The server's answer is wrong, or says that it will not do it.
    Answer(String),
    /// Something that is not the server's fault.
    Own(Error),
}

impl Failure {
    /// An answer that cannot be right.
    pub(super) fn answer(what: impl Into<String>) -> Failure {
        Failure::Answer(what.into())
    }

    /// A connection that broke.
    pub(super) fn broken(why: String) -> Failure {
        Failure::Transient(why, None)
    }

    /// Puts `what` before the text of a failure of the server's answer; other failures stay as they are.
    pub(super) fn about(self, what: &str) -> Failure {
        match self {
            Failure::Answer(text) => Failure::Answer(format!("{what}: {text}")),
            other => other,
        }
    }

    /// The error that it is for whoever asked.
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
            // Its own text is about files.
            Problem::Answer(why) => Failure::Answer(why),
            problem => Failure::Answer(problem.to_string()),
        }
    }
}
