//! Tests eviction during concurrent use.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crawlspace_jobs::operations::{Collected, collect};
use crawlspace_jobs::{Limits, Work};
use redis_tests::{Rng, with};

use crate::durability::processes::{Process, Running, Told, say, wait_for_go};
use crate::durability::state::{assert_clean, assert_unlocked, checksum, state};
use crate::stage::{Stage, asks};

const ASKS: &str = "full 1-3;full 2,3;dedup 1,2;cdx 1-3";

/// Removes every entry that is not in use.
fn remove_all(cache_dir: &Path) -> Collected {
    let limits = with!(Limits, max_bytes: Some(0), grace: Duration::ZERO);
    collect(cache_dir, &limits, false, &Work::default()).expect("a collection")
}

#[test]
fn entry_in_use_is_never_removed() {
    let mut rng = Rng::new("removed entries");
    let stage = Stage::with_jobs("1-3", 60);
    let (expected_dir, cache_dir) = (stage.path().join("expected"), stage.cache_dir());
    let caches = stage.caches_in(&expected_dir);
    for ask in asks(ASKS) {
        ask.get(&caches);
    }
    let expected = state(&expected_dir);
    let mut users: Vec<Running> = (0..2)
        .map(|_| {
            let process = Process::new("use", &stage, &cache_dir, ASKS);
            process.threads(2, rng.bits()).start()
        })
        .collect();
    users.iter_mut().for_each(Running::ready);
    let is_over = AtomicBool::new(false);
    let removed: usize = thread::scope(|scope| {
        let remove = || {
            let mut removed = 0;
            while !is_over.load(Ordering::Relaxed) {
                removed += remove_all(&cache_dir).removed.len();
            }
            removed
        };
        let removing: Vec<_> = (0..2).map(|_| scope.spawn(remove)).collect();
        users.iter_mut().for_each(Running::go);
        let ended: Vec<_> = users.into_iter().map(Running::end).collect();
        is_over.store(true, Ordering::Relaxed);
        for user in ended {
            for (entry, sum) in user.assert_done().got() {
                assert_eq!(expected.get(entry), Some(&sum), "{entry}");
            }
            let [_, failed, damaged] = user.figures();
            assert_eq!((failed, damaged), (0, 0));
        }
        removing
            .into_iter()
            .map(|removing| removing.join().expect("a thread"))
            .sum()
    });
    println!("{removed} removed meanwhile");
    assert_unlocked(&cache_dir);
    assert_eq!(remove_all(&cache_dir).entries, 0);
    assert!(state(&cache_dir).is_empty());
    assert_clean(&cache_dir);
}

/// Gets entries repeatedly, and reads each twice while holding it.
pub fn use_entries(told: &Told) {
    let caches = told.caches();
    wait_for_go();
    thread::scope(|scope| {
        for thread in 0..told.threads {
            let caches = &caches;
            scope.spawn(move || {
                let mut rng = Rng::seeded(told.seed ^ thread as u64);
                let asks = asks(&told.asks);
                for _ in 0..40 {
                    let ask = rng.pick(&asks);
                    let index = ask.get(caches);
                    assert!(index.missing.is_empty());
                    let path = index.entry.path();
                    let sum = checksum(path, ask.kind.form());
                    assert_eq!(sum, checksum(path, ask.kind.form()));
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    say(&format!("got {}/{name} {sum}", ask.kind.folder()));
                }
            });
        }
    });
    let figures = caches.figures();
    say(&format!(
        "figures {} {} {}",
        figures.builds, figures.failures, figures.damaged
    ));
}

/// Starts a process that gets an entry and holds it.
fn holder(stage: &Stage, cache_dir: &Path, ask: &str) -> Running {
    let mut holder = Process::new("hold", stage, cache_dir, ask).start();
    holder.ready();
    holder
}

/// Gets an entry, and reads it again on command.
pub fn hold(told: &Told) {
    let caches = told.caches();
    let [ask] = &asks(&told.asks)[..] else {
        panic!("{}", told.asks)
    };
    let index = ask.get(&caches);
    let sum = checksum(index.entry.path(), ask.kind.form());
    wait_for_go();
    assert_eq!(sum, checksum(index.entry.path(), ask.kind.form()));
}

#[test]
fn entry_is_kept_while_a_process_uses_it_and_freed_by_its_kill() {
    let stage = Stage::with_jobs("1-3", 40);
    let cache_dir = stage.cache_dir();
    for (ask, entry) in [
        ("full 1-3", "fullcrawllogindex/1-2-3-cache"),
        ("cdx 1-3", "cdxindex/1-2-3-cache"),
    ] {
        let mut one = holder(&stage, &cache_dir, ask);
        let two = holder(&stage, &cache_dir, ask);
        for _ in 0..2 {
            let collected = remove_all(&cache_dir);
            assert_eq!(collected.kept, 1);
            assert_eq!(state(&cache_dir).keys().collect::<Vec<_>>(), [entry]);
        }
        one.go();
        one.end().assert_done();
        assert_eq!(remove_all(&cache_dir).kept, 1);
        two.kill9();
        assert_eq!(remove_all(&cache_dir).kept, 0);
        assert!(state(&cache_dir).is_empty());
    }
}

#[test]
fn entry_damaged_in_use_is_replaced_and_readers_continue() {
    let stage = Stage::with_jobs("1-3", 40);
    let cache_dir = stage.cache_dir();
    for ask in ["full 1-3", "cdx 1-3"] {
        let mut holder = holder(&stage, &cache_dir, ask);
        let before = state(&cache_dir);
        let caches = stage.caches_in(&cache_dir);
        let ask = &asks(ask)[0];
        let index = ask.get(&caches);
        let (_, path, size) = index.entry.files().next().expect("a file");
        let file = fs::File::options().read(true).write(true).open(path);
        let file = file.expect("a file");
        let mut byte = [0];
        file.read_exact_at(&mut byte, size / 2).expect("a byte");
        file.write_all_at(&[byte[0] ^ 1], size / 2).expect("a byte");
        drop(index);
        ask.get(&caches);
        let figures = caches.figures();
        assert_eq!((figures.damaged > 0, figures.builds), (true, 1));
        assert_eq!(state(&cache_dir), before);
        holder.go();
        holder.end().assert_done();
    }
}

#[test]
fn replaced_entry_exists_at_every_moment() {
    let mut rng = Rng::new("replaced entries");
    let stage = Stage::with_jobs("1-3", 30);
    let cache_dir = stage.cache_dir();
    let caches = stage.caches_in(&cache_dir);
    for ask in asks(ASKS) {
        ask.get(&caches);
    }
    let expected = state(&cache_dir);
    let process = Process::new("use", &stage, &cache_dir, ASKS);
    let mut user = process.threads(2, rng.bits()).start();
    user.ready();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                for ask in asks(ASKS) {
                    let index = caches.rebuild_index(ask.kind, &ask.jobs, &Work::default());
                    assert!(index.expect("an index").missing.is_empty());
                }
            }
        });
        user.go();
        let ended = user.end();
        is_over.store(true, Ordering::Relaxed);
        // The process never had to build an entry.
        assert_eq!(ended.assert_done().figures(), [0, 0, 0]);
        for (entry, sum) in ended.got() {
            assert_eq!(expected.get(entry), Some(&sum), "{entry}");
        }
    });
    assert_eq!(state(&cache_dir), expected);
    assert_clean(&cache_dir);
}
