//! A gRPC server with the interface of [URLFrontier](https://urlfrontier.net) over a packed frontier of the module.
//!
//! A queue of URLFrontier is a group of the frontier, a crawl is an execution, and the metadata of a URL is its
//! payload. [`Service`] implements the calls, and [`server::serve`] serves them.

#![warn(unreachable_pub)]

#[doc(hidden)]
pub mod codec;
mod figures;
mod get;
#[allow(missing_docs, unreachable_pub)]
mod health_proto;
mod input;
mod list;
#[allow(missing_docs)]
pub mod proto;
mod put;
pub mod server;
mod service;
mod store;

pub use self::service::Service;
pub use self::store::{Error, Store};
