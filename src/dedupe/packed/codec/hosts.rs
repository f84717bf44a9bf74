//! Interned strings that consist of the scheme and host of a URL. Each string is stored once under
//! a number.

use crawlspace_compact::blocks::Blocks;
use crawlspace_compact::interner::{Handles, Interner};
use crawlspace_compact::keyed::hash;

/// Maximum length of an interned string, in bytes.
pub const MAX_BYTES: usize = 255;

/// Maximum number of interned strings.
const MAX_HOSTS: u32 = 1 << 26;
/// Number of slots per allocation. The number is small, so that growing never copies much memory.
const BLOCK: usize = 128;
/// Number of strings that are interned at their first use. Above this number, a new string is
/// interned only if it is used a second time before its mark in `seen` is overwritten, because a
/// string that is used once takes more memory here than in the record.
const EAGER: u32 = 1024;
/// Number of slots for strings that were used once.
const SEEN: usize = 4096;

/// Interned strings, numbered from 1, each with a count of the records that use it. If no record
/// uses a number any more, the number is free and can be reused.
#[derive(Clone, Default)]
pub struct Hosts {
    /// Blocks of slots. A block stays empty until one of its numbers is loaded.
    blocks: Vec<Box<[Slot]>>,
    /// Number of allocated blocks, and a lower bound for the first block that is empty.
    present: usize,
    first_absent: usize,
    numbers: Interner<Blocks<Handles>>,
    /// The highest number assigned so far.
    highest: u32,
    /// The first free number below `highest`, or 0 if there is none. Each free slot contains the
    /// next free number.
    free: u32,
    used: u32,
    /// Parts of the hashes of strings that were used once. Empty until `EAGER` strings are
    /// interned.
    seen: Vec<u16>,
    /// Memory use of the strings, in bytes.
    bytes: usize,
}

#[derive(Clone, Default)]
struct Slot {
    text: Option<Box<[u8]>>,
    /// Number of records that use the string or, in a free slot, the next free number. Once the
    /// number of records has reached its maximum, it stays there.
    users: u32,
}

/// Returns the number of bytes that the allocator uses for a string.
fn allocated(text: &[u8]) -> usize {
    text.len().next_multiple_of(8).max(8)
}

impl Hosts {
    /// Returns the string with this number, or `None` if the number is free.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&[u8]> {
        self.slot(number)?.text.as_deref()
    }

    /// Returns the number of a string.
    pub fn find(&self, text: &[u8]) -> Option<u32> {
        self.numbers
            .find(hash(text), |number| self.get(number) == Some(text))
    }

    /// Returns the number of a string, and counts one more record that uses it. Interns a new
    /// string, unless the string is too long, or many strings are interned and this one is used for
    /// the first time.
    pub fn take(&mut self, text: &[u8]) -> Option<u32> {
        let number = match self.find(text) {
            Some(number) => number,
            None if text.len() > MAX_BYTES || self.is_first(text) => return None,
            None => {
                let number = self.next_number()?;
                self.insert(number, text)?
            }
        };
        self.hold(number);
        Some(number)
    }

    /// Returns true if more than `EAGER` strings are interned and this one was probably not used
    /// before.
    fn is_first(&mut self, text: &[u8]) -> bool {
        if self.used < EAGER {
            return false;
        }
        let hash = hash(text);
        self.seen.resize(SEEN, 0);
        let place = &mut self.seen[hash as usize % SEEN];
        // The tag and the index of the position use different bits. The tag is never 0, which marks an
        // empty position.
        let tag = (hash >> 48) as u16 | 1;
        std::mem::replace(place, tag) != tag
    }

    /// Counts one more record that uses the string.
    pub fn hold(&mut self, number: u32) {
        if let Some(slot) = self.slot_mut(number).filter(|slot| slot.text.is_some()) {
            slot.users = slot.users.saturating_add(1);
        }
    }

    /// Counts one record fewer that uses the string. Removes a string that no record uses any more.
    pub fn release(&mut self, number: u32) {
        let Some(slot) = self.slot_mut(number).filter(|slot| slot.text.is_some()) else {
            return;
        };
        if slot.users != u32::MAX {
            slot.users = slot.users.saturating_sub(1);
        }
        if slot.users == 0 {
            self.remove(number);
        }
    }

    /// Interns a string under its saved number. No record uses the string yet.
    ///
    /// # Errors
    /// The reason why the number or the string is invalid.
    pub fn restore(&mut self, number: u32, text: &[u8]) -> Result<(), String> {
        if number == 0 || number > MAX_HOSTS {
            return Err(format!("host number {number} is out of range"));
        }
        if self.get(number).is_some() || self.find(text).is_some() {
            return Err(format!("host {number} occurs twice"));
        }
        if text.len() > MAX_BYTES {
            return Err(format!("host {number} is {} bytes long", text.len()));
        }
        // `settle` frees the lower numbers that are not assigned.
        let block = (number as usize - 1) / BLOCK;
        if self.blocks.len() <= block {
            self.blocks.resize_with(block + 1, Box::default);
        }
        self.make(block);
        self.highest = self.highest.max(number);
        self.insert(number, text);
        Ok(())
    }

    /// Ends a series of calls of [`Hosts::restore`]: removes unused strings.
    pub fn settle(&mut self) {
        self.free = 0;
        self.first_absent = 0;
        for block in (0..self.blocks.len()).rev() {
            for number in self.numbers(block).rev() {
                match self.slot(number) {
                    Some(slot) if slot.text.is_none() => self.give_back(number),
                    Some(slot) if slot.users == 0 => self.remove(number),
                    _ => {}
                }
            }
        }
    }

    /// Returns the numbers of a block that are assigned or may be reused. Returns an empty range
    /// for an empty block.
    fn numbers(&self, block: usize) -> std::ops::Range<u32> {
        let slots = self.blocks.get(block).map_or(0, |slots| slots.len());
        let first = (block * BLOCK) as u32 + 1;
        first..(first + slots as u32).min(self.highest.max(first - 1) + 1)
    }

    /// Allocates the slots of a block, if necessary.
    fn make(&mut self, block: usize) {
        if let Some(slots) = self.blocks.get_mut(block).filter(|slots| slots.is_empty()) {
            *slots = vec![Slot::default(); BLOCK].into();
            self.present += 1;
        }
    }

    /// Returns the numbers and their strings, in ascending order of numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let numbers = (0..self.blocks.len()).flat_map(|block| self.numbers(block));
        numbers.filter_map(|number| Some((number, self.get(number)?)))
    }

    /// Returns how many strings are interned.
    #[cfg(test)]
    pub fn len(&self) -> u32 {
        self.used
    }

    /// Returns the memory use in bytes.
    pub fn memory(&self) -> usize {
        self.present * BLOCK * size_of::<Slot>()
            + self.blocks.capacity() * size_of::<Box<[Slot]>>()
            + self.seen.capacity() * size_of::<u16>()
            + self.numbers.memory()
            + self.bytes
    }

    fn slot(&self, number: u32) -> Option<&Slot> {
        let at = (number as usize).checked_sub(1)?;
        self.blocks.get(at / BLOCK)?.get(at % BLOCK)
    }

    fn slot_mut(&mut self, number: u32) -> Option<&mut Slot> {
        let at = (number as usize).checked_sub(1)?;
        let block = self.blocks.get_mut(at / BLOCK)?;
        block.get_mut(at % BLOCK)
    }

    fn add_slot(&mut self) {
        if (self.highest as usize).is_multiple_of(BLOCK) {
            self.blocks.push(Box::default());
            self.make(self.blocks.len() - 1);
        }
        self.highest += 1;
    }

    fn next_number(&mut self) -> Option<u32> {
        if self.free != 0 {
            let number = self.free;
            self.free = self.slot(number).map_or(0, |slot| slot.users);
            return Some(number);
        }
        while self.first_absent < self.blocks.len() {
            let block = self.first_absent;
            self.first_absent += 1;
            if self.blocks[block].is_empty() {
                self.make(block);
                let mut numbers = self.numbers(block);
                let first = numbers.next();
                numbers.rev().for_each(|number| self.give_back(number));
                return first;
            }
        }
        if self.highest == MAX_HOSTS {
            return None;
        }
        self.add_slot();
        Some(self.highest)
    }

    /// Adds a number to the free list.
    fn give_back(&mut self, number: u32) {
        let free = self.free;
        if let Some(slot) = self.slot_mut(number) {
            slot.text = None;
            slot.users = free;
            self.free = number;
        }
    }

    /// Assigns a string to a free number. If the string is too long, frees the number again.
    fn insert(&mut self, number: u32, text: &[u8]) -> Option<u32> {
        if text.len() > MAX_BYTES {
            self.give_back(number);
            return None;
        }
        self.numbers.insert(hash(text), number);
        self.used += 1;
        self.bytes += allocated(text);
        let slot = self.slot_mut(number)?;
        slot.text = Some(text.into());
        slot.users = 0;
        Some(number)
    }

    fn remove(&mut self, number: u32) {
        let Some(text) = self.slot_mut(number).and_then(|slot| slot.text.take()) else {
            return;
        };
        self.numbers.remove(hash(&text), number);
        self.used -= 1;
        self.bytes -= allocated(&text);
        self.give_back(number);
        if self.used == 0 {
            *self = Hosts::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn number_lives_while_it_is_used() {
        let mut hosts = Hosts::default();
        let a = hosts.take(b"https://a.example").unwrap();
        assert_eq!(hosts.take(b"https://a.example"), Some(a));
        let b = hosts.take(b"https://b.example").unwrap();
        hosts.release(a);
        assert_eq!(hosts.get(a), Some(&b"https://a.example"[..]));
        hosts.release(a);
        assert_eq!(hosts.get(a), None);
        assert_eq!(hosts.find(b"https://a.example"), None);
        assert_eq!(hosts.take(b"https://c.example"), Some(a));
        assert_eq!(hosts.find(b"https://b.example"), Some(b));
        hosts.release(a);
        hosts.release(b);
        assert_eq!(hosts.memory(), 0);
    }

    #[test]
    fn long_texts_get_no_number() {
        let mut hosts = Hosts::default();
        assert_eq!(hosts.take(&[b'x'; MAX_BYTES + 1]), None);
        assert_eq!(hosts.len(), 0);
        assert_eq!(hosts.take(&[b'x'; MAX_BYTES]), Some(1));
        assert_eq!(hosts.take(b""), Some(2));
    }

    #[test]
    fn single_text_among_many_gets_no_number() {
        let mut hosts = Hosts::default();
        let text = |n: u32| format!("https://{n}.example").into_bytes();
        for n in 0..EAGER {
            assert!(hosts.take(&text(n)).is_some());
        }
        assert_eq!(hosts.take(b"https://new.example"), None);
        assert_eq!(hosts.take(b"https://new.example"), Some(EAGER + 1));
        assert_eq!(hosts.take(&text(5)), Some(6));
    }

    #[test]
    fn numbers_are_restored() {
        let mut hosts = Hosts::default();
        for (number, text) in [(3, "c"), (1, "a"), (300, "x")] {
            hosts.restore(number, text.as_bytes()).unwrap();
        }
        for (number, text) in [
            (0, "z"),
            (3, "d"),
            (4, "a"),
            (u32::MAX, "y"),
            (MAX_HOSTS + 1, "y"),
        ] {
            assert!(hosts.restore(number, text.as_bytes()).is_err(), "{number}");
        }
        assert!(hosts.restore(7, &[b'x'; MAX_BYTES + 1]).is_err());
        hosts.hold(3);
        hosts.hold(300);
        hosts.settle();
        let left: Vec<_> = hosts.iter().collect();
        assert_eq!(left, [(3, &b"c"[..]), (300, &b"x"[..])]);
        let mut given: Vec<_> = (0..299)
            .map(|n| hosts.take(&[b'n', n as u8, (n >> 8) as u8]).unwrap())
            .collect();
        given.sort_unstable();
        let free: Vec<_> = (1..=301).filter(|n| ![3, 300].contains(n)).collect();
        assert_eq!(given, free);
    }

    #[test]
    fn sparse_numbers_take_little_memory() {
        let mut hosts = Hosts::default();
        for number in [1, 70_000, MAX_HOSTS] {
            hosts.restore(number, &number.to_le_bytes()).unwrap();
            hosts.hold(number);
        }
        hosts.settle();
        assert!(hosts.memory() < 10 << 20);
        assert_eq!(hosts.iter().count(), 3);
        let mut given: Vec<_> = (0..1000_u32)
            .map(|n| hosts.take(&[b'n', n as u8, (n >> 8) as u8]).unwrap())
            .collect();
        given.sort_unstable();
        given.dedup();
        assert_eq!(given.len(), 1000);
        assert!([1, 70_000, MAX_HOSTS].iter().all(|n| !given.contains(n)));
        assert!((2..500).all(|n| given.contains(&n)));
        hosts.release(MAX_HOSTS);
        assert_eq!(hosts.take(b"last"), Some(MAX_HOSTS));
    }

    proptest! {
        #[test]
        fn counts_equal_those_of_a_map(steps in proptest::collection::vec((any::<bool>(), 0..40u8), 0..300)) {
            let mut hosts = Hosts::default();
            let mut model: HashMap<u8, (u32, u32)> = HashMap::new();
            for (take, which) in steps {
                let text = vec![which; which as usize];
                if take {
                    let number = hosts.take(&text).unwrap();
                    let entry = model.entry(which).or_insert((number, 0));
                    prop_assert_eq!(entry.0, number);
                    entry.1 += 1;
                } else if let Some(entry) = model.get_mut(&which) {
                    hosts.release(entry.0);
                    entry.1 -= 1;
                    if entry.1 == 0 {
                        model.remove(&which);
                    }
                }
                prop_assert_eq!(hosts.len() as usize, model.len());
                for (which, (number, _)) in &model {
                    let text = vec![*which; *which as usize];
                    prop_assert_eq!(hosts.get(*number), Some(&text[..]));
                    prop_assert_eq!(hosts.find(&text), Some(*number));
                }
            }
            let bytes: usize = hosts.iter().map(|(_, text)| allocated(text)).sum();
            prop_assert_eq!(hosts.bytes, bytes);
        }
    }
}
