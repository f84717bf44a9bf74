//! The server's allocator as Rust's, so that `INFO memory` and `maxmemory` see what the module takes.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr;

use super::api::raw;
use crate::aligned::{ALIGNED, block_of, part_of};

/// Memory of the server. There is none before the module is loaded.
#[derive(Debug)]
pub struct ServerMemory;

// SAFETY: what the server gives is a block of at least that size, aligned to `ALIGNED` bytes, which is the caller's alone
// until it is freed. A layout of a larger alignment gets a part of a larger block.
unsafe impl GlobalAlloc for ServerMemory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the function table is filled once, when the module is loaded.
        let Some(take) = (unsafe { raw::RedisModule_Alloc }) else {
            return ptr::null_mut();
        };
        let over = layout.align() > ALIGNED;
        // Both are at most half of all addresses.
        let size = layout.size() + if over { layout.align() } else { 0 };
        // SAFETY: any thread may call it; the block is larger by what the part may begin later.
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
        // SAFETY: memory was given by `alloc` for this layout, so the function table is filled.
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
