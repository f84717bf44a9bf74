//! What small things in memory and on disk are made of, each once and strict.
//!
//! - [`number`]: numbers of variable length, and a reader of what is made of them
//! - [`envelope`]: chunks with version, length and checksum
//! - [`digits`]: hexadecimal and base32
//! - [`calendar`]: days and dates
//! - [`keyed`]: hashes that clients cannot foresee
//! - [`limits`]: limits and defaults of the commands
//! - [`linear`], [`interner`]: hash tables that grow by one small bucket at a time; numbers of equal things
//!
//! No I/O, no clock. What is read may come from anybody: each value has one form, and every other one is an error.

pub mod calendar;
pub mod digits;
pub mod envelope;
pub mod interner;
pub mod keyed;
pub mod limits;
pub mod linear;
pub mod number;
pub mod sink;

/// The example of the README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
