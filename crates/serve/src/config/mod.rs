//! The configuration file, and its normal form, in which all short forms are expanded.

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

/// The complete configuration of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Collections, in the order of the file.
    pub collections: Vec<Collection>,
    /// Private, loopback and link-local addresses from which the server may fetch. Other such addresses are refused.
    pub allow_private: Vec<Network>,
    /// Host names that requests may use. Empty if the file has none.
    pub hosts: Vec<Host>,
    /// Configuration of job indexes, if the server offers them.
    pub indexes: Option<Indexes>,
    /// Absolute path of the file's folder. Relative paths in Redis hashes are relative to this folder as well.
    pub folder: PathBuf,
}

/// Configuration of job indexes, which are built on request. Values that are `None` use the default of the
/// [cache](crawlspace_jobs).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Indexes {
    /// Absolute path of the cache folder.
    pub cache_dir: PathBuf,
    /// Locations of the metadata files of jobs: absolute paths of folders and list files, and URLs.
    pub metadata: Vec<String>,
    /// Timeout of the wait for another process that builds the same index.
    pub wait: Option<Duration>,
    /// Time after which a missing job is looked up again.
    pub retry_missing: Option<Duration>,
    /// Memory limit of sorting, in bytes.
    pub memory: Option<u64>,
    /// Maximum total size of all indexes, in bytes.
    pub max_size: Option<u64>,
    /// Minimum free space to keep on the cache's file system, in bytes.
    pub min_free: Option<u64>,
    /// Time after which an unused index is evicted.
    pub max_age: Option<Duration>,
    /// Minimum time for which an index is kept after its last use.
    pub grace: Option<Duration>,
}

/// A collection: one step, or a sequence of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Collection {
    /// First path segment of the collection's URLs.
    pub name: String,
    /// Steps, tried in order until one has rows. Exactly one unless the collection is a sequence.
    pub steps: Vec<Step>,
    /// Set if the file says `sequence`, even with a single step.
    pub is_sequence: bool,
    /// `tags: redis://host:port/db/key`: the tag space of its access points.
    pub tags: Option<String>,
    /// `dedupe: redis://host:port/db/prefix`: the dedupe index that knows the originals of its revisits. The key prefix
    /// may be empty.
    pub dedupe: Option<String>,
    /// `writable`: the sorted set to which clients may add rows, which is the only source of the collection.
    pub writable: Option<Writable>,
    /// Access point of requests that name none.
    pub access_point: Option<String>,
    /// `acl_paths`, `default_access` and `embargo`: the captures that readers get. `None` if readers get all captures.
    pub rules: Option<Arc<Rules>>,
    /// `hidden_originals: lend`: hidden captures lend their payload to revisits that readers may see.
    pub lends_hidden: bool,
    /// Returns captures of similar URLs for a URL that has none.
    pub fuzzy: bool,
}

impl Collection {
    /// Creates a collection of one step with all other settings at their defaults.
    fn of(name: &str, step: Step) -> Collection {
        Collection {
            name: name.to_owned(),
            steps: vec![step],
            is_sequence: false,
            tags: None,
            dedupe: None,
            writable: None,
            access_point: None,
            rules: None,
            lends_hidden: false,
            fuzzy: false,
        }
    }
}

/// The sorted set of a writable collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writable {
    /// `redis://host:port/db`.
    pub redis_url: String,
    /// Key of the sorted set, which may contain `{coll}`. Aliases are in a hash, whose key has the suffix `:aliases`.
    pub key: String,
    /// Absolute path of the file with the token that writes need.
    pub token_file: PathBuf,
}

/// Sources that are queried in parallel, and the loaders of their records.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// A single source, or the members of an `index_group`.
    pub sources: Vec<Source>,
    /// Set if the file says `index_group`, even with a single source.
    pub is_group: bool,
    /// Loaders, in the order in which they are tried.
    pub resource: Vec<Loader>,
}

/// A source with its name and limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Name of the source in the `source` field of rows.
    pub name: String,
    /// Kind and location of the source.
    pub kind: SourceKind,
    /// `index_timeout`: timeout of the source's first row.
    pub timeout: Duration,
    /// Maximum size of an answer of this source, in bytes.
    pub max_bytes: Option<u64>,
    /// Maximum number of rows of an answer of this source.
    pub max_rows: Option<u64>,
}

/// Kind and location of a source.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceKind {
    /// A CDX or CDXJ file, or a folder of them.
    File {
        /// Absolute path, which may contain `{coll}`, or the URL of a file.
        path: Location,
    },
    /// A sorted set of CDXJ lines.
    Redis {
        /// `redis://host:port/db/key`; the key may contain `{coll}`.
        url: String,
        /// The hash `key:aliases` contains aliases of urlkeys, because the collection is writable.
        has_aliases: bool,
    },
    /// A dedupe index.
    Dedupe {
        /// `redis://host:port/db`.
        url: String,
        /// Prefix of the index's key names.
        prefix: String,
        /// Name of the index, if it is sharded; then the prefix is empty.
        sharded: Option<String>,
        /// Default crawl of added records, for requests that name none.
        crawl: Option<String>,
    },
    /// A Memento archive with a TimeGate and a TimeMap. The URLs contain `{url}`, and `replay_url` also `{timestamp}`.
    Memento {
        /// URL of the memento closest to a point in time.
        timegate_url: String,
        /// URL of the list of all mementos.
        timemap_url: String,
        /// URL of an unaltered memento.
        replay_url: String,
    },
    /// A CDX server.
    Cdx {
        /// URL of the index query; may contain `{url}` and `{timestamp}`.
        api_url: String,
        /// URL of an unaltered capture, or `None` if unknown.
        replay_url: Option<String>,
        /// Filter syntax of the server; without it, no filters are sent.
        dialect: Option<Dialect>,
    },
    /// The live web.
    Live,
    /// A ZipNum cluster.
    ZipNum {
        /// Absolute path of the cluster's folder or secondary index (`*.idx`), or the URL of the index.
        path: Location,
    },
    /// A WACZ file, a folder of them, or a list of them.
    Wacz {
        /// Absolute path, which may contain `{coll}`, or the URL of a file or list.
        path: Location,
    },
    /// A folder of WARC files, which are indexed in the background.
    Warc {
        /// Absolute path of the folder.
        path: PathBuf,
        /// Absolute path of the folder for the indexes; by default they are in the folder itself.
        cache_dir: Option<PathBuf>,
    },
    /// A collection of an upstream server: another Crawlspace server, or pywb's warcserver.
    Upstream {
        /// `http://host/coll`.
        url: String,
    },
}

/// Filter dialects of CDX servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// pywb.
    Pywb,
    /// OutbackCDX.
    Outback,
    /// The Internet Archive's wayback-cdx-server.
    Ia,
}

/// A loader of the record that belongs to a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loader {
    /// `$live`: fetches `live_url`.
    Live,
    /// `warc-prefix+file://…`: absolute path of a folder of WARC files; may contain `{coll}`.
    Folder(PathBuf),
    /// `wacz+file://…`: a WACZ file, a folder of them, or a list of them. An absolute path, which may contain `{coll}`,
    /// or a URL.
    Packages(Location),
    /// `warc-prefix+http://…`: URL prefix of WARC file names, also of an object store (`s3://bucket/`).
    Web(String),
    /// `warc-index+file://…`: absolute path of a file with lines `name<TAB>path[<TAB>path …]`.
    PathIndex(PathBuf),
    /// `warc-index+redis://…`: a Redis hash from names to paths.
    RedisIndex(String),
}

impl Config {
    /// Returns the files and folders that are read together with the configuration: those of access rules, and
    /// tokens. Files of sources and loaders are not included: they are opened by queries, which check them for changes.
    pub fn files(&self) -> Vec<&Path> {
        let rules = self.collections.iter().flat_map(|one| &one.rules);
        let files = rules.flat_map(|rules| rules.paths.iter().chain(&rules.files));
        let writable = self.collections.iter().flat_map(|one| &one.writable);
        let files = files.chain(writable.map(|writable| &writable.token_file));
        files.map(PathBuf::as_path).collect()
    }
}

impl SourceKind {
    /// Returns the name of the kind, as in the `source_type` field of rows.
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
            SourceKind::Warc { .. } => "warc",
            SourceKind::Upstream { .. } => "upstream",
        }
    }
}
