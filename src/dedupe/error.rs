//! Errors of the `DEDUPE.*` commands: error codes and messages.

use std::fmt;

use crawlspace_compact::limits::dedupe::{MAX_HASH_BYTES, MIN_HASH_BYTES};
use crawlspace_host::keyspace::KeyError;
use crawlspace_host::text::Shown;

use super::keys::CRAWL_BYTES;

/// An error reply. The message starts with the error code and is ASCII.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The key space returned an error.
    Key(KeyError),
    /// `NOPERM`: the user lacks a permission for a key. Contains the message of the server.
    Denied(String),
    /// `ERR`: an argument is invalid; contains the message.
    Argument(String),
    /// `NOCRAWL`: the index has no crawl with that id.
    NoCrawl(Vec<u8>),
    /// `BADCRAWL`: the crawl id is invalid.
    BadCrawl(Vec<u8>),
    /// `BADHASH`: the hash is invalid.
    BadHash(Vec<u8>),
    /// `BADPREFIX`: the prefix is invalid. Contains the reason.
    BadPrefix(&'static str),
    /// `NOHASH`: the index does not have the hash of a revisit.
    NoHash(Vec<u8>),
    /// `COMMITTED`: the crawl is committed, so there is nothing to cancel.
    Committed(Vec<u8>),
    /// `UNCOMMITTED`: the crawl is not committed, so there is nothing to remove.
    Uncommitted(Vec<u8>),
    /// `CANCELED`: this commit ended because the crawl was canceled.
    Canceled(Vec<u8>),
    /// `REMOVING`: the crawl is being removed or canceled.
    Removing(Vec<u8>),
    /// `PURGING`: a purge by another program has moved the crawl to `to-remove-crawls`.
    Purging(Vec<u8>),
    /// `PURGING`: a purge by another program is running in this index.
    PurgingIndex,
    /// `STALE`: a token or sequence number that is outdated.
    Stale(String),
    /// `HASCRAWLS`: the profile of an index with crawls cannot change.
    HasCrawls,
    /// `NOURLS`: the URL index does not exist or is incomplete. Contains a description of its
    /// state.
    NoUrls(&'static str),
    /// `BUSY`: the command was called while another command of this module was running.
    Busy,
    /// `BADFORMAT`: the index was written by a newer version.
    BadFormat(Vec<u8>),
}

impl From<KeyError> for Error {
    fn from(error: KeyError) -> Self {
        Error::Key(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Key(error) => error.fmt(f),
            Error::Denied(text) => f.write_str(text),
            Error::Argument(text) => write!(f, "ERR {text}"),
            Error::NoCrawl(crawl) => write!(
                f,
                "NOCRAWL crawl '{}' is not in this index; DEDUPE.CRAWLS lists the crawls of the index",
                Shown(crawl)
            ),
            Error::BadCrawl(crawl) => write!(
                f,
                "BADCRAWL invalid crawl id '{}': it must have 1 to {CRAWL_BYTES} bytes and not end in a suffix of the index's own keys, such as :counts or :wacz",
                Shown(crawl)
            ),
            Error::BadHash(hash) => write!(
                f,
                "BADHASH invalid hash '{}': it must have {MIN_HASH_BYTES} to {MAX_HASH_BYTES} bytes and no control bytes",
                Shown(hash)
            ),
            Error::BadPrefix(reason) => write!(f, "BADPREFIX {reason}"),
            Error::NoHash(hash) => write!(
                f,
                "NOHASH '{}' is not in this index, so a revisit of it has no original; nothing was counted",
                Shown(hash)
            ),
            Error::Committed(crawl) => write!(
                f,
                "COMMITTED crawl '{}' is committed and has no uncommitted records to cancel; DEDUPE.REMOVE removes a committed crawl",
                Shown(crawl)
            ),
            Error::Uncommitted(crawl) => write!(
                f,
                "UNCOMMITTED crawl '{}' is not committed; DEDUPE.CANCEL drops an uncommitted crawl",
                Shown(crawl)
            ),
            Error::Canceled(crawl) => write!(
                f,
                "CANCELED crawl '{}' was canceled while this command was running or waiting",
                Shown(crawl)
            ),
            Error::Removing(crawl) => write!(
                f,
                "REMOVING crawl '{}' is being removed or canceled; wait for it, or run the same DEDUPE.REMOVE, RETAIN or CANCEL again to finish it",
                Shown(crawl)
            ),
            Error::Purging(crawl) => write!(
                f,
                "PURGING crawl '{}' is in to-remove-crawls: a purge by another program is running or was interrupted; DEDUPE.COMMIT puts the crawl back, DEDUPE.REMOVE removes it",
                Shown(crawl)
            ),
            Error::PurgingIndex => f.write_str(
                "PURGING to-remove-crawls is not empty: a purge by another program is running or was interrupted; wait until it ends, or run DEDUPE.COMMIT for each crawl in that set to be kept, and DEDUPE.REMOVE for each of the others",
            ),
            Error::Stale(text) => write!(f, "STALE {text}"),
            Error::HasCrawls => f.write_str(
                "HASCRAWLS the profile cannot change once the index has crawls; use another prefix",
            ),
            Error::NoUrls(state) => write!(
                f,
                "NOURLS the index by URL {state}; DEDUPE.URLS with ON builds it"
            ),
            Error::Busy => f.write_str(
                "BUSY another command of this module is running; a keyspace callback must wait until it has ended",
            ),
            Error::BadFormat(format) => write!(
                f,
                "BADFORMAT this index has format '{}', which a newer version wrote; upgrade the module",
                Shown(format)
            ),
        }
    }
}

/// Result type of the rules of this family.
pub type Result<T> = std::result::Result<T, Error>;
