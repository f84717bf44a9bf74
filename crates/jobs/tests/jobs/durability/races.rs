//! Tests concurrent requests.

use std::collections::BTreeSet;

use redis_tests::Rng;

use crate::durability::processes::Process;
use crate::durability::state::{assert_clean, assert_unlocked, state};
use crate::stage::Stage;

const PROCESSES: usize = 3;
const THREADS: usize = 5;

/// Starts processes with several threads, which request the same sets concurrently, each in its own order, and returns
/// the number of entries afterwards.
fn race(stage: &Stage, asks: &str, rng: &mut Rng) -> usize {
    let cache_dir = stage.path().join(format!("cache-{}", rng.bits()));
    let mut running: Vec<_> = (0..PROCESSES)
        .map(|_| {
            let process = Process::new("get", stage, &cache_dir, asks);
            process.threads(THREADS, rng.bits()).start()
        })
        .collect();
    running.iter_mut().for_each(|process| process.ready());
    running.iter_mut().for_each(|process| process.go());
    let ended: Vec<_> = running.into_iter().map(|process| process.end()).collect();
    let there = state(&cache_dir);
    let mut builds = 0;
    let mut got = BTreeSet::new();
    for process in &ended {
        let [built, failed, damaged] = process.assert_done().figures();
        builds += built;
        assert_eq!((failed, damaged), (0, 0));
        for (entry, sum) in process.got() {
            assert_eq!(there.get(entry), Some(&sum), "{entry}");
            got.insert(entry);
        }
    }
    assert_eq!(builds, there.len() as u64, "{:?}", there.keys());
    assert_eq!(got.len(), asks.split(';').count());
    assert_unlocked(&cache_dir);
    assert_clean(&cache_dir);
    there.len()
}

#[test]
fn many_processes_and_threads_build_a_set_once() {
    let mut rng = Rng::new("the same set");
    let stage = Stage::with_jobs("1-4", 100);
    for _ in 0..3 {
        // Expected: raw data of both kinds and a segment of each job, and the set.
        assert_eq!(race(&stage, "full 1-4", &mut rng), 4 * 3 + 1);
    }
}

#[test]
fn overlapping_sets_share_their_jobs() {
    let mut rng = Rng::new("overlapping sets");
    let stage = Stage::with_jobs("1-6", 100);
    let asks = "full 1-4;full 3-6;full 1-6;full 2;dedup 1-4;dedup 2,3;cdx 1-6;cdx 2,3";
    for _ in 0..3 {
        // Expected: raw data of both kinds, full segments and sets, dedup segments and sets, and sets of CDX.
        assert_eq!(race(&stage, asks, &mut rng), 6 * 2 + 6 + 3 + 4 + 2 + 2);
    }
}
