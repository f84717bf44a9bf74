//! Making room.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::sys::statvfs::statvfs;

use super::super::cache::{Eviction, clean, evict, is_in_use, owner, tidy};
use super::super::{Error, Limits, Work};
use super::scan::{Item, disk_size, scan};

/// What came of it, or would.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// What went, in this order.
    pub removed: Vec<Removed>,
    /// Entries that would have gone, but are in use, or were too shortly before, or are being built.
    pub kept: u64,
    /// Entries that stay.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What is free of the file system, in bytes.
    pub free: u64,
    /// Whether there is not too much now, and room enough.
    pub within_limits: bool,
}

/// Something that went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// Where it was.
    pub path: PathBuf,
    /// What it took on the disk, in bytes.
    pub size: u64,
    /// Why it went.
    pub why: Reason,
}

/// Why something went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It was not used for longer than the limits allow.
    Age,
    /// All entries together were larger than the limits allow.
    Size,
    /// The disk had less free space than the limits demand.
    Room,
    /// It is what a builder that died left unfinished.
    Left,
}

impl Reason {
    /// Its name: `age`, `size`, `room`, `left over`.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Age => "age",
            Reason::Size => "size",
            Reason::Room => "room",
            Reason::Left => "left over",
        }
    }
}

/// Removes entries until the limits are kept, those first that nobody has used for the longest time, and what was left
/// by builders that died, also the lock files of entries that are gone. What is in use stays. With `dry_run` nothing is
/// removed, only told.
///
/// # Errors
/// When there is no such folder, one in it cannot be listed, something not be removed, or somebody cancels the work.
pub fn collect(
    cache_dir: &Path,
    limits: &Limits,
    dry_run: bool,
    work: &Work,
) -> Result<Collected, Error> {
    let scan = scan(cache_dir)?;
    let mut collecting = Collecting {
        limits,
        dry_run,
        now: SystemTime::now(),
        bytes: 0,
        // What nobody can tell is no reason to remove anything.
        free: free(cache_dir).unwrap_or(u64::MAX),
        collected: Collected::default(),
    };
    for (path, item) in &scan.left {
        work.check()?;
        collecting.left(path, item)?;
    }
    if !dry_run {
        for item in &scan.locks {
            work.check()?;
            tidy(&item.path, limits.grace)?;
        }
    }
    let (ours, others): (Vec<Item>, _) = scan
        .items
        .into_iter()
        .partition(|item| item.manifest_path().exists());
    for item in others.iter().filter(|item| item.lost_manifest().is_some()) {
        work.check()?;
        collecting.lost(item)?;
    }
    let ours = ours.into_iter();
    let mut entries: Vec<Candidate> = ours.map(Candidate::of).collect();
    entries.sort_by(|a, b| (a.used, &a.item.path).cmp(&(b.used, &b.item.path)));
    collecting.bytes = entries.iter().map(|entry| entry.size).sum();
    let mut stay = 0;
    for entry in &entries {
        work.check()?;
        let goes = match collecting.reason(entry) {
            Some(why) => collecting.entry(entry, why)?,
            None => false,
        };
        stay += u64::from(!goes);
    }
    Ok(Collected {
        entries: stay,
        bytes: collecting.bytes,
        free: collecting.free,
        within_limits: collecting.is_within(),
        ..collecting.collected
    })
}

struct Candidate {
    item: Item,
    used: Option<SystemTime>,
    size: u64,
}

impl Candidate {
    fn of(item: Item) -> Candidate {
        Candidate {
            used: item.last_used(),
            size: item.size(),
            item,
        }
    }
}

struct Collecting<'a> {
    limits: &'a Limits,
    dry_run: bool,
    now: SystemTime,
    bytes: u64,
    free: u64,
    collected: Collected,
}

impl Collecting<'_> {
    /// What is left over from a builder goes if nobody builds the entry now.
    fn left(&mut self, path: &Path, item: &Item) -> Result<(), Error> {
        let size = disk_size(path);
        let goes = if self.dry_run {
            owner(&item.path).is_none()
        } else {
            clean(&item.path)?
        };
        // Both kinds of what is left of an entry go at once.
        if goes || !self.dry_run && !path.exists() {
            self.gone(path, size, Reason::Left);
        }
        Ok(())
    }

    /// An entry without its manifest goes: its builder died between the two.
    fn lost(&mut self, item: &Item) -> Result<(), Error> {
        let size = item.size();
        let goes =
            self.dry_run || evict(&item.path, item.layer.form, Duration::ZERO)? == Eviction::Gone;
        if goes {
            self.gone(&item.path, size, Reason::Left);
        }
        Ok(())
    }

    /// Why an entry has to go, if it has to.
    fn reason(&self, entry: &Candidate) -> Option<Reason> {
        let age = entry
            .used
            .and_then(|used| self.now.duration_since(used).ok());
        let too_old = |most: Duration| age.is_some_and(|age| age > most);
        if self.limits.max_age.is_some_and(too_old) {
            return Some(Reason::Age);
        }
        if self.limits.max_bytes.is_some_and(|most| self.bytes > most) {
            return Some(Reason::Size);
        }
        let least = self.limits.min_free;
        least
            .is_some_and(|least| self.free < least)
            .then_some(Reason::Room)
    }

    fn entry(&mut self, entry: &Candidate, why: Reason) -> Result<bool, Error> {
        let (path, form) = (&entry.item.path, entry.item.layer.form);
        let outcome = if self.dry_run {
            self.foreseen(entry)
        } else {
            evict(path, form, self.limits.grace)?
        };
        match outcome {
            Eviction::Gone => self.gone(path, entry.size, why),
            Eviction::Absent => {}
            Eviction::InUse | Eviction::BeingBuilt => {
                self.collected.kept += 1;
                return Ok(false);
            }
        }
        self.bytes = self.bytes.saturating_sub(entry.size);
        Ok(true)
    }

    fn foreseen(&self, entry: &Candidate) -> Eviction {
        let age = entry
            .used
            .and_then(|used| self.now.duration_since(used).ok());
        if owner(&entry.item.path).is_some() {
            return Eviction::BeingBuilt;
        }
        let recent = age.is_some_and(|age| age < self.limits.grace);
        if recent || is_in_use(&entry.item.manifest_path()) {
            Eviction::InUse
        } else {
            Eviction::Gone
        }
    }

    fn gone(&mut self, path: &Path, size: u64, why: Reason) {
        self.free = if self.dry_run {
            self.free.saturating_add(size)
        } else {
            path.parent().and_then(free).unwrap_or(self.free)
        };
        let path = path.to_owned();
        self.collected.removed.push(Removed { path, size, why });
    }

    /// Whether there is not too much, and room enough.
    fn is_within(&self) -> bool {
        self.limits.max_bytes.is_none_or(|most| self.bytes <= most)
            && self.limits.min_free.is_none_or(|least| self.free >= least)
    }
}

/// What is free of the file system that something is on, in bytes.
fn free(path: &Path) -> Option<u64> {
    let there = path.ancestors().find_map(|folder| statvfs(folder).ok())?;
    Some(
        there
            .blocks_available()
            .saturating_mul(there.fragment_size()),
    )
}
