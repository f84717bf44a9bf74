//! Keys of any bytes, each with a number, packed without a pointer or allocation of their own.
//!
//! A shard keeps its entries one after the other in one piece of memory: the number (4 bytes, lowest
//! first), the length of the key (1 to 3 bytes, 7 bits each, lowest first), the key. A hash table of
//! offsets finds them. What was removed stays until a quarter of the shard is of that sort.

use hashbrown::HashTable;

use super::buckets::{hash_bytes, Bucket, Buckets};

#[derive(Clone, Default)]
pub struct Table {
    shards: Buckets<Shard>,
}

#[derive(Clone, Default)]
struct Shard {
    offsets: HashTable<u32>,
    arena: Vec<u8>,
    garbage: usize,
}

/// An entry's place.
struct Entry<'a> {
    number: u32,
    key: &'a [u8],
    end: usize,
}

impl Table {
    /// The number of a key.
    pub fn get(&self, key: &[u8]) -> Option<u32> {
        let hash = hash_bytes(key);
        let shard = self.shards.get(hash)?;
        shard.find(hash, key).map(|at| shard.entry(at).number)
    }

    /// Sets the number of a key.
    pub fn set(&mut self, key: &[u8], number: u32) {
        let hash = hash_bytes(key);
        self.shards
            .change(hash, |shard| shard.set(hash, key, number));
    }

    /// Removes a key, which is there.
    pub fn remove(&mut self, key: &[u8]) {
        let hash = hash_bytes(key);
        self.shards.change(hash, |shard| shard.remove(hash, key));
    }

    /// All keys and numbers.
    pub fn each(&self, each: &mut dyn FnMut(&[u8], u32)) {
        for shard in self.shards.iter() {
            for &at in &shard.offsets {
                let entry = shard.entry(at);
                each(entry.key, entry.number);
            }
        }
    }

    /// Gives about `count` keys from `cursor` on; where to go on, 0 at the end. Keys stay where they
    /// are in the order of this walk, whatever happens to others.
    pub fn scan(&self, mut cursor: u64, count: usize, each: &mut dyn FnMut(&[u8], u32)) -> u64 {
        let mut given = 0;
        // Shards may be empty, but few of them are.
        for _ in 0..count.saturating_add(16) {
            let Some((shard, next)) = self.shards.at(cursor) else {
                return 0;
            };
            let place = |at: &u32| (hash_bytes(shard.entry(*at).key).reverse_bits(), *at);
            let mut entries: Vec<_> = shard.offsets.iter().map(place).collect();
            entries.retain(|&(place, _)| place >= cursor);
            entries.sort_unstable();
            for (i, &(place, at)) in entries.iter().enumerate() {
                // Keys of one hash are given together, because a cursor cannot tell them apart.
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

    #[cfg(test)]
    pub fn verify(&self) {
        self.shards.verify();
        for shard in self.shards.iter() {
            let bytes = |&at: &u32| shard.entry(at).end - at as usize;
            let live: usize = shard.offsets.iter().map(bytes).sum();
            assert_eq!(live + shard.garbage, shard.arena.len());
        }
    }

    pub fn pieces(&self) -> usize {
        2 * self.shards.pieces()
    }
}

impl Shard {
    fn entry(&self, at: u32) -> Entry<'_> {
        entry(&self.arena, at as usize)
    }

    fn hash(&self, at: u32) -> u64 {
        hash_bytes(self.entry(at).key)
    }

    fn find(&self, hash: u64, key: &[u8]) -> Option<u32> {
        let is = |&at: &u32| self.entry(at).key == key;
        self.offsets.find(inner(hash), is).copied()
    }

    fn set(&mut self, hash: u64, key: &[u8], number: u32) {
        if let Some(at) = self.find(hash, key) {
            self.arena[at as usize..][..4].copy_from_slice(&number.to_le_bytes());
            return;
        }
        let at = self.arena.len() as u32;
        let need = self.arena.len() + 7 + key.len();
        if need > self.arena.capacity() {
            let exactly = class(need) - self.arena.len();
            self.arena.reserve_exact(exactly);
        }
        push(&mut self.arena, key, number);
        let Shard { offsets, arena, .. } = self;
        let rehash = |&at: &u32| inner(hash_bytes(entry(arena, at as usize).key));
        offsets.insert_unique(inner(hash), at, rehash);
    }

    fn remove(&mut self, hash: u64, key: &[u8]) {
        let Shard { offsets, arena, .. } = self;
        let is = |&at: &u32| entry(arena, at as usize).key == key;
        let Ok(found) = offsets.find_entry(inner(hash), is) else {
            return;
        };
        let (at, _) = found.remove();
        self.garbage += self.entry(at).end - at as usize;
        if self.garbage > 256 && self.garbage > self.arena.len() / 4 {
            let all: Vec<_> = self.offsets.iter().copied().collect();
            *self = self.only(&all);
        }
    }

    /// A shard with these entries alone.
    fn only(&self, entries: &[u32]) -> Shard {
        let bytes = entries.iter().map(|&at| self.entry(at).end - at as usize);
        let mut shard = Shard {
            offsets: HashTable::with_capacity(entries.len()),
            arena: Vec::with_capacity(class(bytes.sum())),
            garbage: 0,
        };
        for &at in entries {
            let entry = self.entry(at);
            let to = shard.arena.len() as u32;
            let bytes = &self.arena[at as usize..entry.end];
            shard.arena.extend_from_slice(bytes);
            let Shard { offsets, arena, .. } = &mut shard;
            let rehash = |&at: &u32| inner(hash_bytes(self::entry(arena, at as usize).key));
            offsets.insert_unique(inner(hash_bytes(entry.key)), to, rehash);
        }
        shard
    }
}

impl Bucket for Shard {
    /// A copy of a shard of twice this size takes about 2 us, a split 20 us.
    const FULL: usize = 16 << 10;

    fn weight(&self) -> usize {
        self.arena.len() - self.garbage + 8 * self.offsets.len()
    }

    fn memory(&self) -> usize {
        // Not the capacity, which differs in copies.
        class(self.arena.len()) + self.offsets.allocation_size()
    }

    fn split(&mut self, bit: u32) -> Shard {
        let goes = |&at: &u32| (self.hash(at) >> bit) & 1 == 1;
        let (given, kept): (Vec<u32>, Vec<u32>) = self.offsets.iter().copied().partition(goes);
        let given = self.only(&given);
        *self = self.only(&kept);
        given
    }

    fn absorb(&mut self, other: Shard) {
        for &at in &other.offsets {
            let entry = other.entry(at);
            self.set(hash_bytes(entry.key), entry.key, entry.number);
        }
    }
}

/// Within a shard the low bits of all hashes are alike, so that other ones have to come first.
fn inner(hash: u64) -> u64 {
    hash.rotate_left(32)
}

fn entry(arena: &[u8], at: usize) -> Entry<'_> {
    let number = u32::from_le_bytes([arena[at], arena[at + 1], arena[at + 2], arena[at + 3]]);
    let mut start = at + 4;
    let mut len = 0;
    let mut shift = 0;
    loop {
        let byte = arena[start];
        start += 1;
        len |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            break;
        }
    }
    let end = start + len;
    Entry {
        number,
        key: &arena[start..end],
        end,
    }
}

fn push(arena: &mut Vec<u8>, key: &[u8], number: u32) {
    arena.extend_from_slice(&number.to_le_bytes());
    let mut len = key.len();
    while len >= 0x80 {
        arena.push(len as u8 | 0x80);
        len >>= 7;
    }
    arena.push(len as u8);
    arena.extend_from_slice(key);
}

/// The size that an allocator gives for that many bytes: four sizes from one power of two to the next
/// (jemalloc's classes), so that none of it is wasted.
fn class(bytes: usize) -> usize {
    if bytes <= 128 {
        return bytes.next_multiple_of(16);
    }
    let step = 1 << ((bytes - 1).ilog2() - 2);
    bytes.next_multiple_of(step)
}
