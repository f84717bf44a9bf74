//! What part of an index a query is about.

use std::cmp::Ordering;
use std::sync::Arc;

use crawlspace_cdx::surt::KeyRange;

use crate::sorted::Order;
use crate::sorted::line::Shape;
use crate::timestamp::{Timestamp, compare};

/// Lines from one on, up to but without another one, and between two moments.
#[derive(Debug)]
pub struct Span {
    /// The first line is not before this one.
    pub from: Vec<u8>,
    /// All lines are before this one. Empty when there is no end.
    pub to: Vec<u8>,
    /// 14 digits each.
    first: Option<Vec<u8>>,
    last: Option<Vec<u8>>,
    /// Whether it is about one urlkey.
    pub one_key: bool,
}

/// Where a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Before the first line of the span.
    Before,
    /// A line of the span.
    Within,
    /// Behind the last line of the span.
    After,
}

impl Span {
    /// The lines of these keys between two moments, both within it.
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
                // Behind all that go on with more digits.
                to.clone_from(&from);
                to.extend_from_slice(last);
                to.push(b':');
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

    /// All lines of one key.
    pub(crate) fn of_key(key: &[u8]) -> Span {
        Span {
            from: [key, b" "].concat(),
            to: [key, b"!"].concat(),
            one_key: true,
            ..Span::all()
        }
    }

    /// All lines.
    pub(crate) fn all() -> Span {
        Span {
            from: Vec::new(),
            to: Vec::new(),
            first: None,
            last: None,
            one_key: false,
        }
    }

    /// Returns the beginning of the lines at a moment and later, or that end of the span which is nearest to it. It is
    /// about one key.
    pub fn split(&self, moment: Timestamp) -> Vec<u8> {
        let key = memchr::memchr(b' ', &self.from).map_or(&self.from[..], |end| &self.from[..=end]);
        let split = [key, moment.to_string().as_bytes()].concat();
        split.max(self.from.clone()).min(self.to.clone())
    }

    /// What comes before the split, and what does not.
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

    /// Where a line is in relation to the span.
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

    /// Whether a line within is of a moment that counts. Digits after the 14th are parts of a second.
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

    /// Whether nothing can be within.
    pub fn is_empty(&self) -> bool {
        !self.to.is_empty() && self.from >= self.to
    }
}

/// The fewest digits that mean the same moment: lines may have as few.
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

/// How far a line is from the moment that it should be close to, in seconds; 0 in other orders.
#[inline]
pub fn distance(order: Order, line: &[u8], shape: Shape) -> Option<u64> {
    match order {
        Order::Closest(moment) => Timestamp::earliest(shape.timestamp(line))
            .map(|own| own.seconds().abs_diff(moment.seconds())),
        _ => Some(0),
    }
}
