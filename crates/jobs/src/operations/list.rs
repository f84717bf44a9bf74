//! What there is.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::super::cache::{is_in_use, owner};
use super::super::{Error, JobSet, Unreadable};
use super::scan::{Item, Layer, scan};

/// An entry of a cache, or what has the name of one.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Which cache it belongs to.
    pub layer: Layer,
    /// Its name.
    pub entry: String,
    /// Where it is.
    pub path: PathBuf,
    /// The jobs that it stands for, as far as its manifest can be read.
    pub jobs: Option<JobSet>,
    /// How many lines it has, if that was counted.
    pub lines: Option<u64>,
    /// What it takes on the disk, in bytes.
    pub size: u64,
    /// When it was made: RFC 3339, in UTC.
    pub made: Option<String>,
    /// When it was last used.
    pub used: Option<SystemTime>,
    /// How it is.
    pub state: EntryState,
}

/// How an entry is, as far as that can be told without reading all of its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryState {
    /// It is whole, and not in use now.
    Whole,
    /// It is whole, and in use.
    InUse,
    /// It is being built; the text names the builder.
    BeingBuilt(String),
    /// It is not what its manifest says, or has lost that.
    Damaged(String),
    /// Another version of this program made it, with that format.
    OtherFormat(u32),
    /// It has neither a manifest nor a mark, so that somebody else must have put it there.
    Foreign,
    /// It was in the making, or about to go, when somebody died.
    Left,
}

impl EntryState {
    /// Its name: `whole`, `in use`, `being built`, `damaged`, `other format`, `foreign`, `left over`.
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

    /// What else there is to say: who builds it, what is wrong with it.
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

/// All entries of the caches of a folder, cache after cache in the order of names, and what is left of entries that
/// were never finished.
///
/// # Errors
/// When there is no such folder, or one in it cannot be listed.
pub fn list(cache_dir: &Path) -> Result<Vec<Listed>, Error> {
    let scan = scan(cache_dir)?;
    let listed = scan.items.iter().map(|item| (Listed::of(item), item));
    // An entry that is removed meanwhile is not damaged.
    let listed = listed.filter(|(_, item)| item.is_there());
    let mut listed: Vec<Listed> = listed.map(|(one, _)| one).collect();
    for (path, item) in scan.left {
        let is_told = |one: &Listed| one.path == item.path && one.state.is_being_built();
        let state = match owner(&item.path) {
            Some(_) if listed.iter().any(is_told) => continue,
            // What its builder says of itself.
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
