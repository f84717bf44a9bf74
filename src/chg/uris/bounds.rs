//! Limits of the numbers and texts in the value of a group.

pub use crawlspace_compact::limits::chg::{ID_BYTES as EXECUTION_BYTES, MAX_WEIGHT, URI_BYTES};

/// Maximum length of a URI as it is stored, in bytes. A packed frontier stores an incompressible URI in one byte more
/// than it has.
pub(super) const STORED_BYTES: usize = URI_BYTES + 1;

/// Maximum number in a change: the largest signed integer.
pub(super) const MAX_INTEGER: u64 = i64::MAX as u64;

/// Exclusive limit of numbers that grow by one for every URI or execution; larger ones are refused. Only a value
/// written by hand can reach it.
pub(super) const MAX_NUMBER: u64 = 1 << 56;

/// Maximum pass of an execution. Only a value written by hand can reach it.
pub(super) const MAX_PASS: u128 = 1 << 120;
