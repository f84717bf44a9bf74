//! How a server is to be reached.

use std::time::Duration;

use redis::{ConnectionInfo, IntoConnectionInfo};

use super::{Error, Server};

/// A job blocks its caller for as long as it takes, so this is a matter of minutes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);
/// How often something is sent again, and the pause before the first time.
const RETRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(200);

/// How a server is to be reached.
#[derive(Clone, Debug)]
pub struct Options {
    pub(super) url: String,
    pub(super) connections: usize,
    pub(super) patience: Duration,
    pub(super) retries: u32,
    pub(super) pause: Duration,
    pub(super) only_one: bool,
}

impl Options {
    pub(super) fn new(url: &str) -> Options {
        Options {
            url: url.to_owned(),
            connections: 1,
            patience: PATIENCE,
            retries: RETRIES,
            pause: PAUSE,
            only_one: false,
        }
    }

    /// Up to so many connections, to each server of a cluster: how many calls may be under way at a time.
    /// They are made as they are needed. 1 when it is not said; 0 counts as 1.
    pub fn connections(mut self, connections: usize) -> Options {
        self.connections = connections.max(1);
        self
    }

    /// A server that is silent for so long while a reply is due is taken for dead. Jobs keep their caller
    /// for as long as they take, so it is ten minutes when it is not said.
    pub fn patience(mut self, patience: Duration) -> Options {
        self.patience = patience;
        self
    }

    /// How often something that may be sent again is sent again, after pauses of 200, 400, 800 … milliseconds.
    /// 4 when it is not said.
    pub fn retries(mut self, retries: u32) -> Options {
        self.retries = retries;
        self
    }

    /// One connection, which is never replaced: after it broke, or was silent for too long, every call fails.
    /// So nobody who got an answer has missed a restart of the server. It speaks to this one server alone,
    /// also where that is part of a cluster.
    pub fn only_one(mut self) -> Options {
        self.only_one = true;
        self.connections = 1;
        self
    }

    /// Connects.
    ///
    /// # Errors
    /// When the URL is none, or nobody answers there.
    pub fn open(self) -> Result<Server, Error> {
        Server::with(self)
    }

    /// The URL as it may be shown.
    pub(super) fn shown(&self) -> String {
        without_password(&self.url)
    }

    pub(super) fn failed(&self, cause: redis::RedisError) -> Error {
        Error::new(format!("connecting to {}", self.shown()), cause)
    }

    pub(super) fn seed(&self) -> Result<ConnectionInfo, Error> {
        self.url[..]
            .into_connection_info()
            .map_err(|cause| self.failed(cause))
    }
}

/// An URL as it may be shown.
pub(crate) fn without_password(url: &str) -> String {
    match url
        .split_once("://")
        .and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?.1)))
    {
        Some((scheme, host)) => format!("{scheme}://{host}"),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        assert_eq!(
            without_password("redis://user:se@cret@host:6379/0"),
            "redis://host:6379/0"
        );
        assert_eq!(
            without_password("redis://host:6379/0"),
            "redis://host:6379/0"
        );
    }
}
