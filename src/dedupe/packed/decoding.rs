//! Reader of the chunks that [`super::encoding`] writes.
//!
//! All input is checked before use, because it may come from a damaged file, or from any client
//! with permission to run `RESTORE`.

mod block;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use super::Packed;
use super::codec::Base;
use super::crawls::{HOLDERS, OWNERS};
use super::encoding::{Counts, ENVELOPE, PartKind};
use crawlspace_compact::number::Reader;

/// The reason why a chunk is invalid.
pub(super) type Wrong = Cow<'static, str>;

/// Maximum number of records for which memory is reserved before any record was read. Afterwards,
/// the reader reserves memory for at most three times the number of records read, so that a few
/// bytes cannot claim much memory.
const UNSEEN: u64 = 1 << 20;

/// State of loading a value while chunks are missing.
#[derive(Clone, Default)]
pub(super) struct Loading {
    /// Number of the next chunk.
    next: u32,
    /// Checksum of the previous chunk.
    seal: u64,
    /// [`PartKind`] of the last section.
    kind: PartKind,
    announced: Counts,
    /// Numbers of the crawls in this value, indexed by the saved numbers of the crawls.
    crawls: Vec<u32>,
    /// Number of the last host.
    host: u32,
    /// Number of hosts and tables read, including unused ones.
    hosts: u64,
    tables: u64,
    /// Saved number of the last list.
    list: u64,
    /// Number of records read, over all lists.
    records: u64,
    /// Number of records in the table after the last chunk was loaded.
    there: usize,
}

impl Packed {
    /// Adds the contents of a chunk from an untrusted source. Between two chunks the value contains
    /// everything loaded so far, and can be used.
    ///
    /// # Errors
    /// The reason why the chunk is invalid. After an error, the value is empty, unless the only
    /// problem was a wrong checksum or a chunk that is out of order.
    pub fn load(&mut self, chunk: &[u8]) -> Result<(), String> {
        let (sections, sum) = self.opened(chunk)?;
        let mut loading = self.loading.take().unwrap_or_default();
        let number = loading.next;
        match self.sections(sections, &mut loading) {
            Ok(true) => Ok(()),
            Ok(false) => {
                loading.next = number.wrapping_add(1);
                loading.seal = sum;
                loading.there = self.table.len();
                self.loading = Some(loading);
                Ok(())
            }
            Err(wrong) => {
                *self = Packed::default();
                Err(format!("chunk {number} of a packed index {wrong}"))
            }
        }
    }

    /// Checks that all chunks were loaded.
    ///
    /// # Errors
    /// A message that chunks are missing.
    pub fn loaded(&self) -> Result<(), String> {
        match &self.loading {
            None => Ok(()),
            Some(loading) => Err(format!(
                "the chunks of a packed index end before chunk {}",
                loading.next
            )),
        }
    }

    /// Checks that a chunk is undamaged and is the next one in order. Returns its sections and its
    /// checksum.
    fn opened<'a>(&self, chunk: &'a [u8]) -> Result<(Reader<'a>, u64), String> {
        let opened = ENVELOPE.open(chunk)?;
        let mut sections = Reader::new(opened.body);
        let number = sections.array().map(u32::from_le_bytes);
        let number = number.map_err(|_| "a chunk of a packed index is truncated")?;
        let (expected, before) = match &self.loading {
            Some(loading) if loading.there != self.table.len() => {
                return Err(format!(
                    "chunk {number} of a packed index arrived after the value was changed"
                ));
            }
            Some(loading) => (loading.next, loading.seal),
            None if !self.is_empty() => {
                return Err(format!(
                    "chunk {number} of a packed index: the key has a value already"
                ));
            }
            None => (0, 0),
        };
        if number != expected {
            return Err(format!(
                "chunk {number} of a packed index is out of order: chunk {expected} is expected"
            ));
        }
        if !opened.is_whole(before) {
            return Err(format!(
                "chunk {number} of a packed index is damaged, or belongs to another value than those before it"
            ));
        }
        Ok((sections, opened.sum))
    }

    /// Reads the sections of a chunk. Returns true if the chunk contains the last section.
    fn sections(&mut self, mut reader: Reader<'_>, loading: &mut Loading) -> Result<bool, Wrong> {
        let mut is_first = loading.next == 0;
        while !reader.is_empty() {
            let kind = reader.byte()?;
            let kind = PartKind::ALL.into_iter().find(|known| *known as u8 == kind);
            let kind = kind.ok_or("has a section of an unknown kind")?;
            if kind < loading.kind || (kind == PartKind::Counts) != is_first {
                return Err("has a section out of order".into());
            }
            is_first = false;
            loading.kind = kind;
            let len = u32::from_le_bytes(reader.array()?) as usize;
            let mut content = Reader::new(reader.take(len)?);
            match kind {
                PartKind::Counts => {
                    for count in loading.announced.all() {
                        *count = content.number()?;
                    }
                    content.end()?;
                }
                PartKind::Crawls => self.load_crawls(content, loading)?,
                PartKind::Tables => self.load_tables(content, loading)?,
                PartKind::Hosts => self.load_hosts(content, loading)?,
                PartKind::Records => self.load_list(content, loading)?,
                PartKind::End => {
                    content.end()?;
                    reader.end()?;
                    self.settle(loading)?;
                    return Ok(true);
                }
            }
        }
        if is_first {
            return Err("has no counts".into());
        }
        Ok(false)
    }

    fn load_crawls(&mut self, mut content: Reader<'_>, loading: &mut Loading) -> Result<(), Wrong> {
        while !content.is_empty() {
            let id = content.bytes()?;
            if self.crawls.find(id).is_some() {
                return Err("has a crawl twice".into());
            }
            loading.crawls.push(self.crawls.number(id));
        }
        Ok(())
    }

    fn load_tables(&mut self, mut content: Reader<'_>, loading: &mut Loading) -> Result<(), Wrong> {
        while !content.is_empty() {
            let number = content.number()?;
            let number = u16::try_from(number).map_err(|_| "has a table number out of range")?;
            self.codec.add_table(number, content.bytes()?)?;
            loading.tables += 1;
        }
        Ok(())
    }

    fn load_hosts(&mut self, mut content: Reader<'_>, loading: &mut Loading) -> Result<(), Wrong> {
        while !content.is_empty() {
            let number = content.number()?.checked_add(loading.host.into());
            let number = number.and_then(|number| u32::try_from(number).ok());
            loading.host = number.ok_or("has a host number out of range")?;
            self.codec.add_host(loading.host, content.bytes()?)?;
            loading.hosts += 1;
        }
        Ok(())
    }

    fn load_list(&mut self, mut content: Reader<'_>, loading: &mut Loading) -> Result<(), Wrong> {
        let saved = content.number()?;
        let list = match saved.checked_sub(loading.crawls.len() as u64) {
            None => loading.crawls[saved as usize],
            Some(0) => OWNERS,
            Some(1) => HOLDERS,
            Some(_) => return Err("has records of an unknown crawl".into()),
        };
        if saved < loading.list {
            return Err("has records out of order".into());
        }
        if saved > loading.list {
            self.end_list(loading)?;
            loading.list = saved;
        }
        let counts = &loading.announced;
        let all = [counts.records, counts.owners, counts.holders];
        let all = all
            .iter()
            .fold(0_u64, |sum, count| sum.saturating_add(*count));
        let more = all.saturating_sub(loading.records);
        self.table
            .expect(more.min(UNSEEN.max(3 * loading.records)) as usize);
        while !content.is_empty() {
            let base = Base {
                date: u32::from_le_bytes(content.array()?),
                table: u16::from_le_bytes(content.array()?),
            };
            let len = u32::from_le_bytes(content.array()?) as usize;
            let block = content.take(len)?;
            loading.records += self.load_block(list, base, block, &loading.crawls)?;
        }
        Ok(())
    }
}

impl Packed {
    /// Checks the current list after its last record was read.
    fn end_list(&self, loading: &Loading) -> Result<(), Wrong> {
        match loading.crawls.get(loading.list as usize) {
            Some(&crawl) => self.check_crawl(crawl),
            None => Ok(()),
        }
    }

    /// Checks and completes the value after its last chunk.
    fn settle(&mut self, loading: &Loading) -> Result<(), Wrong> {
        self.end_list(loading)?;
        self.table.expect(0);
        self.codec.settle();
        let came = Counts {
            hosts: loading.hosts,
            tables: loading.tables,
            ..self.counts()
        };
        if came == loading.announced {
            Ok(())
        } else {
            Err("ends a value whose counts differ from its announced counts".into())
        }
    }
}
