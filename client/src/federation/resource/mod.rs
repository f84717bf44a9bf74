//! Rows to WARC records.

mod capture;
mod digest;
mod http_head;
mod input;
mod loader;
mod open_files;
pub mod record;
mod stored;
mod unpack;
