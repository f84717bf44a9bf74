//! Library of the tool `crawlspace`: its imports.
//!
//! * [`any_index`] is a dedupe index under one prefix, or a sharded one.
//! * [`away`] waits while a server restarts or loads its data.
//! * [`copy`] copies a dedupe index from a server without the module.
//! * [`indexer`] imports WACZ files into a dedupe index.
//! * [`index`] imports WARC files into a dedupe index, with the same result as a live crawl.
//! * [`mirror`] mirrors tags from a database into a tag space.
//! * [`dependencies`] finds the WACZ files that a WACZ file needs for replay.

#![warn(unreachable_pub)]

pub mod any_index;
pub mod away;
pub mod copy;
pub mod dependencies;
pub mod index;
pub mod indexer;
pub mod mirror;
