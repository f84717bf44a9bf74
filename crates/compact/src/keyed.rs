//! Hashes of what clients send. Clients cannot choose bytes of one hash, because each process hashes differently.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The key of this process.
#[inline]
pub fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| RandomState::new().build_hasher().finish())
}

/// The hash of some bytes.
#[inline]
pub fn hash(bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, seed())
}

/// The hash of some bytes and of a number that tells them from equal ones of another kind.
#[inline]
pub fn hash_of(kind: u64, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, seed() ^ kind)
}
