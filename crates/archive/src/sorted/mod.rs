//! Sorted text: CDX and CDXJ files as `LC_ALL=C sort` orders them, alone, in folders, and in ZipNum clusters.
//!
//! A file is opened and watched by `handle`, a folder is listed by [`folder`], and `search` finds a line with the
//! help of `pivots`. [`Pieces`] is text that comes piece by piece. `Ahead` and `Back`
//! make lines of it, a `Cursor` takes those of a [`Span`](span::Span), and a [`Scan`](scan::Scan)
//! merges cursors.

pub(crate) mod backward;
pub(crate) mod cursor;
pub mod disorder;
pub mod folder;
pub(crate) mod forward;
pub(crate) mod handle;
pub mod line;
pub mod listings;
pub(crate) mod order;
pub(crate) mod pieces;
pub(crate) mod pivots;
pub mod scan;
pub(crate) mod search;
pub mod span;
pub mod start;
pub mod steps;

pub use self::order::Order;
pub use self::pieces::Pieces;
