//! A packed frontier: one value with all data that a plain frontier stores in many keys.
//!
//! The rules of politeness are the same for both storages. The rules access data through the names of keys,
//! and [`Packed`] implements these keys. A group is a block of a few dozen bytes in a hash table (`groups`).
//! The queues are trees of group numbers (`order`). Keys that are small or rarely used keep their plain form
//! (`small`).
//!
//! Every change is also appended to a log (`log`), which replicas apply. A changed group is logged as a whole,
//! once per command.

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
pub use keys::{Packed, Value};
pub use moved::{Entering, Moving};
pub use name::Name;
pub use saved::ENVELOPE;
pub use unknown::{Unknown, WrongText};

/// Returns the description of a plain key that has the name of a key or marker of a packed
/// frontier.
pub fn misplaced(key: &[u8]) -> String {
    format!(
        "key '{}' is a plain key beside a packed frontier; rename or delete it",
        Shown(key)
    )
}

/// Returns the error of commands that find such a key.
pub fn mixed(key: &[u8]) -> KeyError {
    KeyError::Refused(format!("MIXED {}", misplaced(key)))
}
