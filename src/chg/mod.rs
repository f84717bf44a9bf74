//! Politeness: crawl host groups, each fetched from by one at a time and with pauses.

pub mod store;
pub mod time;
pub mod uris;
