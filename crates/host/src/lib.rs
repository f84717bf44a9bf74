//! A safe layer over the module API of Redis and Valkey, on which families of commands stand.
//!
//! It knows no family. What rules are written against (a [`keyspace`], [`slices`] of long jobs, [`reply`]
//! values) needs no server: tests put [`keyspace::memory`] in its place. What touches the server is in
//! `server`, behind the feature of that name.

pub mod aligned;
#[cfg(any(feature = "server", test))]
pub mod cluster;
pub mod defrag;
pub mod grammar;
pub mod keyspace;
pub mod names;
pub mod reply;
#[cfg(feature = "server")]
pub mod server;
pub mod sizes;
pub mod slices;
pub mod text;
pub mod turns;

/// The example of the README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
