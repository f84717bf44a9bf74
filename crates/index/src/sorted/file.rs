//! Open files, limited in number.

use std::fs::{File, Metadata};
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use rustix::io::{Errno, ReadWriteFlags};

use crate::sorted::pivots::Pivots;
use crate::sorted::steps::{may_wait, outcome, spend, until_it_may_wait};
use crate::source::SourceError;
use crawlspace_fetch::file::{First, RemoteFile, RemoteVersion};
use crawlspace_fetch::shown;

/// Maximum number of open files of all sources and queries: file descriptors are limited per process.
pub const MAX_OPEN: usize = 512;
/// Resolution assumed for file times, in seconds: two changes within it may leave the same times.
const TICK: i64 = 2;
/// Pseudo device numbers of files on servers and of text in memory. No local file has these device
/// numbers.
const ON_SERVERS: u64 = u64::MAX;
const IN_MEMORY: u64 = u64::MAX - 1;

/// A file by name, which is opened when it is first read.
#[derive(Debug)]
pub(crate) struct NamedFile {
    path: PathBuf,
    content: Content,
    opened: Mutex<Weak<Opened>>,
}

/// The part of a file that is read.
#[derive(Debug)]
enum Content {
    /// The whole local file.
    Whole,
    /// A range of the local file, valid for this version.
    Part(FileVersion, Range<u64>),
    /// Immutable content: text in memory that was derived from the file, or a range of one version of a file on a
    /// server.
    Fixed(Arc<Opened>),
    /// The whole file on a server; its last version; and whether the file is optional.
    Remote(Arc<RemoteFile>, Mutex<Option<Arc<Opened>>>, bool),
    /// An unreadable file, with the error message.
    Broken(String),
}

/// An open file.
#[derive(Debug)]
pub(crate) struct Opened {
    medium: Medium,
    path: PathBuf,
    /// The range that is read; `None` for the whole file.
    part: Option<Range<u64>>,
    state: Mutex<Arc<FileState>>,
    used: AtomicU64,
}

/// The medium that holds the bytes.
#[derive(Debug)]
enum Medium {
    Disk(Disk),
    Memory(Box<[u8]>),
    Remote(Arc<RemoteVersion>),
}

/// A local file.
#[derive(Debug)]
struct Disk {
    /// The descriptor; `None` while the file is closed to make room for other files.
    file: Mutex<Option<Arc<File>>>,
    /// True as long as the file system supports reads that only return cached pages.
    tells: AtomicBool,
}

/// A snapshot of the state of an open file.
#[derive(Debug)]
struct FileState {
    version: FileVersion,
    /// Time of the last check in seconds since 1970, if a later change might not change the version.
    young: Option<i64>,
    pivots: Pivots,
}

/// The attributes of a file that differ after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileVersion {
    file_id: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// A snapshot of a file at the beginning of a query.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    opened: Arc<Opened>,
    state: Arc<FileState>,
    /// Timeout of a read on a server, if the query searches several files.
    patience: Option<Duration>,
}

impl Drop for NamedFile {
    /// Closes the file when the running queries have ended, because its name may not be used again
    /// after a reload of the configuration.
    fn drop(&mut self) {
        self.evict();
    }
}

impl NamedFile {
    pub(crate) fn new(path: PathBuf) -> NamedFile {
        NamedFile::of(path, Content::Whole)
    }

    fn of(path: PathBuf, content: Content) -> NamedFile {
        NamedFile {
            path,
            content,
            opened: Mutex::default(),
        }
    }

    /// Creates a file that reads a range of a local file. Reading fails once the file has another version.
    pub(crate) fn part(path: PathBuf, version: FileVersion, part: Range<u64>) -> NamedFile {
        NamedFile::of(path, Content::Part(version, part))
    }

    /// Creates a file from text in memory that was derived from the file at `path`.
    pub(crate) fn made(path: PathBuf, text: Vec<u8>) -> NamedFile {
        let size = text.len() as u64;
        let state = FileState {
            version: FileVersion::elsewhere(IN_MEMORY, tick(), size),
            young: None,
            pivots: Pivots::in_memory(size),
        };
        let medium = Medium::Memory(text.into());
        let opened = Opened::new(medium, path.clone(), None, state);
        NamedFile::of(path, Content::Fixed(opened))
    }

    /// Creates a file on a server.
    pub(crate) fn remote(file: Arc<RemoteFile>) -> NamedFile {
        let path = PathBuf::from(shown(&file.url()));
        NamedFile::of(path, Content::Remote(file, Mutex::default(), false))
    }

    /// Creates a file on a server that is allowed to be missing.
    pub(crate) fn optional(file: Arc<RemoteFile>) -> NamedFile {
        let path = PathBuf::from(shown(&file.url()));
        NamedFile::of(path, Content::Remote(file, Mutex::default(), true))
    }

    /// Creates a file that reads a range of one version of a file on a server.
    pub(crate) fn remote_part(version: &Arc<RemoteVersion>, part: Range<u64>) -> NamedFile {
        let path = PathBuf::from(shown(&version.file().url()));
        let opened = Opened::remote(version, path.clone(), Some(part));
        NamedFile::of(path, Content::Fixed(opened))
    }

    /// Creates a file that cannot be read, with the error message.
    pub(crate) fn broken(path: PathBuf, why: String) -> NamedFile {
        NamedFile::of(path, Content::Broken(why))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the file is on a server.
    pub(crate) fn is_remote(&self) -> bool {
        match &self.content {
            Content::Remote(..) => true,
            Content::Fixed(opened) => matches!(opened.medium, Medium::Remote(_)),
            Content::Whole | Content::Part(..) | Content::Broken(_) => false,
        }
    }

    /// Returns the current state of the file; `None` if it is gone or not a regular file.
    ///
    /// # Errors
    /// Returns the reason why the file cannot be read.
    pub(crate) async fn snapshot(&self) -> Result<Option<Snapshot>, SourceError> {
        match &self.content {
            Content::Whole => self.as_it_is().await,
            Content::Part(version, _) => match self.as_it_is().await? {
                Some(snapshot) if snapshot.version() != *version => {
                    let shown = self.path.display();
                    Err(SourceError::Changed(format!(
                        "{shown}: the file has just changed"
                    )))
                }
                snapshot => Ok(snapshot),
            },
            Content::Fixed(opened) => Ok(Some(opened.as_it_was())),
            Content::Remote(file, opened, may_miss) => {
                let version = match file.known() {
                    Some(version) => version,
                    None => {
                        let (file, may_miss) = (Arc::clone(file), *may_miss);
                        let asked = outcome(async move {
                            if may_miss {
                                file.version_if_any().await
                            } else {
                                file.version(First::Begin).await.map(Some)
                            }
                        });
                        match asked.await? {
                            Some(version) => version,
                            None => return Ok(None),
                        }
                    }
                };
                let mut opened = lock(opened);
                opened.take_if(|before| !before.is_of(&version));
                let new = || Opened::remote(&version, self.path.clone(), None);
                Ok(Some(opened.get_or_insert_with(new).as_it_was()))
            }
            Content::Broken(why) => Err(SourceError::Io(why.clone())),
        }
    }

    async fn as_it_is(&self) -> Result<Option<Snapshot>, SourceError> {
        let opened = lock(&self.opened).upgrade();
        if let Some(opened) = opened {
            let snapshot = opened.snapshot();
            // The snapshot is `None` if the file was closed, or was replaced and therefore has no link.
            if let Some(snapshot) = snapshot.map_err(|error| failed(&self.path, &error))? {
                return Ok(Some(snapshot));
            }
        }
        until_it_may_wait().await;
        match self.open() {
            Ok(opened) => Ok(opened.map(|(opened, metadata)| opened.at(&metadata))),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(failed(&self.path, &error)),
        }
    }

    /// Forgets the open file because the name belongs to another file now; the next query opens that file.
    pub(crate) fn evict(&self) {
        let opened = std::mem::take(&mut *lock(&self.opened));
        if opened.strong_count() > 0 {
            all().retain(|other| opened.as_ptr() != Arc::as_ptr(other));
        }
    }

    /// Returns the device and the inode of the open file.
    pub(crate) fn file_id(&self) -> Option<(u64, u64)> {
        let opened = lock(&self.opened).upgrade()?;
        let file_id = lock(&opened.state).version.file_id;
        Some(file_id)
    }

    fn open(&self) -> io::Result<Option<(Arc<Opened>, Metadata)>> {
        let mut options = File::options();
        // Without `O_NONBLOCK`, opening a pipe would block until it has a writer.
        let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
        let file = options.read(true).custom_flags(flags).open(&self.path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Ok(None);
        }
        let mut own = lock(&self.opened);
        if let Some(opened) = own.upgrade()
            && lock(&opened.state).version.file_id == (metadata.dev(), metadata.ino())
        {
            if let Medium::Disk(disk) = &opened.medium {
                let before = lock(&disk.file).replace(Arc::new(file));
                if before.is_none() {
                    keep(&opened);
                }
            }
            return Ok(Some((opened, metadata)));
        }
        let part = match &self.content {
            Content::Part(_, part) => Some(part.clone()),
            _ => None,
        };
        let version = FileVersion::of(&metadata);
        let state = FileState::of(version, size(&metadata, part.as_ref()));
        let opened = Opened::new(Medium::of(file), self.path.clone(), part, state);
        *own = Arc::downgrade(&opened);
        drop(own);
        keep(&opened);
        Ok(Some((opened, metadata)))
    }
}

impl Medium {
    fn of(file: File) -> Medium {
        Medium::Disk(Disk {
            file: Mutex::new(Some(Arc::new(file))),
            tells: AtomicBool::new(true),
        })
    }
}

impl Opened {
    fn new(
        medium: Medium,
        path: PathBuf,
        part: Option<Range<u64>>,
        state: FileState,
    ) -> Arc<Opened> {
        Arc::new(Opened {
            medium,
            path,
            part,
            state: Mutex::new(Arc::new(state)),
            used: AtomicU64::new(0),
        })
    }

    fn remote(
        version: &Arc<RemoteVersion>,
        path: PathBuf,
        part: Option<Range<u64>>,
    ) -> Arc<Opened> {
        let whole = 0..version.size();
        let read = part.as_ref().unwrap_or(&whole);
        let state = FileState {
            version: FileVersion::elsewhere(ON_SERVERS, version.id(), version.size()),
            young: None,
            pivots: Pivots::new(read.end - read.start),
        };
        Opened::new(Medium::Remote(Arc::clone(version)), path, part, state)
    }

    fn is_of(&self, version: &Arc<RemoteVersion>) -> bool {
        matches!(&self.medium, Medium::Remote(own) if Arc::ptr_eq(own, version))
    }

    /// Returns the snapshot of content that never changes.
    fn as_it_was(self: &Arc<Opened>) -> Snapshot {
        Snapshot {
            opened: Arc::clone(self),
            state: Arc::clone(&lock(&self.state)),
            patience: None,
        }
    }

    /// Returns the current state; `None` if the file is closed or has been deleted.
    fn snapshot(self: &Arc<Opened>) -> io::Result<Option<Snapshot>> {
        let Medium::Disk(disk) = &self.medium else {
            return Ok(Some(self.as_it_was()));
        };
        // A closed file is opened again by its name.
        let Some(file) = disk.opened() else {
            return Ok(None);
        };
        // `fstat` does not wait for the disk.
        let metadata = file.metadata()?;
        if metadata.nlink() == 0 {
            // Close the deleted file, to free its disk space.
            all().retain(|other| !Arc::ptr_eq(other, self));
            return Ok(None);
        }
        Ok(Some(self.at(&metadata)))
    }

    /// Returns the state of the file for this metadata.
    fn at(self: &Arc<Opened>, metadata: &Metadata) -> Snapshot {
        self.used.store(tick(), Ordering::Relaxed);
        let version = FileVersion::of(metadata);
        let mut state = lock(&self.state);
        let stale = state
            .young
            .is_some_and(|seen| now() > seen.saturating_add(TICK));
        if state.version != version || stale {
            let size = size(metadata, self.part.as_ref());
            *state = Arc::new(FileState::of(version, size));
        }
        Snapshot {
            opened: Arc::clone(self),
            state: Arc::clone(&state),
            patience: None,
        }
    }
}

impl Snapshot {
    /// Sets the timeout of reads on a server.
    pub(crate) fn with_patience(mut self, patience: Option<Duration>) -> Snapshot {
        self.patience = patience;
        self
    }

    pub(crate) fn size(&self) -> u64 {
        let part = self.opened.part.as_ref();
        part.map_or(self.state.version.size, |part| part.end - part.start)
    }

    pub(crate) fn pivots(&self) -> &Pivots {
        &self.state.pivots
    }

    pub(crate) fn path(&self) -> &Path {
        &self.opened.path
    }

    pub(crate) fn version(&self) -> FileVersion {
        self.state.version
    }

    /// Opens a file again that was closed while the query was running, and checks that it is still the
    /// same file.
    fn reopen(&self, disk: &Disk) -> Result<Arc<File>, SourceError> {
        let path = &self.opened.path;
        let file = File::open(path).map_err(|error| failed(path, &error))?;
        let metadata = file.metadata().map_err(|error| failed(path, &error))?;
        if FileVersion::of(&metadata).file_id != self.state.version.file_id {
            let what = format!("{}: the file has just changed", path.display());
            return Err(SourceError::Changed(what));
        }
        let file = Arc::new(file);
        *lock(&disk.file) = Some(Arc::clone(&file));
        keep(&self.opened);
        Ok(file)
    }

    /// Appends up to `bytes` bytes at `offset`, and returns their number. 0 means that the file was truncated.
    pub(crate) async fn read(
        &self,
        offset: u64,
        bytes: usize,
        into: &mut Vec<u8>,
    ) -> Result<usize, SourceError> {
        if offset >= self.size() {
            return Ok(0);
        }
        let (mut offset, mut bytes) = (offset, bytes);
        if let Some(part) = &self.opened.part {
            let left = usize::try_from(self.size() - offset).unwrap_or(usize::MAX);
            bytes = bytes.min(left);
            offset += part.start;
        }
        spend(bytes).await;
        let disk = match &self.opened.medium {
            Medium::Disk(disk) => disk,
            Medium::Memory(text) => {
                let begin = usize::try_from(offset).unwrap_or(usize::MAX);
                let rest = text.get(begin..).unwrap_or_default();
                let read = rest.get(..bytes).unwrap_or(rest);
                into.extend_from_slice(read);
                return Ok(read.len());
            }
            Medium::Remote(version) => {
                let read = match version.kept(offset, bytes) {
                    Some(read) => read,
                    None => {
                        let (version, patience) = (Arc::clone(version), self.patience);
                        let read = async move {
                            match patience {
                                Some(patience) => {
                                    version.read_within(patience, offset, bytes).await
                                }
                                None => version.read(offset, bytes).await,
                            }
                        };
                        outcome(read).await?
                    }
                };
                into.extend_from_slice(&read);
                return Ok(read.len());
            }
        };
        let opened = disk.opened();
        let file = match opened {
            Some(file) => file,
            None => {
                until_it_may_wait().await;
                self.reopen(disk)?
            }
        };
        let before = into.len();
        into.resize(before + bytes, 0);
        let room = &mut into[before..];
        let read = match disk.read_in_memory(&file, offset, room) {
            Some(read) => Ok(read),
            None => {
                until_it_may_wait().await;
                let read = read(&file, offset, room);
                read.map_err(|error| failed(&self.opened.path, &error))
            }
        };
        into.truncate(before + read.as_ref().map_or(0, |&read| read));
        read
    }
}

impl Disk {
    /// Returns the open file, unless it was closed.
    fn opened(&self) -> Option<Arc<File>> {
        lock(&self.file).clone()
    }

    /// Reads cached pages only. Returns `None` if the read may have to wait for the disk.
    fn read_in_memory(&self, file: &File, offset: u64, room: &mut [u8]) -> Option<usize> {
        if may_wait() || !self.tells.load(Ordering::Relaxed) {
            return None;
        }
        let read = in_memory(file, offset, room);
        if !matches!(read, Ok(_) | Err(Errno::AGAIN | Errno::INTR)) {
            self.tells.store(false, Ordering::Relaxed);
        }
        read.ok()
    }
}

fn read(file: &File, offset: u64, room: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read_at(room, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

#[cfg(target_os = "linux")]
fn in_memory(file: &File, offset: u64, room: &mut [u8]) -> Result<usize, Errno> {
    #[cfg(test)]
    let room = tests::some_of(room)?;
    let mut room = [IoSliceMut::new(room)];
    rustix::io::preadv2(file, &mut room, offset, ReadWriteFlags::NOWAIT)
}

#[cfg(not(target_os = "linux"))]
fn in_memory(_: &File, _: u64, _: &mut [u8]) -> Result<usize, Errno> {
    Err(Errno::OPNOTSUPP)
}

impl FileState {
    /// Creates the state of a version, of which `size` bytes are read.
    fn of(version: FileVersion, size: u64) -> FileState {
        let now = now();
        let latest = version.modified.0.max(version.changed.0);
        FileState {
            young: (latest.saturating_add(TICK) > now).then_some(now),
            pivots: Pivots::new(size),
            version,
        }
    }
}

impl FileVersion {
    pub(crate) fn of(metadata: &Metadata) -> FileVersion {
        FileVersion {
            file_id: (metadata.dev(), metadata.ino()),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Returns the device and the inode of the file.
    pub(crate) fn file_id(&self) -> (u64, u64) {
        self.file_id
    }

    /// Returns whether the last change is old enough that another change would alter the file times.
    pub(crate) fn is_settled(&self) -> bool {
        self.modified.0.max(self.changed.0).saturating_add(TICK) < now()
    }

    /// Returns the size of the file in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Returns the modification time, in seconds and nanoseconds since 1970.
    pub(crate) fn modified(&self) -> (i64, i64) {
        self.modified
    }

    /// Returns whether the later version may be the same file with more bytes at its end.
    pub(crate) fn may_grow_to(&self, later: &FileVersion) -> bool {
        self.file_id == later.file_id
            && (self.size < later.size
                || self.size == later.size && self.modified == later.modified)
    }

    /// Creates the version of immutable content that is not a local file. The number distinguishes it from all others
    /// on the same pseudo device.
    fn elsewhere(device: u64, number: u64, size: u64) -> FileVersion {
        FileVersion {
            file_id: (device, number),
            size,
            modified: (0, 0),
            changed: (0, 0),
        }
    }
}

/// Returns the number of bytes that are read of a file.
fn size(metadata: &Metadata, part: Option<&Range<u64>>) -> u64 {
    part.map_or(metadata.len(), |part| part.end - part.start)
}

/// Returns whether the error means that the file does not exist.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn failed(path: &Path, error: &io::Error) -> SourceError {
    SourceError::Io(format!("{}: {error}", path.display()))
}

/// Keeps a file open. When [`MAX_OPEN`] files are open, the least recently used half is closed. Running queries open
/// their files again.
fn keep(opened: &Arc<Opened>) {
    opened.used.store(tick(), Ordering::Relaxed);
    let mut all = all();
    if all.len() >= MAX_OPEN {
        // Closing half of the files at a time makes this rare. The sort keys are cached, because
        // queries change them during the sort.
        all.sort_by_cached_key(|one| std::cmp::Reverse(one.used.load(Ordering::Relaxed)));
        for evicted in all.drain(MAX_OPEN / 2..) {
            if let Medium::Disk(disk) = &evicted.medium {
                *lock(&disk.file) = None;
            }
        }
    }
    all.push(Arc::clone(opened));
}

/// The files that are kept open.
fn all() -> MutexGuard<'static, Vec<Arc<Opened>>> {
    static ALL: Mutex<Vec<Arc<Opened>>> = Mutex::new(Vec::new());
    lock(&ALL)
}

/// Returns a number that is higher than all numbers it returned before.
fn tick() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed)
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes some reads in tests return nothing or only a part, as if the pages were not cached.
    pub(crate) fn some_of(room: &mut [u8]) -> Result<&mut [u8], Errno> {
        static READS: AtomicU64 = AtomicU64::new(0);
        let read = READS.fetch_add(1, Ordering::Relaxed);
        let half = room.len().div_ceil(2);
        match read % 7 {
            3 => Err(Errno::AGAIN),
            5 => Ok(&mut room[..half]),
            _ => Ok(room),
        }
    }

    #[test]
    fn unreferenced_file_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.cdxj");
        std::fs::write(&path, "a 2016 {}\n").unwrap();
        let named = NamedFile::new(path);
        let snapshot = crate::sorted::steps::wait(named.snapshot())
            .unwrap()
            .unwrap();
        let opened = lock(&named.opened).clone();
        drop(named);
        assert!(
            opened.upgrade().is_some(),
            "a running query keeps its file open"
        );
        drop(snapshot);
        assert!(opened.upgrade().is_none());
    }

    #[test]
    fn file_is_closed_while_others_are_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.cdxj");
        std::fs::write(&path, "a 2016 {}\n").unwrap();
        let name = || Arc::new(NamedFile::new(path.clone()));
        let named: Vec<_> = (0..MAX_OPEN + 100).map(|_| name()).collect();
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    for opened in named.iter().filter_map(|one| lock(&one.opened).upgrade()) {
                        opened.used.store(tick(), Ordering::Relaxed);
                    }
                }
            });
            let open = || {
                for one in named.iter().cycle().take(20 * named.len()) {
                    let snapshot = crate::sorted::steps::wait(one.snapshot()).unwrap();
                    assert!(snapshot.is_some());
                }
            };
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(open));
            ended.store(true, Ordering::Relaxed);
            outcome.unwrap();
        });
        assert!(all().len() <= MAX_OPEN);
    }
}
