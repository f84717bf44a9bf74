//! How a server is to be reached.

#[cfg(feature = "tls")]
use std::path::PathBuf;
use std::time::Duration;

use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{ConnectionInfo, IntoConnectionInfo, RedisError};

#[cfg(feature = "tls")]
use super::tls::Tls;
use super::{AsyncServer, Error, Server};

/// Default timeout of a silent server. A job blocks its caller for as long as it takes, so it is ten minutes.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(600);
/// Default number of retries: with the shortest pauses they take 13 seconds, longer than a failover does
/// where `cluster-node-timeout` is five seconds.
const RETRIES: u32 = 9;
/// The longest pause between retries.
pub(super) const MAX_PAUSE: Duration = Duration::from_secs(5);
/// Timeout of a new connection.
pub(super) const CONNECT: Duration = Duration::from_secs(5);
/// One that was idle for longer has to prove that it still works before something is sent that cannot be sent
/// again.
pub(super) const IDLE: Duration = Duration::from_secs(10);
/// When a silent connection is looked after: a server that lost its power says nothing about that.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// How a server is to be reached.
///
/// ```no_run
/// use crawlspace_client::Server;
/// let server = Server::options("redis://db.example/")
///     .connections(8)
///     .retries(10)
///     .open()?;
/// # Ok::<(), crawlspace_client::Error>(())
/// ```
#[derive(Clone)]
pub struct Options {
    pub(super) url: String,
    pub(super) connections: Option<usize>,
    pub(super) timeout: Duration,
    pub(super) job_timeout: Duration,
    pub(super) retries: u32,
    /// The source of the jitter of pauses, from 0 to 1.
    pub(super) random: fn() -> f64,
    pub(super) only_one: bool,
    #[cfg(feature = "tls")]
    tls: Tls,
}

impl Options {
    pub(super) fn new(url: &str) -> Options {
        Options {
            url: url.to_owned(),
            connections: None,
            timeout: TIMEOUT,
            job_timeout: TIMEOUT,
            retries: RETRIES,
            random: crawlspace_retry::random,
            only_one: false,
            #[cfg(feature = "tls")]
            tls: Tls::default(),
        }
    }

    /// Maximum number of connections, to each server of a cluster. They are made as they are needed. For a
    /// [`Server`] it is how many calls may be under way at a time, 1 when it is not said. For an
    /// [`AsyncServer`] it is how many of those that wait may, beside the quick ones that share a connection,
    /// any number when it is not said. 0 counts as 1.
    pub fn connections(mut self, connections: usize) -> Options {
        self.connections = Some(connections.max(1));
        self
    }

    /// Timeout after which a server that is silent while a reply is due is taken for dead. The default is ten
    /// minutes, since a slow script may keep it busy.
    pub fn timeout(mut self, timeout: Duration) -> Options {
        self.timeout = timeout;
        self
    }

    /// Timeout of a silent server for calls that wait for something, and for jobs, which keep their caller for as
    /// long as they take. The default is ten minutes. A job that takes longer is asked for again, which attaches
    /// to it.
    pub fn job_timeout(mut self, timeout: Duration) -> Options {
        self.job_timeout = timeout;
        self
    }

    /// Maximum number of retries of a call that may be sent again. The pauses before them double from 200 ms to
    /// five seconds; each is shortened by up to a half, at random, so that clients do not return all at once. The
    /// default is 9, which takes 13 to 26 seconds: longer than the failover of a cluster whose
    /// `cluster-node-timeout` is five seconds. For one of 15 seconds take 14.
    pub fn retries(mut self, retries: u32) -> Options {
        self.retries = retries;
        self
    }

    /// One connection, which is never replaced: after it broke, or was silent for too long, every call fails.
    /// So nobody who got an answer has missed a restart of the server. It speaks to this one server alone,
    /// also where that is part of a cluster.
    pub fn only_one(mut self) -> Options {
        self.only_one = true;
        self.connections = Some(1);
        self
    }

    /// A file of certificates (PEM) of authorities that are trusted in place of those of the system. Only for
    /// servers at `rediss://…`.
    #[cfg(feature = "tls")]
    pub fn ca(mut self, file: impl Into<PathBuf>) -> Options {
        self.tls.ca = Some(file.into());
        self
    }

    /// Files (PEM) of the certificate and the key by which the server knows its client. Only for servers at
    /// `rediss://…`.
    #[cfg(feature = "tls")]
    pub fn client_certificate(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Options {
        self.tls.client = Some((certificate.into(), key.into()));
        self
    }

    /// Connects.
    ///
    /// # Errors
    /// When the URL is invalid, or the server cannot be reached.
    pub fn open(self) -> Result<Server, Error> {
        Server::with(self)
    }

    /// Connects a server whose calls are futures.
    ///
    /// # Errors
    /// When the URL is invalid, or the server cannot be reached.
    pub async fn open_async(self) -> Result<AsyncServer, Error> {
        AsyncServer::with(self).await
    }

    /// The URL as it may be shown.
    pub(super) fn shown(&self) -> String {
        without_password(&self.url)
    }

    pub(super) fn failed(&self, cause: RedisError) -> Error {
        Error::new(format!("connecting to {}", self.shown()), cause)
    }

    /// How to connect to the server that the caller named.
    pub(super) fn seed(&self) -> Result<ConnectionInfo, Error> {
        let info = self.url[..].into_connection_info();
        #[cfg(feature = "tls")]
        let info = info.and_then(|info| self.tls.apply(info));
        let info = info.map_err(|cause| self.failed(cause))?;
        let name = info.redis_settings().clone();
        let name = name.set_lib_name(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        let keepalive = TcpKeepalive::new()
            .with_time(KEEPALIVE)
            .with_interval(KEEPALIVE);
        let tcp = TcpSettings::default()
            .set_nodelay(true)
            .set_keepalive(keepalive);
        Ok(info.set_redis_settings(name).set_tcp_settings(tcp))
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the password that may be in the URL.
        f.debug_struct("Options")
            .field("url", &self.shown())
            .field("connections", &self.connections)
            .field("timeout", &self.timeout)
            .field("job_timeout", &self.job_timeout)
            .field("retries", &self.retries)
            .field("only_one", &self.only_one)
            .finish_non_exhaustive()
    }
}

/// Returns a URL without its user name, password and parameters, as it may be shown.
///
/// A login ends at the last `@`, since passwords can hold every character, and an invalid URL is shown by messages, too.
/// URLs of sockets have their passwords in their parameters.
///
/// ```
/// use crawlspace_client::server::without_password;
/// assert_eq!(without_password("redis://user:pass/word@db.example:6379/0"), "redis://db.example:6379/0");
/// assert_eq!(without_password("unix:///run/redis.sock?db=1&pass=word"), "unix:///run/redis.sock");
/// ```
pub fn without_password(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) if is_scheme(scheme) => (Some(scheme), rest),
        _ => (None, url),
    };
    let is_socket = url
        .split(':')
        .next()
        .is_some_and(|scheme| scheme.to_ascii_lowercase().ends_with("unix"));
    let rest = if is_socket {
        rest
    } else {
        rest.rsplit_once('@').map_or(rest, |(_, host)| host)
    };
    let place = rest.split(['?', '#']).next().unwrap_or_default();
    match scheme {
        Some(scheme) => format!("{scheme}://{place}"),
        None => place.to_owned(),
    }
}

/// Returns true for the scheme of a URL (RFC 3986, section 3.1), and false for a part of a login.
fn is_scheme(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.bytes().all(fits)
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
        for (url, shown) in [
            ("redis://:hidden/a@host:6379/0", "redis://host:6379/0"),
            ("redis://user:12/hidden@host/0", "redis://host/0"),
            ("redis://hidden@host/0", "redis://host/0"),
            ("redis://u:hidden%2Fa@host/0", "redis://host/0"),
            ("redis://:hidden?a#b@host/0", "redis://host/0"),
            ("redis://:hidden://a@host/0", "redis://host/0"),
            ("user:hidden://a@host/0", "host/0"),
            ("user:hidden@host:6379", "host:6379"),
            ("redis:/u:hidden@host/0", "host/0"),
            ("unix:///run/a@b.sock?pass=hidden@x", "unix:///run/a@b.sock"),
            (
                "redis+unix:///run/r.sock?db=1&pass=hidden",
                "redis+unix:///run/r.sock",
            ),
            ("unix:/run/r.sock?pass=hidden", "unix:/run/r.sock"),
            ("redis://host/?protocol=resp3", "redis://host/"),
            ("", ""),
        ] {
            assert_eq!(without_password(url), shown, "{url}");
        }
        let options = Options::new("redis://user:secret@host/");
        assert!(!format!("{options:?}").contains("secret"));
    }
}
