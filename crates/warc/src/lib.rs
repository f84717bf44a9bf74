//! WARC files (ISO 28500, versions 1.0 and 1.1) and the ARC files that were there before them, versions 1 and 2; and
//! the HTTP messages in their records.
//!
//! [`Parser`] has the rules of both formats and does no I/O. [`Reader`] reads files record by record, in bounded
//! memory, plain or compressed the way archives do it, each record a gzip member of its own; [`AsyncReader`] reads one
//! record as it comes. None of them takes input that it does not understand for the end of the file: whatever is
//! wrong is a [`Problem`], and an [`Error`] names file and offset. [`Writer`] writes WARC files.

#![warn(unreachable_pub)]

pub mod arc;
mod async_reader;
pub mod chunked;
mod date;
mod deviation;
pub mod digest;
mod error;
pub mod gunzip;
mod header;
pub mod http;
mod input;
mod parser;
mod reader;
mod record;
mod revisit;
mod window;
mod writer;

pub use async_reader::{AsyncReader, Source};
pub use date::Date;
pub use deviation::{Deviation, Deviations};
pub use error::{Error, Problem};
pub use header::{Header, MAX_HEADER, RecordType, decimal, end_of_header};
pub use parser::{After, END, Ending, LOOK, MAX_OPEN, Parser, SLACK};
pub use reader::{Extent, Reader};
pub use record::{MAX_HTTP_HEAD, Record};
pub use revisit::Revisit;
pub use writer::{Compression, Writer};

/// The example of the README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
