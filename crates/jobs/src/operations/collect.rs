//! Removes entries that exceed the limits of the caches.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::sys::statvfs::statvfs;

use super::super::cache::{Eviction, clean, evict, is_in_use, owner, tidy};
use super::super::{Error, Limits, Work};
use super::scan::{Item, disk_size, scan};

/// The result of a collection, or of a dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// The removed entries and files, in order of removal.
    pub removed: Vec<Removed>,
    /// Number of entries that were due for removal but in use, used within the grace period, or being built.
    pub kept: u64,
    /// Number of remaining entries.
    pub entries: u64,
    /// Total size of the remaining entries in bytes.
    pub bytes: u64,
    /// Free space on the file system, in bytes.
    pub free: u64,
    /// True if the limits are met.
    pub within_limits: bool,
}

/// A removed entry or file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The path.
    pub path: PathBuf,
    /// The size on the disk in bytes.
    pub size: u64,
    /// The reason.
    pub why: Reason,
}

/// The reason for a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The entry was not used for longer than the limit.
    Age,
    /// The total size of all entries was above the limit.
    Size,
    /// The free space on the disk was below the limit.
    Room,
    /// A builder died and left the entry unfinished.
    Left,
}

impl Reason {
    /// Returns the name: `age`, `size`, `room` or `left over`.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Age => "age",
            Reason::Size => "size",
            Reason::Room => "room",
            Reason::Left => "left over",
        }
    }
}

/// Evicts entries until the limits are met, least recently used first, and removes leftovers of builders that died,
/// including lock files of entries that are gone. Entries in use are kept. With `dry_run`, nothing is removed, and the
/// result lists the entries that would be removed.
///
/// # Errors
/// Fails if the folder does not exist, a cache cannot be listed, an entry cannot be removed, or the work is cancelled.
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
        // If the free space is unknown, ignore that limit.
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
    /// Removes the leftovers of a builder, unless the entry is being built.
    fn left(&mut self, path: &Path, item: &Item) -> Result<(), Error> {
        let size = disk_size(path);
        let goes = if self.dry_run {
            owner(&item.path).is_none()
        } else {
            clean(&item.path)?
        };
        // All leftovers of an entry are removed at once.
        if goes || !self.dry_run && !path.exists() {
            self.gone(path, size, Reason::Left);
        }
        Ok(())
    }

    /// Removes an entry without a manifest: its builder died before writing it.
    fn lost(&mut self, item: &Item) -> Result<(), Error> {
        let size = item.size();
        let goes =
            self.dry_run || evict(&item.path, item.layer.form, Duration::ZERO)? == Eviction::Gone;
        if goes {
            self.gone(&item.path, size, Reason::Left);
        }
        Ok(())
    }

    /// Returns the reason why an entry must be removed, if there is one.
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

    /// Returns whether the limits are met.
    fn is_within(&self) -> bool {
        self.limits.max_bytes.is_none_or(|most| self.bytes <= most)
            && self.limits.min_free.is_none_or(|least| self.free >= least)
    }
}

/// Returns the free space of the file system that contains a path, in bytes.
fn free(path: &Path) -> Option<u64> {
    let there = path.ancestors().find_map(|folder| statvfs(folder).ok())?;
    Some(
        there
            .blocks_available()
            .saturating_mul(there.fragment_size()),
    )
}
