//! A value as bytes.

use super::Uris;

/// How many bytes a chunk has, more or less.
pub const CHUNK_BYTES: usize = 1 << 20;

/// Whether a chunk is whole.
pub(super) fn check(chunk: &[u8]) -> Result<(), String> {
    let _ = chunk;
    Err("not yet".to_string())
}

impl Uris {
    /// The value in chunks of at most `chunk_bytes`, more or less; each can be loaded by itself.
    pub fn encode(&self, chunk_bytes: usize, each: &mut dyn FnMut(&[u8])) {
        let _ = (chunk_bytes, each);
    }

    /// Adds what a chunk holds; how many URIs it gave. Nothing changes on an error.
    pub fn load(&mut self, chunk: &[u8]) -> Result<u64, String> {
        check(chunk).map(|()| 0)
    }
}
