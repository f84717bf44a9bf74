//! Verifies the bytes of all entries.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::cache::{Eviction, evict, file_of, owner, sum};
use super::super::outdated::Contents;
use super::super::{Error, Manifest, Unreadable, Work};
use super::scan::{Item, scan};

/// Maximum number of attempts to read an entry that is being replaced.
const TRIES: usize = 5;

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Number of entries that were read.
    pub entries: u64,
    /// Total size of these entries in bytes.
    pub bytes: u64,
    /// Damaged files.
    pub damaged: Vec<Damage>,
    /// Files with the name of an entry but without a manifest or a mark; they cannot be verified.
    pub foreign: Vec<PathBuf>,
    /// Entries of another version of this program, whose format is not supported.
    pub other_format: Vec<PathBuf>,
    /// Intact entries that are out of date because their inputs have changed. The next request rebuilds these
    /// entries.
    pub outdated: Vec<PathBuf>,
}

/// A file that differs from its manifest, or a damaged manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The entry of the file.
    pub entry: PathBuf,
    /// The path of the file.
    pub file: PathBuf,
    /// The damage.
    pub what: String,
    /// The outcome of removing the entry, if it was to be removed.
    pub removed: Option<Eviction>,
}

/// Reads all bytes of all entries of a folder's caches, and compares them with the manifests. With `remove`, damaged
/// entries are removed, unless they are in use.
///
/// # Errors
/// Fails if the folder does not exist, a cache cannot be listed, a damaged entry cannot be removed, or the work is
/// cancelled.
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
        // The holder of the lock replaces or removes the files one by one.
        if owner(&item.path).is_some() || !item.is_there() {
            return Ok(Compared::Gone);
        }
        tries -= 1;
        // The files may belong to an entry that was built in the meantime.
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
            Ok((size, _)) if size != file.size => {
                format!("it has {size} bytes instead of {}", file.size)
            }
            Ok((_, found)) if found != file.xxh128 => {
                format!("its checksum is {found} instead of {}", file.xxh128)
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
    /// Returns a description of wrong file sizes, without reading the files.
    pub(super) fn wrong_size(&self, manifest: &Manifest) -> Option<String> {
        manifest.files.iter().find_map(|file| {
            let path = file_of(&self.path, self.layer.form, &file.name);
            match fs::metadata(path) {
                Ok(there) if there.size() == file.size => None,
                Ok(there) => {
                    let (name, size) = (&file.name, there.size());
                    Some(format!("{name} has {size} bytes instead of {}", file.size))
                }
                Err(error) => Some(format!("{}: {error}", file.name)),
            }
        })
    }
}
