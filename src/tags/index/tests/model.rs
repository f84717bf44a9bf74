//! A model of the index on plain maps.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

pub type Bytes = Vec<u8>;
pub type Map = BTreeMap<Bytes, BTreeSet<Bytes>>;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    pub in_place: [Map; 3],
    pub staged: [Option<Map>; 3],
}

/// Returns true if `from` carries `to`, directly or indirectly, or if they are equal.
pub fn carries(map: &Map, from: &[u8], to: &[u8]) -> bool {
    let mut seen = BTreeSet::from([from]);
    let mut next = vec![from];
    while let Some(tag) = next.pop() {
        for carried in map.get(tag).into_iter().flatten() {
            if seen.insert(carried) {
                next.push(carried);
            }
        }
    }
    seen.contains(to)
}

fn has_cycle(map: &Map) -> bool {
    map.iter()
        .any(|(tag, carried)| carried.iter().any(|other| carries(map, other, tag)))
}

/// Adds edges. Returns the number of new edges.
fn merge(map: &mut Map, id: &Bytes, tags: &[Bytes]) -> u64 {
    let new = tags
        .iter()
        .filter(|&tag| map.entry(id.clone()).or_default().insert(tag.clone()))
        .count();
    new as u64
}

impl Model {
    /// Adds edges. Returns the number of new edges, or `None` if the index must refuse the change.
    pub fn add(&mut self, kind: Tagged, id: &Bytes, tags: &[Bytes]) -> Option<u64> {
        let mut map = self.in_place[kind as usize].clone();
        let added = merge(&mut map, id, tags);
        self.put(kind, map).then_some(added)
    }

    pub fn remove(&mut self, kind: Tagged, id: &Bytes, tags: &[Bytes]) -> u64 {
        let map = &mut self.in_place[kind as usize];
        let Some(own) = map.get_mut(id) else { return 0 };
        let removed = tags.iter().filter(|&tag| own.remove(tag)).count();
        if own.is_empty() {
            map.remove(id);
        }
        removed as u64
    }

    /// Loads ids. Returns true if the index must accept the load.
    pub fn load(&mut self, kind: Tagged, mode: Mode, pairs: &[(Bytes, Vec<Bytes>)]) -> bool {
        let mut map = match mode {
            Mode::Merge | Mode::Set => self.in_place[kind as usize].clone(),
            Mode::Replace => Map::new(),
            Mode::Stage => self.staged[kind as usize].clone().unwrap_or_default(),
        };
        for (id, tags) in pairs {
            if mode == Mode::Set {
                map.remove(id);
            }
            merge(&mut map, id, tags);
        }
        if mode != Mode::Stage {
            return self.put(kind, map);
        }
        let good = kind != Tagged::Tag || !has_cycle(&map);
        if good {
            self.staged[kind as usize] = Some(map);
        }
        good
    }

    pub fn swap(&mut self, kind: Tagged) -> Option<u64> {
        let map = self.staged[kind as usize].take()?;
        let ids = map.len() as u64;
        self.in_place[kind as usize] = map;
        Some(ids)
    }

    fn put(&mut self, kind: Tagged, map: Map) -> bool {
        if kind == Tagged::Tag && has_cycle(&map) {
            return false;
        }
        self.in_place[kind as usize] = map;
        true
    }

    /// Returns the expected closure.
    pub fn closure(&self, from: &[Bytes]) -> BTreeSet<Bytes> {
        let tags = &self.in_place[Tagged::Tag as usize];
        let mut all: BTreeSet<_> = from.iter().cloned().collect();
        let mut next = from.to_vec();
        while let Some(tag) = next.pop() {
            for carried in tags.get(&tag).into_iter().flatten() {
                if all.insert(carried.clone()) {
                    next.push(carried.clone());
                }
            }
        }
        all
    }

    /// Returns the tags that occur in active copies.
    pub fn tags(&self) -> BTreeSet<Bytes> {
        let carriers = self.in_place[Tagged::Tag as usize].keys();
        let carried = self.in_place.iter().flat_map(Map::values).flatten();
        carriers.chain(carried).cloned().collect()
    }

    fn elements(&self) -> Vec<Vec<Bytes>> {
        let mut all = Vec::new();
        for kind in Tagged::ALL {
            let staged = self.staged[kind as usize].as_ref();
            let in_place = Some(&self.in_place[kind as usize]);
            for (place, map) in [("in place", in_place), ("staged", staged)] {
                let head = vec![kind.name().as_bytes().to_vec(), place.as_bytes().to_vec()];
                let Some(map) = map else { continue };
                if map.is_empty() && place == "staged" {
                    all.push(head.clone());
                }
                for (id, tags) in map {
                    let edge = |tag: &Bytes| [head.clone(), vec![id.clone(), tag.clone()]].concat();
                    all.extend(tags.iter().map(edge));
                }
            }
        }
        all.sort();
        all
    }

    /// Checks that the index and the model agree on every query.
    pub fn check(&self, index: &Index) {
        let mut elements: Vec<Vec<Bytes>> = Vec::new();
        index.elements(&mut |parts| elements.push(parts.iter().map(|p| p.to_vec()).collect()));
        elements.sort();
        assert_eq!(self.elements(), elements);
        assert_eq!(index.is_empty(), elements.is_empty());
        for kind in Tagged::ALL {
            let counts = |map: &Map| Counts {
                ids: map.len() as u64,
                edges: map.values().map(|tags| tags.len() as u64).sum(),
            };
            let map = &self.in_place[kind as usize];
            assert_eq!(index.counts(kind), counts(map));
            let staged = self.staged[kind as usize].as_ref();
            assert_eq!(index.staged(kind), staged.map(counts));
            for (id, tags) in map {
                let tags: Vec<_> = tags.iter().map(|tag| &tag[..]).collect();
                assert_eq!(index.names_of(kind, id), tags);
            }
            for count in [7, 10_000] {
                let mut scanned = Map::new();
                let mut cursor = 0;
                loop {
                    cursor = index.scan(kind, cursor, count, &mut |id, tags| {
                        let names = tags.iter().map(|tag| index.name(*tag).to_vec());
                        let twice = scanned.insert(id.to_vec(), names.collect());
                        assert_eq!(twice, None, "given twice");
                    });
                    if cursor == 0 {
                        break;
                    }
                }
                assert_eq!(&scanned, map);
            }
        }
        let mut tags = BTreeSet::new();
        let mut cursor = 0;
        loop {
            cursor = index.tags(cursor, 3, &mut |tag, name| {
                assert_eq!(index.tag(name), Some(tag));
                assert!(tags.insert(name.to_vec()));
            });
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(tags, self.tags());
        assert_eq!(index.tag_count(), tags.len() as u64);
        for tag in &tags {
            let from = index.tag(tag).unwrap();
            let mut closure = Vec::new();
            index.closure(&[from, from], &mut closure);
            let names: BTreeSet<_> = closure.iter().map(|t| index.name(*t).to_vec()).collect();
            assert_eq!(names.len(), closure.len());
            assert_eq!(names, self.closure(std::slice::from_ref(tag)));
        }
        index.verify();
    }
}
