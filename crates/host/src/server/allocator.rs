//! Uses the server's allocator as Rust's global allocator, so that `INFO memory` and `maxmemory` include the module's
//! memory.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ptr;

use super::api::raw;
use crate::aligned::{ALIGNED, block_of, part_of};

/// The server's allocator. No memory is available before the module is loaded.
///
/// The server counts every block, which takes longer than the work of its allocator. Therefore, the main
/// thread keeps a few small freed blocks for its next allocations.
#[derive(Debug)]
pub struct ServerMemory;

/// Sizes of small blocks are multiples of this number of bytes.
const STEP: usize = 16;
/// Number of different sizes of small blocks.
const SIZES: usize = 40;
/// Maximum number of kept blocks of each size: 205 KB in total.
const KEPT: u32 = 16;

/// A list of freed blocks of one size. Each block contains the address of the next block.
struct Spare {
    first: Cell<*mut *mut u8>,
    count: Cell<u32>,
}

thread_local! {
    /// A flag that is true if this thread keeps blocks, and the lists of kept blocks by size.
    static SPARE: (Cell<bool>, [Spare; SIZES]) = const {
        (Cell::new(false), [const { Spare { first: Cell::new(ptr::null_mut()), count: Cell::new(0) } }; SIZES])
    };
}

/// Makes this thread keep blocks. The thread must not end before the process.
pub(super) fn keep_blocks() {
    SPARE.with(|(keeps, _)| keeps.set(true));
}

/// Returns the index of the size of a small block in the lists, or `None` for other blocks.
#[inline]
fn small(layout: Layout) -> Option<usize> {
    let number = layout.size().wrapping_sub(1) / STEP;
    (number < SIZES && layout.align() <= ALIGNED).then_some(number)
}

/// Takes a block from the server.
///
/// # Safety
/// The size is not zero.
unsafe fn take(size: usize) -> *mut u8 {
    // SAFETY: the function table is filled once, when the module is loaded; callable from any thread.
    match unsafe { raw::RedisModule_Alloc } {
        // SAFETY: as above.
        Some(take) => unsafe { take(size).cast() },
        None => ptr::null_mut(),
    }
}

// SAFETY: the server returns a block of at least that size, aligned to `ALIGNED` bytes, which belongs to the caller
// until it is freed. A layout with a larger alignment gets a part of a larger block. A kept small block has no
// owner, and its size is the size for which its list is used.
unsafe impl GlobalAlloc for ServerMemory {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if let Some(number) = small(layout) {
            return SPARE.with(|(_, spare)| {
                let Spare { first, count } = &spare[number];
                let block = first.get();
                if block.is_null() {
                    // SAFETY: the size is not zero.
                    return unsafe { take((number + 1) * STEP) };
                }
                // SAFETY: `dealloc` wrote the address of the next block there.
                first.set(unsafe { block.read() }.cast());
                count.set(count.get() - 1);
                block.cast()
            });
        }
        let over = layout.align() > ALIGNED;
        // The sum of size and alignment does not overflow, because each is at most half of the
        // address space.
        let size = layout.size() + if over { layout.align() } else { 0 };
        // SAFETY: the size is not zero; the block has `align` spare bytes, so the aligned part fits.
        unsafe {
            let block = take(size);
            if over && !block.is_null() {
                part_of(block, layout.align())
            } else {
                block
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if let Some(number) = small(layout) {
            let is_kept = SPARE.with(|(keeps, spare)| {
                let Spare { first, count } = &spare[number];
                let keeps = keeps.get() && count.get() < KEPT;
                if keeps {
                    // SAFETY: the block has room for an address, is aligned, and has no owner any more.
                    unsafe { memory.cast::<*mut u8>().write(first.get().cast()) };
                    first.set(memory.cast());
                    count.set(count.get() + 1);
                }
                keeps
            });
            if is_kept {
                return;
            }
        }
        // SAFETY: `alloc` returned this memory for this layout, so the function table is filled.
        unsafe {
            let block = if layout.align() > ALIGNED {
                block_of(memory)
            } else {
                memory
            };
            if let Some(free) = raw::RedisModule_Free {
                free(block.cast());
            }
        }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: by contract, the size is valid for this alignment.
        let other = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if small(layout).is_some() && small(layout) == small(other) {
            return memory;
        }
        // SAFETY: by contract; both blocks have at least as many bytes as are copied.
        unsafe {
            let moved = self.alloc(other);
            if !moved.is_null() {
                ptr::copy_nonoverlapping(memory, moved, layout.size().min(size));
                self.dealloc(memory, layout);
            }
            moved
        }
    }
}
