//! The error type of calls.

use std::fmt;

use redis::{ErrorKind, RedisError};

use super::Code;

/// The error of a call: the operation that failed, and the cause.
///
/// ```no_run
/// # fn main() -> Result<(), crawlspace_client::Error> {
/// use crawlspace_client::{dedupe::Index, Code};
/// let index = Index::open("redis://127.0.0.1/", "")?;
/// match index.commit(b"crawl-1") {
///     Ok(committed) => println!("{} new hashes", committed.new),
///     Err(error) if error.code() == Some(Code::NoCrawl) => println!("it has no records"),
///     Err(error) if error.is_connection() => println!("send it again later: {error}"),
///     Err(error) => return Err(error),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Error {
    pub(crate) doing: String,
    pub(crate) cause: RedisError,
}

impl Error {
    /// Creates an error from the operation that failed (`reading the tags of {t}:tags`) and its cause.
    pub fn new(doing: impl Into<String>, cause: impl Into<RedisError>) -> Error {
        Error {
            doing: doing.into(),
            cause: cause.into(),
        }
    }

    /// Creates an error for an operation that this library rejects, in the format of a server error.
    pub(crate) fn refused(doing: &str, code: Code, sentence: impl Into<String>) -> Error {
        let word = code.word().to_owned();
        Error::new(
            doing,
            redis::make_extension_error(word, Some(sentence.into())),
        )
    }

    /// Returns the error code of the server. Returns `None` if the error did not come from the
    /// server, or if its code is not one of [`Code`].
    pub fn code(&self) -> Option<Code> {
        Code::of(self.word()?)
    }

    /// Returns the code word of the server's error: `NOCRAWL`, `STALE`, … Returns `None` if the
    /// error did not come from the server.
    pub fn word(&self) -> Option<&str> {
        self.cause.code()
    }

    /// Returns true if the server could not be reached, or the connection broke. It is then unknown
    /// whether the server executed the command, unless the client never reached the server.
    pub fn is_connection(&self) -> bool {
        self.cause.is_io_error()
    }

    /// Returns true if a retry may succeed later: the server is unreachable, loading its data, or a
    /// failover is in progress.
    ///
    /// ```
    /// use crawlspace_client::{Error, redis};
    /// let refusal = |word: &str| Error::new("reading", redis::make_extension_error(word.to_owned(), None));
    /// assert!(refusal("LOADING").is_transient());
    /// assert!(!refusal("NOCRAWL").is_transient());
    /// ```
    pub fn is_transient(&self) -> bool {
        self.is_connection() || self.code().is_some_and(Code::is_transient)
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
            _ if self.cause.kind() == ErrorKind::Parse => {
                f.write_str("this is not a Redis server: check the host and the port")
            }
            _ if self.cause.to_string().starts_with("Redis URL did not parse") => f.write_str(
                "invalid URL: write redis://HOST:PORT/DB, rediss://HOST:PORT/DB with TLS, or unix:///PATH",
            ),
            // The message of the server, which contains the name of the argument or key.
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
