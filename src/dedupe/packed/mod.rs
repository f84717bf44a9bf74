//! A packed index: a single value that contains the committed part of an index, that is, the merged
//! index, the records of committed crawls, and the further holders of hashes.
//!
//! It behaves exactly like the plain hashes that it replaces: any field and any value can be
//! stored, and both are returned byte for byte. The packed index does not interpret hashes, owner
//! ids or records.
//!
//! Records are stored contiguously in chunks of memory, grouped by crawl (`chunk`), and are found
//! through a table of their positions (`table`). In the most common case, a crawl has a record of a
//! hash and owns the hash. Such a record takes one position in the table, which is found by the
//! hash of the field alone. The record of a crawl that does not own the field is found by a hash of
//! the field and the crawl. Therefore, lookups are not slower if thousands of crawls have the same
//! field.

mod bucket;
mod chunk;
pub mod codec;
mod crawls;
mod decoding;
mod encoding;
mod field;
mod lookup;
#[cfg(test)]
mod model;
pub mod op;
mod place;
mod record;
mod scan;
mod segments;
mod shard;
mod store;
mod table;
#[cfg(test)]
mod tests;

use smallvec::SmallVec;

use self::chunk::Chunks;
use self::codec::Codec;
use self::crawls::{Crawls, HOLDERS, OWNERS};
pub use self::encoding::ENVELOPE;
use self::field::Field;
pub use self::field::Notation;
pub use self::lookup::Owned;
pub use self::scan::Cursor;
use self::store::Kept;
use self::table::Table;
use crawlspace_host::defrag::Mover;
use crawlspace_host::slices::Time;

/// The value of a field in a packed index. Most values fit without an allocation.
pub type Value = SmallVec<[u8; 128]>;

/// A packed index.
#[derive(Clone, Default)]
pub struct Packed {
    table: Table,
    chunks: Chunks,
    crawls: Crawls,
    codec: Codec,
    /// Number of fields of the merged index.
    owners: u64,
    /// Number of records of all crawls.
    records: u64,
    /// Buffer in which records are built.
    scratch: Vec<u8>,
    /// State of loading while chunks are missing.
    loading: Option<Box<decoding::Loading>>,
}

/// One of the hashes that a packed index contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// The merged index: hash → crawl that owns it.
    Owners,
    /// `h:<crawl>`: hash → record.
    Records(&'a [u8]),
    /// `holders`: hash → commit numbers.
    Holders,
}

impl Packed {
    /// Returns true if the index is empty and no chunks are missing.
    pub fn is_empty(&self) -> bool {
        self.table.len() == 0 && self.loading.is_none()
    }

    /// Returns the number of fields of a part.
    pub fn len(&self, part: Part<'_>) -> u64 {
        match part {
            Part::Owners => self.owners,
            Part::Holders => self.crawls.holders.records,
            Part::Records(crawl) => {
                let number = self.crawls.find(crawl);
                number.map_or(0, |number| self.crawls.get(number).list.records)
            }
        }
    }

    /// Returns the number of records of all crawls.
    pub fn all_records(&self) -> u64 {
        self.records
    }

    /// Returns the crawls that have records in this index, in any order.
    pub fn crawls(&self) -> Vec<Vec<u8>> {
        let all = self.crawls.iter().map(|(_, crawl)| crawl);
        all.filter(|crawl| crawl.list.records > 0)
            .map(|crawl| crawl.id.to_vec())
            .collect()
    }

    /// Returns true if the index contains this crawl, that is, records of the crawl or hashes that
    /// the crawl owns.
    pub fn has_crawl(&self, crawl: &[u8]) -> bool {
        self.crawls.find(crawl).is_some()
    }

    /// Returns the place of a field of a part.
    fn place(&self, part: Part<'_>, field: &[u8]) -> Option<place::RecordSlot> {
        let field = Field::parse(field);
        let hash = field.hash();
        match part {
            Part::Owners => self.find_owner(&field, hash),
            Part::Holders => self.find_in(HOLDERS, &field, hash),
            Part::Records(crawl) => self.find_record(self.crawls.find(crawl)?, &field, hash),
        }
    }

    /// Returns the value of a field.
    pub fn get(&self, part: Part<'_>, field: &[u8]) -> Option<Value> {
        Some(self.value_of(self.place(part, field)?, part))
    }

    /// Returns true if a part has the field.
    pub fn has(&self, part: Part<'_>, field: &[u8]) -> bool {
        self.place(part, field).is_some()
    }

    /// Sets a field. Returns true if it is new.
    pub fn set(&mut self, part: Part<'_>, field: &[u8], value: &[u8]) -> bool {
        let field = Field::parse(field);
        let hash = field.hash();
        match part {
            Part::Owners => self.own(&field, hash, value),
            Part::Records(crawl) => {
                let crawl = self.crawls.number(crawl);
                self.set_record(crawl, &field, hash, value, false)
            }
            Part::Holders => match self.find_in(HOLDERS, &field, hash) {
                Some(place) => {
                    self.put_again(place, Kept::Holders(value));
                    false
                }
                None => {
                    self.put(HOLDERS, &field, hash, false, Kept::Holders(value));
                    true
                }
            },
        }
    }

    /// Sets a crawl's record, and makes the crawl the owner of the field if the field has no owner.
    /// Returns true if the crawl became the owner. This is the most frequent change, so it is done
    /// in one step.
    pub fn put_new(&mut self, crawl: &[u8], field: &[u8], record: &[u8]) -> bool {
        let field = Field::parse(field);
        let hash = field.hash();
        self.table.prefetch(hash);
        let before = self.owners;
        let crawl = self.crawls.number(crawl);
        self.set_record(crawl, &field, hash, record, true);
        self.owners > before
    }

    /// Sets a crawl's record and, if requested, makes the crawl the owner of the field if the field
    /// has no owner. Returns true if the record is new.
    fn set_record(
        &mut self,
        crawl: u32,
        field: &Field<'_>,
        hash: u64,
        value: &[u8],
        owns: bool,
    ) -> bool {
        let value = Kept::Value(value);
        let owner = self.find_owner(field, hash);
        let mut becomes_owner = owns && owner.is_none();
        if let Some(place) = owner {
            if self.list_of(place) == crawl {
                self.put_again(place, value);
                return false;
            }
            if self.list_of(place) == OWNERS && self.owner_at(place) == crawl {
                self.take_out(place);
                self.crawls.get_mut(crawl).owned_without -= 1;
                self.owners -= 1;
                becomes_owner = true;
            }
        }
        let other = self.find_other(crawl, field, hash);
        self.owners += u64::from(becomes_owner);
        match other {
            Some(place) => {
                if becomes_owner {
                    self.set_owner(place, true);
                }
                self.put_again(place, value);
            }
            None => self.put(crawl, field, hash, becomes_owner, value),
        }
        other.is_none()
    }

    /// Makes a crawl the owner of a field. Returns true if the field had no owner.
    fn own(&mut self, field: &Field<'_>, hash: u64, crawl: &[u8]) -> bool {
        let crawl = self.crawls.number(crawl);
        let before = self.find_owner(field, hash);
        if let Some(place) = before {
            if self.owner_at(place) == crawl {
                return false;
            }
            self.disown(place);
        }
        match self.find_other(crawl, field, hash) {
            Some(place) => self.set_owner(place, true),
            None => {
                self.put(OWNERS, field, hash, true, Kept::Owner(crawl));
                self.crawls.get_mut(crawl).owned_without += 1;
            }
        }
        self.owners += u64::from(before.is_none());
        before.is_none()
    }

    /// Removes the ownership of a field from its owner.
    fn disown(&mut self, place: place::RecordSlot) {
        if self.list_of(place) != OWNERS {
            self.set_owner(place, false);
            return;
        }
        let owner = self.owner_at(place);
        self.take_out(place);
        self.crawls.get_mut(owner).owned_without -= 1;
        self.crawls.leave(owner);
    }

    /// Deletes a field. Returns true if it existed.
    pub fn del(&mut self, part: Part<'_>, field: &[u8]) -> bool {
        let Some(place) = self.place(part, field) else {
            return false;
        };
        let list = self.list_of(place);
        match part {
            Part::Owners => {
                self.disown(place);
                self.owners -= 1;
            }
            Part::Holders => self.take_out(place),
            Part::Records(_) => {
                let is_owner = self.chunks.record(place).0.is_owner();
                self.take_out(place);
                if is_owner {
                    let field = Field::parse(field);
                    self.put(OWNERS, &field, field.hash(), true, Kept::Owner(list));
                    self.crawls.get_mut(list).owned_without += 1;
                }
            }
        }
        if self.table.len() == 0 {
            *self = Packed {
                loading: self.loading.take(),
                ..Packed::default()
            };
            return true;
        }
        self.tidy(list);
        if let Part::Records(_) = part {
            self.crawls.leave(list);
        }
        true
    }

    /// Reserves memory for about this many more records of a crawl. Replaces the number given in an
    /// earlier call; 0 means that no more records follow.
    pub fn expect(&mut self, _crawl: &[u8], records: u64) {
        self.table
            .expect(usize::try_from(records).unwrap_or(usize::MAX));
    }

    /// Returns the number of bytes requested from the allocator, in constant time.
    pub fn memory(&self) -> usize {
        let parts = self.memory_by_part();
        size_of::<Packed>()
            + self.scratch.capacity()
            + parts.map(|(_, bytes)| bytes).iter().sum::<usize>()
    }

    /// Returns the memory use of each large part, in bytes.
    pub fn memory_by_part(&self) -> [(&'static str, usize); 4] {
        [
            ("table", self.table.memory()),
            ("records", self.chunks.memory()),
            ("crawls", self.crawls.memory()),
            ("codec", self.codec.memory()),
        ]
    }

    /// Moves memory to reduce fragmentation, starting at a cursor. Returns the next cursor, 0 at
    /// the end.
    pub fn defrag(&mut self, cursor: u64, mover: &mut Mover<'_>, time: Time<'_>) -> u64 {
        let shards = self.table.shards() as u64;
        let end = shards + u64::from(self.chunks.end());
        let mut at = cursor;
        while at < end {
            if at < shards {
                self.table.defrag(at as usize, mover);
            } else {
                self.chunks.defrag((at - shards) as u32, mover);
            }
            at += 1;
            if at < end && !time() {
                return at;
            }
        }
        0
    }

    /// Returns the number of allocations to be freed with the index.
    pub fn free_effort(&self) -> usize {
        self.table.pieces() + self.chunks.pieces() + self.crawls.pieces()
    }

    /// Asserts the invariants between the parts of the index.
    #[cfg(test)]
    pub(crate) fn verify(&self) {
        tests::verify(self);
    }
}
