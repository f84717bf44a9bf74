//! The value of a record in few bytes.
//!
//! Nearly all values are `waczIndex date url size`, as documented. Their numbers are kept as numbers, the
//! date relative to that of the chunk that the record is in, scheme and host of the URL as a number, and
//! the rest of the URL compressed. Any other value is kept as it is: what comes out is always what went in,
//! byte for byte.

mod fields;
mod hosts;
#[cfg(test)]
mod tests;

use self::fields::{write_date, Fields, Form};
use self::hosts::Hosts;
use super::Value;
use crate::text::push_number;

/// What the records of a chunk refer to; it is kept with the chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Base {
    /// Seconds since 1970: of the first record.
    pub date: u32,
    /// Number of the table of symbols.
    pub table: u16,
}

/// What records of an index have in common.
#[derive(Clone, Default)]
pub struct Codec {
    hosts: Hosts,
}

/// Records up to that length have one byte in front of them, which says it.
const SHORT: u8 = 0xef;
/// Two bytes of length follow.
const LONG: u8 = 0xf0;
/// Four bytes of length follow, and then the value as it is.
const STORED: u8 = 0xf1;

/// Longest value that is compressed. No packed one unpacks to more than that and what one symbol adds, so
/// that nobody can make a large value of a small one.
const COMPRESSED: usize = 1 << 16;

/// A record's bytes: how it is kept, the body, and the length of all.
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

impl Codec {
    /// What the records of a new chunk shall refer to, the first of which has that value. The number of
    /// the crawl is any that tells crawls apart.
    pub fn base(&mut self, _crawl: u32, first_value: &[u8]) -> Base {
        Base {
            date: Fields::of(first_value).map_or(0, |fields| fields.seconds),
            table: 0,
        }
    }

    /// Says that a chunk with that base is there, of which [`Codec::base`] does not know: while loading.
    pub fn adopt(&mut self, _base: Base) {}

    /// Says that a chunk with that base is gone.
    pub fn retire(&mut self, _base: Base) {}

    /// Appends a value, packed, to `out`.
    ///
    /// # Panics
    /// If the value is longer than 4 GiB, which no server lets through.
    pub fn encode(&mut self, base: Base, value: &[u8], out: &mut Vec<u8>) {
        let fields = Fields::of(value).filter(|_| value.len() <= COMPRESSED);
        let Some(fields) = fields else {
            let len = u32::try_from(value.len()).expect("a value of less than 4 GiB");
            out.push(STORED);
            out.extend_from_slice(&len.to_le_bytes());
            out.extend_from_slice(value);
            return;
        };
        let mut body = Vec::new();
        body.push(fields.form as u8);
        let host = host_of(fields.url);
        let number = self.hosts.take(host);
        let rest = match number {
            Some(_) => &fields.url[host.len()..],
            None => fields.url,
        };
        varint(&mut body, number.unwrap_or(0).into());
        varint(&mut body, fields.wacz);
        varint(&mut body, zigzag(fields.seconds, base.date));
        varint(&mut body, fields.millis.into());
        varint(&mut body, fields.size);
        body.extend_from_slice(rest);
        if body.len() <= usize::from(SHORT) {
            out.push(body.len() as u8);
        } else {
            out.push(LONG);
            out.extend_from_slice(&(body.len() as u16).to_le_bytes());
        }
        out.extend_from_slice(&body);
    }

    /// Appends the value of a record to `out`. There may be other bytes behind its end.
    pub fn decode(&self, base: Base, packed: &[u8], out: &mut Value) {
        let Some((is_stored, mut body, _)) = split(packed) else {
            return;
        };
        if is_stored {
            out.extend_from_slice(body);
            return;
        }
        let _ = self.decode_fields(base, &mut body, out);
    }

    fn decode_fields(&self, base: Base, body: &mut &[u8], out: &mut Value) -> Option<()> {
        let form = *Form::ALL.get(usize::from(*body.split_off_first()?))?;
        let host = u32::try_from(read_varint(body)?).ok()?;
        let wacz = read_varint(body)?;
        let seconds = unzigzag(read_varint(body)?, base.date);
        let millis = (read_varint(body)? % 1000) as u16;
        let size = read_varint(body)?;
        push_number(out, wacz);
        out.push(b' ');
        let (date, len) = write_date(form, seconds, millis);
        out.extend_from_slice(&date[..len]);
        out.push(b' ');
        out.extend_from_slice(self.hosts.get(host).unwrap_or_default());
        out.extend_from_slice(body);
        out.push(b' ');
        push_number(out, size);
        Some(())
    }

    /// Bytes that a record takes; none when that cannot be right.
    pub fn len(&self, packed: &[u8]) -> usize {
        split(packed).map_or(0, |(_, _, len)| len)
    }

    /// Says that a record is gone.
    pub fn release(&mut self, base: Base, packed: &[u8]) {
        if let Some(host) = self.host(base, packed) {
            self.hosts.release(host);
        }
    }

    /// Says that a record is there which was not encoded here: while loading, or as a copy of another one
    /// with the same base.
    pub fn hold(&mut self, base: Base, packed: &[u8]) {
        if let Some(host) = self.host(base, packed) {
            self.hosts.hold(host);
        }
    }

    fn host(&self, _base: Base, packed: &[u8]) -> Option<u32> {
        let (is_stored, mut body, _) = split(packed)?;
        if is_stored {
            return None;
        }
        body.split_off_first()?;
        let host = u32::try_from(read_varint(&mut body)?).ok()?;
        (host > 0).then_some(host)
    }

    /// Checks all that [`Codec::decode`] relies on, for a record that comes from anybody; its length.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, base: Base, packed: &[u8]) -> Result<usize, String> {
        let (is_stored, mut body, len) = split(packed).ok_or("a record is cut off")?;
        if is_stored {
            return Ok(len);
        }
        if let Some(host) = self.host(base, packed) {
            if self.hosts.get(host).is_none() {
                return Err(format!("there is no host {host}"));
            }
        }
        self.decode_fields(base, &mut body, &mut Value::new())
            .map(|()| len)
            .ok_or_else(|| "a record is not well-formed".into())
    }

    /// Hosts with their numbers, ascending.
    pub fn hosts(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.hosts.iter()
    }

    /// Puts a host in place as it was when it was saved.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn add_host(&mut self, number: u32, host: &[u8]) -> Result<(), String> {
        self.hosts.restore(number, host)
    }

    /// Tables of symbols with their numbers, ascending, in the form in which they are saved.
    pub fn tables(&self) -> impl Iterator<Item = (u16, &[u8])> {
        std::iter::empty()
    }

    /// Puts a table of symbols in place as it was when it was saved.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn add_table(&mut self, number: u16, _table: &[u8]) -> Result<(), String> {
        Err(format!("table {number} is not well-formed"))
    }

    /// Ends loading, when every chunk was adopted and every record held: what nobody uses goes.
    pub fn settle(&mut self) {
        self.hosts.settle();
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.hosts.memory()
    }
}

/// Scheme and host of a URL: all up to the path. Of a text without them, nothing.
fn host_of(url: &[u8]) -> &[u8] {
    let Some(scheme) = memchr::memmem::find(&url[..url.len().min(16)], b"://") else {
        return b"";
    };
    let start = scheme + 3;
    let end = url[start..]
        .iter()
        .position(|c| matches!(c, b'/' | b'?' | b'#'));
    &url[..end.map_or(url.len(), |end| start + end)]
}

/// A difference as a number that is small when it is, whatever its sign.
fn zigzag(date: u32, base: u32) -> u64 {
    let ahead = date.wrapping_sub(base) as i32;
    u64::from(((ahead << 1) ^ (ahead >> 31)) as u32)
}

fn unzigzag(n: u64, base: u32) -> u32 {
    let n = n as u32;
    base.wrapping_add((n >> 1) ^ 0u32.wrapping_sub(n & 1))
}

fn varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut n = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.split_off_first()?;
        n |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(n);
        }
    }
    None
}
