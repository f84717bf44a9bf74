//! The output of a command: standard output, or a file that an option names.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use crawlspace_index::Error;
use crawlspace_wacz::Replacement;

/// Name of standard output in errors.
const STANDARD: &str = "standard output";

/// The destination of an output. A regular file is replaced when the new file is complete; until then, the old one is
/// kept.
pub(crate) struct Output<'a> {
    path: &'a Path,
    to: To,
}

enum To {
    Standard,
    /// A device or a pipe.
    Device(File),
    Replacement(Replacement),
}

impl<'a> Output<'a> {
    /// Opens the file at a path, or standard output.
    pub(crate) fn open(path: Option<&'a Path>) -> Result<Output<'a>, Error> {
        let Some(path) = path else {
            let path = Path::new(STANDARD);
            let to = To::Standard;
            return Ok(Output { path, to });
        };
        let is_device = fs::metadata(path).is_ok_and(|found| !found.is_file());
        let to = if is_device {
            File::options().write(true).open(path).map(To::Device)
        } else {
            Replacement::of(path).map(To::Replacement)
        };
        let to = to.map_err(Error::io(path, "create"))?;
        Ok(Output { path, to })
    }

    /// Returns a writer. Flush it before [`Output::commit`].
    pub(crate) fn writer(&self) -> Result<Box<dyn Write + '_>, Error> {
        Ok(match &self.to {
            To::Standard => Box::new(io::stdout().lock()),
            To::Device(device) => Box::new(device),
            To::Replacement(replacement) => Box::new(
                replacement
                    .writer()
                    .map_err(Error::io(self.path, "create"))?,
            ),
        })
    }

    /// Adds the name of the output to the error of a write.
    pub(crate) fn failed(&self, error: io::Error) -> Error {
        Error::io(self.path, "write")(error)
    }

    /// Replaces the old file.
    pub(crate) fn commit(self) -> Result<(), Error> {
        match self.to {
            To::Replacement(replacement) => {
                replacement.commit().map_err(Error::io(self.path, "write"))
            }
            To::Standard | To::Device(_) => Ok(()),
        }
    }
}

/// Converts the error of an output for [`main`](crate::main), which does not report a closed pipe.
pub(crate) fn reported(error: Error) -> io::Error {
    match error {
        Error::Io { error, .. } if error.kind() == io::ErrorKind::BrokenPipe => error,
        Error::Io { path, error, .. } if path == Path::new(STANDARD) => io::Error::other(format!(
            "cannot write to {STANDARD}: {error}; the output is incomplete: discard it, and try again"
        )),
        other => io::Error::other(other),
    }
}
