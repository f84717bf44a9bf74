//! Applies random histories of changes, and compares the value with a list that is searched
//! linearly.

use std::cell::Cell;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::bounds::{MAX_INTEGER, STORED_BYTES};
use super::encoding::{CHUNK_BYTES, ENVELOPE};
use super::queue::Record;
use super::*;
use crawlspace_compact::envelope::HEAD;

const EXECUTIONS: [&[u8]; 4] = [b"a", b"b", b"execution \r\n\0", b"\xff"];

/// Returns a URI. About half of the returned URIs are already known, and some are so long that they
/// fill several pages.
fn uri(n: u16) -> Vec<u8> {
    let mut uri = format!("https://www.example.org/{}/page-{n}", n % 5).into_bytes();
    match n % 40 {
        0..=20 => {}
        21..=37 => uri.extend(std::iter::repeat_n(b'x' + (n % 3) as u8, 150)),
        38 => uri.extend((0..700 + n).map(|i| i as u8)),
        _ => uri.extend((0..5000 + n).map(|i| (i >> 3) as u8)),
    }
    uri
}

#[derive(Clone, Debug)]
enum Step {
    Add {
        execution: usize,
        weight: Option<u64>,
        due: u64,
        depth: u32,
        attempts: u32,
        uri: u16,
    },
    Take {
        execution: usize,
        now: u64,
    },
    Done {
        lease: usize,
    },
    Return {
        lease: usize,
        due: Option<u64>,
        failed: bool,
    },
    Drop {
        execution: usize,
        limit: u64,
    },
    Remove {
        execution: usize,
        uri: u16,
    },
    End {
        execution: usize,
        uri: u16,
    },
    Reschedule {
        execution: usize,
        uri: u16,
        due: u64,
    },
    /// Encodes the value in chunks of this many bytes, and loads it again.
    Reload {
        chunk: usize,
    },
}

fn depth() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0..4u32, 1 => any::<u32>(), 1 => Just(u32::MAX)]
}

fn due() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 0..50u64, 1 => any::<u64>()]
}

fn step(uris: u16) -> impl Strategy<Value = Step> {
    let execution = 0..EXECUTIONS.len();
    let weight = proptest::option::weighted(0.2, 1..=MAX_WEIGHT);
    let attempts = prop_oneof![3 => Just(0u32), 1 => any::<u32>()];
    prop_oneof![
        30 => (execution.clone(), weight, due(), depth(), attempts, 0..uris).prop_map(
            |(execution, weight, due, depth, attempts, uri)| Step::Add {
                execution, weight, due, depth, attempts, uri
            }
        ),
        8 => (execution.clone(), 0..60u64).prop_map(|(execution, now)| Step::Take { execution, now }),
        3 => (0..6usize).prop_map(|lease| Step::Done { lease }),
        3 => (0..6usize, proptest::option::of(due()), any::<bool>())
            .prop_map(|(lease, due, failed)| Step::Return { lease, due, failed }),
        1 => (execution.clone(), 0..30u64).prop_map(|(execution, limit)| Step::Drop { execution, limit }),
        6 => (execution.clone(), 0..uris).prop_map(|(execution, uri)| Step::Remove { execution, uri }),
        3 => (execution.clone(), 0..uris).prop_map(|(execution, uri)| Step::End { execution, uri }),
        4 => (execution, 0..uris, due()).prop_map(|(execution, uri, due)| Step::Reschedule { execution, uri, due }),
        1 => (1..4000usize).prop_map(|chunk| Step::Reload { chunk }),
    ]
}

#[derive(Clone, Debug, PartialEq)]
struct Known {
    execution: usize,
    depth: u32,
    due: u64,
    seq: u64,
    attempts: u32,
    uri: Vec<u8>,
}

#[derive(Default)]
struct Model {
    queued: Vec<Known>,
    leased: Vec<(u64, bool, Known)>,
    seq: u64,
}

impl Model {
    fn apply(&mut self, op: &Op<'_>) -> Changed {
        let execution_of = |id: &[u8]| EXECUTIONS.iter().position(|e| *e == id).unwrap();
        match *op {
            Op::Add {
                execution,
                due,
                depth,
                attempts,
                uri,
                ..
            } => {
                let execution = execution_of(execution);
                let same = |known: &Known| known.execution == execution && known.uri == uri;
                if self.queued.iter().any(same)
                    || self
                        .leased
                        .iter()
                        .any(|(_, dropped, k)| !dropped && same(k))
                {
                    return Changed::Nothing;
                }
                self.queued.push(Known {
                    execution,
                    depth,
                    due: due.min(MAX_INTEGER),
                    seq: self.seq,
                    attempts,
                    uri: uri.to_vec(),
                });
                self.seq += 1;
                Changed::Added
            }
            Op::Take {
                token,
                execution,
                now,
            } => {
                let execution = execution_of(execution);
                let next = (0..self.queued.len())
                    .filter(|&i| self.queued[i].execution == execution && self.queued[i].due <= now)
                    .min_by_key(|&i| {
                        let k = &self.queued[i];
                        (k.depth, k.due, k.seq)
                    });
                let Some(at) = next else {
                    return Changed::Nothing;
                };
                self.leased.push((token, false, self.queued.remove(at)));
                Changed::Taken
            }
            Op::Done { token, .. } => match self.leased.iter().position(|l| l.0 == token) {
                Some(at) => Changed::Removed(u64::from(!self.leased.remove(at).1)),
                None => Changed::Nothing,
            },
            Op::Return { token, due, failed } => {
                let Some(at) = self.leased.iter().position(|l| l.0 == token) else {
                    return Changed::Nothing;
                };
                let (_, dropped, mut known) = self.leased.remove(at);
                if dropped {
                    return Changed::Removed(0);
                }
                known.due = due.unwrap_or(known.due).min(MAX_INTEGER);
                known.attempts = known.attempts.saturating_add(failed.into());
                self.queued.push(known);
                Changed::Returned
            }
            Op::Drop { execution, limit } => {
                let execution = execution_of(execution);
                let mut removed = 0;
                for (_, dropped, known) in &mut self.leased {
                    if known.execution == execution && !*dropped {
                        *dropped = true;
                        removed += 1;
                    }
                }
                self.sort();
                let mut left = limit;
                self.queued.retain(|known| {
                    let stays = known.execution != execution || left == 0;
                    left -= u64::from(!stays);
                    stays
                });
                match removed + limit - left {
                    0 => Changed::Nothing,
                    n => Changed::Removed(n),
                }
            }
            Op::Remove { execution, uri } => {
                let execution = execution_of(execution);
                let before = self.queued.len();
                self.queued
                    .retain(|known| known.execution != execution || known.uri != uri);
                match before - self.queued.len() {
                    0 => Changed::Nothing,
                    n => Changed::Removed(n as u64),
                }
            }
            Op::End { execution, uri, .. } => match self.drop_lease(execution_of(execution), uri) {
                Some(_) => Changed::Removed(1),
                None => self.apply(&Op::Remove { execution, uri }),
            },
            Op::Reschedule {
                execution,
                uri,
                due,
            } => {
                let execution = execution_of(execution);
                let due = due.min(MAX_INTEGER);
                if let Some(mut known) = self.drop_lease(execution, uri) {
                    known.due = due;
                    known.attempts = 0;
                    self.queued.push(known);
                    return Changed::Returned;
                }
                let is_it = |known: &&mut Known| known.execution == execution && known.uri == uri;
                match self.queued.iter_mut().find(is_it) {
                    Some(known) if known.due != due || known.attempts > 0 => {
                        known.due = due;
                        known.attempts = 0;
                    }
                    _ => return Changed::Nothing,
                }
                Changed::Returned
            }
            Op::Load { .. } => unreachable!(),
        }
    }

    fn drop_lease(&mut self, execution: usize, uri: &[u8]) -> Option<Known> {
        let (_, dropped, known) = self.leased.iter_mut().find(|(_, dropped, known)| {
            !dropped && known.execution == execution && known.uri == uri
        })?;
        *dropped = true;
        Some(known.clone())
    }

    fn sort(&mut self) {
        self.queued
            .sort_by_key(|k| (k.execution, k.depth, k.due, k.seq));
    }
}

/// Returns the contents of the value. Executions are indexes into the list above.
fn contents(uris: &Uris) -> Vec<Known> {
    let execution_of = |id: &[u8]| EXECUTIONS.iter().position(|e| *e == id).unwrap();
    let mut known = Vec::new();
    uris.queue.walk(Position::first_of(0), &mut |record| {
        let id = &uris
            .executions
            .by_number(record.place.execution)
            .unwrap()
            .id;
        known.push(Known {
            execution: execution_of(id),
            depth: record.place.depth,
            due: record.place.due,
            seq: record.place.seq,
            attempts: record.attempts,
            uri: record.uri.to_vec(),
        });
        true
    });
    known.sort_by_key(|k| (k.execution, k.depth, k.due, k.seq));
    known
}

fn chunks(uris: &Uris, bytes: usize) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    uris.encode(bytes, &mut |chunk| chunks.push(chunk.to_vec()));
    chunks
}

fn loaded(chunks: &[Vec<u8>]) -> Uris {
    let mut uris = Uris::default();
    for chunk in chunks {
        uris.load(chunk).unwrap();
    }
    uris
}

fn op_of<'a>(step: &Step, uri: &'a [u8], tokens: &[u64], token: u64) -> Option<Op<'a>> {
    let lease = |at: usize| {
        tokens
            .get(at % tokens.len().max(1))
            .copied()
            .unwrap_or(999_999)
    };
    Some(match *step {
        Step::Add {
            execution,
            weight,
            due,
            depth,
            attempts,
            ..
        } => Op::Add {
            execution: EXECUTIONS[execution],
            weight,
            // Replicated values are signed numbers.
            due: due.min(MAX_INTEGER),
            depth,
            attempts,
            uri,
        },
        Step::Take { execution, now } => Op::Take {
            token,
            execution: EXECUTIONS[execution],
            now,
        },
        Step::Done { lease: at } => Op::done(lease(at)),
        Step::Return {
            lease: at,
            due,
            failed,
        } => Op::Return {
            token: lease(at),
            due: due.map(|due| due.min(MAX_INTEGER)),
            failed,
        },
        Step::Drop { execution, limit } => Op::Drop {
            execution: EXECUTIONS[execution],
            limit,
        },
        Step::Remove { execution, .. } => Op::Remove {
            execution: EXECUTIONS[execution],
            uri,
        },
        Step::End { execution, .. } => Op::End {
            execution: EXECUTIONS[execution],
            uri,
            end: End::default(),
        },
        Step::Reschedule { execution, due, .. } => Op::Reschedule {
            execution: EXECUTIONS[execution],
            uri,
            due: due.min(MAX_INTEGER),
        },
        Step::Reload { .. } => return None,
    })
}

fn a_history_matches_the_model(steps: &[Step]) {
    let mut uris = Uris::default();
    let mut replica = Uris::default();
    let mut model = Model::default();
    for (token, step) in steps.iter().enumerate() {
        let bytes = match step {
            Step::Add { uri: n, .. }
            | Step::Remove { uri: n, .. }
            | Step::End { uri: n, .. }
            | Step::Reschedule { uri: n, .. } => uri(*n),
            _ => Vec::new(),
        };
        let tokens: Vec<u64> = model.leased.iter().map(|lease| lease.0).collect();
        let Some(op) = op_of(step, &bytes, &tokens, token as u64) else {
            let Step::Reload { chunk } = step else {
                unreachable!()
            };
            let again = loaded(&chunks(&uris, *chunk));
            again.queue.assert_sound();
            assert_eq!(again, uris);
            assert_eq!(chunks(&again, CHUNK_BYTES), chunks(&uris, CHUNK_BYTES));
            uris = again;
            continue;
        };
        let args = op.to_args();
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let same = Op::parse(&args).unwrap();
        assert_eq!(same, op);

        let mut changed = uris.apply(&op);
        assert_eq!(replica.apply(&same), changed);
        if changed == Changed::Weighed {
            changed = Changed::Nothing;
        }
        assert_eq!(changed, model.apply(&op), "{op:?}");
        if model.queued.is_empty() && model.leased.is_empty() {
            model.seq = 0;
            assert_eq!(uris, Uris::default());
        }

        model.sort();
        assert_eq!(contents(&uris), model.queued);
        if token % 16 == 0 {
            uris.queue.assert_sound();
            assert_eq!(uris, replica);
        }
        let leased: Vec<_> = uris
            .leases
            .iter()
            .map(|l| (l.token, l.dropped, l.uri.to_vec(), l.attempts))
            .collect();
        let wanted: Vec<_> = model
            .leased
            .iter()
            .map(|(token, dropped, k)| (*token, *dropped, k.uri.clone(), k.attempts))
            .collect();
        assert_eq!(leased, wanted);
        let counted = model.leased.iter().filter(|l| !l.1).count();
        assert_eq!(uris.len(), (model.queued.len() + counted) as u64);
        assert_eq!(uris.earliest(), model.queued.iter().map(|k| k.due).min());
        for (i, id) in EXECUTIONS.iter().enumerate() {
            let queued = model.queued.iter().filter(|k| k.execution == i).count();
            let leased = model.leased.iter().filter(|l| !l.1 && l.2.execution == i);
            assert_eq!(uris.count_of(id), (queued + leased.count()) as u64);
            let due = model.queued.iter().any(|k| k.execution == i && k.due <= 25);
            assert_eq!(uris.pick(25, &|other| other != *id), due.then_some(*id));
        }
    }
    uris.queue.assert_sound();
    assert_eq!(uris, replica);
    assert_eq!(chunks(&uris, 1), chunks(&replica, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_group_holds_what_a_list_would(steps in proptest::collection::vec(step(400), 1..250)) {
        a_history_matches_the_model(&steps);
    }

    #[test]
    fn a_group_with_few_uris_holds_what_a_list_would(
        steps in proptest::collection::vec(step(12), 1..120)
    ) {
        a_history_matches_the_model(&steps);
    }

    #[test]
    fn any_arguments_are_read_or_refused(
        args in proptest::collection::vec(
            prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..12),
                prop_oneof![
                    Just(b"ADD".to_vec()), Just(b"TAKE".to_vec()), Just(b"RETURN".to_vec()),
                    Just(b"DROP".to_vec()), Just(b"1".to_vec()), Just(b"-".to_vec())
                ],
            ],
            0..8,
        )
    ) {
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        if let Ok(op) = Op::parse(&args) {
            let again = op.to_args();
            let again: Vec<&[u8]> = again.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(again, args);
            let mut uris = Uris::default();
            uris.apply(&op);
        }
    }

    #[test]
    fn a_damaged_chunk_is_refused(at in any::<proptest::sample::Index>(), bit in 0..8u32) {
        let chunk = &chunks(&sample(), CHUNK_BYTES)[0];
        let mut damaged = chunk.clone();
        damaged[at.index(chunk.len())] ^= 1 << bit;
        prop_assert!(Uris::default().load(&damaged).is_err());
        prop_assert!(Uris::default().load(&chunk[..at.index(chunk.len())]).is_err());
    }

    /// Loads a forged chunk with a valid checksum. The value must refuse the chunk, or remain
    /// usable.
    #[test]
    fn a_forged_chunk_breaks_nothing(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
        cut in proptest::option::of(any::<proptest::sample::Index>()),
        again in any::<bool>(),
    ) {
        let mut chunk = chunks(&sample(), CHUNK_BYTES).remove(0);
        // Mostly change the part before the URIs, where more errors are possible.
        let reach = if again { chunk.len() - HEAD } else { 120 };
        for (at, byte) in changes {
            chunk[HEAD + at.index(reach)] = byte;
        }
        if let Some(cut) = cut {
            chunk.truncate(HEAD + cut.index(chunk.len() - HEAD));
        }
        ENVELOPE.seal(&mut chunk, 0);
        let mut uris = Uris::default();
        if uris.load(&chunk).is_ok() {
            uris.queue.assert_sound();
            let _ = uris.load(&chunk);
            let _ = uris.load(&chunks(&sample(), CHUNK_BYTES)[0]);
            uris.queue.assert_sound();
            exercise(&mut uris);
            prop_assert_eq!(&loaded(&chunks(&uris, 300)), &uris);
        }
    }

    #[test]
    fn any_bytes_are_loaded_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Uris::default().load(&bytes);
        if bytes.len() > HEAD {
            ENVELOPE.seal(&mut bytes, 0);
            let mut uris = Uris::default();
            if uris.load(&bytes).is_ok() {
                exercise(&mut uris);
            }
        }
    }
}

fn add(uris: &mut Uris, execution: &[u8], n: usize) {
    let uri = format!("http://e.com/{n}");
    let op = Op::Add {
        execution,
        weight: None,
        due: n as u64 % 7,
        depth: n as u32 % 3,
        attempts: n.is_multiple_of(4).into(),
        uri: uri.as_bytes(),
    };
    assert_eq!(uris.apply(&op), Changed::Added);
}

fn take(uris: &mut Uris, token: u64, now: u64) -> Option<Vec<u8>> {
    let execution = uris.pick(now, &|_| false)?.to_vec();
    let op = Op::Take {
        token,
        execution: &execution,
        now,
    };
    assert_eq!(uris.apply(&op), Changed::Taken);
    Some(execution)
}

/// Creates a value with elements of every kind.
fn sample() -> Uris {
    let mut uris = Uris::default();
    for n in 0..150 {
        add(&mut uris, EXECUTIONS[n % 4], n);
    }
    for token in 0..8 {
        take(&mut uris, token, 100);
    }
    uris.apply(&Op::Drop {
        execution: b"b",
        limit: 3,
    });
    for token in 0..3 {
        uris.apply(&Op::done(token));
    }
    uris
}

/// Applies every kind of change to a value.
fn exercise(uris: &mut Uris) {
    for n in 0..20 {
        uris.apply(&Op::Add {
            execution: EXECUTIONS[n % 4],
            weight: Some(n as u64 + 1),
            due: n as u64,
            depth: 0,
            attempts: 0,
            uri: format!("http://other.com/{n}").as_bytes(),
        });
    }
    for token in 1000..1010 {
        if let Some(execution) = uris.pick(MAX_INTEGER, &|_| false).map(<[u8]>::to_vec) {
            uris.apply(&Op::Take {
                token,
                execution: &execution,
                now: MAX_INTEGER,
            });
        }
    }
    let tokens: Vec<u64> = uris.leases().map(|lease| lease.token).collect();
    for (n, token) in tokens.into_iter().enumerate() {
        uris.apply(&Op::Return {
            token,
            due: (n % 2 == 0).then_some(5),
            failed: n % 3 == 0,
        });
    }
    uris.apply(&Op::Drop {
        execution: EXECUTIONS[0],
        limit: 10,
    });
    for queued in uris.batch(10) {
        let removed = uris.apply(&Op::Remove {
            execution: &queued.execution,
            uri: &queued.uri,
        });
        assert_eq!(removed, Changed::Removed(1));
    }
    uris.queue.assert_sound();
    let _ = uris.memory();
}

/// Keeps URIs of all these executions queued, and counts how many URIs of each execution are
/// leased.
fn shares(weights: &[(Vec<u8>, u64)], picks: u64) -> BTreeMap<Vec<u8>, u64> {
    let mut uris = Uris::default();
    let mut n = 0;
    let mut supply = |uris: &mut Uris, execution: &[u8], weight: u64| {
        n += 1;
        let uri = format!("http://e.com/{n}");
        uris.apply(&Op::Add {
            execution,
            weight: Some(weight),
            due: 0,
            depth: 0,
            attempts: 0,
            uri: uri.as_bytes(),
        });
    };
    for (execution, weight) in weights {
        supply(&mut uris, execution, *weight);
        supply(&mut uris, execution, *weight);
    }
    let mut got = BTreeMap::new();
    for token in 0..picks {
        let execution = take(&mut uris, token, 0).unwrap();
        uris.apply(&Op::done(token));
        let weight = weights.iter().find(|(id, _)| *id == execution).unwrap().1;
        supply(&mut uris, &execution, weight);
        *got.entry(execution).or_insert(0) += 1;
    }
    got
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Asserts that each execution has had its share at any time, with an error of at most one URI.
    #[test]
    fn shares_are_in_proportion_to_weights(
        weights in proptest::collection::vec(prop_oneof![1..10u64, 1..=MAX_WEIGHT], 1..7),
        picks in 1..2000u64,
    ) {
        let weights: Vec<(Vec<u8>, u64)> = weights
            .iter()
            .enumerate()
            .map(|(n, &weight)| (format!("e{n}").into_bytes(), weight))
            .collect();
        let all: u64 = weights.iter().map(|(_, weight)| weight).sum();
        let got = shares(&weights, picks);
        for (execution, weight) in &weights {
            let got = *got.get(execution).unwrap_or(&0) as f64;
            let share = picks as f64 * *weight as f64 / all as f64;
            let off = (got - share).abs();
            prop_assert!(off <= weights.len() as f64, "{weight} of {all}: {got}, not {share}");
        }
    }
}

#[test]
fn a_share_is_exact_over_whole_rounds() {
    let weights = [(b"a".to_vec(), 1), (b"b".to_vec(), 2), (b"c".to_vec(), 997)];
    let got = shares(&weights, 20_000);
    for (id, weight) in weights {
        assert_eq!(got[&id], weight * 20, "{id:?}");
    }
}

#[test]
fn who_had_nothing_due_gets_one_turn_and_then_its_share() {
    let mut uris = Uris::default();
    for n in 0..400 {
        add(&mut uris, b"busy", n);
    }
    uris.apply(&Op::Add {
        execution: b"late",
        weight: None,
        due: 1_000,
        depth: 0,
        attempts: 0,
        uri: b"http://e.com/0",
    });
    for token in 0..200 {
        assert_eq!(take(&mut uris, token, 10).unwrap(), b"busy");
    }
    for n in 1000..1100 {
        add(&mut uris, b"late", n);
    }
    let turns: Vec<bool> = (200..300)
        .map(|token| take(&mut uris, token, 2_000).unwrap() == b"late")
        .collect();
    assert_eq!(turns.iter().filter(|late| **late).count(), 50);
    assert!(turns.windows(3).all(|three| three.iter().any(|late| *late)));
    assert!(
        turns
            .windows(3)
            .all(|three| three.iter().any(|late| !*late))
    );
}

#[test]
fn who_comes_and_goes_gets_no_more_than_its_share() {
    let mut uris = Uris::default();
    for n in 0..1000 {
        uris.apply(&Op::Add {
            execution: b"stays",
            weight: Some(9),
            due: 0,
            depth: 0,
            attempts: 0,
            uri: format!("http://e.com/{n}").as_bytes(),
        });
    }
    let mut visits = 0;
    for token in 0..1000 {
        if uris.count_of(b"visits") == 0 {
            add(&mut uris, b"visits", 5000 + token as usize);
        }
        visits += u32::from(take(&mut uris, token, 10).unwrap() == b"visits");
        uris.apply(&Op::done(token));
    }
    assert!((98..=101).contains(&visits), "{visits} of 1000");
}

#[test]
fn a_stream_of_new_executions_keeps_nobody_waiting_for_ever() {
    let mut uris = Uris::default();
    for n in 0..100 {
        add(&mut uris, b"old", n);
    }
    let mut old = 0;
    for token in 0..100 {
        add(
            &mut uris,
            format!("new {token}").as_bytes(),
            1000 + token as usize,
        );
        old += u32::from(take(&mut uris, token, 10).unwrap() == b"old");
        uris.apply(&Op::done(token));
    }
    assert!(old >= 10, "{old} of 100");
    assert!(uris.executions.iter().count() < 120);
}

#[test]
fn the_paused_are_passed_over_and_asked_for_only_if_it_matters() {
    let mut uris = Uris::default();
    for n in 0..40 {
        add(&mut uris, EXECUTIONS[n % 4], n);
    }
    let asked = Cell::new(0);
    let paused = |execution: &[u8]| {
        asked.set(asked.get() + 1);
        execution != b"b"
    };
    assert_eq!(uris.pick(100, &paused), Some(&b"b"[..]));
    assert!(asked.get() <= 4);
    assert_eq!(uris.pick(100, &|_| true), None);
    assert_eq!(uris.earliest_of(&|_| true), None);
    assert_eq!(uris.earliest_of(&|_| false), Some(0));
}

#[test]
fn a_uri_due_later_hides_none_that_is_due() {
    let mut uris = Uris::default();
    let mut put = |uri: &str, depth: u32, due: u64| {
        uris.apply(&Op::Add {
            execution: b"a",
            weight: None,
            due,
            depth,
            attempts: 0,
            uri: uri.as_bytes(),
        });
    };
    for n in 0..500 {
        put(&format!("http://e.com/later/{n}"), n % 3, 1000);
    }
    put("http://e.com/now/deep", 7, 10);
    put("http://e.com/now/second", 2, 6);
    put("http://e.com/now/first", 2, 5);
    let mut taken = Vec::new();
    let mut token = 0;
    while take(&mut uris, token, 10).is_some() {
        taken.push(uris.leased(token).unwrap().stored.to_vec());
        token += 1;
    }
    let wanted: [&[u8]; 3] = [
        b"http://e.com/now/first",
        b"http://e.com/now/second",
        b"http://e.com/now/deep",
    ];
    assert_eq!(taken, wanted);
    assert_eq!(uris.earliest(), Some(1000));
}

#[test]
fn many_uris_go_in_and_out_in_order() {
    const N: usize = 2_000;
    let mut uris = Uris::default();
    for n in 0..N {
        add(&mut uris, b"a", n);
    }
    uris.queue.assert_sound();
    let again = loaded(&chunks(&uris, 4096));
    assert_eq!(again, uris);
    let memory = uris.memory();
    let mut last = (0, 0, 0);
    for token in 0..N as u64 {
        take(&mut uris, token, 100).unwrap();
        let place = uris.leases[0].place;
        assert!(last <= (place.depth, place.due, place.seq));
        last = (place.depth, place.due, place.seq);
        uris.apply(&Op::done(token));
    }
    assert!(uris.is_empty());
    assert!(uris.memory() < memory / 100);
}

#[test]
fn an_execution_drops_out_piece_by_piece() {
    let mut uris = Uris::default();
    for n in 0..1000 {
        add(&mut uris, EXECUTIONS[n % 2], n);
    }
    for token in 0..10 {
        take(&mut uris, token, 100);
    }
    let drop = Op::Drop {
        execution: b"a",
        limit: 100,
    };
    assert_eq!(uris.apply(&drop), Changed::Removed(105), "with five leases");
    assert_eq!(uris.count_of(b"a"), 395);
    while uris.apply(&drop) != Changed::Nothing {
        uris.queue.assert_sound();
    }
    assert_eq!((uris.count_of(b"a"), uris.count_of(b"b")), (0, 500));
    let dropped: Vec<u64> = uris
        .leases()
        .filter(|l| l.dropped)
        .map(|l| l.token)
        .collect();
    assert_eq!(dropped.len(), 5);
    assert!(uris.leases().all(|l| !l.execution.is_empty()));
    let token = dropped[0];
    let back = Op::Return {
        token,
        due: None,
        failed: true,
    };
    assert_eq!(uris.apply(&back), Changed::Removed(0));
    assert_eq!(uris.count_of(b"a"), 0);
}

#[test]
fn a_heavier_weight_shortens_the_wait() {
    let mut uris = Uris::default();
    let mut put = |execution: &[u8], weight: u64, n: u64| {
        uris.apply(&Op::Add {
            execution,
            weight: Some(weight),
            due: 0,
            depth: 0,
            attempts: 0,
            uri: &n.to_le_bytes(),
        })
    };
    for n in 0..1500 {
        put(b"heavy", 1000, n);
    }
    put(b"light", 1, 0);
    put(b"light", 1, 1);
    // The execution already has the URI, so only the weight of the execution changes.
    assert_eq!(put(b"light", 1000, 1), Changed::Weighed);
    assert_eq!(put(b"light", 1000, 1), Changed::Nothing);
    let turns = (0..4).map(|token| take(&mut uris, token, 0).unwrap() == b"light");
    assert_eq!(turns.filter(|light| *light).count(), 2);
}

#[test]
fn what_cannot_be_is_not_done() {
    let mut uris = Uris::default();
    let long = vec![b'x'; STORED_BYTES + 1];
    for uri in [&b""[..], &long] {
        let op = Op::Add {
            execution: b"a",
            weight: None,
            due: 0,
            depth: 0,
            attempts: 0,
            uri,
        };
        assert_eq!(uris.apply(&op), Changed::Nothing);
        let args = op.to_args();
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        assert!(Op::parse(&args).is_err());
    }
    let longest = vec![b'x'; STORED_BYTES];
    for n in 0..3u8 {
        let mut uri = longest.clone();
        uri[usize::from(n) * 1000] = n;
        let op = Op::Add {
            execution: b"a",
            weight: None,
            due: u64::MAX,
            depth: u32::MAX,
            attempts: u32::MAX,
            uri: &uri,
        };
        assert_eq!(uris.apply(&op), Changed::Added);
        uris.queue.assert_sound();
    }
    assert_eq!(loaded(&chunks(&uris, 10)), uris);
    assert_eq!(uris.apply(&Op::done(3)), Changed::Nothing);
    take(&mut uris, 5, MAX_INTEGER).unwrap();
    let of_other = Op::Add {
        execution: b"b",
        weight: None,
        due: 0,
        depth: 0,
        attempts: 0,
        uri: b"u",
    };
    let mut with_other = uris.clone();
    with_other.apply(&of_other);
    let twice = Op::Take {
        token: 5,
        execution: b"b",
        now: MAX_INTEGER,
    };
    assert_eq!(with_other.apply(&twice), Changed::Nothing);
}

/// Creates URIs that differ only in their last bytes.
fn alike(n: u64) -> Vec<u8> {
    let mut uri = vec![b'u'; 60 << 10];
    uri.extend_from_slice(format!("{n:06}").as_bytes());
    uri
}

#[test]
fn chunks_stand_for_no_more_than_they_can_be_trusted_with() {
    let mut uris = Uris::default();
    let mut bytes = 0;
    for n in 0..300 {
        let uri = alike(n);
        bytes += uri.len();
        uris.apply(&Op::Add {
            execution: b"a",
            weight: None,
            due: 0,
            depth: 0,
            attempts: 0,
            uri: &uri,
        });
    }
    let chunks = chunks(&uris, CHUNK_BYTES);
    let written: usize = chunks.iter().map(Vec::len).sum();
    assert!((bytes / 16..bytes / 8).contains(&written), "{written}");
    assert_eq!(loaded(&chunks), uris);
}

#[test]
fn chunk_that_stands_for_too_much_is_refused() {
    use super::record::append;
    use crawlspace_compact::number::put;
    for many in [10, 40] {
        let mut chunk = vec![0; HEAD];
        put(&mut chunk, 1000);
        chunk.extend_from_slice(&[0; 16]);
        for n in [1, 1, 0, 1] {
            put(&mut chunk, n);
        }
        chunk.extend_from_slice(&[0; 16]);
        put(&mut chunk, 1);
        chunk.push(b'a');
        put(&mut chunk, 0);
        let place = |seq| Position {
            seq,
            ..Position::first_of(0)
        };
        let known: Vec<Vec<u8>> = (0..many).map(alike).collect();
        for (seq, uri) in (0_u64..).zip(&known) {
            let record = |seq: u64, uri| Record {
                place: place(seq),
                attempts: 0,
                uri,
            };
            let before = seq
                .checked_sub(1)
                .map(|at| record(at, &known[at as usize][..]));
            append(&mut chunk, before, record(seq, uri));
        }
        ENVELOPE.seal(&mut chunk, 0);
        let refused = Uris::default().load(&chunk).is_err();
        assert_eq!(refused, many > 16, "{many}");
    }
}

#[test]
fn a_uri_is_added_once_and_leased_when_it_is_due() {
    let mut uris = Uris::default();
    let add = Op::Add {
        execution: b"crawl-1",
        weight: None,
        due: 1000,
        depth: 0,
        attempts: 0,
        uri: b"http://example.com/",
    };
    assert_eq!(uris.apply(&add), Changed::Added);
    assert_eq!(uris.apply(&add), Changed::Nothing);
    assert_eq!(uris.pick(999, &|_| false), None);
    let next = uris.pick(1000, &|_| false).unwrap().to_vec();
    let take = Op::Take {
        token: 7,
        execution: &next,
        now: 1000,
    };
    uris.apply(&take);
    assert_eq!(uris.leased(7).unwrap().stored, b"http://example.com/");
    assert_eq!(uris.apply(&Op::done(7)), Changed::Removed(1));
    assert!(uris.is_empty());
}
