//! The compact form of a group in memory.
//!
//! Times are stored relative to the due time, and unset fields take no space. A waiting group without an
//! earlier fetch takes 11 bytes in addition to its id.

use smallvec::SmallVec;

use crawlspace_compact::number::{Malformed, Reader, put, put_bytes};

use super::super::Token;
use super::super::group::{FIELDS, Group, Hold, Id, Options, Released, Text};
use super::super::politeness::Backoff;
use super::super::time::{ARRIVALS, Millis, unzigzag, zigzag};

/// The numbers of URIs that a group counts without storing them, by execution.
pub(super) type Counts = SmallVec<[(u32, u64); 1]>;

/// A group with its positions in the queues.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Record {
    pub group: Group,
    /// True if the group would have a hash in plain storage.
    pub exists: bool,
    /// Scores in `chg_wait`, `chg_busy` and `chg_idle`.
    pub scores: [Option<f64>; SETS],
    pub counts: Counts,
    /// Group of the lease that was granted with the last release.
    pub next: Option<Id>,
    /// Number of times that the group is in `chg_ready`.
    pub listed: u64,
    /// Number of the group's last entry in `chg_ready`. It is only kept in memory.
    pub entry: u64,
}

/// Number of ordered sets of groups.
pub(super) const SETS: usize = 3;

const KNOWN: u64 = 1;
const OURS: u64 = 1 << 1;
const KEEPS: u64 = 1 << 2;
const EXISTS: u64 = 1 << 3;
const GATE: u64 = 1 << 4;
const RELEASED: u64 = 1 << 5;
const HELD: u64 = 1 << 6;
const LAST: u64 = 1 << 7;
const COUNTS: u64 = 1 << 8;
const BACKOFF: u64 = 1 << 9;
const EXPIRED: u64 = 1 << 10;
const OPTIONS: u64 = 1 << 11;
const NEXT: u64 = 1 << 12;
const LISTED: u64 = 1 << 13;
/// Position of two bits for each set: absent, exactly the usual time, within the millisecond of the
/// usual time, or a different time.
const SCORES: u32 = 14;
const USUAL: u64 = 1;
const WITHIN: u64 = 2;
const ANYWHERE: u64 = 3;

/// Returns the usual score of a group in each set: its due time, or its first deadline.
fn usual(group: &Group) -> [Millis; SETS] {
    [group.due, group.first_deadline().unwrap_or(0), group.due]
}

impl Record {
    /// Returns true if the record is empty, so that the group can be removed.
    pub fn is_empty(&self) -> bool {
        !self.is_stored() && self.listed == 0
    }

    /// Returns true if the record contains more than positions in `chg_ready`.
    pub fn is_stored(&self) -> bool {
        self.exists || self.scores != [None; SETS] || !self.counts.is_empty()
    }

    /// Appends the compact form.
    pub fn write(&self, out: &mut Vec<u8>) {
        let listed = (self.listed, self.entry);
        self.write_with(0, &self.counts, self.next.as_ref(), listed, out);
    }

    /// Appends the compact form without the positions in `chg_ready`.
    pub fn write_unlisted(&self, out: &mut Vec<u8>) {
        self.write_with(0, &self.counts, self.next.as_ref(), (0, 0), out);
    }

    /// Appends the compact form, with the due time relative to a base. Omits references to other groups and
    /// to executions, and the positions in `chg_ready`.
    pub fn write_alone(&self, base: Millis, out: &mut Vec<u8>) {
        self.write_with(base, &[], None, (0, 0), out);
    }

    fn write_with(
        &self,
        base: Millis,
        counts: &[(u32, u64)],
        next: Option<&Id>,
        (listed, entry): (u64, u64),
        out: &mut Vec<u8>,
    ) {
        let group = &self.group;
        let has = |flag: u64, is: bool| if is { flag } else { 0 };
        let mut flags = has(KNOWN, group.known)
            | has(OURS, group.ours)
            | has(KEEPS, group.keeps)
            | has(EXISTS, self.exists)
            | has(GATE, group.gate != 0)
            | has(RELEASED, group.released != 0)
            | has(HELD, !group.holds.is_empty())
            | has(LAST, group.last.is_some())
            | has(COUNTS, !counts.is_empty())
            | has(BACKOFF, group.backoff != Backoff::default())
            | has(EXPIRED, group.expired != 0)
            | has(OPTIONS, group.options != Options::default())
            | has(NEXT, next.is_some())
            | has(LISTED, listed > 0);
        let usual = usual(group);
        for ((set, score), usual) in (0..).zip(self.scores).zip(usual) {
            flags |= place(score, usual).0 << (SCORES + 2 * set);
        }
        put(out, flags);
        put(out, zigzag(group.due, base));
        put(out, group.uris);
        if group.gate != 0 {
            put(out, zigzag(group.gate, group.due));
        }
        if group.released != 0 {
            put(out, zigzag(group.released, group.due));
        }
        if !group.holds.is_empty() {
            put(out, group.holds.len() as u64);
            for hold in &group.holds {
                put_token(out, hold.token, group.due);
                put(out, zigzag(hold.granted, hold.token / 1000));
                put(out, zigzag(hold.deadline, hold.granted));
            }
        }
        if let Some(last) = group.last {
            put_token(out, last.token, group.due);
            put(out, zigzag(last.due, group.due));
            put(out, zigzag(last.next, last.token));
        }
        if !counts.is_empty() {
            put(out, counts.len() as u64);
            for &(execution, n) in counts {
                put(out, execution.into());
                put(out, n);
            }
        }
        if group.backoff != Backoff::default() {
            put(out, group.backoff.steps.into());
            put(out, zigzag(group.backoff.since, group.released));
        }
        if group.expired != 0 {
            put(out, group.expired);
        }
        if group.options != Options::default() {
            put_bytes(out, &group.options.write());
        }
        if let Some(next) = next {
            put_bytes(out, next);
        }
        if listed > 0 {
            put(out, listed);
            put(out, entry);
        }
        for (score, usual) in self.scores.into_iter().zip(usual) {
            match place(score, usual) {
                (WITHIN, n) => put(out, n),
                (ANYWHERE, n) => out.extend_from_slice(&n.to_le_bytes()),
                _ => {}
            }
        }
    }

    /// Parses the result of [`Record::write`].
    ///
    /// # Errors
    /// Fails if the bytes are malformed.
    pub fn read(from: &mut Reader<'_>) -> Result<Record, Malformed> {
        let mut record = Record::default();
        record.replace(0, from)?;
        Ok(record)
    }

    /// Replaces this record by one that is read. Its due time is relative to a base.
    ///
    /// # Errors
    /// Fails if the bytes are malformed. The record is then incomplete.
    pub fn replace(&mut self, base: Millis, from: &mut Reader<'_>) -> Result<(), Malformed> {
        *self = Record::default();
        let Record { group, .. } = self;
        let flags = from.number()?;
        let has = |flag: u64| flags & flag != 0;
        group.known = has(KNOWN);
        group.ours = has(OURS);
        group.keeps = has(KEEPS);
        group.due = unzigzag(from.number()?, base);
        group.uris = from.number()?;
        if has(GATE) {
            group.gate = unzigzag(from.number()?, group.due);
        }
        if has(RELEASED) {
            group.released = unzigzag(from.number()?, group.due);
        }
        if has(HELD) {
            for _ in 0..from.number()? {
                let token = read_token(from, group.due)?;
                let granted = unzigzag(from.number()?, token / 1000);
                let deadline = unzigzag(from.number()?, granted);
                group.holds.push(Hold {
                    token,
                    granted,
                    deadline,
                });
            }
        }
        if has(LAST) {
            let token = read_token(from, group.due)?;
            group.last = Some(Released {
                token,
                due: unzigzag(from.number()?, group.due),
                next: unzigzag(from.number()?, token),
            });
        }
        self.exists = has(EXISTS);
        if has(COUNTS) {
            for _ in 0..from.number()? {
                let execution = from.number_to(u32::MAX.into())? as u32;
                self.counts.push((execution, from.number()?));
            }
        }
        if has(BACKOFF) {
            group.backoff.steps = from.number_to(u32::MAX.into())? as u32;
            group.backoff.since = unzigzag(from.number()?, group.released);
        }
        if has(EXPIRED) {
            group.expired = from.number()?;
        }
        if has(OPTIONS) {
            group.options = Options::read(from.bytes()?);
        }
        if has(NEXT) {
            self.next = Some(Id::from_slice(from.bytes()?));
        }
        if has(LISTED) {
            self.listed = from.number()?;
            self.entry = from.number()?;
        }
        let usual = usual(group);
        for (set, usual) in (0..SETS).zip(usual) {
            self.scores[set] = match (flags >> (SCORES + 2 * set as u32)) & 3 {
                USUAL => Some(usual as f64),
                WITHIN => Some(usual as f64 + from.number()? as f64 / f64::from(ARRIVALS)),
                ANYWHERE => Some(f64::from_bits(u64::from_le_bytes(from.array()?))),
                _ => None,
            };
        }
        Ok(())
    }

    /// Returns the values that the fields of the group itself would have in its hash, in the order of
    /// [`Group::read`].
    pub fn own_values(&self) -> [Option<Text>; FIELDS] {
        let mut values = if self.exists {
            self.group.write()
        } else {
            Default::default()
        };
        if !self.group.ours {
            // The group has only options.
            let [due, uris, state, leases, _] = &mut values;
            for value in [due, uris, state, leases] {
                *value = None;
            }
        }
        values
    }

    /// Returns the number of values that [`Record::own_values`] returns.
    pub fn own_fields(&self) -> u64 {
        let group = &self.group;
        let options = u64::from(group.options != Options::default());
        let leases = group.expired > 0 || !group.holds.is_empty() || group.last.is_some();
        match (self.exists, group.ours) {
            (false, _) => 0,
            // The group has only options.
            (true, false) => options,
            (true, true) => 3 + u64::from(leases) + options,
        }
    }
}

/// Appends a token: its milliseconds relative to a time, and its remaining digits.
fn put_token(out: &mut Vec<u8>, token: Token, time: Millis) {
    put(out, zigzag(token / 1000, time));
    put(out, token % 1000);
}

/// Reads the result of [`put_token`].
fn read_token(from: &mut Reader<'_>, time: Millis) -> Result<Token, Malformed> {
    let token = unzigzag(from.number()?, time).checked_mul(1000);
    let rest = from.number_to(999)?;
    let token = token.and_then(|token| token.checked_add(rest));
    token.ok_or(Malformed::NUMBER)
}

/// Returns the two bits that represent a score, given the usual score, and the additional bits of
/// an unusual score.
fn place(score: Option<f64>, usual: Millis) -> (u64, u64) {
    let Some(score) = score else {
        return (0, 0);
    };
    let beyond = (score - usual as f64) * f64::from(ARRIVALS);
    if beyond == 0.0 {
        (USUAL, 0)
    } else if beyond > 0.0 && beyond < f64::from(ARRIVALS) && beyond.fract() == 0.0 {
        (WITHIN, beyond as u64)
    } else {
        (ANYWHERE, score.to_bits())
    }
}
