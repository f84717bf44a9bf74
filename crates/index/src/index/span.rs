//! The part of an index that a query searches.

use std::cmp::Ordering;
use std::sync::Arc;

use crawlspace_cdx::surt::KeyRange;

use crate::sorted::Order;
use crate::sorted::line::Shape;
use crate::timestamp::{Timestamp, compare};

/// A range of lines, including its start and excluding its end, optionally restricted to a time range.
#[derive(Debug)]
pub struct Span {
    /// Inclusive start.
    pub from: Vec<u8>,
    /// Exclusive end; empty if the span is unbounded.
    pub to: Vec<u8>,
    /// First and last timestamp that pass, inclusive, with 14 digits each.
    first: Option<Vec<u8>>,
    last: Option<Vec<u8>>,
    /// True if the span covers a single urlkey.
    pub one_key: bool,
}

/// The position of a line relative to a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Before the span.
    Before,
    /// Within the span.
    Within,
    /// After the span.
    After,
}

impl Span {
    /// Creates the span of a key range between two times, both inclusive.
    pub fn of(keys: &KeyRange, first: Option<Timestamp>, last: Option<Timestamp>) -> Span {
        let (mut from, mut to) = (keys.from.clone(), keys.to.clone());
        let digits =
            |moment: Option<Timestamp>| moment.map(|moment| moment.to_string().into_bytes());
        let (first, last) = (digits(first), digits(last));
        let one_key = match (&from[..], &to[..]) {
            ([key @ .., b' '], [other @ .., b'!']) => key == other && !key.contains(&b' '),
            _ => false,
        };
        if one_key {
            if let Some(last) = &last {
                // The end sorts after all timestamps of this minute: after those that begin with `last` and have more
                // digits, and after the minute with a `Z`.
                to.clone_from(&from);
                to.extend_from_slice(last.get(..12).unwrap_or(last));
                to.push(b'Z' + 1);
            }
            if let Some(first) = &first {
                from.extend_from_slice(shortest(first));
            }
        }
        Span {
            from,
            to,
            first,
            last,
            one_key,
        }
    }

    /// Creates the span of all lines of one key.
    pub(crate) fn of_key(key: &[u8]) -> Span {
        Span {
            from: [key, b" "].concat(),
            to: [key, b"!"].concat(),
            one_key: true,
            ..Span::all()
        }
    }

    /// Creates the span of all lines.
    pub(crate) fn all() -> Span {
        Span {
            from: Vec::new(),
            to: Vec::new(),
            first: None,
            last: None,
            one_key: false,
        }
    }

    /// Returns the position at which lines from `moment` on begin, clamped to the span. The span must cover a single
    /// key.
    pub fn split(&self, moment: Timestamp) -> Vec<u8> {
        let key = memchr::memchr(b' ', &self.from).map_or(&self.from[..], |end| &self.from[..=end]);
        let split = [key, moment.to_string().as_bytes()].concat();
        split.max(self.from.clone()).min(self.to.clone())
    }

    /// Splits the span in two: the lines before `split`, and the lines from `split` on.
    pub fn halves(&self, split: &[u8]) -> (Arc<Span>, Arc<Span>) {
        let half = |from: &[u8], to: &[u8]| {
            Arc::new(Span {
                from: from.to_vec(),
                to: to.to_vec(),
                first: self.first.clone(),
                last: self.last.clone(),
                one_key: self.one_key,
            })
        };
        (half(&self.from, split), half(split, &self.to))
    }

    /// Returns the position of a line relative to the span.
    #[inline]
    pub fn position(&self, line: &[u8]) -> Position {
        if !self.to.is_empty() && line >= &self.to[..] {
            Position::After
        } else if line < &self.from[..] {
            Position::Before
        } else {
            Position::Within
        }
    }

    /// Returns whether the timestamp of a line within the span passes the time range. Digits after the 14th are
    /// ignored.
    #[inline]
    pub fn admits(&self, line: &[u8], shape: Shape) -> bool {
        if self.first.is_none() && self.last.is_none() {
            return true;
        }
        let digits = shape.timestamp(line);
        let digits = digits.get(..14).unwrap_or(digits);
        let after = |first: &Vec<u8>| compare(digits, first) != Ordering::Less;
        let before = |last: &Vec<u8>| compare(digits, last) != Ordering::Greater;
        self.first.as_ref().is_none_or(after) && self.last.as_ref().is_none_or(before)
    }

    /// Returns whether the span is empty.
    pub fn is_empty(&self) -> bool {
        !self.to.is_empty() && self.from >= self.to
    }
}

/// Returns the shortest prefix of a timestamp that denotes the same time: lines may have truncated timestamps.
pub fn shortest(digits: &[u8]) -> &[u8] {
    let mut shortest = digits;
    while let [fewer @ .., _] = shortest {
        if fewer.is_empty() || compare(fewer, digits) != Ordering::Equal {
            break;
        }
        shortest = fewer;
    }
    shortest
}

/// Returns the distance of a line from the requested time in seconds; 0 in other orders. Returns
/// `None` if the timestamp of the line is invalid. A minute with a `Z` sorts after its seconds, so its distance is that of
/// its last second.
#[inline]
pub fn distance(order: Order, line: &[u8], shape: Shape) -> Option<u64> {
    match order {
        Order::Closest(moment) => {
            let digits = shape.timestamp(line);
            let own = if shape.has_zone(line) {
                Timestamp::latest(digits)
            } else {
                Timestamp::earliest(digits)
            };
            own.map(|own| own.seconds().abs_diff(moment.seconds()))
        }
        _ => Some(0),
    }
}
