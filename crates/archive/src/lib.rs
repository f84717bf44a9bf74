//! Archives as they lie on disks and web servers: WACZ files, sorted index files, ZipNum clusters, and the way to fetch.
//!
//! * [`wacz`] reads WACZ files and lists of them, from disks and web servers, and writes WACZ files.
//! * [`sorted`] searches sorted CDX and CDXJ files; [`zipnum`] reads and writes clusters of compressed blocks; [`index`]
//!   asks both.
//! * [`sort`] sorts files that are larger than memory; [`lines`] reads and counts their lines.
//! * [`net`] makes requests to other servers, but not to forbidden addresses.
//! * [`spelling`] knows how the makers of indexes spell urlkeys.
//! * [`row`], [`timestamp`] and [`capture`] are a line of an index, its time, and what it means to a dedupe index.

pub mod capture;
mod error;
pub mod index;
pub mod lines;
mod loser_tree;
pub mod net;
pub mod row;
pub mod sort;
pub mod sorted;
pub mod source;
pub mod spelling;
pub mod timestamp;
pub mod wacz;
mod work;
pub mod zipnum;

pub use self::error::Error;
pub use self::loser_tree::LoserTree;
pub use self::work::{Progress, Work};

/// The example of the README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
