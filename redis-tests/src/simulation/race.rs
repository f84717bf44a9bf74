//! Threads that compete for leases in real time. Only times of the server are compared: a lease
//! begins when its deadline was set, and ends at the due time of its release minus the pause.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::frontier::{Frontier, Lease};
use crate::rng::Rng;
use crate::server::Server;
use crate::wire::Reply;

/// Duration of a lease in milliseconds. The duration is short, so that leases of crashed workers
/// expire during the race.
const LEASE: i64 = 250;
/// Number of URIs of each group. This is more than the workers can fetch in a few seconds.
const URIS: usize = 5_000;

/// The result of a race.
#[derive(Debug)]
pub struct Race {
    /// Number of granted leases.
    pub leases: usize,
    /// Number of fetches whose lease expired, because the worker crashed.
    pub crashed: usize,
}

/// One fetch of a group, by the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    from: i64,
    to: i64,
    /// Time at which the group was due again.
    due: i64,
}

/// Makes `threads` threads fetch from `groups` groups for `span`. Each thread waits with
/// `NEXT BLOCK`.
///
/// # Errors
/// A description of two leases of one group that overlap, or follow each other too closely.
pub fn race(
    server: &Server,
    threads: usize,
    groups: usize,
    span: Duration,
    rng: &mut Rng,
) -> Result<Race, String> {
    let mut frontier = Frontier::of(server, "{race}:");
    for group in 0..groups {
        let one = format!(" host-{group} 0");
        for _ in 0..URIS / 500 {
            frontier.ok(format!("ADD crawl{}", one.repeat(500)));
        }
    }
    let end = Instant::now() + span;
    let seeds: Vec<u64> = (0..threads).map(|_| rng.bits()).collect();
    let fetched: Vec<Vec<(String, Held, bool)>> = std::thread::scope(|scope| {
        let workers: Vec<_> = seeds
            .iter()
            .map(|&seed| {
                let frontier = Frontier::of(server, "{race}:");
                scope.spawn(move || worker(frontier, seed, end))
            })
            .collect();
        let joined = workers.into_iter();
        joined
            .map(|worker| worker.join().expect("a worker ends"))
            .collect()
    });
    let mut race = Race {
        leases: 0,
        crashed: 0,
    };
    let mut by_group: BTreeMap<String, Vec<Held>> = BTreeMap::new();
    for (chg, held, crashed) in fetched.into_iter().flatten() {
        race.leases += 1;
        race.crashed += usize::from(crashed);
        by_group.entry(chg).or_default().push(held);
    }
    for (chg, mut held) in by_group {
        held.sort();
        let wrong = held
            .windows(2)
            .find(|pair| pair[1].from < pair[0].to || pair[1].from < pair[0].due);
        if let Some(pair) = wrong {
            return Err(format!("leases of {chg}: {pair:?}"));
        }
    }
    Ok(race)
}

fn worker(mut frontier: Frontier, seed: u64, end: Instant) -> Vec<(String, Held, bool)> {
    let mut rng = Rng::seeded(seed);
    let mut fetched = Vec::new();
    let ask = format!("NEXT LEASE {LEASE} BLOCK 100");
    let mut lease: Option<Lease> = None;
    while Instant::now() < end {
        let Some(held) = lease.take() else {
            lease = Lease::all(&frontier.ok(&ask)).pop();
            continue;
        };
        let from = held.deadline - LEASE;
        if rng.chance(2) {
            let to = held.deadline;
            let due = to;
            fetched.push((held.chg, Held { from, to, due }, true));
            continue;
        }
        if rng.chance(50) {
            std::thread::sleep(Duration::from_micros(rng.below(3_000)));
        }
        let pause = rng.below(8) as i64;
        let when = format!("DELAY {pause} DONE crawl");
        let line = crate::frontier::release(&held, when);
        // Every second release also requests the next lease.
        let fused = rng.chance(50);
        let reply = frontier.call(if fused { format!("{line} {ask}") } else { line });
        let due = match &reply {
            // The lease expired because the load on the machine was too high.
            Reply::Error(line) if line.starts_with(b"STALE ") => {
                let to = held.deadline;
                fetched.push((held.chg, Held { from, to, due: to }, true));
                continue;
            }
            Reply::Array(items) => {
                lease = (!items[1].is_nil()).then(|| Lease::of(&items[1]));
                items[0].int()
            }
            reply => reply.int(),
        };
        let to = due - pause;
        fetched.push((held.chg, Held { from, to, due }, false));
    }
    if let Some(held) = lease {
        let from = held.deadline - LEASE;
        let to = held.deadline;
        fetched.push((held.chg, Held { from, to, due: to }, true));
    }
    fetched
}
