//! Filters that say which files can have a urlkey, so that a query for one URL opens few of the files of this machine.
//!
//! A filter is made in the background, once a file has been listed. Until then, and where it would take too much memory,
//! a file is searched. Files that change have no filter until the new version was read. Filters take 15.5 bits for
//! each urlkey of a file.

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
/// Size up to which a file is read, in bytes.
const MAX_SIZE: u64 = 512 << 20;
/// Number of files that are searched without a filter if they may grow.
const FEW: usize = 16;
/// Half bits of a filter for each urlkey: one of 750 other urlkeys is taken for one that the file has.
const HALF_BITS: usize = 31;
/// Time that is worked at a stretch. As long again, others have the processor.
const SLICE: Duration = Duration::from_millis(5);

static USED: AtomicUsize = AtomicUsize::new(0);

/// Knowledge that reading all of a file has given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    filter: Option<Arc<[Bucket]>>,
    /// All keys are spelled as here.
    pub(super) is_here: bool,
}

/// Bits within one cache line, of which a urlkey sets eight: a split block of a Bloom filter (Putze, Sanders and
/// Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", 2007).
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
struct Bucket([u32; 8]);

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
fn hash(urlkey: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(urlkey);
    hasher.finish()
}

/// A urlkey that is looked for in filters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    upper: u64,
    bits: [u32; 8],
}

impl Probe {
    /// Looks for a urlkey.
    pub(super) fn new(urlkey: &[u8]) -> Probe {
        Probe::of(hash(urlkey))
    }

    fn of(hash: u64) -> Probe {
        let low = hash as u32;
        Probe {
            upper: hash >> 32,
            bits: SALTS.map(|salt| 1 << (low.wrapping_mul(salt) >> 27)),
        }
    }

    /// Returns the number of the bucket among `buckets`.
    #[inline]
    fn bucket(self, buckets: usize) -> usize {
        (self.upper.wrapping_mul(buckets as u64) >> 32) as usize
    }
}

impl Known {
    /// Returns whether the file cannot have any of these urlkeys.
    #[inline]
    pub(super) fn lacks(&self, probes: &[Probe]) -> bool {
        let Some(filter) = &self.filter else {
            return false;
        };
        // No branch for each word: of a thousand filters nearly all say no, at different words.
        !probes.iter().any(|probe| {
            let Some(Bucket(words)) = filter.get(probe.bucket(filter.len())) else {
                return false;
            };
            let both = words.iter().zip(probe.bits);
            both.fold(0, |missing, (word, bit)| missing | (bit & !word)) == 0
        })
    }

    fn of(mut hashes: Vec<u64>, is_here: bool) -> Known {
        hashes.sort_unstable();
        hashes.dedup();
        let buckets = (hashes.len() * HALF_BITS).div_ceil(2 * 256);
        let mut filter: Vec<Bucket> = vec![Bucket::default(); buckets];
        for probe in hashes.into_iter().map(Probe::of) {
            if let Some(Bucket(words)) = filter.get_mut(probe.bucket(buckets)) {
                let both = words.iter_mut().zip(probe.bits);
                both.for_each(|(word, bit)| *word |= bit);
            }
        }
        Known {
            filter: Some(filter.into()),
            is_here,
        }
    }

    /// Returns whether there is a filter to ask.
    pub(super) fn has_filter(&self) -> bool {
        self.filter.is_some()
    }

    fn size(&self) -> usize {
        self.filter
            .as_ref()
            .map_or(0, |filter| size_of_val(&**filter))
    }
}

/// Returns which of the first 64 files may have a urlkey, a bit for each.
///
/// Filters are rarely in the caches of the processor. One word of each is loaded first, by loads that do not wait for each
/// other, and the whole bucket only where that word fits.
pub(super) fn candidates(known: &[Known], probes: &[Probe]) -> u64 {
    let mut all = 0;
    for probe in probes {
        let mut first = [u32::MAX; 64];
        for (known, word) in known.iter().zip(&mut first) {
            if let Some(filter) = &known.filter {
                let bucket = filter.get(probe.bucket(filter.len()));
                *word = bucket.map_or(0, |Bucket(words)| words[0]);
            }
        }
        let fits = first.iter().rev().fold(0, |fits, word| {
            fits << 1 | u64::from(word & probe.bits[0] != 0)
        });
        all |= fits;
    }
    let mut candidates = 0;
    for (n, known) in known.iter().take(64).enumerate() {
        if all >> n & 1 == 1 && !known.lacks(probes) {
            candidates |= 1 << n;
        }
    }
    candidates
}

/// Knowledge of an entry, and the version of its file that it is about.
#[derive(Debug, Default)]
pub(super) struct Reading(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    #[default]
    New,
    Waiting {
        version: Option<FileVersion>,
    },
    Done {
        version: Option<FileVersion>,
        known: Known,
    },
}

impl Drop for Reading {
    fn drop(&mut self) {
        let state = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        release(state);
    }
}

fn release(state: &mut State) {
    if let State::Done { known, .. } = std::mem::take(state) {
        USED.fetch_sub(known.size(), Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns what is known of entries of this machine. Where there are several packages or many files, those of which
/// nothing is known are read in the background.
pub(super) fn known_of(entries: &[Arc<Entry>]) -> Arc<[Known]> {
    let (is_alone, are_few) = (entries.len() == 1, entries.len() <= FEW);
    let known = entries.iter().map(|entry| {
        let version = entry.version();
        // What is appended to one of few files is found at once.
        if is_alone || are_few && version.is_some() {
            return Known::default();
        }
        let mut state = lock(&entry.reading.0);
        match &*state {
            State::Done {
                version: seen,
                known,
            } if *seen == version => return known.clone(),
            State::Waiting { version: seen } if *seen == version => return Known::default(),
            _ => {}
        }
        let size = version.map_or(0, |version| version.size());
        let is_eligible = entry.is_here_to_read()
            && size <= MAX_SIZE
            // One that is being written would be read again and again.
            && version.is_none_or(|version| version.is_settled())
            && USED.load(Ordering::Relaxed) < MAX_MEMORY;
        if is_eligible {
            release(&mut state);
            *state = State::Waiting { version };
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
            let known = catch_unwind(AssertUnwindSafe(|| read(&entry)));
            finish(&entry, known.unwrap_or_default().unwrap_or_default());
        }
    }
}

fn finish(entry: &Entry, known: Known) {
    let mut state = lock(&entry.reading.0);
    if let State::Waiting { version } = *state {
        USED.fetch_add(known.size(), Ordering::Relaxed);
        *state = State::Done { version, known };
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
            let has = |n: u64| !known.lacks(&[Probe::new(&key(n))]);
            assert!((0..count).all(has), "{count}");
            let found = (count..count + 50_000).filter(|n| has(*n)).count();
            assert!(found < 250, "{count}: {found} of 50000");
            let bytes = known.size() as u64;
            assert!(count < 1000 || bytes <= count * 2, "{count}: {bytes} bytes");
        }
    }

    #[test]
    fn candidates_are_the_files_that_do_not_lack_a_key() {
        let keys = |file: u64| (0..20).map(move |n| n * 7 + file % 11);
        let known: Vec<Known> = (0..150)
            .map(|file| match file % 10 {
                3 => Known::default(),
                _ => Known::of(keys(file).map(|n| hash(&key(n))).collect(), true),
            })
            .collect();
        for wanted in [vec![0], vec![5, 8], vec![1_000_000]] {
            let probes: Vec<_> = wanted.iter().map(|n| Probe::new(&key(*n))).collect();
            for begin in [0, 64, 128] {
                let some = &known[begin..];
                let found = candidates(some, &probes);
                for n in 0..64 {
                    let expected = some.get(n).is_some_and(|known| !known.lacks(&probes));
                    assert_eq!(found >> n & 1 == 1, expected, "{wanted:?} {begin} {n}");
                }
            }
        }
    }

    #[test]
    fn files_that_are_listed_are_read_and_hide_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.cdxj");
        let line = |n: u64| {
            let path = format!("page/{n:05}{}", if n.is_multiple_of(3) { "/" } else { "" });
            format!(
                "com,example)/{path} 20200101000000 {{\"url\": \"http://example.com/{path}\"}}\n"
            )
        };
        std::fs::write(&path, (0..2000).map(line).collect::<String>()).unwrap();
        let entry = Arc::new(Entry::plain(path));
        let known = read(&entry).unwrap();
        assert!(!known.is_here);
        let has = |key: &str| !known.lacks(&[Probe::new(key.as_bytes())]);
        assert!((0..2000).all(|n| has(&format!("com,example)/page/{n:05}"))));
        assert!(!has("com,example)/other"));
    }
}
