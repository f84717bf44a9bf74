//! A connection that is made anew when it breaks, and the error that all families of commands have.

use std::fmt;
use std::io;
use std::time::Duration;

use redis::{ConnectionLike, ErrorKind, RedisError};

const CONNECT: Duration = Duration::from_secs(5);
/// A job blocks its caller for as long as it takes, so this is a matter of minutes.
pub(crate) const REPLY: Duration = Duration::from_secs(600);
/// How often a command is sent again after the connection broke, and the pause before the first time.
const RETRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(200);

/// Why a command failed.
#[derive(Debug)]
pub struct Error {
    pub(crate) doing: String,
    pub(crate) cause: RedisError,
}

impl Error {
    /// The code word that the server's error begins with: `NOCRAWL`, `STALE`, … `None` when it was not
    /// the server that refused.
    pub fn code(&self) -> Option<&str> {
        self.cause.code()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.doing)?;
        match (self.cause.code(), self.cause.detail()) {
            (_, Some(detail))
                if ["'DEDUPE.", "'CHG.", "'TAGS."]
                    .iter()
                    .any(|ours| detail.starts_with(&format!("unknown command {ours}"))) =>
            {
                f.write_str("the server has not loaded the Crawlspace module")
            }
            // The server's own words, which name the argument or key.
            (Some(code), Some(detail)) => write!(f, "{code} {detail}"),
            _ => self.cause.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

/// A connection to one server.
pub(crate) struct Connection {
    url: String,
    client: redis::Client,
    open: Option<redis::Connection>,
    /// How long it waits for a reply, and whether another one may take its place.
    patience: Duration,
    only_one: bool,
}

impl Connection {
    /// Connects to the server at `url` (`redis://host:port/db`, or `unix:///path`).
    pub(crate) fn open(url: &str) -> Result<Connection, Error> {
        Connection::with(url, REPLY, false)
    }

    /// The same for whoever has to know that nothing was lost between two calls: when this connection
    /// breaks, or is silent for so long, it is not made anew, and every call fails from then on.
    pub(crate) fn open_only_one(url: &str, patience: Duration) -> Result<Connection, Error> {
        Connection::with(url, patience, true)
    }

    fn with(url: &str, patience: Duration, only_one: bool) -> Result<Connection, Error> {
        let failed = |cause| Error {
            doing: format!("connecting to {}", without_password(url)),
            cause,
        };
        let client = redis::Client::open(url).map_err(failed)?;
        let mut connection = Connection {
            url: without_password(url),
            client,
            open: None,
            patience,
            only_one: false,
        };
        connection.connect().map_err(failed)?;
        connection.only_one = only_one;
        Ok(connection)
    }

    fn connect(&mut self) -> Result<&mut redis::Connection, RedisError> {
        if self.open.as_ref().is_none_or(|open| !open.is_open()) {
            if self.only_one {
                return Err(io::Error::from(io::ErrorKind::NotConnected).into());
            }
            let open = self.client.get_connection_with_timeout(CONNECT)?;
            open.set_read_timeout(Some(self.patience))?;
            open.set_write_timeout(Some(self.patience))?;
            self.open = Some(open);
        }
        match &mut self.open {
            Some(open) => Ok(open),
            None => unreachable!("connected above"),
        }
    }

    /// Sends something that may be sent twice, again and again while the connection breaks.
    pub(crate) fn retry<T>(
        &mut self,
        doing: &str,
        send: impl FnMut(&mut redis::Connection) -> Result<T, RedisError>,
    ) -> Result<T, Error> {
        self.send(doing, true, send)
    }

    /// Sends something that counts each time it arrives: not again after a connection that broke when it
    /// may have arrived.
    pub(crate) fn once<T>(
        &mut self,
        doing: &str,
        send: impl FnMut(&mut redis::Connection) -> Result<T, RedisError>,
    ) -> Result<T, Error> {
        self.send(doing, false, send)
    }

    fn send<T>(
        &mut self,
        doing: &str,
        may_arrive_twice: bool,
        mut send: impl FnMut(&mut redis::Connection) -> Result<T, RedisError>,
    ) -> Result<T, Error> {
        let mut pause = PAUSE;
        let mut left = RETRIES;
        loop {
            let (cause, again) = match self.connect().map(&mut send) {
                Ok(Ok(reply)) => return Ok(reply),
                Ok(Err(cause)) => {
                    let again = loading(&cause) || (may_arrive_twice && cause.is_io_error());
                    (cause, again)
                }
                // Nothing was sent yet.
                Err(cause) => {
                    let again = loading(&cause) || cause.is_io_error();
                    (cause, again)
                }
            };
            if cause.is_io_error() || loading(&cause) {
                self.open = None;
            }
            if !again || left == 0 || self.only_one {
                let doing = if cause.is_io_error() {
                    format!("{doing} at {}", self.url)
                } else {
                    doing.to_owned()
                };
                return Err(Error { doing, cause });
            }
            std::thread::sleep(pause);
            pause *= 2;
            left -= 1;
        }
    }
}

/// A server that is still reading its data from disk will answer in a moment.
fn loading(error: &RedisError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Server(redis::ServerErrorKind::BusyLoading)
    )
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

    #[test]
    fn a_broken_connection_is_not_replaced_where_it_is_the_only_one() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("redis://{}/", listener.local_addr().expect("an address"));
        let answers = std::thread::spawn(move || {
            let (mut peer, _) = listener.accept().expect("a connection");
            io::Write::write_all(&mut peer, b"+OK\r\n+OK\r\n").expect("it is open");
            // The greeting of the client, and then the end.
            let _ = io::Read::read(&mut peer, &mut [0; 1024]);
            drop(peer);
            listener
        });
        let mut only = Connection::open_only_one(&url, CONNECT).expect("somebody accepts");
        let listener = answers.join().expect("it ends");
        for _ in 0..2 {
            let failed = only.retry("PING", |c| redis::cmd("PING").query::<redis::Value>(c));
            let error = failed.expect_err("the peer has gone");
            assert!(error.cause.is_io_error(), "{error}");
        }
        listener.set_nonblocking(true).expect("it can");
        assert!(listener.accept().is_err(), "it connected again");
    }

    #[test]
    fn nobody_there_is_an_error_that_names_the_address() {
        let error = Connection::open("redis://127.0.0.1:1/")
            .err()
            .expect("nobody listens on port 1");
        assert!(
            error
                .to_string()
                .starts_with("connecting to redis://127.0.0.1:1/: "),
            "{error}"
        );
        assert_eq!(error.code(), None);
    }
}
