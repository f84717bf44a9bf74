//! A safe layer over the module API of Redis and Valkey. The command families use this layer.
//!
//! This crate contains no code of any command family. The parts that rules use (a [`keyspace`],
//! [`slices`] of long jobs, [`reply`] values) work without a server: tests use [`keyspace::memory`]
//! instead. All code that calls the server is in `server`, behind the feature of that name.

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

/// Compiles and runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
