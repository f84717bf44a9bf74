//! The edges of one kind, in the active or the staged copy.

use smallvec::SmallVec;

use super::carriers::Carriers;
use super::dictionary::Dictionary;
use super::names::{List, Names};
use super::pages::Numbers;
use super::record::{Key, Parts, RecordKey, parse_key, whole_key};
use super::table::Table;
use super::{Counts, TagId, Tagged};

/// Tags in ascending order of their numbers.
pub type Tags = SmallVec<[TagId; 16]>;

#[derive(Clone)]
pub struct Edges {
    kind: Tagged,
    /// The number of the tag set of each record or file.
    table: Table,
    /// The number of the tag set of each tag.
    of_tags: Numbers,
    /// Sets of tags. The holders of a set are the ids whose tags are this set. The empty set has
    /// the number 0.
    sets: Dictionary<TagId>,
    /// Number of sets that contain the tag with this number, plus one if the tag is itself an id
    /// with tags.
    uses: Numbers,
    /// Number of records with the filename that has this number.
    file_uses: Numbers,
    carriers: Carriers,
    counts: Counts,
}

impl Edges {
    pub fn new(kind: Tagged) -> Edges {
        Edges {
            kind,
            table: Table::default(),
            of_tags: Numbers::default(),
            sets: Dictionary::default(),
            uses: Numbers::default(),
            file_uses: Numbers::default(),
            carriers: Carriers::default(),
            counts: Counts::default(),
        }
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    pub fn table(&self) -> &Table {
        &self.table
    }

    pub fn table_mut(&mut self) -> &mut Table {
        &mut self.table
    }

    pub fn carriers(&self) -> &Carriers {
        &self.carriers
    }

    /// Returns true if any edge involves this tag.
    pub fn uses(&self, tag: TagId) -> bool {
        self.uses.get(tag.0) > 0
    }

    /// Returns true if any record has this filename.
    pub fn uses_file(&self, file: u32) -> bool {
        self.file_uses.get(file) > 0
    }

    /// Returns the tags of a set.
    pub fn set(&self, set: u32) -> &[TagId] {
        self.sets.get(set)
    }

    /// Returns the tags that a tag carries. Must only be called on the edges of tags.
    pub fn carried(&self, tag: TagId) -> &[TagId] {
        self.set(self.of_tags.get(tag.0))
    }

    /// Returns the number of the tag set of an id, or 0 if the id has no tags.
    pub fn set_of(&self, names: &Names, id: &[u8]) -> u32 {
        if self.counts.ids == 0 {
            return 0;
        }
        match self.kind {
            Tagged::Tag => names.tag(id).map_or(0, |tag| self.of_tags.get(tag.0)),
            Tagged::File => self.table.get(id).unwrap_or(0),
            Tagged::Record => {
                let key = key(names, id);
                key.and_then(|key| self.table.get(&key)).unwrap_or(0)
            }
        }
    }

    /// Adds a holder to the set of these tags, which must not be empty. Returns the number of the
    /// set.
    pub fn hold(&mut self, names: &mut Names, tags: &[TagId]) -> u32 {
        let set = self.sets.insert(tags);
        if self.sets.holders(set) == 0 {
            for tag in tags {
                more(&mut self.uses, &mut names.tags, tag.0);
            }
        }
        self.sets.hold(set);
        set
    }

    /// Adds another holder to a set.
    pub fn hold_again(&mut self, set: u32) {
        if set > 0 {
            self.sets.hold(set);
        }
    }

    /// Removes one holder from a set.
    pub fn release(&mut self, names: &mut Names, set: u32) {
        if set == 0 {
            return;
        }
        if let Some(tags) = self.sets.release(set) {
            for tag in &*tags {
                less(&mut self.uses, &mut names.tags, tag.0);
            }
        }
    }

    /// Sets the tags of an id to exactly these tags.
    pub fn assign(&mut self, names: &mut Names, id: &[u8], tags: &[TagId]) {
        if tags.is_empty() {
            self.place(names, id, 0);
            return;
        }
        let set = self.hold(names, tags);
        self.place(names, id, set);
        self.release(names, set);
    }

    /// Assigns a set to an id; 0 removes the tags of the id. The caller must have added a holder.
    pub fn place(&mut self, names: &mut Names, id: &[u8], set: u32) {
        let old = self.set_of(names, id);
        if old == set {
            return;
        }
        self.hold_again(set);
        match self.kind {
            Tagged::Tag => self.place_tag(names, id, old, set),
            Tagged::File if set > 0 => self.table.set(id, set),
            Tagged::File => self.table.remove(id),
            Tagged::Record => self.place_record(names, id, old, set),
        }
        self.counts.ids += u64::from(set > 0);
        self.counts.ids -= u64::from(old > 0);
        self.counts.edges += self.set(set).len() as u64;
        self.counts.edges -= self.set(old).len() as u64;
        self.release(names, old);
    }

    fn place_record(&mut self, names: &mut Names, id: &[u8], old: u32, set: u32) {
        let Some(parts) = Parts::of(id) else {
            let key = whole_key(id);
            match set {
                0 => self.table.remove(&key),
                _ => self.table.set(&key, set),
            }
            return;
        };
        let file = names.files.number(parts.filename);
        let key = parts.key(file);
        if old == 0 {
            more(&mut self.file_uses, &mut names.files, file);
        }
        if set > 0 {
            self.table.set(&key, set);
        } else {
            self.table.remove(&key);
            less(&mut self.file_uses, &mut names.files, file);
        }
    }

    fn place_tag(&mut self, names: &mut Names, id: &[u8], old: u32, set: u32) {
        let tag = names.number(id);
        let (before, after) = (self.sets.get(old), self.sets.get(set));
        for carried in before {
            if after.binary_search(carried).is_err() {
                self.carriers.remove(*carried, tag);
            }
        }
        for carried in after {
            if before.binary_search(carried).is_err() {
                self.carriers.insert(*carried, tag);
            }
        }
        self.of_tags.set(tag.0, set);
        match (old, set) {
            (0, _) => more(&mut self.uses, &mut names.tags, tag.0),
            (_, 0) => less(&mut self.uses, &mut names.tags, tag.0),
            _ => {}
        }
    }

    /// Calls `each` with each id and the number of its set.
    pub fn each(&self, names: &Names, each: &mut dyn FnMut(Id<'_>, u32)) {
        if self.kind == Tagged::Tag {
            for tag in 1..self.of_tags.end() {
                match self.of_tags.get(tag) {
                    0 => {}
                    set => each(Id::Whole(names.get(TagId(tag))), set),
                }
            }
            return;
        }
        self.table
            .each(&mut |key, set| each(self.id_of(names, key), set));
    }

    /// Visits ids as [`super::Index::scan`] does.
    pub fn scan(
        &self,
        names: &Names,
        cursor: u64,
        count: usize,
        each: &mut dyn FnMut(&[u8], &[TagId]),
    ) -> u64 {
        if self.kind == Tagged::Tag {
            return walk(self.of_tags.end(), cursor, count, |tag| {
                let set = self.of_tags.get(tag.0);
                if set > 0 {
                    each(names.get(tag), self.set(set));
                }
                set > 0
            });
        }
        let mut id = Vec::new();
        self.table.scan(cursor, count, &mut |key, set| {
            each(self.id_of(names, key).bytes(&mut id), self.set(set));
        })
    }

    /// Checks that redundant data is consistent.
    #[cfg(test)]
    pub fn verify(&self, names: &Names) {
        use std::collections::BTreeMap;
        self.table.verify();
        self.carriers.verify();
        let (mut counts, mut holders, mut uses) =
            (Counts::default(), BTreeMap::new(), BTreeMap::new());
        let (mut files, mut carriers) = (BTreeMap::new(), BTreeMap::<_, Vec<_>>::new());
        let mut joined = Vec::new();
        self.each(names, &mut |id, set| {
            counts.ids += 1;
            counts.edges += self.set(set).len() as u64;
            *holders.entry(set).or_insert(0) += 1;
            if let Id::Parts(file, _) = &id {
                *files.entry(*file).or_insert(0) += 1;
            }
            let id = id.bytes(&mut joined);
            assert_eq!(self.set_of(names, id), set);
            if let (Tagged::Tag, Some(tag)) = (self.kind, names.tag(id)) {
                *uses.entry(tag.0).or_insert(0) += 1;
                for carried in self.set(set) {
                    carriers.entry(*carried).or_default().push(tag);
                }
            }
        });
        assert_eq!(counts, self.counts);
        assert_eq!(self.sets.verify(), holders.keys().copied().collect());
        for (&set, &times) in &holders {
            assert_eq!(self.sets.holders(set), times);
            assert!(self.set(set).is_sorted_by(|a, b| a < b));
            for tag in self.set(set) {
                *uses.entry(tag.0).or_insert(0) += 1;
            }
        }
        let same = |numbers: &Numbers, counted: &BTreeMap<u32, u32>| {
            let all = (0..numbers.end()).map(|n| (n, numbers.get(n)));
            all.filter(|&(_, n)| n > 0)
                .eq(counted.iter().map(|(n, m)| (*n, *m)))
        };
        assert!(same(&self.uses, &uses) && same(&self.file_uses, &files));
        for tag in 0..=names.tags.highest() {
            let mut carrying = Vec::new();
            self.carriers.each(TagId(tag), |carrier| {
                carrying.push(carrier);
                true
            });
            assert_eq!(carrying.len(), self.carriers.count(TagId(tag)));
            carrying.sort();
            assert_eq!(carrying, carriers.remove(&TagId(tag)).unwrap_or_default());
        }
    }

    fn id_of<'a>(&self, names: &'a Names, key: &'a [u8]) -> Id<'a> {
        if self.kind == Tagged::File {
            return Id::Whole(key);
        }
        match parse_key(key, &names.files) {
            RecordKey::Whole(id) => Id::Whole(id),
            RecordKey::Parts(file, parts) => Id::Parts(file, parts),
        }
    }

    pub fn memory(&self) -> usize {
        self.table.memory()
            + self.of_tags.memory()
            + self.sets.memory()
            + self.uses.memory()
            + self.file_uses.memory()
            + self.carriers.memory()
    }

    pub fn pieces(&self) -> usize {
        self.table.pieces()
            + self.of_tags.pieces()
            + self.sets.pieces()
            + self.uses.pieces()
            + self.file_uses.pieces()
            + self.carriers.pieces()
    }
}

/// Returns the key of a record. Returns `None` if the filename is unknown; then the record does not
/// exist.
fn key(names: &Names, id: &[u8]) -> Option<Key> {
    match Parts::of(id) {
        None => Some(whole_key(id)),
        Some(parts) => {
            let file = names.files.find(parts.filename)?;
            Some(parts.key(file))
        }
    }
}

/// Increments the number of uses of a name.
fn more(uses: &mut Numbers, names: &mut List, number: u32) {
    let before = uses.get(number);
    uses.set(number, before + 1);
    if before == 0 {
        names.look_again(number);
    }
}

/// Decrements the number of uses of a name.
fn less(uses: &mut Numbers, names: &mut List, number: u32) {
    let before = uses.get(number);
    uses.set(number, before - 1);
    if before == 1 {
        names.look_again(number);
    }
}

/// An id in its stored form.
pub enum Id<'a> {
    Whole(&'a [u8]),
    /// The number of the filename, and the parts.
    Parts(u32, Parts<'a>),
}

impl<'a> Id<'a> {
    /// Returns the id in the form that clients use. `joined` is the buffer in which the id is
    /// assembled if necessary.
    pub fn bytes<'b>(&'b self, joined: &'b mut Vec<u8>) -> &'b [u8] {
        match self {
            Id::Whole(id) => id,
            Id::Parts(_, parts) => {
                joined.clear();
                parts.join(joined);
                joined
            }
        }
    }
}

/// Visits the numbers of tags from `cursor` to `end` until `each` has returned true `count` times.
/// Returns the next cursor; 0 at the end.
pub fn walk(end: u32, cursor: u64, count: usize, mut each: impl FnMut(TagId) -> bool) -> u64 {
    let mut given = 0;
    let first = u32::try_from(cursor.max(1)).unwrap_or(u32::MAX);
    // Limit the work, because long ranges of numbers may be unused.
    let most = count.saturating_mul(16).saturating_add(1024);
    for (looked, tag) in (first..end).enumerate() {
        if given >= count || looked >= most {
            return tag.into();
        }
        given += usize::from(each(TagId(tag)));
    }
    0
}
