//! Compression of short texts, such as URLs, with symbol tables that are learned from them.
//!
//! A text is split into symbols, which have prefix codes. Packed dedupe indexes contain such texts, so
//! the encoding must never change; `docs/formats/packed-urls.md` specifies it.

pub mod bits;
pub mod builtin;
pub mod matcher;
mod prefix;
mod runs;
pub mod sink;
pub mod table;
pub mod tables;
mod training;

/// Maximum length of a text that is compressed, in bytes, so that a few bytes cannot expand to a very
/// large text.
pub const MAX_BYTES: usize = 1 << 16;
