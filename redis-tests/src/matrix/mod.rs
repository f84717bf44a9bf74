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

pub use family::{Family, PREFIX, State, families, family, malformed, split, with_limits};
pub use grammar::{Argument, Grammar, Kind, Slot, is_integer};
