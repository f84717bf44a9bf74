//! Descriptions of the command families, so that one test of a property covers all families.
//!
//! * [`Family`] has sample calls of every command, the state in which they succeed, and calls that
//!   read it.
//! * [`State`] is a filled index, frontier or tag space; it expands a line to the arguments of a
//!   call.
//! * [`Grammar`] is the description of a command in `COMMAND DOCS`; it assigns each word of a call
//!   to an argument.
//!
//! ```no_run
//! use redis_tests::matrix::families;
//! for family in families() {
//! let server = family.options().start();
//! let mut c = server.wire();
//! for line in family.samples {
//! let state = family.refill(&mut c);
//! c.expect_ok(&state.words(line));
//! }
//! }
//! ```

mod chg;
mod dedupe;
mod family;
mod grammar;
mod tags;

pub use family::{Family, PREFIX, STAND_INS, State, malformed, split, with_limits};
pub use grammar::{Argument, Grammar, Kind, Slot, is_integer};

/// Returns the family of this name, and with this storage if there are two.
///
/// # Panics
/// Panics if no family has this name and storage.
pub fn family(name: &str, storage: &str) -> Family {
    let mut all = families().into_iter();
    let found = all.find(|family| family.name == name && family.storage == storage);
    found.unwrap_or_else(|| panic!("no family {name} {storage}"))
}

/// Returns all families; `DEDUPE` and `CHG` once for each storage.
pub fn families() -> Vec<Family> {
    vec![
        dedupe::family("plain"),
        dedupe::family("packed"),
        chg::family(""),
        chg::family("packed"),
        tags::family(),
    ]
}
