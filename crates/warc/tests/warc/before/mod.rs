//! The reader of before, until what it reads was compared with what the new one reads.
#![allow(dead_code, unused_imports, missing_docs)]

mod arc;
mod current;
mod input;
mod reader;
mod record;

use std::io;

pub use crawlspace_warc::{Compression, Error, Extent, Problem};
pub use reader::Reader;
pub use record::{Header, RecordType};

fn problem(error: io::Error) -> Problem {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Problem::Truncated,
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            Problem::Gzip(error.to_string())
        }
        _ => Problem::Io(error),
    }
}
