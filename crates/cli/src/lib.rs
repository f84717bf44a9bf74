//! The imports behind the tool `crawlspace`.
//!
//! * [`away`] waits for a server that restarts or loads its data.
//! * [`indexer`] brings WACZ files into a dedupe index.
//! * [`index`] brings the records of WARC files into a dedupe index, as a crawler would have done live.
//! * [`mirror`] keeps a tag space as a database has it.
//! * [`dependencies`] finds out which WACZ files one needs for replay.

#![warn(unreachable_pub)]

pub mod away;
pub mod dependencies;
pub mod index;
pub mod indexer;
pub mod mirror;
