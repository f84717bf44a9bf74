//! Keyed hashes of client input. Each process uses a random key, so clients cannot choose inputs that
//! collide.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Returns the hash key of this process.
#[inline]
pub fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| RandomState::new().build_hasher().finish())
}

/// Returns the hash of some bytes.
#[inline]
pub fn hash(bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, seed())
}

/// Returns the hash of some bytes with another key.
#[inline]
pub fn hash_with(seed: u64, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, seed)
}

/// Returns the hash of bytes that belong to a kind of data. Equal bytes of different kinds have
/// different hashes.
#[inline]
pub fn hash_of(kind: u64, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, seed() ^ kind)
}
