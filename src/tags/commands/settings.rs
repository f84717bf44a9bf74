//! Settings of the family.

use crawlspace_host::server::config::{Number, Setting};

static INLINE_BYTES: Number = Number::new("tags-inline-bytes", 262_144, 0..=67_108_864);
static BATCH_MS: Number = Number::new("tags-batch-ms", 60_000, 1..=86_400_000);

/// All settings of the family.
pub static SETTINGS: &[Setting] = &[Setting::Number(&INLINE_BYTES), Setting::Number(&BATCH_MS)];

/// Maximum size of a batch filtered on the main thread, in bytes; larger batches go to another
/// thread.
pub fn tags_inline_bytes() -> usize {
    INLINE_BYTES.get() as usize
}

/// Maximum CPU time of a batch in the background, in milliseconds.
pub fn tags_batch_ms() -> u64 {
    BATCH_MS.get()
}
