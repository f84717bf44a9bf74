//! Lists the entries of the caches.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::super::cache::{is_in_use, owner};
use super::super::{Error, JobSet, Unreadable};
use super::scan::{Item, Layer, scan};

/// An entry of a cache, or a file that is named like an entry.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The cache of the entry.
    pub layer: Layer,
    /// The name of the entry.
    pub entry: String,
    /// The path of the entry.
    pub path: PathBuf,
    /// The jobs of the entry, if its manifest can be read.
    pub jobs: Option<JobSet>,
    /// The number of lines, if it was counted.
    pub lines: Option<u64>,
    /// The size on the disk in bytes.
    pub size: u64,
    /// Build time: RFC 3339, in UTC.
    pub made: Option<String>,
    /// Time of the last use.
    pub used: Option<SystemTime>,
    /// The state of the entry.
    pub state: EntryState,
}

/// The state of an entry, determined without reading all of its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryState {
    /// Intact, and not in use.
    Whole,
    /// Intact, and in use.
    InUse,
    /// Being built; the text describes the builder.
    BeingBuilt(String),
    /// Different from its manifest, or without one.
    Damaged(String),
    /// Built by another version of this program, in this format.
    OtherFormat(u32),
    /// Without a manifest and without a mark: another program must have created it.
    Foreign,
    /// Left over by a process that died while it built or removed the entry.
    Left,
}

impl EntryState {
    /// Returns the name: `whole`, `in use`, `being built`, `damaged`, `other format`, `foreign` or `left over`.
    pub fn name(&self) -> &'static str {
        match self {
            EntryState::Whole => "whole",
            EntryState::InUse => "in use",
            EntryState::BeingBuilt(_) => "being built",
            EntryState::Damaged(_) => "damaged",
            EntryState::OtherFormat(_) => "other format",
            EntryState::Foreign => "foreign",
            EntryState::Left => "left over",
        }
    }

    /// Returns details of the state: the builder, or the defect of the entry.
    pub fn why(&self) -> Option<&str> {
        match self {
            EntryState::BeingBuilt(text) | EntryState::Damaged(text) => Some(text),
            _ => None,
        }
    }

    fn is_being_built(&self) -> bool {
        matches!(self, EntryState::BeingBuilt(_))
    }
}

/// Lists all entries of the caches of a folder, sorted by cache and name, and the leftovers of unfinished entries.
///
/// # Errors
/// Fails if the folder does not exist, or a cache cannot be listed.
pub fn list(cache_dir: &Path) -> Result<Vec<Listed>, Error> {
    let scan = scan(cache_dir)?;
    let listed = scan.items.iter().map(|item| (Listed::of(item), item));
    // Skip entries that were removed in the meantime, because they would look damaged.
    let listed = listed.filter(|(_, item)| item.is_there());
    let mut listed: Vec<Listed> = listed.map(|(one, _)| one).collect();
    for (path, item) in scan.left {
        let is_told = |one: &Listed| one.path == item.path && one.state.is_being_built();
        let state = match owner(&item.path) {
            Some(_) if listed.iter().any(is_told) => continue,
            // The builder's description belongs to an entry and is not an entry itself.
            Some(_) if path.extension().is_some_and(|end| end == "owner") => continue,
            Some(owner) => EntryState::BeingBuilt(owner),
            None => EntryState::Left,
        };
        let left = Item { path, ..item };
        listed.push(Listed {
            state,
            ..Listed::nothing(&left)
        });
    }
    Ok(listed)
}

impl Listed {
    fn nothing(item: &Item) -> Listed {
        Listed {
            layer: item.layer,
            entry: item.name(),
            path: item.path.clone(),
            jobs: None,
            lines: None,
            size: item.size(),
            made: None,
            used: item.last_used(),
            state: EntryState::Foreign,
        }
    }

    fn of(item: &Item) -> Listed {
        let nothing = Listed::nothing(item);
        let (manifest, wrong) = match item.manifest() {
            None => (None, item.lost_manifest().map(str::to_owned)),
            Some(Ok(manifest)) => (Some(manifest), None),
            Some(Err(Unreadable::Damaged(wrong))) => (None, Some(wrong)),
            Some(Err(Unreadable::OtherFormat(format))) => {
                return Listed {
                    state: EntryState::OtherFormat(format),
                    ..nothing
                };
            }
        };
        let sizes = manifest.as_ref().map(|manifest| item.wrong_size(manifest));
        let wrong = wrong.or(sizes.flatten());
        let state = match (owner(&item.path), wrong) {
            (Some(owner), _) => EntryState::BeingBuilt(owner),
            (None, Some(wrong)) => EntryState::Damaged(wrong),
            (None, None) if manifest.is_none() => EntryState::Foreign,
            (None, None) if is_in_use(&item.manifest_path()) => EntryState::InUse,
            (None, None) => EntryState::Whole,
        };
        match manifest {
            None => Listed { state, ..nothing },
            Some(manifest) => Listed {
                lines: manifest.lines(),
                made: Some(manifest.made),
                jobs: Some(manifest.jobs),
                state,
                ..nothing
            },
        }
    }
}
