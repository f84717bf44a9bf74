//! Runs random histories in which clients request URIs of one execution. A search must find a group
//! whenever a scan of all groups finds one, and must not lease the group earlier than the rules allow.

use super::super::next::Search;
use super::*;

/// A step of a history.
#[derive(Clone, Debug)]
enum Act {
    Other(Op),
    NextFor {
        execution: usize,
        count: usize,
        /// True if expired leases are ended first.
        ends: bool,
        /// True if the search only gets short slices of time.
        slices: bool,
    },
    /// Compares the agenda of an execution with a scan of all groups.
    Look {
        execution: usize,
    },
    /// A restart of the server, or a failover.
    Reload,
}

fn act() -> impl Strategy<Value = Act> {
    let execution = 0..EXECUTIONS.len();
    prop_oneof![
        30 => op().prop_map(Act::Other),
        10 => (0..GROUPS.len(), execution.clone(), -500_i64..3000, 0..20_u8).prop_map(
            |(group, execution, at, uri)| Act::Other(Op::AddKept { group, execution, at, depth: 0, uri })
        ),
        12 => (execution.clone(), 1..3_usize, any::<bool>(), any::<bool>()).prop_map(
            |(execution, count, ends, slices)| Act::NextFor { execution, count, ends, slices }
        ),
        6 => execution.prop_map(|execution| Act::Look { execution }),
        1 => Just(Act::Reload),
    ]
}

fn ask(execution: &[u8], count: usize) -> Ask<'_> {
    Ask {
        lease: LEASE,
        count,
        uris: 1,
        gate: None,
        execution: Some(execution),
        after: None,
    }
}

impl World<PackedMemory> {
    pub(super) fn packed(&mut self) -> &mut Packed {
        &mut self.ks.packed.as_mut().unwrap().packed
    }

    /// Returns true if a scan of all groups finds a group that can be leased at a time without ending a
    /// lease.
    pub(super) fn has_group_for(&mut self, execution: &[u8], at: Millis) -> bool {
        let World { ks, frontier, .. } = self;
        let paused = frontier.pauses.read(ks).unwrap();
        if paused.all || paused.has(execution) {
            return false;
        }
        GROUPS.iter().any(|group| {
            let loaded = frontier.groups.load(ks, group).unwrap();
            let ends = loaded.group.first_deadline();
            ends.is_none_or(|deadline| deadline > at)
                && frontier
                    .judge()
                    .has_due(ks, &loaded, execution, at)
                    .unwrap()
        })
    }

    pub(super) fn next_for(&mut self, execution: &[u8], count: usize, slices: bool) -> usize {
        let mut leases = Vec::new();
        let (ks, now) = (&mut self.ks, self.now);
        loop {
            let search = self.frontier.next(
                ks,
                &ask(execution, count),
                now,
                &mut || !slices,
                &mut leases,
            );
            if search.unwrap() == Search::Complete {
                break;
            }
        }
        let granted = leases.len();
        for lease in leases {
            assert_eq!(lease.execution.as_ref().unwrap(), execution);
            self.granted(lease);
        }
        granted
    }

    fn play(&mut self, act: &Act) {
        match *act {
            Act::Other(ref op) => self.apply(op),
            Act::NextFor {
                execution,
                count,
                ends,
                slices,
            } => {
                let execution = EXECUTIONS[execution];
                if ends {
                    let (ks, now) = (&mut self.ks, self.now);
                    self.frontier.expired(ks, 100, now).unwrap();
                }
                let is_due = self.has_group_for(execution, self.now);
                let granted = self.next_for(execution, count, slices);
                assert!(granted > 0 || !is_due, "a due group is not found");
                assert!(granted == 0 || is_due || !ends, "a group is not due");
                assert!(
                    granted == count || !self.has_group_for(execution, self.now),
                    "another due group is not found"
                );
            }
            Act::Look { execution } => {
                let execution = EXECUTIONS[execution];
                let World { ks, frontier, .. } = self;
                let wake = frontier.wake_for(ks, execution).unwrap();
                for later in [0, 1, 100, 700, 3000] {
                    let at = self.now + later;
                    let is_due = self.has_group_for(execution, at);
                    let bound = wake.is_some_and(|wake| wake <= at);
                    assert!(bound || !is_due, "the bound {wake:?} is later than {at}");
                }
            }
            Act::Reload => {
                self.packed().forget_agendas();
                self.apply(&Op::Restart);
            }
        }
    }

    /// Fetches all URIs that the frontier stores, by execution.
    fn drain_for_each(&mut self) {
        let World { ks, frontier, .. } = self;
        frontier.pauses.set(ks, None, false).unwrap();
        for group in GROUPS {
            let _ = frontier.pause_group(ks, group, false, self.now);
        }
        for execution in EXECUTIONS {
            self.run(pause_execution(execution, false, self.now), usize::MAX);
        }
        for _ in 0..300 {
            for execution in EXECUTIONS {
                let before = self.granted.len();
                self.next_for(execution, 10, false);
                for lease in self.granted.split_off(before) {
                    self.finish(&lease);
                    self.granted.push(lease);
                }
            }
            self.now += 300;
        }
        for group in GROUPS {
            let World { ks, frontier, .. } = self;
            let loaded = frontier.groups.load(ks, group).unwrap();
            let kept = frontier.groups.kept(ks, &loaded, |uris| uris.len());
            assert_eq!(kept.unwrap().unwrap_or(0), 0, "a URI is never leased");
        }
    }
}

proptest! {
    #[test]
    fn a_search_for_one_execution_finds_what_a_look_at_all_groups_finds(
        acts in prop::collection::vec(act(), 1..150)
    ) {
        let mut world = World::<PackedMemory>::new();
        for act in &acts {
            world.play(act);
            world.ks.end();
            world.inspect();
        }
        world.drain_for_each();
        world.drain();
    }
}

/// Adds a URI to each of many groups of `x`, and in between to one group of `y y`.
fn crowded() -> World<PackedMemory> {
    let mut world = World::<PackedMemory>::new();
    let World {
        ks, frontier, now, ..
    } = &mut world;
    for n in 0..500_u64 {
        let chg = format!("group-{n:03}");
        let execution = EXECUTIONS[usize::from(n == 250)];
        let uri = Kept {
            chg: chg.as_bytes(),
            at: *now + n,
            depth: 0,
            uri: b"u",
        };
        let added = frontier.add_kept(ks, execution, None, &[uri], *now);
        added.unwrap();
    }
    world.now += 600;
    world
}

fn looked_at(world: &mut World<PackedMemory>, execution: &[u8]) -> (Vec<Lease>, u32) {
    let (mut leases, mut looked_at) = (Vec::new(), 0);
    let World {
        ks, frontier, now, ..
    } = world;
    let mut time = || {
        looked_at += 1;
        true
    };
    let searched = frontier.next(ks, &ask(execution, 1), *now, &mut time, &mut leases);
    searched.unwrap();
    (leases, looked_at)
}

#[test]
fn a_search_looks_at_no_group_of_others() {
    let mut world = crowded();
    let (nothing, first) = looked_at(&mut world, EXECUTIONS[2]);
    assert_eq!((nothing.len(), first), (0, 0), "it has no URIs");
    let (leases, first) = looked_at(&mut world, EXECUTIONS[1]);
    assert_eq!(leases[0].chg, b"group-250");
    assert!(first > 400, "the first search makes the agenda");
    let now = world.now;
    let World { ks, frontier, .. } = &mut world;
    let when = When::Delay(5000);
    let released = frontier.release(
        ks,
        b"group-250",
        leases[0].token,
        &when,
        &Fate::Unchanged,
        now,
    );
    released.unwrap();
    let (leases, again) = looked_at(&mut world, EXECUTIONS[1]);
    assert_eq!((leases.len(), again), (0, 0));
    // 499 groups of the other execution are due, but the alarm must not ring for them.
    let World { ks, frontier, .. } = &mut world;
    assert_eq!(frontier.wake_for(ks, EXECUTIONS[1]), Ok(Some(now + 5000)));
    let for_any = frontier.wake_at(ks, now).unwrap();
    assert!(for_any.is_some_and(|wake| wake <= now));
    world.now += 5000;
    world.run(pause_execution(EXECUTIONS[0], true, now), usize::MAX);
    let (leases, again) = looked_at(&mut world, EXECUTIONS[1]);
    assert_eq!(leases[0].chg, b"group-250");
    assert_eq!(again, 0, "right after the pause");
    let (leases, again) = looked_at(&mut world, EXECUTIONS[0]);
    assert_eq!((leases.len(), again), (0, 0), "it is paused");
    let World { ks, frontier, .. } = &mut world;
    assert_eq!(frontier.wake_for(ks, EXECUTIONS[0]), Ok(None));
}

#[test]
fn a_group_is_found_in_the_middle_of_the_ready_queue() {
    let mut world = crowded();
    world.run(sweep(world.now, u64::MAX), usize::MAX);
    let ready = world.frontier.keys.once.ready.clone();
    assert_eq!(
        crawlspace_host::keyspace::Keyspace::list_len(&mut world.ks, &ready),
        Ok(500)
    );
    let (leases, _) = looked_at(&mut world, EXECUTIONS[1]);
    assert_eq!(leases[0].chg, b"group-250");
    assert_eq!(
        crawlspace_host::keyspace::Keyspace::list_len(&mut world.ks, &ready),
        Ok(499)
    );
    world.inspect();
}

#[test]
fn groups_behind_a_shared_gate_are_looked_at_when_it_opens() {
    let mut world = crowded();
    let World {
        ks, frontier, now, ..
    } = &mut world;
    let names: Vec<String> = (0..250).map(|n| format!("group-{n:03}")).collect();
    let groups: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
    frontier.group(ks, b"gate", &groups, *now).unwrap();
    let mut last = None;
    for n in 0..400 {
        let (leases, looks) = looked_at(&mut world, EXECUTIONS[0]);
        let Some(lease) = leases.into_iter().next() else {
            last = Some(n);
            assert_eq!(looks, 0);
            break;
        };
        assert!(n == 0 || looks == 0, "{looks} groups behind the gate");
        drop(lease);
    }
    // The searches leased one group of the gate, and all groups without a gate.
    assert_eq!(last, Some(250));
}

#[test]
fn a_plain_frontier_has_no_agendas() {
    let mut world = World::<MemoryKeyspace>::new();
    let World {
        ks, frontier, now, ..
    } = &mut world;
    let mut leases = Vec::new();
    let searched = frontier.next(ks, &ask(b"x", 1), *now, &mut || true, &mut leases);
    assert_eq!(searched, Err(Error::Plain));
}

#[test]
fn a_gate_that_another_execution_opens_early_is_noticed() {
    let mut world = World::<PackedMemory>::new();
    let World {
        ks, frontier, now, ..
    } = &mut world;
    for (execution, chg) in EXECUTIONS.iter().zip([b"a", b"b"]) {
        let uri = Kept {
            chg,
            at: 0,
            depth: 0,
            uri: b"u",
        };
        frontier
            .add_kept(ks, execution, None, &[uri], *now)
            .unwrap();
    }
    frontier.group(ks, b"gate", &[b"a", b"b"], *now).unwrap();
    let (leases, _) = looked_at(&mut world, EXECUTIONS[0]);
    assert_eq!(looked_at(&mut world, EXECUTIONS[1]).0, []);
    let World {
        ks, frontier, now, ..
    } = &mut world;
    let opens = frontier.wake_for(ks, EXECUTIONS[1]);
    assert_eq!(opens, Ok(Some(leases[0].deadline)));
    let (when, token) = (When::Delay(100), leases[0].token);
    let done = Fate::Done {
        execution: EXECUTIONS[0],
        count: None,
    };
    let released = frontier.release(ks, b"a", token, &when, &done, *now);
    released.unwrap();
    let opens = frontier.wake_for(ks, EXECUTIONS[1]);
    assert_eq!(opens, Ok(Some(*now + 100)));
}
