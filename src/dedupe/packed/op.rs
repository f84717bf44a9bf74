//! Changes of a packed index, in the encoding in which they are replicated and written to
//! append-only files.
//!
//! A log is a sequence of changes. Each change is a byte for its kind, followed by its operands. A
//! byte string of variable length is preceded by its length (7 bits per byte, lowest first), and a
//! field is preceded by the number of its format. A `CRAWL` names the crawl to whose records the
//! following changes apply.

use super::decoding::Wrong;
use super::field::{self, Field, TEXT, Text, digest_len};
use super::{Packed, Part, Value};
use crawlspace_compact::number::{Reader, put, put_bytes};

/// A change of a packed index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op<'a> {
    /// Sets a field to a value.
    Set(Part<'a>, &'a [u8], &'a [u8]),
    /// Deletes a field.
    Del(Part<'a>, &'a [u8]),
    /// Copies a record from the crawl's plain hash.
    Take(Take<'a>),
    /// Announces how many more records of a crawl will follow.
    Expect(&'a [u8], u64),
}

/// A record of a crawl's plain hash that is to be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Take<'a> {
    /// The crawl.
    pub crawl: &'a [u8],
    /// The hash.
    pub field: &'a [u8],
    /// The record; `None` in logs, because every replica has the record in its plain hash.
    pub record: Option<&'a [u8]>,
    /// True if the crawl becomes the owner of the hash if the hash has no owner.
    pub owns: bool,
}

const CRAWL: u8 = 1;
const SET_OWNER: u8 = 2;
const SET_RECORD: u8 = 3;
const SET_HOLDERS: u8 = 4;
const DEL_OWNER: u8 = 5;
const DEL_RECORD: u8 = 6;
const DEL_HOLDERS: u8 = 7;
const TAKE: u8 = 8;
const TAKE_AND_OWN: u8 = 9;
const EXPECT: u8 = 10;

fn push_field(log: &mut Vec<u8>, text: &[u8]) {
    let field = Field::parse(text);
    log.push(field.kind());
    if field.kind() == TEXT {
        put(log, text.len() as u64);
    }
    log.extend_from_slice(field.raw());
}

/// Writes the crawl of the next changes, unless it is the current crawl. `mark` is the position of
/// the current crawl's id and its length in the log, or 0 if the log does not contain a crawl yet.
fn push_crawl(log: &mut Vec<u8>, mark: &mut usize, crawl: &[u8]) {
    let start = log.len();
    log.push(CRAWL);
    put_bytes(log, crawl);
    if *mark > 0 && log[*mark..].starts_with(&log[start + 1..]) {
        log.truncate(start);
    } else {
        *mark = start + 1;
    }
}

impl Op<'_> {
    /// Appends the change to a log. `mark` belongs to the log, and must be 0 at the beginning of
    /// the log.
    pub fn write(&self, log: &mut Vec<u8>, mark: &mut usize) {
        match *self {
            Op::Set(part, field, value) => {
                if let Part::Records(crawl) = part {
                    push_crawl(log, mark, crawl);
                }
                log.push(match part {
                    Part::Owners => SET_OWNER,
                    Part::Records(_) => SET_RECORD,
                    Part::Holders => SET_HOLDERS,
                });
                push_field(log, field);
                put_bytes(log, value);
            }
            Op::Del(part, field) => {
                if let Part::Records(crawl) = part {
                    push_crawl(log, mark, crawl);
                }
                log.push(match part {
                    Part::Owners => DEL_OWNER,
                    Part::Records(_) => DEL_RECORD,
                    Part::Holders => DEL_HOLDERS,
                });
                push_field(log, field);
            }
            Op::Take(take) => {
                push_crawl(log, mark, take.crawl);
                log.push(if take.owns { TAKE_AND_OWN } else { TAKE });
                push_field(log, take.field);
            }
            Op::Expect(crawl, records) => {
                push_crawl(log, mark, crawl);
                log.push(EXPECT);
                put(log, records);
            }
        }
    }

    /// Applies the change. Returns true if the change added or deleted a field. A `Take` must
    /// contain its record.
    pub fn apply(&self, packed: &mut Packed) -> bool {
        match *self {
            Op::Set(part, field, value) => packed.set(part, field, value),
            Op::Del(part, field) => packed.del(part, field),
            Op::Take(Take {
                crawl,
                field,
                record,
                owns,
            }) => {
                let Some(record) = record else { return false };
                if owns {
                    packed.put_new(crawl, field, record)
                } else {
                    packed.set(Part::Records(crawl), field, record)
                }
            }
            Op::Expect(crawl, records) => {
                packed.expect(crawl, records);
                false
            }
        }
    }
}

/// Reads a log from its beginning. The encoding is canonical: bytes that [`Op::write`] cannot have
/// written are an error.
pub struct Log<'a> {
    rest: Reader<'a>,
    /// The current crawl.
    crawl: Option<&'a [u8]>,
    /// The field of the last change.
    field: Text,
}

impl<'a> Log<'a> {
    /// Reads a log from an untrusted source.
    pub fn new(log: &'a [u8]) -> Log<'a> {
        Log {
            rest: Reader::new(log),
            crawl: None,
            field: Text::new(),
        }
    }

    /// Returns the next change, or `None` at the end.
    ///
    /// # Errors
    /// The reason why the log is invalid.
    pub fn next_op(&mut self) -> Result<Option<Op<'_>>, String> {
        self.read_op()
            .map_err(|wrong| format!("a log of changes of a packed index {wrong}"))
    }

    fn read_op(&mut self) -> Result<Option<Op<'_>>, Wrong> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let mut what = self.rest.byte()?;
        let names_a_crawl = what == CRAWL;
        if names_a_crawl {
            let crawl = self.rest.bytes()?;
            if self.crawl == Some(crawl) {
                return Err("names a crawl twice".into());
            }
            self.crawl = Some(crawl);
            what = self.rest.byte()?;
        }
        let crawl = match (what, self.crawl) {
            (SET_OWNER | SET_HOLDERS | DEL_OWNER | DEL_HOLDERS, _) if !names_a_crawl => b"",
            (SET_RECORD | DEL_RECORD | TAKE | TAKE_AND_OWN | EXPECT, Some(crawl)) => crawl,
            (SET_RECORD | DEL_RECORD | TAKE | TAKE_AND_OWN | EXPECT, None) => {
                return Err("has a record without a crawl".into());
            }
            (SET_OWNER | SET_HOLDERS | DEL_OWNER | DEL_HOLDERS, _) => {
                return Err("names a crawl without changes".into());
            }
            (other, _) => return Err(format!("has a change of unknown kind {other}").into()),
        };
        if what == EXPECT {
            return Ok(Some(Op::Expect(crawl, self.rest.number()?)));
        }
        self.read_field()?;
        let value = match what {
            SET_OWNER | SET_RECORD | SET_HOLDERS => self.rest.bytes()?,
            _ => b"",
        };
        let (field, records) = (&self.field[..], Part::Records(crawl));
        Ok(Some(match what {
            SET_OWNER => Op::Set(Part::Owners, field, value),
            SET_RECORD => Op::Set(records, field, value),
            SET_HOLDERS => Op::Set(Part::Holders, field, value),
            DEL_OWNER => Op::Del(Part::Owners, field),
            DEL_RECORD => Op::Del(records, field),
            DEL_HOLDERS => Op::Del(Part::Holders, field),
            _ => Op::Take(Take {
                crawl,
                field,
                record: None,
                owns: what == TAKE_AND_OWN,
            }),
        }))
    }

    fn read_field(&mut self) -> Result<(), Wrong> {
        let kind = self.rest.byte()?;
        let length = digest_len(kind).map_err(|()| "has a hash in an unknown encoding")?;
        let raw = match length {
            Some(length) => self.rest.take(length)?,
            None => self.rest.bytes()?,
        };
        if !field::is_first(kind, raw) {
            return Err("has a hash that is not in canonical encoding".into());
        }
        self.field.clear();
        field::write(kind, raw, &mut self.field);
        Ok(())
    }
}

/// Applies a whole log. For each record to be copied, `record` must return the record of the field
/// in the crawl's plain hash.
///
/// # Errors
/// The reason why the log is invalid. The changes before the error remain applied. Records that
/// `record` does not find are skipped.
pub fn apply_log(
    packed: &mut Packed,
    log: &[u8],
    mut record: impl FnMut(&[u8]) -> Option<Value>,
) -> Result<(), String> {
    let mut log = Log::new(log);
    let mut missing = 0;
    while let Some(op) = log.next_op()? {
        match op {
            Op::Take(take) => {
                let value = record(take.field);
                let record = value.as_deref();
                missing += u64::from(record.is_none());
                Op::Take(Take { record, ..take }).apply(packed);
            }
            op => {
                op.apply(packed);
            }
        }
    }
    match missing {
        0 => Ok(()),
        n => Err(format!(
            "a log of changes of a packed index refers to {n} records that are missing from the crawl's hash"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Made = (u8, Vec<u8>, Vec<u8>, Vec<u8>);

    fn ops() -> impl Strategy<Value = Vec<Made>> {
        let bytes = || {
            let text = "(sha256:[0-9a-f]{64}|[2-7a-f]{32}|md5:[0-9a-f]{32}|sha1:[A-Z2-7]{32})";
            prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..200),
                proptest::string::string_regex(text)
                    .unwrap()
                    .prop_map(String::into_bytes),
            ]
        };
        let crawl = proptest::sample::select(vec![
            b"a".to_vec(),
            b"ba".to_vec(),
            b"\x01a".to_vec(),
            b"x\x02\x01a".to_vec(),
            vec![0; 130],
        ]);
        proptest::collection::vec((0..9u8, crawl, bytes(), bytes()), 0..30)
    }

    fn op((what, crawl, field, value): &Made) -> Op<'_> {
        let part = match what % 3 {
            0 => Part::Owners,
            1 => Part::Records(crawl),
            _ => Part::Holders,
        };
        match what {
            0..=2 => Op::Set(part, field, value),
            3..=5 => Op::Del(part, field),
            6 | 7 => Op::Take(Take {
                crawl,
                field,
                record: None,
                owns: *what == 6,
            }),
            _ => Op::Expect(crawl, field.len() as u64 * 1_000_003),
        }
    }

    proptest! {
        #[test]
        fn log_reads_back(list in ops()) {
            let (mut log, mut mark) = (Vec::new(), 0);
            for each in &list {
                op(each).write(&mut log, &mut mark);
            }
            let mut read = Log::new(&log);
            for each in &list {
                prop_assert_eq!(read.next_op(), Ok(Some(op(each))));
            }
            prop_assert_eq!(read.next_op(), Ok(None));
        }

        #[test]
        fn no_bytes_cause_a_panic(log in proptest::collection::vec(0..14u8, 0..60)) {
            let mut packed = Packed::default();
            let _ = apply_log(&mut packed, &log, |_| None);
        }

        #[test]
        fn readable_log_is_the_only_one_of_its_changes(log in proptest::collection::vec(0..14u8, 0..60)) {
            prop_assert!(is_strict(&log));
        }

        #[test]
        fn every_change_of_a_log_is_noticed(
            list in ops(),
            at in any::<prop::sample::Index>(),
            what in 0..4u8,
            byte in any::<u8>(),
        ) {
            let (mut log, mut mark) = (Vec::new(), 0);
            for each in &list {
                op(each).write(&mut log, &mut mark);
            }
            let at = at.index(log.len() + 1);
            match what {
                0 => log.insert(at, byte),
                1 => log.truncate(at),
                2 => log.push(byte),
                _ if at < log.len() => log[at] ^= byte,
                _ => log.extend_from_slice(&[0x80, byte]),
            }
            prop_assert!(is_strict(&log));
        }
    }

    /// Returns true if the log is refused, or if writing the changes read from the log yields the
    /// same bytes.
    fn is_strict(log: &[u8]) -> bool {
        let (mut read, mut again, mut mark) = (Log::new(log), Vec::new(), 0);
        loop {
            match read.next_op() {
                Ok(Some(op)) => op.write(&mut again, &mut mark),
                Ok(None) => return again == log,
                Err(_) => return true,
            }
        }
    }

    /// Returns the error for a log with an `EXPECT` for crawl `a` and these bytes as its number.
    fn wrong_number(number: &[u8]) -> Option<String> {
        let log = [&[CRAWL, 1, b'a', EXPECT], number].concat();
        let mut read = Log::new(&log);
        while let Some(op) = match read.next_op() {
            Ok(op) => op,
            Err(wrong) => return Some(wrong),
        } {
            assert!(matches!(op, Op::Expect(b"a", _)));
        }
        None
    }

    #[test]
    fn numbers_have_64_bits_and_one_spelling() {
        let most = [[0xff; 9].as_slice(), &[1]].concat();
        for good in [&[0][..], &[0x7f], &[0x80, 1], &most] {
            assert_eq!(wrong_number(good), None, "{good:?}");
        }
        for bad in [
            // Bits beyond the 64th bit.
            [[0xff; 9].as_slice(), &[2]].concat(),
            [[0xff; 9].as_slice(), &[0x7f]].concat(),
            [[0x80; 9].as_slice(), &[0x42]].concat(),
            [[0xff; 10].as_slice(), &[0]].concat(),
            // More bytes than the number needs.
            vec![0x80, 0],
            vec![0xff, 0x80, 0],
            // Bytes after the end of the log.
            vec![0, 0],
            vec![0, CRAWL],
            vec![0, CRAWL, 1, b'b'],
            vec![0, CRAWL, 1, b'a', EXPECT, 0],
            vec![0x80],
            vec![],
        ] {
            assert!(wrong_number(&bad).is_some(), "{bad:?}");
        }
    }
}
