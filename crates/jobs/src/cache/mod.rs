//! A cache of files. Requests get an item from the cache or build it; an item is never built twice at the same time.
//!
//! A hit does not wait for any lock. After a miss, the process takes the lock of the entry, looks again, builds the
//! entry next to its final place, and moves it there once all of it is on the disk. Therefore, even after a crash,
//! every existing entry is complete, and a missing entry can be built immediately.

mod cover;
mod draft;
mod entry;
mod evict;
mod lock;
mod look;
mod manifest;
mod seen;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::marker::PhantomData;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::libc;
use serde::Serialize;

pub use self::draft::Draft;
pub(crate) use self::draft::{MANIFEST, sync};
pub use self::entry::Entry;
use self::entry::Held;
pub(crate) use self::entry::file_of;
pub use self::evict::Eviction;
pub(crate) use self::evict::{clean, evict, tidy};
pub(crate) use self::lock::{Acquired, Lock, is_in_use, owner};
use self::look::CachedEntry;
pub use self::manifest::{FileSum, Input, Manifest, Unreadable};
pub(crate) use self::manifest::{read_manifest, sum};
pub(crate) use self::seen::last_used;
use super::{DEFAULT_WAIT, Error, Id, JobSet, Work};

/// The form of the entries of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A single file, with the manifest next to it as `<entry>.manifest.json`.
    File,
    /// A folder of files, including the manifest as `manifest.json`.
    Folder,
}

/// A cache of files for items identified by `I`.
///
/// ```
/// use std::io::Write;
/// use crawlspace_jobs::{FileBasedCache, Form, JobId, Work};
/// let root = tempfile::tempdir()?;
/// let cache = FileBasedCache::<JobId>::open(root.path(), "squares", Form::File)?;
/// let build = |draft: &mut crawlspace_jobs::Draft| {
///     let (path, mut file) = draft.create("square")?;
///     writeln!(file, "{}", 7 * 7).map_err(crawlspace_jobs::Error::io(&path, "write"))
/// };
/// let entry = cache.cache(&JobId(7), &Work::default(), build)?;
/// assert_eq!(std::fs::read_to_string(entry.path())?, "49\n");
/// assert!(cache.hit(&JobId(7), &Work::default())?.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FileBasedCache<I> {
    folder: PathBuf,
    name: String,
    prefix: String,
    form: Form,
    wait: Duration,
    figures: Arc<Figures>,
    seen: Mutex<HashMap<String, CachedEntry>>,
    id: PhantomData<fn(&I)>,
}

/// Accepts or rejects an existing entry by its manifest.
pub(crate) type Accept<'a> = dyn Fn(&Manifest) -> bool + 'a;

/// The result of looking for an item.
pub(super) enum Slot {
    /// The item.
    There(Entry),
    /// The lock of a missing item, with the exclusive right to build it.
    Ours(Lock),
}

/// Counters of events in caches since the process started.
#[derive(Debug, Default)]
pub struct Figures {
    hits: AtomicU64,
    misses: AtomicU64,
    builds: AtomicU64,
    failures: AtomicU64,
    waits: AtomicU64,
    damaged: AtomicU64,
    evicted: AtomicU64,
}

/// A snapshot of [`Figures`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Number of entries that were found.
    pub hits: u64,
    /// Number of entries that were missing.
    pub misses: u64,
    /// Number of entries that were built.
    pub builds: u64,
    /// Number of failed builds.
    pub failures: u64,
    /// Number of waits for another builder.
    pub waits: u64,
    /// Number of entries that differed from their manifests, and are built again.
    pub damaged: u64,
    /// Number of entries that were evicted.
    pub evicted: u64,
}

impl Figures {
    /// Returns the current counts.
    pub fn counts(&self) -> Counts {
        let now = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        Counts {
            hits: now(&self.hits),
            misses: now(&self.misses),
            builds: now(&self.builds),
            failures: now(&self.failures),
            waits: now(&self.waits),
            damaged: now(&self.damaged),
            evicted: now(&self.evicted),
        }
    }

    /// Adds `number` evicted entries.
    pub(crate) fn evicted(&self, number: u64) {
        self.evicted.fetch_add(number, Ordering::Relaxed);
    }
}

fn add(figure: &AtomicU64) {
    figure.fetch_add(1, Ordering::Relaxed);
}

impl<I: Id> FileBasedCache<I> {
    /// Opens the cache in the folder `name` below `root`, which is created if needed.
    ///
    /// # Errors
    /// Fails if the folder cannot be created.
    pub fn open(root: &Path, name: &str, form: Form) -> Result<FileBasedCache<I>, Error> {
        let folder = root.join(name);
        fs::create_dir_all(&folder).map_err(Error::io(&folder, "create"))?;
        Ok(FileBasedCache {
            folder,
            name: name.to_owned(),
            prefix: String::new(),
            form,
            wait: DEFAULT_WAIT,
            figures: Arc::default(),
            seen: Mutex::default(),
            id: PhantomData,
        })
    }

    /// Sets a prefix of the names of the entries.
    #[must_use]
    pub(crate) fn prefixed(self, prefix: &str) -> FileBasedCache<I> {
        let prefix = prefix.to_owned();
        FileBasedCache { prefix, ..self }
    }

    /// Sets the timeout of waits for another builder. Default: [`DEFAULT_WAIT`](crate::DEFAULT_WAIT).
    #[must_use]
    pub fn waiting(self, wait: Duration) -> FileBasedCache<I> {
        FileBasedCache { wait, ..self }
    }

    /// Counts events in `figures`, which may be shared with other caches.
    #[must_use]
    pub fn counting(self, figures: Arc<Figures>) -> FileBasedCache<I> {
        FileBasedCache { figures, ..self }
    }

    /// Returns the folder of the entries.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the name of the entry of an item: the name of a file or folder.
    pub(crate) fn entry_name(&self, id: &I) -> String {
        format!("{}{}-cache", self.prefix, id.name())
    }

    /// Returns the path of the entry of an item, whether it exists or not.
    pub fn path(&self, id: &I) -> PathBuf {
        self.folder.join(self.entry_name(id))
    }

    /// Returns the entry of an item, if it exists and is intact. All bytes of the entry are verified, unless
    /// they are known to be unchanged since the last verification.
    ///
    /// # Errors
    /// Fails if the entry cannot be read. A damaged entry counts as missing.
    pub fn hit(&self, id: &I, work: &Work) -> Result<Option<Entry>, Error> {
        let found = self.find(id, work)?;
        if found.is_some() {
            add(&self.figures.hits);
        }
        Ok(found)
    }

    /// Returns the entry of an item, and builds it if it is missing. If another thread or process is building it, waits
    /// for the result.
    ///
    /// # Errors
    /// Fails with the error of `build`, with [`Error::Busy`] if another builder takes too long, or if the entry cannot
    /// be read or written. An unfinished entry is removed.
    pub fn cache(
        &self,
        id: &I,
        work: &Work,
        build: impl FnOnce(&mut Draft) -> Result<(), Error>,
    ) -> Result<Entry, Error> {
        match self.hit(id, work)? {
            Some(entry) => Ok(entry),
            None => self.cache_if(id, work, &|_| true, build),
        }
    }

    /// Returns the entry of an item like [`FileBasedCache::cache`], if `accept` accepts it. Otherwise builds
    /// the entry, even if it exists.
    ///
    /// # Errors
    /// Fails like [`FileBasedCache::cache`].
    pub(crate) fn cache_if(
        &self,
        id: &I,
        work: &Work,
        accept: &Accept<'_>,
        build: impl FnOnce(&mut Draft) -> Result<(), Error>,
    ) -> Result<Entry, Error> {
        match self.slot(id, accept, work)? {
            Slot::There(entry) => Ok(entry),
            Slot::Ours(lock) => self.build(id, &lock, work, build),
        }
    }

    /// Returns the lock of a missing item, or the item if another builder finishes it in the meantime. An
    /// item that `accept` rejects counts as missing.
    pub(super) fn slot(&self, id: &I, accept: &Accept<'_>, work: &Work) -> Result<Slot, Error> {
        add(&self.figures.misses);
        let find = || {
            let found = self.find(id, work)?;
            Ok(found.filter(|entry| accept(entry.manifest())))
        };
        let mut waits = false;
        let acquired = Lock::acquire(&self.path(id), self.wait, work, || {
            if !waits {
                waits = true;
                add(&self.figures.waits);
            }
            find()
        })?;
        let lock = match acquired {
            Acquired::Instead(entry) => return Ok(Slot::There(entry)),
            Acquired::Locked(lock) => lock,
        };
        // Another builder may have finished just before the lock was taken.
        Ok(find()?.map_or(Slot::Ours(lock), Slot::There))
    }

    /// Builds an entry whose lock is held.
    pub(super) fn build(
        &self,
        id: &I,
        lock: &Lock,
        work: &Work,
        build: impl FnOnce(&mut Draft) -> Result<(), Error>,
    ) -> Result<Entry, Error> {
        lock.sign();
        let path = self.path(id);
        let built = (|| {
            let manifest = Manifest::new(&self.name, &self.entry_name(id), id.jobs());
            let mut draft = Draft::new(&path, self.form, manifest)?;
            build(&mut draft)?;
            let manifest = draft.publish(lock, work)?;
            self.held(&path, manifest)
        })();
        add(match &built {
            Ok(_) => &self.figures.builds,
            Err(_) => &self.figures.failures,
        });
        built
    }

    /// Opens an entry that was just published, without verifying its bytes again.
    fn held(&self, path: &Path, manifest: Manifest) -> Result<Entry, Error> {
        let at = manifest_of(path, self.form);
        match Held::open(&at)? {
            Some(held) => {
                let manifest = Arc::new(manifest);
                seen::touch(path);
                Ok(Entry::new(path.to_owned(), self.form, manifest, held.file))
            }
            None => Err(Error::Damaged {
                entry: path.to_owned(),
                what: "it disappeared right after it was built".to_owned(),
            }),
        }
    }

    pub(super) fn find(&self, id: &I, work: &Work) -> Result<Option<Entry>, Error> {
        let name = self.entry_name(id);
        let path = self.folder.join(&name);
        match self.look(&name, &path, work) {
            // If the entry is a single file, its content is replaced shortly before its manifest.
            Err(Error::Damaged { .. }) if owner(&path).is_some() => Ok(None),
            Err(Error::Damaged { entry, what }) => {
                add(&self.figures.damaged);
                tracing::warn!(entry = %entry.display(), what, "a damaged entry is rebuilt");
                Ok(None)
            }
            found => found,
        }
    }
}

/// Returns the path of the manifest of an entry.
pub(crate) fn manifest_of(entry: &Path, form: Form) -> PathBuf {
    match form {
        Form::File => with_end(entry, ".manifest.json"),
        Form::Folder => entry.join(MANIFEST),
    }
}

/// Returns the path of an entry with a suffix appended.
pub(crate) fn with_end(entry: &Path, end: &str) -> PathBuf {
    let mut path = OsString::from(entry);
    path.push(end);
    path.into()
}

/// Returns whether a file does not exist. A symbolic link that refers to itself counts as a missing
/// file.
fn is_absent(error: &io::Error) -> bool {
    let is_cycle = error.raw_os_error() == Some(libc::ELOOP);
    is_cycle
        || matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        )
}

/// Opens a regular file for reading. Fails for anything else: opening a pipe, for example, would block.
fn open_file(path: &Path) -> io::Result<File> {
    let file = plain(File::options().read(true)).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "it is not a regular file",
        ))
    }
}

/// Adds `O_NONBLOCK` to the options, so that opening a pipe does not block.
fn plain(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags(libc::O_NONBLOCK)
}

/// A cache whose items are sets of jobs. The names of the entries are short, however many jobs a set has.
pub type MultiFileBasedCache = FileBasedCache<JobSet>;
