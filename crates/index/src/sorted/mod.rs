//! Sorted text: CDX and CDXJ files in the order of `LC_ALL=C sort`.
//!
//! `file` opens a file and detects changes; `search` finds an offset in it, helped by `pivots`; `lines` reads on from
//! there in both directions. All of these are `async`, and `steps` polls them step by step: cached pages are read
//! immediately, everything else on a thread that may block.

pub mod disorder;
pub(crate) mod file;
pub mod line;
pub(crate) mod lines;
pub(crate) mod order;
pub(crate) mod pivots;
pub(crate) mod search;
pub(crate) mod steps;

pub use self::file::MAX_OPEN;
pub use self::order::Order;
