//! Draws the outcomes of fetches: most leases are released in time, and some never, too late, or
//! twice.

use super::crawl::{Crawl, number_of};
use super::{LEASE, WINDOW};
use crate::frontier::Lease;
use crate::rng::Rng;

/// A command, and the action that follows its reply.
#[derive(Debug)]
pub struct Deed {
    pub line: String,
    pub role: Role,
}

/// The action that follows a reply.
#[derive(Clone, Copy, Debug)]
pub enum Role {
    /// Requests up to this many leases.
    Ask(usize),
    /// A fetch ended, possibly with a completed URI of this execution. If the release is not
    /// `primary`, it repeats or contradicts another release of the lease, and frees no worker.
    Release {
        primary: bool,
        done: Option<usize>,
    },
    /// The reply gets lost, and the command is sent again.
    Again,
    Nothing,
}

impl Deed {
    pub fn new(line: String, role: Role) -> Deed {
        Deed { line, role }
    }
}

/// Draws the outcome of fetching a URI of this execution now.
pub fn plan(
    rng: &mut Rng,
    crawl: &Crawl,
    now: i64,
    lease: &Lease,
    execution: (usize, &str),
) -> Vec<(i64, Deed)> {
    let group = number_of(&lease.chg);
    let large = crawl.is_large(group);
    if lease.uri.as_ref().is_some_and(|uri| crawl.is_poison(uri)) {
        return Vec::new();
    }
    let length = match rng.below(10) {
        _ if large => 100 + rng.below(100),
        // The fetch is so long that other workers can fetch from the same host during the fetch.
        _ if crawl.is_parallel(group) => 2_000 + rng.below(6_000),
        0 => 1_000 + rng.below(7_000),
        1..=4 => 300 + rng.below(900),
        _ => 100 + rng.below(300),
    } as i64;
    let mut end = now + length;
    let mut deeds = Vec::new();
    let Lease { chg, token, .. } = lease;
    // The numbers are in units of 1/1000. In groups in which shares are measured, the numbers are
    // in units of 1/8000, so that failures are rarer.
    let mishap = rng.below(if large { 8_000 } else { 1_000 });
    match mishap {
        // The worker crashes.
        0..=14 => return deeds,
        // The worker reports its fetch after the lease has expired.
        15..=24 => end = lease.deadline + rng.below(LEASE as u64 / 2) as i64,
        // The worker extends the lease and uses the extra time.
        25..=29 => {
            let ms = LEASE + rng.below(5_000) as i64;
            let at = now + 1_000 + rng.below(8_000) as i64;
            deeds.push((
                at,
                Deed::new(format!("EXTEND {chg} {token} {ms}"), Role::Nothing),
            ));
            end = at + WINDOW + rng.below((ms - WINDOW) as u64) as i64;
        }
        // The host answers 429 and asks for a longer pause.
        30..=32 => {
            let until = now + rng.below(20_000) as i64;
            let block = format!("BLOCK {chg} UNTIL {until}");
            deeds.push((now + WINDOW, Deed::new(block, Role::Nothing)));
        }
        _ => (),
    }
    let (line, done) = release(rng, large, (end, length), lease, execution.1);
    let role = |primary| Role::Release {
        primary,
        done: done.then_some(execution.0).filter(|_| primary),
    };
    let again = || Deed::new(line.clone(), role(false));
    match mishap {
        // The reply gets lost: the same release is sent again, immediately or later.
        40..=54 => deeds.push((end, again())),
        55..=69 => deeds.push((end + rng.below(5_000) as i64, again())),
        // Another worker also has the lease, and reports a different outcome.
        70..=79 => {
            let at = end + rng.below(3_000) as i64;
            let other = format!("RELEASE {chg} {token} DELAY 0");
            deeds.push((at, Deed::new(other, role(false))));
        }
        _ => (),
    }
    // Actions with the same time run in the order of planning, so that a repetition comes after its
    // original.
    deeds.insert(0, (end, Deed::new(line, role(true))));
    deeds
}

/// Returns a release command and true if it completes the URI.
fn release(
    rng: &mut Rng,
    large: bool,
    (end, length): (i64, i64),
    lease: &Lease,
    execution: &str,
) -> (String, bool) {
    let drawn = match rng.below(10) {
        _ if large => rng.below(50),
        0 => 0,
        1 => 3_000 + rng.below(5_000),
        _ => 1 + rng.below(2_000),
    } as i64;
    let when = match rng.below(100) {
        0..=59 => format!("DELAY {drawn}"),
        60..=74 => format!("AT {}", end + drawn),
        _ if large => format!("DELAY {drawn}"),
        75..=84 => format!("ELAPSED {length} FACTOR 1.5 MIN 100 MAX 5000"),
        85..=96 => format!("ELAPSED {length} CRAWLDELAY {drawn} STATUS 200"),
        _ => format!("ELAPSED {length} RETRYAFTER {drawn} STATUS 503"),
    };
    let counted = lease.uri.is_none();
    let fate = match rng.below(100) {
        _ if large => format!(" DONE {execution}"),
        0..=3 => format!(" RETRY {}", end + rng.below(10_000) as i64),
        4..=6 => String::new(),
        7..=9 if counted => format!(" DONE {execution} 2"),
        _ => format!(" DONE {execution}"),
    };
    let next = if rng.chance(60) {
        format!(" NEXT LEASE {LEASE}")
    } else {
        String::new()
    };
    let line = format!("RELEASE {} {} {when}{fate}{next}", lease.chg, lease.token);
    (line, fate.starts_with(" DONE"))
}
