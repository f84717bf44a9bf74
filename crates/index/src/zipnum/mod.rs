//! Indexes on disk: sorted lines of CDXJ in gzip members, and a secondary index of them. This is a ZipNum cluster with
//! one part, a format that the tools of web archives support.
//!
//! An index consists of two files in a folder, named by a stem:
//!
//! ```text
//! url.cdxj.gz    gzip members, a block each: whole lines, sorted by their bytes
//! url.idx        com,example)/ 20160101000000<TAB>url.cdxj.gz<TAB>1234<TAB>5678<TAB>17<TAB>1000
//! ```
//!
//! A line of the secondary index has the key and the timestamp of the first line of the block, and the file
//! name, offset, length and number (from 1) of the block. An additional column has the number of lines in the
//! block. Blocks are contiguous. An empty index consists of two empty files.
//!
//! [`Writer`] writes an index, [`merge`] merges several indexes, [`Blocks`] reads an index sequentially, and
//! [`Lookup`](crate::index::Lookup) searches it.

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

/// Options for writing an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Number of lines in a block. A block may have from half to twice as many lines, and the last block fewer. If
    /// lines are very long, a block is complete at half a megabyte.
    pub lines: usize,
    /// Compression level of gzip, from 1 to 9.
    pub level: u32,
    /// Number of threads that compress blocks. With 0, the calling thread compresses them.
    pub threads: usize,
}

impl Options {
    /// Returns options for lines by URL, which are read sequentially. Compression level 1 takes
    /// half the time of level 2, and the result is a third larger.
    pub fn by_url() -> Options {
        Options {
            lines: 256,
            level: 1,
            threads: threads(),
        }
    }

    /// Returns options for lines by digest. New lines are scattered over all blocks; with small blocks, most of them
    /// can still be copied unchanged.
    pub fn by_digest() -> Options {
        Options {
            lines: 64,
            ..Options::by_url()
        }
    }
}

/// Returns the default number of threads. More than eight would wait for the thread that feeds them.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |threads| threads.get().min(8))
}

/// Returns the name of the file that contains the blocks.
fn part(stem: &str) -> String {
    format!("{stem}.cdxj.gz")
}

/// Returns the paths of the file that contains the blocks, and of the secondary index.
pub(crate) fn files(folder: &Path, stem: &str) -> (PathBuf, PathBuf) {
    (folder.join(part(stem)), folder.join(format!("{stem}.idx")))
}
