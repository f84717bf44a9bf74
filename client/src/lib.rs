#![doc = include_str!("../README.md")]
//!
//! ## Where to go on
//!
//! * [`server`] reaches servers: one or a cluster, blocking or not.
//! * [`dedupe`] calls the `DEDUPE.*` commands, with types in place of reply arrays.
//! * [`frontier`] calls the `CHG.*` commands: which host may be fetched from now.
//! * [`tags`] calls the `TAGS.*` commands: who may see which capture.
//! * [`dedupe::Sharded`] is an index that is larger than a server.
//! * [`Batch`] sends many calls in one round trip; [`AsyncServer`] has calls that are futures.

#[macro_use]
mod reply;
pub mod dedupe;
pub mod frontier;
pub mod server;
pub mod tags;

/// The crate that calls of plain commands are made with.
pub use redis;
pub use reply::{as_optional_text, as_text};
pub use server::{
    Answer, Ask, AsyncServer, Batch, Call, Code, Error, Options, Pending, Server, Steps, Unsent,
};
