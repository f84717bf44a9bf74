//! Buffers for bodies whose length and digest must be known before they are sent.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, BoxStream, StreamExt};
use tokio::task::spawn_blocking;

use super::record::LoadError;
use crawlspace_index::source::SourceError;

/// Maximum number of bytes in memory before a file is used; also the size of reads and writes of that file.
const MEMORY: usize = 256 * 1024;
/// Bytes in spool files of all requests of this process, limited so that clients cannot fill the disk.
static DISK: Disk = Disk::new(8 << 30);

/// Number of bytes in spool files, and its limit.
#[derive(Debug)]
struct Disk {
    written: AtomicU64,
    most: u64,
}

impl Disk {
    const fn new(most: u64) -> Disk {
        Disk {
            written: AtomicU64::new(0),
            most,
        }
    }
}

/// Buffers bytes: a small number in memory, more in an unnamed temporary file.
pub(crate) struct Spool {
    /// Bytes that are not in the file.
    memory: BytesMut,
    /// The file; `None` while everything is in memory, and during a write.
    file: Option<Written>,
    spilled: bool,
    length: u64,
    most: u64,
    disk: &'static Disk,
}

/// Buffered bytes. Clones share them; they are freed with the last clone.
#[derive(Clone, Debug)]
pub struct Spooled {
    length: u64,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    Memory(Bytes),
    File(Arc<Written>),
}

/// A temporary file with its size, which counts against the limit while the file exists.
#[derive(Debug)]
struct Written {
    file: File,
    bytes: u64,
    disk: &'static Disk,
}

impl Written {
    fn new(disk: &'static Disk) -> io::Result<Written> {
        Ok(Written {
            file: tempfile::tempfile()?,
            bytes: 0,
            disk,
        })
    }

    fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        let more = bytes.len() as u64;
        self.bytes += more;
        if self.disk.written.fetch_add(more, Ordering::Relaxed) + more > self.disk.most {
            let what = format!(
                "the limit of {} bytes for all requests together is exceeded",
                self.disk.most
            );
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, what));
        }
        self.file.write_all(bytes)
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        self.disk.written.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Spool {
    /// Creates a spool for at most `most` bytes.
    pub(crate) fn new(most: u64) -> Spool {
        Spool {
            memory: BytesMut::new(),
            file: None,
            spilled: false,
            length: 0,
            most,
            disk: &DISK,
        }
    }

    /// Returns the number of bytes so far.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// Fails if the limit is exceeded, or the file cannot be written.
    pub(crate) async fn push(&mut self, mut bytes: &[u8]) -> Result<(), LoadError> {
        self.length = self.length.saturating_add(bytes.len() as u64);
        if self.length > self.most {
            return Err(
                SourceError::TooLarge(format!("it is longer than {} bytes", self.most)).into(),
            );
        }
        while self.memory.len() + bytes.len() > MEMORY {
            let fits = MEMORY.saturating_sub(self.memory.len()).min(bytes.len());
            let (now, later) = bytes.split_at_checked(fits).unwrap_or((bytes, &[]));
            self.memory.extend_from_slice(now);
            bytes = later;
            self.write().await?;
        }
        self.memory.extend_from_slice(bytes);
        Ok(())
    }

    /// Moves the bytes from memory to the file.
    async fn write(&mut self) -> Result<(), LoadError> {
        let file = self.file.take();
        if file.is_none() && self.spilled {
            return Err(LoadError::Io(
                "an earlier write was cancelled, so nothing more can be written".to_owned(),
            ));
        }
        self.spilled = true;
        let disk = self.disk;
        let mut memory = std::mem::take(&mut self.memory);
        let write = move || {
            let mut file = match file {
                Some(file) => file,
                None => Written::new(disk)?,
            };
            file.push(&memory)?;
            memory.clear();
            Ok((file, memory))
        };
        let (file, memory) = blocking(write).await?;
        self.file = Some(file);
        self.memory = memory;
        Ok(())
    }

    /// Completes the spool.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub(crate) async fn finish(mut self) -> Result<Spooled, LoadError> {
        if self.spilled && !self.memory.is_empty() {
            self.write().await?;
        }
        Ok(Spooled {
            length: self.length,
            content: match self.file {
                Some(file) => Content::File(Arc::new(file)),
                None => Content::Memory(self.memory.freeze()),
            },
        })
    }
}

impl Default for Spooled {
    /// Returns an empty spool.
    fn default() -> Spooled {
        Spooled::from(Bytes::new())
    }
}

impl From<Bytes> for Spooled {
    fn from(bytes: Bytes) -> Spooled {
        Spooled {
            length: bytes.len() as u64,
            content: Content::Memory(bytes),
        }
    }
}

impl Spooled {
    /// Buffers a whole stream of up to `most` bytes.
    ///
    /// # Errors
    /// Fails if the stream fails or is too long, or a file cannot be written.
    pub(crate) async fn of(
        mut stream: BoxStream<'_, Result<Bytes, LoadError>>,
        most: u64,
    ) -> Result<Spooled, LoadError> {
        let mut spool = Spool::new(most);
        while let Some(bytes) = stream.next().await {
            spool.push(&bytes?).await?;
        }
        spool.finish().await
    }

    /// Returns the number of bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns whether there are no bytes.
    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns all bytes if they are in memory, and `None` if they are in a file.
    pub fn bytes(&self) -> Option<&Bytes> {
        match &self.content {
            Content::Memory(bytes) => Some(bytes),
            Content::File(_) => None,
        }
    }

    /// Returns the bytes from an offset to the end.
    pub(crate) fn stream(&self, from: u64) -> BoxStream<'static, Result<Bytes, LoadError>> {
        match &self.content {
            Content::Memory(bytes) => {
                let from = usize::try_from(from).unwrap_or(usize::MAX);
                let rest = bytes.slice(from.min(bytes.len())..);
                stream::iter((!rest.is_empty()).then_some(Ok(rest))).boxed()
            }
            Content::File(file) => {
                let state = Some((Arc::clone(file), from, self.length));
                stream::unfold(state, |state| async move {
                    let (file, at, length) = state.filter(|(_, at, length)| at < length)?;
                    let size = usize::try_from(length - at).unwrap_or(MEMORY).min(MEMORY);
                    let reader = Arc::clone(&file);
                    let read = move || {
                        let mut bytes = vec![0; size];
                        reader.file.read_exact_at(&mut bytes, at)?;
                        Ok(Bytes::from(bytes))
                    };
                    Some(match blocking(read).await {
                        Ok(bytes) => (Ok(bytes), Some((file, at + size as u64, length))),
                        Err(error) => (Err(error), None),
                    })
                })
                .boxed()
            }
        }
    }

    /// Returns a blocking reader of all bytes.
    pub(crate) fn reader(&self) -> impl BufRead + Send + 'static + use<> {
        BufReader::with_capacity(
            MEMORY,
            SpooledReader {
                spooled: self.clone(),
                at: 0,
            },
        )
    }
}

/// Reads buffered bytes. Readers are independent, since they do not use the file's own position.
struct SpooledReader {
    spooled: Spooled,
    at: u64,
}

impl Read for SpooledReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = match &self.spooled.content {
            Content::Memory(bytes) => {
                let from = usize::try_from(self.at).unwrap_or(usize::MAX);
                let mut rest = &bytes[from..];
                rest.read(into)?
            }
            Content::File(written) => written.file.read_at(into, self.at)?,
        };
        self.at += n as u64;
        Ok(n)
    }
}

/// Reads or writes a file on a blocking thread.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, LoadError> {
    let failed =
        |error: &dyn std::fmt::Display| LoadError::Io(format!("a temporary file: {error}"));
    match spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| failed(&error)),
        Err(error) => Err(failed(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn collected(spooled: &Spooled, from: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut stream = spooled.stream(from);
        while let Some(piece) = stream.next().await {
            let piece = piece.unwrap();
            assert!(!piece.is_empty() && piece.len() <= MEMORY);
            bytes.extend_from_slice(&piece);
        }
        bytes
    }

    #[tokio::test]
    async fn spool_returns_its_bytes_in_pieces_of_any_size() {
        let all: Vec<u8> = (0..3 * MEMORY + 17).map(|i| (i % 251) as u8).collect();
        for length in [0, 1, MEMORY - 1, MEMORY, MEMORY + 1, 2 * MEMORY, all.len()] {
            for piece in [1000, MEMORY - 1, MEMORY, MEMORY + 1, all.len()] {
                let bytes = &all[..length];
                let mut spool = Spool::new(length as u64);
                for piece in bytes.chunks(piece) {
                    spool.push(piece).await.unwrap();
                }
                let spooled = spool.finish().await.unwrap();
                assert_eq!(spooled.length(), length as u64);
                assert_eq!(spooled.bytes().is_some(), length <= MEMORY, "{length}");
                for from in [0, 1, length / 2, length] {
                    assert!(
                        collected(&spooled, from as u64).await == bytes[from.min(length)..],
                        "{length} {from}"
                    );
                }
                let mut read = Vec::new();
                spooled.reader().read_to_end(&mut read).unwrap();
                assert!(read == bytes, "{length}");
            }
        }
    }

    #[tokio::test]
    async fn too_much_data_is_refused_at_once() {
        let mut spool = Spool::new(10);
        spool.push(b"12345").await.unwrap();
        spool.push(b"67890").await.unwrap();
        let refused = spool.push(b"1").await.unwrap_err();
        assert!(
            matches!(refused, LoadError::Net(SourceError::TooLarge(_))),
            "{refused}"
        );
    }

    #[tokio::test]
    async fn total_size_of_spool_files_is_limited_and_released() {
        static SMALL: Disk = Disk::new(3 * MEMORY as u64);
        let written = || SMALL.written.load(Ordering::Relaxed);
        let kept = async || {
            let mut spool = Spool {
                disk: &SMALL,
                ..Spool::new(u64::MAX)
            };
            spool.push(&vec![b'x'; 2 * MEMORY]).await?;
            spool.finish().await
        };
        let first = kept().await.unwrap();
        let copy = first.clone();
        assert_eq!(written(), 2 * MEMORY as u64);
        let refused = kept().await.unwrap_err();
        assert!(
            matches!(&refused, LoadError::Io(what) if what.contains("786432")),
            "{refused}"
        );
        assert_eq!(written(), 2 * MEMORY as u64);
        drop(first);
        assert_eq!(written(), 2 * MEMORY as u64);
        drop(copy);
        assert_eq!(written(), 0);
        kept().await.unwrap();
    }
}
