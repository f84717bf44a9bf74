//! Random histories of executions that remember their URLs: a URL is queued or leased at most once, is never queued
//! again unless a client asks for it, and what is known agrees with the queues at every moment.

use std::collections::BTreeSet;

use super::super::add::{Entered, Item};
use super::super::discover::{Asked, Selection, count_in_group, forget_selected};
use super::super::known::{Known, State, UNIT};
use super::super::settle::Settled;
use super::*;

/// Number of different URLs.
const URLS: u8 = 6;

/// A step of a history.
#[derive(Clone, Debug)]
enum Act {
    Other(Op),
    Discover {
        group: usize,
        execution: usize,
        at: i64,
        uri: u8,
        fresh: Option<u8>,
    },
    Settle {
        group: usize,
        execution: usize,
        /// `None` if the URL is done.
        at: Option<i64>,
        uri: u8,
        status: Option<u16>,
    },
    Forget {
        execution: usize,
        uri: u8,
    },
    ForgetSome {
        execution: usize,
        selection: u8,
        steps: usize,
    },
    /// Half an hour passes.
    Wait,
}

fn act() -> impl Strategy<Value = Act> {
    let (group, execution) = (0..GROUPS.len(), 0..EXECUTIONS.len());
    prop_oneof![
        12 => op().prop_filter("URIs that are only counted are refused", |op| {
            !matches!(op, Op::Add { .. })
        }).prop_map(Act::Other),
        8 => (group, execution.clone(), -500_i64..3000, 0..URLS, any::<Option<u8>>()).prop_map(
            |(group, execution, at, uri, fresh)| Act::Discover {
                group, execution, at, uri, fresh: fresh.filter(|fresh| fresh % 2 == 0).map(|fresh| fresh % 6),
            }
        ),
        4 => (
            0..GROUPS.len(), execution.clone(), any::<Option<u8>>(), 0..URLS, any::<Option<bool>>(),
        ).prop_map(|(group, execution, at, uri, status)| Act::Settle {
            group,
            execution,
            at: at.map(|at| i64::from(at) * 16 - 1000),
            uri,
            status: status.map(|is_there| if is_there { 200 } else { 404 }),
        }),
        1 => (execution.clone(), 0..URLS).prop_map(|(execution, uri)| Act::Forget { execution, uri }),
        1 => (execution, 0..12_u8, 1..9_usize).prop_map(
            |(execution, selection, steps)| Act::ForgetSome { execution, selection, steps }
        ),
        1 => Just(Act::Wait),
    ]
}

fn url(uri: u8) -> Vec<u8> {
    format!("http://h/{uri}").into_bytes()
}

/// A frontier whose executions remember: the first alone, the others together.
struct Memory {
    world: World<PackedMemory>,
    /// URLs that were done, by execution, and that no client asked to fetch again.
    done: BTreeSet<(usize, u8)>,
}

impl Memory {
    fn new() -> Memory {
        let mut memory = Memory {
            world: World::new(),
            done: BTreeSet::new(),
        };
        memory.world.uris = 3;
        (0..EXECUTIONS.len()).for_each(|execution| memory.join(execution));
        memory
    }

    fn join(&mut self, execution: usize) {
        let asked = Asked {
            bits: (execution == 0).then_some(128),
            share: (execution > 0).then_some(b"both"),
        };
        let World {
            ks, frontier, now, ..
        } = &mut self.world;
        let joined = frontier.space(ks, EXECUTIONS[execution], &asked, *now);
        joined.unwrap();
    }

    /// Returns the executions that share the space of one.
    fn sharing(execution: usize) -> std::ops::Range<usize> {
        if execution == 0 {
            0..1
        } else {
            1..EXECUTIONS.len()
        }
    }

    fn known(&mut self, execution: usize, uri: u8) -> Option<String> {
        let World { ks, frontier, .. } = &mut self.world;
        let reply = frontier.known(ks, EXECUTIONS[execution], &[&url(uri)]);
        let Ok(Reply::Array(all)) = reply else {
            panic!("{reply:?}")
        };
        match &all[0] {
            Reply::Array(parts) => match &parts[0] {
                Reply::Bulk(state) => Some(String::from_utf8(state.clone()).unwrap()),
                other => panic!("{other:?}"),
            },
            _ => None,
        }
    }

    fn play(&mut self, act: &Act) {
        match *act {
            Act::Other(ref op) => {
                self.world.apply(op);
            }
            Act::Discover {
                group,
                execution,
                at,
                uri,
                fresh,
            } => {
                let before = self.known(execution, uri);
                let World {
                    ks, frontier, now, ..
                } = &mut self.world;
                let text = url(uri);
                let page = [b"page of ", &text[..]].concat();
                let has_key = uri % 3 == 0;
                let kept = Kept {
                    chg: GROUPS[group],
                    at: now.saturating_add_signed(at),
                    depth: 0,
                    uri: if has_key { &page } else { &text },
                };
                let item = Item {
                    url: kept,
                    key: has_key.then_some(&text[..]),
                    payload: (uri % 2 == 0).then_some(&text),
                };
                let fresh = fresh.map(|units| Millis::from(units) * UNIT);
                let options = (None, fresh);
                let entered = frontier
                    .discover(ks, EXECUTIONS[execution], options, &[item], *now)
                    .unwrap()[0];
                match (entered, before.as_deref()) {
                    (Entered::New(_), None) => {}
                    (Entered::New(_), Some("done" | "given-up")) => assert!(fresh.is_some()),
                    (Entered::Known(_), Some("done" | "given-up")) => assert_ne!(fresh, Some(0)),
                    (Entered::Known(_), Some("queued" | "leased")) | (Entered::Refused, _) => {}
                    other => panic!("{other:?}"),
                }
                if let Entered::New(_) = entered {
                    assert_eq!(self.known(execution, uri).unwrap(), "queued");
                    for other in Memory::sharing(execution) {
                        let was_done = self.done.remove(&(other, uri));
                        assert!(!was_done || fresh.is_some(), "queued again");
                    }
                }
            }
            Act::Settle {
                group,
                execution,
                at,
                uri,
                status,
            } => {
                let before = self.known(execution, uri);
                let World {
                    ks, frontier, now, ..
                } = &mut self.world;
                let text = url(uri);
                let item = Settled {
                    chg: GROUPS[group],
                    uri: &text,
                    at: at.map(|at| now.saturating_add_signed(at)),
                };
                let mut settle = || {
                    let settled = frontier.settle(ks, EXECUTIONS[execution], status, &[item], *now);
                    settled.unwrap()[0]
                };
                let first = settle();
                assert_eq!(settle(), first.map(|_| false), "twice equals once");
                if first.is_none() {
                    assert!(at.is_some() || before == self.known(execution, uri));
                    return;
                }
                let state = self.known(execution, uri).unwrap();
                assert_eq!(state, if at.is_some() { "queued" } else { "done" });
                assert!(first == Some(true) || before == Some(state));
                if at.is_some() {
                    for other in Memory::sharing(execution) {
                        self.done.remove(&(other, uri));
                    }
                }
            }
            Act::Forget { execution, uri } => {
                let World {
                    ks, frontier, now, ..
                } = &mut self.world;
                frontier
                    .forget(ks, EXECUTIONS[execution], &[&url(uri)], *now)
                    .unwrap();
                self.forget(execution, |done| done == uri);
            }
            Act::ForgetSome {
                execution,
                selection,
                steps,
            } => {
                let selection = Selection {
                    group: (selection % 3 == 1).then_some(GROUPS[0]),
                    before: (selection % 3 == 2).then_some(self.world.now),
                    state: (selection / 3 > 1).then_some(if selection / 3 == 2 {
                        State::Done
                    } else {
                        State::GivenUp
                    }),
                };
                let job = forget_selected(EXECUTIONS[execution], &selection);
                self.world.run(job, steps);
                (0..EXECUTIONS.len()).for_each(|execution| self.join(execution));
                self.forget(execution, |_| true);
            }
            Act::Wait => self.world.now += 30 * 60_000,
        }
        self.world
            .frontier
            .groups
            .write_back(&mut self.world.ks, None)
            .unwrap();
        self.world.ks.end();
        for item in self.world.granted.iter().flat_map(|lease| &lease.items) {
            if let Some(key) = &item.key {
                assert_eq!(item.uri, [b"page of ", &key[..]].concat());
            }
            if let Some(payload) = &item.payload {
                assert_eq!(payload, item.key.as_ref().unwrap_or(&item.uri));
            }
        }
        self.look();
    }

    fn forget(&mut self, execution: usize, is: impl Fn(u8) -> bool) {
        let gone: Vec<(usize, u8)> = Memory::sharing(execution)
            .flat_map(|execution| (0..URLS).map(move |uri| (execution, uri)))
            .filter(|(_, uri)| is(*uri))
            .collect();
        for (execution, uri) in gone {
            if self.known(execution, uri).is_none() {
                self.done.remove(&(execution, uri));
            }
        }
    }

    /// Checks that a URL that was done is remembered, and records which ones are.
    fn look(&mut self) {
        for (execution, name) in EXECUTIONS.iter().enumerate() {
            let mut all = [0_u64; 4];
            for uri in 0..URLS {
                let state = self.known(execution, uri);
                if self.done.contains(&(execution, uri)) {
                    let is_kept = matches!(state.as_deref(), Some("done"));
                    assert!(is_kept, "{state:?}");
                }
                if state.as_deref() == Some("done") {
                    self.done.insert((execution, uri));
                }
            }
            for group in GROUPS {
                let job = count_in_group(name, group);
                let counts = self.counts(job);
                all.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
            }
            let World { ks, frontier, .. } = &mut self.world;
            let whole = frontier.count_known(ks, name).unwrap();
            assert_eq!(numbers(&whole), all);
        }
    }

    fn counts(&mut self, mut job: Job<PackedMemory>) -> [u64; 4] {
        let World { ks, frontier, .. } = &mut self.world;
        match job.step(frontier, ks, &mut || true).unwrap() {
            Step::Done(reply) => numbers(&reply),
            Step::More => panic!("not done"),
        }
    }
}

fn numbers(reply: &Reply) -> [u64; 4] {
    let Reply::Map(entries) = reply else {
        panic!("{reply:?}")
    };
    std::array::from_fn(|at| match entries[at].1 {
        Reply::Int(n) => n as u64,
        ref other => panic!("{other:?}"),
    })
}

proptest! {
    #[test]
    fn urls_are_queued_once_and_stay_known(acts in prop::collection::vec(act(), 1..120)) {
        let mut memory = Memory::new();
        for act in &acts {
            memory.play(act);
            memory.world.inspect();
        }
        memory.world.drain();
        memory.world.ks.end();
        for execution in 0..EXECUTIONS.len() {
            for uri in 0..URLS {
                let state = memory.known(execution, uri);
                let is_over = matches!(state.as_deref(), None | Some("done" | "given-up"));
                prop_assert!(is_over, "{:?}", state);
            }
        }
    }
}

/// Damage to the record of a URL.
#[derive(Clone, Debug)]
struct Damage {
    execution: usize,
    uri: u8,
    /// The new state; `None` removes the record.
    state: Option<usize>,
    group: usize,
}

fn damage() -> impl Strategy<Value = Damage> {
    let state = prop::option::of(0..State::ALL.len());
    let parts = (0..EXECUTIONS.len(), 0..URLS, state, 0..GROUPS.len());
    parts.prop_map(|(execution, uri, state, group)| Damage {
        execution,
        uri,
        state,
        group,
    })
}

impl Memory {
    fn damage(&mut self, damage: &Damage) {
        let execution = EXECUTIONS[damage.execution];
        let packed = &mut self.world.ks.packed.as_mut().unwrap().packed;
        let found = packed.find_url(execution, &url(damage.uri), None).unwrap();
        let member = packed.spaces().member(execution).unwrap().clone();
        match damage.state {
            None => packed.forget_url(&member.space, &found.print),
            Some(state) => {
                let known = Known {
                    state: State::ALL[state],
                    attempts: 0,
                    status: None,
                    changed: 0,
                    group: packed.group_hash(GROUPS[damage.group]),
                    member: member.number,
                };
                packed.put_url(&member.space, &found.print, known);
            }
        }
    }

    /// Runs a check, and returns the number of problems and of repairs.
    fn check(&mut self, repairs: bool) -> (i64, i64) {
        let World {
            ks, frontier, now, ..
        } = &mut self.world;
        let mut job = check(repairs, *now);
        let report = loop {
            match job.step(frontier, ks, &mut || false).unwrap() {
                Step::Done(Reply::Map(report)) => break report,
                Step::Done(other) => panic!("{other:?}"),
                Step::More => {}
            }
        };
        let number = |name: &str| {
            let field = report.iter().find(|(key, _)| *key == Reply::bulk(name));
            match field {
                Some((_, Reply::Int(n))) => *n,
                _ => 0,
            }
        };
        (number("problems-total"), number("mended"))
    }
}

proptest! {
    #[test]
    fn damaged_records_are_found_and_mended(
        acts in prop::collection::vec(act(), 1..60),
        damages in prop::collection::vec(damage(), 1..8),
    ) {
        let mut memory = Memory::new();
        acts.iter().for_each(|act| memory.play(act));
        prop_assert_eq!(memory.check(false).0, 0);
        prop_assert_eq!(memory.check(true), (0, 0));
        damages.iter().for_each(|damage| memory.damage(damage));
        let (found, _) = memory.check(false);
        let (_, mended) = memory.check(true);
        prop_assert_eq!(found > 0, mended > 0);
        prop_assert_eq!(memory.check(true), (0, 0));
        memory.world.ks.end();
    }
}
