//! Reads, checks and writes WACZ files, and reads lists of them.
//!
//! [`Wacz`] opens a package from a file or a web server, and reads only the requested parts; [`Manifest`] is a list of
//! packages. An [`Error`] names the file and the member, and contains a remedy. This crate does not depend on Redis.
//!
//! Functions block while they wait for servers: asynchronous code must call them on a thread that may block.

mod error;
pub mod http;
mod lines;
mod location;
mod manifest;
mod nested;
mod options;
pub mod package;
mod reader;
mod replacement;
mod source;
mod writer;
mod zip;

pub use error::{Error, Problem};
pub use http::fetch;
pub use lines::Lines;
pub use location::Location;
pub use manifest::{Manifest, ManifestEntry};
pub use options::Options;
pub use reader::{Member, Wacz};
pub use replacement::Replacement;
pub use writer::{Index, Page, Writer};

/// Compiles and runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
