//! Known URLs: the URLs that an execution has discovered, and their states.
//!
//! A [`Space`] stores a record of 17 bytes for each URL: 64 bits of a keyed hash of the URL, 32 bits of a hash of its
//! group, and its state. The queue of the group stores the text of a URL while the URL is queued or leased.

mod extra;
mod limits;
mod record;
mod short;
mod space;
mod table;
mod text;

pub use extra::Extra;
pub use limits::{Counts, Limits, Reached, Recounting, Tallies, Turned};
pub use record::{Known, MAX_STATUS, State, UNIT};
pub use space::{Member, Misfit, Print, Prints, Shape, Space, Spaces, name_of};
pub use table::Place;
