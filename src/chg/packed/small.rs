//! The small parts of a packed frontier, stored in ordered maps in the form of the plain keys.

use std::collections::{BTreeMap, BTreeSet};

type Bytes = Box<[u8]>;

/// Members with scores, in the order of the server.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sorted {
    scores: BTreeMap<Bytes, u64>,
    order: BTreeSet<(u64, Bytes)>,
}

/// Maps a score, which is never negative, to an integer with the same order.
fn bits(score: f64) -> u64 {
    (score + 0.0).to_bits()
}

impl Sorted {
    pub fn len(&self) -> u64 {
        self.scores.len() as u64
    }

    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).map(|&bits| f64::from_bits(bits))
    }

    pub fn add(&mut self, member: &[u8], score: f64) {
        let (member, score) = (Bytes::from(member), bits(score));
        let before = self.scores.insert(member.clone(), score);
        if let Some(before) = before.filter(|before| *before != score) {
            self.order.remove(&(before, member.clone()));
        }
        self.order.insert((score, member));
    }

    pub fn remove(&mut self, member: &[u8]) -> bool {
        let Some((member, bits)) = self.scores.remove_entry(member) else {
            return false;
        };
        self.order.remove(&(bits, member))
    }

    /// Iterates over the members in ascending order of scores.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], f64)> {
        let order = self.order.iter();
        order.map(|(bits, member)| (&**member, f64::from_bits(*bits)))
    }

    pub fn count_up_to(&self, most: f64) -> u64 {
        self.iter().take_while(|(_, score)| *score <= most).count() as u64
    }
}

/// A list, whose elements have increasing numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct List {
    elements: BTreeMap<u64, Bytes>,
}

impl List {
    pub fn len(&self) -> u64 {
        self.elements.len() as u64
    }

    pub fn push(&mut self, element: &[u8]) {
        let next = self
            .elements
            .last_key_value()
            .map_or(0, |(last, _)| last + 1);
        self.elements.insert(next, element.into());
    }

    fn number(&self, at: u64) -> Option<u64> {
        self.elements.keys().nth(at as usize).copied()
    }

    pub fn get(&self, at: u64) -> Option<&[u8]> {
        self.elements
            .get(&self.number(at)?)
            .map(|element| &**element)
    }

    pub fn take(&mut self, at: u64) -> Option<Bytes> {
        let number = self.number(at)?;
        self.elements.remove(&number)
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.elements.values().map(|element| &**element)
    }
}

/// A hash.
pub(super) type Hash = BTreeMap<Bytes, Bytes>;

/// The small parts, by the names of their plain keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Small {
    pub hashes: BTreeMap<Bytes, Hash>,
    pub sorted: BTreeMap<Bytes, Sorted>,
    pub lists: BTreeMap<Bytes, List>,
    pub numbers: BTreeMap<Bytes, i64>,
}

/// Returns the part with this name, which is created if it does not exist.
fn part<'a, T: Default>(parts: &'a mut BTreeMap<Bytes, T>, name: &[u8]) -> &'a mut T {
    // `entry` alone would copy the name each time.
    if !parts.contains_key(name) {
        parts.insert(name.into(), T::default());
    }
    parts.get_mut(name).expect("just made")
}

impl Small {
    /// Deletes a part. Returns true if the part existed.
    pub fn delete(&mut self, name: &[u8]) -> bool {
        let hash = self.hashes.remove(name).is_some();
        let sorted = self.sorted.remove(name).is_some();
        let list = self.lists.remove(name).is_some();
        hash || sorted || list || self.numbers.remove(name).is_some()
    }

    /// Sets a field of a hash. Returns true if the field is new.
    pub fn set(&mut self, name: &[u8], field: &[u8], value: &[u8]) -> bool {
        let hash = part(&mut self.hashes, name);
        hash.insert(field.into(), value.into()).is_none()
    }

    /// Deletes a field of a hash. Returns true if the field existed.
    pub fn unset(&mut self, name: &[u8], field: &[u8]) -> bool {
        let Some(hash) = self.hashes.get_mut(name) else {
            return false;
        };
        let existed = hash.remove(field).is_some();
        if hash.is_empty() {
            self.hashes.remove(name);
        }
        existed
    }

    /// Sets the score of a member.
    pub fn score(&mut self, name: &[u8], member: &[u8], score: f64) {
        part(&mut self.sorted, name).add(member, score);
    }

    /// Removes a member. Returns true if the member existed.
    pub fn unscore(&mut self, name: &[u8], member: &[u8]) -> bool {
        let Some(sorted) = self.sorted.get_mut(name) else {
            return false;
        };
        let existed = sorted.remove(member);
        if sorted.len() == 0 {
            self.sorted.remove(name);
        }
        existed
    }

    /// Appends an element to a list. Returns the new length.
    pub fn append(&mut self, name: &[u8], element: &[u8]) -> u64 {
        let list = part(&mut self.lists, name);
        list.push(element);
        list.len()
    }

    /// Removes an element of a list and returns it.
    pub fn remove(&mut self, name: &[u8], at: u64) -> Option<Bytes> {
        let list = self.lists.get_mut(name)?;
        let element = list.take(at)?;
        if list.len() == 0 {
            self.lists.remove(name);
        }
        Some(element)
    }

    /// Returns the approximate number of memory blocks.
    pub fn pieces(&self) -> usize {
        let hashes = self.hashes.values().map(BTreeMap::len);
        let sorted = self.sorted.values().map(|sorted| sorted.len() as usize);
        let lists = self.lists.values().map(|list| list.len() as usize);
        hashes.chain(sorted).chain(lists).sum()
    }

    /// Returns the approximate memory use in bytes.
    pub fn memory(&self) -> usize {
        let each = 48;
        let hashes = self.hashes.values().map(|hash| hash.len() * 2 * each);
        let sorted = self
            .sorted
            .values()
            .map(|sorted| sorted.len() as usize * 3 * each);
        let lists = self
            .lists
            .values()
            .map(|list| list.len() as usize * 2 * each);
        hashes.chain(sorted).chain(lists).sum::<usize>() + self.numbers.len() * each
    }
}
