//! Sorted text: CDX and CDXJ files as `LC_ALL=C sort` orders them, alone, in folders, and in ZipNum clusters.
//!
//! A file is opened and watched by `file`, and `search` finds a line with the help of `pivots`. [`Pieces`] is text that
//! comes piece by piece.

pub(crate) mod backward;
pub mod disorder;
pub(crate) mod file;
pub mod line;
pub(crate) mod lines;
pub(crate) mod order;
pub(crate) mod pieces;
pub(crate) mod pivots;
pub(crate) mod search;
pub mod steps;

pub use self::order::Order;
pub use self::pieces::Pieces;
