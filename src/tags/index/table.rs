//! A hash table from byte strings to numbers, without a pointer or allocation per key.
//!
//! A shard stores its entries contiguously in one allocation. An entry is the number (4 bytes,
//! little-endian), the length of the key (1 to 3 bytes, 7 bits each, lowest first), and the key.
//! Slots of 4 bytes contain the offset of an entry and a few bits of its hash. Therefore, a look-up
//! that misses all CPU caches waits for memory three times: for the shard, the slot, and the entry.
//! The memory of removed entries is reclaimed when they occupy a quarter of the shard.

use super::pages::Pages;
use crawlspace_compact::keyed::hash;
use crawlspace_compact::linear::{Bucket, Linear, Step};
use crawlspace_compact::number::{Reader, put_bytes};
use crawlspace_host::defrag::Mover;
use crawlspace_host::sizes::class;

#[derive(Clone, Default)]
pub struct Table {
    shards: Linear<Pages<Shard>>,
}

#[derive(Clone, Default)]
struct Shard {
    /// Open addressing: a search starts at the slot of the hash, and ends at the first empty slot.
    slots: Vec<u32>,
    arena: Vec<u8>,
    /// Number of entries. `filled` also includes the slots of removed entries.
    entries: u32,
    filled: u32,
    /// Number of bytes of removed entries.
    garbage: u32,
}

/// Mean weight of a shard. Copying a shard of twice this size takes about 2 µs; splitting it takes
/// 20 µs.
const FULL: usize = 16 << 10;

const EMPTY: u32 = u32::MAX;
const REMOVED: u32 = u32::MAX - 1;

/// The bits of a slot that contain the offset.
const OFFSET: u32 = (1 << 22) - 1;

/// A decoded entry, and the offset of its end.
struct Entry<'a> {
    number: u32,
    key: &'a [u8],
    end: usize,
}

impl Table {
    /// Returns the number of a key.
    pub fn get(&self, key: &[u8]) -> Option<u32> {
        let hash = hash(key);
        let shard = self.shards.get(hash)?;
        shard.find(hash, key).map(|(_, entry)| entry.number)
    }

    /// Sets the number of a key.
    pub fn set(&mut self, key: &[u8], number: u32) {
        let hash = hash(key);
        self.shards
            .change(hash, |shard| shard.set(hash, key, number));
        self.fit();
    }

    /// Removes a key, which must exist.
    pub fn remove(&mut self, key: &[u8]) {
        let hash = hash(key);
        self.shards.change(hash, |shard| shard.remove(hash, key));
        self.fit();
    }

    /// Adjusts the number of shards. A change adds at most about one shard, so two steps per change
    /// suffice.
    fn fit(&mut self) {
        for _ in 0..2 {
            let (len, weight) = (self.shards.len(), self.shards.weight());
            if weight > len * FULL {
                self.shards.grow(Shard::split);
            } else if len > 1 && weight < len * FULL / 3 {
                self.shards.shrink(Shard::absorb);
            } else {
                break;
            }
        }
        if self.shards.weight() == 0 && self.shards.len() == 1 {
            self.shards = Linear::default();
        }
    }

    /// Calls `each` with all keys and numbers.
    pub fn each(&self, each: &mut dyn FnMut(&[u8], u32)) {
        for shard in self.shards.iter() {
            for at in shard.offsets() {
                let entry = shard.entry(at);
                each(entry.key, entry.number);
            }
        }
    }

    /// Visits about `count` keys, starting at `cursor`. Returns the next cursor; 0 at the end. The
    /// position of a key in this scan does not depend on other keys.
    pub fn scan(&self, mut cursor: u64, count: usize, each: &mut dyn FnMut(&[u8], u32)) -> u64 {
        let mut given = 0;
        // A few shards may be empty.
        for _ in 0..count.saturating_add(16) {
            let Some(Step {
                bucket: shard,
                next,
                ..
            }) = self.shards.at(cursor)
            else {
                return 0;
            };
            let place = |at| (shard.hash(at).reverse_bits(), at);
            let mut entries: Vec<_> = shard.offsets().map(place).collect();
            entries.retain(|&(place, _)| place >= cursor);
            entries.sort_unstable();
            for (i, &(place, at)) in entries.iter().enumerate() {
                // Return keys with the same hash together, because a cursor cannot distinguish
                // them.
                if given >= count && (i == 0 || entries[i - 1].0 < place) {
                    return place;
                }
                let entry = shard.entry(at);
                each(entry.key, entry.number);
                given += 1;
            }
            match next {
                None => return 0,
                Some(next) => cursor = next,
            }
        }
        cursor
    }

    pub fn memory(&self) -> usize {
        self.shards.memory()
    }

    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Moves the memory of a shard to reduce fragmentation. Does not move a shard that a copy
    /// shares.
    pub fn defrag(&mut self, shard: usize, mover: &mut Mover<'_>) {
        if let Some(shard) = self.shards.buckets_mut().own_mut(shard) {
            mover.list(&mut shard.slots);
            mover.list(&mut shard.arena);
        }
    }

    #[cfg(test)]
    pub fn verify(&self) {
        self.shards.verify();
        let shards = self.shards.len();
        assert!(shards < 2 || self.shards.weight() >= FULL * (shards - 1) / 4);
        for shard in self.shards.iter() {
            let bytes = |at| shard.entry(at).end - at as usize;
            let live: usize = shard.offsets().map(bytes).sum();
            assert_eq!(live + shard.garbage as usize, shard.arena.len());
            assert_eq!(shard.offsets().count(), shard.entries as usize);
            let filled = shard.slots.iter().filter(|&&slot| slot != EMPTY).count();
            assert_eq!(filled, shard.filled as usize);
            assert!(filled < shard.slots.len() || filled == 0);
        }
    }

    pub fn pieces(&self) -> usize {
        2 * self.shards.len()
    }
}

impl Shard {
    fn entry(&self, at: u32) -> Entry<'_> {
        entry(&self.arena, at as usize)
    }

    fn hash(&self, at: u32) -> u64 {
        hash(self.entry(at).key)
    }

    /// Returns the offsets of all entries.
    fn offsets(&self) -> impl Iterator<Item = u32> + '_ {
        let taken = self.slots.iter().filter(|&&slot| slot < REMOVED);
        taken.map(|slot| slot & OFFSET)
    }

    /// Returns the slot of a key, and its entry.
    fn find(&self, hash: u64, key: &[u8]) -> Option<(usize, Entry<'_>)> {
        if self.slots.is_empty() {
            return None;
        }
        let mark = mark(hash);
        let mut at = place(hash, self.slots.len());
        loop {
            let slot = self.slots[at];
            if slot == EMPTY {
                return None;
            }
            if slot & !OFFSET == mark && slot != REMOVED {
                let entry = self.entry(slot & OFFSET);
                if entry.key == key {
                    return Some((at, entry));
                }
            }
            at += 1;
            if at == self.slots.len() {
                at = 0;
            }
        }
    }

    fn set(&mut self, hash: u64, key: &[u8], number: u32) {
        if let Some((slot, _)) = self.find(hash, key) {
            let at = (self.slots[slot] & OFFSET) as usize;
            self.arena[at..at + 4].copy_from_slice(&number.to_le_bytes());
            return;
        }
        // At least one slot in five is always empty.
        if (self.filled as usize + 1) * 5 > self.slots.len() * 4 {
            self.make_slots(self.entries as usize + 1);
        }
        let at = self.arena.len();
        let need = at + 7 + key.len();
        if need > self.arena.capacity() {
            self.arena.reserve_exact(class(need) - at);
        }
        push(&mut self.arena, key, number);
        self.add_slot(hash, at);
        self.entries += 1;
    }

    fn remove(&mut self, hash: u64, key: &[u8]) {
        let Some((slot, entry)) = self.find(hash, key) else {
            return;
        };
        self.garbage += entry.end as u32 - (self.slots[slot] & OFFSET);
        self.slots[slot] = REMOVED;
        self.entries -= 1;
        if self.garbage > 256 && self.garbage as usize > self.arena.len() / 4 {
            let all: Vec<_> = self.offsets().collect();
            *self = self.only(&all);
        }
    }

    fn add_slot(&mut self, hash: u64, offset: usize) {
        // A shard has 16 KiB on average. Shards do not grow far beyond the average, because clients
        // cannot choose the hashes of their keys.
        assert!(
            offset < OFFSET as usize - 1,
            "a shard has grown far too large"
        );
        let mut at = place(hash, self.slots.len());
        while self.slots[at] != EMPTY {
            at += 1;
            if at == self.slots.len() {
                at = 0;
            }
        }
        self.slots[at] = mark(hash) | offset as u32;
        self.filled += 1;
    }

    /// Creates slots with room for more than this number of entries, and fills them again.
    fn make_slots(&mut self, entries: usize) {
        let slots = class(entries * 4 * 3 / 2) / 4;
        let old = std::mem::replace(&mut self.slots, vec![EMPTY; slots]);
        self.filled = 0;
        for slot in old {
            if slot < REMOVED {
                let at = slot & OFFSET;
                self.add_slot(self.hash(at), at as usize);
            }
        }
    }

    /// Creates a shard with only these entries.
    fn only(&self, entries: &[u32]) -> Shard {
        let bytes = entries.iter().map(|&at| self.entry(at).end - at as usize);
        let mut shard = Shard {
            arena: Vec::with_capacity(class(bytes.sum())),
            entries: entries.len() as u32,
            ..Shard::default()
        };
        shard.make_slots(entries.len() + 1);
        for &at in entries {
            let entry = self.entry(at);
            let to = shard.arena.len();
            shard
                .arena
                .extend_from_slice(&self.arena[at as usize..entry.end]);
            shard.add_slot(hash(entry.key), to);
        }
        shard
    }
}

impl Bucket for Shard {
    fn weight(&self) -> usize {
        self.arena.len() - self.garbage as usize + 8 * self.entries as usize
    }

    fn memory(&self) -> usize {
        // Use the length, because the capacity differs between copies.
        class(self.arena.len()) + self.slots.len() * 4
    }
}

impl Shard {
    /// Moves all entries whose hash has this bit set to a new shard.
    fn split(&mut self, bit: u32) -> Shard {
        let goes = |&at: &u32| (self.hash(at) >> bit) & 1 == 1;
        let (given, kept): (Vec<u32>, Vec<u32>) = self.offsets().partition(goes);
        let given = self.only(&given);
        *self = self.only(&kept);
        given
    }

    fn absorb(&mut self, other: Shard) {
        for at in other.offsets() {
            let entry = other.entry(at);
            self.set(hash(entry.key), entry.key, entry.number);
        }
    }
}

/// Returns the slot at which the search for a hash begins. The slot depends on the higher bits,
/// because all hashes of a shard have the same lowest bits.
fn place(hash: u64, slots: usize) -> usize {
    (((hash >> 32) * slots as u64) >> 32) as usize
}

/// Returns further bits of the hash, which are stored in those bits of a slot that do not contain
/// the offset.
fn mark(hash: u64) -> u32 {
    hash as u32 & !OFFSET
}

fn entry(arena: &[u8], at: usize) -> Entry<'_> {
    let mut reader = Reader::from(arena, at);
    let number = reader.array().expect("an entry is whole");
    Entry {
        number: u32::from_le_bytes(number),
        key: reader.bytes().expect("an entry is whole"),
        end: reader.at(),
    }
}

fn push(arena: &mut Vec<u8>, key: &[u8], number: u32) {
    arena.extend_from_slice(&number.to_le_bytes());
    put_bytes(arena, key);
}
