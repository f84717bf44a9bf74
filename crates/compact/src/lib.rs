//! Strict building blocks for compact data in memory and on disk.
//!
//! - [`number`]: variable-length integers, and a reader for data made of them
//! - [`envelope`]: chunks with version, length and checksum
//! - [`digits`]: hexadecimal and base32
//! - [`calendar`]: days of the calendar
//! - [`date`]: dates of records, in digits or ISO 8601
//! - [`blocks`]: long lists that grow without copying their elements
//! - [`keyed`]: hashes that clients cannot predict
//! - [`limits`]: limits and defaults of the commands
//! - [`linear`]: hash tables that grow by one small bucket at a time
//! - [`interner`], [`index`]: linear hash tables that find the number of a value, or all numbers of
//!   a hash
//! - [`token`]: tokens of clients, compared in constant time
//!
//! The crate does no I/O and reads no clock. Input may be untrusted: each value has exactly one
//! valid encoding, and reading any other encoding is an error.

pub mod blocks;
pub mod calendar;
pub mod date;
pub mod digits;
pub mod envelope;
pub mod index;
pub mod interner;
pub mod keyed;
pub mod limits;
pub mod linear;
pub mod number;
pub mod sink;
pub mod token;

/// Compiles and runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
