//! Prefetching of memory, so that many cache misses overlap.

/// Prefetches the cache line at the beginning of a value.
#[inline]
pub(crate) fn line<T>(at: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint, which reads nothing and cannot fail.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(at).cast()) };
    }
    // Prefetching is not implemented for this architecture, so lookups are slower.
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
