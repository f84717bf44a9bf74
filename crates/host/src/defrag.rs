//! Active defragmentation: moves memory as the server's allocator advises.

use std::mem::{ManuallyDrop, size_of, take};

use crate::aligned::ALIGNED;

/// Moves allocations that the server's allocator wants to move.
pub struct Mover<'a> {
    ask: &'a mut dyn FnMut(*mut u8) -> *mut u8,
}

impl<'a> Mover<'a> {
    /// Creates a mover that calls `ask` for each allocation.
    ///
    /// # Safety
    /// The mover passes an allocation of the global allocator to `ask`. `ask` returns null if the allocation
    /// stays at its address. Otherwise, `ask` returns a new allocation of the same size and alignment with
    /// the same bytes, and frees the old allocation.
    pub unsafe fn new(ask: &'a mut dyn FnMut(*mut u8) -> *mut u8) -> Mover<'a> {
        Mover { ask }
    }

    /// Moves the buffer of a list, if the allocator wants to move it.
    pub fn list<T>(&mut self, list: &mut Vec<T>) {
        const { assert!(align_of::<T>() <= ALIGNED) } // a whole block of the server's allocator
        if list.capacity() == 0 || size_of::<T>() == 0 {
            return;
        }
        let mut old = ManuallyDrop::new(take(list));
        let (at, len, capacity) = (old.as_mut_ptr(), old.len(), old.capacity());
        let moved = (self.ask)(at.cast());
        let at = if moved.is_null() { at } else { moved.cast() };
        // SAFETY: pointer, length and capacity are those of the list itself, or of an equal buffer from the
        // same allocator; the old list is not dropped.
        *list = unsafe { Vec::from_raw_parts(at, len, capacity) };
    }

    /// Moves a boxed slice, if the allocator wants to move it.
    pub fn boxed<T>(&mut self, slice: &mut Box<[T]>) {
        let mut list = take(slice).into_vec();
        self.list(&mut list);
        *slice = list.into_boxed_slice();
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::{Layout, alloc, dealloc};

    use super::*;

    #[test]
    fn list_moves_with_all_its_elements() {
        let mut list: Vec<u32> = Vec::with_capacity(100);
        list.extend(0..60);
        let layout = Layout::array::<u32>(list.capacity()).unwrap();
        let before = list.as_ptr();
        let mut ask = |old: *mut u8| {
            // SAFETY: works like a server's allocator: it makes a new allocation of the same layout
            // with the bytes of the old one, and frees the old one.
            unsafe {
                let new = alloc(layout);
                new.copy_from_nonoverlapping(old, layout.size());
                dealloc(old, layout);
                new
            }
        };
        // SAFETY: `ask` fulfils the contract, as explained above.
        unsafe { Mover::new(&mut ask) }.list(&mut list);
        assert_ne!(list.as_ptr(), before);
        list.extend(60..1000);
        assert!(list.iter().copied().eq(0..1000));
        let mut stay = |_: *mut u8| std::ptr::null_mut();
        // SAFETY: the mover moves nothing.
        unsafe { Mover::new(&mut stay) }.list(&mut list);
        assert!(list.iter().copied().eq(0..1000));
        let mut boxed: Box<[u32]> = (0..9).collect();
        // SAFETY: nothing moves.
        unsafe { Mover::new(&mut stay) }.boxed(&mut boxed);
        assert!(boxed.iter().copied().eq(0..9));
    }
}
