//! Test harness: starts real Redis or Valkey servers with the newly built module, and sends them
//! commands.
//!
//! * [`Server`] is a running server in its own directory; dropping it kills the server.
//! * [`Cluster`] is a group of servers that share the slots.
//! * [`Wire`] is a connection that shows a reply exactly as received: error line, RESP3 map, binary
//!   text. [`cmd!`], [`ok!`] and [`err!`] run one command on it.
//! * [`Server::conn`] returns a connection of the `redis` crate, for tests with a real client.
//! * [`Snapshot`] is the content of a database as sorted text, for comparison and printing.
//! * [`plain_view`] returns the keys of an index as in plain storage, even if the index is packed.
//! * [`Frontier`] is a connection for `CHG.*`: one command per line, at a simulated time or with
//!   the server's clock.
//! * [`DedupeIndex`] is a connection for `DEDUPE.*`: one command per line.
//! * [`frontier_model`] computes the expected replies of a frontier.
//! * [`url_model`] accepts the replies that a frontier with known URLs may give.
//! * [`TagSpace`] is a connection for `TAGS.*`: one command per line.
//! * [`archive`] generates synthetic crawls with their WACZ files and their index.
//! * [`FileHost`] is a web server for files with configurable defects; [`ObjectStore`] is an S3
//!   server that checks signatures.
//! * [`ScriptedHost`] is a web server that sends the exact bytes of a test.
//! * [`fuzz`] mutates samples to cause crashes, hangs and excessive memory use.
//! * [`history`] runs random histories and shortens failing histories.
//! * [`harvest`] generates the logs of synthetic harvester jobs, and [`metadata`] the metadata
//!   files that contain them.
//! * [`http`] is an HTTP client that returns responses unchanged.
//! * [`certificates`] creates certificates for TLS servers.
//! * [`alone`] runs a test in a separate process.
//! * [`Program`] is a program under test in the background: a test can stop it, kill it, and read
//!   its memory and CPU use.
//! * [`program`] parses a command line, and [`Outcome`] is the result of its run.
//! * [`pywb`] installs and runs pywb, for comparisons in tests and benchmarks.
//! * [`Relay`] forwards bytes between a client and a server, and stalls or cuts the connection
//!   after a given number of bytes.
//! * [`PlainHost`] is a server that has only the commands that all Redis-compatible servers share.
//! * [`payload`] parses and builds `DUMP` payloads.
//! * [`matrix`] describes each command family for tests that cover all families.
//! * [`packages`] installs clients in other languages.
//! * [`examples`] runs the examples of the documentation and compares the replies.
//! * [`simulation`] is a whole crawl in simulated time, with workers that crash and stall.
//! * [`until`] waits for a condition with a deadline; tests must not use fixed sleeps.
//!
//! ```no_run
//! use redis_tests::{err, ok, Server};
//! let server = Server::start();
//! let mut c = server.wire();
//! assert_eq!(ok!(c, "DEDUPE.CRAWLS", "p:").items(), []);
//! assert!(err!(c, "DEDUPE.COMMIT", "p:", "crawl-1").starts_with("NOCRAWL "));
//! ```

/// Creates a value of a type with these fields set and default values for the other fields.
///
/// ```
/// let manners = redis_tests::with!(redis_tests::Manners, ranges: false, endless: true);
/// assert!(manners.endless && manners.redirect.is_none());
/// ```
#[macro_export]
macro_rules! with {
    ($($type:ident)::+, $($field:ident $(: $value:expr)?),+) => {
        $($type)::+ { $($field $(: $value)?,)+ ..::std::default::Default::default() }
    };
}

/// Copies a value with these fields changed.
///
/// ```
/// let honest = redis_tests::Manners::default();
/// let liar = redis_tests::but!(honest, length_lie: 5);
/// assert!(liar.length_lie == 5 && liar.ranges);
/// ```
#[macro_export]
macro_rules! but {
    ($value:expr, $($field:ident $(: $new:expr)?),+) => {{
        let mut value = $value;
        $($crate::but!(@ value $field $($new)?);)+
        value
    }};
    (@ $value:ident $field:ident $new:expr) => { $value.$field = $new };
    (@ $value:ident $field:ident) => { $value.$field = $field };
}

/// Creates a table of test cases: commas separate cells, and a semicolon ends each row. The result
/// is an array of tuples, or of plain values if rows have only one cell. Several short rows may
/// share a line.
///
/// ```
/// use redis_tests::rows;
/// for (word, length) in rows!["a", 1; "bc", 2;] {
/// assert_eq!(word.len(), length);
/// }
/// assert_eq!(rows!["a"; "bc";], ["a", "bc"]);
/// ```
#[macro_export]
macro_rules! rows {
    ($($($cell:expr),+);+ $(;)?) => { [$(($($cell),+)),+] };
}

mod alone;
pub mod archive;
mod busy_frontier;
mod certificates;
mod cluster;
mod corpus;
mod crawler;
mod dataset;
mod dedupe_index;
pub mod examples;
mod file_host;
mod frontier;
pub mod frontier_model;
pub mod fuzz;
pub mod harvest;
pub mod history;
pub mod http;
pub mod matrix;
pub mod metadata;
mod object_store;
mod outcome;
pub mod packable;
pub mod packages;
mod packing;
pub mod payload;
mod plain_host;
mod program;
pub mod pywb;
mod relay;
mod rng;
pub mod script;
mod scripted_host;
mod server;
mod shifted;
pub mod simulation;
mod storage;
mod tag_space;
mod terminal;
pub mod url_model;
mod wait;
mod wire;
pub mod words;

pub use alone::{alone, alone_with};
pub use busy_frontier::{BusyFrontier, random_step};
pub use certificates::certificates;
pub use cluster::Cluster;
pub use corpus::{Crawl, DATE, fill_crawl, sha256_of, size_of, url_of, words_of};
pub use crawler::{add, assert_consistent, commit, counts, hash_key, owners, record_of, set_key};
pub use dataset::Snapshot;
pub use dedupe_index::DedupeIndex;
pub use file_host::{FileHost, Manners, Request, parse_range};
pub use frontier::{
    Frontier, LEASE, Lease, T0, TEN_YEARS, blocked, release, server_time, simulated,
};
pub use object_store::{ObjectStore, Terms};
pub use outcome::{
    Outcome, arguments, assert_contains, assert_lacks, assert_starts, ends, outcome, program,
};
pub use packing::{moved, replies_of, small_index};
pub use plain_host::PlainHost;
pub use program::{Ended, Program, memory_of, open_files_of, peak_memory_of};
pub use relay::Relay;
pub use rng::{Rng, rounds};
pub use scripted_host::{Asked, Part, ScriptedHost, answer, once, then};
pub use server::{Options, Server, assert_replicated, free_port, module_path, packed_by_default};
pub use shifted::Shifted;
pub use storage::{frontier_view, indexed, is_packed, plain_hash, plain_view, plainly};
pub use tag_space::TagSpace;
pub use terminal::on_terminal;
pub use wait::{until, until_some, within};
pub use wire::{Reply, Wire, Word, array, assert_error, bulk, error_line, int, nil, run, simple};
