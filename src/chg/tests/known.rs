//! Runs random histories of executions that remember their URLs. Checks that a URL is queued or leased at
//! most once, that it is not queued again unless a client requests this, and that the records always agree
//! with the queues.

use std::collections::BTreeSet;

use super::super::add::{Entered, Item};
use super::super::discover::{
    Asked, Selection, count_in_group, count_known, forget_selected, known,
};
use super::super::known::{Known, State, UNIT};
use super::super::limiting::limit_done;
use super::super::listing::{UrlCursor, list_urls};
use super::super::packed::Ended;
use super::super::settle::Settled;
use super::*;

/// Number of different URLs.
const URLS: u8 = 6;
/// Payload that a URL gets when it is scheduled.
const NEW: &[u8] = b"new";

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
        payload: Option<&'static [u8]>,
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
    /// Sets a limit of done URLs; 0 removes the limit.
    Limit {
        group: usize,
        execution: usize,
        most: u64,
    },
    NextFor {
        execution: usize,
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
            payload: status.map(|is_there| if is_there { NEW } else { b"" }),
        }),
        1 => (execution.clone(), 0..URLS).prop_map(|(execution, uri)| Act::Forget { execution, uri }),
        2 => (0..GROUPS.len(), execution.clone(), 0..4_u64).prop_map(
            |(group, execution, most)| Act::Limit { group, execution, most }
        ),
        4 => execution.clone().prop_map(|execution| Act::NextFor { execution }),
        1 => (execution, 0..12_u8, 1..9_usize).prop_map(
            |(execution, selection, steps)| Act::ForgetSome { execution, selection, steps }
        ),
        1 => Just(Act::Wait),
    ]
}

fn url(uri: u8) -> Vec<u8> {
    format!("http://h/{uri}").into_bytes()
}

/// A frontier whose executions remember their URLs: the first execution has its own space, and the
/// other executions share a space.
struct Memory {
    world: World<PackedMemory>,
    /// URLs that are done, by execution, excluding URLs that a client asked to fetch again.
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
            text: (execution == 0).then_some(true),
        };
        let World {
            ks, frontier, now, ..
        } = &mut self.world;
        let joined = frontier.space(ks, EXECUTIONS[execution], &asked, *now);
        joined.unwrap();
    }

    /// Returns the executions that share the space of an execution.
    fn sharing(execution: usize) -> std::ops::Range<usize> {
        if execution == 0 {
            0..1
        } else {
            1..EXECUTIONS.len()
        }
    }

    fn known(&mut self, execution: usize, uri: u8) -> Option<String> {
        let World { ks, .. } = &mut self.world;
        let reply = known(ks, EXECUTIONS[execution], &[&url(uri)]);
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

    fn payload(&mut self, execution: usize, uri: u8) -> Option<Vec<u8>> {
        let found = self.world.ks.packed(|packed| {
            let execution = EXECUTIONS[execution];
            let print = packed.find_url(execution, &url(uri), None)?.print;
            let (_, space) = packed.spaces().of(execution)?;
            space.extra(&print).payload.map(<[u8]>::to_vec)
        });
        found.unwrap().flatten()
    }

    fn play(&mut self, act: &Act) {
        match *act {
            Act::Other(ref op @ (Op::Next { .. } | Op::NextOf { .. })) => {
                let (reached, before) = (self.reached(), self.world.granted.len());
                self.world.apply(op);
                self.check_granted(&reached, before);
            }
            Act::Other(ref op) => self.world.apply(op),
            Act::NextFor { execution } => {
                let name = EXECUTIONS[execution];
                let (reached, before) = (self.reached(), self.world.granted.len());
                let is_due = self.world.has_group_for(name, self.world.now);
                let granted = self.world.next_for(name, 1, true);
                assert!(granted > 0 || !is_due, "a due group is not found");
                self.check_granted(&reached, before);
            }
            Act::Limit {
                group,
                execution,
                most,
            } => {
                let limit = (EXECUTIONS[execution], most);
                let limits = Limits::default();
                let job = limit_done(GROUPS[group], limit, &limits, self.world.now);
                self.world.run(job, usize::MAX);
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
                payload,
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
                    payload,
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
                if let (Some(_), Some(payload)) = (at, payload) {
                    let stored = self.payload(execution, uri);
                    assert_eq!(stored.as_deref().unwrap_or_default(), payload);
                }
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
                let first = item.key.as_ref().unwrap_or(&item.uri);
                assert!(payload == first || payload == NEW, "{payload:?}");
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

    /// Checks that done URLs are remembered, and records the done URLs.
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
            let mut known: Vec<_> = (0..URLS)
                .filter_map(|uri| Some((url(uri), self.known(execution, uri)?)))
                .collect();
            if execution > 0 {
                // These executions share a space that does not keep texts.
                known.retain(|(_, state)| matches!(&state[..], "queued" | "leased"));
                let World { ks, .. } = &mut self.world;
                let listed = list_urls(ks, name, Some(State::Done), None, 9);
                assert!(matches!(listed, Err(Error::Known(_))));
            }
            let mut listed = self.listed(name, None);
            if execution == 0 {
                listed.extend(self.listed(name, Some(State::Done)));
                listed.extend(self.listed(name, Some(State::GivenUp)));
                listed.sort();
                assert_eq!(listed, known);
            } else {
                assert!(listed.iter().all(|listed| known.contains(listed)));
            }
            let World { ks, .. } = &mut self.world;
            let whole = count_known(ks, name).unwrap();
            assert_eq!(numbers(&whole), all);
        }
    }

    /// Returns the names and states of the URLs that `CHG.URIS` lists for a state.
    fn listed(&mut self, execution: &[u8], state: Option<State>) -> Vec<(Vec<u8>, String)> {
        let (mut listed, mut from) = (Vec::new(), None);
        loop {
            let World { ks, .. } = &mut self.world;
            let page = list_urls(ks, execution, state, from, 2).unwrap();
            let Reply::Array(page) = page else {
                panic!("{page:?}")
            };
            let [Reply::Bulk(next), Reply::Array(urls)] = &page[..] else {
                panic!("{page:?}")
            };
            assert!(urls.len() <= 2);
            for of in urls {
                let Reply::Array(of) = of else {
                    panic!("{of:?}")
                };
                let name = match (&of[1], &of[2]) {
                    (Reply::Bulk(uri), Reply::Bulk(key)) => {
                        assert_eq!(*uri, [b"page of ", &key[..]].concat());
                        key
                    }
                    (Reply::Bulk(uri), Reply::Nil) => uri,
                    other => panic!("{other:?}"),
                };
                let Reply::Bulk(state) = &of[4] else {
                    panic!("{of:?}")
                };
                listed.push((name.clone(), String::from_utf8(state.clone()).unwrap()));
            }
            if next == b"0" {
                // `Op::AddKept` uses different names.
                listed.retain(|(name, _)| name.starts_with(b"http"));
                listed.sort();
                return listed;
            }
            from = Some(UrlCursor::parse(next).unwrap());
        }
    }

    /// Returns the groups and executions whose limit is reached, from counts of all URLs.
    fn reached(&mut self) -> BTreeSet<(Vec<u8>, Vec<u8>)> {
        let mut reached = BTreeSet::new();
        for group in GROUPS {
            for execution in EXECUTIONS {
                let of = self.world.packed().limits().of(group);
                let limit = of.filter(|(name, ..)| *name == execution).last();
                let most = limit.map(|(_, most, _)| most);
                let [_, _, done, _] = self.counts(count_in_group(execution, group));
                if most.is_some_and(|most| done >= most) {
                    reached.insert((group.to_vec(), execution.to_vec()));
                }
            }
        }
        reached
    }

    /// Checks that no lease contains a URL of an execution that has reached its limit.
    fn check_granted(&self, reached: &BTreeSet<(Vec<u8>, Vec<u8>)>, from: usize) {
        for lease in &self.world.granted[from..] {
            if let Some(execution) = &lease.execution {
                let place = (lease.chg.clone(), execution.clone());
                assert!(!reached.contains(&place), "leased beyond the limit");
            }
        }
    }

    /// Removes all limits.
    fn lift_limits(&mut self) {
        for group in GROUPS {
            for execution in EXECUTIONS {
                let job = limit_done(group, (execution, 0), &Limits::default(), self.world.now);
                self.world.run(job, usize::MAX);
            }
        }
        assert!(self.world.packed().limits().is_empty());
    }

    fn counts(&mut self, mut job: Job<PackedMemory>) -> [u64; 4] {
        let World { ks, frontier, .. } = &mut self.world;
        match job.step(frontier, ks, &mut || true).unwrap() {
            Step::Done(reply) => numbers(&reply),
            Step::More => panic!("not done"),
        }
    }
}

pub(super) fn numbers(reply: &Reply) -> [u64; 4] {
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
        memory.lift_limits();
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

#[test]
fn wrong_count_of_a_limit_is_found_and_repaired() {
    let mut memory = Memory::new();
    for uri in 0..URLS {
        memory.play(&Act::Settle {
            group: 0,
            execution: 1,
            at: None,
            uri,
            status: None,
            payload: None,
        });
    }
    memory.play(&Act::Limit {
        group: 0,
        execution: 1,
        most: 2,
    });
    let World {
        ks, frontier, now, ..
    } = &mut memory.world;
    let hash = ks
        .packed(|packed| {
            let hash = packed.group_hash(GROUPS[0]);
            packed.set_tally(EXECUTIONS[1], hash, [9; 4]);
            hash
        })
        .unwrap()
        .unwrap();
    for problems in [1, 0] {
        let step = check(true, *now).step(frontier, ks, &mut || true);
        let Ok(Step::Done(Reply::Map(report))) = step else {
            panic!("{step:?}")
        };
        let total = report
            .iter()
            .find(|(name, _)| *name == Reply::bulk("problems-total"));
        assert_eq!(total.unwrap().1, Reply::count(problems));
    }
    let counts = ks.packed(|packed| packed.limits().counts(EXECUTIONS[1], hash));
    assert_eq!(counts, Ok(Some(Some([0, 0, URLS.into(), 0]))));
}

/// Damage to the record of a URL.
#[derive(Clone, Debug)]
struct Damage {
    execution: usize,
    uri: u8,
    /// The new state; `None` removes the record.
    state: Option<usize>,
    group: usize,
    /// True if the URL is then discovered again, so that it may be in two queues. (The queue of a group contains a URL
    /// only once.)
    again: bool,
}

fn damage() -> impl Strategy<Value = Damage> {
    let state = prop::option::of(0..State::ALL.len());
    let parts = (
        0..EXECUTIONS.len(),
        0..URLS,
        state,
        0..GROUPS.len(),
        any::<bool>(),
    );
    parts.prop_map(|(execution, uri, state, group, again)| Damage {
        execution,
        uri,
        state,
        group,
        again,
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
        let World { ks, frontier, .. } = &mut self.world;
        let loaded = frontier.groups.load(ks, GROUPS[damage.group]).unwrap();
        let kept = frontier.groups.kept(ks, &loaded, |kept| {
            kept.contains(execution, &url(damage.uri))
        });
        if damage.again && kept.unwrap() != Some(true) {
            self.queue(damage.execution, damage.group, damage.uri);
        }
    }

    /// Queues a URL with a payload, even if the records are damaged.
    fn queue(&mut self, execution: usize, group: usize, uri: u8) {
        let text = url(uri);
        let item = Item {
            payload: Some(&text),
            ..Item::of(Kept {
                chg: GROUPS[group],
                at: 0,
                depth: 0,
                uri: &text,
            })
        };
        let World {
            ks, frontier, now, ..
        } = &mut self.world;
        let queued = frontier.discover(ks, EXECUTIONS[execution], (None, None), &[item], *now);
        queued.unwrap();
        frontier.groups.write_back(ks, None).unwrap();
    }

    /// Runs a check, and returns the number of problems and of repairs.
    fn check(&mut self, repairs: bool) -> (i64, i64) {
        let [problems, mended] = self.report(repairs, ["problems-total", "mended"]);
        (problems, mended)
    }

    /// Runs a check, and returns these numbers of its report; 0 for a missing number.
    fn report<const N: usize>(&mut self, repairs: bool, names: [&str; N]) -> [i64; N] {
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
        names.map(|name| {
            let field = report.iter().find(|(key, _)| *key == Reply::bulk(name));
            match field {
                Some((_, Reply::Int(n))) => *n,
                _ => 0,
            }
        })
    }

    /// Checks that one problem with this name is found and mended.
    fn assert_mended(&mut self, name: &str) {
        let names = [name, "problems-total", "mended"];
        assert_eq!(self.report(false, names), [1, 1, 0]);
        assert_eq!(self.report(true, names), [1, 1, 1]);
        assert_eq!(self.report(true, names), [0; 3]);
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

/// A wrong record of another execution in the same space occupies the fingerprint of a URL, so the record of the URL is
/// under another fingerprint.
#[test]
fn a_record_behind_a_wrong_one_is_mended_in_one_pass() {
    let mut memory = Memory::new();
    memory.play(&Act::Discover {
        group: 2,
        execution: 2,
        at: 0,
        uri: 4,
        fresh: None,
    });
    for (execution, group) in [(1, 0), (2, 2)] {
        memory.damage(&Damage {
            execution,
            uri: 4,
            state: Some(0),
            group,
            again: false,
        });
    }
    assert!(memory.check(true).0 > 0);
    assert_eq!(memory.check(true), (0, 0));
    memory.world.ks.end();
}

/// A URL is in two queues of a damaged frontier: in two groups, or for two executions that share a space.
#[test]
fn a_url_in_two_queues_is_left_in_one() {
    for (executions, groups, is_leased) in [
        ([0, 0], [0, 1], false),
        ([0, 0], [1, 0], false),
        ([0, 0], [0, 1], true),
        ([1, 1], [1, 0], true),
        ([1, 2], [0, 1], false),
        ([2, 1], [0, 1], true),
        ([1, 2], [0, 0], false),
        ([2, 1], [0, 0], false),
    ] {
        let mut memory = Memory::new();
        memory.queue(executions[0], groups[0], 2);
        if is_leased {
            memory.play(&Act::NextFor {
                execution: executions[0],
            });
        }
        memory.damage(&Damage {
            execution: executions[0],
            uri: 2,
            state: None,
            group: 0,
            again: false,
        });
        memory.queue(executions[1], groups[1], 2);
        let names = ["problems-total", "total", "sum-groups", "sum-executions"];
        assert!(memory.report(false, names)[0] > 0);
        assert!(memory.report(true, names)[0] > 0);
        assert_eq!(
            memory.report(false, names),
            [0, 1, 1, 1],
            "{executions:?} {groups:?}"
        );
        assert_eq!(memory.check(true), (0, 0));
        assert_eq!(memory.known(executions[1], 2).as_deref(), Some("queued"));
        assert_eq!(memory.payload(executions[1], 2), Some(url(2)));
        memory.play(&Act::NextFor {
            execution: executions[1],
        });
        assert_eq!(memory.known(executions[1], 2).as_deref(), Some("leased"));
        memory.world.ks.end();
    }
}

#[test]
fn wrong_texts_are_found_and_mended() {
    let mut memory = Memory::new();
    for uri in 0..3 {
        memory.play(&Act::Settle {
            group: 0,
            execution: 0,
            at: None,
            uri,
            status: None,
            payload: None,
        });
    }
    memory.play(&Act::Discover {
        group: 0,
        execution: 0,
        at: 0,
        uri: 4,
        fresh: None,
    });
    let text = |group: usize, uri: &[u8]| {
        let (chg, uri) = (GROUPS[group].to_vec(), uri.to_vec());
        Some(Ended {
            chg,
            key: None,
            uri,
        })
    };
    let damages = [
        // The text is missing, belongs to another URL, or contains another group.
        (0, None, None),
        (1, text(0, b"http://other/"), None),
        (2, text(1, &url(2)), Some("done")),
        // The URL is queued, or is not known.
        (4, text(0, &url(4)), Some("queued")),
        (5, text(0, &url(5)), None),
    ];
    for (uri, text, state) in damages {
        let packed = &mut memory.world.ks.packed.as_mut().unwrap().packed;
        packed.damage_text(EXECUTIONS[0], &url(uri), text.as_ref());
        memory.assert_mended("wrong-texts");
        assert_eq!(memory.known(0, uri).as_deref(), state, "{uri}");
    }
    assert_eq!(memory.listed(EXECUTIONS[0], Some(State::Done)).len(), 1);
    memory.world.ks.end();
}

#[test]
fn wrong_agendas_are_found_and_mended() {
    let mut memory = Memory::new();
    for (group, uri) in [(0, 0), (1, 1), (2, 2), (3, 4)] {
        memory.play(&Act::Discover {
            group,
            execution: 1,
            at: 0,
            uri,
            fresh: None,
        });
    }
    // The search creates the agenda, and leases a URL.
    memory.play(&Act::NextFor { execution: 1 });
    assert_eq!(memory.check(true), (0, 0));
    for at in [None, Some(0), Some(u64::MAX)] {
        for group in GROUPS {
            let packed = &mut memory.world.ks.packed.as_mut().unwrap().packed;
            packed.damage_agenda(EXECUTIONS[1], group, at);
            memory.assert_mended("wrong-agendas");
        }
    }
    memory.play(&Act::NextFor { execution: 1 });
    assert!(memory.world.granted.len() > 1);
}
