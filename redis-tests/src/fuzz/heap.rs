//! How much memory is had, and how much was at most.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The allocator of the system, which counts. A test that wants figures makes it its own:
///
/// ```
/// #[global_allocator]
/// static HEAP: redis_tests::fuzz::Heap = redis_tests::fuzz::Heap;
/// ```
pub struct Heap;

static HAD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static ALL: AtomicU64 = AtomicU64::new(0);

impl Heap {
    /// Bytes that are had now; from now on the most of them is remembered.
    pub fn begin() -> usize {
        let had = HAD.load(Relaxed);
        PEAK.store(had, Relaxed);
        had
    }

    /// The most bytes that were had at a time since then.
    pub fn most() -> usize {
        PEAK.load(Relaxed)
    }

    /// All bytes that were ever had, those that were given back among them. It is a measure of work that is the same on
    /// every machine, however busy.
    pub fn all() -> u64 {
        ALL.load(Relaxed)
    }

    fn more(bytes: usize) {
        ALL.fetch_add(bytes as u64, Relaxed);
        let had = HAD.fetch_add(bytes, Relaxed) + bytes;
        PEAK.fetch_max(had, Relaxed);
    }
}

// SAFETY: all of it is done by the allocator of the system; counting does not touch the memory.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Heap::more(layout.size());
        // SAFETY: what was promised to this is promised to that.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Heap::more(layout.size());
        // SAFETY: what was promised to this is promised to that.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        HAD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: what was promised to this is promised to that.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Heap::more(size);
        HAD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: what was promised to this is promised to that.
        unsafe { System.realloc(memory, layout, size) }
    }
}
