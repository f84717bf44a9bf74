//! Applies random events to some groups, with plain lists and maps as queues. Checks that each
//! group is always in exactly the queues that its state implies, and that no fetch begins earlier
//! than allowed.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::Token;
use super::group::{Group, Hold};
use super::hold::Limits;
use super::lease::When;
use super::time::Millis;
use super::transition::*;
use super::uris::Stock;

const GROUPS: usize = 4;

#[derive(Clone, Debug)]
enum Op {
    Arrive {
        group: usize,
        uris: u64,
        at: i64,
    },
    Drop {
        group: usize,
        uris: u64,
    },
    Lease {
        ms: u16,
        keeps: bool,
    },
    Extend {
        group: usize,
        ms: u16,
    },
    Release {
        group: usize,
        delay: u16,
        done: u64,
        retry: Option<u16>,
        stored: bool,
    },
    Block {
        group: usize,
        ms: i64,
    },
    Limit {
        group: usize,
        parallel: u64,
        gap: u16,
        delay: Option<u64>,
    },
    /// The due time of the first stored URI changes.
    Reschedule {
        group: usize,
        at: i64,
    },
    Lose {
        group: usize,
    },
    Pass {
        ms: u16,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let group = 0..GROUPS;
    prop_oneof![
        6 => (group.clone(), 1..4_u64, -500_i64..2000)
            .prop_map(|(group, uris, at)| Op::Arrive { group, uris, at }),
        1 => (group.clone(), 0..5_u64).prop_map(|(group, uris)| Op::Drop { group, uris }),
        8 => (1..900_u16, any::<bool>()).prop_map(|(ms, keeps)| Op::Lease { ms, keeps }),
        1 => (group.clone(), 1..900_u16).prop_map(|(group, ms)| Op::Extend { group, ms }),
        8 => (group.clone(), 0..700_u16, 0..3_u64, any::<Option<u16>>(), any::<bool>()).prop_map(
            |(group, delay, done, retry, stored)| Op::Release { group, delay, done, retry, stored }
        ),
        1 => (group.clone(), -50_i64..900).prop_map(|(group, ms)| Op::Block { group, ms }),
        1 => (group.clone(), 1..4_u64, 0..300_u16, any::<Option<u8>>()).prop_map(
            |(group, parallel, gap, delay)| {
                let delay = delay.map(u64::from);
                Op::Limit { group, parallel, gap, delay }
            }
        ),
        1 => (group.clone(), -50_i64..900).prop_map(|(group, at)| Op::Reschedule { group, at }),
        1 => group.prop_map(|group| Op::Lose { group }),
        8 => (0..400_u16).prop_map(|ms| Op::Pass { ms }),
    ]
}

/// Queues as plain lists and maps.
#[derive(Default)]
struct World {
    now: Millis,
    token: Token,
    groups: [Group; GROUPS],
    ready: Vec<usize>,
    /// Groups by due time and, if due times are equal, by arrival.
    wait: BTreeMap<usize, (Millis, u64)>,
    arrivals: u64,
    busy: BTreeMap<usize, Millis>,
    idle: BTreeMap<usize, Millis>,
    /// The earliest time of the next fetch from each group, according to its releases and limits.
    not_before: [Millis; GROUPS],
}

impl World {
    fn happen(&mut self, id: usize, event: Event<'_>) -> Step {
        self.happen_with(id, event, Stock::default())
    }

    fn happen_with(&mut self, id: usize, event: Event<'_>, stock: Stock) -> Step {
        let seen = Seen::at(self.now, stock);
        let group = &mut self.groups[id];
        let before = group.gate;
        let step = group.on(event, &seen);
        group.ours = true;
        assert!(group.gate >= before, "the gate goes back: {event:?}");
        self.carry_out(id, step);
        self.inspect(id, event);
        step
    }

    fn wait(&mut self, id: usize, due: Millis) {
        self.arrivals += 1;
        self.groups[id].due = due;
        self.wait.insert(id, (due, self.arrivals));
    }

    fn carry_out(&mut self, id: usize, step: Step) {
        if step.leases {
            match self.groups[id].first_deadline() {
                Some(deadline) => drop(self.busy.insert(id, deadline)),
                None => drop(self.busy.remove(&id)),
            }
        }
        if step.leaves {
            self.wait.remove(&id);
            self.ready.retain(|&other| other != id);
        }
        if step.wakes {
            self.idle.remove(&id);
        }
        let (now, due) = (self.now, self.groups[id].due);
        match step.placement {
            Placement::Stay => {}
            Placement::Ready => self.ready.push(id),
            Placement::Queue(due) if due <= now => {
                self.groups[id].due = due;
                self.ready.push(id);
            }
            Placement::Wait(due) | Placement::Queue(due) => {
                assert!(!self.wait.contains_key(&id), "it waits twice");
                self.wait(id, due);
            }
            Placement::Reschedule(due) if self.wait.contains_key(&id) => self.wait(id, due),
            Placement::Shift { latest, earliest } if self.wait.contains_key(&id) => {
                let shifted = latest.map_or(due, |latest| due.min(latest)).max(earliest);
                if shifted != due {
                    self.wait(id, shifted);
                }
            }
            Placement::Reschedule(_) | Placement::Shift { .. } => {}
            Placement::Retire => {
                let until = self.groups[id].gate;
                self.groups[id].due = until;
                self.idle.insert(id, until);
            }
        }
    }

    /// Checks that a group is in exactly the queues that its state implies.
    fn inspect(&self, id: usize, event: Event<'_>) {
        let group = &self.groups[id];
        let ready = self.ready.iter().filter(|&&other| other == id).count();
        let stands = ready + usize::from(self.wait.contains_key(&id));
        assert_eq!(
            stands,
            usize::from(group.is_runnable()),
            "{event:?} {group:?}"
        );
        assert_eq!(self.busy.get(&id).copied(), group.first_deadline());
        let rests = group.is_idle() && group.known;
        assert_eq!(self.idle.contains_key(&id), rests, "{event:?} {group:?}");
        assert!(group.holds.len() as u64 <= MAX_PARALLEL, "{group:?}");
    }

    /// Leases the group that has been due for longest. Of several ready groups, leases the group
    /// that became ready first.
    fn lease(&mut self, ms: u16, keeps: bool) {
        let now = self.now;
        let over = self.busy.iter().filter(|(_, deadline)| **deadline <= now);
        let over: Vec<usize> = over.map(|(&id, _)| id).collect();
        for id in over {
            let expired = Event::Expired {
                given_up: 0,
                counted: true,
            };
            self.happen(id, expired);
        }
        let due = self.wait.iter().filter(|(_, (due, _))| *due <= now);
        let waits = due.min_by_key(|(_, at)| **at).map(|(&id, _)| id);
        let id = match (self.ready.first().copied(), waits) {
            (Some(id), _) => {
                self.ready.remove(0);
                id
            }
            (None, Some(id)) => {
                self.wait.remove(&id);
                id
            }
            (None, None) => return,
        };
        let group = &self.groups[id];
        let closed = group.closed_until();
        if closed > now {
            // The gate of the group was closed in the meantime, so the group is parked.
            return self.wait(id, closed);
        }
        assert!(
            group.is_runnable() && self.not_before[id] <= now,
            "{group:?}"
        );
        self.token += 1;
        let hold = Hold {
            token: self.token,
            granted: now,
            deadline: now + u64::from(ms),
        };
        let last = group.last;
        let after = last.filter(|_| keeps).map(|last| last.token);
        self.happen(id, Event::Leased { hold, after });
        assert_eq!(self.groups[id].last, last.filter(|_| keeps));
        let gap = self.groups[id].options.gap;
        self.not_before[id] = self.not_before[id].max(now + gap);
    }

    fn apply(&mut self, op: &Op) {
        let now = self.now;
        match *op {
            Op::Arrive { group, uris, at } => {
                let at = now.saturating_add_signed(at);
                let before = self.groups[group].uris;
                self.happen(group, Event::Arrived { uris, at });
                assert_eq!(self.groups[group].uris, before + uris);
            }
            Op::Drop { group, uris } if self.groups[group].known => {
                let before = self.groups[group].uris;
                self.happen(group, Event::Dropped { uris });
                assert_eq!(self.groups[group].uris, before.saturating_sub(uris));
            }
            Op::Lease { ms, keeps } => self.lease(ms, keeps),
            Op::Extend { group, ms } => {
                if let Some(hold) = self.groups[group].holds.first().copied() {
                    let deadline = now + u64::from(ms);
                    let token = hold.token;
                    self.happen(group, Event::Extended { token, deadline });
                    let held = self.groups[group].hold(token, now);
                    assert_eq!(held.map(|hold| hold.deadline), Some(deadline));
                }
            }
            Op::Release {
                group,
                delay,
                done,
                retry,
                stored,
            } => {
                let Some(hold) = self.groups[group].holds.first().copied() else {
                    return;
                };
                let delay = match self.groups[group].options.delay {
                    Some(kept) if stored => kept,
                    _ => delay.into(),
                };
                let when = match self.groups[group].options.delay {
                    Some(_) if stored => When::Stored,
                    _ => When::Delay(delay),
                };
                let end = End {
                    token: hold.token,
                    when: &when,
                    rounding: 1,
                    done,
                    counted: done == 0,
                    retry: retry.map(|ms| now + u64::from(ms)),
                };
                self.happen(group, Event::Released(end));
                let gate = now + if delay > 0 { delay + 1 } else { 0 };
                self.not_before[group] = self.not_before[group].max(gate);
                let last = self.groups[group].last.expect("it was released");
                assert!(last.token == hold.token && last.due >= gate, "{last:?}");
            }
            Op::Block { group, ms } if self.groups[group].known => {
                let until = now.saturating_add_signed(ms);
                self.happen(group, Event::Blocked { until });
            }
            Op::Limit {
                group,
                parallel,
                gap,
                delay,
            } if self.groups[group].known => {
                let limits = Limits {
                    parallel: Some(parallel),
                    gap: Some(gap.into()),
                    delay: Some(delay),
                    budget: None,
                };
                self.happen(group, Event::Limited(&limits));
            }
            Op::Reschedule { group, at } if self.groups[group].known => {
                let due = now.saturating_add_signed(at);
                let stock = Stock {
                    uris: self.groups[group].uris,
                    earliest: Some(due),
                };
                self.happen_with(group, Event::Rescheduled, stock);
                if let Some((at, _)) = self.wait.get(&group) {
                    let due = due.max(self.groups[group].closed_until());
                    assert!(*at == due || (due < now && *at <= now), "{at} {due}");
                }
            }
            Op::Lose { group } => {
                // A plain client removed the group from its queue, and a command then finds its
                // stored URIs.
                let lost = self.wait.remove(&group).is_some();
                if lost || self.ready.contains(&group) {
                    self.happen(group, Event::Reclaimed);
                }
            }
            Op::Pass { ms } => {
                self.now += u64::from(ms);
                let over = self.idle.iter().filter(|(_, until)| **until <= self.now);
                let over: Vec<usize> = over.map(|(&id, _)| id).collect();
                for id in over {
                    self.idle.remove(&id);
                    self.groups[id] = Group::default();
                }
            }
            Op::Drop { .. } | Op::Block { .. } | Op::Limit { .. } | Op::Reschedule { .. } => {}
        }
    }
}

const MAX_PARALLEL: u64 = 3;

proptest! {
    #[test]
    fn a_group_stands_where_its_state_says(ops in prop::collection::vec(op(), 1..150)) {
        let mut world = World { now: 1_000_000, ..World::default() };
        for op in &ops {
            world.apply(op);
        }
    }

    #[test]
    fn what_became_ready_first_is_leased_first(order in Just(vec![0, 1, 2, 3]).prop_shuffle()) {
        let mut world = World { now: 1_000_000, ..World::default() };
        for &group in &order {
            world.happen(group, Event::Arrived { uris: 1, at: 0 });
        }
        for &group in &order {
            world.lease(10, false);
            prop_assert_eq!(world.groups[group].holds.len(), 1);
        }
        for &group in &order {
            world.apply(&Op::Release { group, delay: 0, done: 0, retry: None, stored: false });
        }
        for &group in &order {
            world.lease(10, false);
            prop_assert_eq!(world.groups[group].holds.len(), 1);
        }
    }
}

#[test]
fn release_of_a_lease_that_is_not_held_changes_nothing() {
    let mut group = Group {
        known: true,
        uris: 2,
        ..Group::default()
    };
    let before = group.clone();
    let end = End {
        token: 1,
        when: &When::Delay(5),
        rounding: 0,
        done: 1,
        counted: false,
        retry: None,
    };
    let seen = Seen::at(9, Stock::default());
    let step = group.on(Event::Released(end), &seen);
    assert_eq!((group, step), (before, Step::to(Placement::Stay)));
}
