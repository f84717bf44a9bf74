//! Tests the tool `crawlspace` as its users run it, and the documentation against the repository.

mod cdxj;
mod deviations;
mod documents;
mod frontier;
mod guide;
mod index;
mod index_cache;
mod indexer;
mod operators;
mod reload;
mod serving;
#[path = "../../../serve/tests/federation/shelf.rs"]
#[allow(dead_code)]
mod shelf;
mod tags;
mod tags_sync;
mod tool;
