//! Indexes on disk: sorted lines of CDXJ in gzip members, and a secondary index of these. That is a ZipNum cluster of
//! one part, which web archives know how to read.
//!
//! An index is two files of a folder, both named by its stem:
//!
//! ```text
//! url.cdxj.gz    gzip members, a block each: whole lines, sorted by their bytes
//! url.idx        com,example)/ 20160101000000<TAB>url.cdxj.gz<TAB>1234<TAB>5678<TAB>17<TAB>1000
//! ```
//!
//! A line of the secondary index has key and timestamp of the first line in the block, the file, where in it the block
//! is and how long, its number from 1, and, in a column more than ZipNum has, how many lines are in it. Blocks follow
//! each other without gaps. An index of nothing is two empty files.
//!
//! [`Writer`] writes one, [`merge`] makes one of many, [`Blocks`] reads one from the beginning to the end, and
//! [`Lookup`](crate::index::Lookup) finds what is in one.

pub(crate) mod cluster;
mod merge;
mod pack;
mod secondary;
#[cfg(test)]
mod tests;
mod writer;

use std::path::{Path, PathBuf};

pub use self::merge::merge;
pub use self::secondary::Blocks;
pub use self::writer::{Stats, Writer};

/// How an index is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Number of lines in a block. A block may have half of it, or double, and the last one fewer. Where lines are very
    /// long, a block has as many as make half a megabyte.
    pub lines: usize,
    /// How hard gzip tries, from 1 to 9.
    pub level: u32,
    /// Threads that compress. With 0 the calling one does.
    pub threads: usize,
}

impl Options {
    /// For lines by URL, of which one after the other is read. Level 1 takes half the time of level 2, for a third more
    /// bytes.
    pub fn by_url() -> Options {
        Options {
            lines: 256,
            level: 1,
            threads: threads(),
        }
    }

    /// For lines by digest. What is added to them comes between any two: small blocks leave most of them as they are.
    pub fn by_digest() -> Options {
        Options {
            lines: 64,
            ..Options::by_url()
        }
    }
}

/// More threads than this would wait for the one that gives them work.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |threads| threads.get().min(8))
}

/// The name of the file with the blocks.
fn part(stem: &str) -> String {
    format!("{stem}.cdxj.gz")
}

/// The file with the blocks, and the secondary index.
pub(crate) fn files(folder: &Path, stem: &str) -> (PathBuf, PathBuf) {
    (folder.join(part(stem)), folder.join(format!("{stem}.idx")))
}
