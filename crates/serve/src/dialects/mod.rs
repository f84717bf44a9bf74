//! API dialects. Each file parses the requests of one API into a [`Query`](crate::query::Query), and formats rows or a
//! record as its response.
//!
//! Only [`routes`](crate::routes) knows the dialects; no other module depends on a dialect.

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
