//! Connection options.

#[cfg(feature = "tls")]
use std::path::PathBuf;
use std::time::Duration;

use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{ConnectionInfo, IntoConnectionInfo, RedisError};

#[cfg(feature = "tls")]
use super::tls::Tls;
use super::{AsyncServer, Error, Server};

/// Default timeout for a silent server. A job blocks its caller until it is done, so the timeout is
/// ten minutes.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(600);
/// Default number of retries. With the shortest pauses, nine retries take 13 seconds, which is
/// longer than a failover with a `cluster-node-timeout` of five seconds.
const RETRIES: u32 = 9;
/// Maximum pause between retries.
pub(super) const MAX_PAUSE: Duration = Duration::from_secs(5);
/// Timeout of a new connection.
pub(super) const CONNECT: Duration = Duration::from_secs(5);
/// Idle time after which a connection is tested before it is reused. On a dead connection, a call
/// that must not be sent twice would fail.
pub(super) const IDLE: Duration = Duration::from_secs(10);
/// Idle time before TCP keepalive probes. They detect a server that lost power, which does not
/// close its connections.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Options of a connection to a server.
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
    /// The source of jitter for pauses: returns a number from 0 to 1.
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

    /// Sets the maximum number of connections per server of a cluster. They are opened on demand.
    /// This is also the maximum number of concurrent calls of a [`Server`] (default 1), and of
    /// concurrent blocking calls of an [`AsyncServer`] (default unlimited); the fast calls of the
    /// latter share one more connection. 0 means 1.
    pub fn connections(mut self, connections: usize) -> Options {
        self.connections = Some(connections.max(1));
        self
    }

    /// Sets the timeout for a reply, after which a silent server is treated as dead. The default is
    /// ten minutes, because a slow script can keep a server busy.
    pub fn timeout(mut self, timeout: Duration) -> Options {
        self.timeout = timeout;
        self
    }

    /// Sets the timeout for blocking calls and for jobs, which block their caller until they are
    /// done. The default is ten minutes. For a job that takes longer, the client sends the command
    /// again, and then waits for the running job.
    pub fn job_timeout(mut self, timeout: Duration) -> Options {
        self.job_timeout = timeout;
        self
    }

    /// Sets the maximum number of retries of a repeatable call. The pauses between retries double
    /// from 200 ms to five seconds; random jitter shortens each pause by up to a half, so that
    /// clients do not all retry at the same time. The default of 9 takes 13 to 26 seconds: longer
    /// than the failover of a cluster whose `cluster-node-timeout` is five seconds. Use 14 for a
    /// timeout of 15 seconds.
    pub fn retries(mut self, retries: u32) -> Options {
        self.retries = retries;
        self
    }

    /// Uses a single connection that is never replaced: after it has broken or timed out, every
    /// call fails. A successful reply therefore proves that the server has not restarted since the
    /// connection was opened. The connection only talks to this server, even if it is part of a
    /// cluster.
    pub fn only_one(mut self) -> Options {
        self.only_one = true;
        self.connections = Some(1);
        self
    }

    /// Sets a PEM file of CA certificates, which are trusted instead of the system's. Only for
    /// servers at `rediss://…`.
    #[cfg(feature = "tls")]
    pub fn ca(mut self, file: impl Into<PathBuf>) -> Options {
        self.tls.ca = Some(file.into());
        self
    }

    /// Sets the PEM files of the client certificate and its key. Only for servers at `rediss://…`.
    #[cfg(feature = "tls")]
    pub fn client_certificate(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Options {
        self.tls.client = Some((certificate.into(), key.into()));
        self
    }

    /// Connects a blocking client.
    ///
    /// # Errors
    /// Fails when the URL is invalid, or the server cannot be reached.
    pub fn open(self) -> Result<Server, Error> {
        Server::with(self)
    }

    /// Connects an async client.
    ///
    /// # Errors
    /// Fails when the URL is invalid, or the server cannot be reached.
    pub async fn open_async(self) -> Result<AsyncServer, Error> {
        AsyncServer::with(self).await
    }

    /// Returns the URL without secrets, for messages.
    pub(super) fn shown(&self) -> String {
        without_password(&self.url)
    }

    pub(super) fn failed(&self, cause: RedisError) -> Error {
        Error::new(format!("connecting to {}", self.shown()), cause)
    }

    /// Returns the connection settings of the server that the caller specified.
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
        // Show the URL without its password.
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

/// Returns a URL without its user name, password and parameters, for messages.
///
/// Assumes that the user information ends at the last `@`, because passwords may contain any
/// character, and messages also show invalid URLs. URLs of Unix sockets contain the password in
/// their parameters.
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

/// Returns true if a string is the scheme of a URL (RFC 3986, section 3.1). Returns false if it is a
/// part of the user information.
fn is_scheme(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_is_never_shown() {
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
