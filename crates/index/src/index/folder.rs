//! Lists the files of a source.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use super::directory::Directory;
use super::entry::Entry;
use super::package::{Listed, Package};
use super::warcs::{Indexes, WarcFolder};
use crate::sorted::disorder::{Flaw, inspect};
use crate::sorted::file::{FileVersion, is_gone};
use crate::zipnum::cluster::is_secondary;
use crawlspace_fetch::Net;
use crawlspace_wacz::{Location, Manifest, Options};

/// Maximum nesting depth of folders.
const MAX_DEPTH: usize = 16;
/// Maximum number of files of a source.
const MAX_FILES: usize = 100_000;
/// Maximum size of an unsorted file in bytes. Each query reads the whole file; a larger unsorted file is an
/// error.
const MAX_UNSORTED: u64 = 64 << 20;
/// Time limit for opening the packages of a list before its first use.
const MAX_FIRST: Duration = Duration::from_secs(2);
/// Maximum number of packages on servers that are opened concurrently.
const MAX_AT_ONCE: usize = 8;

/// A snapshot of the files of a source.
#[derive(Debug)]
pub struct Listing {
    /// The files, in the order of their names.
    pub entries: Arc<[Arc<Entry>]>,
    /// The directory of the entries, which maps urlkeys to the files that can contain them.
    pub(super) directory: Arc<Directory>,
    /// The packages that contain the entries; empty for other sources.
    pub packages: Box<[Arc<Package>]>,
    /// Error messages of the parts that cannot be read: folders, files, packages, entries of lists.
    pub failures: Box<[String]>,
    /// Message about a file that can be read but is not sorted, if there is one.
    problem: Option<String>,
    /// Time at which the source was listed.
    pub(crate) seen: Instant,
    /// Set when a listed file turns out to be replaced or removed.
    pub(crate) is_stale: AtomicBool,
    /// Number of WARC files whose current version is not indexed yet.
    pub waiting: u64,
    /// True if some packages were not read, because the requests that needed them had ended.
    pub(crate) is_abandoned: bool,
}

/// Returns whether a request is still waiting for the listing.
pub(crate) type IsWanted<'a> = &'a (dyn Fn() -> bool + Sync);

/// Selects the files of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Index files: in a folder, `*.cdx`, `*.cdxj` and secondary indexes of clusters; a single file is text unless its
    /// name says otherwise.
    All,
    /// Secondary indexes of clusters.
    Clusters,
    /// Packages: in a folder, `*.wacz` with the indexes in them; a single file is a package or a list of packages
    /// (`*.json`).
    Packages,
    /// WARC and ARC files, which have no index yet: in a folder, `*.warc`, `*.warc.gz`, `*.arc` and `*.arc.gz`.
    Warcs,
}

/// Suffixes of WARC and ARC files in folders.
const WARCS: [&str; 4] = [".warc.gz", ".warc", ".arc.gz", ".arc"];

impl Choice {
    /// Returns whether a file is a secondary index, judging by its name.
    fn is_clustered(self, path: &Path) -> bool {
        self != Choice::All || is_secondary(path)
    }

    fn includes(self, path: &Path) -> bool {
        let end = path.extension().and_then(OsStr::to_str);
        match self {
            Choice::All => matches!(end, Some("cdx" | "cdxj")) || is_secondary(path),
            Choice::Clusters => is_secondary(path),
            Choice::Packages => end.is_some_and(|end| end.eq_ignore_ascii_case("wacz")),
            Choice::Warcs => {
                let name = path.as_os_str().as_encoded_bytes();
                WARCS.iter().any(|ending| name.ends_with(ending.as_bytes()))
            }
        }
    }
}

impl Listing {
    /// Returns whether all files are sorted, judging by samples of them.
    pub fn is_sorted(&self) -> bool {
        !self.entries.iter().any(|entry| entry.unsorted)
    }

    /// Returns whether blocks can be numbered: the source is at most one file, and that is a cluster whose secondary
    /// index has the offsets of the blocks.
    pub fn is_one_cluster(&self) -> bool {
        match &*self.entries {
            [only] => only
                .cluster
                .as_ref()
                .is_some_and(|cluster| !cluster.is_hinted()),
            others => others.is_empty() && self.failures.is_empty() && self.waiting == 0,
        }
    }

    /// Returns a message with the first problem and the number of other problems; `None` without problems.
    pub(crate) fn problem(&self) -> Option<String> {
        match &*self.failures {
            [] => self.problem.clone(),
            [only] => Some(only.clone()),
            [first, more @ ..] => Some(format!(
                "{first}; and {} more parts cannot be read",
                more.len()
            )),
        }
    }

    /// Lists the files; the calling thread may block. Unchanged files keep their entries from the listing `before`.
    pub(crate) fn read(
        location: &Location,
        choice: Choice,
        before: Option<&Listing>,
        net: Option<&Arc<Net>>,
        is_wanted: IsWanted<'_>,
    ) -> Listing {
        let path = match location {
            _ if choice == Choice::Packages && is_list(location) => {
                return Listing::of_list(location, before, net, is_wanted);
            }
            Location::File(path) => path,
            Location::Url(_) if choice == Choice::Packages => {
                let listed = Listed {
                    location: location.clone(),
                    hash: None,
                };
                return Listing::of_packages(vec![listed], Vec::new(), before, net, is_wanted);
            }
            Location::Url(url) => {
                let is_clustered =
                    choice == Choice::Clusters || is_secondary(Path::new(url.path()));
                let new = || [Arc::new(Entry::remote(location, is_clustered, net))].into();
                return Listing {
                    entries: before.map_or_else(new, |before| Arc::clone(&before.entries)),
                    ..Listing::with(Vec::new(), Vec::new())
                };
            }
        };
        let walk = Walk::of(path, choice);
        if choice == Choice::Packages {
            let listed = walk.files.into_iter().map(|(path, _)| Listed {
                location: Location::File(path),
                hash: None,
            });
            return Listing::of_packages(listed.collect(), walk.failures, before, net, is_wanted);
        }
        Listing::of_files(walk, before, net)
    }

    /// Lists the indexes of a folder of WARC files. Unchanged indexes keep their entries from the listing `before`.
    pub(super) fn of_warcs(warcs: &WarcFolder, before: Option<&Listing>) -> Listing {
        let Indexes { walk, waiting } = warcs.indexes();
        Listing {
            waiting,
            ..Listing::of_files(walk, before, None)
        }
    }

    /// Lists local index files.
    fn of_files(mut walk: Walk, before: Option<&Listing>, net: Option<&Arc<Net>>) -> Listing {
        let choice = walk.choice;
        let known: HashMap<&Path, &Arc<Entry>> = before
            .iter()
            .flat_map(|before| before.entries.iter())
            .map(|entry| (entry.file.path(), entry))
            .collect();
        let mut problem = None;
        let mut entries = Vec::with_capacity(walk.files.len());
        for (path, version) in walk.files {
            let entry = known.get(&*path).copied();
            if let Some(entry) = entry {
                if entry
                    .file
                    .file_id()
                    .is_some_and(|open| open != version.file_id())
                {
                    entry.file.evict();
                } else if entry.was_inspected(version) && !entry.unsorted {
                    entries.push(Arc::clone(entry));
                    continue;
                }
            }
            let is_clustered = choice.is_clustered(&path);
            let found = inspect(&path, is_clustered);
            match &found.flaw {
                Some(Flaw::Unread(why)) => {
                    walk.failures.push(why.clone());
                    continue;
                }
                Some(Flaw::Unsorted(why)) if version.size() > MAX_UNSORTED => {
                    walk.failures.push(why.clone());
                    continue;
                }
                Some(Flaw::Unsorted(why)) => problem = problem.or_else(|| Some(why.clone())),
                None => {}
            }
            let new = Entry::inspected(path, is_clustered, version, &found, net);
            entries.push(match entry {
                // Keep the entry, so that its caches stay valid.
                Some(entry) if entry.is_like(&new) => {
                    entry.note_inspected(version);
                    Arc::clone(entry)
                }
                _ => Arc::new(new),
            });
        }
        Listing {
            directory: Directory::of(&entries),
            entries: entries.into(),
            problem,
            ..Listing::with(Vec::new(), walk.failures)
        }
    }

    /// Lists the contents of the packages of a list.
    fn of_list(
        location: &Location,
        before: Option<&Listing>,
        net: Option<&Arc<Net>>,
        is_wanted: IsWanted<'_>,
    ) -> Listing {
        let options = Options {
            net: net.cloned(),
            retries: 1,
            ..Options::default()
        };
        let list = match Manifest::open(location, &options) {
            Ok(list) => list,
            Err(error) => {
                // While the list is unreadable, keep the packages of the previous listing.
                let packages = before.filter(|_| error.is_transient());
                let packages = packages.map(|before| before.packages.to_vec());
                let said = error.to_string();
                return match packages.filter(|packages| !packages.is_empty()) {
                    Some(packages) => Listing {
                        problem: Some(said),
                        ..Listing::with(packages, Vec::new())
                    },
                    None => Listing::with(Vec::new(), vec![said]),
                };
            }
        };
        let mut failures = Vec::new();
        let mut listed = Vec::new();
        for entry in list.entries {
            let hash = entry.hash;
            match entry.location {
                Ok(location) => listed.push(Listed { location, hash }),
                Err(why) => failures.push(format!("{location}: {}: {why}", entry.name)),
            }
        }
        Listing::of_packages(listed, failures, before, net, is_wanted)
    }

    /// Lists the contents of packages. Packages that did not change since the listing `before` are not read again.
    fn of_packages(
        listed: Vec<Listed>,
        failures: Vec<String>,
        before: Option<&Listing>,
        net: Option<&Arc<Net>>,
        is_wanted: IsWanted<'_>,
    ) -> Listing {
        let mut by_location: HashMap<&Location, Vec<&Arc<Package>>> = HashMap::new();
        let mut by_hash: HashMap<&str, Vec<&Arc<Package>>> = HashMap::new();
        for package in before.iter().flat_map(|before| before.packages.iter()) {
            let Listed { location, hash } = package.listed();
            by_location.entry(location).or_default().push(package);
            if let Some(hash) = hash {
                by_hash.entry(hash).or_default().push(package);
            }
        }
        let known = |one: &Listed| {
            let moved = || {
                let same = by_hash.get(one.hash.as_deref()?)?;
                same.iter()
                    .all(|package| package.moves_to(one))
                    .then_some(same)
            };
            let packages = by_location.get(&one.location).or_else(moved)?;
            let is_current = |one: &&Arc<Package>| {
                one.is_current() && !(one.is_remote() && one.problem.is_some())
            };
            let all = packages.iter().all(is_current);
            all.then(|| packages.iter().copied().cloned().collect())
        };
        // The first query does not wait for slow packages, which are read in the background.
        let is_first = before.is_none() && listed.len() > 1;
        let until = is_first.then(|| Instant::now() + MAX_FIRST);
        let is_abandoned = AtomicBool::new(false);
        let read = |one: &Listed| {
            known(one).unwrap_or_else(|| {
                if is_abandoned.load(Ordering::Relaxed) || !is_wanted() {
                    is_abandoned.store(true, Ordering::Relaxed);
                    return Vec::new();
                }
                Package::read(one, net, until)
            })
        };
        let is_remote = |one: &Listed| matches!(one.location, Location::Url(_));
        let packages = match listed.iter().filter(|one| is_remote(one)).count() {
            0 | 1 => listed.iter().flat_map(read).collect(),
            _ => side_by_side(&listed, read),
        };
        Listing {
            is_abandoned: is_abandoned.into_inner(),
            ..Listing::with(packages, failures)
        }
    }

    fn with(packages: Vec<Arc<Package>>, mut failures: Vec<String>) -> Listing {
        let entries = packages.iter().flat_map(|one| one.entries.iter().cloned());
        let entries: Arc<[_]> = entries.collect();
        failures.extend(packages.iter().filter_map(|one| one.problem.clone()));
        Listing {
            directory: Directory::of(&entries),
            entries,
            packages: packages.into(),
            failures: failures.into(),
            problem: None,
            seen: Instant::now(),
            is_stale: AtomicBool::new(false),
            waiting: 0,
            is_abandoned: false,
        }
    }

    /// Returns whether any package is on a server, so that its existence and version have to be requested again.
    pub(crate) fn is_remote(&self) -> bool {
        self.packages.iter().any(|one| one.is_remote())
    }

    /// Returns whether the listing has a problem.
    pub(crate) fn has_problem(&self) -> bool {
        self.problem.is_some() || !self.failures.is_empty()
    }

    /// Returns whether a read showed that a package has changed.
    pub(crate) fn is_superseded(&self) -> bool {
        self.packages.iter().any(|one| one.is_superseded())
    }
}

/// The result of checking the index files at a local path, as messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Files in an unsupported format, which make their sources fail.
    pub errors: Vec<String>,
    /// Files that cannot be read at the moment, and files that are slow to search.
    pub warnings: Vec<String>,
}

impl Checked {
    /// Checks the index files at a path.
    pub fn of(path: &Path, choice: Choice) -> Checked {
        let Walk {
            files, failures, ..
        } = Walk::of(path, choice);
        let mut checked = Checked {
            errors: Vec::new(),
            warnings: failures,
        };
        if choice == Choice::Packages {
            if !is_list(&Location::File(path.to_owned())) {
                let listed = files.into_iter().map(|(path, _)| Listed {
                    location: Location::File(path),
                    hash: None,
                });
                let packages = listed.flat_map(|listed| Package::read(&listed, None, None));
                let problems = packages.filter_map(|package| package.problem.clone());
                checked.warnings.extend(problems);
            }
            return checked;
        }
        for (path, _) in files {
            match inspect(&path, choice.is_clustered(&path)).flaw {
                Some(Flaw::Unread(why)) => checked.errors.push(why),
                Some(Flaw::Unsorted(why)) => checked.warnings.push(why),
                None => {}
            }
        }
        checked
    }
}

/// Returns whether a location is a list of packages, judging by its name.
fn is_list(location: &Location) -> bool {
    let name = location.name();
    let end = name.rsplit_once('.').map_or("", |(_, end)| end);
    end.eq_ignore_ascii_case("json")
}

/// Reads packages concurrently, at most [`MAX_AT_ONCE`], and returns them in the order of the list.
fn side_by_side(
    listed: &[Listed],
    read: impl Fn(&Listed) -> Vec<Arc<Package>> + Sync,
) -> Vec<Arc<Package>> {
    let runtime = Handle::current();
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::with_capacity(listed.len()));
    let work = || {
        let _entered = runtime.enter();
        while let Some((number, one)) = {
            let number = next.fetch_add(1, Ordering::Relaxed);
            listed.get(number).map(|one| (number, one))
        } {
            let packages = read(one);
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            found.push((number, packages));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..MAX_AT_ONCE.min(listed.len()) {
            scope.spawn(work);
        }
        work();
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_unstable_by_key(|(number, _)| *number);
    found
        .into_iter()
        .flat_map(|(_, packages)| packages)
        .collect()
}

/// The files of a source, and the folders in which they were found.
pub(super) struct Walk {
    choice: Choice,
    pub(super) files: Vec<(PathBuf, FileVersion)>,
    /// Folders that were visited: symbolic links may form cycles.
    folders: HashSet<(u64, u64)>,
    pub(super) failures: Vec<String>,
}

impl Walk {
    pub(super) fn empty(choice: Choice) -> Walk {
        Walk {
            choice,
            files: Vec::new(),
            folders: HashSet::new(),
            failures: Vec::new(),
        }
    }

    /// Finds the files at a path, in the order of their names.
    pub(super) fn of(path: &Path, choice: Choice) -> Walk {
        let mut walk = Walk::empty(choice);
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => walk.folder(path, &metadata, 0),
            Ok(metadata) if metadata.is_file() => {
                let version = FileVersion::of(&metadata);
                walk.files.push((path.to_owned(), version));
            }
            Ok(_) => {
                let what = format!("{} is neither a file nor a folder", path.display());
                walk.failures.push(what);
            }
            Err(error) => walk.failed(path, &error),
        }
        walk.files
            .sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        walk
    }

    fn folder(&mut self, path: &Path, metadata: &fs::Metadata, depth: usize) {
        if depth > MAX_DEPTH || !self.folders.insert(file_id(metadata)) {
            return;
        }
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) => return self.failed(path, &error),
        };
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => return self.failed(path, &error),
            };
            // Hidden files are often partial copies.
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let path = entry.path();
            let is_folder = entry
                .file_type()
                .is_ok_and(|kind| kind.is_dir() || kind.is_symlink());
            if !is_folder && !self.choice.includes(&path) {
                continue;
            }
            // The metadata of the target, if it is a symbolic link.
            match fs::metadata(&path) {
                Ok(metadata) if metadata.is_dir() => self.folder(&path, &metadata, depth + 1),
                Ok(metadata) if metadata.is_file() && self.choice.includes(&path) => {
                    if self.files.len() >= MAX_FILES {
                        let what = format!("more than {MAX_FILES} files; the others are skipped");
                        return self.failures.push(what);
                    }
                    self.files.push((path, FileVersion::of(&metadata)));
                }
                Ok(_) => {}
                Err(error) if is_gone(&error) => {}
                Err(error) => self.failed(&path, &error),
            }
        }
    }

    fn failed(&mut self, path: &Path, error: &io::Error) {
        self.failures.push(format!("{}: {error}", path.display()));
    }
}

fn file_id(metadata: &fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}
