//! Runs random histories on plain maps; other commands run between the steps of jobs. Checks that
//! only one client at a time fetches from a host, that no client fetches too soon, and that no URI
//! is lost or counted twice.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::chg::store::{MemoryKeyspace, Store};
use crawlspace_host::keyspace::Keyspace;
use crawlspace_host::keyspace::memory::Plain;
use crawlspace_host::reply::Reply;

use super::Token;
use super::add::{Kept, Queued};
use super::check::check;
use super::dropping::{drop_execution, empty_group};
use super::error::Error;
use super::frontier::Frontier;
use super::hold::{Limits, pause_execution};
use super::job::{Job, Step};
use super::lease::{Fate, ReleaseReply, When};
use super::moving::move_group;
use super::next::{Ask, Lease};
use super::packed::Packed;
use super::packed::either::{Either, Holder};
use super::packed::element::{Plain as PlainKeys, PlainNames};
use super::sweep::sweep;
use super::time::Millis;

mod asked;
mod known;
mod leases;
mod packing;

/// The value of a plain key.
type PlainValue = Plain<super::uris::Uris>;

const GROUPS: [&[u8]; 4] = [b"a", b"b.example", b"c d", b"\xff\0e"];
const EXECUTIONS: [&[u8]; 3] = [b"x", b"y y", b"\0z"];
const PREFIX: &[u8] = b"{f}:";
const LEASE: Millis = 1000;

#[derive(Clone, Debug)]
enum Op {
    Add {
        group: usize,
        execution: usize,
        at: i64,
    },
    AddKept {
        group: usize,
        execution: usize,
        at: i64,
        depth: u8,
        uri: u8,
    },
    Next {
        count: usize,
    },
    NextOf {
        group: usize,
    },
    Release {
        which: usize,
        delay: u16,
        fate: u8,
        again: bool,
    },
    Extend {
        which: usize,
        ms: u16,
    },
    Pass {
        ms: u16,
    },
    Block {
        group: usize,
        ms: i64,
    },
    Pause {
        what: u8,
        pause: bool,
    },
    Limit {
        group: usize,
        parallel: u8,
        gap: u16,
    },
    Budget {
        group: usize,
        left: Option<u8>,
    },
    Gate {
        group: usize,
        gate: u8,
    },
    Sweep {
        steps: usize,
    },
    Drop {
        execution: usize,
        steps: usize,
    },
    Empty {
        group: usize,
        steps: usize,
    },
    Move {
        from: usize,
        to: usize,
        steps: usize,
    },
    Check {
        steps: usize,
    },
    Expired,
    /// The process restarts: only the keys remain.
    Restart,
    /// Adds many stored URIs; the executions take turns.
    AddMany {
        group: usize,
        uris: usize,
        executions: usize,
    },
}

impl Op {
    /// Returns the operation with all steps of its job.
    fn whole(&self) -> Op {
        let mut op = self.clone();
        match &mut op {
            Op::Sweep { steps }
            | Op::Drop { steps, .. }
            | Op::Empty { steps, .. }
            | Op::Move { steps, .. }
            | Op::Check { steps } => *steps = usize::MAX,
            _ => {}
        }
        op
    }
}

fn op() -> impl Strategy<Value = Op> {
    let group = 0..GROUPS.len();
    let execution = 0..EXECUTIONS.len();
    let at = -500_i64..3000;
    prop_oneof![
        6 => (group.clone(), execution.clone(), at.clone())
            .prop_map(|(group, execution, at)| Op::Add { group, execution, at }),
        6 => (group.clone(), execution.clone(), at, 0..3_u8, 0..6_u8).prop_map(
            |(group, execution, at, depth, uri)| Op::AddKept { group, execution, at, depth, uri }
        ),
        10 => (1..3_usize).prop_map(|count| Op::Next { count }),
        3 => group.clone().prop_map(|group| Op::NextOf { group }),
        10 => (0..6_usize, 0..1500_u16, 0..4_u8, any::<bool>())
            .prop_map(|(which, delay, fate, again)| Op::Release { which, delay, fate, again }),
        1 => (0..6_usize, 1..2000_u16).prop_map(|(which, ms)| Op::Extend { which, ms }),
        8 => (0..900_u16).prop_map(|ms| Op::Pass { ms }),
        1 => (group.clone(), -100_i64..2000).prop_map(|(group, ms)| Op::Block { group, ms }),
        1 => (0..8_u8, any::<bool>()).prop_map(|(what, pause)| Op::Pause { what, pause }),
        1 => (group.clone(), 1..4_u8, 0..500_u16)
            .prop_map(|(group, parallel, gap)| Op::Limit { group, parallel, gap }),
        1 => (group.clone(), any::<Option<u8>>())
            .prop_map(|(group, left)| Op::Budget { group, left: left.map(|n| n % 4) }),
        1 => (group.clone(), 0..3_u8).prop_map(|(group, gate)| Op::Gate { group, gate }),
        1 => (1..4_usize).prop_map(|steps| Op::Sweep { steps }),
        1 => (execution, 1..9_usize).prop_map(|(execution, steps)| Op::Drop { execution, steps }),
        1 => (group.clone(), 1..9_usize).prop_map(|(group, steps)| Op::Empty { group, steps }),
        1 => (group.clone(), group, 1..4_usize)
            .prop_map(|(from, to, steps)| Op::Move { from, to, steps }),
        1 => (1..30_usize).prop_map(|steps| Op::Check { steps }),
        1 => Just(Op::Expired),
        1 => Just(Op::Restart),
    ]
}

/// The limits of a group, and the leases and releases that must respect these limits.
#[derive(Default)]
struct Watched {
    leases: BTreeMap<Token, Millis>,
    not_before: Millis,
}

/// A key space of tests whose contents can be compared.
trait Storage: Store {
    type State: Clone + PartialEq + std::fmt::Debug;

    fn create() -> Self;
    /// Returns all stored data.
    fn state(&mut self) -> Self::State;
    /// Ends a command.
    fn end(&mut self) {}
}

impl Storage for MemoryKeyspace {
    type State = BTreeMap<Vec<u8>, PlainValue>;

    fn create() -> Self {
        let mut ks = MemoryKeyspace::default();
        ks.repeat_every = 3;
        ks
    }

    fn state(&mut self) -> Self::State {
        self.keys.clone()
    }
}

/// A packed frontier with a replica.
#[derive(Clone, Default)]
struct Replicated {
    packed: Packed,
    replica: Packed,
    /// The logs of all commands so far.
    logs: Vec<Vec<u8>>,
    /// The plain keys that the replica had before the last command.
    plain: MemoryKeyspace,
}

impl Holder for Replicated {
    fn with<T>(
        &mut self,
        act: impl FnOnce(&mut Packed) -> T,
    ) -> crawlspace_host::keyspace::Result<T> {
        Ok(act(&mut self.packed))
    }
}

fn elements(packed: &Packed) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    packed.elements(&mut |parts| all.push(parts.concat()));
    all.sort();
    all
}

type PackedMemory = Either<MemoryKeyspace, Replicated>;

impl Storage for PackedMemory {
    type State = Vec<Vec<u8>>;

    fn create() -> Self {
        Either {
            plain: MemoryKeyspace::default(),
            packed: Some(Replicated::default()),
        }
    }

    fn state(&mut self) -> Self::State {
        self.end();
        elements(&self.packed.as_ref().unwrap().packed)
    }

    /// Checks that a replica that applied the log, and a copy that was loaded from a file, have the
    /// same contents.
    fn end(&mut self) {
        self.packed.as_mut().unwrap().end();
    }
}

impl Replicated {
    fn end(&mut self) {
        let Replicated {
            packed,
            replica,
            logs,
            plain,
        } = self;
        logs.push(packed.flush().unwrap_or_default());
        let names = PlainNames::new(plain, PREFIX);
        let mut keys = PlainKeys {
            ks: plain,
            names: &names,
        };
        replica
            .apply(logs.last().unwrap(), Some(&mut keys))
            .unwrap();
        packed.verify();
        replica.verify();
        let all = elements(packed);
        let of_replica = elements(replica);
        let more: Vec<_> = all
            .iter()
            .filter(|part| !of_replica.contains(part))
            .collect();
        let less: Vec<_> = of_replica
            .iter()
            .filter(|part| !all.contains(part))
            .collect();
        assert_eq!((more, less), (Vec::new(), Vec::new()));
        let mut loaded = Packed::default();
        packed.save(&mut |chunk| loaded.load(chunk).unwrap());
        assert_eq!(all, elements(&loaded));
        loaded.verify();
    }
}

/// Removes a total of 0, which is equivalent to a missing total.
fn without_empty_total(mut keys: BTreeMap<Vec<u8>, PlainValue>) -> BTreeMap<Vec<u8>, PlainValue> {
    let total = [PREFIX, b"QCT"].concat();
    let empty = Plain::Text(b"0".to_vec());
    keys.retain(|key, value| *key != total || *value != empty);
    keys
}

impl World<MemoryKeyspace> {
    /// Returns the keys.
    fn plain_keys(&mut self) -> BTreeMap<Vec<u8>, PlainValue> {
        let written = self.frontier.groups.write_back(&mut self.ks, None);
        written.unwrap();
        without_empty_total(self.ks.keys.clone())
    }
}

impl World<PackedMemory> {
    /// Returns the keys that the frontier would have in plain storage.
    fn plain_keys(&mut self) -> BTreeMap<Vec<u8>, PlainValue> {
        self.frontier.groups.write_back(&mut self.ks, None).unwrap();
        self.ks.end();
        let packed = self.ks.packed.clone();
        packing::unpacked(MemoryKeyspace::default(), packed, None, self.now)
    }
}

struct World<K: Store> {
    ks: K,
    frontier: Frontier<K>,
    now: Millis,
    groups: BTreeMap<Vec<u8>, Watched>,
    /// All leases ever granted, newest last.
    granted: Vec<Lease>,
    last_token: Token,
    /// Maximum number of URIs in one lease.
    uris: usize,
}

impl<K: Storage> World<K> {
    fn new() -> World<K> {
        let mut ks = K::create();
        let frontier = Frontier::open(&mut ks, PREFIX);
        World {
            ks,
            frontier,
            now: 1_000_000,
            groups: BTreeMap::new(),
            granted: Vec::new(),
            last_token: 0,
            uris: 1,
        }
    }

    fn time(&self, from_now: i64) -> Millis {
        self.now.saturating_add_signed(from_now)
    }

    fn apply(&mut self, op: &Op) {
        let (ks, frontier, now) = (&mut self.ks, &mut self.frontier, self.now);
        match *op {
            Op::Add {
                group,
                execution,
                at,
            } => {
                let at = now.saturating_add_signed(at);
                let uri = Queued {
                    chg: GROUPS[group],
                    at,
                };
                frontier
                    .add(ks, EXECUTIONS[execution], None, &[uri], now)
                    .unwrap();
            }
            Op::AddKept {
                group,
                execution,
                at,
                depth,
                uri,
            } => {
                let at = now.saturating_add_signed(at);
                let uri = [b'u', uri];
                let uri = Kept {
                    chg: GROUPS[group],
                    at,
                    depth: depth.into(),
                    uri: &uri,
                };
                frontier
                    .add_kept(ks, EXECUTIONS[execution], None, &[uri], now)
                    .unwrap();
            }
            Op::AddMany {
                group,
                uris,
                executions,
            } => {
                for n in 0..uris {
                    let which = n % executions;
                    let crowd = format!("crowd-{which}");
                    let execution = EXECUTIONS.get(which).copied();
                    let execution = execution.unwrap_or(crowd.as_bytes());
                    let uri = format!("https://h/{}/page-{n}", n / 7);
                    let uri = Kept {
                        chg: GROUPS[group],
                        at: now,
                        depth: n as u32 % 2,
                        uri: uri.as_bytes(),
                    };
                    frontier.add_kept(ks, execution, None, &[uri], now).unwrap();
                }
            }
            Op::Next { count } => self.next(count),
            Op::NextOf { group } => {
                let ask = Ask {
                    lease: LEASE,
                    uris: self.uris,
                    gate: None,
                    count: 1,
                    execution: None,
                    after: None,
                };
                match frontier.next_of(ks, GROUPS[group], &ask, now) {
                    Ok(lease) => lease.into_iter().for_each(|lease| self.granted(lease)),
                    Err(error) => assert!(matches!(error, Error::NoChg(_)), "{error}"),
                }
            }
            Op::Release {
                which,
                delay,
                fate,
                again,
            } => self.release(which, delay, fate, again),
            Op::Extend { which, ms } => {
                let Some(lease) = self.granted.iter().rev().nth(which) else {
                    return;
                };
                let (chg, token) = (lease.chg.clone(), lease.token);
                let held = self.groups[&chg].leases.get(&token).copied();
                let extended = frontier.extend(ks, &chg, token, ms.into(), now);
                match held.filter(|deadline| now < *deadline) {
                    Some(_) => {
                        assert_eq!(extended, Ok(now + u64::from(ms)));
                        let watched = self.groups.get_mut(&chg).unwrap();
                        watched.leases.insert(token, now + u64::from(ms));
                    }
                    None => assert!(extended.is_err()),
                }
            }
            Op::Pass { ms } => self.now += u64::from(ms),
            Op::Block { group, ms } => {
                let until = self.time(ms);
                let blocked = self.frontier.block(&mut self.ks, GROUPS[group], until, now);
                assert!(matches!(blocked, Ok(()) | Err(Error::NoChg(_))));
            }
            Op::Pause { what, pause } => {
                let paused = match what {
                    0 => frontier.pauses.set(ks, None, pause).map(drop),
                    1..=4 => {
                        let group = GROUPS[usize::from(what) - 1];
                        frontier.pause_group(ks, group, pause, now)
                    }
                    _ => {
                        let execution = EXECUTIONS[usize::from(what) - 5];
                        self.run(pause_execution(execution, pause, now), usize::MAX);
                        Ok(())
                    }
                };
                assert!(matches!(paused, Ok(()) | Err(Error::NoChg(_))));
            }
            Op::Limit {
                group,
                parallel,
                gap,
            } => {
                let limits = Limits {
                    parallel: Some(parallel.into()),
                    gap: Some(gap.into()),
                    ..Limits::default()
                };
                frontier.limit(ks, GROUPS[group], &limits, now).unwrap();
            }
            Op::Budget { group, left } => {
                let limits = Limits {
                    budget: Some(left.map(u64::from)),
                    ..Limits::default()
                };
                frontier.limit(ks, GROUPS[group], &limits, now).unwrap();
            }
            Op::Gate { group, gate } => {
                let gate: &[u8] = [&b""[..], b"g", b"h h"][usize::from(gate)];
                frontier.group(ks, gate, &[GROUPS[group]], now).unwrap();
            }
            Op::Sweep { steps } => self.run(sweep(now, u64::MAX), steps),
            Op::Drop { execution, steps } => {
                let job = drop_execution(EXECUTIONS[execution], now);
                self.run(job, steps);
            }
            Op::Empty { group, steps } => {
                let job = empty_group(GROUPS[group], now);
                self.run(job, steps);
            }
            Op::Move { from, to, steps } => {
                if from != to {
                    let job = move_group(GROUPS[from], GROUPS[to], now);
                    self.run(job, steps);
                }
            }
            Op::Check { steps } => {
                let job = check(false, now);
                self.run(job, steps);
            }
            Op::Expired => {
                frontier.expired(ks, 3, now).unwrap();
            }
            Op::Restart => self.frontier = Frontier::open(ks, PREFIX),
        }
    }

    /// Runs some steps of a job, and abandons the job as a crash would.
    fn run(&mut self, mut job: Job<K>, steps: usize) {
        self.run_on(&mut job, steps);
    }

    fn run_on(&mut self, job: &mut Job<K>, steps: usize) {
        for _ in 0..steps {
            match job.step(&mut self.frontier, &mut self.ks, &mut || false) {
                Ok(Step::More) => {}
                Ok(Step::Done(_)) | Err(Error::NoChg(_) | Error::Leased(..)) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn next(&mut self, count: usize) {
        let ask = Ask {
            lease: LEASE,
            uris: self.uris,
            gate: None,
            count,
            execution: None,
            after: None,
        };
        let mut leases = Vec::new();
        let (ks, now) = (&mut self.ks, self.now);
        self.frontier
            .next(ks, &ask, now, &mut || true, &mut leases)
            .unwrap();
        for lease in leases {
            self.granted(lease);
        }
    }

    /// Checks that a lease respects the limits.
    fn granted(&mut self, lease: Lease) {
        let (ks, now) = (&mut self.ks, self.now);
        {
            let group = self.frontier.groups.load(ks, &lease.chg).unwrap().group;
            let watched = self.groups.entry(lease.chg.clone()).or_default();
            watched.leases.retain(|_, deadline| *deadline > now);
            assert!(
                (watched.leases.len() as u64) < group.options.parallel,
                "two leases of one group"
            );
            assert!(watched.not_before <= now, "leased in the pause");
            assert!(group.options.blocked <= now && !group.options.paused);
            assert!(lease.token > self.last_token, "tokens grow");
            self.last_token = lease.token;
            watched.leases.insert(lease.token, lease.deadline);
            watched.not_before = watched.not_before.max(now + group.options.gap);
            self.granted.push(lease);
        }
    }

    fn release(&mut self, which: usize, delay: u16, fate: u8, again: bool) {
        let Some(lease) = self.granted.iter().rev().nth(which).cloned() else {
            return;
        };
        let now = self.now;
        let execution = match &lease.execution {
            Some(execution) => execution.clone(),
            None => EXECUTIONS[which % EXECUTIONS.len()].to_vec(),
        };
        let fate = match fate {
            0 => Fate::Unchanged,
            1 => Fate::Retry(now + 700, None),
            _ => Fate::Done {
                execution: &execution,
                count: None,
            },
        };
        let when = When::Delay(delay.into());
        let chg = &lease.chg[..];
        let watched = self.groups.get_mut(chg).unwrap();
        let held = watched
            .leases
            .get(&lease.token)
            .is_some_and(|deadline| now < *deadline);
        let before = self.ks.state();
        let ks = &mut self.ks;
        let answer = self
            .frontier
            .release(ks, chg, lease.token, &when, &fate, now);
        self.frontier.groups.write_back(ks, None).unwrap();
        if !held {
            assert!(
                !matches!(answer, Ok(ReleaseReply::Released(_))),
                "released twice"
            );
            assert_eq!(ks.state(), before, "a stale release changed something");
            return;
        }
        let Ok(ReleaseReply::Released(due)) = answer else {
            panic!("{answer:?}")
        };
        watched.leases.remove(&lease.token);
        watched.not_before = watched.not_before.max(now + u64::from(delay));
        assert!(due >= now + u64::from(delay));
        if again {
            let before = ks.state();
            let again = self
                .frontier
                .release(ks, chg, lease.token, &when, &fate, now);
            assert_eq!(again, Ok(ReleaseReply::Before(due, None)));
            assert_eq!(self.ks.state(), before);
        }
    }

    /// Checks with `CHG.CHECK` that counts agree and that every group is in the right queue.
    fn inspect(&mut self) {
        let mut check = check(false, self.now);
        let step = check
            .step(&mut self.frontier, &mut self.ks, &mut || true)
            .unwrap();
        let Step::Done(Reply::Map(report)) = step else {
            panic!("not done")
        };
        let says = |name: &str| {
            let entry = report.iter().find(|(key, _)| *key == Reply::bulk(name));
            entry.map(|(_, value)| value.clone()).expect(name)
        };
        if let Reply::Array(problems) = says("problems") {
            let texts = problems.iter().map(|problem| match problem {
                Reply::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
                other => panic!("{other:?}"),
            });
            assert_eq!(texts.collect::<Vec<_>>(), Vec::<String>::new());
        }
        assert_eq!(
            (says("consistent"), says("disturbed")),
            (Reply::Int(1), Reply::Int(0))
        );

        let sum = says("sum-groups");
        let (total, executions) = (says("total"), says("sum-executions"));
        assert_eq!((&sum, &sum), (&total, &executions));
    }

    /// Returns the replies of all commands that show the state of the frontier.
    fn shown(&mut self) -> Vec<Reply> {
        let (ks, frontier, now) = (&mut self.ks, &mut self.frontier, self.now);
        let mut info = frontier.info(ks, 0, now).unwrap();
        if let Reply::Map(fields) = &mut info {
            fields.retain(|(name, _)| *name != Reply::bulk("storage"));
        }
        let mut shown = vec![info, frontier.list(ks, None, None, 100).unwrap()];
        for group in GROUPS {
            shown.extend(frontier.why(ks, group, now).ok());
            shown.extend(
                frontier
                    .list_uris(ks, group, Default::default(), 10, now)
                    .ok(),
            );
        }
        shown
    }

    /// Fetches all queued URIs, and checks that no URI is left.
    fn drain(&mut self) {
        let frontier = &mut self.frontier;
        frontier.pauses.set(&mut self.ks, None, false).unwrap();
        for group in GROUPS {
            let _ = frontier.pause_group(&mut self.ks, group, false, self.now);
        }
        for execution in EXECUTIONS {
            self.run(pause_execution(execution, false, self.now), usize::MAX);
        }
        for _ in 0..3000 {
            self.next(10);
            let held: Vec<Lease> = {
                let held = |lease: &&Lease| {
                    let leases = &self.groups[&lease.chg].leases;
                    leases
                        .get(&lease.token)
                        .is_some_and(|deadline| self.now < *deadline)
                };
                self.granted.iter().filter(held).cloned().collect()
            };
            for lease in held {
                self.finish(&lease);
            }
            self.now += 300;
        }
        let total = self.frontier.keys.once.total.clone();
        assert_eq!(self.ks.number(&total), Ok(0), "{:?}", self.ks.state());
        self.inspect();
        // Replicate all fetches in one log.
        self.frontier.groups.write_back(&mut self.ks, None).unwrap();
        self.ks.end();
    }

    fn finish(&mut self, lease: &Lease) {
        let (ks, now) = (&mut self.ks, self.now);
        // A real crawler knows the executions of its URIs; this test tries all executions.
        let executions: Vec<Vec<u8>> = match &lease.execution {
            Some(execution) => vec![execution.clone()],
            None => {
                let loaded = self.frontier.groups.load(ks, &lease.chg).unwrap();
                let counted = self.frontier.ledger.counted_in(ks, &loaded.key).unwrap();
                counted
                    .into_iter()
                    .map(|(execution, _)| execution)
                    .collect()
            }
        };
        let fate = match executions.first() {
            Some(execution) => Fate::Done {
                execution,
                count: None,
            },
            None => Fate::Unchanged,
        };
        let chg = &lease.chg[..];
        let released = self
            .frontier
            .release(ks, chg, lease.token, &When::Delay(0), &fate, now);
        self.frontier.groups.write_back(ks, None).unwrap();
        assert!(
            matches!(released, Ok(ReleaseReply::Released(_))),
            "{released:?}"
        );
        let watched = self.groups.get_mut(chg).unwrap();
        watched.leases.remove(&lease.token);
    }
}

/// Asserts that a history violates no limit, and that no URI is left at its end.
fn keeps_every_promise(ops: &[Op]) {
    keeps_them_in::<MemoryKeyspace>(ops);
    keeps_them_in::<PackedMemory>(ops);
}

fn keeps_them_in<K: Storage>(ops: &[Op]) {
    let mut world = World::<K>::new();
    for op in ops {
        world.apply(op);
        world.ks.end();
        world.inspect();
    }
    world.drain();
}

/// Checks that a search finds a group at the time that `next_due` returns, but not earlier.
fn next_due_finds_a_group(ops: &[Op]) -> Result<(), TestCaseError> {
    let mut world = World::<MemoryKeyspace>::new();
    for op in ops {
        world.apply(op);
        world
            .frontier
            .groups
            .write_back(&mut world.ks, None)
            .unwrap();
        let now = world.now;
        let due = world.frontier.next_due(&mut world.ks, now).unwrap();
        let busy = world.ks.zset_at(&world.frontier.keys.once.busy, 0).unwrap();
        let gated = world.ks.number(&world.frontier.keys.once.gated).unwrap();
        let search = |now: Millis| {
            let mut ks = world.ks.clone();
            let mut frontier = Frontier::open(&mut ks, PREFIX);
            let ask = Ask {
                lease: 1,
                count: 1,
                uris: 1,
                gate: None,
                execution: None,
                after: None,
            };
            let mut leases = Vec::new();
            frontier
                .next(&mut ks, &ask, now, &mut || true, &mut leases)
                .unwrap();
            leases.pop().map(|lease| lease.chg)
        };
        prop_assert!(
            search(now).is_none() || due == Some(now),
            "{:?}, after {:?}",
            due,
            op
        );
        let Some(due) = due else { continue };
        // The URI of a lease that expires may be given up, and a group behind a gate may be held back.
        if gated == 0 && busy.is_none_or(|(_, deadline)| deadline > due as f64) {
            prop_assert!(search(due).is_some(), "not at {}, after {:?}", due, op);
        }
        if due > now
            && let Some(early) = search(due - 1)
        {
            let loaded = world.frontier.groups.load(&mut world.ks, &early).unwrap();
            prop_assert!(
                loaded.group.options.blocked > now,
                "before {}, after {:?}",
                due,
                op
            );
        }
    }
    Ok(())
}

#[test]
fn next_due_is_later_than_the_uris_of_a_leased_group() {
    let add = |group, execution| Op::Add {
        group,
        execution,
        at: 0,
    };
    let kept = Op::AddKept {
        group: 2,
        execution: 1,
        at: 1205,
        depth: 0,
        uri: 0,
    };
    let pause = Op::Pause {
        what: 5,
        pause: true,
    };
    let ops = [
        add(2, 0),
        add(0, 0),
        kept,
        pause,
        add(2, 1),
        Op::Pass { ms: 206 },
        Op::Next { count: 1 },
    ];
    next_due_finds_a_group(&ops).unwrap();
}

proptest! {

    #[test]
    fn politeness_is_kept_and_nothing_is_lost(ops in prop::collection::vec(op(), 1..120)) {
        keeps_every_promise(&ops);
    }

    #[test]
    fn both_storages_grant_the_same_leases(ops in prop::collection::vec(op(), 1..150)) {
        let (mut plain, mut packed) = (World::<MemoryKeyspace>::new(), World::<PackedMemory>::new());
        for op in &ops {
            // Run whole jobs: partial jobs of the two storages may have visited different groups.
            let op = &op.whole();
            plain.apply(op);
            packed.apply(op);
            packed.ks.end();
            prop_assert_eq!(&plain.granted, &packed.granted, "after {:?}", op);
            prop_assert_eq!(plain.shown(), packed.shown(), "after {:?}", op);
            prop_assert_eq!(plain.plain_keys(), packed.plain_keys(), "after {:?}", op);
        }
    }

    #[test]
    fn next_due_is_when_a_search_finds_a_group(ops in prop::collection::vec(op(), 1..80)) {
        next_due_finds_a_group(&ops)?;
    }

    #[test]
    fn a_damaged_log_is_refused_or_applied_without_harm(
        ops in prop::collection::vec(op(), 1..60),
        damages in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut world = World::<PackedMemory>::new();
        for op in &ops {
            world.apply(op);
            world.ks.end();
        }
        let Replicated { packed, logs, .. } = world.ks.packed.unwrap();
        let mut whole = Vec::new();
        packed.save(&mut |chunk| {
            whole.push(super::packed::ENVELOPE.body(chunk).unwrap().to_vec());
        });
        for logs in [logs, whole] {
            let mut packed = Packed::default();
            let damaged = cut.index(logs.len());
            for (n, mut log) in logs.into_iter().enumerate() {
                if n == damaged && !log.is_empty() {
                    for (at, byte) in &damages {
                        let at = at.index(log.len());
                        log[at] = *byte;
                    }
                }
                let _ = packed.apply(&log, None);
                packed.verify();
            }
            let mut loaded = Packed::default();
            packed.save(&mut |chunk| loaded.load(chunk).unwrap());
            prop_assert_eq!(elements(&packed), elements(&loaded));
        }
    }

    #[test]
    fn searches_that_skip_paused_groups_lease_what_whole_searches_lease(
        ops in prop::collection::vec(prop_oneof![
            4 => op(),
            1 => (0..8_u8, any::<bool>()).prop_map(|(what, pause)| Op::Pause { what, pause }),
        ], 1..150)
    ) {
        let (mut world, mut whole) = (World::<MemoryKeyspace>::new(), World::<MemoryKeyspace>::new());
        for op in &ops {
            whole.frontier.queues.search_from_head();
            world.apply(op);
            whole.apply(op);
            prop_assert_eq!(&world.granted, &whole.granted, "after {:?}", op);
            prop_assert_eq!(&world.ks.keys, &whole.ks.keys, "after {:?}", op);
        }
    }
}

/// Queues the groups of one execution before those of another execution. While a job pauses the
/// first execution, leases the first few groups.
#[test]
fn first_search_after_a_pause_looks_at_no_paused_group() {
    let mut world = World::<MemoryKeyspace>::new();
    let (ks, frontier, now) = (&mut world.ks, &mut world.frontier, world.now);
    let mut add = |execution: &[u8], chg: &str, at: Millis| {
        let chg = chg.as_bytes();
        let added = frontier.add(ks, execution, None, &[Queued { chg, at }], at);
        added.unwrap();
    };
    for n in 0..400 {
        add(b"paused", &format!("{n:03}"), now - 500 + n);
    }
    add(b"free", "free", now);
    let names = |world: &World<MemoryKeyspace>| {
        let leases = world.granted.iter();
        let names = leases.map(|lease| String::from_utf8_lossy(&lease.chg).into_owned());
        names.collect::<Vec<_>>()
    };
    world.run(sweep(now, 200), usize::MAX);
    let mut pause = pause_execution(b"paused", true, now);
    for n in 0..20 {
        let step = pause.step(&mut world.frontier, &mut world.ks, &mut || false);
        assert_eq!(step, Ok(Step::More), "{n}");
        if n < 3 {
            world.next(1);
        }
    }
    assert_eq!(names(&world), ["000", "001", "002"]);
    world.run_on(&mut pause, usize::MAX);
    let mut looked_at = 0;
    let ask = Ask {
        lease: LEASE,
        uris: 1,
        gate: None,
        count: 1,
        execution: None,
        after: None,
    };
    let mut leases = Vec::new();
    let mut time = || {
        looked_at += 1;
        true
    };
    let (frontier, ks) = (&mut world.frontier, &mut world.ks);
    let searched = frontier.next(ks, &ask, now, &mut time, &mut leases);
    searched.unwrap();
    assert_eq!(leases[0].chg, b"free");
    assert_eq!(looked_at, 0, "groups that were not leased");
}

#[test]
fn a_moved_group_takes_its_gate_and_what_is_queued_along() {
    use Op::*;
    let add = |group, execution| Add {
        group,
        execution,
        at: 0,
    };
    let add_kept = |group, at| AddKept {
        group,
        execution: 0,
        at,
        depth: 0,
        uri: 0,
    };
    keeps_every_promise(&[
        add(1, 2),
        add(1, 1),
        add(1, 0),
        Move {
            from: 1,
            to: 2,
            steps: 1,
        },
    ]);
    keeps_every_promise(&[
        Gate { group: 3, gate: 1 },
        Gate { group: 2, gate: 1 },
        add_kept(2, 101),
        add_kept(3, 0),
        Next { count: 1 },
        add_kept(0, 2606),
        Pass { ms: 1000 },
        Next { count: 1 },
        Pass { ms: 1000 },
        Add {
            group: 0,
            execution: 0,
            at: 1,
        },
        Next { count: 2 },
        add(0, 0),
        Release {
            which: 0,
            delay: 700,
            fate: 0,
            again: false,
        },
        add(2, 0),
        Move {
            from: 2,
            to: 0,
            steps: 2,
        },
    ]);
}
