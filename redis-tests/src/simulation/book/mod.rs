//! What must be true of the frontier, kept apart from it.
//!
//! This file has the groups, their URIs and what is added; [`grants`] and [`releases`] what happens
//! to leases, [`sums`] what must hold all along.

mod commands;
mod grants;
mod releases;
mod sums;

use super::{ATTEMPTS, EXECUTIONS, HALTING, Report, Size};
use crate::frontier::Lease;
use crate::rng::Rng;
use crate::wire::Reply;

/// Groups behind one shared gate.
const BEHIND_A_GATE: usize = 8;

/// Id of a group.
pub fn id(group: usize) -> String {
    format!("g{group}")
}

fn number_of(id: &str) -> Option<usize> {
    id.strip_prefix('g')?.parse().ok()
}

/// A URI (or a mere count) that is handed to the frontier.
#[derive(Clone, Debug)]
pub struct Queued {
    pub group: usize,
    pub execution: usize,
    pub at: i64,
    /// Number of the URI; none where only counts are kept.
    pub uri: Option<usize>,
    /// `SEQ` of its writer, for counts; known when it is sent.
    pub seq: u64,
}

/// What came of a release.
#[derive(Default)]
pub struct Outcome {
    /// A new lease.
    pub lease: Option<Lease>,
    /// A URI was done.
    pub done: bool,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Unknown,
    Queued,
    Leased,
    Done,
    GivenUp,
}

struct Uri {
    group: u32,
    execution: u8,
    state: State,
    attempts: u32,
    due: i64,
    /// Kills each worker that fetches it.
    poison: bool,
}

#[derive(Clone, Debug)]
struct Held {
    token: i64,
    deadline: i64,
    uri: Option<usize>,
}

#[derive(Debug)]
struct Released {
    token: i64,
    due: i64,
    /// Group and token of the lease that its `NEXT` gave.
    next: Option<(usize, i64)>,
}

#[derive(Debug)]
struct Group {
    /// The frontier keeps its URIs.
    kept: bool,
    parallel: usize,
    shared: Option<usize>,
    c: i64,
    /// Where only counts are kept: of each execution.
    counts: [u32; EXECUTIONS.len()],
    held: Vec<Held>,
    /// Leases that ran out and are not reported yet.
    unreported: Vec<Option<usize>>,
    gate: i64,
    blocked: i64,
    last: Option<Released>,
    /// In large groups: leases and queued URIs of each execution.
    shares: Option<Box<Shares>>,
}

#[derive(Debug)]
struct Shares {
    leases: [u32; EXECUTIONS.len()],
    queued: [u32; EXECUTIONS.len()],
    /// One execution has nothing any more: its share goes to the others.
    over: bool,
}

/// Everything that is known of the frontier.
pub struct Book {
    groups: Vec<Group>,
    uris: Vec<Uri>,
    /// The latest time at which a group behind each shared gate may be leased.
    gates: Vec<i64>,
    seqs: [u64; EXECUTIONS.len()],
    /// URIs and counts that can still be found by the crawl.
    undiscovered: usize,
    queued: i64,
    last_token: i64,
    /// The halting execution is paused.
    pub halted: bool,
    /// What did not hold.
    pub wrong: Vec<String>,
    /// What happened.
    pub report: Report,
}

impl Book {
    pub fn new(size: Size, rng: &mut Rng) -> Book {
        let (large, _) = size.large;
        let mut groups: Vec<Group> = (0..size.groups)
            .map(|number| Group {
                kept: number < large || rng.chance(70),
                parallel: if number >= large && rng.chance(2) {
                    2 + rng.below(2) as usize
                } else {
                    1
                },
                shared: None,
                c: 0,
                counts: Default::default(),
                held: Vec::new(),
                unreported: Vec::new(),
                gate: 0,
                blocked: 0,
                last: None,
                shares: None,
            })
            .collect();
        // The last two of a hundred groups stand behind shared gates, eight behind each.
        let gates = size.groups / 50 / BEHIND_A_GATE;
        let first = size.groups - gates * BEHIND_A_GATE;
        for (i, group) in groups[first..].iter_mut().enumerate() {
            group.shared = Some(i / BEHIND_A_GATE);
            group.parallel = 1;
        }
        for group in &mut groups[..large] {
            group.shares = Some(Box::new(Shares {
                leases: Default::default(),
                queued: Default::default(),
                over: false,
            }));
        }
        Book {
            groups,
            uris: Vec::new(),
            gates: vec![0; gates],
            seqs: Default::default(),
            undiscovered: size.uris,
            queued: 0,
            last_token: 0,
            halted: false,
            wrong: Vec::new(),
            report: Report {
                smallest_margin: i64::MAX,
                ..Report::default()
            },
        }
    }

    /// Limits and shared gates.
    pub fn setup(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (number, group) in self.groups.iter().enumerate() {
            if group.parallel > 1 {
                lines.push(format!("LIMIT {} PARALLEL {}", id(number), group.parallel));
            }
        }
        for gate in 0..self.gates.len() {
            let behind = self.groups.iter().enumerate();
            let behind = behind.filter(|(_, group)| group.shared == Some(gate));
            let ids: Vec<String> = behind.map(|(number, _)| id(number)).collect();
            lines.push(format!("GROUP operator-{gate} {}", ids.join(" ")));
        }
        lines
    }

    /// The first URIs: many for large groups, two or three for the others.
    pub fn seeds(&mut self, rng: &mut Rng, size: Size, now: i64) -> Vec<Vec<Queued>> {
        let (_, rounds) = size.large;
        let mut all = Vec::new();
        for group in 0..self.groups.len() {
            if self.is_large(group) {
                for (execution, (_, weight)) in EXECUTIONS.iter().enumerate() {
                    if execution == HALTING {
                        continue;
                    }
                    let uris = (0..rounds * *weight as usize)
                        .map(|_| self.new_uri(rng, group, execution, now));
                    all.push(uris.collect());
                }
                continue;
            }
            for _ in 0..2 + rng.below(2) {
                let execution = rng.below(EXECUTIONS.len() as u64) as usize;
                let mut queued = self.new_uri(rng, group, execution, 0);
                if rng.chance(50) {
                    queued.at = now + rng.below(20_000) as i64;
                }
                all.push(vec![queued]);
            }
        }
        all
    }

    /// A URI that nobody has seen before, or one more count.
    fn new_uri(&mut self, rng: &mut Rng, group: usize, execution: usize, at: i64) -> Queued {
        self.undiscovered = self.undiscovered.saturating_sub(1);
        let uri = self.groups[group].kept.then(|| {
            self.uris.push(Uri {
                group: group as u32,
                execution: execution as u8,
                state: State::Unknown,
                attempts: 0,
                due: 0,
                poison: !self.is_large(group) && rng.below(2_000) == 0,
            });
            self.uris.len() - 1
        });
        Queued {
            group,
            execution,
            at,
            uri,
            seq: 0,
        }
    }

    /// There is more to be found.
    pub fn discovers(&self) -> bool {
        self.undiscovered > 0
    }

    /// What a page of this execution links to: nothing to three URIs, some of them known.
    pub fn links(&mut self, rng: &mut Rng, now: i64, execution: usize) -> Vec<Vec<Queued>> {
        let ordinary = self.groups.len() - self.large();
        let links = [0, 1, 1, 2, 2, 3][rng.below(6) as usize];
        (0..links)
            .map(|_| {
                let group = self.large() + rng.below(ordinary as u64) as usize;
                let at = match rng.below(10) {
                    0..=5 => 0,
                    6..=8 => now + rng.below(5_000) as i64,
                    _ => now + rng.below(60_000) as i64,
                };
                let mut queued = self.new_uri(rng, group, execution, at);
                // Some have been seen before.
                if let (Some(_), true) = (queued.uri, rng.chance(5)) {
                    let known = rng.below(self.uris.len() as u64) as usize;
                    let uri = &self.uris[known];
                    let there = matches!(uri.state, State::Queued | State::Leased);
                    if there && uri.attempts == 0 && !uri.poison {
                        // The new one was never told of to anybody.
                        queued = Queued {
                            group: uri.group as usize,
                            execution: uri.execution.into(),
                            uri: Some(known),
                            ..queued
                        };
                    }
                }
                vec![queued]
            })
            .collect()
    }

    /// True for groups on which shares are measured.
    pub fn is_large(&self, group: usize) -> bool {
        self.groups[group].shares.is_some()
    }

    /// True for groups that allow several fetches at a time.
    pub fn is_parallel(&self, group: usize) -> bool {
        self.groups[group].parallel > 1
    }

    fn large(&self) -> usize {
        self.groups
            .iter()
            .take_while(|g| g.shares.is_some())
            .count()
    }

    /// True for a URI whose fetcher dies.
    pub fn is_poison(&self, uri: usize) -> bool {
        self.uris[uri].poison
    }

    /// What is known of a group, for a fault.
    pub fn describe(&self, id: &str) -> String {
        let group = number_of(id).and_then(|g| self.groups.get(g));
        group.map_or_else(String::new, |group| format!("{group:?}"))
    }

    /// Notes something that does not hold.
    #[track_caller]
    pub fn fault(&mut self, what: String) {
        self.wrong.push(what);
    }

    /// The reply to an addition: the count of each group.
    pub fn added(&mut self, now: i64, what: &[Queued], reply: &Reply) {
        let Reply::Array(counts) = reply else {
            return self.fault(format!("no counts: {what:?}"));
        };
        for (queued, count) in what.iter().zip(counts) {
            let new = match queued.uri {
                Some(number) => self.queue(now, number, queued.at),
                None => {
                    self.groups[queued.group].counts[queued.execution] += 1;
                    true
                }
            };
            if new {
                self.queued += 1;
                self.groups[queued.group].c += 1;
            } else {
                self.report.known += 1;
            }
            self.expect_count(now, queued.group, count.int());
        }
    }

    /// A kept URI is queued, unless it is there already.
    fn queue(&mut self, now: i64, number: usize, at: i64) -> bool {
        let uri = &mut self.uris[number];
        if matches!(uri.state, State::Queued | State::Leased) {
            return false;
        }
        uri.state = State::Queued;
        uri.attempts = 0;
        uri.due = at.max(now);
        let (group, execution) = (uri.group as usize, usize::from(uri.execution));
        if let Some(shares) = &mut self.groups[group].shares {
            shares.queued[execution] += 1;
        }
        true
    }

    /// A repeated addition. An equal number of one writer has an equal reply; a kept URI needs
    /// no number to be known.
    pub fn added_again(&mut self, now: i64, what: &[Queued], first: &Reply, reply: &Reply) {
        if what[0].uri.is_some() {
            return self.added(now, what, reply);
        }
        self.report.known += 1;
        if first != reply {
            self.fault(format!("the first time it was {first:?}"));
        }
    }

    /// `c` as the server tells it.
    fn expect_count(&mut self, now: i64, group: usize, c: i64) {
        let most = self.groups[group].c;
        if !(self.certain_count(now, group)..=most).contains(&c) {
            self.fault(format!("c of {} is {c}, not {most}", id(group)));
        }
    }

    /// What a group counts at least: leases may have run out that the server has not looked at, and
    /// their URIs have to be given up.
    fn certain_count(&self, now: i64, group: usize) -> i64 {
        let g = &self.groups[group];
        let ends = g.held.iter().filter(|held| {
            let last = |uri: usize| self.uris[uri].attempts + 1 >= ATTEMPTS;
            held.deadline <= now && held.uri.is_some_and(last)
        });
        g.c - ends.count() as i64
    }

    /// Nothing is queued and nothing more will be found.
    pub fn is_over(&self) -> bool {
        self.queued == 0
    }

    /// What is not done yet.
    pub fn left(&self) -> String {
        let groups = self.groups.iter().enumerate().filter(|(_, g)| g.c > 0);
        let some: Vec<String> = groups
            .take(5)
            .map(|(n, g)| format!("{} {}", id(n), g.c))
            .collect();
        format!("{} URIs queued: {}", self.queued, some.join(", "))
    }
}
