//! The format of a record in a chunk, and in a saved value.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | lowest four bits: kind of the field; [`OWNER`], [`DEAD`]; the others are 0 |
//! | 1…5 | for text fields only: the length, 7 bits per byte, lowest first, all but the last with the highest bit set |
//! | length | the field: a digest whose length follows from the kind, or text |
//! | … | the data of the field, which depends on the list |
//!
//! The data of a field depends on the list:
//!
//! - in a crawl: the packed value, which contains its own length
//! - in the list of owners without a record: the number of the owner in four bytes, lowest first
//! - in the list of holders: the value, preceded by its length as above

use std::borrow::Cow;

use super::field::{self, digest_len};
use crawlspace_compact::number::{Reader, put};

/// Bit of a record whose crawl owns the field.
pub(super) const OWNER: u8 = 0x10;
/// Bit of a deleted record. Never set in a saved value.
pub(super) const DEAD: u8 = 0x20;
/// Bits that contain the kind of the field.
pub(super) const KIND: u8 = 0x0f;

/// A record at the beginning of a byte slice.
#[derive(Clone, Copy)]
pub(super) struct Record<'a> {
    pub head: u8,
    /// The field: a digest or a verbatim string.
    pub raw: &'a [u8],
    /// The data of the field, and all bytes after it.
    pub rest: &'a [u8],
    /// Number of bytes before the data.
    pub start: usize,
}

impl<'a> Record<'a> {
    /// Parses a record that the module has written.
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

    /// Parses a record from an untrusted source.
    ///
    /// # Errors
    /// The reason why the field is invalid. The data after the field is not checked.
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
            return Err("has a field whose kind is not the canonical kind for its content".into());
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

    /// Returns true if the record has this field.
    #[inline]
    pub fn is_of(&self, kind: u8, raw: &[u8]) -> bool {
        self.kind() == kind && self.raw == raw
    }

    /// Returns true if the record at the beginning of `bytes`, which the module has written, has
    /// this head and this field.
    #[inline]
    pub fn begins(bytes: &[u8], head: u8, raw: &[u8]) -> bool {
        if bytes[0] != head {
            return false;
        }
        if head & KIND == field::TEXT {
            return Record::at(bytes).raw == raw;
        }
        // Compare as arrays whose constant length is that of almost all digests, so that the
        // comparison is inlined.
        match <&[u8; 32]>::try_from(raw) {
            Ok(raw) => bytes[1..].first_chunk() == Some(raw),
            Err(_) => bytes[1..].starts_with(raw),
        }
    }
}

/// Appends the part of a record before its data.
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
    fn record_reads_back() {
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
    fn untrusted_record_is_checked() {
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
