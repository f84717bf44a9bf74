//! The ways in which clients ask: each file turns the requests of one API into a [`Query`](crate::query::Query), and rows
//! or a record into its answer.
//!
//! Only [`routes`](crate::routes) knows which dialects there are: nothing else depends on one.

pub(crate) mod cdx;
pub(crate) mod common_crawl;
pub(crate) mod index;
pub(crate) mod outback;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod resource;
pub(crate) mod timegate;
pub(crate) mod timemap;
mod wayback;
