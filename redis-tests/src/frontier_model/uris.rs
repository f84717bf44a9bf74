//! The stored URIs of a group, and the turns of executions.
//!
//! Executions take turns in proportion to their weights. The next turn of an execution is a point
//! on a clock, and each fetch moves this point forward by one turn divided by the weight. The clock
//! is at the last turn taken. The next turn of an execution without URIs is never behind the clock,
//! and the first turn of a new execution is one turn ahead of it.

use std::collections::BTreeMap;

/// Length of one turn of an execution with weight 1. Two turns closer than [`ALIKE`] are treated as
/// equal.
const TURN: i128 = 1 << 80;
const ALIKE: i128 = 1 << 40;

/// A URI.
#[derive(Clone, Debug, PartialEq)]
pub struct Uri {
    pub uri: String,
    pub depth: i64,
    pub due: i64,
    /// Sequence number of the addition.
    seq: u64,
    pub attempts: i64,
}

/// A leased URI.
#[derive(Clone, Debug, PartialEq)]
pub struct Leased {
    pub token: i64,
    pub execution: String,
    pub uri: Uri,
    /// True if the URI was dropped during the lease. It is then no longer counted.
    pub dropped: bool,
}

/// An execution that has URIs, or whose next turn is ahead of the clock.
#[derive(Clone, Debug, PartialEq)]
struct Execution {
    id: String,
    weight: i64,
    turn: i128,
    /// Queued URIs by depth, due time and sequence number.
    queued: BTreeMap<(i64, i64, u64), Uri>,
}

impl Execution {
    fn earliest(&self) -> Option<i64> {
        self.queued.keys().map(|key| key.1).min()
    }
}

/// The stored URIs of a group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Uris {
    /// Executions, in order of appearance.
    executions: Vec<Execution>,
    pub leases: Vec<Leased>,
    clock: i128,
    seq: u64,
}

impl Uris {
    /// Returns the number of counted URIs.
    pub fn len(&self) -> i64 {
        let queued: usize = self.executions.iter().map(|e| e.queued.len()).sum();
        (queued + self.leases.iter().filter(|l| !l.dropped).count()) as i64
    }

    /// Returns the number of counted URIs of an execution.
    pub fn count_of(&self, execution: &str) -> i64 {
        let queued = self.find(execution).map_or(0, |e| e.queued.len());
        let leased = self
            .leases
            .iter()
            .filter(|l| !l.dropped && l.execution == execution);
        (queued + leased.count()) as i64
    }

    /// Returns the executions with counted URIs: id, weight, number of queued URIs, number of all
    /// URIs.
    pub fn executions(&self) -> Vec<(String, i64, i64, i64)> {
        let all = self.executions.iter();
        let all = all.map(|e| {
            (
                e.id.clone(),
                e.weight,
                e.queued.len() as i64,
                self.count_of(&e.id),
            )
        });
        all.filter(|e| e.3 > 0).collect()
    }

    fn find(&self, execution: &str) -> Option<&Execution> {
        self.executions.iter().find(|e| e.id == execution)
    }

    /// Returns true if the execution has this URI, queued or leased.
    pub fn has(&self, execution: &str, uri: &str) -> bool {
        let queued = self.find(execution);
        let queued = queued.is_some_and(|e| e.queued.values().any(|known| known.uri == uri));
        let mut leases = self
            .leases
            .iter()
            .filter(|l| !l.dropped && l.execution == execution);
        queued || leases.any(|leased| leased.uri.uri == uri)
    }

    /// Returns the earliest due time among allowed executions.
    pub fn earliest(&self, allowed: impl Fn(&str) -> bool) -> Option<i64> {
        let allowed = self.executions.iter().filter(|e| allowed(&e.id));
        allowed.filter_map(Execution::earliest).min()
    }

    /// Queues a URI and sets the weight of its execution. Returns false if the URI is known.
    pub fn add(
        &mut self,
        execution: &str,
        weight: Option<i64>,
        (uri, depth, due, attempts): (&str, i64, i64, i64),
    ) -> bool {
        if self.find(execution).is_none() {
            let weight = weight.unwrap_or(1);
            self.executions.push(Execution {
                id: execution.to_owned(),
                weight,
                turn: self.clock + TURN / i128::from(weight),
                queued: BTreeMap::new(),
            });
        }
        let (clock, known) = (self.clock, self.has(execution, uri));
        let mut executions = self.executions.iter_mut();
        let entry = executions.find(|e| e.id == execution).expect("just there");
        if let Some(weight) = weight.filter(|weight| *weight != entry.weight) {
            // Scale the remaining time to the next turn by the ratio of the weights.
            let ahead = (entry.turn - clock).max(0);
            if ahead > 0 {
                entry.turn = clock + ahead * i128::from(entry.weight) / i128::from(weight);
            }
            entry.weight = weight;
        }
        if known {
            return false;
        }
        let seq = self.seq;
        self.seq += 1;
        let uri = uri.to_owned();
        let uri = Uri {
            uri,
            depth,
            due,
            seq,
            attempts,
        };
        entry.queued.insert((depth, due, seq), uri);
        true
    }

    /// Selects the next of the allowed executions that has a due URI. If several have the same
    /// turn, takes the execution in the reply: the documentation only guarantees shares in
    /// proportion to the weights.
    pub fn pick(
        &self,
        now: i64,
        allowed: impl Fn(&str) -> bool,
        told: Option<&str>,
    ) -> Option<String> {
        let turn = |e: &Execution| e.turn.max(self.clock);
        let is_due = |e: &&Execution| e.queued.keys().any(|key| key.1 <= now) && allowed(&e.id);
        let due: Vec<_> = self.executions.iter().filter(is_due).collect();
        let first = due.iter().map(|e| turn(e)).min()?;
        let mut alike = due.into_iter().filter(|e| turn(e) - first < ALIKE);
        let first = alike.next()?;
        let is_told = |e: &&Execution| Some(&e.id[..]) == told;
        let chosen = if is_told(&first) {
            None
        } else {
            alike.find(is_told)
        };
        Some(chosen.unwrap_or(first).id.clone())
    }

    /// Leases the next URI of an execution: of the due URIs, those with the lowest depth, and of
    /// these the earliest one.
    pub fn take(&mut self, token: i64, execution: &str, now: i64) -> Uri {
        let clock = self.clock;
        let mut executions = self.executions.iter_mut();
        let entry = executions
            .find(|e| e.id == execution)
            .expect("it was picked");
        let mut due = entry.queued.keys().filter(|key| key.1 <= now);
        let key = *due.next().expect("it has a due URI");
        let uri = entry.queued.remove(&key).expect("just seen");
        let turn = entry.turn.max(clock);
        entry.turn = turn + TURN / i128::from(entry.weight);
        self.clock = turn;
        let execution = execution.to_owned();
        self.leases.push(Leased {
            token,
            execution,
            uri: uri.clone(),
            dropped: false,
        });
        self.forget();
        uri
    }

    pub fn leased(&self, token: i64) -> Option<&Leased> {
        self.leases.iter().find(|leased| leased.token == token)
    }

    /// Removes a lease and returns its URI.
    pub fn end(&mut self, token: i64) -> Option<Leased> {
        let at = self
            .leases
            .iter()
            .position(|leased| leased.token == token)?;
        let leased = self.leases.remove(at);
        self.forget();
        Some(leased)
    }

    /// Queues the URI of a lease again.
    pub fn give_back(&mut self, token: i64, due: Option<i64>, failed: bool) {
        let Some(at) = self.leases.iter().position(|leased| leased.token == token) else {
            return;
        };
        let mut leased = self.leases.remove(at);
        if !leased.dropped {
            leased.uri.due = due.unwrap_or(leased.uri.due);
            leased.uri.attempts += i64::from(failed);
            let mut executions = self.executions.iter_mut();
            let entry = executions
                .find(|e| e.id == leased.execution)
                .expect("the lease is held");
            let uri = leased.uri;
            entry.queued.insert((uri.depth, uri.due, uri.seq), uri);
        } else {
            self.forget();
        }
    }

    /// Returns the counted URIs of an execution.
    pub fn names_of(&self, execution: &str) -> Vec<String> {
        let queued = self
            .find(execution)
            .into_iter()
            .flat_map(|e| e.queued.values());
        let leased = self
            .leases
            .iter()
            .filter(|l| !l.dropped && l.execution == execution);
        let all = queued.chain(leased.map(|leased| &leased.uri));
        all.map(|uri| uri.uri.clone()).collect()
    }

    /// Drops all URIs of an execution. Returns the number of dropped URIs.
    pub fn drop_all(&mut self, execution: &str) -> i64 {
        let gone = self.count_of(execution);
        for leased in self.leases.iter_mut().filter(|l| l.execution == execution) {
            leased.dropped = true;
        }
        for entry in self.executions.iter_mut().filter(|e| e.id == execution) {
            entry.queued.clear();
        }
        self.forget();
        gone
    }

    /// Removes all queued URIs and returns them in order: execution, weight and URI.
    pub fn drain(&mut self) -> Vec<(String, i64, Uri)> {
        let mut all = Vec::new();
        for entry in &mut self.executions {
            let queued = std::mem::take(&mut entry.queued).into_values();
            all.extend(queued.map(|uri| (entry.id.clone(), entry.weight, uri)));
        }
        self.forget();
        all
    }

    /// Removes executions that have no URIs and are not ahead of the clock, because a new execution
    /// would have the same turn. If no URI is left, removes all executions.
    fn forget(&mut self) {
        let (clock, leases) = (self.clock, &self.leases);
        self.executions.retain(|e| {
            let held = leases.iter().any(|leased| leased.execution == e.id);
            !e.queued.is_empty() || held || e.turn > clock
        });
        if self.leases.is_empty() && self.executions.iter().all(|e| e.queued.is_empty()) {
            *self = Uris::default();
        }
    }
}
