//! Errors of the `CHG.*` commands: error codes and messages.

use std::fmt;

use crawlspace_host::keyspace::KeyError;
use crawlspace_host::text::Shown;

use super::Token;
use super::time::Millis;

/// An error reply. The message starts with the error code and is ASCII.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// An error of the key space.
    Key(KeyError),
    /// `ERR`: an invalid argument; contains the message.
    Argument(String),
    /// `NOCHG`: the frontier does not know the group.
    NoChg(Vec<u8>),
    /// `STALE`: the token does not belong to a lease that is held.
    Stale(Vec<u8>, Token),
    /// `STALE`: the sequence number is lower than the last number of its writer.
    OldSequence {
        /// The writer.
        writer: Vec<u8>,
        /// The number that was sent.
        n: u64,
        /// The last number of the writer.
        last: u64,
    },
    /// `LEASED`: a worker is fetching from the group, until this deadline.
    Leased(Vec<u8>, Millis),
    /// `PLAIN`: the command needs a packed frontier.
    Plain,
    /// `PLAIN`: the command needs a packed frontier, and the storage of this frontier is being
    /// converted.
    Moving,
    /// `KNOWN`: the command would contradict the URLs that the frontier knows. Contains the reason.
    Known(String),
    /// `BUSY`: the command was called while another command of this module was running.
    Busy,
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
            Error::Argument(text) => write!(f, "ERR {text}"),
            Error::NoChg(chg) => write!(
                f,
                "NOCHG group '{}' is not in this frontier; CHG.ADD or CHG.ADDURI adds it",
                Shown(chg)
            ),
            Error::Stale(chg, token) => write!(
                f,
                "STALE invalid token {token}: its lease on group '{}' expired or was released before; nothing was changed",
                Shown(chg)
            ),
            Error::OldSequence { writer, n, last } => write!(
                f,
                "STALE sequence number {n} of writer '{}' is lower than the writer's last number, {last}; nothing was changed",
                Shown(writer)
            ),
            Error::Leased(chg, deadline) => write!(
                f,
                "LEASED a worker fetches from group '{}', until {deadline} at the latest; release the lease first, or try again after that time",
                Shown(chg)
            ),
            Error::Plain => f.write_str(
                "PLAIN the command needs a packed frontier; run CHG.PACK first, nothing was changed",
            ),
            Error::Moving => f.write_str(
                "PLAIN the frontier is being packed or unpacked; send the command again when it is packed, nothing was changed",
            ),
            Error::Known(text) => write!(f, "KNOWN {text}; nothing was changed"),
            Error::Busy => f.write_str(
                "BUSY another command of this module is running; a keyspace callback must wait until it has ended",
            ),
        }
    }
}

/// Result of an operation of this family.
pub type Result<T> = std::result::Result<T, Error>;
