//! One group: its queued URIs, its leases, and the time of its next fetch.

use std::collections::BTreeMap;

use crawlspace_compact::limits::chg as limits;

use super::uris::Uris;

/// A lease that has not been released. The lease may have expired without a command noticing it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hold {
    pub token: i64,
    pub granted: i64,
    pub deadline: i64,
}

/// The last release of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Released {
    pub token: i64,
    /// The due time in the reply.
    pub due: i64,
    /// Group and token of the lease that was granted with the release (`NEXT`).
    pub next: Option<(String, i64)>,
}

/// The options of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    pub parallel: i64,
    pub gap: i64,
    pub delay: Option<i64>,
    pub budget: Option<i64>,
    pub blocked: i64,
    pub paused: bool,
    /// The shared gate; empty for a group without one.
    pub gate: String,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            parallel: 1,
            gap: 0,
            delay: None,
            budget: None,
            blocked: 0,
            paused: false,
            gate: String::new(),
        }
    }
}

/// A group. The default is an unknown group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// True if the fields `n` and `c` exist.
    pub ours: bool,
    /// `n`.
    pub due: i64,
    /// `c`: number of queued URIs, including leased ones.
    pub uris: i64,
    /// The end of the pause after the last fetch.
    pub gate: i64,
    /// The end of the last fetch; 0 before the first.
    pub released: i64,
    /// Number of back-off steps, and the time of the last one.
    pub steps: u32,
    pub stepped: i64,
    /// Number of leases that have expired in a row.
    pub expired: i64,
    pub holds: Vec<Hold>,
    pub last: Option<Released>,
    pub options: Options,
    /// URIs that are counted but not stored, by execution.
    pub counts: BTreeMap<String, i64>,
    pub kept: Uris,
}

/// The options of a release that describe its fetch.
#[derive(Debug, Default)]
pub struct Facts {
    pub elapsed: i64,
    pub thousandths: i64,
    pub min: i64,
    pub max: Option<i64>,
    /// The larger of `CRAWLDELAY` and `RETRYAFTER`.
    pub asked: i64,
    pub status: Option<i64>,
}

impl Group {
    pub fn is_known(&self) -> bool {
        self.ours || self.options != Options::default()
    }

    pub fn is_idle(&self) -> bool {
        self.uris == 0 && self.holds.is_empty()
    }

    /// Returns true if the group has a URI that is not leased and may have another lease. One more
    /// fetch can then begin, now or later.
    pub fn is_runnable(&self) -> bool {
        let out = self.holds.len() as i64;
        self.uris > out && out < self.options.parallel
    }

    /// Returns true if the group is queued while it is leased.
    pub fn stands_beside_leases(&self) -> bool {
        !self.holds.is_empty() && self.is_runnable()
    }

    /// Returns the time before which no fetch may begin.
    pub fn closed_until(&self) -> i64 {
        self.gate.max(self.options.blocked)
    }

    pub fn first_deadline(&self) -> Option<i64> {
        self.holds.iter().map(|hold| hold.deadline).min()
    }

    pub fn last_deadline(&self) -> Option<i64> {
        self.holds.iter().map(|hold| hold.deadline).max()
    }

    /// Returns the lease with this token, if it has not expired.
    pub fn hold(&self, token: i64, now: i64) -> Option<Hold> {
        let held = self.holds.iter().find(|hold| hold.token == token);
        held.copied().filter(|hold| now < hold.deadline)
    }

    /// Returns the due time: the end of the group's pause and block. If all URIs of the group are
    /// stored, the due time of the group is not earlier than the due time of its first URI. URIs
    /// that are only counted have no due time.
    pub fn due_of(&self) -> i64 {
        let closed = self.closed_until();
        match self.kept.earliest(|_| true) {
            Some(earliest) if self.kept.len() >= self.uris => closed.max(earliest),
            _ => closed,
        }
    }

    /// Returns true if the group has URIs of an execution.
    pub fn has_of(&self, execution: &str) -> bool {
        self.counts.contains_key(execution) || self.kept.count_of(execution) > 0
    }

    /// Subtracts at most `most` URIs of an execution from the counts.
    pub fn uncount(&mut self, execution: &str, most: i64) -> i64 {
        let Some(there) = self.counts.get_mut(execution) else {
            return 0;
        };
        let n = most.min(*there);
        *there -= n;
        if *there == 0 {
            self.counts.remove(execution);
        }
        self.uris -= n;
        n
    }

    /// Returns the pause after a fetch that began at `begun`, and updates the back-off.
    pub fn pause(&mut self, facts: &Facts, begun: i64, now: i64) -> i64 {
        // Round up to whole milliseconds, so that the pause is never shorter than requested.
        let computed = (facts.elapsed * facts.thousandths + 999) / 1000;
        let computed = computed.max(facts.min).min(facts.max.unwrap_or(i64::MAX));
        let asked = computed
            .max(facts.asked)
            .max(self.options.delay.unwrap_or(0));
        let Some(status) = facts.status else {
            return asked;
        };
        let is_trouble = limits::TROUBLE.iter().any(|range| range.contains(&status));
        if !is_trouble && status >= 0 {
            self.steps = 0;
            self.stepped = 0;
            return asked;
        }
        if self.steps == 0 || begun >= self.stepped {
            self.steps = (self.steps + 1).min(limits::MAX_STEPS);
            self.stepped = now;
        }
        asked.max(
            (computed.max(limits::BACKOFF_BASE as i64) << self.steps)
                .min(limits::MAX_BACKOFF as i64),
        )
    }
}
