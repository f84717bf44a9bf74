//! State transitions of groups. A group and an event determine the new state of the group, its
//! queue, and the effects on other keys. This module neither reads nor writes keys; `apply` in
//! `placing.rs` applies the resulting step.

use super::Token;
use super::group::{Group, Hold, Limits, Released};
use super::politeness::{self, When};
use super::time::{Millis, TEN_YEARS};
use super::uris::Stock;

/// An event that changes a group.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event<'a> {
    /// URIs were queued.
    Arrived {
        uris: u64,
        /// Due time of the first of these URIs.
        at: Millis,
    },
    /// URIs were removed.
    Dropped { uris: u64 },
    /// A group that is in no queue was leased. `after` is the token of the release with which the
    /// lease was requested.
    Leased { hold: Hold, after: Option<Token> },
    /// The deadline of a held lease was extended.
    Extended { token: Token, deadline: Millis },
    /// A fetch ended.
    Released(End<'a>),
    /// Leases ended because their deadline has passed.
    Expired {
        /// Number of URIs that are not retried.
        given_up: u64,
        /// True if the URI of one of the leases is not stored. The group counts such a URI as
        /// queued again.
        counted: bool,
    },
    /// URIs of a lease that had freed the group returned to the queue, or were given up.
    Back {
        given_up: u64,
        /// Time from which the URIs are due again.
        since: Millis,
    },
    /// An operator blocked fetches until a time. A time in the past ends the block.
    Blocked { until: Millis },
    /// The due time of a stored URI changed, or a leased URI returned to the queue while its lease remains.
    Rescheduled,
    /// Limits were set.
    Limited(&'a Limits),
    /// Stored URIs were found that the group did not count. The group is not in `chg_wait`.
    Reclaimed,
}

/// The end of a fetch whose lease was still held.
#[derive(Clone, Copy, Debug)]
pub(super) struct End<'a> {
    pub token: Token,
    pub when: &'a When,
    /// Milliseconds added to a pause, because times are rounded to milliseconds and no pause may be
    /// shorter than requested.
    pub rounding: Millis,
    /// Number of URIs that are done.
    pub done: u64,
    /// True if the fetched URI is only counted, and is still queued.
    pub counted: bool,
    /// Time at which the crawler, which stores the URI itself, wants to fetch the URI again.
    pub retry: Option<Millis>,
}

/// The state outside the group at the time of an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub now: Millis,
    /// The stored URIs of the group after the event.
    pub stock: Stock,
    /// Time at which the shared gate opens; 0 without a gate.
    pub opens: Millis,
    /// True if a plain client is fetching from the group. The plain client will queue the group
    /// afterwards.
    pub taken: bool,
    /// New value of [`Group::away`], if it changes.
    pub away: Option<u64>,
}

impl Seen {
    /// Creates a state without a closed gate and without a plain client that is fetching.
    pub(super) fn at(now: Millis, stock: Stock) -> Seen {
        Seen {
            now,
            stock,
            opens: 0,
            taken: false,
            away: None,
        }
    }
}

/// The queue into which a step puts a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// Leaves the queues unchanged.
    Stay,
    /// The end of `chg_ready`.
    Ready,
    /// `chg_wait`, with this time. If the group is in `chg_wait` already, its time changes.
    Wait(Millis),
    /// `chg_ready` if the group is due, otherwise `chg_wait`. A group with a shared gate goes to
    /// the end of the gate's list.
    Queue(Millis),
    /// Changes the time of the group to this time, if the group is in `chg_wait`. Otherwise, the
    /// group keeps its place.
    Reschedule(Millis),
    /// Changes the time of the group if it is in `chg_wait`: the time becomes at most `latest` and
    /// at least `earliest`. Searches examine the group again if they have skipped it.
    Shift {
        latest: Option<Millis>,
        earliest: Millis,
    },
    /// No queue, because the group has no queued URIs and no leases. The hash is kept until the
    /// pause of the group has ended.
    Retire,
}

/// The effects of an event, which the caller must apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub placement: Placement,
    /// True if the group leaves its queue.
    pub leaves: bool,
    /// True if the group leaves `chg_idle`.
    pub wakes: bool,
    /// True if the leases changed. The caller sets the score in `chg_busy` to the first deadline.
    pub leases: bool,
    /// The end of the pause. The caller updates the shared gate with this time and the leases.
    pub pause: Option<Millis>,
}

impl Step {
    /// Creates a step that only places a group.
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

    /// Creates a step for a group whose leases changed.
    fn leases(placement: Placement, pause: Millis) -> Step {
        Step {
            leases: true,
            pause: Some(pause),
            ..Step::to(placement)
        }
    }
}

impl Group {
    /// Applies an event, and returns the step for the caller to apply.
    pub(super) fn on(&mut self, event: Event<'_>, seen: &Seen) -> Step {
        let was_runnable = self.is_runnable();
        self.away = seen.away.unwrap_or(self.away);
        let mut step = match event {
            Event::Arrived { uris, at } => self.arrived(uris, at, was_runnable, seen),
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
            Event::Released(end) => self.released(end, was_runnable, seen),
            Event::Expired { given_up, counted } => {
                return self.expired(given_up, counted, was_runnable, seen);
            }
            Event::Blocked { until } => {
                let until = if until > seen.now { until } else { 0 };
                let before = std::mem::replace(&mut self.options.blocked, until);
                // The group was blocked and due, so a search parked it in `chg_wait` until the end
                // of the block.
                let parked = before > 0 && self.due == before;
                let due = self.due_from(seen);
                Step::to_if(parked, Placement::Reschedule(due))
            }
            Event::Back { given_up, since } => self.back(given_up, since, was_runnable, seen),
            Event::Rescheduled => self.back(0, seen.now, was_runnable, seen),
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
        // The search has already removed the leased group from its queue.
        let stood = was_runnable && !matches!(event, Event::Leased { .. });
        step.leaves |= stood && !self.is_runnable();
        step
    }

    /// Returns the due time of a group that was just released: the end of its pause and block. If all URIs of
    /// the group are stored, the group does not become due before its earliest URI.
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

    /// Returns the placement of a group after one of its leases ended while the group was also in a
    /// queue. The returned URI may be due earlier than the queued URIs. A URI that is only counted
    /// is due immediately.
    fn shift(&self, counted: bool, earliest: Millis, seen: &Seen) -> Placement {
        let first = if counted {
            Some(0)
        } else {
            seen.stock.earliest
        };
        let latest = first.map(|due| due.max(self.closed_until()).max(seen.now));
        Placement::Shift { latest, earliest }
    }

    fn arrived(&mut self, uris: u64, at: Millis, was_runnable: bool, seen: &Seen) -> Step {
        let was_idle = self.known && self.is_idle();
        self.uris += uris;
        self.known = true;
        let due = at.max(self.closed_until()).max(seen.now);
        let placement = if !self.is_runnable() || (!was_runnable && seen.taken) {
            Placement::Stay
        } else if was_runnable {
            // A group that waits for its shared gate must not become due before the gate opens.
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

    /// Returns the placement of a group in a queue after the due time of one of its URIs changed.
    fn rescheduled(&self, seen: &Seen) -> Placement {
        let closed = self.closed_until().max(seen.opens).max(seen.now);
        let has_gate = !self.options.gate.is_empty();
        Placement::Shift {
            latest: seen.stock.earliest.map(|due| due.max(closed)),
            // A search moves the representative of a shared gate, because another group takes its place.
            earliest: if has_gate {
                0
            } else {
                self.due_with(seen.stock)
            },
        }
    }

    fn back(&mut self, given_up: u64, since: Millis, was_runnable: bool, seen: &Seen) -> Step {
        self.uris = self.uris.saturating_sub(given_up);
        Step::to(match (was_runnable, self.is_runnable()) {
            (_, false) => self.retire_or(Placement::Stay),
            (true, true) => self.rescheduled(seen),
            (false, true) => Placement::Wait(self.due_with(seen.stock).max(since)),
        })
    }

    fn leased(&mut self, hold: Hold, after: Option<Token>, seen: &Seen) -> Step {
        self.holds.push(hold);
        if self.options.gap > 0 {
            self.gate = self.gate.max(hold.granted + self.options.gap);
        }
        // Keep the reply to a release until the next lease. If the lease was granted with that
        // release, keep the reply with the lease.
        self.last = self.last.filter(|last| after == Some(last.token));
        // With `PARALLEL`, the group waits for its next lease in `chg_wait`, from which it can be
        // removed at any time.
        let beside = Step::to_if(self.is_runnable(), Placement::Wait(self.due_from(seen)));
        Step::leases(beside.placement, seen.now)
    }

    fn released(&mut self, end: End<'_>, was_runnable: bool, seen: &Seen) -> Step {
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
            // This is the only URI of the group. The crawler stores this URI and has specified its
            // time.
            due = due.max(at);
        }
        let placement = match (was_runnable, self.is_runnable()) {
            (_, false) => self.retire_or(Placement::Stay),
            (false, true) => Placement::Queue(due),
            // The group allows concurrent fetches, so it is already in a queue.
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

    /// Closes the gate of the group after a fetch. Returns the time at which the pause after this
    /// fetch ends.
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

    fn expired(&mut self, given_up: u64, counted: bool, was_runnable: bool, seen: &Seen) -> Step {
        let was_queued = !self.holds.is_empty() && was_runnable;
        let over = self.holds.iter().filter(|hold| hold.deadline <= seen.now);
        let (mut ended, mut last) = (0, None);
        for hold in over {
            ended += 1;
            last = last.max(Some(hold.deadline));
        }
        self.holds.retain(|hold| hold.deadline > seen.now);
        if let (false, Some(last)) = (was_queued, last) {
            // The group is considered ready since the end of its lease.
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
