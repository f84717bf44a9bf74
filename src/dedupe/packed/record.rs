//! How a record stands in a chunk, and in a saved value.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | lowest four bits: kind of the field; [`OWNER`], [`DEAD`]; the others are 0 |
//! | 1…5 | of a text field only: its length, 7 bits a byte, lowest first, all but the last with the highest bit set |
//! | length | the field: a digest whose length the kind tells, or text |
//! | … | what the list that it is in keeps of the field |
//!
//! What is kept: in a crawl the packed value, which tells its own length; in the list of owners without a
//! record the number of the owner, four bytes, lowest first; in the list of holders the value as it is,
//! its length before it as above.

use std::borrow::Cow;

use super::field::{self, digest_len};
use crawlspace_compact::number::{Reader, put};

/// Bit of a record whose crawl owns the field.
pub(super) const OWNER: u8 = 0x10;
/// Bit of a record that is no more. Never in a saved value.
pub(super) const DEAD: u8 = 0x20;
/// Bits of the kind.
pub(super) const KIND: u8 = 0x0f;

/// A record at the beginning of some bytes.
#[derive(Clone, Copy)]
pub(super) struct Record<'a> {
    pub head: u8,
    /// The field: digest or text.
    pub raw: &'a [u8],
    /// From what is kept of the field on, to the end of the bytes.
    pub rest: &'a [u8],
    /// Bytes before that.
    pub start: usize,
}

impl<'a> Record<'a> {
    /// Reads a record that this module has written.
    #[inline]
    pub fn at(bytes: &'a [u8]) -> Record<'a> {
        let head = bytes[0];
        let (start, len) = match digest_len(head & KIND) {
            Ok(Some(len)) => (1, len),
            _ => {
                let mut reader = Reader::from(bytes, 1);
                let len = reader.number().expect("a chunk is whole");
                (reader.at(), len as usize)
            }
        };
        let (field, rest) = bytes[start..].split_at(len);
        Record {
            head,
            raw: field,
            rest,
            start: start + len,
        }
    }

    /// Reads a record that may come from anybody.
    ///
    /// # Errors
    /// What is wrong with its field; what follows was not looked at.
    pub fn checked(bytes: &'a [u8]) -> Result<Record<'a>, Cow<'static, str>> {
        let mut reader = Reader::new(bytes);
        let head = reader.byte()?;
        if head & !(KIND | OWNER) != 0 {
            return Err(format!("has a record that begins with {head:#x}").into());
        }
        let kind = digest_len(head & KIND)
            .map_err(|()| format!("has a field of the unknown kind {}", head & KIND))?;
        let raw = match kind {
            Some(len) => reader.take(len)?,
            None => reader.bytes()?,
        };
        if !field::is_first(head & KIND, raw) {
            return Err("has a field of another kind than its text".into());
        }
        Ok(Record {
            head,
            raw,
            rest: reader.rest(),
            start: reader.at(),
        })
    }

    pub fn kind(&self) -> u8 {
        self.head & KIND
    }

    pub fn is_owner(&self) -> bool {
        self.head & OWNER != 0
    }

    pub fn is_dead(&self) -> bool {
        self.head & DEAD != 0
    }

    /// Whether it is about that field.
    #[inline]
    pub fn is_of(&self, kind: u8, raw: &[u8]) -> bool {
        self.kind() == kind && self.raw == raw
    }

    /// Whether the record at the beginning of some bytes, which this module has written, begins in that
    /// way and is about that field.
    #[inline]
    pub fn begins(bytes: &[u8], head: u8, raw: &[u8]) -> bool {
        if bytes[0] != head {
            return false;
        }
        if head & KIND == field::TEXT {
            return Record::at(bytes).raw == raw;
        }
        // The length of nearly all, known here: no call is needed to compare them.
        match <&[u8; 32]>::try_from(raw) {
            Ok(raw) => bytes[1..].first_chunk() == Some(raw),
            Err(_) => bytes[1..].starts_with(raw),
        }
    }
}

/// Appends all of a record that comes before what is kept of the field.
pub(super) fn begin(kind: u8, raw: &[u8], is_owner: bool, out: &mut Vec<u8>) {
    out.push(kind | if is_owner { OWNER } else { 0 });
    if kind == field::TEXT {
        put(out, raw.len() as u64);
    }
    out.extend_from_slice(raw);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        for (kind, raw, is_owner) in [
            (1, vec![7; 32], true),
            (field::TEXT, Vec::new(), false),
            (field::TEXT, vec![b'x'; 300], true),
        ] {
            let mut bytes = Vec::new();
            begin(kind, &raw, is_owner, &mut bytes);
            bytes.extend_from_slice(b"rest");
            for record in [Record::at(&bytes), Record::checked(&bytes).unwrap()] {
                assert!(Record::begins(&bytes, record.head, &raw));
                assert!(!Record::begins(&bytes, record.head ^ OWNER, &raw));
                assert!(!Record::begins(&bytes, record.head, b"another"));
                assert_eq!((record.kind(), record.raw), (kind, &raw[..]));
                assert_eq!(record.is_owner(), is_owner);
                assert!(!record.is_dead());
                assert_eq!(record.rest, b"rest");
                assert_eq!(record.start, bytes.len() - 4);
            }
        }
    }

    #[test]
    fn a_record_of_anybody_is_checked() {
        let mut whole = Vec::new();
        begin(field::TEXT, &[b'x'; 200], false, &mut whole);
        for len in 0..whole.len() {
            assert!(Record::checked(&whole[..len]).is_err());
        }
        assert!(Record::checked(&whole).is_ok());
        for bad in [
            &[DEAD, 1, b'x'][..],
            &[0x80, 1, b'x'],
            &[15, 1, b'x'],
            &[0, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        ] {
            assert!(Record::checked(bad).is_err());
        }
    }
}
