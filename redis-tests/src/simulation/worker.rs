//! What becomes of a fetch: most are released in time, some never, too late, or twice.

use super::book::{Book, Queued};
use super::{LEASE, WINDOW};
use crate::rng::Rng;
use crate::wire::Reply;

/// A lease in a worker's hands.
#[derive(Clone, Debug)]
pub struct Fetch {
    pub group: usize,
    pub token: i64,
    pub deadline: i64,
    /// Number of the URI, when the frontier keeps it.
    pub uri: Option<usize>,
    /// Whose URI it is, or whose count it lowers.
    pub execution: usize,
}

/// How a fetch is reported.
#[derive(Clone, Debug)]
pub struct Release {
    pub fetch: Fetch,
    /// `AT ..`, `DELAY ..` or facts.
    pub when: String,
    /// The pause that this asks for, at least.
    pub pause: i64,
    /// The pause is exactly that.
    pub exact: bool,
    pub end: End,
    /// Asks for the next lease as well.
    pub next: bool,
    /// Frees the worker. A repetition does not: the first one did.
    pub primary: bool,
}

/// What the worker says of the URI.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum End {
    /// `DONE` of so many (1 for a kept URI).
    Done(u32),
    /// `RETRY` then.
    Retry(i64),
    /// Nothing.
    Unchanged,
}

/// Something that is done at some time.
#[derive(Debug)]
pub enum Deed {
    /// `NEXT`, up to so many leases.
    Ask(usize),
    /// `RELEASE`.
    Release(Release),
    /// `EXTEND`.
    Extend { fetch: Fetch, ms: i64 },
    /// `BLOCK`.
    Block { group: usize, until: i64 },
    /// `ADD` or `ADDURI`; `again`: its reply gets lost and it is sent once more.
    Add { what: Vec<Queued>, again: bool },
    /// A repeated addition, which must be answered as the first.
    AddAgain { what: Vec<Queued>, first: Reply },
    /// `EXPIRED`.
    Reports,
    /// `PAUSE` (or `RESUME`) of the execution that is halted now and then.
    Halt(bool),
}

impl Deed {
    /// A worker is free after it.
    pub fn frees_a_worker(&self) -> bool {
        matches!(self, Deed::Release(Release { primary: true, .. }))
    }
}

/// Draws what becomes of a fetch that begins now.
pub fn plan(rng: &mut Rng, book: &Book, now: i64, fetch: Fetch) -> Vec<(i64, Deed)> {
    let large = book.is_large(fetch.group);
    if fetch.uri.is_some_and(|uri| book.is_poison(uri)) {
        return Vec::new();
    }
    let length = match rng.below(10) {
        _ if large => 100 + rng.below(100),
        // So long that others come to the same host meanwhile.
        _ if book.is_parallel(fetch.group) => 2_000 + rng.below(6_000),
        0 => 1_000 + rng.below(7_000),
        1..=4 => 300 + rng.below(900),
        _ => 100 + rng.below(300),
    } as i64;
    let mut end = now + length;
    let mut deeds = Vec::new();
    // Per mille; the same mishaps for every group, but fewer where shares are measured.
    let mishap = rng.below(if large { 8_000 } else { 1_000 });
    match mishap {
        // The worker dies.
        0..=14 => return deeds,
        // It comes back after the lease ran out.
        15..=24 => end = fetch.deadline + rng.below(LEASE as u64 / 2) as i64,
        // It asks for more time, and needs it.
        25..=29 => {
            let ms = LEASE + rng.below(5_000) as i64;
            let at = now + 1_000 + rng.below(8_000) as i64;
            deeds.push((
                at,
                Deed::Extend {
                    fetch: fetch.clone(),
                    ms,
                },
            ));
            end = at + WINDOW + rng.below((ms - WINDOW) as u64) as i64;
        }
        // The host answers 429: nobody shall come for a while.
        30..=32 => {
            let until = now + rng.below(20_000) as i64;
            let group = fetch.group;
            deeds.push((now + WINDOW, Deed::Block { group, until }));
        }
        _ => (),
    }
    let release = release(rng, book, end, length, fetch);
    let again = |release: &Release| Release {
        primary: false,
        ..release.clone()
    };
    match mishap {
        // The reply gets lost: the same release again, at once or later.
        40..=54 => deeds.push((end, Deed::Release(again(&release)))),
        55..=69 => {
            let at = end + rng.below(5_000) as i64;
            deeds.push((at, Deed::Release(again(&release))));
        }
        // Another worker has the same lease, and reports something else.
        70..=79 => {
            let other = Release {
                end: End::Unchanged,
                when: "DELAY 0".into(),
                next: false,
                ..again(&release)
            };
            let at = end + rng.below(3_000) as i64;
            deeds.push((at, Deed::Release(other)));
        }
        _ => (),
    }
    // First what was planned first: a repetition comes after its original.
    deeds.insert(0, (end, Deed::Release(release)));
    deeds
}

fn release(rng: &mut Rng, book: &Book, end: i64, length: i64, fetch: Fetch) -> Release {
    let large = book.is_large(fetch.group);
    let drawn = match rng.below(10) {
        _ if large => rng.below(50),
        0 => 0,
        1 => 3_000 + rng.below(5_000),
        _ => 1 + rng.below(2_000),
    } as i64;
    let mut exact = true;
    let (when, pause) = match rng.below(100) {
        0..=59 => (format!("DELAY {drawn}"), drawn),
        60..=74 => (format!("AT {}", end + drawn), drawn),
        _ if large => (format!("DELAY {drawn}"), drawn),
        75..=84 => {
            exact = length % 2 == 0;
            let pause = (length * 3 / 2).clamp(100, 5_000);
            (
                format!("ELAPSED {length} FACTOR 1.5 MIN 100 MAX 5000"),
                pause,
            )
        }
        85..=96 => (
            format!("ELAPSED {length} CRAWLDELAY {drawn} STATUS 200"),
            length.max(drawn),
        ),
        _ => {
            exact = false;
            (
                format!("ELAPSED {length} RETRYAFTER {drawn} STATUS 503"),
                (2 * length.max(1_000)).max(drawn),
            )
        }
    };
    let counted = fetch.uri.is_none();
    let outcome = match rng.below(100) {
        _ if large => End::Done(1),
        0..=3 => End::Retry(end + rng.below(10_000) as i64),
        4..=6 => End::Unchanged,
        7..=9 if counted => End::Done(2),
        _ => End::Done(1),
    };
    Release {
        next: rng.chance(60),
        fetch,
        when,
        pause,
        exact,
        end: outcome,
        primary: true,
    }
}
