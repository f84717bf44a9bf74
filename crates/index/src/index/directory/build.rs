//! Builds segments in a background thread.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::Directory;
use super::reading::{Place, Progress};
use super::segment::{MAX_FILES, MAX_KEYS, MAX_MEMORY, Segment, hash, pair};
use crate::index::entry::Entry;
use crate::index::files::Files;
use crate::index::sought::Sought;
use crate::index::span::Span;
use crate::sorted::Order;
use crate::sorted::file::FileVersion;
use crate::sorted::steps::wait;
use crate::spelling::canonical;

/// Maximum duration of a slice of work. The thread sleeps for the same time after each slice, to
/// leave the processor to queries.
const SLICE: Duration = Duration::from_millis(5);
/// Number of hashes that are sorted in one slice.
const SORTED: usize = 1 << 15;

struct Queue {
    /// Entries to read, grouped by listing: a segment only covers files of one listing.
    waiting: VecDeque<Vec<Weak<Entry>>>,
    is_running: bool,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue {
    waiting: VecDeque::new(),
    is_running: false,
});

fn queue() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Queues the entries that the directory of a listing does not know yet, and starts the thread that reads them.
pub(in crate::index) fn read_unknown(directory: &Directory) {
    if directory.unknown.is_empty() {
        return;
    }
    let mut queue = queue();
    queue.waiting.push_back(directory.unknown.clone());
    if queue.is_running {
        return;
    }
    let thread = std::thread::Builder::new().name("index-directory".to_owned());
    queue.is_running = thread.spawn(run).is_ok();
}

fn run() {
    loop {
        let next = {
            let mut queue = queue();
            let next = queue.waiting.pop_front();
            queue.is_running = next.is_some();
            next
        };
        match next {
            Some(entries) => build(&entries),
            None => return,
        }
    }
}

/// Reads entries and adds them to new segments.
fn build(entries: &[Weak<Entry>]) {
    let mut batch = Batch::of(MAX_KEYS);
    for entry in entries.iter().filter_map(Weak::upgrade) {
        batch.add(&entry);
    }
    batch.finish();
}

/// Records the place of an entry for a version of its file.
fn settle(entry: &Entry, version: Option<FileVersion>, place: Option<Place>) {
    let mut state = entry.reading.state();
    if state.version == version {
        state.progress = Progress::Done;
        state.place = place;
    }
}

/// A batch of files that become one segment.
pub(super) struct Batch {
    max_keys: usize,
    pairs: Vec<u64>,
    files: Vec<File>,
    pace: Pace,
}

struct File {
    entry: Weak<Entry>,
    version: Option<FileVersion>,
    keys: usize,
    is_here: bool,
}

impl Batch {
    /// Creates an empty batch for up to `max_keys` urlkeys.
    pub(super) fn of(max_keys: usize) -> Batch {
        Batch {
            max_keys,
            pairs: Vec::new(),
            files: Vec::new(),
            pace: Pace(Instant::now()),
        }
    }

    /// Reads a queued entry. If the batch has no room for the entry, the files collected so far become a
    /// segment first.
    pub(super) fn add(&mut self, entry: &Arc<Entry>) {
        let mut state = entry.reading.state();
        let is_queued = state.progress == Progress::Queued;
        let used = Segment::used() + 2 * self.pairs.len();
        if is_queued && state.place.is_none() && used >= MAX_MEMORY {
            // The memory limit is reached: the entry is queued again once memory is free.
            state.progress = Progress::New;
            return;
        }
        let version = state.version;
        drop(state);
        if is_queued {
            let read = catch_unwind(AssertUnwindSafe(|| self.read(entry, version)));
            // An unreadable file gets no position in the directory, so that queries search the file and report
            // the error.
            if !matches!(read, Ok(Some(()))) {
                settle(entry, version, None);
            }
        }
    }

    /// Reads the urlkeys of an entry. Returns `None` if the entry cannot be read, changes while it is read,
    /// or has more than `max_keys` keys.
    fn read(&mut self, entry: &Arc<Entry>, version: Option<FileVersion>) -> Option<()> {
        let entries: Arc<[_]> = Arc::new([Arc::clone(entry)]);
        let files = Files::new(entries, Sought::of(Span::all()), Order::Ascending);
        let mut files = files.passing();
        let (mut hashes, mut is_here) = (Vec::new(), true);
        while let Some(cursors) = wait(files.cursors()).ok()? {
            for mut cursor in cursors {
                while wait(cursor.next()).ok()? {
                    let (line, shape) = (cursor.line(), cursor.shape());
                    let key = &line[..shape.key];
                    let urlkey = canonical(key, &line[shape.second + 1..]);
                    add(&mut hashes, &urlkey);
                    if *urlkey != *key {
                        is_here = false;
                        add(&mut hashes, key);
                    }
                    if hashes.len() > self.max_keys {
                        return None;
                    }
                    if self.pairs.len() + hashes.len() > self.max_keys {
                        self.finish();
                    }
                    self.pace.step();
                }
            }
        }
        if entry.current_version() != version {
            return None;
        }
        self.pace.sort(&mut hashes);
        hashes.dedup();
        if self.files.len() == MAX_FILES {
            self.finish();
        }
        let file = self.files.len();
        let pairs = hashes.iter().map(|hash| pair(*hash, file));
        self.pairs.extend(pairs);
        self.files.push(File {
            entry: Arc::downgrade(entry),
            version,
            keys: hashes.len(),
            is_here,
        });
        Some(())
    }

    /// Builds a segment from the collected files, and records their positions.
    pub(super) fn finish(&mut self) {
        self.pace.sort(&mut self.pairs);
        self.pairs.dedup();
        let segment = Arc::new(Segment::new(&self.pairs, self.files.len()));
        self.pairs.clear();
        for (file, read) in self.files.drain(..).enumerate() {
            let place = Place {
                segment: Arc::clone(&segment),
                file,
                keys: read.keys,
                is_here: read.is_here,
            };
            if let Some(entry) = read.entry.upgrade() {
                settle(&entry, read.version, Some(place));
            }
        }
    }
}

/// Adds the hash of a urlkey, unless it equals one of the last two.
fn add(hashes: &mut Vec<u64>, urlkey: &[u8]) {
    let hash = hash(urlkey);
    if !hashes.iter().rev().take(2).any(|before| *before == hash) {
        hashes.push(hash);
    }
}

/// Sleeps after each [`SLICE`] of work, to leave the processor to queries.
struct Pace(Instant);

impl Pace {
    fn step(&mut self) {
        if self.0.elapsed() > SLICE {
            std::thread::sleep(SLICE);
            self.0 = Instant::now();
        }
    }

    fn sort(&mut self, numbers: &mut [u64]) {
        if numbers.len() <= SORTED {
            numbers.sort_unstable();
        } else {
            let (lower, _, upper) = numbers.select_nth_unstable(numbers.len() / 2);
            self.sort(lower);
            self.sort(upper);
        }
        self.step();
    }
}
