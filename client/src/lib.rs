//! Companion of the Crawlspace Redis module: what does not belong inside a database.
//!
//! * [`warc`] reads and writes WARC files.
//! * [`dedupe`] calls the `DEDUPE.*` commands, with types in place of reply arrays.
//! * [`index`] brings the records of WARC files into a dedupe index, as a crawler would have done live.
//!
//! The binary `crawlspace` is a thin command line around them.

pub mod dedupe;
pub mod index;
pub mod warc;
