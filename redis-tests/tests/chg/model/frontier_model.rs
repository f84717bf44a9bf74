//! The politeness frontier as the specification has it, in maps: what each command must reply.
//!
//! Where the specification leaves open which of several things a server does, its choice is
//! checked against what is allowed, and adopted.

use std::collections::{BTreeMap, BTreeSet};

use redis_tests::Reply;

use crate::model::command::{Command, Grant, Token};
use crate::model::expiry::Report;
use crate::model::group::Group;
use crate::model::release::Past;
use crate::model::replies::{equal, error_word, field, is_ok, leases, must_not_fail};

/// What is wrong with a reply, if anything.
pub type Verdict = Result<(), String>;

/// Fails the verdict unless the condition holds.
macro_rules! must {
    ($condition:expr, $($words:tt)+) => {
        if !$condition {
            return Err(format!($($words)+));
        }
    };
}
pub(crate) use must;

/// Length of a lease that names none.
pub const LEASE: i64 = 600_000;

/// The model.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub now: i64,
    /// The latest time so far: time may go back.
    pub latest: i64,
    pub groups: BTreeMap<String, Group>,
    /// `chg_ready`: group, the command that put it there, and its time.
    pub ready: Vec<(String, u64, i64)>,
    /// Shared gates: closed until.
    pub gates: BTreeMap<String, i64>,
    pub paused: BTreeSet<String>,
    pub all_paused: bool,
    pub grants: BTreeMap<Grant, (String, i64)>,
    /// Leases that run out with one URI before it is given up.
    pub attempts: i64,
    pub token: i64,
    /// The data were read in again since the last lease.
    pub reloaded: bool,
    /// Executions that were dropped, by the end of the last lease that was held.
    pub dropped: BTreeMap<String, i64>,
    pub numbered: BTreeMap<(String, String), (i64, Reply)>,
    pub past: BTreeMap<String, Past>,
    /// What the release of each token replied.
    pub answers: BTreeMap<i64, i64>,
    pub reports: Vec<Report>,
    pub commands: u64,
    pub turns: u64,
}

impl Model {
    /// An empty frontier that gives a URI up after so many leases.
    pub fn new(attempts: i64) -> Model {
        Model {
            attempts,
            ..Model::default()
        }
    }

    /// The number that a token stands for.
    pub fn number(&self, token: Token) -> Option<i64> {
        match token {
            Token::Of(grant) => Some(self.grants.get(&grant)?.1),
            Token::Number(n) => Some(n),
        }
    }

    /// Judges the reply to a command, and follows it.
    pub fn follow(&mut self, step: usize, now: i64, command: &Command, reply: &Reply) -> Verdict {
        self.now = now;
        self.latest = self.latest.max(now);
        self.commands += 1;
        match command {
            Command::Add {
                execution,
                seq,
                items,
            } => self.add_numbered(execution, seq.as_ref(), items, reply),
            Command::AddUri {
                execution,
                weight,
                items,
            } => self.add(execution, *weight, items, reply),
            Command::Next { lease, count } => {
                let told = leases(reply)?;
                let lease = lease.unwrap_or(LEASE);
                self.next(step, lease, count.unwrap_or(1) as usize, &told)
            }
            Command::Release(release) => self.release(step, release, reply),
            Command::Extend { chg, token, ms } => self.extend(chg, *token, *ms, reply),
            Command::Sweep { limit } => self.sweep(*limit, reply),
            Command::Expired { count } => self.expired(count.unwrap_or(100) as usize, reply),
            Command::Block { chg, until } => {
                if !self.knows(chg, reply)? {
                    return Ok(());
                }
                let group = self.group(chg);
                group.blocked = if *until > now { *until } else { 0 };
                group.open = true;
                if group.blocked > 0 {
                    group.turn = None;
                }
                is_ok(reply)
            }
            Command::Pause { whom, on } => self.pause(whom, *on, reply),
            Command::Limit {
                chg,
                parallel,
                gap,
                budget,
            } => {
                let group = self.group(chg);
                group.open = true;
                if let Some(parallel) = parallel {
                    group.lowered |= (*parallel as usize) < group.parallel;
                    group.parallel = *parallel as usize;
                }
                if let Some(gap) = gap {
                    group.gap = *gap;
                    let started = group.leases.iter().map(|lease| lease.granted).max();
                    let started = started.filter(|_| *gap > 0);
                    // What was promised at the start of a fetch stays.
                    let until = started.map_or(0, |at| at + gap);
                    group.gap_until = group.gap_until.max(until);
                }
                if let Some(budget) = budget {
                    group.budget = (*budget >= 0).then_some(*budget);
                }
                is_ok(reply)
            }
            Command::Group { group, members } => {
                for chg in members {
                    let member = self.group(chg);
                    member.shared = (!group.is_empty()).then(|| group.clone());
                    member.open = true;
                    // The pause of whoever joins runs on for all of them.
                    let until = member.gate;
                    let gate = self.gates.entry(group.clone()).or_insert(0);
                    *gate = (*gate).max(until);
                }
                is_ok(reply)
            }
            Command::Move { from, to } => self.shift(from, to, reply),
            Command::Drop { execution } => self.drop_execution(execution, reply),
            Command::Why { chg } => self.why(chg, reply),
            Command::Info => equal(&field(reply, "uris")?, &Reply::Int(self.total())),
            Command::Check => {
                let consistent = field(reply, "consistent")? == Reply::Int(1);
                must!(consistent, "not consistent");
                equal(&field(reply, "total")?, &Reply::Int(self.total()))
            }
            Command::Repair => must_not_fail(reply),
            Command::Reload => {
                self.reloaded = true;
                // A millisecond that goes on after it, as only a simulated one can, has a new order.
                let latest = self.latest;
                for group in self.groups.values_mut().filter(|g| g.n == latest) {
                    group.turn = None;
                }
                is_ok(reply)
            }
            Command::PushReady { chg } | Command::PutWait { chg, .. } => {
                self.queue_plainly(chg, command);
                must_not_fail(reply)
            }
            Command::Bad(..) => {
                must!(reply.is_error(), "an error was to come");
                Ok(())
            }
        }
    }

    /// URIs queued in all.
    pub fn total(&self) -> i64 {
        self.groups.values().map(Group::c).sum()
    }

    /// True while no pause holds this execution.
    pub fn allows(&self, execution: &str) -> bool {
        !self.paused.contains(execution)
    }

    /// True when the specification leaves open where exactly this group stands at the moment.
    pub fn is_loose(&self, group: &Group) -> bool {
        group.open
            || group.paused
            || self.all_paused
            || group.blocked > self.now
            || group.shared.is_some()
            || group.parallel > 1
            || self.has_paused(group)
    }

    /// True when a pause holds one of its executions.
    pub fn has_paused(&self, group: &Group) -> bool {
        let kept = group.kept.iter().map(|uri| &uri.execution);
        let mut executions = group.counts.keys().chain(kept);
        executions.any(|execution| !self.allows(execution))
    }

    pub fn group(&mut self, chg: &str) -> &mut Group {
        let group = self.groups.entry(chg.to_owned());
        group.or_insert_with(Group::fresh)
    }

    /// Whether the server knows this group. If not, the reply must have said so.
    pub fn knows(&self, chg: &str, reply: &Reply) -> Result<bool, String> {
        let refused = error_word(reply).as_deref() == Some("NOCHG");
        let sure = match self.groups.get(chg) {
            // Nothing of it but settings, or it may go with this very command.
            Some(g) if g.hash && g.c() == 0 && g.leases.is_empty() => {
                let passed = g.gate.max(g.gap_until) <= self.now;
                return Ok(!(refused && passed));
            }
            Some(g) => g.hash,
            None => false,
        };
        must!(refused != sure, "{chg:?} is known: {sure}, got {reply:?}");
        Ok(sure)
    }
}
