//! The committed part of an index in one value: the merged index, the records of its crawls, and the
//! further holders of hashes.
//!
//! It behaves as the plain hashes that it stands for, byte for byte: whatever field and value goes in
//! comes out. How a hash is spelled, who owns it and what a record means is nothing that it knows.

pub mod codec;
mod decoding;
mod encoding;

use std::collections::BTreeMap;

pub mod op;

use smallvec::SmallVec;

use crate::defrag::Mover;
use crate::keyspace::Batch;
use crate::slices::Time;

/// A value of a field, read from a packed index. Most fit without an allocation.
pub type Value = SmallVec<[u8; 128]>;

/// A packed index.
#[derive(Clone, Default)]
pub struct Packed {
    owners: BTreeMap<Vec<u8>, Vec<u8>>,
    records: BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, Vec<u8>>>,
    holders: BTreeMap<Vec<u8>, Vec<u8>>,
    /// While its chunks come.
    loading: Option<Box<decoding::Loading>>,
}

/// A position in a scan of one of the parts. Entries that are there from the first step to the last
/// are given at least once, whatever happens between steps.
#[derive(Clone, Debug, Default)]
pub struct Cursor {
    after: Option<Vec<u8>>,
}

/// One of the hashes that a packed index stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// The merged index: hash → crawl that owns it.
    Owners,
    /// `h:<crawl>`: hash → record.
    Records(&'a [u8]),
    /// `holders`: hash → numbers of commits.
    Holders,
}

impl Packed {
    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        // One whose first chunk alone has come must not be taken for nothing.
        self.loading.is_none()
            && self.owners.is_empty()
            && self.records.is_empty()
            && self.holders.is_empty()
    }

    fn part(&self, part: Part<'_>) -> Option<&BTreeMap<Vec<u8>, Vec<u8>>> {
        match part {
            Part::Owners => Some(&self.owners),
            Part::Records(crawl) => self.records.get(crawl),
            Part::Holders => Some(&self.holders),
        }
    }

    /// Number of fields of a part.
    pub fn len(&self, part: Part<'_>) -> u64 {
        self.part(part).map_or(0, |part| part.len() as u64)
    }

    /// Records of all crawls.
    pub fn all_records(&self) -> u64 {
        self.records.values().map(|part| part.len() as u64).sum()
    }

    /// Crawls that have records here, in any order.
    pub fn crawls(&self) -> Vec<Vec<u8>> {
        self.records.keys().cloned().collect()
    }

    /// The value of a field.
    pub fn get(&self, part: Part<'_>, field: &[u8]) -> Option<Value> {
        Some(Value::from_slice(self.part(part)?.get(field)?))
    }

    /// Whether a part has the field.
    pub fn has(&self, part: Part<'_>, field: &[u8]) -> bool {
        self.part(part).is_some_and(|part| part.contains_key(field))
    }

    /// The owner of a field, and the owner's record of the same field, in one step.
    pub fn find(&self, field: &[u8]) -> Option<(&[u8], Option<Value>)> {
        let owner = self.owners.get(field)?;
        Some((owner, self.get(Part::Records(owner), field)))
    }

    /// Asks for the memory that look-ups of these fields will need.
    pub fn prefetch<'a>(&self, _fields: impl Iterator<Item = &'a [u8]> + Clone) {}

    /// Sets a field; true when it is new.
    pub fn set(&mut self, part: Part<'_>, field: &[u8], value: &[u8]) -> bool {
        let part = match part {
            Part::Owners => &mut self.owners,
            Part::Records(crawl) => self.records.entry(crawl.to_vec()).or_default(),
            Part::Holders => &mut self.holders,
        };
        part.insert(field.to_vec(), value.to_vec()).is_none()
    }

    /// Sets a crawl's record, and makes the crawl its owner if nobody owns it; whether it did so. The
    /// commonest change of all, in one step.
    pub fn put_new(&mut self, crawl: &[u8], field: &[u8], record: &[u8]) -> bool {
        self.set(Part::Records(crawl), field, record);
        let is_new = !self.owners.contains_key(field);
        if is_new {
            self.owners.insert(field.to_vec(), crawl.to_vec());
        }
        is_new
    }

    /// Takes a field out; true when it was there.
    pub fn del(&mut self, part: Part<'_>, field: &[u8]) -> bool {
        match part {
            Part::Owners => self.owners.remove(field).is_some(),
            Part::Holders => self.holders.remove(field).is_some(),
            Part::Records(crawl) => {
                let Some(records) = self.records.get_mut(crawl) else {
                    return false;
                };
                let was = records.remove(field).is_some();
                if records.is_empty() {
                    self.records.remove(crawl);
                }
                was
            }
        }
    }

    /// Says that a crawl will get about so many more records, so that room is made once.
    pub fn expect(&mut self, _crawl: &[u8], _records: u64) {}

    /// Appends some entries of a part to `out`; false when the scan is complete.
    pub fn scan(&self, part: Part<'_>, cursor: &mut Cursor, out: &mut Batch) -> bool {
        use std::ops::Bound;
        let Some(part) = self.part(part) else {
            return false;
        };
        let from = match &cursor.after {
            Some(after) => Bound::Excluded(after.clone()),
            None => Bound::Unbounded,
        };
        let mut rest = part.range((from, Bound::Unbounded));
        let mut last = None;
        for (field, value) in rest.by_ref().take(16) {
            out.push(field, value);
            last = Some(field.clone());
        }
        cursor.after = last;
        rest.next().is_some()
    }

    /// Bytes of memory, within two percent; takes no time.
    pub fn memory(&self) -> usize {
        0
    }

    /// Moves memory to better places from a cursor on; where to go on, 0 at the end.
    pub fn defrag(&mut self, _cursor: u64, _mover: &mut Mover<'_>, _time: Time<'_>) -> u64 {
        0
    }

    /// Pieces of memory that are freed with it.
    pub fn free_effort(&self) -> usize {
        64
    }
}
