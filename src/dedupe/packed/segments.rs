//! Records as they stand in their segments: given for saving, and taken in when they were saved by anybody.

use super::blocks::NONE;
use super::codec::Base;
use super::crawls::{HOLDERS, OWNERS};
use super::field::{self, hash_in, Field};
use super::record::{read_len, Record};
use super::{Packed, Records};

// Saving as records stand is to come.
#[allow(dead_code)]
impl Packed {
    /// Numbers of the chunks of a list, in order.
    pub(super) fn chunks_of(&self, list: u32) -> impl Iterator<Item = u32> + '_ {
        let first = self.crawls.list(list).segment.first();
        let there = |number: u32| (number != NONE).then_some(number);
        std::iter::successors(there(first), move |&number| {
            there(self.chunks.get(number).next())
        })
    }

    /// What the records of a chunk refer to.
    pub(super) fn base_of(&self, chunk: u32) -> Base {
        self.chunks.get(chunk).base()
    }

    /// The records of a chunk that are not dead, in order, each as the bytes that [`Packed::admit`] takes.
    pub(super) fn records_of(&self, chunk: u32) -> impl Iterator<Item = &[u8]> {
        let chunk = self.chunks.get(chunk);
        let mut rest = chunk.bytes();
        let all = std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let record = Record::at(rest);
            let bytes;
            (bytes, rest) = rest.split_at(self.len_of(chunk.crawl(), &record));
            Some((record.is_dead(), bytes))
        });
        all.filter_map(|(is_dead, bytes)| (!is_dead).then_some(bytes))
    }

    /// Appends the record at the beginning of some bytes to a list, which may come from anybody; its
    /// length. Crawls come first, by [`Crawls::number`](super::crawls::Crawls::number), then their records,
    /// then the owners without records.
    ///
    /// # Errors
    /// What is wrong with it. The value must not be used then.
    pub(super) fn admit(&mut self, list: u32, base: Base, bytes: &[u8]) -> Result<usize, String> {
        let record = Record::checked(bytes)?;
        let mut text = field::Text::new();
        let digest;
        let field = if record.kind() == field::TEXT {
            Field::text(record.raw)
        } else {
            field::write(record.kind(), record.raw, &mut text);
            digest = text;
            Field::parse(&digest)
        };
        let hash = field.hash();
        let cut = || "a record is cut off".to_string();
        let owner = self.find_owner(&field, hash);
        if owner.is_some() && record.is_owner() {
            return Err("a field has two owners".to_string());
        }
        let kept = match list {
            OWNERS => {
                let number = record.rest.first_chunk().ok_or_else(cut)?;
                let number = u32::from_le_bytes(*number);
                if !record.is_owner() || !self.crawls.has(number) {
                    return Err("an owner is none".to_string());
                }
                if self.find_in(number, &field, hash).is_some() {
                    return Err("an owner without a record has one".to_string());
                }
                self.crawls.get_mut(number).owned_without += 1;
                4
            }
            HOLDERS => {
                let (len, size) = read_len(record.rest).ok_or_else(cut)?;
                if record.is_owner() || self.find_in(HOLDERS, &field, hash).is_some() {
                    return Err("a field has its holders twice".to_string());
                }
                record.rest.get(size..size + len).ok_or_else(cut)?;
                size + len
            }
            crawl => {
                let of_owner = owner.filter(|&place| self.list_of(place) == crawl);
                if of_owner.is_some() || self.find_other(crawl, &field, hash).is_some() {
                    return Err("a crawl has a field twice".to_string());
                }
                self.codec.check(base, record.rest)?
            }
        };
        let is_packed = list != OWNERS && list != HOLDERS;
        let len = record.start + kept;
        let bytes = bytes.get(..len).ok_or_else(cut)?;
        let segment = &mut self.crawls.list_mut(list).segment;
        if self.chunks.room(segment, len) != Some(base) {
            if is_packed {
                self.codec.adopt(base);
            }
            self.chunks.open(list, segment, base, len);
        }
        let place = self.chunks.append(segment, bytes);
        if is_packed {
            self.codec.hold(base, record.rest);
        }
        let hash = match record.is_owner() {
            true => hash,
            false => hash_in(hash, list),
        };
        self.table.insert(hash, place, &self.chunks);
        self.count(list, record.is_owner(), 1);
        self.owners += u64::from(record.is_owner());
        debug_assert_eq!(self.chunks.hash(place), hash);
        Ok(len)
    }
}
