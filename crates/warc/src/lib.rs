//! WARC files (ISO 28500, versions 1.0 and 1.1), record by record, in bounded memory; and the ARC files that were there
//! before them, versions 1 and 2.
//!
//! [`Reader`] reads files that are plain or compressed the way archives do it, each record a gzip
//! member of its own. It never takes input that it does not understand for the end of the file:
//! whatever is wrong is an [`Error`] that names the file and the offset. [`Writer`] writes WARC files.

pub mod arc;
mod current;
pub mod digest;
mod error;
mod input;
mod reader;
mod record;
mod revisit;
mod writer;

pub use current::{MAX_HTTP_HEAD, Record};
pub use error::{Error, Problem};
pub use reader::{Extent, MAX_HEADER, Reader};
pub use record::{Header, RecordType};
pub use revisit::Revisit;
pub use writer::{Compression, Writer};

/// The example of the README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
