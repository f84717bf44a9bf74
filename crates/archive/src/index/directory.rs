//! Which files can have a urlkey: a filter of each file of this machine, so that a query for one URL opens few files.
//!
//! A filter is made in the background, once a file has been listed. Until then, and where it would take too much memory,
//! a file is searched. Files that change have no filter until the new version was read. Filters take 14 bits for each
//! urlkey of a file.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::entry::Entry;
use super::files::Files;
use super::sought::Sought;
use super::span::Span;
use crate::sorted::Order;
use crate::sorted::file::FileVersion;
use crate::sorted::steps::wait;
use crate::spelling::canonical;

/// Limit of memory for filters, over all files, in bytes.
const MAX_MEMORY: usize = 256 << 20;
/// Maximum number of urlkeys of a file that has a filter.
const MAX_KEYS: usize = 4 << 20;
/// Size up to which a file that stands alone is read, in bytes: its filter saves little.
const MAX_ALONE: u64 = 16 << 20;
/// Size up to which a file among others is read, in bytes.
const MAX_SIZE: u64 = 512 << 20;
/// Bits of a filter for each urlkey.
const BITS: usize = 14;
/// Time that is worked at a stretch. As long again, others have the processor.
const SLICE: Duration = Duration::from_millis(5);

static USED: AtomicUsize = AtomicUsize::new(0);

/// What reading all of a file has shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    filter: Option<Arc<[Bucket]>>,
    /// All keys are spelled as here.
    pub(super) is_here: bool,
}

/// Bits of one cache line, of which a urlkey sets eight: a split block of a Bloom filter (Putze, Sanders and Singler,
/// "Cache-, Hash- and Space-Efficient Bloom Filters", 2007).
type Bucket = [u32; 8];

/// Odd numbers that choose one bit of each word.
const SALTS: [u32; 8] = [
    0x47b6_137b,
    0x4497_4d91,
    0x8824_ad5b,
    0xa2b7_289d,
    0x7054_95c7,
    0x2df1_424b,
    0x9efc_4947,
    0x5c6b_fb31,
];

/// Returns the hash of a urlkey.
pub(super) fn hash(urlkey: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(urlkey);
    hasher.finish()
}

fn bucket(hash: u64, buckets: usize) -> usize {
    // The upper half, scaled.
    ((hash >> 32).wrapping_mul(buckets as u64) >> 32) as usize
}

fn bits(hash: u64) -> Bucket {
    let low = hash as u32;
    SALTS.map(|salt| 1 << (low.wrapping_mul(salt) >> 27))
}

impl Known {
    /// Returns whether the file cannot have any of these urlkeys.
    #[inline]
    pub(super) fn lacks(&self, hashes: &[u64]) -> bool {
        let Some(filter) = &self.filter else {
            return false;
        };
        !hashes.iter().any(|hash| {
            let bucket = filter.get(bucket(*hash, filter.len()));
            let bits = bits(*hash);
            bucket.is_some_and(|bucket| bucket.iter().zip(bits).all(|(word, bit)| word & bit != 0))
        })
    }

    fn of(mut hashes: Vec<u64>, is_here: bool) -> Known {
        hashes.sort_unstable();
        hashes.dedup();
        let mut filter: Vec<Bucket> = vec![Bucket::default(); (hashes.len() * BITS).div_ceil(256)];
        let buckets = filter.len();
        for hash in hashes {
            if let Some(bucket) = filter.get_mut(bucket(hash, buckets)) {
                bucket
                    .iter_mut()
                    .zip(bits(hash))
                    .for_each(|(word, bit)| *word |= bit);
            }
        }
        Known {
            filter: Some(filter.into()),
            is_here,
        }
    }

    fn size(&self) -> usize {
        self.filter
            .as_ref()
            .map_or(0, |filter| size_of_val(&**filter))
    }
}

/// What is known of an entry, and of which version of its file.
#[derive(Debug, Default)]
pub(super) struct Reading(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    #[default]
    New,
    Waiting(Option<FileVersion>),
    Done(Option<FileVersion>, Known),
}

impl Drop for Reading {
    fn drop(&mut self) {
        let state = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        release(state);
    }
}

fn release(state: &mut State) {
    if let State::Done(_, known) = std::mem::take(state) {
        USED.fetch_sub(known.size(), Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns what is known of entries of this machine; those of which nothing is known are read in the background.
pub(super) fn known_of(entries: &[Arc<Entry>]) -> Arc<[Known]> {
    let is_alone = entries.len() == 1;
    let known = entries.iter().map(|entry| {
        let version = entry.version();
        let mut state = lock(&entry.reading.0);
        match &*state {
            State::Done(seen, known) if *seen == version => return known.clone(),
            State::Waiting(seen) if *seen == version => return Known::default(),
            _ => {}
        }
        let size = version.map_or(0, |version| version.size());
        let is_eligible = entry.is_here_to_read()
            && size <= if is_alone { MAX_ALONE } else { MAX_SIZE }
            // One that is being written would be read again and again.
            && version.is_none_or(|version| version.is_settled())
            && USED.load(Ordering::Relaxed) < MAX_MEMORY;
        if is_eligible {
            release(&mut state);
            *state = State::Waiting(version);
            drop(state);
            enqueue(entry);
        }
        Known::default()
    });
    known.collect()
}

struct Queue {
    waiting: VecDeque<Weak<Entry>>,
    is_running: bool,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue {
    waiting: VecDeque::new(),
    is_running: false,
});

fn enqueue(entry: &Arc<Entry>) {
    let mut queue = lock(&QUEUE);
    queue.waiting.push_back(Arc::downgrade(entry));
    if queue.is_running {
        return;
    }
    let thread = std::thread::Builder::new().name("index-filters".to_owned());
    queue.is_running = thread.spawn(run).is_ok();
}

fn run() {
    loop {
        let next = {
            let mut queue = lock(&QUEUE);
            let next = queue.waiting.pop_front();
            queue.is_running = next.is_some();
            next
        };
        let Some(entry) = next else {
            return;
        };
        if let Some(entry) = entry.upgrade() {
            // A file that cannot be read now is searched, which says why.
            let known = catch_unwind(AssertUnwindSafe(|| read(&entry))).unwrap_or_default();
            finish(&entry, known.unwrap_or_default());
        }
    }
}

fn finish(entry: &Entry, known: Known) {
    let mut state = lock(&entry.reading.0);
    if let State::Waiting(version) = *state {
        USED.fetch_add(known.size(), Ordering::Relaxed);
        *state = State::Done(version, known);
    }
}

/// Reads all of an entry; `None` when that fails, when it has changed, or when there is too much of it.
fn read(entry: &Arc<Entry>) -> Option<Known> {
    let version = entry.version();
    let entries: Arc<[_]> = Arc::new([Arc::clone(entry)]);
    let files = Files::new(entries, Sought::of(Span::all()), Order::Ascending);
    let mut files = files.passing();
    let (mut hashes, mut is_here) = (Vec::new(), true);
    let mut begun = Instant::now();
    while let Some(cursors) = wait(files.cursors()).ok()? {
        for mut cursor in cursors {
            while wait(cursor.next()).ok()? {
                let (line, shape) = (cursor.line(), cursor.shape());
                let key = &line[..shape.key];
                let urlkey = canonical(key, &line[shape.second + 1..]);
                let mut add = |key: &[u8]| {
                    let hash = hash(key);
                    if hashes.last() != Some(&hash) {
                        hashes.push(hash);
                    }
                };
                add(&urlkey);
                if *urlkey != *key {
                    is_here = false;
                    add(key);
                }
                if hashes.len() > MAX_KEYS {
                    return None;
                }
                if begun.elapsed() > SLICE {
                    std::thread::sleep(SLICE);
                    begun = Instant::now();
                }
            }
        }
    }
    (entry.current_version() == version).then(|| Known::of(hashes, is_here))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u64) -> Vec<u8> {
        format!("com,example)/page/{n}").into_bytes()
    }

    #[test]
    fn a_filter_has_what_was_put_into_it_and_little_else() {
        for count in [0, 1, 2, 100, 50_000] {
            let known = Known::of((0..count).map(|n| hash(&key(n))).collect(), true);
            assert!(
                (0..count).all(|n| !known.lacks(&[hash(&key(n))])),
                "{count}"
            );
            let others = (count..count + 50_000).filter(|n| !known.lacks(&[hash(&key(*n))]));
            let found = others.count();
            assert!(found < 750, "{count}: {found} of 50000");
            assert!(
                count < 100 || known.size() as u64 <= count * 2,
                "{count}: {} bytes",
                known.size()
            );
        }
    }

    #[test]
    fn files_that_are_listed_are_read_and_hide_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.cdxj");
        let line = |n: u64| {
            let slash = if n % 3 == 0 { "/" } else { "" };
            format!(
                "com,example)/page/{n:05}{slash} 20200101000000 {{\"url\": \"http://example.com/page/{n:05}{slash}\"}}\n"
            )
        };
        let text: String = (0..2000).map(line).collect();
        std::fs::write(&path, &text).unwrap();
        let entry = Arc::new(Entry::plain(path));
        let known = read(&entry).unwrap();
        assert!(!known.is_here);
        for n in 0..2000 {
            assert!(
                !known.lacks(&[hash(format!("com,example)/page/{n:05}").as_bytes())]),
                "{n}"
            );
        }
        assert!(known.lacks(&[hash(b"com,example)/other")]));
    }
}
