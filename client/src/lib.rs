//! Companion of the Crawlspace Redis module: what does not belong inside a database.
//!
//! * [`server`] reaches servers: one or a cluster, blocking or not.
//! * [`dedupe`] calls the `DEDUPE.*` commands, with types in place of reply arrays.
//! * [`frontier`] calls the `CHG.*` commands: which host may be fetched from now.
//! * [`tags`] calls the `TAGS.*` commands: who may see which capture.
//! * [`mirror`] keeps a tag space as a database has it.
//! * [`indexer`] brings WACZ files into a dedupe index.
//! * [`federation`] serves index and resource APIs over many archives.
//! * [`index_cache`] keeps indexes of harvest jobs, each built once.
//! * [`dependencies`] finds out which WACZ files one needs for replay.
//! * [`index`] brings the records of WARC files into a dedupe index, as a crawler would have done live.
//!
//! The binary `crawlspace` is a thin command line around them.

#[macro_use]
mod reply;
pub mod dedupe;
pub mod dependencies;
pub mod federation;
pub mod frontier;
pub mod index;
pub mod index_cache;
pub mod indexer;
pub mod mirror;
pub mod server;
pub mod tags;

/// The crate that calls of plain commands are made with.
pub use redis;
pub use server::{
    Answer, Ask, AsyncServer, Batch, Call, Code, Error, Options, Pending, Server, Steps, Unsent,
};
