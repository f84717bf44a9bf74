//! WARC files (ISO 28500, versions 1.0 and 1.1), their predecessor ARC (versions 1 and 2), and the HTTP
//! messages in their records.
//!
//! [`Parser`] implements the rules of both formats and does no I/O. [`Reader`] reads files record
//! by record in bounded memory, uncompressed or with one gzip member per record, as archives store
//! them; [`AsyncReader`] reads a single record from a stream. None of these types mistakes invalid
//! input for the end of the file. Every failure is a [`Problem`]; an [`Error`] adds the file and
//! the offset. [`Writer`] writes WARC files.

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

/// Compiles and runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
