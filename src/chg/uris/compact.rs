//! A compact form for groups with few URIs, which saves memory: a group with one queued URI takes
//! about a dozen bytes in addition to the URI.
//!
//! Times are relative to a base, usually the due time of the group. The records are copied
//! unchanged, except for the due time of the first record.

use smallvec::SmallVec;

use crawlspace_compact::number::{Malformed, Reader, put, put_bytes};

use super::bounds::{MAX_INTEGER, MAX_NUMBER, MAX_PASS, MAX_WEIGHT, STORED_BYTES};
use super::execution::Execution;
use super::record::Position;
use super::share::STRIDE;
use super::{Lease, Uris};
use crate::chg::time::{Millis, unzigzag, zigzag};

/// Flag: the group has had only one execution, and this execution has the weight 1.
const ONE: u8 = 1;
/// Flag: the group has leases.
const LEASED: u8 = 2;
/// Flag: the passes are not multiples of a stride.
const ODD: u8 = 4;
/// Flag: the group has queued URIs.
const QUEUED: u8 = 8;

/// Maximum number of leases in the compact form.
const LEASES: usize = 4;
/// Maximum number of strides in a pass.
const STRIDES: u64 = (MAX_PASS / STRIDE) as u64;

fn pass(pass: u128) -> Result<u128, Malformed> {
    if pass <= MAX_PASS {
        Ok(pass)
    } else {
        Err(Malformed::NUMBER)
    }
}

fn time(time: Millis) -> Result<Millis, Malformed> {
    if time <= MAX_INTEGER {
        Ok(time)
    } else {
        Err(Malformed::NUMBER)
    }
}

impl Uris {
    /// Appends the compact form. Returns false if there are too many URIs or executions; in this
    /// case, the bytes appended to `out` are arbitrary.
    pub(in crate::chg) fn pack(&self, base: Millis, most: usize, out: &mut Vec<u8>) -> bool {
        let (Some(page), Some(executions)) = (self.queue.only_page(), self.executions.few()) else {
            return false;
        };
        if !self.is_small(most) {
            return false;
        }
        let one = match executions {
            [one] => one.number == 0 && one.weight == 1 && self.executions.next == 1,
            _ => false,
        };
        let clock = self.executions.clock;
        let is_odd = !clock.is_multiple_of(STRIDE)
            || executions
                .iter()
                .any(|e| !e.pass.is_multiple_of(STRIDE) || e.pass < clock);
        let mut flags = if one { ONE } else { 0 };
        flags |= if self.leases.is_empty() { 0 } else { LEASED };
        flags |= if is_odd { ODD } else { 0 };
        flags |= if page.len() > 0 { QUEUED } else { 0 };
        out.push(flags);
        put(out, self.next);
        if is_odd {
            out.extend_from_slice(&clock.to_le_bytes());
        } else {
            put(out, (clock / STRIDE) as u64);
        }
        if !one {
            put(out, self.executions.next);
            put(out, executions.len() as u64);
        }
        for execution in executions {
            if !one {
                put(out, execution.number);
                put(out, execution.weight.into());
            }
            if is_odd {
                out.extend_from_slice(&execution.pass.to_le_bytes());
            } else {
                put(out, ((execution.pass - clock) / STRIDE) as u64);
            }
            put_bytes(out, &execution.id);
            put(out, execution.queued);
            if execution.queued > 0 {
                put(out, zigzag(execution.earliest, base));
            }
            if !self.leases.is_empty() {
                put(out, execution.leased.into());
                put(out, execution.held.into());
            }
        }
        if !self.leases.is_empty() {
            put(out, self.leases.len() as u64);
        }
        for lease in &self.leases {
            put(out, lease.token);
            put(
                out,
                u64::from(lease.attempts) << 1 | u64::from(lease.dropped),
            );
            put(out, lease.place.execution);
            put(out, lease.place.depth.into());
            put(out, zigzag(lease.place.due, base));
            put(out, lease.place.seq);
            put_bytes(out, &lease.uri);
        }
        page.pack(base, out);
        true
    }

    /// Returns true if the value has a compact form, with a queue of at most `most` bytes.
    pub(in crate::chg) fn is_small(&self, most: usize) -> bool {
        let page = self.queue.only_page();
        page.is_some_and(|page| page.len() <= most)
            && self.executions.few().is_some()
            && self.leases.len() <= LEASES
    }

    /// Restores a value from its compact form.
    pub(in crate::chg) fn unpack(base: Millis, bytes: &[u8]) -> Uris {
        Uris::read_packed(base, bytes).expect("own memory")
    }

    /// Restores a value from its compact form in a file. Numbers and times are checked, and `knows` checks the stored
    /// executions; URIs are not checked.
    ///
    /// # Errors
    /// Fails if the bytes are malformed.
    pub(in crate::chg) fn unpack_checked(
        base: Millis,
        bytes: &[u8],
        most: usize,
        knows: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Uris, Malformed> {
        let uris = Uris::read_packed(base, bytes)?;
        let fits = uris.is_small(most) && !uris.is_empty();
        if fits && uris.is_sound() && uris.ids().all(knows) {
            Ok(uris)
        } else {
            Err(Malformed(
                "has a group whose number of URIs does not match its URIs",
            ))
        }
    }

    /// Returns true if the parts of a value with a single page agree.
    fn is_sound(&self) -> bool {
        let Some(executions) = self.executions.few() else {
            return false;
        };
        let mut counted: SmallVec<[Execution; 1]> = executions
            .iter()
            .map(|e| Execution::new(&e.id, e.number, e.weight, e.pass))
            .collect();
        let find = |counted: &[Execution], number| {
            counted.binary_search_by_key(&number, |e: &Execution| e.number)
        };
        for lease in &self.leases {
            let Ok(at) = find(&counted, lease.place.execution) else {
                return false;
            };
            counted[at].held += 1;
            counted[at].leased += u32::from(!lease.dropped);
        }
        let mut last = None;
        let walked = self.queue.read(&mut |record| {
            let ascends = last.is_none_or(|last| last < record.place);
            last = Some(record.place);
            match find(&counted, record.place.execution) {
                Ok(at) if ascends => {
                    counted[at].queued += 1;
                    counted[at].earliest = counted[at].earliest.min(record.place.due);
                    true
                }
                _ => false,
            }
        });
        walked
            && self.queue.len() == counted.iter().map(|e| e.queued).sum::<u64>()
            && counted[..] == *executions
            && self.leases.iter().enumerate().all(|(at, lease)| {
                let fits = |other: &Lease| {
                    other.token != lease.token || other.place.execution == lease.place.execution
                };
                self.leases[..at].iter().all(fits)
            })
    }

    fn read_packed(base: Millis, bytes: &[u8]) -> Result<Uris, Malformed> {
        let mut from = Reader::new(bytes);
        let mut uris = Uris::default();
        let flags = from.byte()?;
        let has = |flag: u8| flags & flag != 0;
        uris.next = from.number_to(MAX_NUMBER)?;
        let clock = if has(ODD) {
            u128::from_le_bytes(from.array()?)
        } else {
            u128::from(from.number_to(STRIDES)?) * STRIDE
        };
        uris.executions.clock = pass(clock)?;
        let (next, count) = if has(ONE) {
            (1, 1)
        } else {
            (from.number_to(MAX_NUMBER)?, from.number()?)
        };
        uris.executions.next = next;
        let (mut queued, mut last) = (0_u64, None);
        for _ in 0..count {
            let (number, weight) = if has(ONE) {
                (0, 1)
            } else {
                let number = from.number_to(next.saturating_sub(1))?;
                let weight = from.number_to(MAX_WEIGHT)? as u32;
                if last.is_some_and(|last| last >= number) || weight == 0 {
                    return Err(Malformed::NUMBER);
                }
                (number, weight)
            };
            last = Some(number);
            let after = if has(ODD) {
                u128::from_le_bytes(from.array()?)
            } else {
                clock + u128::from(from.number_to(STRIDES)?) * STRIDE
            };
            let mut execution = Execution::new(from.bytes()?, number, weight, pass(after)?);
            execution.queued = from.number_to(bytes.len() as u64)?;
            queued += execution.queued;
            if execution.queued > 0 {
                execution.earliest = unzigzag(from.number()?, base);
            }
            if has(LEASED) {
                execution.leased = from.number()? as u32;
                execution.held = from.number()? as u32;
            }
            uris.executions.insert(execution);
        }
        if has(LEASED) {
            let leases = from.number_to(LEASES as u64)? as usize;
            uris.leases.reserve_exact(leases);
            for _ in 0..leases {
                let token = from.number_to(MAX_INTEGER)?;
                let attempts = from.number_to(u64::from(u32::MAX) << 1 | 1)?;
                let place = Position {
                    execution: from.number()?,
                    depth: from.number_to(u32::MAX.into())? as u32,
                    due: time(unzigzag(from.number()?, base))?,
                    seq: from.number_to(MAX_NUMBER - 1)?,
                };
                uris.leases.push(Lease {
                    token,
                    place,
                    attempts: (attempts >> 1) as u32,
                    dropped: attempts & 1 == 1,
                    uri: from.text(STORED_BYTES)?.into(),
                });
            }
        }
        if has(QUEUED) {
            uris.queue.restore(queued, base, from.rest())?;
        }
        Ok(uris)
    }
}
