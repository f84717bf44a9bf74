//! The memory in use, and its peak.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
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

thread_local! {
    // Of this thread: bytes that it has, and the most of them.
    static THREAD_HAD: Cell<isize> = const { Cell::new(0) };
    static THREAD_PEAK: Cell<isize> = const { Cell::new(0) };
}

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

    /// Returns the result of `work`, and the peak of bytes that this thread allocated meanwhile, regardless of other
    /// threads.
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
        // A thread that ends has no counts any more.
        let _ = THREAD_HAD.try_with(|had| {
            had.set(had.get() + bytes);
            let _ = THREAD_PEAK.try_with(|peak| peak.set(peak.get().max(had.get())));
        });
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
        Heap::less(layout.size());
        // SAFETY: what was promised to this is promised to that.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Heap::more(size);
        Heap::less(layout.size());
        // SAFETY: what was promised to this is promised to that.
        unsafe { System.realloc(memory, layout, size) }
    }
}
