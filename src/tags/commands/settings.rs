//! Settings of the family.

use crawlspace_host::server::config::{Number, Setting};

static INLINE_BYTES: Number = Number::new("tags-inline-bytes", 262_144, 0..=67_108_864);
static BATCH_MS: Number = Number::new("tags-batch-ms", 60_000, 1..=86_400_000);

/// All settings of the family.
pub static SETTINGS: &[Setting] = &[Setting::Number(&INLINE_BYTES), Setting::Number(&BATCH_MS)];

/// Maximum size in bytes of a batch that is filtered on the main thread. Larger batches run on
/// another thread.
pub fn tags_inline_bytes() -> usize {
    INLINE_BYTES.get() as usize
}

/// Maximum CPU time of a batch in the background, in milliseconds.
pub fn tags_batch_ms() -> u64 {
    BATCH_MS.get()
}
