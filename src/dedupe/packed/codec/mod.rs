//! Compact encoding of the value of a record.
//!
//! Almost all values are `waczIndex date url size`, as documented. They are stored as follows:
//! numbers in binary; the date relative to the base of the chunk; the scheme and host of the URL as
//! a number; the rest of the URL compressed. Any other value is stored verbatim. Decoding always
//! returns the original value, byte for byte.

mod fields;
mod hosts;
mod sink;
#[cfg(test)]
mod tests;

use self::fields::{Fields, Form};
use self::hosts::Hosts;
use self::sink::ValueSink;
use crate::texts::bits::{Bits, Writer};
use crate::texts::builtin;
use crate::texts::host_of;
use crate::texts::matcher::PADDING;
use crate::texts::sink::{Buffer, Length, Text};
use crate::texts::table::{self, Number, Table};
use crate::texts::tables::Tables;

/// The reference values of a chunk, relative to which its records are encoded. They are stored with
/// the chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Base {
    /// Date of the first record, in seconds since 1970.
    pub date: u32,
    /// Number of the symbol table.
    pub table: u16,
}

/// Data that all records of an index share.
#[derive(Clone, Default)]
pub struct Codec {
    hosts: Hosts,
    tables: Tables,
    /// Buffer for the string of the record that is being encoded, with padding.
    scratch: Vec<u8>,
}

/// Maximum length of a record whose length is stored in one byte before it.
const SHORT: u8 = 0xef;
/// Marks a record with a length of two bytes, which follow.
const LONG: u8 = 0xf0;
/// Marks a value that is stored verbatim. The length of the value follows in four bytes, and then
/// the value.
const STORED: u8 = 0xf1;

/// Maximum size of a compressed value, in bytes.
const COMPRESSED: usize = crate::texts::MAX_BYTES;

/// Returns a flag (true if the value is stored verbatim), the body, and the total length of a
/// record.
fn split(packed: &[u8]) -> Option<(bool, &[u8], usize)> {
    let (is_stored, head, len) = match *packed {
        [len @ ..=SHORT, ..] => (false, 1, usize::from(len)),
        [LONG, a, b, ..] => (false, 3, usize::from(u16::from_le_bytes([a, b]))),
        [STORED, a, b, c, d, ..] => (true, 5, u32::from_le_bytes([a, b, c, d]) as usize),
        _ => return None,
    };
    let body = packed.get(head..head + len)?;
    Some((is_stored, body, head + len))
}

/// Numbers of a decoded value that is stored in fields.
#[derive(Clone, Copy)]
pub struct Numbers {
    /// Position of the WACZ file in the crawl's list.
    pub wacz_index: u64,
    /// Length of the date.
    pub date_len: usize,
    /// Size of the record.
    pub size: u64,
}

impl Codec {
    /// Returns the base for a new chunk whose first record has this value. `_crawl` is the number
    /// of the crawl.
    pub fn base(&mut self, _crawl: u32, first_value: &[u8]) -> Base {
        Base {
            date: Fields::of(first_value).map_or(0, |fields| fields.seconds),
            table: self.tables.current(),
        }
    }

    /// Counts a chunk that uses this base, if the chunk was loaded instead of created with
    /// [`Codec::base`].
    pub fn adopt(&mut self, base: Base) {
        self.tables.adopt(base.table);
    }

    /// Counts one chunk fewer with this base.
    pub fn retire(&mut self, base: Base) {
        self.tables.retire(base.table);
    }

    /// Encodes a value and appends it to `out`.
    ///
    /// # Panics
    /// Panics if the value is longer than 4 GiB, which no server accepts.
    pub fn encode(&mut self, base: Base, value: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        if value.len() <= COMPRESSED {
            out.push(0);
            self.encode_body(base, value, out);
            let len = out.len() - start - 1;
            if len <= usize::from(SHORT) {
                out[start] = len as u8;
                return;
            }
            if len < value.len() {
                out[start] = LONG;
                let len = (len as u16).to_le_bytes();
                out.splice(start + 1..start + 1, len);
                return;
            }
            let mut bits = Bits::new(&out[start + 1..], len);
            if let Some(host) = self.host(base, &mut bits) {
                self.hosts.release(host);
            }
            out.truncate(start);
        }
        let len = u32::try_from(value.len()).expect("a value of less than 4 GiB");
        out.push(STORED);
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(value);
    }

    fn encode_body(&mut self, base: Base, value: &[u8], out: &mut Vec<u8>) {
        let fields =
            Fields::of(value).filter(|f| f.wacz < 1 << WACZ_BITS && f.size < 1 << SIZE_BITS);
        let mut text = std::mem::take(&mut self.scratch);
        text.clear();
        let mut bits = Writer::new(out);
        match fields {
            Some(fields) => {
                let host = host_of(fields.url);
                let number = self.hosts.take(host);
                let rest = number.map_or(fields.url, |_| &fields.url[host.len()..]);
                text.extend_from_slice(rest);
                self.tables.learn(&fields.url[host.len()..]);
                self.encode_numbers(base, &fields, number.unwrap_or(0), &mut bits);
            }
            None => {
                text.extend_from_slice(value);
                self.tables.learn(value);
                self.put_class(base, Number::Head, OTHER_VALUE, &mut bits);
            }
        }
        text.resize(text.len() + PADDING, 0);
        self.tables.matcher(base.table).encode(&text, &mut bits);
        bits.finish();
        self.scratch = text;
    }

    fn encode_numbers(
        &mut self,
        base: Base,
        fields: &Fields<'_>,
        host: u32,
        bits: &mut Writer<'_>,
    ) {
        let wacz = class(fields.wacz);
        let head = 1 + (fields.form as u8) * (WACZ_BITS + 1) + wacz;
        self.put_class(base, Number::Head, head, bits);
        put_rest(fields.wacz, wacz, bits);
        for (of, number) in [
            (Number::Host, host.into()),
            (Number::Date, zigzag(fields.seconds, base.date)),
            (Number::Size, fields.size),
        ] {
            let class = class(number);
            self.put_class(base, of, class, bits);
            put_rest(number, class, bits);
        }
        if fields.form.has_millis() {
            bits.put(fields.millis.into(), MILLIS_BITS);
        }
    }

    fn put_class(&mut self, base: Base, of: Number, class: u8, bits: &mut Writer<'_>) {
        self.tables.count(of, class);
        let table = self.tables.get(base.table).unwrap_or(builtin::table());
        let (code, length) = table.classes(of).code(class);
        bits.put(code, length);
    }

    /// Appends the value of a record to `out`. Other bytes may follow the record. Returns the numbers of a
    /// value that is stored in fields, and that therefore has the documented form.
    #[inline]
    pub fn decode(&self, base: Base, packed: &[u8], out: &mut impl Buffer) -> Option<Numbers> {
        match split(packed) {
            Some((false, body, len)) => {
                let head = len - body.len();
                let bits = Bits::new(&packed[head..], body.len());
                self.decode_body(base, bits, out).flatten()
            }
            Some((true, body, _)) => {
                out.append(body);
                None
            }
            None => None,
        }
    }

    fn decode_body(
        &self,
        base: Base,
        mut bits: Bits<'_>,
        out: &mut impl Buffer,
    ) -> Option<Option<Numbers>> {
        let mut text = Text::new(out);
        let numbers = self.decode_text(base, &mut bits, &mut text);
        (text.finish() <= COMPRESSED).then_some(())?;
        numbers
    }

    /// Decodes a value. Returns its numbers if it is stored in fields.
    fn decode_text(
        &self,
        base: Base,
        bits: &mut Bits<'_>,
        text: &mut impl ValueSink,
    ) -> Option<Option<Numbers>> {
        let table = self.tables.get(base.table)?;
        let Some((form, wacz)) = read_head(table, bits)? else {
            return table.decode(bits, text).map(|()| None);
        };
        let host = table.classes(Number::Host).read(bits)?;
        let seconds = unzigzag(table.classes(Number::Date).read(bits)?, base.date);
        let size = table.classes(Number::Size).read(bits)?;
        let millis = if form.has_millis() {
            (bits.take(MILLIS_BITS)? % 1000) as u16
        } else {
            0
        };
        text.push_number(wacz)?;
        text.push_date(form, seconds, millis)?;
        if host > 0 {
            text.push(self.hosts.get(u32::try_from(host).ok()?)?)?;
        }
        table.decode(bits, text)?;
        text.push(b" ")?;
        text.push_number(size)?;
        Some(Some(Numbers {
            wacz_index: wacz,
            date_len: form.len(),
            size,
        }))
    }

    /// Returns the length of a record in bytes, or 0 if it is invalid.
    pub fn len(&self, packed: &[u8]) -> usize {
        split(packed).map_or(0, |(_, _, len)| len)
    }

    /// Releases the shared data that a removed record used.
    pub fn release(&mut self, base: Base, packed: &[u8]) {
        if let Some(host) = self.host_of_record(base, packed) {
            self.hosts.release(host);
        }
    }

    /// Counts a record that was not encoded here: it was loaded, or copied from another record with
    /// the same base.
    pub fn hold(&mut self, base: Base, packed: &[u8]) {
        if let Some(host) = self.host_of_record(base, packed) {
            self.hosts.hold(host);
        }
    }

    fn host_of_record(&self, base: Base, packed: &[u8]) -> Option<u32> {
        match split(packed)? {
            (false, body, _) => self.host(base, &mut Bits::new(body, body.len())),
            (true, ..) => None,
        }
    }

    /// Returns the number of a record's host, if it has one.
    fn host(&self, base: Base, bits: &mut Bits<'_>) -> Option<u32> {
        let table = self.tables.get(base.table)?;
        read_head(table, bits)??;
        let host = u32::try_from(table.classes(Number::Host).read(bits)?).ok()?;
        (host > 0).then_some(host)
    }

    /// Checks everything that [`Codec::decode`] relies on, for an untrusted record. Returns its
    /// length.
    ///
    /// # Errors
    /// The reason why the record is invalid.
    pub fn check(&self, base: Base, packed: &[u8]) -> Result<usize, String> {
        let (is_stored, body, len) = split(packed).ok_or("a record is truncated")?;
        if self.tables.get(base.table).is_none() {
            return Err(format!("table {} is unknown", base.table));
        }
        if is_stored {
            return Ok(len);
        }
        let mut length = Length::default();
        let head = len - body.len();
        self.decode_text(
            base,
            &mut Bits::new(&packed[head..], body.len()),
            &mut length,
        )
        .filter(|_| length.0 <= COMPRESSED)
        .map(|_| len)
        .ok_or_else(|| "a record is malformed".into())
    }

    /// Returns the hosts and their numbers, in ascending order.
    pub fn hosts(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.hosts.iter()
    }

    /// Restores a host that was saved.
    ///
    /// # Errors
    /// The reason why the host is invalid.
    pub fn add_host(&mut self, number: u32, host: &[u8]) -> Result<(), String> {
        self.hosts.restore(number, host)
    }

    /// Returns the number and the serialized form of each symbol table, in ascending order of
    /// numbers.
    pub fn tables(&self) -> impl Iterator<Item = (u16, &[u8])> {
        self.tables.iter()
    }

    /// Restores a symbol table that was saved.
    ///
    /// # Errors
    /// The reason why the table is invalid.
    pub fn add_table(&mut self, number: u16, table: &[u8]) -> Result<(), String> {
        self.tables.restore(number, table)
    }

    /// Ends loading, after [`Codec::adopt`] was called for every chunk and [`Codec::hold`] for
    /// every record. Removes unused hosts and tables.
    pub fn settle(&mut self) {
        self.hosts.settle();
        self.tables.settle();
    }

    /// Returns the memory use in bytes.
    pub fn memory(&self) -> usize {
        self.hosts.memory() + self.tables.memory() + self.scratch.capacity()
    }
}

/// Returns the difference between two dates in zigzag encoding, which yields small numbers for
/// small differences of either sign.
fn zigzag(date: u32, base: u32) -> u64 {
    let ahead = date.wrapping_sub(base) as i32;
    u64::from(((ahead << 1) ^ (ahead >> 31)) as u32)
}

fn unzigzag(n: u64, base: u32) -> u32 {
    let n = n as u32;
    base.wrapping_add((n >> 1) ^ 0u32.wrapping_sub(n & 1))
}

/// Maximum number of bits of the WACZ indexes and sizes that are stored in binary.
const WACZ_BITS: u8 = 15;
const SIZE_BITS: u8 = table::MAX_CLASS;
const MILLIS_BITS: u32 = 10;

/// Head of a value that has none of the common formats.
const OTHER_VALUE: u8 = 0;

/// Returns the class of a number: its length in bits. The class implies that the highest bit is 1,
/// so that bit is not stored.
#[inline]
fn class(number: u64) -> u8 {
    (u64::BITS - number.leading_zeros()) as u8
}

/// Appends the bits of a number, except the highest bit, which its class implies.
#[inline]
fn put_rest(number: u64, class: u8, bits: &mut Writer<'_>) {
    let rest = u32::from(class.saturating_sub(1));
    bits.put_long(number & ((1 << rest) - 1), rest);
}

/// Reads the date format and the WACZ index. The inner `None` means that the value has none of the
/// common formats.
#[inline]
fn read_head(table: &Table, bits: &mut Bits<'_>) -> Option<Option<(Form, u64)>> {
    let Some(head) = table.classes(Number::Head).read_class(bits)?.checked_sub(1) else {
        return Some(None);
    };
    let form = *Form::ALL.get(usize::from(head / (WACZ_BITS + 1)))?;
    let class = head % (WACZ_BITS + 1);
    let rest = u32::from(class.saturating_sub(1));
    let wacz = bits.take(rest)? | u64::from(class > 0) << rest;
    Some(Some((form, wacz)))
}
