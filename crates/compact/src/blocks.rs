//! Long lists in blocks. Growing such a list does not copy most of its elements.

use crate::linear::List;

/// Number of elements per block.
const BLOCK: usize = 1 << BITS;
const BITS: u32 = 8;

/// A list that grows and shrinks at its end.
pub struct Blocks<T> {
    /// Blocks. All blocks except the last are full, and no block is empty.
    blocks: Vec<Vec<T>>,
}

impl<T> Default for Blocks<T> {
    fn default() -> Self {
        Blocks { blocks: Vec::new() }
    }
}

impl<T: Clone> Clone for Blocks<T> {
    fn clone(&self) -> Self {
        let copy = |block: &Vec<T>| {
            let mut copy = Vec::with_capacity(block.capacity());
            copy.extend_from_slice(block);
            copy
        };
        let mut blocks = Vec::with_capacity(self.blocks.capacity());
        blocks.extend(self.blocks.iter().map(copy));
        Blocks { blocks }
    }
}

impl<T> List for Blocks<T> {
    type Item = T;

    fn len(&self) -> usize {
        match self.blocks.last() {
            Some(last) => (self.blocks.len() - 1) * BLOCK + last.len(),
            None => 0,
        }
    }

    #[inline]
    fn get(&self, at: usize) -> Option<&T> {
        self.blocks.get(at >> BITS)?.get(at % BLOCK)
    }

    #[inline]
    fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.blocks.get_mut(at >> BITS)?.get_mut(at % BLOCK)
    }

    fn push(&mut self, element: T) {
        match self.blocks.last_mut() {
            Some(last) if last.len() < BLOCK => {
                // While a list has a single block, that block grows.
                if last.len() == last.capacity() {
                    last.reserve_exact(last.len().min(BLOCK - last.len()));
                }
                last.push(element);
            }
            last => {
                let room = if last.is_none() { 1 } else { BLOCK };
                let mut block = Vec::with_capacity(room);
                block.push(element);
                self.blocks.push(block);
            }
        }
    }

    fn pop(&mut self) -> Option<T> {
        let last = self.blocks.last_mut()?;
        let element = last.pop();
        if last.is_empty() {
            self.blocks.pop();
        }
        element
    }

    fn memory(&self) -> usize {
        let elements = match self.blocks.last() {
            Some(last) => (self.blocks.len() - 1) * BLOCK + last.capacity(),
            None => 0,
        };
        self.blocks.capacity() * size_of::<Vec<T>>() + elements * size_of::<T>()
    }
}

impl<T> Blocks<T> {
    /// Iterates over the elements.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.blocks.iter().flatten()
    }

    /// Returns the number of allocations.
    pub fn pieces(&self) -> usize {
        self.blocks.len()
    }

    /// Returns the block whose first element is the element at this index, or `None` if no block begins
    /// there. Defragmentation moves the memory of the block.
    pub fn block_from(&mut self, at: usize) -> Option<&mut Vec<T>> {
        let is_first = at.is_multiple_of(BLOCK);
        self.blocks.get_mut(at >> BITS).filter(|_| is_first)
    }
}

/// An element that can store the link of a free list while it is unused.
pub trait Link: Default {
    /// Returns the field that stores the link.
    fn link(&mut self) -> &mut u32;
}

/// Placeholder for "no number".
pub const NONE: u32 = u32::MAX;

/// A slab: a list of numbered elements that reuses the numbers of removed elements.
pub struct Slab<T> {
    list: Blocks<T>,
    /// First free number.
    free: u32,
    taken: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab {
            list: Blocks::default(),
            free: NONE,
            taken: 0,
        }
    }
}

impl<T: Clone> Clone for Slab<T> {
    fn clone(&self) -> Self {
        Slab {
            list: self.list.clone(),
            ..*self
        }
    }
}

impl<T: Link> Slab<T> {
    /// Inserts an element, and returns its number, which is below `limit`.
    ///
    /// # Panics
    /// Panics if the slab is full.
    pub fn insert(&mut self, thing: T, limit: u32) -> u32 {
        let number = self.free;
        if let Some(place) = self.list.get_mut(number as usize) {
            self.free = *place.link();
            *place = thing;
            self.taken += 1;
            return number;
        }
        let number = self.list.len();
        assert!(number < limit as usize, "a packed value has too many parts");
        self.list.push(thing);
        self.taken += 1;
        number as u32
    }

    /// Removes the element with this number.
    pub fn remove(&mut self, number: u32) -> T {
        let mut vacant = T::default();
        *vacant.link() = self.free;
        let thing = std::mem::replace(self.get_mut(number), vacant);
        self.free = number;
        self.taken -= 1;
        if self.taken == 0 {
            *self = Slab::default();
        }
        thing
    }
}

impl<T> Slab<T> {
    /// Returns the element with this number, which must be in use.
    #[inline]
    pub fn get(&self, number: u32) -> &T {
        self.list.get(number as usize).expect("a number in use")
    }

    /// Returns a mutable reference to the element with this number, which must be in use.
    #[inline]
    pub fn get_mut(&mut self, number: u32) -> &mut T {
        self.list.get_mut(number as usize).expect("a number in use")
    }

    /// Returns the element with this number, in use or not, if it exists.
    pub fn peek(&self, number: u32) -> Option<&T> {
        self.list.get(number as usize)
    }

    /// Returns a mutable reference to the element with this number, in use or not, if it exists.
    pub fn peek_mut(&mut self, number: u32) -> Option<&mut T> {
        self.list.get_mut(number as usize)
    }

    /// Returns true if no element is in use.
    pub fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// Returns the number of elements in use.
    pub fn len(&self) -> usize {
        self.taken
    }

    /// Returns the exclusive upper bound of all numbers.
    pub fn end(&self) -> u32 {
        self.list.len() as u32
    }

    /// Returns the memory of the list in bytes, excluding data that its elements point to.
    pub fn memory(&self) -> usize {
        self.list.memory()
    }

    /// Returns the number of allocations.
    pub fn pieces(&self) -> usize {
        self.list.pieces()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Link for u32 {
        fn link(&mut self) -> &mut u32 {
            self
        }
    }

    #[test]
    fn list_returns_what_was_pushed() {
        let mut list = Blocks::default();
        for n in 0..1000_usize {
            assert_eq!(list.len(), n);
            list.push(n);
        }
        let copy = list.clone();
        assert_eq!(copy.memory(), list.memory());
        assert!(list.iter().copied().eq(0..1000));
        assert_eq!((list.get(999), list.get(1000)), (Some(&999), None));
        for n in (0..1000).rev() {
            assert_eq!(list.pop(), Some(n));
        }
        assert_eq!((list.pop(), list.len()), (None, 0));
        assert!(copy.iter().copied().eq(0..1000));
    }

    #[test]
    fn numbers_are_reused() {
        let mut slab = Slab::default();
        for n in 0..600 {
            assert_eq!(slab.insert(n, 1000), n);
        }
        for n in (0..600).step_by(3) {
            assert_eq!(slab.remove(n), n);
        }
        assert_eq!(slab.len(), 400);
        let again: std::collections::BTreeSet<_> =
            (0..200).map(|n| slab.insert(1000 + n, 1000)).collect();
        assert!(again.into_iter().eq((0..600).step_by(3)));
        assert_eq!(slab.insert(7, 1000), 600);
        assert_eq!(slab.end(), 601);
        assert_eq!(*slab.get(1), 1);
        for n in 0..=600 {
            slab.remove(n);
        }
        assert_eq!((slab.len(), slab.end(), slab.memory()), (0, 0, 0));
    }
}
