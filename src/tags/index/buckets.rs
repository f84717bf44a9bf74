//! Linear hashing: a hash table in small pieces that grows and shrinks by one piece at a time.
//!
//! There is never a long pause for growth, and what is changed while a copy is alive is one piece.
//! The piece of a hash is told by its lowest bits, so that the order of hashes read backwards
//! (lowest bit first) goes through all pieces in turn however many there are: that is the order of
//! [`Buckets::at`], and what makes a walk over a changing table miss nothing.

use super::pages::Pages;
use crawlspace_compact::keyed::seed;

/// The hash of a list of numbers that we gave ourselves.
pub fn hash_numbers(numbers: impl Iterator<Item = u32>) -> u64 {
    let mixed = numbers.fold(seed(), |hash, n| {
        (hash.rotate_left(23) ^ u64::from(n)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    });
    (mixed ^ (mixed >> 29))
        .wrapping_mul(0xbf58_476d_1ce4_e5b9)
        .rotate_left(32)
}

/// A piece of a hash table.
pub trait Bucket: Clone + Default {
    /// Mean weight at which the table grows.
    const FULL: usize;
    fn weight(&self) -> usize;
    /// Bytes that it points to.
    fn memory(&self) -> usize;
    /// Gives away all with that bit in their hashes.
    fn split(&mut self, bit: u32) -> Self;
    fn absorb(&mut self, other: Self);
}

#[derive(Clone)]
pub struct Buckets<B> {
    buckets: Pages<B>,
    weight: usize,
    memory: usize,
}

impl<B> Default for Buckets<B> {
    fn default() -> Self {
        Buckets {
            buckets: Pages::default(),
            weight: 0,
            memory: 0,
        }
    }
}

impl<B: Bucket> Buckets<B> {
    /// The bucket where something of that hash is, if it is.
    pub fn get(&self, hash: u64) -> Option<&B> {
        self.buckets.get(address(hash, self.buckets.len()))
    }

    /// Changes the bucket where something of that hash is or will be.
    pub fn change<R>(&mut self, hash: u64, change: impl FnOnce(&mut B) -> R) -> R {
        if self.buckets.len() == 0 {
            self.buckets.push(B::default());
        }
        let at = address(hash, self.buckets.len());
        let changed = self.count(at, change);
        self.fit();
        changed
    }

    /// The bucket at a place of the walk, which begins at 0; and where the next one begins.
    pub fn at(&self, cursor: u64) -> Option<(&B, Option<u64>)> {
        let len = self.buckets.len();
        let at = address(cursor.reverse_bits(), len);
        let bucket = self.buckets.get(at)?;
        let half = len.next_power_of_two() / 2;
        let mut depth = len.next_power_of_two().trailing_zeros();
        if at < half && at + half >= len {
            depth -= 1;
        }
        let next = match depth {
            0 => None,
            _ => ((cursor >> (64 - depth)) + 1).checked_shl(64 - depth),
        };
        // Past the last one the sum has a bit too many, which the shift drops.
        Some((bucket, next.filter(|&next| next > 0)))
    }

    /// The bucket of that number, unless a copy of the table has it too. Its weight must stay.
    pub fn own_mut(&mut self, at: usize) -> Option<&mut B> {
        self.buckets.own_mut(at)
    }

    pub fn iter(&self) -> impl Iterator<Item = &B> {
        (0..self.buckets.len()).filter_map(|at| self.buckets.get(at))
    }

    pub fn memory(&self) -> usize {
        self.memory + self.buckets.memory()
    }

    pub fn pieces(&self) -> usize {
        self.buckets.len()
    }

    #[cfg(test)]
    pub fn verify(&self) {
        assert_eq!(self.weight, self.iter().map(B::weight).sum::<usize>());
        assert_eq!(self.memory, self.iter().map(B::memory).sum::<usize>());
        let buckets = self.buckets.len();
        assert!(buckets < 2 || self.weight >= B::FULL * (buckets - 1) / 4);
    }

    fn count<R>(&mut self, at: usize, change: impl FnOnce(&mut B) -> R) -> R {
        let bucket = self.buckets.get_mut(at).expect("a bucket for each hash");
        let (weight, memory) = (bucket.weight(), bucket.memory());
        let changed = change(bucket);
        self.weight = self.weight - weight + bucket.weight();
        self.memory = self.memory - memory + bucket.memory();
        changed
    }

    fn fit(&mut self) {
        // Two, so that the table catches up; one change never adds more than about one bucket.
        for _ in 0..2 {
            let len = self.buckets.len();
            if self.weight > len * B::FULL {
                let level = len.ilog2();
                let new = self.count(len - (1 << level), |bucket| bucket.split(level));
                self.weight += new.weight();
                self.memory += new.memory();
                self.buckets.push(new);
            } else if len > 1 && self.weight < len * B::FULL / 3 {
                let Some(last) = self.buckets.pop() else {
                    return;
                };
                self.weight -= last.weight();
                self.memory -= last.memory();
                let len = len - 1;
                self.count(len - (1 << len.ilog2()), |bucket| bucket.absorb(last));
            } else {
                break;
            }
        }
        if self.weight == 0 && self.buckets.len() == 1 {
            *self = Buckets::default();
        }
    }
}

/// The place of a hash in a table of so many buckets.
fn address(hash: u64, len: usize) -> usize {
    let mask = len.next_power_of_two() - 1;
    let at = hash as usize & mask;
    if at < len { at } else { at & (mask >> 1) }
}

/// Numbers of things that are kept elsewhere, from 1 on, each with 32 bits of the hash of the thing.
#[derive(Clone, Default)]
pub struct Handles {
    /// Searched from the place of a hash on, to the first with number 0.
    slots: Vec<(u32, u32)>,
    len: usize,
}

impl Handles {
    pub fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        let hash = hash as u32;
        let found = self.slot(hash, |&(of, number)| of == hash && is(number))?;
        Some(self.slots[found].1)
    }

    /// Adds a number that is not there.
    pub fn insert(&mut self, hash: u64, number: u32) {
        // One slot of four stays empty.
        if (self.len + 1) * 4 > self.slots.len() * 3 {
            self.make_slots(self.len + 1);
        }
        self.put(hash as u32, number);
    }

    pub fn remove(&mut self, hash: u64, number: u32) {
        let Some(mut gap) = self.slot(hash as u32, |&(_, n)| n == number) else {
            return;
        };
        self.len -= 1;
        // Those that were not put into their first places because of it move up.
        let slots = self.slots.len();
        let mut at = gap;
        loop {
            at = (at + 1) % slots;
            let (hash, number) = self.slots[at];
            if number == 0 {
                break;
            }
            let first = place(hash, slots);
            if (at + slots - first) % slots >= (at + slots - gap) % slots {
                self.slots[gap] = (hash, number);
                gap = at;
            }
        }
        self.slots[gap] = (0, 0);
    }

    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let numbers = self.slots.iter().map(|&(_, number)| number);
        numbers.filter(|&number| number > 0)
    }

    fn slot(&self, hash: u32, is: impl Fn(&(u32, u32)) -> bool) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut at = place(hash, self.slots.len());
        loop {
            let slot = &self.slots[at];
            if slot.1 == 0 {
                return None;
            }
            if is(slot) {
                return Some(at);
            }
            at += 1;
            if at == self.slots.len() {
                at = 0;
            }
        }
    }

    fn put(&mut self, hash: u32, number: u32) {
        let mut at = place(hash, self.slots.len());
        while self.slots[at].1 > 0 {
            at += 1;
            if at == self.slots.len() {
                at = 0;
            }
        }
        self.slots[at] = (hash, number);
        self.len += 1;
    }

    /// Makes slots that have some room beyond so many numbers, and fills those that there are in.
    fn make_slots(&mut self, numbers: usize) {
        let slots = (numbers * 3 / 2).next_multiple_of(4);
        let old = std::mem::replace(&mut self.slots, vec![(0, 0); slots]);
        self.len = 0;
        for (hash, number) in old {
            if number > 0 {
                self.put(hash, number);
            }
        }
    }
}

/// The slot where the search for a hash begins. All hashes of a bucket have their lowest bits in common.
fn place(hash: u32, slots: usize) -> usize {
    let mixed = hash.wrapping_mul(0x9e37_79b9);
    ((u64::from(mixed) * slots as u64) >> 32) as usize
}

impl Bucket for Handles {
    const FULL: usize = 128;

    fn weight(&self) -> usize {
        self.len
    }

    fn memory(&self) -> usize {
        self.slots.len() * size_of::<(u32, u32)>()
    }

    fn split(&mut self, bit: u32) -> Self {
        let mut given = Handles::default();
        let mut kept = Handles::default();
        for (hash, number) in std::mem::take(&mut self.slots) {
            if number > 0 {
                let to = if (hash >> bit) & 1 == 1 {
                    &mut given
                } else {
                    &mut kept
                };
                to.insert(hash.into(), number);
            }
        }
        *self = kept;
        given
    }

    fn absorb(&mut self, other: Self) {
        for (hash, number) in other.slots {
            if number > 0 {
                self.insert(hash.into(), number);
            }
        }
    }
}
