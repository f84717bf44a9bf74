//! What happens to a group: from a group and an event to the group after it, where it comes to stand, and
//! what else follows. No key is read or written here; `place.rs` carries out what this says.

use super::Token;
use super::group::{Group, Hold, Released};
use super::hold::Limits;
use super::lease::When;
use super::politeness;
use super::time::{Millis, TEN_YEARS};
use super::uris::Stock;

/// What happened to a group.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event<'a> {
    /// URIs were queued.
    Arrived {
        uris: u64,
        /// When the first of them is due.
        at: Millis,
    },
    /// URIs were taken out.
    Dropped { uris: u64 },
    /// A group that stands in no queue was leased, after the release of a token if that is part of it.
    Leased { hold: Hold, after: Option<Token> },
    /// A lease that is held lasts longer.
    Extended { token: Token, deadline: Millis },
    /// A fetch ended.
    Released(End<'a>),
    /// The deadlines of its leases were looked at: those that have come end the lease.
    Expired {
        /// How many URIs are not tried again.
        given_up: u64,
        /// Whether a URI goes back to those that are only counted.
        counted: bool,
    },
    /// No fetch may begin before this; a time in the past ends a block.
    Blocked { until: Millis },
    /// Limits were set.
    Limited(&'a Limits),
    /// Kept URIs were found again that its hash did not count, and it waits for nothing.
    Reclaimed,
}

/// The end of a fetch whose lease is held.
#[derive(Clone, Copy, Debug)]
pub(super) struct End<'a> {
    pub token: Token,
    pub when: &'a When,
    /// What is added to a pause, so that it is never shorter than asked though times are whole milliseconds.
    pub rounding: Millis,
    /// How many URIs are done.
    pub done: u64,
    /// Whether nothing is kept of the URI, and nothing is done.
    pub counted: bool,
    /// When the crawler wants to fetch the URI again that it keeps.
    pub retry: Option<Millis>,
}

/// What is known beside the group when something happens to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub now: Millis,
    /// What is kept for it, after the event.
    pub stock: Stock,
    /// When the gate opens that it shares.
    pub opens: Millis,
    /// Whether a plain client fetches from it, and queues it when it is done.
    pub taken: bool,
}

impl Seen {
    /// Nothing but what is kept for the group.
    pub(super) fn at(now: Millis, stock: Stock) -> Seen {
        Seen {
            now,
            stock,
            opens: 0,
            taken: false,
        }
    }
}

/// Where a group comes to stand among those that can be leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// Where it stood, if anywhere.
    Stay,
    /// At the end of `chg_ready`.
    Ready,
    /// In `chg_wait`, and not twice.
    Wait(Millis),
    /// In `chg_ready` if it is due, else in `chg_wait`; behind a shared gate as the last one.
    Queue(Millis),
    /// Where it waits, until this.
    Reschedule(Millis),
    /// Where it waits, no longer than until `latest` and then at least until `earliest`. Wherever it is
    /// passed over, it is looked at again.
    Shift {
        latest: Option<Millis>,
        earliest: Millis,
    },
    /// Nowhere: nothing is queued or held, and its hash stays until its gate has passed.
    Rest,
}

/// What follows from an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub placement: Placement,
    /// It leaves the queue in which it stands.
    pub leaves: bool,
    /// It leaves `chg_idle`.
    pub wakes: bool,
    /// Its leases are others: `chg_busy` shows it with its first deadline.
    pub leases: bool,
    /// The gate that it shares is told of its leases, and that its pause ends then.
    pub pause: Option<Millis>,
}

impl Step {
    /// Nothing follows but where the group comes to stand.
    pub(super) fn to(placement: Placement) -> Step {
        Step {
            placement,
            leaves: false,
            wakes: false,
            leases: false,
            pause: None,
        }
    }

    fn to_if(moves: bool, placement: Placement) -> Step {
        Step::to(if moves { placement } else { Placement::Stay })
    }

    /// The leases of the group are others.
    fn leases(placement: Placement, pause: Millis) -> Step {
        Step {
            leases: true,
            pause: Some(pause),
            ..Step::to(placement)
        }
    }
}

impl Group {
    /// Takes in what happened, and says what follows.
    pub(super) fn on(&mut self, event: Event<'_>, seen: &Seen) -> Step {
        let was_runnable = self.is_runnable();
        let mut step = match event {
            Event::Arrived { uris, at } => self.arrived(uris, at, seen),
            Event::Dropped { uris } => {
                self.uris = self.uris.saturating_sub(uris);
                Step::to(self.rest_or(Placement::Stay))
            }
            Event::Leased { hold, after } => self.leased(hold, after, seen),
            Event::Extended { token, deadline } => {
                let held = self.holds.iter_mut().find(|hold| hold.token == token);
                held.into_iter().for_each(|hold| hold.deadline = deadline);
                Step::leases(Placement::Stay, seen.now)
            }
            Event::Released(end) => self.released(end, seen),
            Event::Expired { given_up, counted } => return self.expired(given_up, counted, seen),
            Event::Blocked { until } => {
                let until = if until > seen.now { until } else { 0 };
                let before = std::mem::replace(&mut self.options.blocked, until);
                // One that came up meanwhile was parked until the end of its block.
                let parked = before > 0 && self.due == before;
                let due = self.due_from(seen);
                Step::to_if(parked, Placement::Reschedule(due))
            }
            Event::Limited(limits) => {
                self.limited(limits);
                let enters = !was_runnable && self.is_runnable();
                Step::to_if(enters, Placement::Wait(self.due_from(seen)))
            }
            Event::Reclaimed if seen.taken || !was_runnable => Step::to(Placement::Stay),
            Event::Reclaimed => Step {
                leaves: true,
                wakes: true,
                ..Step::to(Placement::Wait(self.due_from(seen)))
            },
        };
        // Whoever leases a group has taken it out of its queue.
        let stood = was_runnable && !matches!(event, Event::Leased { .. });
        step.leaves |= stood && !self.is_runnable();
        step
    }

    /// When it is due, having just become free: after its pause and block, and when one of the URIs kept
    /// for it is due, if it has only such.
    pub(super) fn due_with(&self, stock: Stock) -> Millis {
        let closed = self.closed_until();
        match stock.earliest {
            Some(earliest) if stock.uris >= self.uris => closed.max(earliest),
            _ => closed,
        }
    }

    fn due_from(&self, seen: &Seen) -> Millis {
        self.due_with(seen.stock).max(seen.now)
    }

    fn rest_or(&self, placement: Placement) -> Placement {
        if self.is_idle() {
            Placement::Rest
        } else {
            placement
        }
    }

    /// A lease ended while it stands in a queue beside its leases: a URI that went back may be due before
    /// what it waits for, and one that is only counted always is.
    fn shift(&self, counted: bool, earliest: Millis, seen: &Seen) -> Placement {
        let first = if counted {
            Some(0)
        } else {
            seen.stock.earliest
        };
        let latest = first.map(|due| due.max(self.closed_until()).max(seen.now));
        Placement::Shift { latest, earliest }
    }

    fn arrived(&mut self, uris: u64, at: Millis, seen: &Seen) -> Step {
        let (was_runnable, was_idle) = (self.is_runnable(), self.known && self.is_idle());
        self.uris += uris;
        self.known = true;
        let due = at.max(self.closed_until()).max(seen.now);
        let placement = if !self.is_runnable() || (!was_runnable && seen.taken) {
            Placement::Stay
        } else if was_runnable {
            // What waits for its gate goes on waiting for that, and is known by it if it leaves the gate.
            let latest = Some(due.max(seen.opens));
            Placement::Shift {
                latest,
                earliest: 0,
            }
        } else {
            Placement::Wait(due)
        };
        Step {
            wakes: was_idle && self.is_runnable(),
            ..Step::to(placement)
        }
    }

    fn leased(&mut self, hold: Hold, after: Option<Token>, seen: &Seen) -> Step {
        self.holds.push(hold);
        if self.options.gap > 0 {
            self.gate = self.gate.max(hold.granted + self.options.gap);
        }
        // The reply of a release is kept until the next lease, unless that is part of it.
        self.last = self.last.filter(|last| after == Some(last.token));
        // Beside its lease it stands in `chg_wait`, from where it can be taken at any time.
        let beside = Step::to_if(self.is_runnable(), Placement::Wait(self.due_from(seen)));
        Step::leases(beside.placement, seen.now)
    }

    fn released(&mut self, end: End<'_>, seen: &Seen) -> Step {
        let was_runnable = self.is_runnable();
        let Some(at) = self.holds.iter().position(|hold| hold.token == end.token) else {
            return Step::to(Placement::Stay);
        };
        let hold = self.holds.remove(at);
        self.expired = 0;
        self.uris = self.uris.saturating_sub(end.done);
        let pause = self.close_gate(hold, &end, seen.now);
        self.released = seen.now;
        let mut due = self.due_with(seen.stock);
        if let (Some(at), 1) = (end.retry, self.uris) {
            // The only URI of the group, which its crawler keeps.
            due = due.max(at);
        }
        let placement = match (was_runnable, self.is_runnable()) {
            (_, false) => self.rest_or(Placement::Stay),
            (false, true) => Placement::Queue(due),
            // Others may fetch from it at the same time, so it stands in a queue already.
            (true, true) => self.shift(end.counted, due, seen),
        };
        if placement == Placement::Rest {
            due = self.gate;
        }
        self.last = Some(Released {
            token: end.token,
            due,
            next: 0,
        });
        Step::leases(placement, pause)
    }

    /// Closes its gate after a fetch; when the pause of this fetch ends.
    fn close_gate(&mut self, hold: Hold, end: &End<'_>, now: Millis) -> Millis {
        let stored = self.options.delay.unwrap_or(0);
        let pause = match end.when {
            When::At(_) => 0,
            When::Delay(delay) => *delay,
            When::Facts(facts) => {
                let (pause, backoff) = politeness::pause(facts, self.backoff, hold.granted, now);
                self.backoff = backoff;
                pause.max(stored).min(TEN_YEARS)
            }
            When::Stored => stored,
        };
        let ends = match end.when {
            When::At(at) => (*at).max(now),
            _ if pause > 0 => now + pause + end.rounding,
            _ => now,
        };
        self.gate = self.gate.max(ends);
        ends
    }

    fn expired(&mut self, given_up: u64, counted: bool, seen: &Seen) -> Step {
        let was_queued = self.stands_beside_leases();
        let over = self.holds.iter().filter(|hold| hold.deadline <= seen.now);
        let (mut ended, mut last) = (0, None);
        for hold in over {
            ended += 1;
            last = last.max(Some(hold.deadline));
        }
        self.holds.retain(|hold| hold.deadline > seen.now);
        if let (false, Some(last)) = (was_queued, last) {
            // It has been ready since.
            self.due = last;
        }
        // A plain client's lease keeps no token.
        self.expired += ended.max(u64::from(self.holds.is_empty()));
        self.uris = self.uris.saturating_sub(given_up);
        let placement = if was_queued {
            self.shift(counted, 0, seen)
        } else if self.known && self.is_idle() {
            Placement::Rest
        } else if self.is_runnable() || !self.ours {
            Placement::Ready
        } else {
            Placement::Stay
        };
        Step::leases(placement, last.unwrap_or(seen.now))
    }

    fn limited(&mut self, limits: &Limits) {
        let options = &mut self.options;
        options.parallel = limits.parallel.unwrap_or(options.parallel);
        options.gap = limits.gap.unwrap_or(options.gap);
        options.delay = limits.delay.unwrap_or(options.delay);
        options.budget = limits.budget.unwrap_or(options.budget);
        let begun = self.holds.iter().map(|hold| hold.granted).max();
        if let (Some(begun), gap @ 1..) = (begun, self.options.gap) {
            self.gate = self.gate.max(begun + gap);
        }
    }
}
