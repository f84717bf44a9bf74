//! Interned lists: names of tags and files, and sets of tags. Each list is stored once and has a
//! number.

use std::sync::Arc;

use super::TagId;
use super::pages::{COUNTS, Pages};
use crawlspace_compact::interner::{Handles, Interner};
use crawlspace_compact::keyed;
use crawlspace_compact::linear::List as _;

/// The element type of interned lists.
pub trait Part: Copy + PartialEq {
    fn hash(list: &[Self]) -> u64;
}

impl Part for u8 {
    fn hash(list: &[u8]) -> u64 {
        keyed::hash(list)
    }
}

impl Part for TagId {
    fn hash(list: &[TagId]) -> u64 {
        hash_numbers(list.iter().map(|tag| tag.0))
    }
}

/// Returns the hash of a list of numbers. The hash needs no key: clients cannot choose these
/// numbers, because the index assigns them.
pub fn hash_numbers(numbers: impl Iterator<Item = u32>) -> u64 {
    let mixed = numbers.fold(keyed::seed(), |hash, n| {
        (hash.rotate_left(23) ^ u64::from(n)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    });
    (mixed ^ (mixed >> 29))
        .wrapping_mul(0xbf58_476d_1ce4_e5b9)
        .rotate_left(32)
}

/// Maximum number of lists.
pub const MAX_NUMBER: u32 = u32::MAX - 1;

const PAGE: usize = 32;

/// Interned lists with numbers from 1. Reuses free numbers.
#[derive(Clone)]
pub struct Dictionary<T> {
    lookup: Interner<Pages<Handles>>,
    slots: Pages<[Slot<T>; PAGE]>,
    /// The highest number assigned so far.
    highest: u32,
    /// The first number of the free list, or 0 if the list is empty. Each free slot contains the
    /// next free number.
    free: u32,
    used: u32,
    /// Memory of the lists in bytes.
    bytes: usize,
}

#[derive(Clone)]
struct Slot<T> {
    list: Option<Arc<[T]>>,
    /// Number of holders of the list. In a free slot: the next free number.
    holders: u64,
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Slot {
            list: None,
            holders: 0,
        }
    }
}

impl<T> Default for Dictionary<T> {
    fn default() -> Self {
        Dictionary {
            lookup: Interner::default(),
            slots: Pages::default(),
            highest: 0,
            free: 0,
            used: 0,
            bytes: 0,
        }
    }
}

/// Returns the size in bytes of a list of this length.
fn size<T>(len: usize) -> usize {
    (COUNTS + len * size_of::<T>()).next_multiple_of(8)
}

impl<T: Part> Dictionary<T> {
    pub fn find(&self, list: &[T]) -> Option<u32> {
        let hash = T::hash(list);
        let is = |number| self.get(number) == list;
        self.lookup.find(hash, is)
    }

    /// Returns the list with this number. Returns an empty list if no list has the number.
    pub fn get(&self, number: u32) -> &[T] {
        let list = self.slot(number).and_then(|slot| slot.list.as_deref());
        list.unwrap_or_default()
    }

    /// Returns the number of holders of a list.
    pub fn holders(&self, number: u32) -> u64 {
        self.slot(number).map_or(0, |slot| slot.holders)
    }

    /// Returns the number of a list. Stores a new list without a holder.
    pub fn insert(&mut self, list: &[T]) -> u32 {
        if let Some(number) = self.find(list) {
            return number;
        }
        let number = match self.free {
            0 => {
                if (self.highest as usize).is_multiple_of(PAGE) {
                    self.slots.push(Default::default());
                }
                self.highest += 1;
                self.highest
            }
            free => {
                self.free = self.holders(free) as u32;
                free
            }
        };
        *self.slot_mut(number) = Slot {
            list: Some(list.into()),
            holders: 0,
        };
        let hash = T::hash(list);
        self.lookup.insert(hash, number);
        self.used += 1;
        self.bytes += size::<T>(list.len());
        number
    }

    pub fn set_holders(&mut self, number: u32, holders: u64) {
        if self.holders(number) != holders {
            self.slot_mut(number).holders = holders;
        }
    }

    pub fn hold(&mut self, number: u32) {
        self.slot_mut(number).holders += 1;
    }

    /// Removes one holder of a list. Returns the list if the removed holder was the last one.
    pub fn release(&mut self, number: u32) -> Option<Arc<[T]>> {
        let slot = self.slot_mut(number);
        slot.holders = slot.holders.saturating_sub(1);
        if slot.holders > 0 {
            return None;
        }
        self.remove(number)
    }

    pub fn remove(&mut self, number: u32) -> Option<Arc<[T]>> {
        let free = self.free;
        let slot = self.slot_mut(number);
        let list = slot.list.take()?;
        slot.holders = free.into();
        self.free = number;
        let hash = T::hash(&list);
        self.lookup.remove(hash, number);
        self.used -= 1;
        self.bytes -= size::<T>(list.len());
        if self.used == 0 {
            *self = Dictionary::default();
        }
        Some(list)
    }

    /// Returns the highest number that may have a list.
    pub fn highest(&self) -> u32 {
        self.highest
    }

    /// Returns the number of lists.
    pub fn len(&self) -> u32 {
        self.used
    }

    pub fn memory(&self) -> usize {
        self.lookup.memory() + self.slots.memory() + self.bytes
    }

    pub fn pieces(&self) -> usize {
        self.lookup.pieces() + self.slots.len() + self.used as usize
    }

    /// Checks the invariants. Returns all numbers that have a list.
    #[cfg(test)]
    pub fn verify(&self) -> std::collections::BTreeSet<u32> {
        self.lookup.verify();
        let (mut used, mut bytes) = (std::collections::BTreeSet::new(), 0);
        for number in 1..=self.highest {
            let list = self.get(number);
            if !list.is_empty() {
                assert_eq!(self.find(list), Some(number));
                bytes += size::<T>(list.len());
                used.insert(number);
            }
        }
        assert_eq!((used.len(), bytes), (self.used as usize, self.bytes));
        let (mut free, mut frees) = (self.free, 0);
        while free > 0 {
            assert!(!used.contains(&free));
            (free, frees) = (self.holders(free) as u32, frees + 1);
        }
        assert_eq!(used.len() + frees, self.highest as usize);
        used
    }

    fn slot(&self, number: u32) -> Option<&Slot<T>> {
        let at = (number as usize).checked_sub(1)?;
        self.slots.get(at / PAGE).map(|page| &page[at % PAGE])
    }

    fn slot_mut(&mut self, number: u32) -> &mut Slot<T> {
        let at = number as usize - 1;
        let page = self.slots.get_mut(at / PAGE);
        &mut page.expect("a page for each number")[at % PAGE]
    }
}
