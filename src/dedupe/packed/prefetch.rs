//! Asking for memory before it is needed, so that many pieces of it are waited for at once.

/// Asks for the cache line that something begins in.
#[inline]
pub(super) fn line<T>(at: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint, which reads nothing and cannot fail.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(at).cast()) };
    }
    // Elsewhere there is no way to ask for it yet; look-ups are right all the same.
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
