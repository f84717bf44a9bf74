//! Compression of short strings, such as URLs, with symbol tables that are learned from them.
//!
//! A string is split into symbols, which have prefix codes. Packed dedupe indexes contain such strings, so
//! the encoding must never change; `docs/formats/packed-urls.md` specifies it.

pub mod bits;
pub mod builtin;
pub mod matcher;
mod prefix;
mod runs;
pub mod sink;
pub mod table;
pub mod tables;
#[cfg(test)]
mod tests;
mod training;

use self::bits::{Bits, Writer};
use self::matcher::PADDING;
#[cfg(test)]
use self::sink::Length;
use self::sink::{Text, TextSink};
use self::tables::Tables;

/// Maximum length of a string that is compressed, in bytes, so that a few bytes cannot expand to a very
/// large string.
pub const MAX_BYTES: usize = 1 << 16;

/// Compresses short strings, such as URLs, with symbol tables that are learned from them.
///
/// Strings belong to owners, such as queues of URLs. All strings of an owner use the table that was
/// assigned to the owner. With the same table and mark, two compressed strings are equal if and only
/// if the original strings are equal, so compressed strings can be compared.
///
/// If the lowest bit of the first byte is 0, the string is compressed and its mark is 0; the codes
/// begin with the next bit. If the lowest bit is 1, the next bit is 1 for a verbatim string and 0
/// for a compressed string, and the other six bits are the mark. The codes or the verbatim string
/// begin with the next byte.
#[derive(Clone, Default)]
pub struct Texts {
    tables: Tables,
    /// Buffer for the string that is being compressed, with padding.
    scratch: Vec<u8>,
    /// The compressed form of the string in `scratch`. The buffer keeps this form because a string is
    /// often looked up and then added.
    last: Last,
}

/// The string that was compressed last, which is still in [`Texts::scratch`].
#[derive(Clone, Default)]
struct Last {
    /// The table and the mark used; `None` if the compressed form is outdated.
    of: Option<(u16, u8)>,
    bytes: Vec<u8>,
}

/// First bit of a string that is verbatim or has a mark other than 0.
const SPECIAL: u8 = 1;
/// Second bit of such a string, set if the string is verbatim.
const VERBATIM: u8 = 2;
/// Position of the mark in the first byte of such a string.
const MARK: u32 = 2;

impl Texts {
    /// The largest possible mark.
    pub const MAX_MARK: u8 = u8::MAX >> MARK;

    /// Returns the table for a new owner, and counts the owner.
    pub fn assign(&mut self) -> u16 {
        self.tables.current()
    }

    /// Counts an owner of a restored table. Returns false if the table does not exist.
    pub fn adopt(&mut self, table: u16) -> bool {
        self.tables.adopt(table);
        self.tables.get(table).is_some()
    }

    /// Calls `each` with the number and the serialized form of each table. The last table is the one
    /// for new owners.
    pub fn save(&self, mut each: impl FnMut(u16, &[u8])) {
        self.tables.save(&mut each);
    }

    /// Restores a saved table. New owners use the table that was restored last.
    ///
    /// # Errors
    /// The reason why the table is invalid.
    pub fn restore(&mut self, number: u16, saved: &[u8]) -> Result<(), String> {
        self.tables.restore(number, saved)
    }

    /// Removes an owner. Removing the last owner of a table removes the table, unless new owners use it.
    pub fn retire(&mut self, table: u16) {
        // The number may be reused for another table.
        self.last.of = None;
        self.tables.retire(table);
    }

    /// Adds a string to the sample from which tables for later owners are trained. Some calls also
    /// perform a training step.
    pub fn learn(&mut self, text: &[u8]) {
        if is_compressed(text) {
            self.tables.learn(text);
        }
    }

    /// Compresses a string whose owner uses this table, and appends it to `out`. The result is at
    /// most one byte longer than the string. Strings that are not UTF-8 are not compressed. The mark is a number up to [`Texts::MAX_MARK`] that
    /// the caller chooses, and that is stored with the string; 0 takes the least space.
    ///
    /// # Panics
    /// Panics if the mark is too large.
    pub fn compress(&mut self, table: u16, mark: u8, text: &[u8], out: &mut Vec<u8>) {
        assert!(mark <= Self::MAX_MARK, "a mark of at most six bits");
        let known = self.scratch.strip_suffix(&[0; PADDING]);
        if self.last.of == Some((table, mark)) && known == Some(text) {
            out.extend_from_slice(&self.last.bytes);
            return;
        }
        self.last.of = None;
        if !is_compressed(text) {
            put_verbatim(mark, text, out);
            return;
        }
        let start = out.len();
        if mark > 0 {
            out.push(mark << MARK | SPECIAL);
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(text);
        self.scratch.extend_from_slice(&[0; PADDING]);
        let mut bits = Writer::new(out);
        if mark == 0 {
            bits.put(0, 1);
        }
        self.tables.matcher(table).encode(&self.scratch, &mut bits);
        bits.finish();
        if out.len() - start > text.len() {
            out.truncate(start);
            put_verbatim(mark, text, out);
        }
        self.remember(table, mark, &out[start..]);
    }

    /// Keeps the compressed form of the string in `scratch` for the next call, unless it is long.
    fn remember(&mut self, table: u16, mark: u8, bytes: &[u8]) {
        if self.scratch.capacity() > MAX_SCRATCH {
            self.scratch = Vec::new();
            return;
        }
        self.last.of = Some((table, mark));
        self.last.bytes.clear();
        self.last.bytes.extend_from_slice(bytes);
    }

    /// Returns the mark of a compressed string.
    #[inline]
    pub fn mark(bytes: &[u8]) -> u8 {
        match bytes {
            [first, ..] if first & SPECIAL != 0 => first >> MARK,
            _ => 0,
        }
    }

    /// Expands a compressed string whose owner uses this table, and appends it to `out`. Malformed
    /// bytes expand to an arbitrary string of at most about [`MAX_BYTES`].
    pub fn expand(&self, table: u16, bytes: &[u8], out: &mut Vec<u8>) {
        match verbatim(bytes) {
            Some(text) => out.extend_from_slice(text),
            None => {
                let mut text = Text::new(out);
                let _ = self.decode(table, bytes, &mut text);
                text.finish();
            }
        }
    }

    /// Returns the length of a string, in bytes, or `None` if the string cannot be expanded.
    #[cfg(test)]
    pub fn len(&self, table: u16, bytes: &[u8]) -> Option<usize> {
        if let Some(text) = verbatim(bytes) {
            return Some(text.len());
        }
        let mut length = Length::default();
        self.decode(table, bytes, &mut length)?;
        (length.0 <= MAX_BYTES).then_some(length.0)
    }

    fn decode(&self, table: u16, bytes: &[u8], text: &mut impl TextSink) -> Option<()> {
        let is_marked = bytes.first()? & SPECIAL != 0;
        let mut bits = Bits::new(bytes, bytes.len());
        let is_there = bits.skip(if is_marked { u8::BITS } else { 1 });
        is_there
            .then(|| self.tables.get(table))??
            .decode(&mut bits, text)
    }

    /// Returns the memory use in bytes, without the value itself.
    pub fn memory(&self) -> usize {
        self.tables.memory() + self.scratch.capacity() + self.last.bytes.capacity()
    }
}

/// Maximum capacity in bytes that the buffer of the compressed text keeps between calls.
const MAX_SCRATCH: usize = 4096;

/// Returns false for a string that is always stored verbatim: it is too long, or it is not UTF-8, like the
/// fingerprints that serve as keys of URLs. Tables for URLs do not shorten such bytes.
fn is_compressed(text: &[u8]) -> bool {
    text.len() <= MAX_BYTES && std::str::from_utf8(text).is_ok()
}

/// Appends a string verbatim.
fn put_verbatim(mark: u8, text: &[u8], out: &mut Vec<u8>) {
    out.push(mark << MARK | VERBATIM | SPECIAL);
    out.extend_from_slice(text);
}

/// Returns the string if these bytes contain it verbatim.
#[inline]
fn verbatim(bytes: &[u8]) -> Option<&[u8]> {
    let (first, text) = bytes.split_first()?;
    (first & (VERBATIM | SPECIAL) == VERBATIM | SPECIAL).then_some(text)
}

/// Returns the scheme and the host of a URL, that is, everything before the path. Returns an empty
/// slice if the URL has no scheme and host.
pub fn host_of(url: &[u8]) -> &[u8] {
    let scheme = url.iter().take(12).take_while(|&&c| c != b':').count();
    if !url[scheme..].starts_with(b"://") {
        return b"";
    }
    let start = scheme + 3;
    let end = memchr::memchr3(b'/', b'?', b'#', &url[start..]);
    end.map_or(url, |end| &url[..start + end])
}
