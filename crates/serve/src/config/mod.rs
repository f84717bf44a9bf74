//! The configuration file, and the normal form that every way to write it comes down to.

mod collection;
mod errors;
mod fields;
mod indexes;
mod loader;
mod location;
mod pywb;
mod read;
mod rules;
mod show;
mod source;
#[cfg(test)]
mod tests;
mod yaml;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crawlspace_fetch::Network;
use crawlspace_wacz::Location;

use crate::host::Host;
use crate::rules::Rules;
pub use errors::{ConfigErrors, Position, Remark};
use read::Reader;
pub use show::Secrets;

/// Everything that a server of this kind has to know.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The collections, in the order of the file.
    pub collections: Vec<Collection>,
    /// Addresses that may be fetched from though they are private, loopback or link-local.
    pub allow_private: Vec<Network>,
    /// Hosts that requests may name. Empty when the file does not say it.
    pub hosts: Vec<Host>,
    /// The indexes of jobs, if it has any.
    pub indexes: Option<Indexes>,
    /// The folder of the file, an absolute path. Relative paths in hashes of Redis begin there as well.
    pub folder: PathBuf,
}

/// Indexes of jobs, which are built when they are asked for. Of what is `None`, the
/// [cache](crawlspace_jobs) knows how it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Indexes {
    /// Where they are kept. Absolute.
    pub cache_dir: PathBuf,
    /// Where the metadata files of jobs are: absolute paths of folders and list files, and URLs.
    pub metadata: Vec<String>,
    /// Timeout of the wait for another process that builds the same index.
    pub wait: Option<Duration>,
    /// After how long a job that was missing is looked for again.
    pub retry_missing: Option<Duration>,
    /// What sorting may take of memory, in bytes.
    pub memory: Option<u64>,
    /// How large all of them together may be, in bytes.
    pub max_size: Option<u64>,
    /// How much has to stay free where they are, in bytes.
    pub min_free: Option<u64>,
    /// How long an unused index is kept.
    pub max_age: Option<Duration>,
    /// How long one is kept in any case after it was used.
    pub grace: Option<Duration>,
}

/// A collection: one step, or a sequence of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Collection {
    /// The first part of its URLs.
    pub name: String,
    /// Tried one after the other, until one has something. One, unless it is a sequence.
    pub steps: Vec<Step>,
    /// Whether the file says `sequence`, which one with a single step may.
    pub is_sequence: bool,
    /// `tags: redis://host:port/db/key`: the tag space of its access points.
    pub tags: Option<String>,
    /// `dedupe: redis://host:port/db/prefix`: the dedupe index that knows where originals of its revisits are. What
    /// stands before the names of its keys may be empty.
    pub dedupe: Option<String>,
    /// The access point of requests that name none.
    pub access_point: Option<String>,
    /// `acl_paths`, `default_access` and `embargo`: which captures readers get. `None` when they get all.
    pub rules: Option<Arc<Rules>>,
    /// `hidden_originals: lend`: captures that readers may not see lend their payload to revisits that they may see.
    pub lends_hidden: bool,
    /// Whether captures of similar URLs stand for a URL that has none.
    pub fuzzy: bool,
}

impl Collection {
    /// A collection of one step, and nothing else.
    fn of(name: &str, step: Step) -> Collection {
        Collection {
            name: name.to_owned(),
            steps: vec![step],
            is_sequence: false,
            tags: None,
            dedupe: None,
            access_point: None,
            rules: None,
            lends_hidden: false,
            fuzzy: false,
        }
    }
}

/// Sources that are asked at once, and what loads the records that their rows are about.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// One, or those of an `index_group`.
    pub sources: Vec<Source>,
    /// Whether the file says `index_group`, which one with a single source may.
    pub is_group: bool,
    /// Tried in this order.
    pub resource: Vec<Loader>,
}

/// A source with its name and limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// What rows say in `source`.
    pub name: String,
    /// What it is.
    pub kind: SourceKind,
    /// `index_timeout`: how long its first row may take.
    pub timeout: Duration,
    /// Limits that are given for it alone: bytes of an answer.
    pub max_bytes: Option<u64>,
    /// Rows of an answer.
    pub max_rows: Option<u64>,
}

/// What a source is.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceKind {
    /// A CDX or CDXJ file, or a folder of them.
    File {
        /// An absolute path, which may hold `{coll}`, or the URL of a file.
        path: Location,
    },
    /// A sorted set of CDXJ lines.
    Redis {
        /// `redis://host:port/db/key`; the key may hold `{coll}`.
        url: String,
    },
    /// A dedupe index.
    Dedupe {
        /// `redis://host:port/db`.
        url: String,
        /// What stands before the names of its keys.
        prefix: String,
        /// The crawl that records are added for where a request names none.
        crawl: Option<String>,
    },
    /// TimeGate and TimeMap of a Memento archive. The URLs hold `{url}`, and the last one `{timestamp}`.
    Memento {
        /// Asked for the memento closest to a moment.
        timegate_url: String,
        /// Asked for all mementos.
        timemap_url: String,
        /// Where a memento is, unaltered.
        replay_url: String,
    },
    /// A CDX server.
    Cdx {
        /// May hold `{url}` and `{timestamp}`.
        api_url: String,
        /// Where a capture is, unaltered. None when nothing says so.
        replay_url: Option<String>,
        /// How filters are written there; none are sent when it is not known.
        dialect: Option<Dialect>,
    },
    /// The live web.
    Live,
    /// A ZipNum cluster.
    ZipNum {
        /// An absolute path, of the cluster's folder or its secondary index (`*.idx`), or the URL of the latter.
        path: Location,
    },
    /// A WACZ file, a folder of them, or a list of them.
    Wacz {
        /// An absolute path, which may hold `{coll}`, or the URL of a file or a list.
        path: Location,
    },
    /// A collection of another server of this kind.
    Upstream {
        /// `http://host/coll`.
        url: String,
    },
}

/// The dialects of filters that CDX servers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// pywb.
    Pywb,
    /// OutbackCDX.
    Outback,
    /// The Internet Archive's wayback-cdx-server.
    Ia,
}

/// What turns a row into a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loader {
    /// `$live`: fetches `live_url`.
    Live,
    /// `warc-prefix+file://…`: a folder with WARC files. Absolute; may hold `{coll}`.
    Folder(PathBuf),
    /// `wacz+file://…`: a WACZ file, a folder of them, or a list of them, with WARC files. An absolute path, which may
    /// hold `{coll}`, or a URL.
    Packages(Location),
    /// `warc-prefix+http://…`: what stands before the names of WARC files, also in a store (`s3://bucket/`).
    Web(String),
    /// `warc-index+file://…`: a file of `name<TAB>path[<TAB>path …]`. Absolute.
    PathIndex(PathBuf),
    /// `warc-index+redis://…`: a hash from names to paths.
    RedisIndex(String),
}

impl Config {
    /// Files and folders that it names and that are read with it: those of access rules. Those of sources and loaders
    /// are not among them: they are read when they are asked, and looked at for changes then.
    pub fn files(&self) -> Vec<&Path> {
        let rules = self.collections.iter().flat_map(|one| &one.rules);
        let files = rules.flat_map(|rules| rules.paths.iter().chain(&rules.files));
        files.map(PathBuf::as_path).collect()
    }
}

impl SourceKind {
    /// The word for it, which rows say in `source_type`.
    pub fn word(&self) -> &'static str {
        match self {
            SourceKind::File { .. } => "file",
            SourceKind::Redis { .. } => "redis",
            SourceKind::Dedupe { .. } => "dedupe",
            SourceKind::Memento { .. } => "memento",
            SourceKind::Cdx { .. } => "cdx",
            SourceKind::Live => "live",
            SourceKind::ZipNum { .. } => "zipnum",
            SourceKind::Wacz { .. } => "wacz",
            SourceKind::Upstream { .. } => "upstream",
        }
    }
}
