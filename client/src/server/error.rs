//! Why a call failed.

use std::fmt;

use redis::{ErrorKind, RedisError};

use super::Code;

/// Why a call failed.
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
    /// An error of something that was done (`reading the tags of {t}:tags`), and why it failed.
    pub fn new(doing: impl Into<String>, cause: impl Into<RedisError>) -> Error {
        Error {
            doing: doing.into(),
            cause: cause.into(),
        }
    }

    /// Something that this library refuses, in the form in which a server would.
    pub(crate) fn refused(doing: &str, code: Code, sentence: impl Into<String>) -> Error {
        let word = code.word().to_owned();
        Error::new(
            doing,
            redis::make_extension_error(word, Some(sentence.into())),
        )
    }

    /// What the server's error is about. `None` when it was not the server that refused, or for a reason that
    /// no command of the module has.
    pub fn code(&self) -> Option<Code> {
        Code::of(self.word()?)
    }

    /// The word that the server's error begins with: `NOCRAWL`, `STALE`, … `None` when it was not the server
    /// that refused.
    pub fn word(&self) -> Option<&str> {
        self.cause.code()
    }

    /// Whether the server could not be reached, or the connection broke. Then it is unknown whether the
    /// command arrived, unless the server was never reached.
    pub fn is_connection(&self) -> bool {
        self.cause.is_io_error()
    }

    /// Returns true if the server may answer later: it is unreachable, loads its data, or waits for a failover.
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
                f.write_str("this is no Redis server: check the host and the port")
            }
            _ if self.cause.to_string().starts_with("Redis URL did not parse") => f.write_str(
                "invalid URL: write redis://HOST:PORT/DB, rediss://HOST:PORT/DB with TLS, or unix:///PATH",
            ),
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
