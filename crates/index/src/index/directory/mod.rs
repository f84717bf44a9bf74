//! A directory that maps urlkeys to the files of a listing, so that a query for one URL opens only a few local files.
//!
//! [`Segment`]s record which files can contain a urlkey. Segments are built in the background after the files
//! have been listed. Queries search every file that no segment covers: files that were just listed or
//! changed, that did not fit into memory, or that cannot be read.

pub(super) mod build;
pub(super) mod reading;
mod segment;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use self::reading::{Place, Progress};
use self::segment::{MAX_FILES, MAX_KEYS, MAX_MEMORY, Segment, hash};
use super::entry::Entry;
use crate::sorted::file::FileVersion;

/// Maximum number of files that are searched without a directory if they may grow.
const FEW: usize = 16;
/// Maximum size of a file that is read into a segment, in bytes.
const MAX_SIZE: u64 = 512 << 20;
/// Number of segments of similar size that are merged into one larger segment.
const MANY: usize = 16;
/// Position of a file that is not in the listing.
const GONE: u32 = u32::MAX;

/// The segments that cover the entries of a listing.
#[derive(Debug, Default)]
pub(super) struct Directory {
    parts: Vec<Part>,
    /// Positions of the entries that no segment covers, in ascending order.
    uncovered: Vec<u32>,
    /// True for each entry whose keys are all urlkeys.
    is_here: Vec<bool>,
    /// Entries to read; empty unless there are several packages or many files.
    unknown: Vec<Weak<Entry>>,
}

/// A segment, and the positions of its files in a listing.
#[derive(Debug)]
struct Part {
    segment: Arc<Segment>,
    /// Position of each file in the listing, or [`GONE`].
    positions: Box<[u32]>,
    /// Size of the files of the segment that are still in the listing.
    live: Size,
    /// True if the files of the segment are queued to be read again.
    is_queued: bool,
}

/// A number of files, and the number of their urlkeys.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    files: usize,
    keys: usize,
}

impl Size {
    /// Returns the share of a segment that is used, out of [`MAX_KEYS`].
    fn share(self) -> usize {
        self.keys.max(self.files * (MAX_KEYS / MAX_FILES))
    }

    /// Returns the size tier: sizes in a tier differ by a factor of up to 16; 0 means more than half a segment.
    fn tier(self) -> usize {
        match MAX_KEYS / self.share().max(1) {
            0 | 1 => 0,
            ratio => 1 + ratio.ilog2() as usize / 4,
        }
    }
}

impl Directory {
    /// Returns the directory of a listing, built from the entries that were read so far; [`build::read_unknown`] reads
    /// the other entries.
    pub(super) fn of(entries: &[Arc<Entry>]) -> Arc<Directory> {
        let (mut directory, unread) = Directory::look(entries, FileVersion::is_settled);
        directory.unknown = unread.iter().map(Arc::downgrade).collect();
        Arc::new(directory)
    }

    /// Returns the directory of the entries, and the entries that remain to be read.
    fn look(
        entries: &[Arc<Entry>],
        is_settled: fn(&FileVersion) -> bool,
    ) -> (Directory, Vec<Arc<Entry>>) {
        let (mut directory, mut unread) = (Directory::default(), Vec::new());
        if entries.len() == 1 {
            return (directory, unread);
        }
        let mut numbers: HashMap<*const Segment, usize> = HashMap::new();
        for (position, entry) in entries.iter().enumerate() {
            let version = entry.version();
            let mut state = entry.reading.about(version);
            // A few growing files are searched directly, so that appended lines are found at once.
            let may_grow = entries.len() <= FEW && version.is_some();
            if !may_grow
                && state.progress == Progress::New
                && is_eligible(entry, version, is_settled)
            {
                state.progress = Progress::Queued;
                unread.push(Arc::clone(entry));
            }
            let place = state.place.as_ref().filter(|_| !may_grow);
            let is_here = place.is_some_and(|place| place.is_here);
            directory.is_here.push(is_here);
            let parts = &mut directory.parts;
            let is_covered = place.is_some_and(|place| {
                let segment = Arc::as_ptr(&place.segment);
                let number = *numbers.entry(segment).or_insert(parts.len());
                if number == parts.len() {
                    parts.push(Part::of(&place.segment));
                }
                parts[number].is_queued |= state.progress == Progress::Queued;
                parts[number].add(place, position as u32)
            });
            if !is_covered {
                directory.uncovered.push(position as u32);
            }
        }
        for part in outdated(&directory.parts) {
            let positions = part.positions.iter().filter(|position| **position != GONE);
            for entry in positions.filter_map(|position| entries.get(*position as usize)) {
                let mut state = entry.reading.state();
                if state.progress != Progress::Queued {
                    state.progress = Progress::Queued;
                    unread.push(Arc::clone(entry));
                }
            }
        }
        (directory, unread)
    }

    /// Returns whether segments cover any entries.
    pub(super) fn covers_some(&self) -> bool {
        !self.parts.is_empty()
    }

    /// Returns whether all keys of the entry at a position are known to be urlkeys.
    pub(super) fn is_here(&self, position: usize) -> bool {
        self.is_here.get(position).is_some_and(|is_here| *is_here)
    }

    /// Returns the positions of the entries that can contain one of the urlkeys.
    pub(super) fn candidates(self: &Arc<Self>, urlkeys: &[Box<[u8]>]) -> Candidates {
        let mut covered = Vec::new();
        for hash in urlkeys.iter().map(|urlkey| hash(urlkey)) {
            for part in &self.parts {
                let positions = part
                    .segment
                    .files_with(hash)
                    .map(|file| part.positions[file]);
                covered.extend(positions.filter(|position| *position != GONE));
            }
        }
        covered.sort_unstable_by(|one, other| other.cmp(one));
        covered.dedup();
        Candidates {
            skips_some: covered.len() + self.uncovered.len() < self.is_here.len(),
            directory: Arc::clone(self),
            covered,
            uncovered: 0,
        }
    }
}

/// Returns whether a version of an entry may be read into a segment.
fn is_eligible(
    entry: &Entry,
    version: Option<FileVersion>,
    is_settled: fn(&FileVersion) -> bool,
) -> bool {
    entry.is_here_to_read()
        && version.is_none_or(|version| version.size() <= MAX_SIZE)
        // Skip a file that is still being written, which would be read again and again.
        && version.is_none_or(|version| is_settled(&version))
        && Segment::used() < MAX_MEMORY
}

impl Part {
    fn of(segment: &Arc<Segment>) -> Part {
        Part {
            segment: Arc::clone(segment),
            positions: vec![GONE; segment.files()].into(),
            live: Size::default(),
            is_queued: false,
        }
    }

    /// Adds a file at a position. Returns false if the file is already listed at another position, in which case this
    /// position must be searched.
    fn add(&mut self, place: &Place, position: u32) -> bool {
        let is_new = self.positions[place.file] == GONE;
        if is_new {
            self.positions[place.file] = position;
            self.live.files += 1;
            self.live.keys += place.keys;
        }
        is_new
    }
}

/// Returns the parts whose files must be read again. A part must be read again if less than half of its
/// segment is in the listing, or if there are [`MANY`] parts of the same tier, which are merged into one
/// larger part.
fn outdated(parts: &[Part]) -> impl Iterator<Item = &Part> {
    let mut like = [0; 8];
    for part in parts.iter().filter(|part| !part.is_queued) {
        like[part.live.tier()] += 1;
    }
    parts.iter().filter(move |part| {
        let whole = Size {
            files: part.segment.files(),
            keys: part.segment.keys(),
        };
        let tier = part.live.tier();
        let is_sparse = part.live.share() < whole.share() / 2;
        !part.is_queued && (is_sparse || tier > 0 && like[tier] >= MANY)
    })
}

/// The positions of the entries to search, in ascending order.
#[derive(Debug)]
pub(super) struct Candidates {
    directory: Arc<Directory>,
    /// Positions of entries that segments cover, in descending order.
    covered: Vec<u32>,
    /// Number of uncovered entries that were returned so far.
    uncovered: usize,
    /// True if entries were left out.
    pub(super) skips_some: bool,
}

impl Iterator for Candidates {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let uncovered = self.directory.uncovered.get(self.uncovered);
        let next = match (self.covered.last(), uncovered) {
            (Some(covered), Some(uncovered)) if covered < uncovered => self.covered.pop(),
            (_, Some(uncovered)) => {
                self.uncovered += 1;
                Some(*uncovered)
            }
            (_, None) => self.covered.pop(),
        };
        next.map(|position| position as usize)
    }
}
