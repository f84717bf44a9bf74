//! Compact encoding of the ids of records.
//!
//! `urlkey timestamp filename offset` is encoded as 6 bytes of timestamp, the number of the
//! filename, the offset, and the urlkey. An id is encoded only if it can be restored exactly, that
//! is, if its timestamp has 14 digits and its offset has no leading zeroes. Other ids are stored
//! unchanged.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::names::List;
use crawlspace_compact::number::{Reader, put};
use crawlspace_host::text::push_number;

/// The parts of an id with four fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts<'a> {
    pub urlkey: &'a [u8],
    /// The 14 digits of the timestamp as a number.
    pub timestamp: u64,
    pub filename: &'a [u8],
    pub offset: u64,
}

/// The smallest number with 15 digits, which exceeds every timestamp.
pub const TIMESTAMPS: u64 = 100_000_000_000_000;

const DIGITS: usize = 14;

/// First byte of a key that stores the id unchanged. In other keys, the highest bit of the first
/// byte is set.
const AS_IT_IS: u8 = 0;
const IN_PARTS: u8 = 0x80;

/// A key, usually stored without an allocation.
pub type Key = SmallVec<[u8; 256]>;

impl<'a> Parts<'a> {
    /// Splits an id into parts. Returns `None` if the id cannot be restored exactly from its parts.
    pub fn of(id: &'a [u8]) -> Option<Parts<'a>> {
        let (rest, offset) = last_field(id)?;
        let (rest, filename) = last_field(rest)?;
        let (urlkey, timestamp) = last_field(rest)?;
        if urlkey.is_empty() || filename.is_empty() || timestamp.len() != DIGITS {
            return None;
        }
        Some(Parts {
            urlkey,
            timestamp: number(timestamp)?,
            filename,
            offset: crawlspace_host::text::parse_unsigned(offset)?,
        })
    }

    /// Appends the id to `id`.
    pub fn join(&self, id: &mut Vec<u8>) {
        id.extend_from_slice(self.urlkey);
        id.push(b' ');
        let mut digits = [b'0'; DIGITS];
        let mut rest = self.timestamp;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        id.extend_from_slice(&digits);
        id.push(b' ');
        id.extend_from_slice(self.filename);
        id.push(b' ');
        push_number(id, self.offset);
    }

    /// Returns the key under which the id is stored; `file` is the number of its filename.
    pub fn key(&self, file: u32) -> Key {
        let mut key = Key::new();
        let mut timestamp = [0; 6];
        timestamp.copy_from_slice(&self.timestamp.to_be_bytes()[2..]);
        timestamp[0] |= IN_PARTS;
        key.extend_from_slice(&timestamp);
        put(&mut key, file.into());
        put(&mut key, self.offset);
        key.extend_from_slice(self.urlkey);
        key
    }
}

/// Returns the key of an id that cannot be split into parts.
pub fn whole_key(id: &[u8]) -> Key {
    let mut key = Key::with_capacity(id.len() + 1);
    key.push(AS_IT_IS);
    key.extend_from_slice(id);
    key
}

/// The decoded form of a key.
pub enum RecordKey<'a> {
    Whole(&'a [u8]),
    /// The number of the filename, and the parts.
    Parts(u32, Parts<'a>),
}

/// Decodes a key that the module created.
pub fn parse_key<'a>(key: &'a [u8], files: &'a List) -> RecordKey<'a> {
    if key[0] == AS_IT_IS {
        return RecordKey::Whole(&key[1..]);
    }
    let mut timestamp = [0; 8];
    timestamp[2..].copy_from_slice(&key[..6]);
    timestamp[2] &= !IN_PARTS;
    let mut rest = Reader::from(key, 6);
    let mut number = || rest.number().expect("a key is whole");
    let (file, offset) = (number() as u32, number());
    let parts = Parts {
        urlkey: rest.rest(),
        timestamp: u64::from_be_bytes(timestamp),
        filename: files.get(file),
        offset,
    };
    RecordKey::Parts(file, parts)
}

/// Returns the number of leading zeroes that can be dropped from a number without dropping its last
/// digit. Returns 0 if `number` contains bytes that are not digits.
pub fn padding(number: &[u8]) -> usize {
    match number {
        [b'0', rest @ ..] if !rest.is_empty() && rest.iter().all(u8::is_ascii_digit) => {
            let zeroes = number.iter().take_while(|digit| **digit == b'0').count();
            zeroes.min(rest.len())
        }
        _ => 0,
    }
}

/// Returns the id with a canonical offset, because `007` and `7` denote the same position in a
/// file.
pub fn plain(id: &[u8]) -> Cow<'_, [u8]> {
    match last_field(id) {
        Some((rest, offset)) if padding(offset) > 0 => {
            Cow::Owned([rest, b" ", &offset[padding(offset)..]].concat())
        }
        _ => Cow::Borrowed(id),
    }
}

/// Splits bytes at the last space.
fn last_field(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memrchr(b' ', bytes)?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |number, &digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        Some(number * 10 + digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_round_trip() {
        let mut files = List::default();
        for (id, apart) in [
            (&b"org,example)/ 20240101000000 a.warc.gz 0"[..], true),
            (b"org,example)/a b 00000000000000 a.warc.gz 123", true),
            (b"x 99999999999999 f 9223372036854775807", true),
            (b"x 99999999999999 f 9223372036854775808", false),
            (b"org,example)/ 20240101000000 a.warc.gz 01", false),
            (b"org,example)/ 20240101000000 a.warc.gz -", false),
            (b"org,example)/ 2024010100000 a.warc.gz 1", false),
            (b"org,example)/ 2024010100000x a.warc.gz 1", false),
            (b"org,example)/ 20240101000000  1", false),
            (b" 20240101000000 f 1", false),
            (b"20240101000000 f 1", false),
            (b"x", false),
            (b"\0\x80 ", false),
        ] {
            let parts = Parts::of(id);
            assert_eq!(parts.is_some(), apart, "{}", id.escape_ascii());
            let key = match parts {
                Some(parts) => parts.key(files.number(parts.filename)),
                None => whole_key(id),
            };
            match parse_key(&key, &files) {
                RecordKey::Whole(whole) => assert_eq!(whole, id),
                RecordKey::Parts(_, again) => {
                    let mut joined = Vec::new();
                    again.join(&mut joined);
                    assert_eq!(joined, id);
                    assert_eq!(Some(again), parts);
                }
            }
        }
    }
}
