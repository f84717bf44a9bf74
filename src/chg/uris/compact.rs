//! A compact form of a few URIs, which saves memory: a group with one queued URI takes about a
//! dozen bytes in addition to the URI.
//!
//! Times are relative to a base, usually the due time of the group. The records are copied
//! unchanged, except for the due time of the first one.

use crawlspace_compact::number::{Reader, put, put_bytes};

use super::bounds::MAX_PASS;
use super::execution::Execution;
use super::record::Position;
use super::share::STRIDE;
use super::{Lease, Uris};
use crate::chg::time::{Millis, unzigzag, zigzag};

/// Flag: the group has one execution, which is its first one and has the weight 1.
const ONE: u8 = 1;
/// Flag: the group has leases.
const LEASED: u8 = 2;
/// Flag: the passes are not multiples of a stride.
const ODD: u8 = 4;
/// Flag: the group has queued URIs.
const QUEUED: u8 = 8;

impl Uris {
    /// Appends the compact form. Returns false if there are too many URIs or executions; `out` then
    /// has arbitrary bytes at its end.
    pub(in crate::chg) fn pack(&self, base: Millis, most: usize, out: &mut Vec<u8>) -> bool {
        let (Some(page), Some(executions)) = (self.queue.only_page(), self.executions.few()) else {
            return false;
        };
        if page.len() > most || self.leases.len() > 4 {
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

    /// Returns true if the queue takes at most `most` bytes.
    pub(in crate::chg) fn is_small(&self, most: usize) -> bool {
        let page = self.queue.only_page();
        page.is_some_and(|page| page.len() <= most) && self.executions.few().is_some()
    }

    /// Restores a value from its compact form, which is all that remains in `from`.
    pub(in crate::chg) fn unpack(base: Millis, bytes: &[u8]) -> Uris {
        Uris::read_packed(base, bytes).expect("own memory")
    }

    fn read_packed(
        base: Millis,
        bytes: &[u8],
    ) -> Result<Uris, crawlspace_compact::number::Malformed> {
        let mut from = Reader::new(bytes);
        let mut uris = Uris::default();
        let flags = from.byte()?;
        let has = |flag: u8| flags & flag != 0;
        uris.next = from.number()?;
        let clock = if has(ODD) {
            u128::from_le_bytes(from.array()?)
        } else {
            u128::from(from.number()?) * STRIDE
        };
        uris.executions.clock = clock.min(MAX_PASS);
        let (next, count) = if has(ONE) {
            (1, 1)
        } else {
            (from.number()?, from.number()?)
        };
        uris.executions.next = next;
        let mut queued = 0;
        for _ in 0..count {
            let (number, weight) = if has(ONE) {
                (0, 1)
            } else {
                (from.number()?, from.number()? as u32)
            };
            let pass = if has(ODD) {
                u128::from_le_bytes(from.array()?)
            } else {
                clock + u128::from(from.number()?) * STRIDE
            };
            let mut execution = Execution::new(from.bytes()?, number, weight, pass);
            execution.queued = from.number()?;
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
            let leases = from.number()? as usize;
            uris.leases.reserve_exact(leases);
            for _ in 0..leases {
                let token = from.number()?;
                let attempts = from.number()?;
                let place = Position {
                    execution: from.number()?,
                    depth: from.number()? as u32,
                    due: unzigzag(from.number()?, base),
                    seq: from.number()?,
                };
                uris.leases.push(Lease {
                    token,
                    place,
                    attempts: (attempts >> 1) as u32,
                    dropped: attempts & 1 == 1,
                    uri: from.bytes()?.into(),
                });
            }
        }
        if has(QUEUED) {
            uris.queue.restore(queued, base, from.rest())?;
        }
        Ok(uris)
    }
}
