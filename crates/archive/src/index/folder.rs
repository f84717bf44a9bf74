//! The files of a source.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::package::Package;
use crate::sorted::disorder::disorder;
use crate::sorted::file::{NamedFile, is_gone};
use crate::zipnum::cluster::{Cluster, is_secondary};

/// Maximum depth of folders in folders.
const MAX_DEPTH: usize = 16;
/// Maximum number of files.
const MAX_FILES: usize = 100_000;

/// A file of a source.
#[derive(Debug)]
pub struct Entry {
    pub(crate) file: NamedFile,
    /// The cluster that it is the secondary index of, if it is one.
    pub(crate) cluster: Option<Arc<Cluster>>,
}

impl Entry {
    /// A file of sorted lines.
    pub(crate) fn plain(path: PathBuf) -> Entry {
        Entry {
            file: NamedFile::new(path),
            cluster: None,
        }
    }

    /// A cluster with that secondary index.
    pub(crate) fn clustered(path: PathBuf) -> Entry {
        Entry {
            cluster: Some(Arc::new(Cluster::new(&path))),
            file: NamedFile::new(path),
        }
    }
}

/// The files of a source as they were at some moment.
#[derive(Clone, Debug)]
pub struct Listing {
    /// In the order of their names.
    pub entries: Arc<[Arc<Entry>]>,
    /// The packages that these are in, if that is where they are.
    pub packages: Arc<[Arc<Package>]>,
    /// What is wrong, in words.
    pub(crate) problem: Option<String>,
    /// Those that are not sorted, and why that is said. They are looked at again each time.
    unsorted: Arc<[(PathBuf, String)]>,
    /// When the folder was listed.
    pub(crate) seen: Instant,
}

/// What is read of a folder, and what a file is that is named itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// `*.cdx`, `*.cdxj`, and secondary indexes of clusters. Else text.
    All,
    /// Secondary indexes. Else one of them.
    Clusters,
    /// `*.wacz`, and what is in them. Else one of them.
    Packages,
}

impl Choice {
    /// What a file is, by its name.
    fn entry(self, path: PathBuf) -> Entry {
        match self {
            Choice::All if !is_secondary(&path) => Entry::plain(path),
            Choice::All | Choice::Clusters | Choice::Packages => Entry::clustered(path),
        }
    }

    fn includes(self, path: &Path) -> bool {
        let end = path.extension().and_then(OsStr::to_str);
        match self {
            Choice::All => matches!(end, Some("cdx" | "cdxj")) || is_secondary(path),
            Choice::Clusters => is_secondary(path),
            Choice::Packages => end.is_some_and(|end| end.eq_ignore_ascii_case("wacz")),
        }
    }
}

impl Listing {
    /// Whether all files are sorted, as far as samples of them tell.
    pub fn is_sorted(&self) -> bool {
        self.unsorted.is_empty()
    }

    /// Whether blocks have numbers: there is no more than one file, and it is a cluster.
    pub fn is_one_cluster(&self) -> bool {
        match &*self.entries {
            [only] => only.cluster.is_some(),
            others => others.is_empty(),
        }
    }

    /// Looks what there is. Files that were there before stay the same entries, unless others have their names now.
    pub(crate) fn read(path: &Path, choice: Choice, before: Option<&Listing>) -> Listing {
        let mut walk = Walk {
            choice,
            files: Vec::new(),
            folders: HashSet::new(),
            problem: None,
        };
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => walk.folder(path, &metadata, 0),
            Ok(metadata) => {
                if !metadata.is_file() {
                    let shown = path.display();
                    walk.problem = Some(format!("{shown}: it is neither a file nor a folder"));
                }
                walk.files.push((path.to_owned(), file_id(&metadata)));
            }
            Err(error) => walk.failed(path, &error),
        }
        walk.files.sort_unstable();
        if choice == Choice::Packages {
            return Listing::of_packages(walk, before);
        }
        let known: HashMap<&Path, &Arc<Entry>> = before
            .iter()
            .flat_map(|before| before.entries.iter())
            .map(|entry| (entry.file.path(), entry))
            .collect();
        let was_unsorted = |path: &Path| {
            let mut unsorted = before.iter().flat_map(|before| before.unsorted.iter());
            unsorted.any(|(one, _)| one == path)
        };
        let mut unsorted = Vec::new();
        let entries = walk.files.into_iter().map(|(path, id)| {
            let entry = known.get(&*path);
            let moved = entry
                .and_then(|entry| entry.file.file_id())
                .is_some_and(|open| open != id);
            if entry.is_none() || moved || was_unsorted(&path) {
                // Blocks of clusters are sorted by what sorts their index.
                let disorder = disorder(&path).filter(|_| !is_secondary(&path));
                unsorted.extend(disorder.map(|why| (path.clone(), why)));
            }
            match entry {
                None => Arc::new(choice.entry(path)),
                Some(entry) => {
                    if moved {
                        entry.file.evict();
                    }
                    Arc::clone(entry)
                }
            }
        });
        let entries = entries.collect();
        let first = unsorted.first().map(|(_, why)| why.clone());
        Listing {
            entries,
            packages: Arc::default(),
            problem: walk.problem.or(first),
            unsorted: unsorted.into(),
            seen: Instant::now(),
        }
    }

    /// What is in packages. Those that are as they were before are not read again.
    fn of_packages(walk: Walk, before: Option<&Listing>) -> Listing {
        let known = |path: &Path| {
            let mut before = before.iter().flat_map(|before| before.packages.iter());
            before.find(|one| one.path() == path && one.is_current())
        };
        let files = walk.files.iter();
        let packages = files.map(|(path, _)| match known(path) {
            Some(package) => Arc::clone(package),
            None => Arc::new(Package::read(path)),
        });
        let packages: Arc<[Arc<Package>]> = packages.collect();
        let entries = packages.iter().flat_map(|one| one.entries.iter().cloned());
        let wrong = packages.iter().find_map(|one| one.problem.clone());
        Listing {
            entries: entries.collect(),
            problem: walk.problem.or(wrong),
            packages,
            unsorted: Arc::default(),
            seen: Instant::now(),
        }
    }
}

struct Walk {
    choice: Choice,
    files: Vec<(PathBuf, (u64, u64))>,
    /// Folders that were seen: links may lead in cycles.
    folders: HashSet<(u64, u64)>,
    problem: Option<String>,
}

impl Walk {
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
            // What is being copied often has such a name until it is whole.
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
            // Where a link leads to.
            match fs::metadata(&path) {
                Ok(metadata) if metadata.is_dir() => self.folder(&path, &metadata, depth + 1),
                Ok(metadata) if metadata.is_file() && self.choice.includes(&path) => {
                    if self.files.len() >= MAX_FILES {
                        self.problem =
                            Some(format!("more than {MAX_FILES} files; the rest is left out"));
                        return;
                    }
                    self.files.push((path, file_id(&metadata)));
                }
                Ok(_) => {}
                Err(error) if is_gone(&error) => {}
                Err(error) => self.failed(&path, &error),
            }
        }
    }

    fn failed(&mut self, path: &Path, error: &io::Error) {
        self.problem = Some(format!("{}: {error}", path.display()));
    }
}

fn file_id(metadata: &fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}
