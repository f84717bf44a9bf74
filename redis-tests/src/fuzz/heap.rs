//! Counts the memory in use and its peak.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The system allocator with counters. Tests that need these counters install it:
///
/// ```
/// #[global_allocator]
/// static HEAP: redis_tests::fuzz::Heap = redis_tests::fuzz::Heap;
/// ```
pub struct Heap;

static HAD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static ALL: AtomicU64 = AtomicU64::new(0);

thread_local! {
    // Counters of this thread: number of bytes in use, and its peak.
    static THREAD_HAD: Cell<isize> = const { Cell::new(0) };
    static THREAD_PEAK: Cell<isize> = const { Cell::new(0) };
}

impl Heap {
    /// Returns the number of bytes in use, and resets the peak to it.
    pub fn begin() -> usize {
        let had = HAD.load(Relaxed);
        PEAK.store(had, Relaxed);
        had
    }

    /// Returns the peak number of bytes in use since [`Heap::begin`].
    pub fn most() -> usize {
        PEAK.load(Relaxed)
    }

    /// Returns the total number of bytes ever allocated, including freed ones. This measures work
    /// independently of the speed and load of the machine.
    pub fn all() -> u64 {
        ALL.load(Relaxed)
    }

    /// Runs `work`. Returns the result of `work`, and the peak number of bytes in use on this
    /// thread during `work`. Ignores other threads.
    pub fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
        let before = THREAD_HAD.get();
        THREAD_PEAK.set(before);
        let done = work();
        (done, THREAD_PEAK.get().saturating_sub(before) as usize)
    }

    fn more(bytes: usize) {
        ALL.fetch_add(bytes as u64, Relaxed);
        let had = HAD.fetch_add(bytes, Relaxed) + bytes;
        PEAK.fetch_max(had, Relaxed);
        Heap::of_thread(bytes as isize);
    }

    fn less(bytes: usize) {
        HAD.fetch_sub(bytes, Relaxed);
        Heap::of_thread(-(bytes as isize));
    }

    fn of_thread(bytes: isize) {
        // A thread that is ending no longer has counters.
        let _ = THREAD_HAD.try_with(|had| {
            had.set(had.get() + bytes);
            let _ = THREAD_PEAK.try_with(|peak| peak.set(peak.get().max(had.get())));
        });
    }
}

// SAFETY: every call is forwarded to the system allocator; counting does not touch the memory.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Heap::more(layout.size());
        // SAFETY: the caller upholds the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Heap::more(layout.size());
        // SAFETY: the caller upholds the same contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        Heap::less(layout.size());
        // SAFETY: the caller upholds the same contract.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Heap::more(size);
        Heap::less(layout.size());
        // SAFETY: the caller upholds the same contract.
        unsafe { System.realloc(memory, layout, size) }
    }
}
