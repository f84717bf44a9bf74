//! Proof of conservation: every queued URI is counted once in its group, its execution and the total,
//! and every group that has any stands in one queue. And mending of what is not so.

mod account;
mod queues;
mod sums;

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;

use crawlspace_host::keyspace::{Batch, Keyspace};
use crawlspace_host::reply::Reply;
use crawlspace_host::text::parse_unsigned;

use super::audit::Audit;
use super::error::Result;
use super::frontier::Frontier;
use super::job::{Step, Steps, Time, Walk, WalkStep};
use super::keys::GATED;
use super::reconcile::{Shares, Table};
use super::store::Store;
use super::time::Millis;

use account::Account;

/// Maximum number of problems that are reported in words.
const MAX_PROBLEMS: usize = 100;

/// How many elements of a list are looked at together.
const PAGE: u64 = 64;

/// The list of the groups of an execution, and how far it was read.
type List<K> = (Box<[u8]>, <K as Keyspace>::Cursor);

/// Names of groups or executions.
type Ids = BTreeSet<Box<[u8]>>;

/// A look at everything, from a moment on.
pub struct Check<K: Store> {
    repairs: bool,
    now: Millis,
    owner: Rc<()>,
    phase: Phase<K>,
    hasher: RandomState,
    /// Keyed hashes of the groups that were met.
    seen: BTreeSet<u64>,
    /// Groups that should stand in `chg_ready` or behind a gate.
    elsewhere: Ids,
    gates: Ids,
    /// Executions: what `EIDC` said when this began, and what groups have of each.
    executions: Table,
    /// Executions that have a list of their groups.
    lists: Ids,
    counts: Counts,
    problems: Vec<String>,
    problems_total: u64,
    mended: u64,
    /// Groups that were changed by nobody but this.
    mended_groups: Ids,
    disturbed: bool,
}

#[derive(Debug, Default)]
struct Counts {
    groups: u64,
    executions: u64,
    total: i64,
    sum_groups: u64,
    sum_executions: u64,
    /// URIs of groups that are counted and not kept, so far as can be believed.
    counted: u64,
}

enum Phase<K: Store> {
    Start,
    Executions(K::Cursor),
    /// Executions that came to nothing since.
    ExecutionsGone(Option<Box<[u8]>>),
    Groups(Walk<K>),
    /// One group is read, in as many steps as it takes.
    Group(Walk<K>, Account<K>),
    /// Groups that went since.
    GroupsGone(Option<Box<[u8]>>),
    Lists(Option<List<K>>),
    Waiting(K::Cursor),
    Busy(K::Cursor),
    Ready(u64),
    Gates(Option<Box<[u8]>>, u64),
    Lost,
    Sums,
    Shares(Shares),
    Free(Option<Audit>, Option<Shares>),
    End,
}

impl<K: Store> Check<K> {
    /// Of a frontier; one that repairs mends what it finds.
    pub fn new(repairs: bool, now: Millis) -> Check<K> {
        Check {
            repairs,
            now,
            owner: Rc::new(()),
            phase: Phase::Start,
            hasher: RandomState::new(),
            seen: BTreeSet::new(),
            elsewhere: Ids::new(),
            gates: Ids::new(),
            executions: Table::new(),
            lists: Ids::new(),
            counts: Counts::default(),
            problems: Vec::new(),
            problems_total: 0,
            mended: 0,
            mended_groups: Ids::new(),
            disturbed: false,
        }
    }

    fn problem(&mut self, text: impl FnOnce() -> String) {
        self.problems_total += 1;
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(text());
        }
    }

    /// Whether a group is met for the first time; a walk may give one twice.
    fn is_new(&mut self, id: &[u8]) -> bool {
        self.seen.insert(self.hasher.hash_one(id))
    }

    /// What changed since the beginning; nothing when another audit took this one's place.
    fn audit<'f>(&mut self, frontier: &'f Frontier<K>) -> Option<&'f Audit> {
        let audit = frontier
            .audit
            .as_ref()
            .filter(|audit| audit.is_of(&self.owner));
        self.disturbed |= audit.is_none_or(|audit| audit.disturbed);
        audit
    }

    /// Whether others changed a group since the beginning, so that nothing can be said of where it
    /// stands.
    fn was_changed(&mut self, frontier: &Frontier<K>, id: &[u8]) -> bool {
        let audit = self.audit(frontier);
        let changed = audit.is_none_or(|audit| audit.groups.contains_key(id));
        changed && !self.mended_groups.contains(id)
    }

    /// Reads some of `EIDC`; false at the end.
    fn read_executions(
        &mut self,
        frontier: &Frontier<K>,
        ks: &mut K,
        cursor: &mut K::Cursor,
    ) -> Result<bool> {
        let mut batch = Batch::default();
        let more = ks.hash_scan(&frontier.names.executions, cursor, &mut batch)?;
        for (execution, count) in batch.iter() {
            let now = parse_unsigned(count).unwrap_or(0);
            let audit = self.audit(frontier);
            let then = audit.and_then(|audit| audit.executions.get(execution));
            let count = then.copied().unwrap_or(now);
            self.found(execution, count);
        }
        Ok(more)
    }

    /// Takes in what `EIDC` said of an execution when this began, once.
    fn found(&mut self, execution: &[u8], count: u64) {
        if self.executions.contains_key(execution) {
            return;
        }
        self.counts.executions += u64::from(count > 0);
        self.counts.sum_executions = self.counts.sum_executions.saturating_add(count);
        let has = self.executions.entry(execution.into()).or_default();
        has.found = count;
    }

    fn report(&self) -> Reply {
        let count = Reply::count;
        let counts = &self.counts;
        let problems = self.problems.iter().map(Reply::bulk).collect();
        let mut report = vec![
            ("groups", count(counts.groups)),
            ("executions", count(counts.executions)),
            ("total", Reply::Int(counts.total.max(0))),
            ("sum-groups", count(counts.sum_groups)),
            ("sum-executions", count(counts.sum_executions)),
            (
                "consistent",
                Reply::Int(i64::from(self.problems_total == 0)),
            ),
            ("problems", Reply::Array(problems)),
            ("problems-total", count(self.problems_total)),
            ("disturbed", Reply::Int(i64::from(self.disturbed))),
        ];
        if self.repairs {
            report.push(("mended", count(self.mended)));
        }
        Reply::named(report)
    }

    /// One turn of the phase.
    fn turn(&mut self, frontier: &mut Frontier<K>, ks: &mut K, time: Time<'_>) -> Result<()> {
        let phase = std::mem::replace(&mut self.phase, Phase::Start);
        self.phase = match phase {
            Phase::Start => {
                frontier.audit = Some(Audit::new(&self.owner));
                self.counts.total = ks.number(&frontier.names.total)?;
                Phase::Executions(ks.cursor())
            }
            Phase::Executions(mut cursor) => {
                if self.read_executions(frontier, ks, &mut cursor)? {
                    Phase::Executions(cursor)
                } else {
                    Phase::ExecutionsGone(None)
                }
            }
            Phase::ExecutionsGone(after) => match self.executions_gone(frontier, after) {
                Some(last) => Phase::ExecutionsGone(Some(last)),
                None => Phase::Groups(Walk::new(frontier, ks)),
            },
            Phase::Groups(mut walk) => match walk.next(ks, time) {
                WalkStep::Group(id) => {
                    if self.is_new(&id) {
                        Phase::Group(walk, Account::new(&id))
                    } else {
                        Phase::Groups(walk)
                    }
                }
                WalkStep::List(execution) => {
                    if self.repairs {
                        self.lists.insert(execution.into());
                    }
                    Phase::Groups(walk)
                }
                WalkStep::Later => Phase::Groups(walk),
                WalkStep::End => Phase::GroupsGone(None),
            },
            Phase::Group(walk, mut account) => {
                if self.read_group(frontier, ks, &mut account)? {
                    Phase::Group(walk, account)
                } else {
                    Phase::Groups(walk)
                }
            }
            Phase::GroupsGone(after) => match self.groups_gone(frontier, after) {
                Some(last) => Phase::GroupsGone(Some(last)),
                None => Phase::Lists(None),
            },
            Phase::Lists(list) => match self.mend_lists(frontier, ks, list)? {
                Some(list) => Phase::Lists(Some(list)),
                None => Phase::Waiting(ks.cursor()),
            },
            Phase::Waiting(mut cursor) => {
                if self.members(frontier, ks, &mut cursor, false)? {
                    Phase::Waiting(cursor)
                } else {
                    Phase::Busy(ks.cursor())
                }
            }
            Phase::Busy(mut cursor) => {
                if self.members(frontier, ks, &mut cursor, true)? {
                    Phase::Busy(cursor)
                } else {
                    Phase::Ready(self.audit(frontier).map_or(0, |audit| audit.taken))
                }
            }
            Phase::Ready(at) => {
                // Those at the head are taken while this goes on.
                let taken = self.audit(frontier).map_or(0, |audit| audit.taken);
                let from = at.saturating_sub(taken);
                match self.look_at_ready(frontier, ks, from)? {
                    0 => Phase::Gates(self.gates.pop_first(), 0),
                    n => Phase::Ready(taken + from + n),
                }
            }
            Phase::Gates(None, _) => Phase::Lost,
            Phase::Gates(Some(gate), at) => {
                let gated = frontier.key(ks, GATED, &gate);
                match self.cross_off(ks, &gated, at)? {
                    0 => Phase::Gates(self.gates.pop_first(), 0),
                    n => Phase::Gates(Some(gate), at + n),
                }
            }
            Phase::Lost => {
                if self.lost(frontier, ks)? {
                    Phase::Lost
                } else {
                    Phase::Sums
                }
            }
            Phase::Sums => match self.sums(frontier, ks)? {
                Some(shares) => Phase::Shares(shares),
                None => self.end(frontier, None),
            },
            Phase::Shares(mut shares) => {
                if self.mend_shares(frontier, ks, &mut shares)? {
                    Phase::Shares(shares)
                } else {
                    self.end(frontier, Some(shares))
                }
            }
            Phase::Free(mut audit, mut shares) => {
                if self.free_some(&mut audit, &mut shares) {
                    Phase::Free(audit, shares)
                } else {
                    Phase::End
                }
            }
            Phase::End => Phase::End,
        };
        Ok(())
    }

    /// What is left to do when all is known.
    fn end(&mut self, frontier: &mut Frontier<K>, shares: Option<Shares>) -> Phase<K> {
        let is_mine = self.audit(frontier).is_some();
        Phase::Free(frontier.audit.take_if(|_| is_mine), shares)
    }

    /// Frees some of the memory, a little at a time; false when none is left that would take long.
    fn free_some(&mut self, audit: &mut Option<Audit>, shares: &mut Option<Shares>) -> bool {
        for _ in 0..PAGE {
            let mut some = self.seen.pop_first().is_some();
            for ids in [&mut self.elsewhere, &mut self.mended_groups] {
                some |= ids.pop_first().is_some();
            }
            some |= self.executions.pop_first().is_some();
            if let Some(audit) = audit {
                some |= audit.groups.pop_first().is_some();
                some |= audit.executions.pop_first().is_some();
            }
            some |= shares.as_mut().is_some_and(Shares::free);
            if !some {
                return false;
            }
        }
        true
    }
}

impl<K: Store> Steps<K> for Check<K> {
    fn step(&mut self, frontier: &mut Frontier<K>, ks: &mut K, time: Time<'_>) -> Result<Step> {
        if self.repairs {
            frontier.tidy(ks, self.now)?;
        }
        loop {
            self.turn(frontier, ks, time)?;
            if let Phase::End = self.phase {
                return Ok(Step::Done(self.report()));
            }
            if !time() {
                return Ok(Step::More);
            }
        }
    }
}
