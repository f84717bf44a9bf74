//! What can go wrong, and what is missing.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::libc;

use crawlspace_warc as warc;

/// Why there is no index.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be read or written.
    Io {
        /// Which one.
        path: PathBuf,
        /// What was to be done with it: `write`, `open`, …
        action: &'static str,
        /// What the system says.
        error: io::Error,
    },
    /// A file of an archive is not what it should be.
    Warc(warc::Error),
    /// Lines of a file are not what they should be.
    Lines {
        /// Which file.
        file: String,
        /// What is wrong with it, and what to do.
        what: String,
    },
    /// Another builder had the entry for longer than one would wait.
    Busy {
        /// Which entry.
        entry: PathBuf,
        /// Who it is, as far as that is known.
        owner: String,
        /// How long it was waited for.
        waited: Duration,
    },
    /// A server did not give what it was asked for.
    Remote {
        /// Which address.
        url: String,
        /// What is wrong.
        what: String,
    },
    /// An entry is not what its manifest says.
    Damaged {
        /// Which entry.
        entry: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// What was asked for makes no sense.
    Request(String),
    /// The work was cancelled.
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
        match self {
            Error::Io { error, .. } => matches!(
                error.kind(),
                io::ErrorKind::StorageFull
                    | io::ErrorKind::QuotaExceeded
                    | io::ErrorKind::FileTooLarge
            ),
            _ => false,
        }
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

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io {
                path,
                action,
                error,
            } => {
                write!(out, "{}: cannot {action}: {error}", path.display())?;
                if self.is_full() {
                    out.write_str(
                        "; nothing is left half-written: make room (crawlspace index gc) and try again",
                    )
                } else {
                    Ok(())
                }
            }
            Error::Warc(error) => error.fmt(out),
            Error::Lines { file, what } => write!(out, "{file}: {what}"),
            Error::Busy {
                entry,
                owner,
                waited,
            } => write!(
                out,
                "{}: still being built after {} s, by {owner}",
                entry.display(),
                waited.as_secs()
            ),
            Error::Remote { url, what } => write!(out, "{url}: {what}"),
            Error::Damaged { entry, what } => write!(out, "{}: {what}", entry.display()),
            Error::Request(what) => out.write_str(what),
            Error::Cancelled => out.write_str("stopped; the same request goes on from here"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { error, .. } => Some(error),
            Error::Warc(error) => Some(error),
            _ => None,
        }
    }
}

impl From<warc::Error> for Error {
    fn from(error: warc::Error) -> Error {
        Error::Warc(error)
    }
}
