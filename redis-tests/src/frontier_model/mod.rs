//! A model of the politeness frontier, made of maps, according to `docs/commands/chg.*.md`. The
//! model computes the reply of each command and the contents of the plain keys, and shares no code
//! with the module.
//!
//! Where the documentation allows several results, the model accepts the result in the reply:
//! `FrontierModel::mint` for the token after a restart, and `pick` in `uris` for executions with
//! the same next turn.
//!
//! * `group` is one group: its counts, its leases, and the time of its next fetch.
//! * `uris` contains the stored URIs of a group and the turns of executions.
//! * `queues` orders the groups; `next` grants leases, `leases` ends them, and `gates` contains the
//!   shared gates.
//! * `known` contains the executions that remember their URLs.
//! * `add`, `holds` and `jobs` contain the other commands; `shown` compares the plain keys.

mod add;
mod gates;
mod group;
mod holds;
mod jobs;
mod known;
mod leases;
mod next;
mod queues;
mod reports;
#[cfg(test)]
mod self_test;
mod shown;
mod uris;
mod words;

use crawlspace_compact::limits::chg as limits;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::history::Verdict;
use crate::wire::{Reply, simple};
use crate::{Lease, must};

use gates::Gate;
use group::{Group, Released};
use known::Memory;
use queues::{Queue, Score};
pub use shown::Shown;
use words::Args;

/// Maximum number of idle groups that one command deletes.
const TIDIED: usize = 4;

/// The reply of a command, or the first word of its error. For a map, only the fields in the
/// expected reply are compared.
type Outcome = Result<Reply, &'static str>;

/// A frontier, its leases and its queues.
#[derive(Clone, Debug, Default)]
pub struct FrontierModel {
    prefix: String,
    /// Default duration of a lease, in milliseconds.
    lease: i64,
    /// Number of leases of a URI that may expire before the URI is given up.
    attempts: i64,
    now: i64,
    groups: BTreeMap<String, Group>,
    ready: VecDeque<String>,
    wait: Queue<Score>,
    busy: Queue<i64>,
    /// Groups without queued URIs, by the end of their pause.
    idle: Queue<i64>,
    gates: BTreeMap<String, Gate>,
    paused: BTreeSet<String>,
    all_paused: bool,
    /// The URLs that each execution knows, if it remembers them.
    memories: BTreeMap<String, Memory>,
    /// Dropped executions, with the end of their last lease.
    dropped: BTreeMap<String, i64>,
    /// Limits of done URLs, by group and execution. No URL is ever done: no execution of the model remembers its URLs.
    done_limits: BTreeMap<(String, String), i64>,
    /// Groups with URIs of each execution, in the order in which they got their first URI.
    enlisted: BTreeMap<String, Queue<u64>>,
    enlistings: u64,
    /// The last number of each writer of an execution, and the reply to this number.
    numbered: BTreeMap<(String, String), (i64, Reply)>,
    /// The last release of each deleted group.
    past: BTreeMap<String, Released>,
    reports: VecDeque<Reply>,
    token: i64,
    /// The token in the reply, for cases in which the documentation does not determine it.
    told: Option<i64>,
    reloaded: bool,
    /// The last millisecond in which groups became due immediately, and the number of these groups.
    arrivals: (i64, u32),
    figures: Figures,
}

/// Counts of events so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Number of leases granted.
    pub leases: u64,
    /// Number of releases that were applied.
    pub releases: u64,
    /// Number of leases that expired.
    pub expired: u64,
    /// Number of repeated releases that got the first reply.
    pub repeated: u64,
    /// Number of releases and extensions with an outdated token.
    pub stale: u64,
    /// Number of extended deadlines.
    pub extended: u64,
    /// Number of blocked groups.
    pub blocked: u64,
    /// Number of URIs that were given up.
    pub given_up: u64,
    /// Number of known URIs that were added again, and of repeated sequence numbers.
    pub known: u64,
    /// Number of URLs that were fetched or given up, and discovered again.
    pub again: u64,
    /// Number of leases of groups behind a shared gate.
    pub gated: u64,
    /// The shortest time from the end of a pause to the next lease of the group.
    pub smallest_margin: Option<i64>,
    /// Number of leases of groups that already had another lease.
    pub parallel: u64,
}

impl FrontierModel {
    /// Creates an empty frontier. `attempts` is the number of leases of a URI that may expire.
    pub fn new(prefix: &str, attempts: i64) -> FrontierModel {
        FrontierModel {
            prefix: prefix.to_owned(),
            lease: limits::LEASE_MS as i64,
            attempts,
            ..FrontierModel::default()
        }
    }

    /// Applies a command, plain or of the module, and checks its reply.
    ///
    /// # Errors
    /// If the reply is wrong, a description of the problem.
    pub fn follow(&mut self, words: &[Vec<u8>], reply: &Reply) -> Verdict {
        let text = |word: &Vec<u8>| String::from_utf8(word.clone()).expect("text");
        let words: Vec<String> = words.iter().map(text).collect();
        let told = if self.reloaded { tokens(reply) } else { None };
        self.told = told;
        let outcome = match words[0].strip_prefix("CHG.") {
            Some(name) => self.command(name, &words[2..], reply),
            None => return self.plain_command(&words, reply),
        };
        match (outcome, reply) {
            (Ok(Reply::Map(fields)), reply) => {
                must!(!reply.is_error(), "expected a map, got {reply:?}");
                for (name, value) in fields {
                    let found = reply.find(name.bytes());
                    let name = name.text();
                    must!(
                        found.as_ref() == Some(&value),
                        "{name}: expected {value:?}, got {found:?}"
                    );
                }
            }
            (Ok(expected), _) => {
                must!(*reply == expected, "expected {expected:?}, got {reply:?}");
            }
            (Err(word), Reply::Error(line)) => {
                let line = String::from_utf8_lossy(line);
                must!(
                    line.split(' ').next() == Some(word),
                    "expected {word}, got {line:?}"
                );
            }
            (Err(word), _) => return Err(format!("expected {word}, got {reply:?}")),
        }
        Ok(())
    }

    fn command(&mut self, name: &str, rest: &[String], reply: &Reply) -> Outcome {
        let mut args = Args::new(rest);
        if args.keyword("NOW") {
            self.now = args.number(0, i64::MAX)?;
        }
        args.now = self.now;
        let told = granted(reply);
        match name {
            "ADD" => self.add(&mut args),
            "ADDURI" => self.add_uris(&mut args),
            "DISCOVER" => self.discover(&mut args),
            "COUNT" => self.count(&mut args),
            "NEXT" => self.next_command(&mut args, &told),
            "RELEASE" => self.release_command(&mut args, &told),
            "EXTEND" => self.extend(&mut args),
            "SWEEP" => self.sweep(&mut args),
            "EXPIRED" => self.expired(&mut args),
            "BLOCK" => self.block(&mut args),
            "PAUSE" => self.pause(&mut args, true),
            "RESUME" => self.pause(&mut args, false),
            "LIMIT" => self.limit(&mut args),
            "GROUP" => self.group_command(&mut args),
            "MOVE" => self.shift(&mut args),
            "DROP" => self.drop_command(&mut args),
            "WHY" => self.why(&mut args),
            "INFO" => Ok(self.info()),
            "CHECK" => Ok(self.check()),
            "REPAIR" => {
                // No data are damaged, so a repair only deletes idle groups.
                self.tidy();
                Ok(Reply::Map(Vec::new()))
            }
            name => panic!("CHG.{name} is not modeled"),
        }
    }

    /// Applies a command of a plain client or of the server itself.
    fn plain_command(&mut self, words: &[String], reply: &Reply) -> Verdict {
        must!(!reply.is_error(), "unexpected error: {reply:?}");
        if ["LRANGE", "HGET", "EXISTS"].contains(&words[0].as_str()) {
            return Ok(());
        }
        match words[0].as_str() {
            "RPUSH" => self.ready.push_back(words[2].clone()),
            "ZADD" => self
                .wait
                .set(&words[3], Score::at(words[2].parse().expect("a time"))),
            "DEBUG" => {
                self.reloaded = true;
                // Scores contain the order in which groups became due. If a simulated millisecond
                // continues, a new order starts.
                self.arrivals = (0, 0);
                must!(*reply == simple("OK"), "expected OK, got {reply:?}");
            }
            name => panic!("{name} is not modeled"),
        }
        Ok(())
    }

    /// Returns the time of the last command.
    pub fn now(&self) -> i64 {
        self.now
    }

    /// Returns the counts of events so far.
    pub fn figures(&self) -> Figures {
        self.figures
    }

    /// Returns the total number of queued URIs.
    pub fn total(&self) -> i64 {
        self.groups.values().map(|group| group.uris).sum()
    }

    /// Returns the execution with the most counted URIs in a group.
    pub fn most_counted(&self, chg: &str) -> Option<String> {
        let counts = &self.groups.get(chg)?.counts;
        let most = counts.iter().max_by_key(|(_, n)| **n)?;
        Some(most.0.clone())
    }

    /// Returns the executions with stored URIs in a group that are not leased.
    pub fn offering(&self, chg: &str) -> BTreeSet<String> {
        let executions = self.groups.get(chg).map(|group| group.kept.executions());
        let offering = executions.into_iter().flatten().filter(|e| e.2 > 0);
        offering.map(|e| e.0).collect()
    }

    /// Returns true if a lease of this group is held, regardless of its deadline.
    pub fn is_held(&self, chg: &str, token: i64) -> bool {
        let group = self.groups.get(chg);
        group.is_some_and(|group| group.holds.iter().any(|hold| hold.token == token))
    }

    /// Returns the group and token of one of the held leases.
    pub fn some_lease(&self) -> Option<(String, i64)> {
        let (_, chg) = self.busy.first()?;
        Some((chg.clone(), self.groups[&chg].holds[0].token))
    }

    /// Returns the future times at which something becomes due.
    pub fn moments(&self) -> Vec<i64> {
        let groups = self.groups.values();
        let times = groups.flat_map(|g| {
            [
                g.due,
                g.gate,
                g.options.blocked,
                g.first_deadline().unwrap_or(0),
            ]
        });
        times.filter(|time| *time > self.now).collect()
    }

    /// Returns true if a group is queued without a hash, because a plain client has made only some
    /// of its writes.
    pub fn is_in_the_middle(&self) -> bool {
        let queued = self.ready.iter().chain(self.wait.names());
        queued.into_iter().any(|chg| !self.knows(chg))
    }

    /// Returns true if the group is known, or a plain client queued it.
    pub fn has(&self, chg: &str) -> bool {
        let queued = self.ready.iter().any(|other| other == chg) || self.wait.get(chg).is_some();
        queued || self.knows(chg)
    }

    fn knows(&self, chg: &str) -> bool {
        self.groups.get(chg).is_some_and(Group::is_known)
    }

    /// Returns the limits of done URLs of a group, by execution.
    fn done_limits_of(&self, chg: &str) -> Vec<(String, i64)> {
        let limits = self.done_limits.iter();
        let own = limits.filter(|((of, _), _)| of == chg);
        own.map(|((_, execution), n)| (execution.clone(), *n))
            .collect()
    }

    fn group(&mut self, chg: &str) -> &mut Group {
        self.groups.entry(chg.to_owned()).or_default()
    }

    /// Returns a group, or an error if it is unknown.
    fn known(&mut self, chg: &str) -> Result<&mut Group, &'static str> {
        match self.groups.get_mut(chg) {
            Some(group) if group.is_known() => Ok(group),
            _ => Err("NOCHG"),
        }
    }

    /// Creates a token that is larger than the last token and than the time in microseconds. After
    /// a restart, the last tokens may not have reached the disk. In this case, the documentation
    /// only guarantees that the token is new.
    fn mint(&mut self) -> i64 {
        let least = (self.token + 1).max(self.now * 1000);
        self.reloaded = false;
        self.token = self.told.take().unwrap_or(least).max(least);
        self.token
    }

    /// Deletes idle groups whose pause has ended.
    fn tidy(&mut self) {
        let now = self.now;
        let marks = self
            .dropped
            .iter()
            .map(|(execution, until)| (*until, execution));
        if let Some((until, execution)) = marks.min()
            && until <= now
        {
            let execution = execution.clone();
            self.dropped.remove(&execution);
        }
        for _ in 0..TIDIED {
            let Some((_, chg)) = self.idle.first().filter(|(until, _)| *until <= now) else {
                return;
            };
            self.idle.remove(&chg);
            if self.group(&chg).is_idle() {
                self.end(&chg);
            }
        }
    }

    /// Marks a group without queued URIs and leases as idle. The group exists until its pause has
    /// ended.
    fn rest(&mut self, chg: &str) {
        if !self.group(chg).is_idle() {
            return;
        }
        self.hand_over(chg);
        let now = self.now;
        let group = self.group(chg);
        group.ours = true;
        group.due = group.gate;
        if group.gate <= now {
            self.end(chg);
            self.idle.remove(chg);
        } else {
            let gate = group.gate;
            self.idle.set(chg, gate);
        }
    }

    /// Deletes a group except for its options. Stores the last release of the group.
    fn end(&mut self, chg: &str) {
        let group = std::mem::take(self.group(chg));
        self.group(chg).options = group.options;
        if let Some(last) = group.last {
            self.past.insert(chg.to_owned(), last);
        }
    }

    /// Updates the list of groups that have URIs of an execution.
    fn enlist(&mut self, execution: &str, chg: &str) {
        let has = self.group(chg).has_of(execution);
        let groups = self.enlisted.entry(execution.to_owned()).or_default();
        if !has {
            groups.remove(chg);
        } else if groups.get(chg).is_none() {
            self.enlistings += 1;
            groups.set(chg, self.enlistings);
        }
    }
}

/// Parses the leases in a reply of `NEXT` or `RELEASE … NEXT`.
fn granted(reply: &Reply) -> Vec<Lease> {
    let Reply::Array(items) = reply else {
        return Vec::new();
    };
    let leases = items
        .iter()
        .filter(|item| matches!(item, Reply::Array(parts) if parts.len() == 7));
    let right = |item: &&Reply| {
        use Reply::{Bulk, Int, Nil};
        let Reply::Array(parts) = item else {
            return false;
        };
        matches!(
            parts.as_slice(),
            [
                Bulk(_),
                Int(_),
                Int(_),
                Int(_),
                Int(_),
                Bulk(_) | Nil,
                Bulk(_) | Nil
            ]
        )
    };
    leases.filter(right).map(Lease::of).collect()
}

fn tokens(reply: &Reply) -> Option<i64> {
    granted(reply).first().map(|lease| lease.token)
}
