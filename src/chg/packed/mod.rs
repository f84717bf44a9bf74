//! A packed frontier: everything that a plain frontier keeps in many keys, in one value.
//!
//! The rules of politeness are the same for both storages. They name keys, and [`Packed`] answers as those keys would:
//! a group is a few dozen bytes behind a hash table (`groups`), the queues are trees of group numbers (`order`), and
//! everything that is rare or small stays as it is (`small`).
//!
//! Every change is also appended to a log (`log`), which replicas apply. A group that changed is logged once per
//! command, as a whole.

pub mod both;
pub mod either;
mod executions;
mod groups;
mod keys;
mod log;
mod moved;
pub mod moving;
mod name;
mod order;
mod record;
mod saved;
mod small;
mod spelling;
mod unpack;

pub use keys::{Packed, Stored, Value};
pub use moved::{Entering, Moving};
pub use name::Name;
pub use saved::ENVELOPE;
pub use unpack::Unpacking;
