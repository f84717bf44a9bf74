//! Whether everything is what it was when it was made.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::cache::{Eviction, evict, file_of, owner, sum};
use super::super::outdated::Contents;
use super::super::{Error, Manifest, Unreadable, Work};
use super::scan::{Item, scan};

/// How often an entry is read again that is replaced by another one meanwhile.
const TRIES: usize = 5;

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Entries that were read.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What is wrong.
    pub damaged: Vec<Damage>,
    /// What has the name of an entry and neither a manifest nor a mark, so that there is nothing to compare it with.
    pub foreign: Vec<PathBuf>,
    /// Entries that another version of this program made, whose format this one does not read.
    pub other_format: Vec<PathBuf>,
    /// Whole entries whose parts are other ones by now: they are rebuilt when somebody asks for them.
    pub outdated: Vec<PathBuf>,
}

/// A file that is not what its manifest says, or the manifest itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The entry that it belongs to.
    pub entry: PathBuf,
    /// Where the file is.
    pub file: PathBuf,
    /// What is wrong with it.
    pub what: String,
    /// What became of the entry, if it was to be removed.
    pub removed: Option<Eviction>,
}

/// Reads all bytes of all entries of a folder's caches, and compares them with the manifests. With `remove`, entries
/// go that are not what they should be, unless somebody uses them.
///
/// # Errors
/// When there is no such folder, one in it cannot be listed, a damaged entry not be removed, or somebody cancels the work.
pub fn verify(cache_dir: &Path, remove: bool, work: &Work) -> Result<Verified, Error> {
    let mut verified = Verified::default();
    let items = scan(cache_dir)?.items;
    let total = items.iter().map(Item::size).sum();
    work.begin("verifying", total);
    let mut contents = Contents::of(cache_dir);
    for item in &items {
        let damaged = match compare(item, work)? {
            Compared::Gone => continue,
            Compared::Foreign => {
                verified.foreign.push(item.path.clone());
                continue;
            }
            Compared::OtherFormat => {
                verified.other_format.push(item.path.clone());
                continue;
            }
            Compared::Whole(manifest) => {
                verified.bytes += manifest.size();
                if !contents.are_in(&manifest) {
                    verified.outdated.push(item.path.clone());
                }
                Vec::new()
            }
            Compared::Damaged(damaged) => damaged,
        };
        verified.entries += 1;
        work.advance(item.size())?;
        if damaged.is_empty() {
            continue;
        }
        let removed = if remove {
            Some(evict(&item.path, item.layer.form, Duration::ZERO)?)
        } else {
            None
        };
        verified
            .damaged
            .extend(damaged.into_iter().map(|(file, what)| Damage {
                entry: item.path.clone(),
                file,
                what,
                removed,
            }));
    }
    Ok(verified)
}

enum Compared {
    /// Missing, or being built or removed right now.
    Gone,
    Foreign,
    OtherFormat,
    Whole(Box<Manifest>),
    Damaged(Vec<(PathBuf, String)>),
}

fn compare(item: &Item, work: &Work) -> Result<Compared, Error> {
    let path = item.manifest_path();
    let identity = || {
        fs::metadata(&path)
            .map(|file| (file.dev(), file.ino()))
            .ok()
    };
    let mut tries = TRIES;
    loop {
        let before = identity();
        let outcome = match item.manifest() {
            None => match item.lost_manifest() {
                Some(what) => Compared::Damaged(vec![(path.clone(), what.to_owned())]),
                None => Compared::Foreign,
            },
            Some(Err(Unreadable::OtherFormat(_))) => Compared::OtherFormat,
            Some(Err(Unreadable::Damaged(what))) => Compared::Damaged(vec![(path.clone(), what)]),
            Some(Ok(manifest)) => {
                let damaged = damages(item, &manifest, work)?;
                if damaged.is_empty() {
                    return Ok(Compared::Whole(Box::new(manifest)));
                }
                Compared::Damaged(damaged)
            }
        };
        // Whoever has the lock replaces or removes its files one by one.
        if owner(&item.path).is_some() || !item.is_there() {
            return Ok(Compared::Gone);
        }
        tries -= 1;
        // Its files may be those of one that was built meanwhile.
        if before == identity() || tries == 0 {
            return Ok(outcome);
        }
    }
}

fn damages(item: &Item, manifest: &Manifest, work: &Work) -> Result<Vec<(PathBuf, String)>, Error> {
    let mut damaged = Vec::new();
    for file in &manifest.files {
        let path = file_of(&item.path, item.layer.form, &file.name);
        let what = match sum(&path, work) {
            Ok((size, _)) if size != file.size => format!("it has {size} bytes of {}", file.size),
            Ok((_, found)) if found != file.xxh128 => {
                format!("its checksum is {found}, which was {}", file.xxh128)
            }
            Ok(_) => continue,
            Err(Error::Io { error, .. }) => error.to_string(),
            Err(error) => return Err(error),
        };
        damaged.push((path, what));
    }
    Ok(damaged)
}

impl Item {
    /// What is wrong with the sizes of its files, which can be told without reading them.
    pub(super) fn wrong_size(&self, manifest: &Manifest) -> Option<String> {
        manifest.files.iter().find_map(|file| {
            let path = file_of(&self.path, self.layer.form, &file.name);
            match fs::metadata(path) {
                Ok(there) if there.size() == file.size => None,
                Ok(there) => {
                    let (name, size) = (&file.name, there.size());
                    Some(format!("{name} has {size} bytes of {}", file.size))
                }
                Err(error) => Some(format!("{}: {error}", file.name)),
            }
        })
    }
}
