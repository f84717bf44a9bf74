//! What operators do with the caches of a folder: look what there is, prove it whole, make room.
//!
//! None of this needs the archive, or hinders anybody who gets or builds an index meanwhile.

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
