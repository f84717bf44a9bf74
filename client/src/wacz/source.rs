//! Where the bytes of a package come from.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// A file of this machine; also one without a name that was downloaded.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    file: Arc<File>,
    size: u64,
}

impl Disk {
    pub(super) fn new(file: File) -> io::Result<Disk> {
        let about = file.metadata()?;
        if about.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok(Disk {
            size: about.len(),
            file: Arc::new(file),
        })
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// So many bytes from there. The file's own position is not moved, so many may read at once.
    pub(super) fn section(&self, from: u64, length: u64) -> Section {
        Section {
            file: Arc::clone(&self.file),
            at: from,
            left: length,
        }
    }
}

/// A part of a file. That the file ends before is an error.
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
