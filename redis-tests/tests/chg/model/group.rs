//! One group of the model: what is queued, who holds it, and from when on it may be fetched from.

use std::collections::BTreeMap;

use redis_tests::Lease;

/// A time that does not come.
pub const NEVER: i64 = i64::MAX;

/// The longest pause of a back-off.
const DAY: i64 = 86_400_000;

/// Which queue a group stands in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    #[default]
    Nowhere,
    Wait,
    Ready,
    /// Behind a shared gate.
    Gated,
}

/// A URI that the frontier keeps.
#[derive(Clone, Debug)]
pub struct Uri {
    pub execution: String,
    pub uri: String,
    pub depth: u32,
    pub due: i64,
    pub attempts: i64,
    /// The token of its lease.
    pub leased: Option<i64>,
}

/// A lease that is out.
#[derive(Clone, Debug)]
pub struct Held {
    pub granted: i64,
    pub deadline: i64,
    /// Leases of its URI that ran out before.
    pub attempts: i64,
    /// As it was granted.
    pub told: Lease,
}

impl Held {
    pub fn token(&self) -> i64 {
        self.told.token
    }
}

/// Picks since the executions with a due URI, or their weights, last changed.
#[derive(Clone, Debug, Default)]
struct Share {
    weights: BTreeMap<String, i64>,
    picks: BTreeMap<String, i64>,
}

/// A group.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Whether `CHG:<id>` is there.
    pub hash: bool,
    pub place: Place,
    /// The present due time.
    pub n: i64,
    /// Or else this.
    pub or_n: Option<i64>,
    /// The score in `chg_wait`, as far as it is known.
    pub score: Option<f64>,
    /// Which addition it was that made this group due at once.
    pub turn: Option<u64>,
    /// The server may keep it where it was, or may have moved it: something made its place
    /// obsolete, and the specification leaves open when that is put right.
    pub open: bool,
    /// It was allowed more leases than it is now, and may have them still.
    pub lowered: bool,
    /// Queued by a plain client.
    pub plain: bool,
    pub gate: i64,
    /// The start of the last fetch plus the gap.
    pub gap_until: i64,
    pub blocked: i64,
    /// It may be held until then.
    pub late: i64,
    pub paused: bool,
    pub parallel: usize,
    pub gap: i64,
    pub budget: Option<i64>,
    pub shared: Option<String>,
    /// URIs that are only counted, by execution.
    pub counts: BTreeMap<String, i64>,
    /// When the counted URIs were asked for, at the earliest.
    pub asked: i64,
    pub kept: Vec<Uri>,
    pub weights: BTreeMap<String, i64>,
    share: Share,
    pub leases: Vec<Held>,
    /// Leases that ran out in a row.
    pub expired: i64,
    /// Back-off steps, and when the last one was taken.
    pub steps: u32,
    pub stepped: i64,
}

impl Group {
    /// A group that nobody has heard of.
    pub fn fresh() -> Group {
        Group {
            parallel: 1,
            asked: NEVER,
            ..Group::default()
        }
    }

    /// URIs queued, leased ones included.
    pub fn c(&self) -> i64 {
        self.counted() + self.kept.len() as i64
    }

    /// URIs that are only counted.
    pub fn counted(&self) -> i64 {
        self.counts.values().sum()
    }

    /// True when something was set that must not be forgotten with the last URI.
    pub fn has_settings(&self, now: i64) -> bool {
        let limited = self.parallel > 1 || self.gap > 0 || self.budget.is_some();
        limited || self.paused || self.blocked > now || self.shared.is_some()
    }

    /// The earliest deadline of its leases.
    pub fn deadline(&self) -> Option<i64> {
        self.leases.iter().map(|lease| lease.deadline).min()
    }

    /// True when a lease has run out.
    pub fn has_run_out(&self, now: i64) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= now)
    }

    /// The lease with this token.
    pub fn lease(&self, token: i64) -> Option<&Held> {
        self.leases.iter().find(|lease| lease.token() == token)
    }

    /// The kept URI of this execution.
    pub fn find(&self, execution: &str, uri: &str) -> Option<usize> {
        let same = |kept: &Uri| kept.execution == execution && kept.uri == uri;
        self.kept.iter().position(same)
    }

    /// The weights of executions that have no URI to offer are not known from then on.
    pub fn forget_weights(&mut self) {
        for (execution, weight) in &mut self.weights {
            let mut free = self.kept.iter().filter(|uri| uri.leased.is_none());
            if !free.any(|uri| uri.execution == *execution) {
                *weight = 0;
            }
        }
    }

    /// Counts that no lease stands for, if one of these executions has any. (Whose count a lease
    /// stands for is not known before its release.)
    fn free_counts(&self, allowed: impl Fn(&str) -> bool) -> i64 {
        if !self.counts.keys().any(|execution| allowed(execution)) {
            return 0;
        }
        let out = self.leases.iter().filter(|lease| lease.told.uri.is_none());
        self.counted() - out.count() as i64
    }

    /// From when on it may be fetched from, if only these executions count.
    pub fn due(&self, allowed: impl Fn(&str) -> bool) -> i64 {
        let free = self.kept.iter().filter(|uri| uri.leased.is_none());
        let kept = free.filter(|uri| allowed(&uri.execution));
        let kept = kept.map(|uri| uri.due).min().unwrap_or(NEVER);
        let counted = match self.free_counts(&allowed) {
            1.. => self.asked,
            _ => NEVER,
        };
        let plain = if self.plain { self.n } else { NEVER };
        let earliest = kept.min(counted).min(plain);
        earliest
            .max(self.gate)
            .max(self.gap_until)
            .max(self.blocked)
    }

    /// From when on it may be fetched from.
    pub fn due_of_all(&self) -> i64 {
        self.due(|_| true)
    }

    /// Due URIs of these executions: of each execution those of the lowest depth, and of these
    /// the ones that are due longest.
    pub fn offered(&self, now: i64, allowed: impl Fn(&str) -> bool) -> Vec<&Uri> {
        let due = |uri: &&Uri| uri.leased.is_none() && uri.due <= now && allowed(&uri.execution);
        let due: Vec<&Uri> = self.kept.iter().filter(due).collect();
        let first = |uri: &&&Uri| {
            let mut rivals = due.iter().filter(|r| r.execution == uri.execution);
            rivals.all(|r| (uri.depth, uri.due) <= (r.depth, r.due))
        };
        due.iter().filter(first).copied().collect()
    }

    /// Takes note of a pick among the executions with a due URI, and says whether their shares
    /// still are as their weights are.
    pub fn pick(&mut self, execution: &str, rivals: &[String]) -> Result<(), String> {
        let weight = |e: &String| (e.clone(), self.weights.get(e).copied().unwrap_or(1));
        let weights: BTreeMap<String, i64> = rivals.iter().map(weight).collect();
        if weights != self.share.weights || weights.values().any(|weight| *weight == 0) {
            self.share = Share {
                weights,
                ..Share::default()
            };
        }
        *self.share.picks.entry(execution.to_owned()).or_insert(0) += 1;
        let all_weights: i64 = self.share.weights.values().sum();
        let all_picks: i64 = self.share.picks.values().sum();
        for (execution, weight) in &self.share.weights {
            let picks = self.share.picks.get(execution).copied().unwrap_or(0);
            let off = picks * all_weights - all_picks * weight;
            // What happened before these executions met is not known: one pick more either way.
            if off.abs() > self.share.weights.len() as i64 * all_weights {
                return Err(format!("{execution} has not its share: {:?}", self.share));
            }
        }
        Ok(())
    }

    /// Nothing is queued and nobody holds it: it stands in no queue until its gate has passed.
    pub fn settle_down(&mut self) {
        self.place = Place::Nowhere;
        self.asked = NEVER;
        self.n = self.gate.max(self.gap_until);
    }

    /// Takes a release's status into account. The pause that the back-off asks for.
    pub fn back_off(&mut self, status: Option<i64>, pause: i64, granted: i64, now: i64) -> i64 {
        let Some(status) = status else { return 0 };
        if !matches!(status, 429 | 502..=504 | 509 | 520..=530) && status >= 0 {
            self.steps = 0;
            return 0;
        }
        let same_incident = self.steps > 0 && granted < self.stepped;
        if !same_incident {
            self.steps = (self.steps + 1).min(17);
            self.stepped = now;
        }
        (pause.max(1000) << self.steps).min(DAY)
    }
}
