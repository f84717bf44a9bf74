//! Tests `crawlspace indexer` from a user's view: importing WACZ files gives the same index as a crawler with that
//! index would have, even if imports are started repeatedly, stopped, killed, shared or cut off.
//!
//! Every crawl is created twice: as WACZ files, and live, by the commands that crawlers send. So each test has the
//! expected index under another prefix of the same server.

mod bad_packages;
mod beside;
mod browsertrix;
mod container;
mod crashes;
mod equality;
mod guards;
mod manifests;
mod memory;
mod progress;
mod removal;
mod revisits;
mod servers;
mod sharded;
pub(crate) mod stage;
mod web;
