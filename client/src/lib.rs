#![doc = include_str!("../README.md")]
//!
//! ## Modules and types
//!
//! * [`server`] connects to a server or a cluster and sends calls, blocking or async.
//! * [`dedupe`] has the `DEDUPE.*` commands, which find out if a payload is already stored.
//! * [`frontier`] has the `CHG.*` commands, with which a worker finds the host that it may contact
//!   now.
//! * [`tags`] has the `TAGS.*` commands, which decide which captures a reader may see.
//! * [`dedupe::Sharded`] spreads an index that is too large for one server over several prefixes.
//! * [`Batch`] sends many calls in one round trip; the calls of [`AsyncServer`] are futures.

#[macro_use]
mod reply;
pub mod dedupe;
pub mod frontier;
pub mod server;
mod storage;
pub mod tags;

/// Re-export of the `redis` crate, whose types build and send plain commands.
pub use redis;
pub use reply::{as_optional_text, as_text};
pub use server::{
    Answer, Ask, AsyncServer, Batch, Call, Code, Error, Options, Pending, Server, Steps, Unsent,
};
