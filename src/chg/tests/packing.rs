//! Runs random histories of a frontier whose storage is converted between commands. Conversions may
//! be interrupted after any number of steps. Every reply, and the plain keys at the end, must equal
//! those of a plain frontier.

use super::super::keys::{OF, ONCE};
use super::super::packed::both::{Both, Home};
use super::super::packed::element::MOVING;
use super::super::packing::move_to;
use super::*;
use crate::storage::Storage as Kind;
use crawlspace_host::keyspace::Keyspace;
use proptest::test_runner::TestRunner;

impl Home<MemoryKeyspace> for Replicated {
    fn open(plain: &MemoryKeyspace, _: &[u8]) -> Self {
        let mut plain = plain.clone();
        rename_documented(&mut plain);
        Replicated {
            plain,
            ..Replicated::default()
        }
    }

    fn store(&mut self) -> crawlspace_host::keyspace::Result<()> {
        Ok(())
    }

    fn remove(&mut self) -> crawlspace_host::keyspace::Result<()> {
        *self = Replicated::default();
        Ok(())
    }
}

type Moved = Both<MemoryKeyspace, Replicated>;

impl Storage for Moved {
    type State = (BTreeMap<Vec<u8>, PlainValue>, Vec<Vec<u8>>);

    fn create() -> Self {
        let mut plain = MemoryKeyspace::default();
        plain.repeat_every = 3;
        Both::open(plain, None, PREFIX, None)
    }

    fn state(&mut self) -> Self::State {
        self.end();
        let (plain, packed) = self.parts();
        let packed = packed.map(|packed| elements(&packed.packed));
        (plain.keys.clone(), packed.unwrap_or_default())
    }

    fn end(&mut self) {
        if let (plain, Some(packed)) = self.parts() {
            packed.end();
            assert!(!packed.packed.is_damaged());
            packed.plain = plain.clone();
        }
    }
}

/// Renames the documented keys to the names that they have during a conversion.
fn rename_documented(plain: &mut MemoryKeyspace) {
    for row in ONCE.iter().filter(|row| row.documented) {
        let name = row.name.as_bytes();
        let documented = [PREFIX, name].concat();
        if let Some(value) = plain.keys.remove(&documented) {
            let moving = [PREFIX, MOVING, name].concat();
            plain.keys.insert(moving, value);
        }
    }
}

/// A complete conversion to a storage, or only its first steps.
#[derive(Clone, Debug)]
struct Move {
    to_packed: bool,
    steps: usize,
}

fn moves() -> impl Strategy<Value = Option<Move>> {
    let steps = prop_oneof![5 => 1..12_usize, 1 => Just(usize::MAX)];
    prop::option::weighted(
        0.5,
        (any::<bool>(), steps).prop_map(|(to_packed, steps)| Move { to_packed, steps }),
    )
}

fn kind(to_packed: bool) -> Kind {
    if to_packed { Kind::Packed } else { Kind::Plain }
}

impl World<Moved> {
    fn make(&mut self, step: &Option<Move>) {
        let Some(Move { to_packed, steps }) = *step else {
            return;
        };
        let checked_every = if steps < 12 { 1 } else { 250 };
        let mut job = move_to(kind(to_packed), self.now);
        for n in 1..=steps {
            let before = self.ks.storage();
            let step = job.step(&mut self.frontier, &mut self.ks, &mut || false);
            if before.1.is_none() || before != self.ks.storage() {
                self.ks.end();
            } else if n == steps || n % checked_every == 0 {
                self.end_slice();
            }
            match step.unwrap() {
                Step::More => {}
                Step::Done(_) => return,
            }
        }
    }

    /// Ends a slice of a conversion, and checks that a replica has moved the same elements.
    fn end_slice(&mut self) {
        let (plain, packed) = self.ks.parts();
        let (plain, packed) = (plain.clone(), packed.unwrap());
        packed.end();
        // The conversion deletes lists of groups as a whole.
        let lists = [PREFIX, OF.before].concat();
        let is_moved = |(key, _): &(&Vec<u8>, &PlainValue)| !key.starts_with(&lists);
        let moved = packed.plain.keys.iter().filter(is_moved);
        assert!(moved.eq(plain.keys.iter().filter(is_moved)));
        packed.plain = plain;
    }

    /// Returns the plain keys that a copy has after `CHG.UNPACK`.
    fn plain_keys(&mut self) -> BTreeMap<Vec<u8>, PlainValue> {
        self.frontier.groups.write_back(&mut self.ks, None).unwrap();
        self.ks.end();
        let (_, to) = self.ks.storage();
        let (plain, packed) = self.ks.parts();
        unpacked(plain.clone(), packed.cloned(), to, self.now)
    }
}

/// Returns the plain keys after `CHG.UNPACK`.
pub fn unpacked(
    plain: MemoryKeyspace,
    packed: Option<Replicated>,
    moving_to: Option<Kind>,
    now: Millis,
) -> BTreeMap<Vec<u8>, PlainValue> {
    let mut keys = Both::open(plain, packed, PREFIX, moving_to);
    let mut frontier = Frontier::open(&mut keys, PREFIX);
    let mut job = move_to(Kind::Plain, now);
    let done = job.step(&mut frontier, &mut keys, &mut || true);
    assert!(matches!(done, Ok(Step::Done(_))), "{done:?}");
    assert_eq!(keys.storage(), (Kind::Plain, None));
    without_empty_total(keys.into_plain().keys)
}

proptest! {
    #[test]
    fn a_move_changes_no_reply_and_no_plain_key(
        ops in prop::collection::vec((op(), moves()), 1..120)
    ) {
        let (mut plain, mut moved) = (World::<MemoryKeyspace>::new(), World::<Moved>::new());
        for (op, step) in &ops {
            let op = &op.whole();
            plain.apply(op);
            moved.apply(op);
            moved.ks.end();
            moved.make(step);
            prop_assert_eq!(&plain.granted, &moved.granted, "after {:?}", op);
            prop_assert_eq!(plain.shown(), moved.shown(), "after {:?}", op);
            prop_assert_eq!(plain.plain_keys(), moved.plain_keys(), "after {:?}", op);
        }
    }

    #[test]
    fn a_frontier_that_moves_keeps_every_promise(
        ops in prop::collection::vec((op(), moves()), 1..100)
    ) {
        let mut world = World::<Moved>::new();
        for (op, step) in &ops {
            world.make(step);
            world.apply(op);
            world.ks.end();
            world.inspect();
        }
        world.drain();
    }
}

fn large_group() -> impl Strategy<Value = Op> {
    let executions = prop_oneof![Just(2_usize), 60..90_usize];
    (0..2_usize, 300..400_usize, executions).prop_map(|(group, uris, executions)| Op::AddMany {
        group,
        uris,
        executions,
    })
}

fn long_moves() -> impl Strategy<Value = Option<Move>> {
    let steps = prop_oneof![5 => 1..300_usize, 1 => Just(usize::MAX)];
    prop::option::weighted(
        0.6,
        (any::<bool>(), steps).prop_map(|(to_packed, steps)| Move { to_packed, steps }),
    )
}

/// Runs a sixteenth of the usual number of cases, because each takes a quarter of a second. (`proptest!` would run the
/// number in PROPTEST_CASES instead, which is the number for short histories.)
#[test]
fn large_groups_move_in_parts_and_nobody_notices() {
    let usual = ProptestConfig::default();
    let mut runner = TestRunner::new(ProptestConfig {
        cases: usual.cases.div_ceil(16),
        ..usual
    });
    let histories = (
        prop::collection::vec(large_group(), 2..4),
        prop::collection::vec((op(), long_moves()), 10..30),
    );
    let result = runner.run(&histories, |(many, ops)| {
        let (mut plain, mut moved) = (World::<MemoryKeyspace>::new(), World::<Moved>::new());
        let many = many.into_iter().map(|op| (op, None));
        for (op, step) in many.chain(ops) {
            let op = &op.whole();
            plain.apply(op);
            moved.apply(op);
            moved.ks.end();
            moved.make(&step);
            prop_assert_eq!(&plain.granted, &moved.granted, "after {:?}", op);
            prop_assert_eq!(plain.shown(), moved.shown(), "after {:?}", op);
        }
        prop_assert_eq!(plain.plain_keys(), moved.plain_keys());
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

/// Adds every kind of element that a frontier can have.
fn full() -> World<Moved> {
    let mut world = World::<Moved>::new();
    for group in 0..4 {
        for uri in 0..5 {
            let execution = usize::from(uri) % 3;
            world.apply(&Op::AddKept {
                group,
                execution,
                at: 0,
                depth: 0,
                uri,
            });
            world.apply(&Op::Add {
                group,
                execution,
                at: 100,
            });
        }
        world.apply(&Op::Gate { group, gate: 1 });
    }
    world.apply(&Op::Next { count: 2 });
    world.apply(&Op::Pause {
        what: 1,
        pause: true,
    });
    world
}

#[test]
fn a_move_ends_in_the_other_storage_and_leaves_nothing_behind() {
    let mut world = full();
    let before = world.plain_keys();
    let mut steps = 0;
    for to in [Kind::Packed, Kind::Plain] {
        let mut job = move_to(to, world.now);
        let reply = loop {
            let step = job.step(&mut world.frontier, &mut world.ks, &mut || false);
            world.ks.end();
            match step.unwrap() {
                Step::More => steps += 1,
                Step::Done(reply) => break reply,
            }
            assert_eq!(world.plain_keys(), before);
        };
        assert_eq!(reply, Reply::Int(4));
        assert_eq!(world.ks.storage(), (to, None));
        if to == Kind::Packed {
            assert!(world.ks.parts().0.keys.is_empty());
        }
    }
    assert!(steps > 40, "{steps}");
    assert_eq!(without_empty_total(world.ks.into_plain().keys), before);
}

/// Runs a job until it is done or has moved this number of groups, and returns its progress after each step.
fn reported(world: &mut World<Moved>, to: Kind, groups: u64) -> Vec<(u64, u64)> {
    let mut job = move_to(to, world.now);
    let mut reported = Vec::new();
    loop {
        let step = job.step(&mut world.frontier, &mut world.ks, &mut || false);
        world.ks.end();
        let completion = job.completion();
        reported.push((completion.done, completion.total));
        if completion.done == groups || step.unwrap() != Step::More {
            return reported;
        }
    }
}

#[test]
fn a_move_reports_the_groups_that_it_moved_and_a_resumed_one_the_rest() {
    let mut world = full();
    for to in [Kind::Packed, Kind::Plain] {
        let first = reported(&mut world, to, 2);
        let rest = reported(&mut world, to, u64::MAX);
        assert!(first.is_sorted() && rest.is_sorted(), "{first:?} {rest:?}");
        let (begun, resumed) = (first[0].1, rest[0].1);
        assert_eq!(first.last(), Some(&(2, begun)));
        assert_eq!((begun, resumed), (4, 2), "{to:?}");
        // The first job may have moved one more group before it was abandoned.
        assert!(
            matches!(rest.last(), Some(&(1..=2, all)) if all == resumed),
            "{rest:?}"
        );
    }
}

#[test]
fn a_second_move_to_the_same_storage_moves_nothing() {
    let mut world = full();
    for to in [Kind::Packed, Kind::Packed, Kind::Plain, Kind::Plain] {
        let there = world.ks.storage() == (to, None);
        let mut job = move_to(to, world.now);
        let done = job.step(&mut world.frontier, &mut world.ks, &mut || true);
        let groups = if there { 0 } else { 4 };
        assert_eq!(done, Ok(Step::Done(Reply::Int(groups))));
    }
}

#[test]
fn what_plain_clients_damaged_is_mended_by_packing() {
    type Damage = fn(&mut MemoryKeyspace);
    let damages: [Damage; 4] = [
        |ks| {
            ks.delete(&b"{f}:CHG:a".to_vec()).unwrap();
        },
        |ks| {
            ks.hash_set(&b"{f}:CHG:a".to_vec(), b"c", b"0").unwrap();
        },
        |ks| {
            ks.hash_del(&b"{f}:CHG:b.example".to_vec(), b"s").unwrap();
        },
        |ks| {
            ks.hash_set(&b"{f}:CHG:made".to_vec(), b"n", b"5").unwrap();
            ks.hash_set(&b"{f}:CHG:made".to_vec(), b"c", b"2").unwrap();
            ks.zset_add(&b"{f}:chg_wait".to_vec(), b"made", 5.0)
                .unwrap();
        },
    ];
    for (n, damage) in damages.into_iter().enumerate() {
        let mut world = full();
        damage(world.ks.parts().0);
        world.frontier.invalidate_all();
        let mut job = move_to(Kind::Packed, world.now);
        let done = job.step(&mut world.frontier, &mut world.ks, &mut || true);
        assert!(matches!(done, Ok(Step::Done(_))), "{n}: {done:?}");
        world
            .frontier
            .groups
            .write_back(&mut world.ks, None)
            .unwrap();
        world.ks.end();
        world.inspect();
    }
}

#[test]
fn hash_that_a_plain_client_writes_for_a_moved_group_is_ignored() {
    let mut world = full();
    world.run(move_to(Kind::Packed, world.now), usize::MAX);
    let mut job = move_to::<Moved>(Kind::Plain, world.now);
    job.step(&mut world.frontier, &mut world.ks, &mut || false)
        .unwrap();
    drop(job);
    let before = world.plain_keys();
    world
        .ks
        .parts()
        .0
        .hash_set(&b"{f}:CHG:c d".to_vec(), b"c", b"77")
        .unwrap();
    assert_eq!(world.plain_keys(), before);
}

#[test]
fn plain_key_beside_a_packed_frontier_is_refused() {
    let mut world = full();
    world.run(move_to(Kind::Packed, world.now), usize::MAX);
    let state = world.ks.state();
    let key = b"{f}:chg_idle".to_vec();
    world.ks.parts().0.zset_add(&key, b"x", 1.0).unwrap();
    let mut job = move_to(Kind::Plain, world.now);
    let error = job.step(&mut world.frontier, &mut world.ks, &mut || true);
    assert!(
        error
            .unwrap_err()
            .to_string()
            .starts_with("MIXED key '{f}:chg_idle'")
    );
    world.ks.parts().0.delete(&key).unwrap();
    assert_eq!(world.ks.state(), state);
}
