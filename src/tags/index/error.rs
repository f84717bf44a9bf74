//! Errors of changes of the index.

use std::borrow::Cow;
use std::fmt;

use super::{MAX_TAGS, Tagged};
use crawlspace_host::text::Shown;

/// The reason why a change was refused. A refused change leaves the index unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The tag `carries` must not carry `tag`, because `tag` already carries `carries` or is the
    /// same tag.
    Cycle {
        /// The tag that would have been carried.
        tag: Box<[u8]>,
        /// The tag that would have carried `tag`.
        carries: Box<[u8]>,
    },
    /// The kind has no staged copy.
    NotStaged(Tagged),
    /// The staged copy does not have the expected number of ids.
    StagedCount {
        /// The kind of the staged copy.
        kind: Tagged,
        /// Number of ids in the staged copy.
        has: u64,
        /// Expected number of ids.
        expected: u64,
    },
    /// A malformed tag, and the reason.
    BadTag(Box<[u8]>, Cow<'static, str>),
    /// A malformed id of a record or file, and the reason.
    BadId(Box<[u8]>, Cow<'static, str>),
    /// An id would exceed the maximum number of tags.
    TooMany(Box<[u8]>),
    /// All tag numbers are in use.
    Full,
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Cycle { tag, carries } if tag == carries => {
                write!(f, "CYCLE tag '{}' cannot carry itself", Shown(tag))
            }
            Error::Cycle { tag, carries } => write!(
                f,
                "CYCLE tag '{}' already carries '{}', directly or through other tags; remove that first",
                Shown(tag),
                Shown(carries)
            ),
            Error::NotStaged(kind) => write!(
                f,
                "NOSTAGE nothing is staged for {}; begin with TAGS.LOAD key {} STAGE",
                kind.name(),
                kind.name()
            ),
            Error::StagedCount {
                kind,
                has,
                expected,
            } => write!(
                f,
                "NOSTAGE the staged copy of {} has {has} ids, not {expected}; nothing was swapped",
                kind.name()
            ),
            Error::BadTag(tag, why) => write!(f, "ERR tag '{}' {why}", Shown(tag)),
            Error::BadId(id, why) => write!(f, "ERR id '{}' {why}", Shown(id)),
            Error::TooMany(id) => write!(
                f,
                "TOOBIG '{}' would have more than {MAX_TAGS} tags of its own",
                Shown(id)
            ),
            Error::Full => {
                f.write_str("TOOBIG the tag space is full: it has room for 4294967294 tags")
            }
        }
    }
}
