//! Local sources of the bytes of a package.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use super::Problem;

/// A local file, or a range of a local file. The file may be a download without a name.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    file: Arc<File>,
    begin: u64,
    size: u64,
}

/// Error message for anything but a regular file.
pub(super) const NO_FILE: &str = "it is not a regular file, but a folder, a pipe or a device";

/// Opens a regular file; `None` for anything else. Pipes and devices cannot be read twice, and opening one may block
/// forever.
pub(super) fn regular(path: &Path) -> io::Result<Option<File>> {
    if std::fs::metadata(path)?.is_file() {
        File::open(path).map(Some)
    } else {
        Ok(None)
    }
}

impl Disk {
    /// Opens a file.
    pub(super) fn open(path: &Path) -> Result<Disk, Problem> {
        let file = regular(path)?.ok_or_else(|| Problem::NotZip(NO_FILE.to_owned()))?;
        Ok(Disk::new(file)?)
    }

    pub(super) fn new(file: File) -> io::Result<Disk> {
        Ok(Disk {
            begin: 0,
            size: file.metadata()?.len(),
            file: Arc::new(file),
        })
    }

    /// Returns a range of the file as a separate source.
    pub(super) fn part(&self, part: Range<u64>) -> Disk {
        Disk {
            file: Arc::clone(&self.file),
            begin: self.begin + part.start,
            size: part.end - part.start,
        }
    }

    /// Returns the offset of this range in the file.
    pub(super) fn begin(&self) -> u64 {
        self.begin
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Returns a reader of `length` bytes from offset `from`. Readers do not move the file position, so
    /// several of them can read concurrently.
    pub(super) fn section(&self, from: u64, length: u64) -> Section {
        Section {
            file: Arc::clone(&self.file),
            at: self.begin + from,
            left: length,
        }
    }
}

/// A reader of a range of a file. Reading fails if the file ends before the end of the range.
#[derive(Debug)]
pub(super) struct Section {
    file: Arc<File>,
    at: u64,
    left: u64,
}

impl Read for Section {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let wanted = into
            .len()
            .min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if wanted == 0 {
            return Ok(0);
        }
        let n = self.file.read_at(&mut into[..wanted], self.at)?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.at += n as u64;
        self.left -= n as u64;
        Ok(n)
    }
}
