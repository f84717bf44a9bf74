//! Operations on the caches of a folder: list and verify entries, make room, copy entries.
//!
//! These operations do not need the archive, and do not block requests for indexes.

mod collect;
mod copy;
mod list;
mod scan;
#[cfg(test)]
mod tests;
mod verify;

pub use self::collect::{Collected, Reason, Removed, collect};
pub use self::copy::copy;
pub use self::list::{EntryState, Listed, list};
pub use self::scan::{LAYERS, Layer};
pub use self::verify::{Damage, Verified, verify};
