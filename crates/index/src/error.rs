//! What can go wrong, and what is missing.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::libc;

use crawlspace_warc as warc;

/// Why there is no index.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be read or written.
    #[error("{}: cannot {action}: {error}{}", path.display(), advice(error))]
    Io {
        /// Which one.
        path: PathBuf,
        /// What was to be done with it: `write`, `open`, …
        action: &'static str,
        /// What the system says.
        #[source]
        error: io::Error,
    },
    /// A file of an archive is not what it should be.
    #[error("{0}")]
    Warc(#[from] warc::Error),
    /// Lines of a file are not what they should be.
    #[error("{file}: {what}")]
    Lines {
        /// Which file.
        file: String,
        /// What is wrong with it, and what to do.
        what: String,
    },
    /// Another builder had the entry for longer than one would wait.
    #[error("{}: still being built after {} s, by {owner}", entry.display(), waited.as_secs())]
    Busy {
        /// Which entry.
        entry: PathBuf,
        /// Who it is, as far as that is known.
        owner: String,
        /// How long it was waited for.
        waited: Duration,
    },
    /// A server did not give what it was asked for.
    #[error("{url}: {what}")]
    Remote {
        /// Which address.
        url: String,
        /// What is wrong.
        what: String,
    },
    /// An entry is not what its manifest says.
    #[error("{}: {what}", entry.display())]
    Damaged {
        /// Which entry.
        entry: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// What was asked for makes no sense.
    #[error("{0}")]
    Request(String),
    /// The work was cancelled.
    #[error("stopped; the same request goes on from here")]
    Cancelled,
}

impl Error {
    /// Something that went wrong with a file or folder: `.map_err(Error::io(path, "write"))`.
    pub fn io<'a>(path: &'a Path, action: &'static str) -> impl FnOnce(io::Error) -> Error + 'a {
        move |error| Error::Io {
            path: path.to_owned(),
            action,
            error,
        }
    }

    /// Whether the disk is full, or the quota used up.
    pub fn is_full(&self) -> bool {
        matches!(self, Error::Io { error, .. } if is_full(error))
    }

    /// Whether there are too many open files, or there is no memory: nothing is wrong with what was to be read.
    pub fn is_exhausted(&self) -> bool {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = cause {
            let code = error.downcast_ref().and_then(io::Error::raw_os_error);
            if matches!(code, Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM)) {
                return true;
            }
            cause = error.source();
        }
        false
    }
}

fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// What to do about an error of the system.
fn advice(error: &io::Error) -> &'static str {
    if is_full(error) {
        "; nothing is left half-written: make room (crawlspace index gc) and try again"
    } else {
        ""
    }
}
