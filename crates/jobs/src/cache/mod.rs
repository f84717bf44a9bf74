//! A cache of files: whoever asks for an item gets it from the cache or builds it, and never do two build it at once.
//!
//! A hit takes no lock that anybody waits for. Whoever finds nothing takes the lock of the entry, looks once more,
//! builds the entry beside its place, and moves it there when all of it is on the disk. So however a process dies, what
//! is there is whole, and what is not there can be built at once.

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

/// Whether the entries of a cache are files or folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A file, with its manifest beside it as `<entry>.manifest.json`.
    File,
    /// A folder of files, with its manifest among them as `manifest.json`.
    Folder,
}

/// A cache of files for items that are identified by `I`.
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

/// What is at the place of an item.
pub(super) enum Slot {
    /// The item.
    There(Entry),
    /// Nothing, and nobody but the holder of this may put it there.
    Ours(Lock),
}

/// What happened in caches, since the process began.
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

/// The counts of [`Figures`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Entries that were there.
    pub hits: u64,
    /// Entries that were not.
    pub misses: u64,
    /// Entries that were built.
    pub builds: u64,
    /// Entries that could not be built.
    pub failures: u64,
    /// How often another builder was waited for.
    pub waits: u64,
    /// Entries that were not what their manifests say, and are rebuilt.
    pub damaged: u64,
    /// Entries that were removed to make room.
    pub evicted: u64,
}

impl Figures {
    /// What they are now.
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

    /// Counts `number` more entries that were removed to make room.
    pub(crate) fn evicted(&self, number: u64) {
        self.evicted.fetch_add(number, Ordering::Relaxed);
    }
}

fn add(figure: &AtomicU64) {
    figure.fetch_add(1, Ordering::Relaxed);
}

impl<I: Id> FileBasedCache<I> {
    /// The cache in a folder of that name below `root`, which is made if need be.
    ///
    /// # Errors
    /// When it cannot be made.
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

    /// This cache, with a prefix before the names of its entries.
    #[must_use]
    pub(crate) fn prefixed(self, prefix: &str) -> FileBasedCache<I> {
        let prefix = prefix.to_owned();
        FileBasedCache { prefix, ..self }
    }

    /// This cache, with a timeout for waits for another builder. [`DEFAULT_WAIT`](crate::DEFAULT_WAIT) by default.
    #[must_use]
    pub fn waiting(self, wait: Duration) -> FileBasedCache<I> {
        FileBasedCache { wait, ..self }
    }

    /// This cache, counting in figures that other caches may count in, too.
    #[must_use]
    pub fn counting(self, figures: Arc<Figures>) -> FileBasedCache<I> {
        FileBasedCache { figures, ..self }
    }

    /// The folder of its entries.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The name of the entry of an item: that of a file or a folder.
    pub(crate) fn entry_name(&self, id: &I) -> String {
        format!("{}{}-cache", self.prefix, id.name())
    }

    /// Where the entry of an item is, or would be.
    pub fn path(&self, id: &I) -> PathBuf {
        self.folder.join(self.entry_name(id))
    }

    /// The entry of an item, if it is there and whole. All its bytes are read unless it is known that nobody changed
    /// them since they were.
    ///
    /// # Errors
    /// When it is there and cannot be read. One that is damaged is none.
    pub fn hit(&self, id: &I, work: &Work) -> Result<Option<Entry>, Error> {
        let found = self.find(id, work)?;
        if found.is_some() {
            add(&self.figures.hits);
        }
        Ok(found)
    }

    /// The entry of an item, which is built if it is not there. Whoever asks for an item that is being built, in
    /// whatever thread or process, waits and gets that.
    ///
    /// # Errors
    /// Those of `build`; [`Error::Busy`] when somebody else takes longer than one would wait; whatever keeps the
    /// entry from being read or written. Nothing is left of what was not finished.
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

    /// The entry of an item as [`FileBasedCache::cache`] gets it, if it is good enough for `accept`. Otherwise it is
    /// built, whether it is there or not.
    ///
    /// # Errors
    /// As [`FileBasedCache::cache`].
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

    /// The lock of an item that is not there, or the item, if somebody else builds it meanwhile. One that is not good
    /// enough for `accept` is not there.
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
        // Somebody may have built it just before we got the lock.
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

    /// What was just published. Its bytes are those that were meant: they are not read again.
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
                what: "it went away as soon as it was built".to_owned(),
            }),
        }
    }

    pub(super) fn find(&self, id: &I, work: &Work) -> Result<Option<Entry>, Error> {
        let name = self.entry_name(id);
        let path = self.folder.join(&name);
        match self.look(&name, &path, work) {
            // Of a file, the contents are replaced a moment before the manifest.
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

/// Where the manifest of an entry is.
pub(crate) fn manifest_of(entry: &Path, form: Form) -> PathBuf {
    match form {
        Form::File => with_end(entry, ".manifest.json"),
        Form::Folder => entry.join(MANIFEST),
    }
}

/// What stands beside an entry, under its name with an end.
pub(crate) fn with_end(entry: &Path, end: &str) -> PathBuf {
    let mut path = OsString::from(entry);
    path.push(end);
    path.into()
}

/// Whether something is not there. A link that leads to itself leads to nothing.
fn is_absent(error: &io::Error) -> bool {
    let is_cycle = error.raw_os_error() == Some(libc::ELOOP);
    is_cycle
        || matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        )
}

/// Opens a file for reading. Whatever else has its name is none: a pipe, for example, would be waited for.
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

/// Adds `O_NONBLOCK` to options, so that opening a pipe does not wait for its other end.
fn plain(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags(libc::O_NONBLOCK)
}

/// A cache whose items are sets of jobs: their names stay short, however many jobs there are.
pub type MultiFileBasedCache = FileBasedCache<JobSet>;
