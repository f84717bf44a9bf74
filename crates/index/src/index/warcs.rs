//! Folders of WARC files, which are indexed in the background.
//!
//! A thread compares a folder with its cache every second, and queues the files without an index of their current
//! version. A few threads, which all folders share, write one CDXJ file for each WARC file, and rename it into place
//! when it is complete. The name of an index identifies the WARC file and its version, so a new process continues where
//! the last one ended, and several processes can share a cache.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fs;
use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crawlspace_wacz::Replacement;
use crawlspace_warc::Problem;
use crawlspace_warc::digest::{Algorithm, Digester};

use super::folder::{Choice, Walk};
use crate::cdxj::Job;
use crate::sorted::file::FileVersion;
use crate::{Error, Work};

/// Minimum time between two scans of a folder. A scan that takes long is followed by a pause of [`SHARE`] times its
/// duration.
const INTERVAL: Duration = Duration::from_secs(1);
const SHARE: u32 = 20;
/// Pause before a file that has grown is indexed again, as a multiple of the time that its last indexing took.
const PATIENCE: u32 = 10;
/// Time after which a file that could not be read is tried again.
const RETRY: Duration = Duration::from_secs(60);
/// Maximum time for which a query waits for the first scan of a folder.
const FIRST: Duration = Duration::from_secs(2);
/// Age after which a temporary file belongs to a process that was killed.
const STALE: Duration = Duration::from_secs(3600);
/// Maximum number of files that are indexed concurrently, in all folders together.
const MAX_THREADS: usize = 8;
/// Memory for sorting the rows of one file, in bytes; the rest is sorted on the disk.
const MEMORY: usize = 32 << 20;
/// Name of the cache in a folder of WARC files. Scans skip hidden folders.
const CACHE: &str = ".crawlspace";
/// Name of the folder in a cache that contains the indexes. It changes when new rows would differ from cached ones.
const FORMAT: &str = "cdxj-2";
/// Suffixes of an index, and of the file that describes the damage of its WARC file.
const INDEX: &str = ".cdxj";
const DAMAGE: &str = ".damage";
/// Prefix of temporary files.
const TEMPORARY: &str = ".crawlspace-";

/// A folder of WARC files, and their indexes. Indexing stops when this value is dropped.
#[derive(Debug)]
pub struct WarcFolder(Arc<Shared>);

/// Number of WARC files by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WarcCounts {
    /// Files whose current version is indexed completely.
    pub indexed: u64,
    /// Files whose current version is not indexed yet.
    pub waiting: u64,
    /// Files with damage; the captures before it are indexed.
    pub damaged: u64,
    /// Files that cannot be read or indexed at the moment.
    pub unreadable: u64,
}

/// The indexes of a folder that queries search.
pub(super) struct Indexes {
    /// The index files, and messages about files that are not indexed completely.
    pub(super) walk: Walk,
    /// Number of files whose current version is not indexed yet.
    pub(super) waiting: u64,
}

#[derive(Debug)]
struct Shared {
    folder: PathBuf,
    cache: PathBuf,
    work: Work,
    state: Mutex<State>,
    /// Signals the end of the first scan, and the end of the folder's use.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_scanned: bool,
    is_stopped: bool,
    /// The WARC files, by their names in rows: paths relative to the folder.
    files: BTreeMap<String, WarcFile>,
    /// Problems of the last scan.
    failures: Vec<String>,
}

#[derive(Debug)]
struct WarcFile {
    version: FileVersion,
    /// Name of the index of this version, without its suffix.
    stem: String,
    progress: Progress,
    is_queued: bool,
    /// The index that queries search. While a file grows, this is the index of a previous version.
    index: Option<Index>,
    /// Earliest time of the next attempt.
    not_before: Option<Instant>,
}

#[derive(Debug)]
enum Progress {
    Waiting,
    Indexed,
    Unreadable(String),
}

#[derive(Debug)]
struct Index {
    stem: String,
    version: FileVersion,
    damage: Option<String>,
}

impl WarcFolder {
    /// Opens a folder, and starts to index its files. Indexes are kept below `cache`, or in the folder itself. Returns
    /// the same folder as a previous call if that is still in use.
    pub fn open(folder: &Path, cache: Option<&Path>) -> Arc<WarcFolder> {
        static FOLDERS: Mutex<Vec<Weak<WarcFolder>>> = Mutex::new(Vec::new());
        let cache = cache_of(folder, cache);
        let mut folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
        folders.retain(|one| one.strong_count() > 0);
        let mut open = folders.iter().filter_map(Weak::upgrade);
        if let Some(same) = open.find(|one| one.0.folder == folder && one.0.cache == cache) {
            return same;
        }
        let shared = Arc::new(Shared {
            folder: folder.to_owned(),
            cache,
            work: Work::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let watched = Arc::clone(&shared);
        let spawned = thread::Builder::new()
            .name("warc-folder".to_owned())
            .spawn(move || watched.watch());
        if let Err(error) = spawned {
            let mut state = shared.lock();
            state.is_scanned = true;
            state.failures = vec![format!("{}: cannot be indexed: {error}", folder.display())];
        }
        let opened = Arc::new(WarcFolder(shared));
        folders.push(Arc::downgrade(&opened));
        opened
    }

    /// Checks a folder and its cache without changing them. Returns messages about what is missing.
    pub fn check(folder: &Path, cache: Option<&Path>) -> Vec<String> {
        let mut problems = Walk::of(folder, Choice::Warcs).failures;
        let cache = cache_of(folder, cache);
        let place = cache.ancestors().find(|place| place.exists());
        problems.extend(
            place
                .filter(|_| problems.is_empty())
                .and_then(|place| writable(place).err()),
        );
        problems
    }

    /// Returns the number of files in each state.
    pub fn counts(&self) -> WarcCounts {
        let mut counts = WarcCounts::default();
        for file in self.0.lock().files.values() {
            let damage = file.index.as_ref().and_then(|index| index.damage.as_ref());
            *match file.progress {
                Progress::Waiting => &mut counts.waiting,
                Progress::Unreadable(_) => &mut counts.unreadable,
                Progress::Indexed if damage.is_some() => &mut counts.damaged,
                Progress::Indexed => &mut counts.indexed,
            } += 1;
        }
        counts
    }

    /// Returns a message with the first problem and the number of other problems; `None` without problems.
    pub fn problem(&self) -> Option<String> {
        let state = self.0.lock();
        let mut problems = state.problems();
        let first = problems.next()?.clone();
        Some(match problems.count() {
            0 => first,
            more => format!("{first}; and {more} more parts cannot be read"),
        })
    }

    /// Returns the indexes to search, after the first scan of the folder. The calling thread may block.
    pub(super) fn indexes(&self) -> Indexes {
        let state = self.0.lock();
        let scanned = self
            .0
            .changed
            .wait_timeout_while(state, FIRST, |state| !state.is_scanned);
        let (state, _) = scanned.unwrap_or_else(PoisonError::into_inner);
        let mut walk = Walk::empty(Choice::All);
        let mut waiting = u64::from(!state.is_scanned);
        walk.failures = state.problems().cloned().collect();
        let mut listed = Vec::with_capacity(state.files.len());
        for (name, file) in &state.files {
            waiting += u64::from(matches!(file.progress, Progress::Waiting));
            listed.extend(
                file.index
                    .as_ref()
                    .map(|index| (name.clone(), index.stem.clone())),
            );
        }
        drop(state);
        let mut lost = Vec::new();
        for (name, stem) in listed {
            let path = self.0.in_cache(&stem, INDEX);
            match fs::metadata(&path) {
                Ok(metadata) => walk.files.push((path, FileVersion::of(&metadata))),
                Err(_) => lost.push((name, stem)),
            }
        }
        waiting += lost.len() as u64;
        self.0.forget(lost);
        walk.files
            .sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        Indexes { walk, waiting }
    }
}

impl Drop for WarcFolder {
    fn drop(&mut self) {
        self.0.work.cancel();
        self.0.lock().is_stopped = true;
        self.0.changed.notify_all();
    }
}

impl State {
    /// Returns messages about the parts that are not indexed completely, except those that are still waiting to be
    /// indexed.
    fn problems(&self) -> impl Iterator<Item = &String> {
        let files = self.files.values().flat_map(|file| {
            let unreadable = match &file.progress {
                Progress::Unreadable(why) => Some(why),
                Progress::Waiting | Progress::Indexed => None,
            };
            let damage = file.index.as_ref().and_then(|index| index.damage.as_ref());
            unreadable.into_iter().chain(damage)
        });
        self.failures.iter().chain(files)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_cache(&self, stem: &str, suffix: &str) -> PathBuf {
        self.cache.join(format!("{stem}{suffix}"))
    }

    /// Scans the folder until it is not used any more.
    fn watch(self: Arc<Self>) {
        loop {
            let begun = Instant::now();
            let due = self.scan();
            enqueue(&self, due);
            let pause = INTERVAL.max(begun.elapsed() * SHARE);
            let waited = self
                .changed
                .wait_timeout_while(self.lock(), pause, |state| !state.is_stopped);
            let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if state.is_stopped {
                return;
            }
        }
    }

    /// Compares the folder with the cache, and removes indexes that are not needed any more. Returns the names of the
    /// files to index.
    fn scan(&self) -> Vec<String> {
        // List the cache before the folder: then no index in the list is newer than the file that the walk finds, and
        // an index that another process has just written does not look obsolete.
        let cached = if self.folder.is_dir() {
            prepare(&self.cache).and_then(|()| list(&self.cache))
        } else {
            Ok(HashSet::new())
        };
        let walk = Walk::of(&self.folder, Choice::Warcs);
        let is_whole = walk.failures.is_empty();
        let mut failures = walk.failures;
        let is_cache_usable = cached.is_ok();
        let cached = cached.unwrap_or_else(|why| {
            failures.push(why);
            HashSet::new()
        });
        let mut state = self.lock();
        let mut before = std::mem::take(&mut state.files);
        for (path, version) in walk.files {
            let below = path.strip_prefix(&self.folder).ok();
            let name = match below.and_then(Path::to_str) {
                Some("") => Err("this is a file: write the path of its folder"),
                Some(name) => Ok(name.to_owned()),
                None => Err("the name is not UTF-8: rename the file"),
            };
            let name = match name {
                Ok(name) => name,
                Err(why) => {
                    failures.push(format!("{}: {why}", path.display()));
                    continue;
                }
            };
            let stem = stem(&name, &version);
            let mut file = match before.remove(&name) {
                Some(file) if file.stem == stem => WarcFile { version, ..file },
                before => WarcFile::new(version, stem, before),
            };
            let has_index = cached.contains(&format!("{}{INDEX}", file.stem));
            if has_index && !matches!(file.progress, Progress::Indexed) {
                file.index = Some(self.cached_index(&file.stem, version));
                file.progress = Progress::Indexed;
            }
            state.files.insert(name, file);
        }
        let mut due = Vec::new();
        for (name, file) in &mut state.files {
            let is_due = file
                .not_before
                .is_none_or(|moment| moment <= Instant::now());
            let is_indexed = matches!(file.progress, Progress::Indexed);
            if is_cache_usable && !is_indexed && !file.is_queued && is_due {
                file.is_queued = true;
                due.push(name.clone());
            }
        }
        let new = failures.iter().filter(|why| !state.failures.contains(why));
        new.for_each(
            |error| tracing::warn!(%error, "a folder of WARC files is not served completely"),
        );
        state.failures = failures;
        state.is_scanned = true;
        self.changed.notify_all();
        if is_whole {
            self.remove_obsolete(state, &cached);
        }
        due
    }

    /// Removes indexes of files that were removed or have changed, and temporary files of processes that were killed.
    fn remove_obsolete(&self, state: MutexGuard<'_, State>, cached: &HashSet<String>) {
        let files = state.files.values();
        let needed = files.flat_map(|file| {
            let searched = file.index.as_ref().map(|index| &index.stem);
            searched.into_iter().chain([&file.stem])
        });
        let needed: HashSet<&str> = needed.map(String::as_str).collect();
        let is_obsolete = |name: &&String| {
            let stem = name
                .strip_suffix(INDEX)
                .or_else(|| name.strip_suffix(DAMAGE));
            match stem {
                Some(stem) => !needed.contains(stem),
                None => name.starts_with(TEMPORARY) && is_stale(&self.cache.join(name)),
            }
        };
        let obsolete: Vec<&String> = cached.iter().filter(is_obsolete).collect();
        drop(needed);
        drop(state);
        for name in obsolete {
            // Another process may have removed it.
            let _ = fs::remove_file(self.cache.join(name));
        }
    }

    fn cached_index(&self, stem: &str, version: FileVersion) -> Index {
        Index {
            stem: stem.to_owned(),
            version,
            damage: fs::read_to_string(self.in_cache(stem, DAMAGE)).ok(),
        }
    }

    /// Forgets indexes that were removed from the cache, so that their files are indexed again.
    fn forget(&self, lost: Vec<(String, String)>) {
        let mut state = self.lock();
        for (name, stem) in lost {
            if let Some(file) = state.files.get_mut(&name)
                && file.index.take_if(|index| index.stem == stem).is_some()
            {
                file.progress = Progress::Waiting;
            }
        }
    }

    /// Indexes a file, and records the outcome.
    fn index(&self, name: &str) {
        let begun = Instant::now();
        let built = catch_unwind(AssertUnwindSafe(|| self.build(name)));
        let path = self.folder.join(name);
        let built = built.unwrap_or_else(|_| {
            let path = path.display();
            let what = format!("{path}: the indexer stopped because of a bug: please report it");
            Err(Error::Request(what))
        });
        let mut state = self.lock();
        // The next scan removes the index of a file that is gone.
        let Some(file) = state.files.get_mut(name) else {
            return;
        };
        file.is_queued = false;
        match built {
            Ok(Some(index)) => {
                if let Some(damage) = &index.damage {
                    tracing::warn!(error = %damage, "a WARC file is damaged; its captures before the damage are served");
                }
                if file.version.may_grow_to(&index.version) {
                    // The file may have grown since the last scan.
                    file.version = index.version;
                    file.stem.clone_from(&index.stem);
                    file.progress = Progress::Indexed;
                } else if !index.version.may_grow_to(&file.version) {
                    return;
                }
                file.not_before = Some(Instant::now() + begun.elapsed() * PATIENCE);
                file.index = Some(index);
            }
            // The file was replaced meanwhile; the next scan finds its new version.
            Ok(None) | Err(Error::Cancelled) => {}
            Err(error) => {
                if path.exists() {
                    tracing::warn!(%error, "a WARC file cannot be indexed");
                }
                file.progress = Progress::Unreadable(error.to_string());
                file.not_before = Some(Instant::now() + RETRY);
            }
        }
    }

    /// Writes the index of a file. Returns `None` if the file was replaced meanwhile.
    fn build(&self, name: &str) -> Result<Option<Index>, Error> {
        let path = self.folder.join(name);
        let look = || {
            let metadata = fs::metadata(&path).map_err(Error::io(&path, "read"))?;
            Ok::<_, Error>(FileVersion::of(&metadata))
        };
        let version = look()?;
        let stem = stem(name, &version);
        let place = self.in_cache(&stem, INDEX);
        if place.exists() {
            return Ok(Some(self.cached_index(&stem, version)));
        }
        let mut built = Job {
            files: &[(path.clone(), name.to_owned())],
            threads: 1,
            memory: MEMORY,
            folder: &self.cache,
        }
        .run(&self.work.part())?;
        let damage = match built.errors.pop() {
            Some(Error::Warc(error)) => match error.problem {
                // The file is being written.
                Problem::Truncated | Problem::Empty => None,
                Problem::Io(_) => return Err(error.into()),
                _ => Some(error.to_string()),
            },
            Some(error) => return Err(error),
            None => None,
        };
        if !version.may_grow_to(&look()?) {
            return Ok(None);
        }
        if let Some(damage) = &damage {
            replace(&self.in_cache(&stem, DAMAGE), |out| {
                out.write_all(damage.as_bytes())
                    .map_err(Error::io(&self.cache, "write"))
            })?;
        }
        replace(&place, |out| {
            let written = built.for_each(|row| {
                let written = out.write_all(row).and_then(|()| out.write_all(b"\n"));
                written.map_err(Error::io(&place, "write"))
            });
            written.map(|_| ())
        })?;
        Ok(Some(Index {
            stem,
            version,
            damage,
        }))
    }
}

impl WarcFile {
    /// Creates the state of a new version of a file. If the file has only grown, the index of its previous version
    /// stays in use.
    fn new(version: FileVersion, stem: String, before: Option<WarcFile>) -> WarcFile {
        let is_queued = before.as_ref().is_some_and(|before| before.is_queued);
        let grown = before.filter(|before| before.version.may_grow_to(&version));
        let (index, not_before) = grown.map_or((None, None), |before| {
            let moment = before.not_before.filter(|_| before.index.is_some());
            (before.index, moment)
        });
        WarcFile {
            version,
            stem,
            progress: Progress::Waiting,
            is_queued,
            index,
            not_before,
        }
    }
}

struct Queue {
    waiting: VecDeque<(Weak<Shared>, String)>,
    threads: usize,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue {
    waiting: VecDeque::new(),
    threads: 0,
});

fn queue() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Queues files of a folder, and starts the threads that index them: one for every two processors.
fn enqueue(folder: &Arc<Shared>, names: Vec<String>) {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let most = (processors / 2).clamp(1, MAX_THREADS);
    let mut queue = queue();
    let files = names.into_iter();
    queue
        .waiting
        .extend(files.map(|name| (Arc::downgrade(folder), name)));
    while queue.threads < most.min(queue.waiting.len()) {
        let thread = thread::Builder::new().name("warc-index".to_owned());
        if thread.spawn(index_queued).is_err() {
            return;
        }
        queue.threads += 1;
    }
}

fn index_queued() {
    loop {
        let next = {
            let mut queue = queue();
            let next = queue.waiting.pop_front();
            queue.threads -= usize::from(next.is_none());
            next
        };
        let Some((folder, name)) = next else {
            return;
        };
        if let Some(folder) = folder.upgrade() {
            folder.index(&name);
        }
    }
}

/// Returns the folder for the indexes of a folder of WARC files.
fn cache_of(folder: &Path, cache: Option<&Path>) -> PathBuf {
    let cache = match cache {
        // Each folder that shares the cache has its own folder in it.
        Some(cache) => {
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            let hash = hash(folder.as_os_str().as_encoded_bytes());
            cache.join(format!("{name}-{hash}"))
        }
        None => folder.join(CACHE),
    };
    cache.join(FORMAT)
}

/// Creates the folder for indexes if it is missing, and checks that it is writable.
fn prepare(cache: &Path) -> Result<(), String> {
    let created = fs::create_dir_all(cache);
    created.map_err(|error| unusable(cache, &error))?;
    writable(cache)
}

fn writable(folder: &Path) -> Result<(), String> {
    let access = rustix::fs::access(folder, rustix::fs::Access::WRITE_OK);
    access.map_err(|error| unusable(folder, &error.into()))
}

fn unusable(folder: &Path, error: &io::Error) -> String {
    let folder = folder.display();
    format!(
        "{folder}: indexes of WARC files cannot be written: {error}; make the folder writable, or set cache_dir to \
         another one"
    )
}

/// Returns the names of all files in the cache.
fn list(cache: &Path) -> Result<HashSet<String>, String> {
    let read = || {
        let mut names = HashSet::new();
        for entry in fs::read_dir(cache)? {
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    };
    read().map_err(|error: io::Error| format!("{}: cannot be read: {error}", cache.display()))
}

/// Returns the name of an index without its suffix: the file, its size and its modification time.
fn stem(name: &str, version: &FileVersion) -> String {
    let (seconds, nanoseconds) = version.modified();
    let (hash, size) = (hash(name.as_bytes()), version.size());
    format!("{hash}-{size}-{seconds}.{nanoseconds:09}")
}

fn hash(bytes: &[u8]) -> String {
    let mut digester = Digester::new(Algorithm::Sha1);
    digester.update(bytes);
    let text = digester.finish().text();
    text.rsplit(':').next().unwrap_or_default().to_owned()
}

/// Writes a file, which appears under its name when it is complete.
fn replace(
    place: &Path,
    write: impl FnOnce(&mut dyn io::Write) -> Result<(), Error>,
) -> Result<(), Error> {
    let failed = |action| Error::io(place, action);
    let replacement = Replacement::of(place).map_err(failed("create"))?;
    let mut out = replacement.writer().map_err(failed("create"))?;
    write(&mut out)?;
    let done = out.flush().and_then(|()| replacement.commit());
    done.map_err(failed("write"))
}

fn is_stale(temporary: &Path) -> bool {
    let written = fs::metadata(temporary).and_then(|metadata| metadata.modified());
    let age = written.map(|written| SystemTime::now().duration_since(written));
    age.is_ok_and(|age| age.is_ok_and(|age| age > STALE))
}

#[cfg(test)]
mod tests;
