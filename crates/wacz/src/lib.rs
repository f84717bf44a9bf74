//! WACZ files: what is in them, and lists of them.
//!
//! [`Wacz`] opens one, from a file or from a web server, and reads only what is asked for; [`Manifest`] is a list of
//! them. Whatever is wrong is an [`Error`] that names the file and the member, and says what to do. Nothing here knows of Redis.
//!
//! What comes from servers is waited for: whoever calls this from asynchronous code does so on a thread for such things.

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
pub use writer::{Index, Page, Writer};

/// The example of the README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
