//! Open files, of which there are only so many at a time.

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

/// Maximum number of open files, over all sources and queries: descriptors belong to the process.
pub const MAX_OPEN: usize = 512;
/// A change of a file within this time after another one may leave its times as they are, in seconds.
const TICK: i64 = 2;
/// Devices that no file of this machine is on: those of files on servers, and of text in memory.
const ON_SERVERS: u64 = u64::MAX;
const IN_MEMORY: u64 = u64::MAX - 1;

/// A file by name, which is opened when somebody reads it.
#[derive(Debug)]
pub(crate) struct NamedFile {
    path: PathBuf,
    content: Content,
    opened: Mutex<Weak<Opened>>,
}

/// What of a file is read.
#[derive(Debug)]
enum Content {
    /// All of it.
    Whole,
    /// A part, as long as the file is this version of it.
    Part(FileVersion, Range<u64>),
    /// What never changes: text in memory that was made of it, or a part of one version of it on a server.
    Fixed(Arc<Opened>),
    /// All of it, on a server; its last version, and whether it may be missing.
    Remote(Arc<RemoteFile>, Mutex<Option<Arc<Opened>>>, bool),
    /// Nothing, for a reason.
    Broken(String),
}

/// An open file.
#[derive(Debug)]
pub(crate) struct Opened {
    medium: Medium,
    path: PathBuf,
    /// What of it is read, if that is not all of it.
    part: Option<Range<u64>>,
    state: Mutex<Arc<FileState>>,
    used: AtomicU64,
}

/// Where the bytes are.
#[derive(Debug)]
enum Medium {
    Disk(Disk),
    Memory(Box<[u8]>),
    Remote(Arc<RemoteVersion>),
}

/// A file of this machine.
#[derive(Debug)]
struct Disk {
    /// Closed while others need the descriptor.
    file: Mutex<Option<Arc<File>>>,
    /// Whether its file system can tell what is in memory.
    tells: AtomicBool,
}

/// An open file as it was at some moment.
#[derive(Debug)]
struct FileState {
    version: FileVersion,
    /// Seconds since 1970 when it was looked at, if a change since then might have left the version as it is.
    young: Option<i64>,
    pivots: Pivots,
}

/// What changes when a file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileVersion {
    file_id: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// A file as it was when a query began.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    opened: Arc<Opened>,
    state: Arc<FileState>,
    /// The time limit of a part of a file on a server, where other files answer as well.
    patience: Option<Duration>,
}

impl Drop for NamedFile {
    /// Closes the file, once queries that are under way have ended: after a reload nobody asks for it by this name.
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

    /// A part of a file, which is not read any more when the file is another version.
    pub(crate) fn part(path: PathBuf, version: FileVersion, part: Range<u64>) -> NamedFile {
        NamedFile::of(path, Content::Part(version, part))
    }

    /// Text that was made of a file, which is kept in memory.
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

    /// A file on a server.
    pub(crate) fn remote(file: Arc<RemoteFile>) -> NamedFile {
        let path = PathBuf::from(shown(&file.url()));
        NamedFile::of(path, Content::Remote(file, Mutex::default(), false))
    }

    /// A file on a server that need not be there.
    pub(crate) fn optional(file: Arc<RemoteFile>) -> NamedFile {
        let path = PathBuf::from(shown(&file.url()));
        NamedFile::of(path, Content::Remote(file, Mutex::default(), true))
    }

    /// A part of a version of a file on a server.
    pub(crate) fn remote_part(version: &Arc<RemoteVersion>, part: Range<u64>) -> NamedFile {
        let path = PathBuf::from(shown(&version.file().url()));
        let opened = Opened::remote(version, path.clone(), Some(part));
        NamedFile::of(path, Content::Fixed(opened))
    }

    /// A file that cannot be read, for this reason.
    pub(crate) fn broken(path: PathBuf, why: String) -> NamedFile {
        NamedFile::of(path, Content::Broken(why))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether it is on a server.
    pub(crate) fn is_remote(&self) -> bool {
        match &self.content {
            Content::Remote(..) => true,
            Content::Fixed(opened) => matches!(opened.medium, Medium::Remote(_)),
            Content::Whole | Content::Part(..) | Content::Broken(_) => false,
        }
    }

    /// The file as it is now; `None` when it is gone, or no file.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(crate) async fn snapshot(&self) -> Result<Option<Snapshot>, SourceError> {
        match &self.content {
            Content::Whole => self.as_it_is().await,
            Content::Part(version, _) => match self.as_it_is().await? {
                Some(snapshot) if snapshot.version() != *version => {
                    let shown = self.path.display();
                    Err(SourceError::Changed(format!(
                        "{shown}: it has just changed"
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
            // One whose name is another file's by now has no link left.
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

    /// The name means another file now: the next query opens that.
    pub(crate) fn evict(&self) {
        let opened = std::mem::take(&mut *lock(&self.opened));
        if opened.strong_count() > 0 {
            all().retain(|other| opened.as_ptr() != Arc::as_ptr(other));
        }
    }

    /// Device and number of the file that is open.
    pub(crate) fn file_id(&self) -> Option<(u64, u64)> {
        let opened = lock(&self.opened).upgrade()?;
        let file_id = lock(&opened.state).version.file_id;
        Some(file_id)
    }

    fn open(&self) -> io::Result<Option<(Arc<Opened>, Metadata)>> {
        let mut options = File::options();
        // A pipe of such a name would wait for somebody to write.
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

    /// What does not change.
    fn as_it_was(self: &Arc<Opened>) -> Snapshot {
        Snapshot {
            opened: Arc::clone(self),
            state: Arc::clone(&lock(&self.state)),
            patience: None,
        }
    }

    /// `None` when no name leads to it any more.
    fn snapshot(self: &Arc<Opened>) -> io::Result<Option<Snapshot>> {
        let Medium::Disk(disk) = &self.medium else {
            return Ok(Some(self.as_it_was()));
        };
        // A closed one is opened by its name.
        let Some(file) = disk.opened() else {
            return Ok(None);
        };
        // Asking an open file about itself does not wait for a disk.
        let metadata = file.metadata()?;
        if metadata.nlink() == 0 {
            // Nobody asks for it again, and what it takes of the disk should be free.
            all().retain(|other| !Arc::ptr_eq(other, self));
            return Ok(None);
        }
        Ok(Some(self.at(&metadata)))
    }

    /// The file as these say that it is.
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
    /// Limits how long a part of a file on a server may take.
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

    /// Opens a file again that was closed while this query went on. It has to be the same one.
    fn reopen(&self, disk: &Disk) -> Result<Arc<File>, SourceError> {
        let path = &self.opened.path;
        let file = File::open(path).map_err(|error| failed(path, &error))?;
        let metadata = file.metadata().map_err(|error| failed(path, &error))?;
        if FileVersion::of(&metadata).file_id != self.state.version.file_id {
            let what = format!("{}: it has just changed", path.display());
            return Err(SourceError::Changed(what));
        }
        let file = Arc::new(file);
        *lock(&disk.file) = Some(Arc::clone(&file));
        keep(&self.opened);
        Ok(file)
    }

    /// Appends up to so many bytes from there on; how many. 0 means that the file has become shorter.
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
    /// The file, unless it was closed.
    fn opened(&self) -> Option<Arc<File>> {
        lock(&self.file).clone()
    }

    /// Reads what is in memory; `None` when that has to be waited for, or may be.
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
    /// Of so many bytes of it.
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

    /// Device and number of the file.
    pub(crate) fn file_id(&self) -> (u64, u64) {
        self.file_id
    }

    /// Returns whether the last change is so long ago that another one would show in the times of the file.
    pub(crate) fn is_settled(&self) -> bool {
        self.modified.0.max(self.changed.0).saturating_add(TICK) < now()
    }

    /// The size of the file, in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The version of what is no file of this machine and never changes: a number tells it from all others on the same
    /// device.
    fn elsewhere(device: u64, number: u64, size: u64) -> FileVersion {
        FileVersion {
            file_id: (device, number),
            size,
            modified: (0, 0),
            changed: (0, 0),
        }
    }
}

/// How much is read of a file.
fn size(metadata: &Metadata, part: Option<&Range<u64>>) -> u64 {
    part.map_or(metadata.len(), |part| part.end - part.start)
}

/// Whether there simply is no such file.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn failed(path: &Path, error: &io::Error) -> SourceError {
    SourceError::Io(format!("{}: {error}", path.display()))
}

/// Keeps a file open. When [`MAX_OPEN`] are, the half that was used longest ago is closed, also those that a query reads:
/// it opens them again.
fn keep(opened: &Arc<Opened>) {
    opened.used.store(tick(), Ordering::Relaxed);
    let mut all = all();
    if all.len() >= MAX_OPEN {
        // Half at a time, so that it is seldom. Queries change the numbers meanwhile, which no order would survive.
        all.sort_by_cached_key(|one| std::cmp::Reverse(one.used.load(Ordering::Relaxed)));
        for evicted in all.drain(MAX_OPEN / 2..) {
            if let Medium::Disk(disk) = &evicted.medium {
                *lock(&disk.file) = None;
            }
        }
    }
    all.push(Arc::clone(opened));
}

/// Files that are kept open.
fn all() -> MutexGuard<'static, Vec<Arc<Opened>>> {
    static ALL: Mutex<Vec<Arc<Opened>>> = Mutex::new(Vec::new());
    lock(&ALL)
}

/// A number that grows.
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

    /// Now and then nothing is in memory, or only a part: all tests see that.
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
    fn a_file_that_nobody_names_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.cdxj");
        std::fs::write(&path, "a 2016 {}\n").unwrap();
        let named = NamedFile::new(path);
        let snapshot = crate::sorted::steps::wait(named.snapshot())
            .unwrap()
            .unwrap();
        let opened = lock(&named.opened).clone();
        drop(named);
        assert!(opened.upgrade().is_some(), "a query reads on");
        drop(snapshot);
        assert!(opened.upgrade().is_none());
    }

    #[test]
    fn files_are_closed_while_others_use_them() {
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
