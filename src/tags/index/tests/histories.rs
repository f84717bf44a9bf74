//! Applies random histories to an index, and compares it with a model.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::model::{Bytes, Model};
use super::*;

#[derive(Clone, Debug)]
enum Step {
    Add(Tagged, u16, Vec<u8>),
    Remove(Tagged, u16, Vec<u8>),
    Load(Tagged, Mode, Vec<(u16, Vec<u8>)>),
    /// Adds many consecutive ids, enough to split shards, or removes them.
    Many(Tagged, u16, bool),
    Swap(Tagged, Option<u64>),
    Discard(Tagged),
    Snapshot,
    /// Checks the oldest snapshot and drops it.
    Look,
    /// Replaces the index with the oldest snapshot, as copying a key would.
    Return,
    SaveAndLoad(usize),
    /// Continues the running scans, and begins another scan.
    Scan(Tagged, usize),
}

fn kind() -> impl Strategy<Value = Tagged> {
    select(&Tagged::ALL[..])
}

fn tags() -> impl Strategy<Value = Vec<u8>> {
    subsequence((0..10).collect::<Vec<u8>>(), 0..4).prop_shuffle()
}

fn step() -> impl Strategy<Value = Step> {
    let mode = select(&[Mode::Merge, Mode::Set, Mode::Replace, Mode::Stage][..]);
    let pairs = prop::collection::vec((0..60_u16, tags()), 0..8);
    let expect = prop::option::of(0..4_u64);
    prop_oneof![
        8 => (kind(), 0..60_u16, tags()).prop_map(|(k, id, t)| Step::Add(k, id, t)),
        6 => (kind(), 0..60_u16, tags()).prop_map(|(k, id, t)| Step::Remove(k, id, t)),
        5 => (kind(), mode, pairs).prop_map(|(k, m, p)| Step::Load(k, m, p)),
        1 => (kind(), 0..500_u16, any::<bool>()).prop_map(|(k, n, a)| Step::Many(k, n, a)),
        2 => (kind(), expect).prop_map(|(k, e)| Step::Swap(k, e)),
        1 => kind().prop_map(Step::Discard),
        2 => Just(Step::Snapshot),
        1 => Just(Step::Look),
        1 => Just(Step::Return),
        1 => (1..3000_usize).prop_map(Step::SaveAndLoad),
        4 => (kind(), 1..40_usize).prop_map(|(k, n)| Step::Scan(k, n)),
    ]
}

fn tag(n: u8) -> Bytes {
    match n {
        0 => b"\0\xff\r\n".to_vec(),
        1 => b"a".to_vec(),
        n => format!("coll:{n}").into_bytes(),
    }
}

fn id(kind: Tagged, n: u16) -> Bytes {
    match (kind, n) {
        (Tagged::Tag, 0..60) => tag((n % 10) as u8),
        (Tagged::Tag, _) => format!("many:{n}").into_bytes(),
        (Tagged::File, _) if n.is_multiple_of(7) => format!("dir/ a {n}").into_bytes(),
        (Tagged::File, _) => format!("dir/{}-{n}.warc.gz", "x".repeat(100)).into_bytes(),
        (Tagged::Record, _) if n.is_multiple_of(5) => format!("no record {n}").into_bytes(),
        (Tagged::Record, _) => format!(
            "org,example)/{}/{n} 202401010000{:02} f{}.warc.gz {n}",
            "x".repeat(100),
            n % 60,
            n / 10
        )
        .into_bytes(),
    }
}

/// A scan: the ids that exist during the whole scan, and the ids that it has returned.
struct Walk {
    kind: Tagged,
    cursor: u64,
    count: usize,
    staying: BTreeSet<Bytes>,
    given: BTreeSet<Bytes>,
}

impl Walk {
    /// Makes one call. Returns true if this call was the last call of the scan.
    fn go_on(&mut self, index: &Index) -> bool {
        let given = &mut self.given;
        self.cursor = index.scan(self.kind, self.cursor, self.count, &mut |id, _| {
            given.insert(id.to_vec());
        });
        if self.cursor == 0 {
            assert!(self.staying.is_subset(&self.given), "the walk missed some");
        }
        self.cursor == 0
    }
}

struct History {
    index: Index,
    model: Model,
    snapshots: Vec<(Index, Model)>,
    walks: Vec<Walk>,
}

impl History {
    fn apply(&mut self, step: Step) {
        let (index, model) = (&mut self.index, &mut self.model);
        match step {
            Step::Add(kind, n, tags) => {
                let (id, tags) = (id(kind, n), tags.into_iter().map(tag).collect::<Vec<_>>());
                let slices: Vec<_> = tags.iter().map(|tag| &tag[..]).collect();
                let before = model.clone();
                let added = index.add(kind, &id, &slices);
                assert_eq!(
                    added.as_ref().ok().map(|a| a.0),
                    model.add(kind, &id, &tags)
                );
                match added {
                    Ok((_, touched)) => check_touched(index, &before, model, touched),
                    Err(error) => check_cycle(model, &error, Some((&id, &tags))),
                }
            }
            Step::Remove(kind, n, tags) => {
                let (id, tags) = (id(kind, n), tags.into_iter().map(tag).collect::<Vec<_>>());
                let slices: Vec<_> = tags.iter().map(|tag| &tag[..]).collect();
                let before = model.clone();
                let (removed, touched) = index.remove(kind, &id, &slices);
                assert_eq!(removed, model.remove(kind, &id, &tags));
                check_touched(index, &before, model, touched);
            }
            Step::Load(kind, mode, pairs) => {
                let pairs = pairs
                    .into_iter()
                    .map(|(n, tags)| (id(kind, n), tags.into_iter().map(tag).collect::<Vec<_>>()));
                self.load(kind, mode, pairs.collect());
            }
            Step::Many(kind, from, there) => {
                let tags = |n| {
                    if there {
                        vec![tag((n % 3) as u8 + 10)]
                    } else {
                        vec![]
                    }
                };
                let pairs = (from..from + 400).map(|n| (id(kind, n + 60), tags(n)));
                self.load(kind, Mode::Set, pairs.collect());
            }
            Step::Swap(kind, expect) => {
                let staged = index.staged(kind);
                match index.swap(kind, expect) {
                    Ok((ids, _)) => {
                        assert!(expect.is_none_or(|expect| expect == ids));
                        assert_eq!(model.swap(kind), Some(ids));
                    }
                    Err(error) if expect.is_some() && staged.is_some() => assert_eq!(
                        error,
                        Error::StagedCount {
                            kind,
                            has: staged.unwrap().ids,
                            expected: expect.unwrap()
                        }
                    ),
                    Err(error) => {
                        assert_eq!(error, Error::NotStaged(kind));
                        assert_eq!(staged, None);
                    }
                }
            }
            Step::Discard(kind) => {
                let ids = model.staged[kind as usize]
                    .take()
                    .map_or(0, |map| map.len());
                assert_eq!(index.discard(kind).0, ids as u64);
            }
            Step::Snapshot => self.snapshots.push((index.clone(), model.clone())),
            Step::Look if self.snapshots.is_empty() => {}
            Step::Look => {
                let (index, model) = self.snapshots.remove(0);
                model.check(&index);
            }
            Step::Return if self.snapshots.is_empty() => {}
            Step::Return => {
                (self.index, self.model) = self.snapshots.remove(0);
                self.walks.clear();
            }
            Step::SaveAndLoad(chunk_bytes) => {
                let mut loaded = Index::default();
                index.save_in(chunk_bytes, &mut |chunk| loaded.load_chunk(chunk).unwrap());
                assert_eq!(&loaded, index);
                model.check(&loaded);
                *index = loaded;
                self.walks.clear();
            }
            Step::Scan(kind, count) => {
                self.walks.retain_mut(|walk| !walk.go_on(&self.index));
                let staying = model.in_place[kind as usize].keys().cloned().collect();
                self.walks.push(Walk {
                    kind,
                    cursor: 0,
                    count,
                    staying,
                    given: BTreeSet::new(),
                });
                if let Some(walk) = self.walks.pop_if(|walk| walk.go_on(&self.index)) {
                    assert_eq!(walk.given, walk.staying);
                }
            }
        }
        for walk in &mut self.walks {
            let there = &self.model.in_place[walk.kind as usize];
            walk.staying.retain(|id| there.contains_key(id));
        }
    }

    fn load(&mut self, kind: Tagged, mode: Mode, pairs: Vec<(Bytes, Vec<Bytes>)>) {
        let lists: Vec<_> = pairs.iter().map(|(_, tags)| tags.join(&b' ')).collect();
        let slices: Vec<_> = pairs
            .iter()
            .zip(&lists)
            .map(|((id, _), tags)| (&id[..], &tags[..]))
            .collect();
        let before = self.model.clone();
        let loaded = self.index.load(kind, mode, &slices);
        assert_eq!(loaded.is_ok(), self.model.load(kind, mode, &pairs));
        match loaded {
            Ok((touched, _)) => check_touched(&self.index, &before, &self.model, touched),
            Err(error) => check_cycle(&self.model, &error, None),
        }
    }
}

/// Checks that the change reported all tags whose closure changed.
fn check_touched(index: &Index, before: &Model, after: &Model, touched: Touched) {
    let reported = match touched {
        Touched::Nothing => BTreeSet::new(),
        Touched::Tags(tags) => tags.iter().map(|tag| index.name(*tag).to_vec()).collect(),
        Touched::All => return,
    };
    for tag in before.tags().intersection(&after.tags()) {
        let tag = std::slice::from_ref(tag);
        if before.closure(tag) != after.closure(tag) {
            assert!(reported.contains(&tag[0]), "{}", tag[0].escape_ascii());
        }
    }
}

/// Checks that the change would have created the cycle that the error reports.
fn check_cycle(model: &Model, error: &Error, added: Option<(&Bytes, &[Bytes])>) {
    let Error::Cycle { tag, carries } = error else {
        panic!("{error}");
    };
    if let Some((id, tags)) = added {
        assert!(id[..] == carries[..] && tags.contains(&tag.to_vec()));
        let tags = &model.in_place[Tagged::Tag as usize];
        assert!(super::model::carries(tags, tag, carries));
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(debug_assertions) { 60 } else { 1000 },
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_history_equals_plain_maps(
        steps in prop::collection::vec(step(), 1..80)
    ) {
        let mut history = History {
            index: Index::default(),
            model: Model::default(),
            snapshots: Vec::new(),
            walks: Vec::new(),
        };
        for step in steps {
            history.apply(step);
            history.index.verify();
        }
        history.model.check(&history.index);
        for (index, model) in &history.snapshots {
            model.check(index);
        }
    }
}
