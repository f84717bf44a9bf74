//! Searches, merges and sorts indexes of web archives in place, on disks and web servers.
//!
//! * [`sorted`] searches sorted CDX and CDXJ files; [`zipnum`] reads and writes clusters of compressed blocks.
//! * [`Listings`] caches which files a source has. [`Files`] finds the start of a query's [`Span`] in each file, and
//!   merges the lines that the cursors return. [`Lookup`] searches an index of jobs.
//! * [`cdxj`] indexes WARC files, and [`WarcFolder`] those of a folder in the background. [`sort`] sorts files that are larger than memory; [`lines`] reads and counts their lines.
//! * [`spelling`] computes urlkeys in the forms that other programs write.
//! * [`row`], [`timestamp`] and [`capture`] parse a line of an index, its time, and its role in a dedupe index.

pub mod capture;
pub mod cdxj;
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
    Aliases, ArchivePart, Changes, Checked, Choice, Entry, Files, Listing, Listings, Lookup,
    Package, Position, Rows, Sought, Span, WarcCounts, WarcFolder, distance, shortest,
};
pub use self::loser_tree::LoserTree;
pub use self::work::{Progress, Work};

/// Compiles and runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
