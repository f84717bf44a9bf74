//! Tests builders that are killed.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use nix::libc;
use redis_tests::Rng;

use crate::durability::processes::{Process, Running};
use crate::durability::state::{State, assert_clean, assert_unlocked, how_many, leftovers, state};
use crate::stage::{Stage, asks};

/// Two jobs with raw data and segments, and indexes of both.
const ASKS: &str = "full 1,2;cdx 1,2";
/// Memory limit that is so low that all lines are sorted in files.
const MEMORY: usize = 16 << 10;
/// Total number of builders that are killed.
const ROUNDS: usize = 208;
/// Number of concurrent rounds.
const LANES: usize = 2;

fn builder(stage: &Stage, cache_dir: &Path) -> Running {
    let process = Process::new("get", stage, cache_dir, ASKS);
    let mut running = process.memory(MEMORY).start();
    running.ready();
    running
}

/// Builds everything without kills; returns the state, the duration, and the number of files.
fn undisturbed(stage: &Stage) -> (State, Duration, usize) {
    let cache_dir = stage.path().join("undisturbed");
    let mut running = builder(stage, &cache_dir);
    let begun = Instant::now();
    running.go();
    running.end().assert_done();
    (state(&cache_dir), begun.elapsed(), how_many(&cache_dir))
}

/// Asserts that all existing entries have the expected state, and that no lock is held.
fn assert_no_harm(cache_dir: &Path, expected: &State) -> State {
    assert_unlocked(cache_dir);
    let there = state(cache_dir);
    for (entry, sum) in &there {
        assert_eq!(expected.get(entry), Some(sum), "{entry}");
    }
    there
}

/// Asserts that a new process builds exactly the missing entries.
fn assert_goes_on(stage: &Stage, cache_dir: &Path, there: &State, expected: &State) {
    let caches = stage.caches_in(cache_dir);
    for ask in asks(ASKS) {
        assert!(ask.get(&caches).missing.is_empty());
    }
    let figures = caches.figures();
    assert_eq!((figures.failures, figures.damaged), (0, 0));
    assert_eq!(figures.builds, (expected.len() - there.len()) as u64);
    assert_eq!(&state(cache_dir), expected);
    assert_unlocked(cache_dir);
    assert_clean(cache_dir);
}

/// Waits for a random part of the total time, or until a random part of the files exists.
fn somewhere(running: &mut [Running], cache_dir: &Path, all: (Duration, usize), rng: &mut Rng) {
    if rng.chance(50) {
        let micros = u64::try_from(all.0.as_micros()).unwrap_or(1);
        return thread::sleep(Duration::from_micros(rng.below(micros)));
    }
    let files = rng.below(all.1 as u64) as usize;
    while how_many(cache_dir) < files && running.iter_mut().any(Running::is_running) {
        thread::yield_now();
    }
}

#[test]
fn killed_builder_harms_nobody_and_its_work_is_resumed() {
    let rng = Mutex::new(Rng::new("killed builders"));
    let stage = Stage::with_jobs("1,2", 150);
    let (expected, duration, files) = undisturbed(&stage);
    let found = Mutex::new(vec![0; expected.len() + 1]);
    let left_over = Mutex::new(0);
    thread::scope(|scope| {
        for lane in 0..LANES {
            let mut rng = Rng::seeded(rng.lock().expect("a generator").bits());
            let (stage, expected, found, left_over) = (&stage, &expected, &found, &left_over);
            scope.spawn(move || {
                for round in 0..ROUNDS / LANES {
                    let cache_dir = stage.path().join(format!("cache-{lane}-{round}"));
                    let mut running = [builder(stage, &cache_dir)];
                    running[0].go();
                    somewhere(&mut running, &cache_dir, (duration, files), &mut rng);
                    let [running] = running;
                    running.kill9();
                    let there = assert_no_harm(&cache_dir, expected);
                    found.lock().expect("numbers")[there.len()] += 1;
                    *left_over.lock().expect("a number") += leftovers(&cache_dir).len();
                    assert_goes_on(stage, &cache_dir, &there, expected);
                    fs::remove_dir_all(&cache_dir).expect("removed");
                }
            });
        }
    });
    let (found, left_over) = (found.into_inner(), left_over.into_inner());
    let (found, left_over) = (found.expect("numbers"), left_over.expect("a number"));
    println!("killed after this many entries: {found:?}; left over: {left_over}");
    assert_eq!(found.iter().sum::<usize>(), ROUNDS);
}

/// Kills the builder at a certain write, independent of timing.
#[test]
fn builder_killed_during_a_write_harms_nobody() {
    let mut rng = Rng::new("killed writers");
    let stage = Stage::with_jobs("1,2", 150);
    let (expected, ..) = undisturbed(&stage);
    let mut died = 0;
    let limits = (0..16).map(|power| (1 << power) + rng.below(1 << power));
    for bytes in limits.collect::<Vec<_>>() {
        let cache_dir = stage.path().join(format!("cache-{bytes}"));
        let process = Process::new("get", &stage, &cache_dir, ASKS);
        let mut running = process.memory(MEMORY).dies_at(bytes).start();
        running.ready();
        running.go();
        let ended = running.end();
        match ended.status.signal() {
            Some(signal) => {
                assert_eq!(signal, libc::SIGXFSZ);
                died += 1;
            }
            None => {
                ended.assert_done();
            }
        }
        let there = assert_no_harm(&cache_dir, &expected);
        assert_goes_on(&stage, &cache_dir, &there, &expected);
        fs::remove_dir_all(&cache_dir).expect("removed");
    }
    println!("{died} died");
    assert!(died > 5);
}

#[test]
fn last_survivor_of_killed_builders_and_waiters_gets_everything() {
    let mut rng = Rng::new("killed waiters");
    let stage = Stage::with_jobs("1,2", 150);
    let (expected, duration, files) = undisturbed(&stage);
    for round in 0..20 {
        let cache_dir = stage.path().join(format!("cache-{round}"));
        let mut running: Vec<_> = (0..3).map(|_| builder(&stage, &cache_dir)).collect();
        running.iter_mut().for_each(Running::go);
        while running.len() > 1 {
            somewhere(&mut running, &cache_dir, (duration, files), &mut rng);
            let one = rng.below(running.len() as u64) as usize;
            running.swap_remove(one).kill9();
        }
        for process in running {
            let ended = process.end();
            let [_, failed, damaged] = ended.assert_done().figures();
            assert_eq!((failed, damaged), (0, 0));
        }
        assert_eq!(assert_no_harm(&cache_dir, &expected), expected);
        assert_goes_on(&stage, &cache_dir, &expected, &expected);
        fs::remove_dir_all(&cache_dir).expect("removed");
    }
}
