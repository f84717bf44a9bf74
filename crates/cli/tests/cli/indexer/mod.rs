//! `crawlspace indexer`, as its users see it: what it makes of WACZ files is what a crawler would have made with the
//! index, however often it is begun, stopped, killed, shared or cut off.
//!
//! Every crawl here is made up twice: as WACZ files, and live, through the commands that crawlers send. So each test
//! has the index that must come of it, under another prefix of the same server.

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
pub(crate) mod stage;
mod web;
