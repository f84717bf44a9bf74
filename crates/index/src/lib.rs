//! Indexes of web archives, asked where they lie, on disks and web servers.
//!
//! * [`sorted`] searches sorted CDX and CDXJ files; [`zipnum`] reads and writes clusters of compressed blocks.
//! * [`Listings`] says which files there are. [`Files`] finds where in each a query begins, and merges what a cursor in
//!   each finds of its [`Span`]. [`Lookup`] asks the index of some jobs.
//! * [`sort`] sorts files that are larger than memory; [`lines`] reads and counts their lines.
//! * [`spelling`] knows how the makers of indexes spell urlkeys.
//! * [`row`], [`timestamp`] and [`capture`] are a line of an index, its time, and what it means to a dedupe index.

pub mod capture;
mod error;
mod index;
pub mod lines;
mod loser_tree;
pub mod row;
pub mod sort;
pub mod sorted;
pub mod source;
pub mod spelling;
pub mod timestamp;
mod work;
pub mod zipnum;

pub use self::error::Error;
pub use self::index::{
    Aliases, ArchivePart, Checked, Choice, Entry, Files, Listing, Listings, Lookup, Package,
    Position, Rows, Sought, Span, distance, shortest,
};
pub use self::loser_tree::LoserTree;
pub use self::work::{Progress, Work};

/// The example of the README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
