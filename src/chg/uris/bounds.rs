//! Limits of the numbers and strings in the value of a group.

pub use crawlspace_compact::limits::chg::{ID_BYTES as EXECUTION_BYTES, MAX_WEIGHT, URI_BYTES};

/// Maximum length of a URI in its stored form, in bytes. In a packed frontier, the stored form of
/// an incompressible URI is one byte longer than the URI.
pub(super) const STORED_BYTES: usize = URI_BYTES + 1;

/// Maximum number in a change: the largest signed integer.
pub(super) const MAX_INTEGER: u64 = i64::MAX as u64;

/// Exclusive upper limit of numbers that increase by one for every URI or execution. Larger numbers
/// are refused, because only a forged value can contain them.
pub(super) const MAX_NUMBER: u64 = 1 << 56;

/// Maximum pass of an execution. Only a forged value can reach this maximum.
pub(super) const MAX_PASS: u128 = 1 << 120;
