//! A sequence of queued URIs in bytes. Each URI is encoded relative to the previous URI.
//!
//! The URIs of a group belong to few hosts, and most were added together. Therefore, a record
//! contains the number of bytes that its URI shares with the previous URI. If the execution and the
//! depth are the same as in the previous record, the record contains only the difference between
//! the due times. Numbers are varints ([`crawlspace_compact::number`]). A record is:
//!
//! 1. a byte: bit 0 is set if execution and depth are the same as in the previous record, bit 1 is
//!    set if attempts follow, and the upper six bits are the number of shared bytes, or 63 for 63
//!    and more;
//! 2. if bit 0 is set, the differences of the due time and of the insertion order (zigzag) to the
//!    previous record; otherwise execution, depth, due time, insertion order;
//! 3. attempts, if bit 1 is set; if the number of shared bytes is 63 or more, this number minus 63;
//! 4. the length of the rest of the URI, and the rest.
//!
//! Files use the same encoding, so a change of the encoding requires a new version of the file
//! format.

use std::cmp::Ordering;

use smallvec::SmallVec;

use crawlspace_compact::number::{Malformed, Reader, put};
use crawlspace_host::text::parse_unsigned;

use super::bounds::{MAX_INTEGER, MAX_NUMBER, STORED_BYTES};

const SAME: u8 = 1;
const TRIED: u8 = 2;
const SHARED_SHIFT: u32 = 2;
const MAX_SHARED: usize = 63;

/// Position of a URI in the queue, ordered by execution, then depth, then due time, then insertion
/// order. The default position is before all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Number of the execution.
    pub(super) execution: u64,
    pub(super) depth: u32,
    pub(super) due: u64,
    /// Insertion order.
    pub(super) seq: u64,
}

impl Position {
    /// Returns the lowest position of an execution.
    pub(in crate::chg) fn first_of(execution: u64) -> Position {
        Position {
            execution,
            depth: 0,
            due: 0,
            seq: 0,
        }
    }

    /// Returns the first position after this one.
    pub(super) fn next(self) -> Position {
        Position {
            seq: self.seq + 1,
            ..self
        }
    }

    /// Returns the position as text, for clients.
    pub fn to_text(&self) -> Vec<u8> {
        format!(
            "{}-{}-{}-{}",
            self.execution, self.depth, self.due, self.seq
        )
        .into_bytes()
    }

    /// Parses the result of [`Position::to_text`].
    pub fn parse(text: &[u8]) -> Option<Position> {
        let mut numbers = text.split(|&byte| byte == b'-').map(parse_unsigned);
        let mut number = || numbers.next().flatten();
        let place = Position {
            execution: number()?,
            depth: number()?.try_into().ok()?,
            due: number()?,
            seq: number()?,
        };
        numbers.next().is_none().then_some(place)
    }
}

/// A queued URI and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) place: Position,
    pub(super) attempts: u32,
    pub(super) uri: &'a [u8],
}

/// Error: the first record refers to a previous record.
const UNPRECEDENTED: Malformed = Malformed("refers to a URI before the first one");

/// Returns the length of the common prefix of two URIs.
pub(super) fn shared(a: &[u8], b: &[u8]) -> usize {
    let mut whole = 0;
    while let (Some(one), Some(other)) = (a[whole..].first_chunk(), b[whole..].first_chunk()) {
        let differences = u64::from_le_bytes(*one) ^ u64::from_le_bytes(*other);
        if differences != 0 {
            return whole + differences.trailing_zeros() as usize / 8;
        }
        whole += 8;
    }
    let rest = a[whole..].iter().zip(&b[whole..]);
    whole + rest.take_while(|(a, b)| a == b).count()
}

/// Appends a record. `before` is the previous record, or `None` for the first record.
pub(super) fn append(out: &mut Vec<u8>, before: Option<Record<'_>>, record: Record<'_>) {
    let shared = before.map_or(0, |before| shared(before.uri, record.uri));
    let before = before.map(|before| before.place);
    let uri = &record.uri[shared..];
    append_rest(out, before, Record { uri, ..record }, (shared, b""));
}

/// Appends a record whose URI consists of the first `shared` bytes of the previous URI, followed by `more` and
/// `record.uri`.
pub(super) fn append_rest(
    out: &mut Vec<u8>,
    before: Option<Position>,
    record: Record<'_>,
    (shared, more): (usize, &[u8]),
) {
    let (place, rest) = (record.place, record.uri);
    let same = before.filter(|before| {
        (before.execution, before.depth) == (place.execution, place.depth)
            && before.due <= place.due
    });
    let mut head = (shared.min(MAX_SHARED) as u8) << SHARED_SHIFT;
    if same.is_some() {
        head |= SAME;
    }
    if record.attempts > 0 {
        head |= TRIED;
    }
    out.push(head);
    match same {
        Some(before) => {
            put(out, place.due - before.due);
            let more = place.seq.wrapping_sub(before.seq) as i64;
            put(out, (more << 1 ^ more >> 63) as u64);
        }
        None => {
            put(out, place.execution);
            put(out, place.depth.into());
            put(out, place.due);
            put(out, place.seq);
        }
    }
    if record.attempts > 0 {
        put(out, record.attempts.into());
    }
    if shared >= MAX_SHARED {
        put(out, (shared - MAX_SHARED) as u64);
    }
    put(out, (more.len() + rest.len()) as u64);
    out.extend_from_slice(more);
    out.extend_from_slice(rest);
}

/// A decoded record whose URI is not assembled yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordHead<'a> {
    pub(super) place: Position,
    pub(super) attempts: u32,
    /// Number of bytes that the URI shares with the previous URI.
    pub(super) shared: usize,
    /// The rest of the URI.
    pub(super) rest: &'a [u8],
    /// Offset of the next record.
    pub(super) end: usize,
}

impl RecordHead<'_> {
    /// Returns the length of the common prefix of this URI and `uri`, given the length `before` of the common prefix of
    /// the previous URI and `uri`.
    #[inline]
    pub(super) fn common(&self, before: usize, uri: &[u8]) -> usize {
        if self.shared > before {
            before
        } else {
            self.shared + shared(self.rest, &uri[self.shared..])
        }
    }

    /// Returns the length of the URI.
    #[inline]
    pub(super) fn uri_len(&self) -> usize {
        self.shared + self.rest.len()
    }
}

/// Reads the heads of records one after the other, without assembling their URIs.
#[derive(Clone, Copy)]
pub(super) struct Heads<'a> {
    bytes: &'a [u8],
    at: usize,
    place: Option<Position>,
    uri_len: usize,
}

impl<'a> Heads<'a> {
    /// Creates a reader that starts before the first record.
    pub(super) fn new(bytes: &'a [u8]) -> Heads<'a> {
        Heads {
            bytes,
            at: 0,
            place: None,
            uri_len: 0,
        }
    }

    /// Returns the offset of the next record.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Returns the position of the record that was read last.
    pub(super) fn place(&self) -> Option<Position> {
        self.place
    }

    /// Returns the head of the next record without consuming the record, or `None` at the end.
    #[inline]
    pub(super) fn peek(&self) -> Result<Option<RecordHead<'a>>, Malformed> {
        match self.peek_short() {
            Some(head) => Ok(Some(head)),
            None => self.peek_any(),
        }
    }

    /// Returns the head of the next record if all its numbers are short, as they are in most records.
    #[inline]
    fn peek_short(&self) -> Option<RecordHead<'a>> {
        let before = self.place?;
        let (&[head, due, more, len], after) = self.bytes[self.at..].split_first_chunk()?;
        let shared = usize::from(head >> SHARED_SHIFT);
        if head & (SAME | TRIED) != SAME || shared == MAX_SHARED || (due | more | len) >= 0x80 {
            return None;
        }
        let rest = after.get(..len.into())?;
        let step = u64::from(more >> 1);
        let seq = if more & 1 == 0 {
            before.seq + step
        } else {
            before.seq.checked_sub(step + 1)?
        };
        let due = before.due + u64::from(due);
        let is_valid = shared <= self.uri_len && shared + rest.len() > 0;
        if !is_valid || seq >= MAX_NUMBER || due > MAX_INTEGER {
            return None;
        }
        Some(RecordHead {
            place: Position { due, seq, ..before },
            attempts: 0,
            shared,
            rest,
            end: self.at + 4 + rest.len(),
        })
    }

    fn peek_any(&self) -> Result<Option<RecordHead<'a>>, Malformed> {
        let mut parts = Reader::from(self.bytes, self.at);
        let Ok(head) = parts.byte() else {
            return Ok(None);
        };
        let mut number = |most| parts.number_to(most);
        let place = if head & SAME == 0 {
            Position {
                execution: number(MAX_NUMBER - 1)?,
                depth: number(u32::MAX.into())? as u32,
                due: number(MAX_INTEGER)?,
                seq: number(MAX_NUMBER - 1)?,
            }
        } else {
            let before = self.place.ok_or(UNPRECEDENTED)?;
            let due = number(MAX_INTEGER - before.due)?;
            let more = number(MAX_NUMBER << 1)?;
            let seq = if more & 1 == 0 {
                before.seq.checked_add(more >> 1)
            } else {
                before.seq.checked_sub((more >> 1) + 1)
            };
            Position {
                due: before.due + due,
                seq: seq
                    .filter(|&seq| seq < MAX_NUMBER)
                    .ok_or(Malformed::NUMBER)?,
                ..before
            }
        };
        let attempts = match head & TRIED {
            0 => 0,
            _ => number(u32::MAX.into())? as u32,
        };
        let mut shared = usize::from(head >> SHARED_SHIFT);
        if shared == MAX_SHARED {
            shared += number(STORED_BYTES as u64)? as usize;
        }
        let len = number(STORED_BYTES as u64)? as usize;
        let rest = parts.take(len)?;
        if shared > self.uri_len || !(1..=STORED_BYTES).contains(&(shared + len)) {
            return Err(Malformed("has a URI of invalid length"));
        }
        Ok(Some(RecordHead {
            place,
            attempts,
            shared,
            rest,
            end: parts.at(),
        }))
    }

    /// Consumes records of a valid page that are before a position, up to the first record that differs from its
    /// predecessor in execution or depth, or that has long numbers. `common` is the length of the common prefix of
    /// `uri` and the URI of the last record.
    pub(super) fn skip_run(&mut self, until: Position, uri: &[u8], common: &mut usize) {
        /// The bits of the first four bytes of a record that are fixed if all its numbers are short: the two lowest bits
        /// of the first byte, and the highest bit of each other one.
        const FIXED: u32 = 0x8080_8003;
        let Some(Position {
            execution,
            depth,
            mut due,
            mut seq,
        }) = self.place
        else {
            return;
        };
        let until_due = match (execution, depth).cmp(&(until.execution, until.depth)) {
            Ordering::Less => u64::MAX,
            Ordering::Equal => until.due,
            Ordering::Greater => return,
        };
        let mut bytes = &self.bytes[self.at..];
        let mut same = *common;
        while let Some((four, after)) = bytes.split_first_chunk() {
            let four = u32::from_le_bytes(*four);
            let seven = |shift: u32| four >> shift & 0x7f;
            let kept = (four as u8 >> SHARED_SHIFT) as usize;
            if four & FIXED != u32::from(SAME) || kept == MAX_SHARED {
                break;
            }
            let (next_due, more) = (due + u64::from(seven(8)), u64::from(seven(16)));
            let next_seq = seq.wrapping_add(more >> 1 ^ (more & 1).wrapping_neg());
            if next_due >= until_due && (next_due > until_due || next_seq >= until.seq) {
                break;
            }
            let (rest, after) = after.split_at(seven(24) as usize);
            // Each record shares as many bytes as possible with its predecessor. If it shares fewer bytes than the URI
            // does, it therefore differs from both in the next byte.
            if kept < same {
                same = kept;
            } else if kept == same && rest.first() == uri.get(kept) {
                same += shared(rest, &uri[kept..]);
            }
            (due, seq, self.uri_len, bytes) = (next_due, next_seq, kept + rest.len(), after);
        }
        self.at = self.bytes.len() - bytes.len();
        self.place = Some(Position {
            execution,
            depth,
            due,
            seq,
        });
        *common = same;
    }

    /// Consumes the record with this head.
    #[inline]
    pub(super) fn accept(&mut self, head: &RecordHead<'a>) {
        self.place = Some(head.place);
        self.uri_len = head.uri_len();
        self.at = head.end;
    }
}

/// Reads records one after the other.
pub(super) struct Records<'a> {
    heads: Heads<'a>,
    attempts: u32,
    uri: SmallVec<[u8; 256]>,
}

impl<'a> Records<'a> {
    /// Creates a reader that starts before the first record.
    pub(super) fn new(bytes: &'a [u8]) -> Records<'a> {
        Records {
            heads: Heads::new(bytes),
            attempts: 0,
            uri: SmallVec::new(),
        }
    }

    /// Returns the offset of the next record.
    pub(super) fn at(&self) -> usize {
        self.heads.at
    }

    /// Returns the record that was read last.
    pub(super) fn record(&self) -> Option<Record<'_>> {
        Some(Record {
            place: self.heads.place?,
            attempts: self.attempts,
            uri: &self.uri,
        })
    }

    /// Returns the head of the next record without consuming the record, or `None` at the end.
    pub(super) fn peek(&self) -> Result<Option<RecordHead<'a>>, Malformed> {
        self.heads.peek()
    }

    /// Consumes the record with this head.
    pub(super) fn accept(&mut self, head: RecordHead<'a>) {
        self.heads.accept(&head);
        self.attempts = head.attempts;
        self.uri.truncate(head.shared);
        self.uri.extend_from_slice(head.rest);
    }

    /// Reads the next record. Returns false at the end.
    pub(super) fn next(&mut self) -> Result<bool, Malformed> {
        let head = self.peek()?;
        if let Some(head) = head {
            self.accept(head);
        }
        Ok(head.is_some())
    }
}
