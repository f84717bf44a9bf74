//! Transitions of a group: a group and an event determine the new group, its placement in the queues, and effects on
//! other keys. This module neither reads nor writes keys; `place` in `steps.rs` applies a step.

use super::Token;
use super::group::{Group, Hold, Limits, Released};
use super::politeness::{self, When};
use super::time::{Millis, TEN_YEARS};
use super::uris::Stock;

/// An event in the life of a group.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event<'a> {
    /// URIs were queued.
    Arrived {
        uris: u64,
        /// Due time of the first of them.
        at: Millis,
    },
    /// URIs were removed.
    Dropped { uris: u64 },
    /// A group that is in no queue was leased; `after` is the token of the release that it was leased with.
    Leased { hold: Hold, after: Option<Token> },
    /// The deadline of a held lease was extended.
    Extended { token: Token, deadline: Millis },
    /// A fetch ended.
    Released(End<'a>),
    /// Leases whose deadline has passed end.
    Expired {
        /// Number of URIs that are not retried.
        given_up: u64,
        /// The URI of one of them is not kept, so that the group counts it as queued again.
        counted: bool,
    },
    /// An operator blocked fetches until a time; a time in the past ends a block.
    Blocked { until: Millis },
    /// Limits were set.
    Limited(&'a Limits),
    /// Kept URIs were found that the group did not count; the group is not in `chg_wait`.
    Reclaimed,
}

/// The end of a fetch whose lease is held.
#[derive(Clone, Copy, Debug)]
pub(super) struct End<'a> {
    pub token: Token,
    pub when: &'a When,
    /// Milliseconds added to a pause: times are whole milliseconds, and no pause may be shorter than requested.
    pub rounding: Millis,
    /// Number of URIs that are done.
    pub done: u64,
    /// The fetched URI is only counted, and is still queued.
    pub counted: bool,
    /// Time when the crawler, which keeps the URI itself, wants to fetch it again.
    pub retry: Option<Millis>,
}

/// State outside the group at the time of an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub now: Millis,
    /// URIs kept for the group, after the event.
    pub stock: Stock,
    /// Time when the shared gate opens; 0 if there is no gate.
    pub opens: Millis,
    /// A plain client fetches from the group, and will queue it afterwards.
    pub taken: bool,
}

impl Seen {
    /// Creates a state with kept URIs only: no closed gate, no plain client.
    pub(super) fn at(now: Millis, stock: Stock) -> Seen {
        Seen {
            now,
            stock,
            opens: 0,
            taken: false,
        }
    }
}

/// The placement of a group in the queues from which it can be leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// Not moved.
    Stay,
    /// To the end of `chg_ready`.
    Ready,
    /// To `chg_wait`, or moved within it if it is there.
    Wait(Millis),
    /// To `chg_ready` if it is due, else to `chg_wait`; with a shared gate, to the end of the queue behind it.
    Queue(Millis),
    /// Moved within `chg_wait`, if it is there.
    Reschedule(Millis),
    /// Moved within `chg_wait`, if it is there: not later than `latest`, and not earlier than
    /// `earliest`. A skipped group is examined again.
    Shift {
        latest: Option<Millis>,
        earliest: Millis,
    },
    /// Into no queue, because nothing is queued or held; its hash is kept until its gate has passed.
    Retire,
}

/// The effects of an event, to be applied by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub placement: Placement,
    /// The group leaves its queue.
    pub leaves: bool,
    /// The group leaves `chg_idle`.
    pub wakes: bool,
    /// The leases changed, so the score in `chg_busy` is set to the first deadline.
    pub leases: bool,
    /// The shared gate is updated with the leases and with this end of the pause.
    pub pause: Option<Millis>,
}

impl Step {
    /// Creates a placement without other effects.
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

    /// Creates a placement for a group whose leases changed.
    fn leases(placement: Placement, pause: Millis) -> Step {
        Step {
            leases: true,
            pause: Some(pause),
            ..Step::to(placement)
        }
    }
}

impl Group {
    /// Applies an event, and returns the step to be carried out.
    pub(super) fn on(&mut self, event: Event<'_>, seen: &Seen) -> Step {
        let was_runnable = self.is_runnable();
        let mut step = match event {
            Event::Arrived { uris, at } => self.arrived(uris, at, seen),
            Event::Dropped { uris } => {
                self.uris = self.uris.saturating_sub(uris);
                Step::to(self.retire_or(Placement::Stay))
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
                // A blocked group that was due was parked in `chg_wait` until the end of its block.
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
        // A group that is being leased was removed from its queue before.
        let stood = was_runnable && !matches!(event, Event::Leased { .. });
        step.leaves |= stood && !self.is_runnable();
        step
    }

    /// Returns the due time of a group that was just released: the end of its pause and block. If all its URIs are
    /// stored, the group becomes due no earlier than its earliest URI.
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

    fn retire_or(&self, placement: Placement) -> Placement {
        if self.is_idle() {
            Placement::Retire
        } else {
            placement
        }
    }

    /// Returns the placement of a group after one of its leases ended, if the group was also in a
    /// queue. The URI that returned may be due earlier than the queued ones. A URI that is only
    /// counted is due at once.
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
            // A group that waits for its shared gate is not moved before the time when the gate opens.
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
        // Keep the reply to a release until the next lease. If the lease was taken with that
        // release, the reply is kept with it.
        self.last = self.last.filter(|last| after == Some(last.token));
        // With PARALLEL the group waits for its next lease in `chg_wait`, from which it can be removed at any time.
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
            // This is the only URI of the group, and the crawler, which keeps it, specified the
            // time.
            due = due.max(at);
        }
        let placement = match (was_runnable, self.is_runnable()) {
            (_, false) => self.retire_or(Placement::Stay),
            (false, true) => Placement::Queue(due),
            // The group allows concurrent fetches, so it is in a queue already.
            (true, true) => self.shift(end.counted, due, seen),
        };
        if placement == Placement::Retire {
            due = self.gate;
        }
        self.last = Some(Released {
            token: end.token,
            due,
            next: 0,
        });
        Step::leases(placement, pause)
    }

    /// Closes the gate of the group after a fetch; returns the time when the pause of this fetch ends.
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
            // The group has been ready since its lease ended.
            self.due = last;
        }
        // The lease of a plain client has no token, and is not among `holds`.
        self.expired += ended.max(u64::from(self.holds.is_empty()));
        self.uris = self.uris.saturating_sub(given_up);
        let placement = if was_queued {
            self.shift(counted, 0, seen)
        } else if self.known && self.is_idle() {
            Placement::Retire
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
