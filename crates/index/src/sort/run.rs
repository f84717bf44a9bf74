//! A run: sorted lines in a temporary file. Each line is preceded by the range of its key and its length.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::order::Line;
use crate::Error;

/// Size of the read and write buffers, in bytes.
pub(super) const BUFFER: usize = 256 * 1024;
/// Size of the head of a line in bytes: start of the key, end of the key, and length of the line.
const HEAD: usize = 12;

/// A run that is being written.
pub(super) struct Writer {
    file: BufWriter<File>,
    folder: PathBuf,
    lines: u64,
}

impl Writer {
    pub(crate) fn create(folder: &Path) -> Result<Writer, Error> {
        let file = tempfile::tempfile_in(folder);
        let file = file.map_err(Error::io(folder, "create a temporary sort file in"))?;
        Ok(Writer {
            file: BufWriter::with_capacity(BUFFER, file),
            folder: folder.to_owned(),
            lines: 0,
        })
    }

    pub(crate) fn push(&mut self, line: &[u8], key: Range<usize>) -> Result<(), Error> {
        let mut head = [0; HEAD];
        // The caller ensures that the numbers fit into 32 bits.
        for (place, number) in head
            .chunks_exact_mut(4)
            .zip([key.start, key.end, line.len()])
        {
            place.copy_from_slice(&(number as u32).to_le_bytes());
        }
        self.lines += 1;
        self.file
            .write_all(&head)
            .and_then(|()| self.file.write_all(line))
            .map_err(Error::io(&self.folder, WRITE))
    }

    pub(crate) fn finish(self) -> Result<Run, Error> {
        let file = self
            .file
            .into_inner()
            .map_err(io::IntoInnerError::into_error);
        let file = file.and_then(|mut file| {
            file.seek(SeekFrom::Start(0))?;
            Ok(file)
        });
        Ok(Run {
            file: file.map_err(Error::io(&self.folder, WRITE))?,
            lines: self.lines,
        })
    }
}

const WRITE: &str = "write a temporary sort file in";

/// A finished run.
pub(super) struct Run {
    file: File,
    lines: u64,
}

/// Reads the lines of a run.
pub(super) struct Reader {
    file: BufReader<File>,
    left: u64,
    line: Vec<u8>,
    /// Range of the key in the line; `None` before the first line and after the last one.
    key: Option<Range<usize>>,
}

impl Reader {
    pub(crate) fn of(run: Run) -> Reader {
        Reader {
            file: BufReader::with_capacity(BUFFER, run.file),
            left: run.lines,
            line: Vec::new(),
            key: None,
        }
    }

    /// Advances to the next line, if there is one.
    pub(crate) fn advance(&mut self, folder: &Path) -> Result<(), Error> {
        self.key = match self.left.checked_sub(1) {
            None => None,
            Some(left) => {
                self.left = left;
                let read = self.read();
                Some(read.map_err(Error::io(folder, "read a temporary sort file in"))?)
            }
        };
        Ok(())
    }

    fn read(&mut self) -> io::Result<Range<usize>> {
        let mut head = [0; HEAD];
        self.file.read_exact(&mut head)?;
        let [a, b, c, d, e, f, g, h, i, j, k, l] = head;
        let [from, to, length] = [[a, b, c, d], [e, f, g, h], [i, j, k, l]]
            .map(|number| u32::from_le_bytes(number) as usize);
        self.line.resize(length, 0);
        self.file.read_exact(&mut self.line)?;
        Ok(from..to)
    }

    pub(crate) fn line(&self) -> Option<Line<'_>> {
        Some((&self.line, self.key.clone()?))
    }
}
