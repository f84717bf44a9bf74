//! The `DEDUPE.*` commands, with types in place of reply arrays.
//!
//! ```no_run
//! use crawlspace_client::dedupe::Index;
//! let mut index = Index::open("redis://127.0.0.1/", "")?;
//! let hash = &b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A"[..];
//! match &index.lookup(None, &[hash])?[0] {
//!     Some(original) => println!("stored by {}", String::from_utf8_lossy(&original.crawl)),
//!     None => println!("new"),
//! }
//! # Ok::<(), crawlspace_client::dedupe::Error>(())
//! ```

use std::fmt;
use std::time::Duration;

use redis::{
    Cmd, Connection, ConnectionLike, ErrorKind, FromRedisValue, Pipeline, RedisError, Value,
};
use serde::Serialize;

const CONNECT: Duration = Duration::from_secs(5);
/// A commit blocks its caller for as long as it takes, so this is a matter of minutes.
const REPLY: Duration = Duration::from_secs(600);
/// How often a command is sent again after the connection broke, and the pause before the first time.
const RETRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(200);

/// Why a command failed.
#[derive(Debug)]
pub struct Error {
    doing: String,
    cause: RedisError,
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
            (_, Some(detail)) if detail.starts_with("unknown command 'DEDUPE.") => {
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

/// The record that a hash was first stored with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    /// The crawl that stored it.
    pub crawl: Vec<u8>,
    /// Which of that crawl's WACZ files it is in.
    pub wacz_index: u64,
    /// When it was captured, in the form that the crawler gave: 14 digits, 17 digits or ISO.
    pub date: Vec<u8>,
    /// What was captured.
    pub url: Vec<u8>,
    /// Size of the `response` record in bytes.
    pub size: u64,
}

impl FromRedisValue for Original {
    fn from_redis_value(value: Value) -> Result<Self, redis::ParsingError> {
        let (crawl, wacz_index, date, url, size) = FromRedisValue::from_redis_value(value)?;
        Ok(Original {
            crawl,
            wacz_index,
            date,
            url,
            size,
        })
    }
}

/// A `response` record that was written.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // the arguments of DEDUPE.ADD, in its order
pub struct Added<'a> {
    pub hash: &'a [u8],
    pub wacz_index: u64,
    pub date: &'a [u8],
    pub url: &'a [u8],
    pub size: u64,
}

/// A `revisit` record that was written.
#[derive(Clone, Copy, Debug)]
pub struct Revisited<'a> {
    /// Hash of the payload that it stands for.
    pub hash: &'a [u8],
    /// Size of the `revisit` record in bytes.
    pub size: u64,
}

/// What a commit added to the merged index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Committed {
    /// Hashes that the index did not have.
    pub new: u64,
    /// Hashes that another crawl owns already.
    pub known: u64,
}

/// A dedupe index: the keys of one prefix on one server.
pub struct Index {
    url: String,
    client: redis::Client,
    connection: Option<Connection>,
    prefix: Vec<u8>,
}

impl Index {
    /// Connects to the server at `url` (`redis://host:port/db`, or `unix:///path`). `prefix` stands before
    /// every key of the index, and may be empty.
    ///
    /// # Errors
    /// When the URL is none, or nobody answers there.
    pub fn open(url: &str, prefix: impl Into<Vec<u8>>) -> Result<Index, Error> {
        let failed = |cause| Error {
            doing: format!("connecting to {}", without_password(url)),
            cause,
        };
        let client = redis::Client::open(url).map_err(failed)?;
        let mut index = Index {
            url: without_password(url),
            client,
            connection: None,
            prefix: prefix.into(),
        };
        index.connect().map_err(failed)?;
        Ok(index)
    }

    fn connect(&mut self) -> Result<&mut Connection, RedisError> {
        if self
            .connection
            .as_ref()
            .is_none_or(|connection| !connection.is_open())
        {
            let connection = self.client.get_connection_with_timeout(CONNECT)?;
            connection.set_read_timeout(Some(REPLY))?;
            connection.set_write_timeout(Some(REPLY))?;
            self.connection = Some(connection);
        }
        match &mut self.connection {
            Some(connection) => Ok(connection),
            None => unreachable!("connected above"),
        }
    }

    /// Sends something that may be sent twice, again and again while the connection breaks.
    fn retry<T>(
        &mut self,
        doing: &str,
        mut send: impl FnMut(&mut Connection) -> Result<T, RedisError>,
    ) -> Result<T, Error> {
        let mut pause = PAUSE;
        let mut left = RETRIES;
        loop {
            match self.connect().and_then(&mut send) {
                Ok(reply) => return Ok(reply),
                Err(cause) if left > 0 && (cause.is_io_error() || loading(&cause)) => {
                    self.connection = None;
                    std::thread::sleep(pause);
                    pause *= 2;
                    left -= 1;
                }
                Err(cause) => {
                    let doing = if cause.is_io_error() {
                        format!("{doing} at {}", self.url)
                    } else {
                        doing.to_owned()
                    };
                    return Err(Error { doing, cause });
                }
            }
        }
    }

    fn command(&self, name: &str) -> Cmd {
        let mut command = redis::cmd(name);
        command.arg(&self.prefix[..]);
        command
    }

    /// `DEDUPE.LOOKUP`: who stored these payloads first? One answer per hash. With `crawl`, what that
    /// crawl has stored itself counts too, though it is not committed.
    ///
    /// # Errors
    /// When the server refuses or cannot be reached.
    pub fn lookup(
        &mut self,
        crawl: Option<&[u8]>,
        hashes: &[&[u8]],
    ) -> Result<Vec<Option<Original>>, Error> {
        if hashes.is_empty() {
            return Ok(Vec::new());
        }
        let mut lookup = self.command("DEDUPE.LOOKUP");
        if let Some(crawl) = crawl {
            lookup.arg("CRAWL").arg(crawl);
        }
        lookup.arg(hashes);
        self.retry("DEDUPE.LOOKUP", |connection| lookup.query(connection))
    }

    /// `DEDUPE.ADD` and `DEDUPE.REVISIT` of one batch, in one round trip. `writer` and `sequence` (numbers
    /// that go up from 1) make it safe to send the batch twice: it is counted once.
    ///
    /// # Errors
    /// When the server refuses one of the two (the other may have been counted), or cannot be reached.
    pub fn write(
        &mut self,
        crawl: &[u8],
        writer: &[u8],
        sequence: u64,
        added: &[Added<'_>],
        revisited: &[Revisited<'_>],
    ) -> Result<(), Error> {
        let mut batch = Pipeline::new();
        batch.ignore_errors();
        let mut names = Vec::new();
        // Two sequences, so that an ADD that was refused is not taken for one that was counted because
        // the REVISIT after it was.
        let sequence_of = |kind: &[u8]| [writer, b" ", kind].concat();
        if !added.is_empty() {
            let mut add = self.command("DEDUPE.ADD");
            add.arg(crawl)
                .arg("SEQ")
                .arg(sequence_of(b"add"))
                .arg(sequence);
            for one in added {
                add.arg(one.hash)
                    .arg(one.wacz_index)
                    .arg(one.date)
                    .arg(one.url)
                    .arg(one.size);
            }
            batch.add_command(add);
            names.push("DEDUPE.ADD");
        }
        if !revisited.is_empty() {
            let mut revisit = self.command("DEDUPE.REVISIT");
            revisit
                .arg(crawl)
                .arg("SEQ")
                .arg(sequence_of(b"revisit"))
                .arg(sequence);
            for one in revisited {
                revisit.arg(one.hash).arg(one.size);
            }
            batch.add_command(revisit);
            names.push("DEDUPE.REVISIT");
        }
        if names.is_empty() {
            return Ok(());
        }
        let replies: Vec<Result<u64, RedisError>> =
            self.retry(names[0], |connection| batch.query(connection))?;
        for (reply, name) in replies.into_iter().zip(names) {
            match reply {
                Ok(_) => {}
                // A later batch of this writer was there before: this one was counted long ago.
                Err(cause) if cause.code() == Some("STALE") => {}
                Err(cause) => {
                    let doing = name.to_owned();
                    return Err(Error { doing, cause });
                }
            }
        }
        Ok(())
    }

    /// `DEDUPE.COMMIT`: the crawl becomes part of the merged index. If the connection breaks and the command
    /// has to be sent again, the reply tells what was left for the second time: nothing, as a rule.
    ///
    /// # Errors
    /// `NOCRAWL` when there is no such crawl, `CANCELED` when somebody cancelled it meanwhile; or when the
    /// server cannot be reached.
    pub fn commit(&mut self, crawl: &[u8]) -> Result<Committed, Error> {
        let mut commit = self.command("DEDUPE.COMMIT");
        commit.arg(crawl);
        let (new, known) = self.retry("DEDUPE.COMMIT", |connection| commit.query(connection))?;
        Ok(Committed { new, known })
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
fn without_password(url: &str) -> String {
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
    fn nobody_there_is_an_error_that_names_the_address() {
        let error = Index::open("redis://127.0.0.1:1/", "")
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
