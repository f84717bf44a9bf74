//! Synthetic crawls, the WACZ files that they produce, and the index that they build while they
//! run.
//!
//! A [`Crawl`] can be written as WACZ files ([`Folder`]) with the indexes that an indexer would
//! write, and it can be run with the documented commands, as a crawler would run it ([`crawl`]).
//! Tests import the files and compare the result with the index of the crawler.
//!
//! A [`collection`] is a web archive: captures in WARC files, and indexes of them.
//!
//! ```no_run
//! use redis_tests::archive::{crawl, Crawler, Folder, Shape};
//! use redis_tests::{Rng, Server};
//! let server = Server::start();
//! let mut folder = Folder::new();
//! let mut crawler = Crawler::new(Rng::new("example"), Shape::default());
//! for _ in 0..3 {
//! let made = crawler.next_crawl();
//! let files = folder.write(&made);
//! crawl(&mut server.wire(), "live:", &made, &files);
//! }
//! println!("{}", folder.manifest());
//! ```

mod capture;
pub mod collection;
mod crawler;
mod folder;
mod line;
mod live;
mod zip;

pub use capture::{Capture, Kind};
pub use crawler::{Crawl, Crawler, Shape};
pub use folder::{Entry, Folder};
pub use line::{Layout, json_text};
pub use live::crawl;
pub use zip::{member, store, store_in, stream};
