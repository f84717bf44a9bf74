//! A packed frontier: everything that a plain frontier keeps in many keys, in one value.
//!
//! The rules of politeness are the same for both storages. They name keys, and [`Packed`] answers as those keys would:
//! a group is a few dozen bytes behind a hash table (`groups`), the queues are trees of group numbers (`order`), and
//! everything that is rare or small stays as it is (`small`).
//!
//! Every change is also appended to a log (`log`), which replicas apply. A group that changed is logged once per
//! command, as a whole.

mod asked;
pub mod both;
mod defrag;
pub mod either;
pub mod element;
mod ended;
mod executions;
mod groups;
mod keys;
pub mod known;
pub mod listed;
mod log;
mod moved;
pub mod moving;
mod name;
mod order;
mod pack;
mod record;
mod saved;
mod small;
mod spelling;
mod unknown;
mod unpack;
mod uris;

use crawlspace_host::keyspace::KeyError;
use crawlspace_host::text::Shown;

pub use ended::Ended;
pub use keys::{Packed, Stored, Value};
pub use moved::{Entering, Moving};
pub use name::Name;
pub use saved::ENVELOPE;

/// Describes a plain key that is where a packed frontier has a key or marker.
pub fn misplaced(key: &[u8]) -> String {
    format!(
        "key '{}' is a plain key beside a packed frontier; rename or delete it",
        Shown(key)
    )
}

/// Returns the error of commands that meet such a key.
pub fn mixed(key: &[u8]) -> KeyError {
    KeyError::Refused(format!("MIXED {}", misplaced(key)))
}
