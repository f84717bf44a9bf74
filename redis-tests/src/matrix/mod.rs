//! Family × property: what a test needs to know of a family, so that one test holds for all three.
//!
//! * [`Family`] has sample calls of every command, the state in which they succeed, and lines that read it.
//! * [`State`] is one that was filled in: it turns a line into the words of a call.
//! * [`Grammar`] is what `COMMAND DOCS` says of a command, and which word of a call is which argument.
//!
//! ```no_run
//! use redis_tests::matrix::families;
//! for family in families() {
//!     let server = family.options().start();
//!     let mut c = server.wire();
//!     for line in family.samples {
//!         let state = family.refill(&mut c);
//!         c.expect_ok(&state.words(line));
//!     }
//! }
//! ```

mod chg;
mod dedupe;
mod family;
mod grammar;
mod tags;

pub use family::{Family, PREFIX, State, malformed, split, with_limits};
pub use grammar::{Argument, Grammar, Kind, Slot, is_integer};

/// The family of this name, with this storage when there are two.
///
/// # Panics
/// When there is none.
pub fn family(name: &str, storage: &str) -> Family {
    let mut all = families().into_iter();
    let found = all.find(|family| family.name == name && family.storage == storage);
    found.unwrap_or_else(|| panic!("no family {name} {storage}"))
}

/// All families; `DEDUPE` with each storage.
pub fn families() -> Vec<Family> {
    vec![
        dedupe::family("plain"),
        dedupe::family("packed"),
        chg::family(),
        tags::family(),
    ]
}
