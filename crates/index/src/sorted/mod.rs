//! Sorted text: CDX and CDXJ files as `LC_ALL=C sort` orders them.
//!
//! A file is opened and watched by `file`, and `search` finds an offset in it with the help of `pivots`; `lines` reads
//! on from there in both directions. All of it is `async`, and `steps` takes it step by step: what is in the page cache
//! is read at once, everything else on a thread that may wait.

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
