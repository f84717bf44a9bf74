//! Uses the server's allocator as Rust's global allocator, so that `INFO memory` and `maxmemory` include the module's
//! memory.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr;

use super::api::raw;
use crate::aligned::{ALIGNED, block_of, part_of};

/// The server's allocator. No memory is available before the module is loaded.
#[derive(Debug)]
pub struct ServerMemory;

// SAFETY: the server returns a block of at least that size, aligned to `ALIGNED` bytes, which belongs to the caller
// until it is freed. A layout with a larger alignment gets a part of a larger block.
unsafe impl GlobalAlloc for ServerMemory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the function table is filled once, when the module is loaded.
        let Some(take) = (unsafe { raw::RedisModule_Alloc }) else {
            return ptr::null_mut();
        };
        let over = layout.align() > ALIGNED;
        // The sum does not overflow: both numbers are at most half of the address space.
        let size = layout.size() + if over { layout.align() } else { 0 };
        // SAFETY: callable from any thread; the block has `align` spare bytes, so the aligned part fits.
        unsafe {
            let block = take(size).cast::<u8>();
            if over && !block.is_null() {
                part_of(block, layout.align())
            } else {
                block
            }
        }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
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
}
