//! The record of a URL: 9 bytes after its fingerprint, and 4 more if several executions share the space.
//!
//! | bytes | |
//! |---|---|
//! | 8 or 12 | fingerprint of the URL |
//! | 4 | hash of the group, little-endian |
//! | 3 | time of the last change in units of ten minutes, little-endian |
//! | 2 | bits 0–9 status plus 1, bits 10–13 attempts, bits 14–15 state, little-endian |
//! | 0 or 4 | number of the execution that discovered it, little-endian |

use super::short::Short;
use crate::chg::time::Millis;

/// Resolution of the time of a change, in milliseconds.
pub const UNIT: Millis = 600_000;

/// Maximum number of attempts that a record counts.
const MAX_ATTEMPTS: u32 = 15;

/// Highest HTTP status that a record can hold.
pub const MAX_STATUS: u16 = 999;

/// Maximum width of a record.
pub(super) const MAX_WIDTH: usize = 12 + FIXED + 4;

/// A record as it is stored.
pub(in crate::chg) type Stored = Short<MAX_WIDTH>;

/// Bytes of a record between its fingerprint and the number of its execution.
const FIXED: usize = 9;

/// The state of a known URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The URL is in the queue of its group.
    Queued,
    /// A worker holds a lease for the URL.
    Leased,
    /// The URL was fetched.
    Done,
    /// The leases on the URL expired too often.
    GivenUp,
}

impl State {
    /// All states, in the order of their numbers.
    pub const ALL: [State; 4] = [State::Queued, State::Leased, State::Done, State::GivenUp];

    /// Returns the name of the state in replies.
    pub fn name(self) -> &'static str {
        match self {
            State::Queued => "queued",
            State::Leased => "leased",
            State::Done => "done",
            State::GivenUp => "given-up",
        }
    }

    /// Returns true if the frontier stores the text of the URL.
    pub fn has_text(self) -> bool {
        matches!(self, State::Queued | State::Leased)
    }
}

/// The record of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// State of the URL.
    pub state: State,
    /// Number of failed attempts, at most 15.
    pub attempts: u32,
    /// HTTP status of the last fetch, if there is one.
    pub status: Option<u16>,
    /// Time of the last change, in units of ten minutes.
    pub changed: u32,
    /// Hash of the group.
    pub group: u32,
    /// Number, within the space, of the execution that discovered the URL.
    pub member: u32,
}

impl Known {
    /// Returns the time of the last change, rounded down to ten minutes.
    pub fn changed_ms(&self) -> Millis {
        Millis::from(self.changed) * UNIT
    }

    /// Returns the width of a record.
    pub(super) fn width(print_bytes: usize, is_shared: bool) -> usize {
        print_bytes + FIXED + if is_shared { 4 } else { 0 }
    }

    /// Writes a record of this width.
    pub(in crate::chg) fn write(&self, print: &[u8], width: usize) -> Stored {
        let mut record = [0; MAX_WIDTH];
        let (head, rest) = record.split_at_mut(print.len());
        head.copy_from_slice(print);
        let status = self.status.map_or(0, |status| status.min(MAX_STATUS) + 1);
        let attempts = self.attempts.min(MAX_ATTEMPTS) as u16;
        let bits = status | attempts << 10 | (self.state as u16) << 14;
        rest[..4].copy_from_slice(&self.group.to_le_bytes());
        rest[4..7].copy_from_slice(&self.changed.to_le_bytes()[..3]);
        rest[7..FIXED].copy_from_slice(&bits.to_le_bytes());
        rest[FIXED..FIXED + 4].copy_from_slice(&self.member.to_le_bytes());
        Stored::new(record, width)
    }

    /// Reads a record with a fingerprint of this length. Returns `None` if its status is out of range.
    pub(super) fn read(record: &[u8], print_bytes: usize) -> Option<Known> {
        let rest = &record[print_bytes..];
        let number = |bytes: &[u8]| {
            let digits = bytes.iter().rev();
            digits.fold(0_u32, |n, &byte| n << 8 | u32::from(byte))
        };
        let bits = number(&rest[7..9]) as u16;
        let status = bits & 0x3ff;
        if status > MAX_STATUS + 1 {
            return None;
        }
        Some(Known {
            state: State::ALL[usize::from(bits >> 14)],
            attempts: (bits >> 10 & 0xf).into(),
            status: status.checked_sub(1),
            changed: number(&rest[4..7]),
            group: number(&rest[..4]),
            member: number(&rest[FIXED..]),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn record_is_read_as_it_was_written(
            (state, attempts, status) in (0..4_usize, 0..16_u32, proptest::option::of(0..1000_u16)),
            (changed, group, member) in (0..1_u32 << 24, any::<u32>(), any::<u32>()),
            (long, is_shared) in any::<(bool, bool)>(),
        ) {
            let print = &[7; 12][..if long { 12 } else { 8 }];
            let member = if is_shared { member } else { 0 };
            let known = Known { state: State::ALL[state], attempts, status, changed, group, member };
            let width = Known::width(print.len(), is_shared);
            let record = known.write(print, width);
            prop_assert_eq!(record.len(), width);
            prop_assert_eq!(Known::read(&record, print.len()), Some(known));
        }
    }

    #[test]
    fn record_takes_17_bytes() {
        assert_eq!(Known::width(8, false), 17);
        assert_eq!(Known::width(12, true), 25);
    }
}
