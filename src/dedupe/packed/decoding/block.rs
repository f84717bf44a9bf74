//! Loads blocks of records: checks each record, and stores it unchanged.

use super::Wrong;
use crate::dedupe::packed::Packed;
use crate::dedupe::packed::codec::Base;
use crate::dedupe::packed::crawls::{HOLDERS, OWNERS};
use crate::dedupe::packed::encoding::{OWNER_BYTES, number_at};
use crate::dedupe::packed::field;
use crate::dedupe::packed::place::{CHUNK, RecordSlot};
use crate::dedupe::packed::record::Record;
use crawlspace_compact::number::Reader;

/// Number of records between the prefetch and the table lookup of a record.
const AHEAD: usize = 12;

/// A checked record of a block.
#[derive(Clone, Copy)]
struct Checked {
    /// Hash of the record in the table.
    hash: u64,
    /// Offset of the record.
    at: u32,
}

impl Packed {
    /// Checks a block of records and adds it. Returns the number of records.
    pub(super) fn load_block(
        &mut self,
        list: u32,
        base: Base,
        block: &[u8],
        crawls: &[u32],
    ) -> Result<u64, Wrong> {
        let is_packed = list != OWNERS && list != HOLDERS;
        if !is_packed && base != Base::default() {
            return Err("has a date for records without one".into());
        }
        let mut checked = Vec::with_capacity(block.len() / 40 + 1);
        let mut at = 0;
        while at < block.len() {
            let record = Record::checked(&block[at..])?;
            let kept = match list {
                OWNERS => check_owner(&record, crawls)?,
                HOLDERS => check_holders(&record)?,
                _ => self.codec.check(base, record.rest)?,
            };
            let of_field = field::hash(record.kind(), record.raw);
            checked.push(Checked {
                hash: if record.is_owner() {
                    of_field
                } else {
                    field::hash_in(of_field, list)
                },
                at: at as u32,
            });
            at += record.start + kept;
        }
        if checked.is_empty() || (checked.len() > 1 && block.len() > CHUNK) {
            return Err("has a block of invalid length".into());
        }
        if is_packed {
            self.codec.adopt(base);
        }
        let segment = &mut self.crawls.list_mut(list).segment;
        self.chunks.open(list, segment, base, block.len());
        let chunk = self.chunks.append_all(segment, block);
        let mut owned = 0;
        for (i, this) in checked.iter().enumerate() {
            if let Some(later) = checked.get(i + AHEAD) {
                self.table.prefetch(later.hash);
            }
            let record = Record::at(&block[this.at as usize..]);
            if self.has_twin(list, &record, this.hash) {
                return Err("has a field twice".into());
            }
            owned += u64::from(record.is_owner());
            let place = RecordSlot {
                chunk,
                offset: this.at as u16,
            };
            if is_packed {
                self.codec.hold(base, record.rest);
            } else if list == OWNERS {
                let owner = crawls[number_at(&record.rest[..OWNER_BYTES]) as usize];
                self.check_without(owner, &record)?;
                self.chunks.bytes_mut(place)[record.start..][..OWNER_BYTES]
                    .copy_from_slice(&owner.to_le_bytes());
                self.crawls.get_mut(owner).owned_without += 1;
            }
            self.table.insert(this.hash, place, &self.chunks);
        }
        let records = checked.len() as u64;
        self.crawls.list_mut(list).records += records;
        self.owners += owned;
        if is_packed {
            self.records += records;
            self.crawls.get_mut(list).owned += owned;
        }
        Ok(records)
    }

    /// Returns true if the index has two entries where only one is allowed: two owners of a field,
    /// or two records of a field in the same list.
    fn has_twin(&self, list: u32, record: &Record<'_>, hash: u64) -> bool {
        let is_twin = |place| {
            let (other, chunk) = self.chunks.record(place);
            other.is_of(record.kind(), record.raw)
                && other.is_owner() == record.is_owner()
                && (record.is_owner() || chunk.crawl() == list)
        };
        self.table.find(hash, is_twin).is_some()
    }

    /// Checks an entry of the list of owners without a record: the owner must have no record of the
    /// field.
    fn check_without(&self, owner: u32, record: &Record<'_>) -> Result<(), Wrong> {
        let hash = field::hash_in(field::hash(record.kind(), record.raw), owner);
        let of_owner = Record {
            head: record.kind(),
            ..*record
        };
        if self.has_twin(owner, &of_owner, hash) {
            Err("has an owner entry for a hash with a record".into())
        } else {
            Ok(())
        }
    }

    /// Checks a crawl after all of its records were loaded: if the crawl owns a field, the crawl
    /// must have only one record of that field.
    pub(super) fn check_crawl(&self, number: u32) -> Result<(), Wrong> {
        let crawl = self.crawls.get(number);
        if crawl.owned == 0 || crawl.owned == crawl.list.records {
            return Ok(());
        }
        let mut others = Vec::new();
        for chunk in self.chunks_of(number) {
            others.clear();
            for record in self.records_of(chunk).map(Record::at) {
                if !record.is_owner() {
                    let hash = field::hash(record.kind(), record.raw);
                    self.table.prefetch(hash);
                    others.push((hash, record));
                }
            }
            for (hash, record) in &others {
                let is_twin = |place| {
                    let (other, chunk) = self.chunks.record(place);
                    other.is_owner()
                        && other.is_of(record.kind(), record.raw)
                        && chunk.crawl() == number
                };
                if self.table.find(*hash, is_twin).is_some() {
                    return Err("ends a crawl that has a field twice".into());
                }
            }
        }
        Ok(())
    }
}

/// Checks an entry of an owner without a record. Returns its length.
fn check_owner(record: &Record<'_>, crawls: &[u32]) -> Result<usize, Wrong> {
    let number = Reader::new(record.rest).array::<OWNER_BYTES>()?;
    if !record.is_owner() {
        return Err("has an invalid owner".into());
    }
    if u32::from_le_bytes(number) as usize >= crawls.len() {
        return Err("has an owner that is an unknown crawl".into());
    }
    Ok(OWNER_BYTES)
}

/// Checks an entry of further holders. Returns its length.
fn check_holders(record: &Record<'_>) -> Result<usize, Wrong> {
    let mut kept = Reader::new(record.rest);
    kept.bytes()?;
    if record.is_owner() {
        return Err("has an owner among holders".into());
    }
    Ok(kept.at())
}
