//! The error type of this crate.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::libc;

use crawlspace_warc as warc;

/// Errors of reading, building and searching an index.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be read or written.
    #[error("{}: cannot {action}: {error}{}", path.display(), advice(error))]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The attempted action: `write`, `open`, …
        action: &'static str,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// A damaged or unsupported WARC file.
    #[error("{0}")]
    Warc(#[from] warc::Error),
    /// Invalid lines in a file.
    #[error("{file}: {what}")]
    Lines {
        /// The name of the file.
        file: String,
        /// Description of the fault, with a remedy.
        what: String,
    },
    /// Another builder held the lock of the entry for longer than the caller was willing to wait.
    #[error("{}: still being built after {} s, by {owner}", entry.display(), waited.as_secs())]
    Busy {
        /// The locked entry.
        entry: PathBuf,
        /// The process that holds the lock, if it is known.
        owner: String,
        /// Time spent waiting for the lock.
        waited: Duration,
    },
    /// An unusable response of a server.
    #[error("{url}: {what}")]
    Remote {
        /// The requested URL.
        url: String,
        /// Description of the fault.
        what: String,
    },
    /// An entry that differs from its manifest.
    #[error("{}: {what}", entry.display())]
    Damaged {
        /// The damaged entry.
        entry: PathBuf,
        /// Description of the fault.
        what: String,
    },
    /// An invalid request.
    #[error("{0}")]
    Request(String),
    /// The work was cancelled.
    #[error("stopped; repeat the request to resume")]
    Cancelled,
}

impl Error {
    /// Returns a closure that adds a path and an action to an I/O error: `.map_err(Error::io(path, "write"))`.
    pub fn io<'a>(path: &'a Path, action: &'static str) -> impl FnOnce(io::Error) -> Error + 'a {
        move |error| Error::Io {
            path: path.to_owned(),
            action,
            error,
        }
    }

    /// Returns whether the disk is full or the quota is used up.
    pub fn is_full(&self) -> bool {
        matches!(self, Error::Io { error, .. } if is_full(error))
    }

    /// Returns whether the process or the system ran out of file descriptors or memory. The file that was being read
    /// may be intact.
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

/// Returns the remedy that is appended to the message of an I/O error; empty for most errors.
fn advice(error: &io::Error) -> &'static str {
    if is_full(error) {
        "; no incomplete file was kept: free space and try again"
    } else {
        ""
    }
}
