//! A bucket of a hash table: ten slots in one cache line.

use super::place::RecordSlot;

/// Number of slots per bucket.
pub(super) const SLOTS: usize = 10;

/// Positions of records, each with eight bits of its hash.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Bucket {
    /// Eight bits of the hash per slot, 0 for an empty slot.
    marks: [u8; SLOTS],
    /// Number of positions that belong in this bucket but are in a later bucket, because this bucket
    /// was full. Once the number has reached its maximum, it stays there.
    passed: u16,
    /// Highest eight bits of the chunk numbers.
    high: [u8; SLOTS],
    _free: [u8; 2],
    /// The lower bits of the chunk numbers, and the offsets.
    low: [u32; SLOTS],
}

const _: () = assert!(size_of::<Bucket>() == 64);

/// Returns eight bits of a hash as a mark. A mark is never 0. It uses other bits than those that
/// select the shard and the bucket.
#[inline]
fn mark(hash: u64) -> u8 {
    ((hash >> 24) as u8).max(1)
}

/// A set of slots, as the highest bits of bytes: byte `i` represents slot `i`.
pub(super) struct Marked(u128);

impl Iterator for Marked {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let slot = self.0.trailing_zeros() / 8;
        self.0 &= self.0 - 1;
        Some(slot as usize)
    }
}

const LOWEST: u128 = u128::MAX / 0xff;
const HIGHEST: u128 = LOWEST << 7;
const ALL: u128 = (1 << (8 * SLOTS)) - 1;

impl Bucket {
    /// Returns the slots with this mark.
    #[inline]
    fn equal(&self, mark: u8) -> Marked {
        let [a, b, c, d, e, f, g, h, i, j] = self.marks;
        let first = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let last = u16::from_le_bytes([i, j]);
        let marks = u128::from(first) | u128::from(last) << 64;
        let other = marks ^ (LOWEST * u128::from(mark));
        let is_other = ((other & !HIGHEST) + !HIGHEST) | other;
        Marked(!is_other & HIGHEST & ALL)
    }

    /// Returns the slots that may contain positions with this hash.
    #[inline]
    pub fn marked(&self, hash: u64) -> Marked {
        self.equal(mark(hash))
    }

    /// Returns the position in a slot.
    #[inline]
    pub fn place(&self, slot: usize) -> RecordSlot {
        RecordSlot {
            chunk: u32::from(self.high[slot]) << 16 | self.low[slot] >> 16,
            offset: self.low[slot] as u16,
        }
    }

    fn set(&mut self, slot: usize, place: RecordSlot) {
        self.high[slot] = (place.chunk >> 16) as u8;
        self.low[slot] = place.chunk << 16 | u32::from(place.offset);
    }

    /// Returns all positions.
    pub fn places(&self) -> impl Iterator<Item = RecordSlot> + '_ {
        (0..SLOTS)
            .filter(|&slot| self.marks[slot] != 0)
            .map(|slot| self.place(slot))
    }

    /// Returns true if a search ends at this bucket.
    #[inline]
    pub fn is_last(&self) -> bool {
        self.passed == 0
    }

    /// Counts a position that was stored in a later bucket because this bucket is full.
    pub fn pass(&mut self) {
        self.passed = self.passed.saturating_add(1);
    }

    /// Counts the removal of a position from a later bucket.
    pub fn unpass(&mut self) {
        if self.passed != u16::MAX {
            self.passed -= 1;
        }
    }

    /// Inserts a position. Returns false if all slots are taken.
    pub fn insert(&mut self, hash: u64, place: RecordSlot) -> bool {
        let Some(slot) = self.equal(0).next() else {
            return false;
        };
        self.marks[slot] = mark(hash);
        self.set(slot, place);
        true
    }

    fn slot(&self, hash: u64, place: RecordSlot) -> Option<usize> {
        self.marked(hash).find(|&slot| self.place(slot) == place)
    }

    /// Removes a position. Returns true if the bucket contained it.
    pub fn remove(&mut self, hash: u64, place: RecordSlot) -> bool {
        let slot = self.slot(hash, place);
        if let Some(slot) = slot {
            self.marks[slot] = 0;
        }
        slot.is_some()
    }

    /// Replaces a position with another one. Returns true if the bucket contained the old position.
    pub fn replace(&mut self, hash: u64, place: RecordSlot, by: RecordSlot) -> bool {
        let slot = self.slot(hash, place);
        if let Some(slot) = slot {
            self.set(slot, by);
        }
        slot.is_some()
    }

    #[cfg(test)]
    pub fn passed(&self) -> u16 {
        self.passed
    }
}
