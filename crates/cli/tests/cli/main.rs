//! The tool `crawlspace`, as its users run it, and what the documents say of the repository.

mod documents;
mod federation;
mod frontier;
mod guide;
mod index;
mod index_cache;
mod index_cache_http;
mod indexer;
mod operators;
mod peers;
mod pywb;
mod serving;
mod tags;
mod tags_sync;
mod tool;
