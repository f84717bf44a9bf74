//! What reads chunks, as [`super::encoding`] gives them.
//!
//! What is read is checked before anything is done with it, because it may come from a broken file, or
//! from anybody who may run `RESTORE`.

use std::borrow::Cow;

use super::chunk::CHUNK;
use super::codec::Base;
use super::crawls::{HOLDERS, OWNERS};
use super::encoding::{number_at, seal, Counts, Kind, HEAD, OWNER_BYTES, SEAL, VERSION};
use super::field;
use super::record::{read_len, Record};
use super::Packed;

/// What is wrong with a chunk.
type Wrong = Cow<'static, str>;

/// Most records for which room is made before any of them has come. Later it is made for as many more as
/// have come, three times over, so that a few bytes cannot ask for much.
const UNSEEN: u64 = 1 << 20;

/// A value whose chunks are not all here yet.
#[derive(Clone, Default)]
pub(super) struct Loading {
    /// Number of the next chunk.
    next: u32,
    /// Checksum of the chunk before it.
    seal: u64,
    /// Kind of the last section.
    kind: Kind,
    announced: Counts,
    /// Numbers that crawls have here, by those that they were saved with.
    crawls: Vec<u32>,
    /// Number of the last host.
    host: u32,
    /// Hosts and tables that have come. Who uses none of them does not matter.
    hosts: u64,
    tables: u64,
    /// Number with which the last list was saved.
    list: u64,
    /// Records of all lists that have come.
    records: u64,
    /// Records that are in the table after the last chunk.
    there: usize,
}

/// How many records ahead the memory of the table is asked for.
const AHEAD: usize = 12;

/// A record of a block that was checked.
#[derive(Clone, Copy)]
struct Checked {
    /// The hash by which it is in the table.
    hash: u64,
    /// Where it begins, its length, and where in it that begins what is kept of the field.
    at: u32,
    len: u32,
    kept: u32,
}

impl Packed {
    /// Adds what a chunk holds. It may come from anybody who may run `RESTORE`. Between chunks the value
    /// has what has come, and can be used.
    ///
    /// # Errors
    /// What is wrong with it. If that is more than that it is damaged or not the one that must come now,
    /// nothing is in the value then.
    pub fn load(&mut self, chunk: &[u8], _version: i32) -> Result<(), String> {
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

    /// Whether all chunks have come that the first one began.
    ///
    /// # Errors
    /// That some have not.
    pub fn loaded(&self) -> Result<(), String> {
        match &self.loading {
            None => Ok(()),
            Some(loading) => Err(format!(
                "the chunks of a packed index end before chunk {}",
                loading.next
            )),
        }
    }

    /// The sections of a chunk that is whole and the one that must come now, and its checksum.
    fn opened<'a>(&self, chunk: &'a [u8]) -> Result<(&'a [u8], u64), String> {
        let version = *chunk.first().ok_or("a chunk of a packed index is empty")?;
        if version != VERSION {
            return Err(format!(
                "a chunk of a packed index is of version {version}; this module reads version {VERSION}"
            ));
        }
        let cut = || "a chunk of a packed index is cut off".to_string();
        let (sealed, sum) = chunk.split_last_chunk::<SEAL>().ok_or_else(cut)?;
        let (head, sections) = sealed.split_first_chunk::<HEAD>().ok_or_else(cut)?;
        let sum = u64::from_le_bytes(*sum);
        let number = number_at(&head[1..]);
        let (expected, before) = match &self.loading {
            Some(loading) if loading.there != self.table.len() => {
                return Err(format!(
                    "chunk {number} of a packed index comes after it was changed"
                ))
            }
            Some(loading) => (loading.next, loading.seal),
            None if !self.is_empty() => {
                return Err(format!(
                    "chunk {number} of a packed index comes where there is a value"
                ))
            }
            None => (0, 0),
        };
        if number != expected {
            return Err(format!(
                "chunk {number} of a packed index comes where chunk {expected} should"
            ));
        }
        if seal(sealed, before) != sum {
            return Err(format!(
                "chunk {number} of a packed index is damaged, or of another value than those before it"
            ));
        }
        Ok((sections, sum))
    }

    /// Reads the sections of a chunk; whether the last one is among them.
    fn sections(&mut self, sections: &[u8], loading: &mut Loading) -> Result<bool, Wrong> {
        let mut reader = Reader { rest: sections };
        let mut is_first = loading.next == 0;
        while !reader.rest.is_empty() {
            let kind = reader.take(1)?[0];
            let kind = Kind::ALL.into_iter().find(|known| *known as u8 == kind);
            let kind = kind.ok_or("has a section of no known kind")?;
            if kind < loading.kind || (kind == Kind::Counts) != is_first {
                return Err("has a section where it cannot be".into());
            }
            is_first = false;
            loading.kind = kind;
            let len = number_at(reader.take(4)?) as usize;
            let mut content = Reader {
                rest: reader.take(len)?,
            };
            match kind {
                Kind::Counts => {
                    for count in loading.announced.all() {
                        *count = content.number()?;
                    }
                    content.end()?;
                }
                Kind::Crawls => self.load_crawls(content, loading)?,
                Kind::Tables => self.load_tables(content, loading)?,
                Kind::Hosts => self.load_hosts(content, loading)?,
                Kind::Records => self.load_list(content, loading)?,
                Kind::End => {
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
        while !content.rest.is_empty() {
            let id = content.bytes()?;
            if self.crawls.find(id).is_some() {
                return Err("has a crawl for the second time".into());
            }
            loading.crawls.push(self.crawls.number(id));
        }
        Ok(())
    }

    fn load_tables(&mut self, mut content: Reader<'_>, loading: &mut Loading) -> Result<(), Wrong> {
        while !content.rest.is_empty() {
            let number = content.number()?;
            let number = u16::try_from(number).map_err(|_| "has a table of too high a number")?;
            self.codec.add_table(number, content.bytes()?)?;
            loading.tables += 1;
        }
        Ok(())
    }

    fn load_hosts(&mut self, mut content: Reader<'_>, loading: &mut Loading) -> Result<(), Wrong> {
        while !content.rest.is_empty() {
            let number = content.number()?.checked_add(loading.host.into());
            let number = number.and_then(|number| u32::try_from(number).ok());
            loading.host = number.ok_or("has a host of too high a number")?;
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
            Some(_) => return Err("has records of no known crawl".into()),
        };
        if saved < loading.list {
            return Err("has records where they cannot be".into());
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
        while !content.rest.is_empty() {
            let base = Base {
                date: number_at(content.take(4)?),
                table: number_at(content.take(2)?) as u16,
            };
            let len = number_at(content.take(4)?) as usize;
            let block = content.take(len)?;
            loading.records += self.load_block(list, base, block, &loading.crawls)?;
        }
        Ok(())
    }
}

impl Packed {
    /// Checks a block of records and puts it in; how many they are.
    fn load_block(
        &mut self,
        list: u32,
        base: Base,
        block: &[u8],
        crawls: &[u32],
    ) -> Result<u64, Wrong> {
        let is_packed = list != OWNERS && list != HOLDERS;
        if !is_packed && base != Base::default() {
            return Err("has a date where none is".into());
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
                hash: match record.is_owner() {
                    true => of_field,
                    false => field::hash_in(of_field, list),
                },
                at: at as u32,
                len: (record.start + kept) as u32,
                kept: record.start as u32,
            });
            at += record.start + kept;
        }
        if checked.is_empty() || (checked.len() > 1 && block.len() > CHUNK) {
            return Err("has a block of a wrong length".into());
        }
        if is_packed {
            self.codec.adopt(base);
        }
        let segment = &mut self.crawls.list_mut(list).segment;
        self.chunks.open(list, segment, base, block.len());
        let mut owned = 0;
        for (i, &this) in checked.iter().enumerate() {
            if let Some(later) = checked.get(i + AHEAD) {
                self.table.prefetch(later.hash);
            }
            let bytes = &block[this.at as usize..][..this.len as usize];
            let record = Record::at(bytes);
            if self.has_twin(list, &record, this.hash) {
                return Err("has a field for the second time".into());
            }
            owned += u64::from(record.is_owner());
            let segment = &mut self.crawls.list_mut(list).segment;
            let place = self.chunks.append(segment, bytes);
            if is_packed {
                self.codec.hold(base, record.rest);
            } else if list == OWNERS {
                let owner = crawls[number_at(record.rest) as usize];
                self.check_without(owner, &record)?;
                self.chunks.bytes_mut(place)[this.kept as usize..][..OWNER_BYTES]
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

    /// Whether there is what must be there once only: an owner of the field, or a record of it in the
    /// same list.
    fn has_twin(&self, list: u32, record: &Record<'_>, hash: u64) -> bool {
        let is_twin = |place| {
            let (other, chunk) = self.chunks.record(place);
            other.is_of(record.kind(), record.raw)
                && other.is_owner() == record.is_owner()
                && (record.is_owner() || chunk.crawl() == list)
        };
        self.table.find(hash, is_twin).is_some()
    }

    /// An owner without a record has none.
    fn check_without(&self, owner: u32, record: &Record<'_>) -> Result<(), Wrong> {
        let hash = field::hash_in(field::hash(record.kind(), record.raw), owner);
        let of_owner = Record {
            head: record.kind(),
            ..*record
        };
        match self.has_twin(owner, &of_owner, hash) {
            true => Err("has an owner apart from its record".into()),
            false => Ok(()),
        }
    }

    /// A crawl whose records are all here has no two of one field, of which it owns one.
    fn check_crawl(&self, number: u32) -> Result<(), Wrong> {
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
                    return Err("ends a crawl with a field for the second time".into());
                }
            }
        }
        Ok(())
    }

    /// Ends the list whose records came last.
    fn end_list(&self, loading: &Loading) -> Result<(), Wrong> {
        match loading.crawls.get(loading.list as usize) {
            Some(&crawl) => self.check_crawl(crawl),
            None => Ok(()),
        }
    }

    /// Ends the value.
    fn settle(&mut self, loading: &Loading) -> Result<(), Wrong> {
        self.end_list(loading)?;
        self.table.expect(0);
        self.codec.settle();
        let came = Counts {
            hosts: loading.hosts,
            tables: loading.tables,
            ..self.counts()
        };
        match came == loading.announced {
            true => Ok(()),
            false => Err("ends a value that is not what was announced".into()),
        }
    }
}

/// Checks what is kept of an owner without a record; its length.
fn check_owner(record: &Record<'_>, crawls: &[u32]) -> Result<usize, Wrong> {
    let number = record.rest.first_chunk::<OWNER_BYTES>();
    let number = number.ok_or(CUT)?;
    if !record.is_owner() {
        return Err("has an owner that is none".into());
    }
    if number_at(number) as usize >= crawls.len() {
        return Err("has an owner that is no known crawl".into());
    }
    Ok(OWNER_BYTES)
}

/// Checks what is kept of holders; its length.
fn check_holders(record: &Record<'_>) -> Result<usize, Wrong> {
    let (len, size) = read_len(record.rest).ok_or(CUT)?;
    if record.is_owner() {
        return Err("has an owner among holders".into());
    }
    match record.rest.len() - size < len {
        true => Err(CUT.into()),
        false => Ok(size + len),
    }
}

const CUT: &str = "is cut off inside";

/// Reads the parts of a chunk in turn.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Wrong> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(CUT)?;
        self.rest = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u64, Wrong> {
        let wrong = || Wrong::from("has a malformed number");
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or_else(wrong)?;
            self.rest = rest;
            let bits = u64::from(byte & 0x7f);
            // Bits beyond the 64th, or a last byte that says nothing.
            if (bits << shift) >> shift != bits || (byte == 0 && shift > 0) {
                return Err(wrong());
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(wrong())
    }

    /// Length and bytes.
    fn bytes(&mut self) -> Result<&'a [u8], Wrong> {
        let len = usize::try_from(self.number()?).map_err(|_| CUT)?;
        self.take(len)
    }

    fn end(&self) -> Result<(), Wrong> {
        match self.rest {
            [] => Ok(()),
            _ => Err("has bytes behind its end".into()),
        }
    }
}

#[cfg(test)]
mod tests;
