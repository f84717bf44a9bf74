//! Harness: starts real Redis or Valkey servers with the freshly built module, and talks to them.
//!
//! * [`Server`] is a running server in a directory of its own; dropping it kills it.
//! * [`Cluster`] is several of them that share the slots.
//! * [`Wire`] is a connection that shows a reply exactly as it came: error line, RESP3 map,
//!   binary text. [`cmd!`], [`ok!`] and [`err!`] run one command on it.
//! * [`Server::conn`] returns a connection of the `redis` crate, for tests with a real client.
//! * [`Snapshot`] is a data set as sorted text, so that two of them can be compared and printed.
//! * [`plain_view`] is the plain keys of an index, or what they would be if it were not packed.
//! * [`Frontier`] is a connection for `CHG.*`: a command a line, at a simulated time or not.
//! * [`DedupeIndex`] is a connection for `DEDUPE.*`: a command a line.
//! * [`frontier_model`] computes what a frontier must reply.
//! * [`TagSpace`] is a connection for `TAGS.*`: a command a line.
//! * [`archive`] is crawls that never were, the WACZ files that they left, and the index that they made.
//! * [`FileHost`] is a web server with files, as good or bad as a test wants it; [`ObjectStore`] is one of S3 that checks
//!   signatures.
//! * [`ScriptedHost`] is a web server that sends what a test says, byte for byte.
//! * [`fuzz`] changes samples until they do harm.
//! * [`history`] plays random histories, and cuts down those that fail.
//! * [`harvest`] is jobs of a harvester that never ran, and [`metadata`] the files that tell of them.
//! * [`http`] asks web servers, and shows what they say as it came.
//! * [`certificates`] are for servers behind TLS.
//! * [`alone`] runs a test in a process of its own.
//! * [`Program`] is a program under test that is stopped, killed, and asked what it took.
//! * [`program`] is one by its command line, and [`Outcome`] what came of its run.
//! * [`pywb`] is a peer of the federation, beside which it is tested and measured.
//! * [`Relay`] stands between a client and a server, and holds back or cuts off after a number of bytes.
//! * [`payload`] is what `DUMP` gives, taken apart.
//! * [`matrix`] is what a test that holds for all families needs to know of each.
//! * [`packages`] fetches clients in other languages.
//! * [`examples`] are those of the documentation, and the replies that it promises.
//! * [`simulation`] is a whole crawl in simulated time, with workers that crash and stall.
//! * [`until`] waits for a condition with a deadline; nothing here sleeps and hopes.
//!
//! ```no_run
//! use redis_tests::{err, ok, Server};
//! let server = Server::start();
//! let mut c = server.wire();
//! assert_eq!(ok!(c, "DEDUPE.CRAWLS", "p:").items(), []);
//! assert!(err!(c, "DEDUPE.COMMIT", "p:", "crawl-1").starts_with("NOCRAWL "));
//! ```

/// A value of a type with these fields set, and the others as they are by default.
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

/// A value with these fields changed.
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

/// A table of cases: cells parted by commas, a row up to each semicolon. It is an array of tuples, or of the values
/// themselves where a row has one cell. Short rows stand several to a line.
///
/// ```
/// use redis_tests::rows;
/// for (word, length) in rows!["a", 1; "bc", 2;] {
///     assert_eq!(word.len(), length);
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
pub mod packages;
mod packing;
pub mod payload;
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
pub use program::{Ended, Program, memory_of, open_files_of, peak_memory_of};
pub use relay::Relay;
pub use rng::Rng;
pub use scripted_host::{Asked, Part, ScriptedHost, answer, once, then};
pub use server::{Options, Server, assert_replicated, free_port, module_path, packed_by_default};
pub use shifted::Shifted;
pub use storage::{indexed, is_packed, plain_hash, plain_view, plainly};
pub use tag_space::TagSpace;
pub use terminal::on_terminal;
pub use wait::{until, until_some, within};
pub use wire::{Reply, Wire, Word, array, assert_error, bulk, error_line, int, nil, run, simple};
