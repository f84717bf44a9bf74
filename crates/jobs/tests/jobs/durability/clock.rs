//! Tests changes of the clock, and files with wrong times.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crawlspace_jobs::operations::{Collected, collect};
use crawlspace_jobs::{Limits, Work};
use redis_tests::{Rng, with};

use crate::durability::state::{names, state};
use crate::stage::{Stage, asks};

const HOUR: Duration = Duration::from_secs(3600);
const ASKS: &str = "full 1,2;cdx 1,2";

/// Sets the modification time of a file.
fn set_time(path: &Path, time: SystemTime) {
    let file = File::open(path).expect("a file");
    file.set_modified(time).expect("a time");
}

/// Returns the files in the folders of the caches.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for name in names(folder) {
        let path = folder.join(name);
        if path.is_dir() {
            files.extend(self::files(&path))
        } else {
            files.push(path)
        }
    }
    files
}

fn gc(cache_dir: &Path, limits: &Limits) -> Collected {
    collect(cache_dir, limits, false, &Work::default()).expect("a collection")
}

fn times() -> Vec<SystemTime> {
    let (now, epoch) = (SystemTime::now(), SystemTime::UNIX_EPOCH);
    vec![
        now + 100_000 * HOUR,
        now + HOUR,
        now - HOUR,
        now - 100_000 * HOUR,
        epoch,
        epoch - HOUR,
    ]
}

#[test]
fn entries_are_found_and_built_with_any_file_times() {
    let mut rng = Rng::new("times of files");
    let stage = Stage::with_jobs("1,2", 30);
    let cache_dir = stage.cache_dir();
    for ask in asks(ASKS) {
        ask.get(&stage.caches_in(&cache_dir));
    }
    let expected = state(&cache_dir);
    let times = times();
    for _ in 0..10 {
        for path in files(stage.path()) {
            set_time(&path, *rng.pick(&times));
        }
        let caches = stage.caches_in(&cache_dir);
        for _ in 0..2 {
            for ask in asks(ASKS) {
                ask.get(&caches);
            }
        }
        let figures = caches.figures();
        assert_eq!((figures.builds, figures.damaged), (0, 0));
        let parts = stage.path().join("fresh");
        for ask in asks(ASKS) {
            ask.get(&stage.caches_in(&parts));
        }
        assert_eq!(state(&parts), expected);
        fs::remove_dir_all(parts).expect("removed");
    }
}

#[test]
fn age_is_measured_from_the_last_use_and_never_negative() {
    let stage = Stage::with_jobs("1,2", 30);
    let cache_dir = stage.cache_dir();
    for ask in asks(ASKS) {
        ask.get(&stage.caches_in(&cache_dir));
    }
    let limits = with!(Limits, max_age: Some(HOUR / 2), grace: Duration::ZERO);
    for time in times() {
        for path in files(&cache_dir) {
            set_time(&path, time);
        }
        let before = state(&cache_dir).len();
        let removed = gc(&cache_dir, &limits).removed.len();
        if time > SystemTime::now() {
            assert_eq!(removed, 0)
        } else {
            assert_eq!(removed, before)
        }
        for ask in asks(ASKS) {
            ask.get(&stage.caches_in(&cache_dir));
        }
    }
}

/// Checks that entries used before the clock was set back can expire.
#[test]
fn future_use_counts_as_now() {
    let stage = Stage::with_jobs("1,2", 30);
    let cache_dir = stage.cache_dir();
    for ask in asks(ASKS) {
        ask.get(&stage.caches_in(&cache_dir));
    }
    for path in files(&cache_dir) {
        set_time(&path, SystemTime::now() + 100_000 * HOUR);
    }
    let limits = with!(Limits, max_bytes: Some(0), grace: HOUR);
    assert_eq!(gc(&cache_dir, &limits).removed.len(), 0);
    let later = SystemTime::now();
    let marks = files(&cache_dir);
    let marks = marks
        .iter()
        .filter(|path| path.extension().is_some_and(|end| end == "seen"));
    let mut marked = 0;
    for path in marks {
        let used = fs::metadata(path).expect("a file").modified();
        assert!(used.expect("a time") <= later, "{}", path.display());
        marked += 1;
        // Set the time to more than an hour ago.
        set_time(path, later - HOUR - Duration::from_secs(1));
    }
    assert_eq!(marked, state(&cache_dir).len());
    assert_eq!(gc(&cache_dir, &limits).entries, 0);
}
