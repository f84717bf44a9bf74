//! The kinds of sources.

pub(crate) mod dedupe;
pub(crate) mod file;
mod redis;
mod remote;

use std::sync::Arc;

pub use self::dedupe::DedupeSource;
pub use self::redis::RedisSource;
pub use self::remote::{CdxSource, LiveSource, MementoSource, UpstreamSource};
use super::config::{self, SourceKind};
use crate::packages::Packages;
use crate::source::Source;
use crawlspace_archive::index::{Choice, Listings};
use crawlspace_archive::net::Net;
use crawlspace_archive::source::Limits;
use crawlspace_archive::wacz::Location;
pub use file::FileSource;

/// What a source needs to know of itself.
#[derive(Clone, Debug)]
pub struct Identity {
    /// What its rows say in `source`.
    pub name: Arc<str>,
    /// What they say in `source_type`.
    pub kind: &'static str,
    /// `name` and `kind` as members of JSON: `"source": "ia", "source_type": "cdx"`.
    pub members: Arc<str>,
    /// How much it may cost.
    pub limits: Limits,
    /// Whether the loaders of its step include `$live`, so that rows of a `cdx` source carry `live_url` and lose
    /// `filename`, `offset` and `length`; without it they keep these.
    pub live: bool,
}

/// Makes a source of what the configuration says. Nothing is asked or opened yet.
pub fn open(
    source: &config::Source,
    identity: Identity,
    net: &Arc<Net>,
    packages: &Packages,
) -> Arc<dyn Source> {
    let files =
        |location: &Location, choice| Arc::new(Listings::new(location.clone(), choice).over(net));
    match &source.kind {
        SourceKind::File { path } => Arc::new(FileSource::of(files(path, Choice::All), identity)),
        SourceKind::Dedupe { url, prefix, crawl } => {
            let timeout = identity.limits.first;
            Arc::new(DedupeSource::new(
                url,
                prefix,
                crawl.clone(),
                &identity.members,
                timeout,
            ))
        }
        SourceKind::Redis { url } => Arc::new(RedisSource::new(url, identity)),
        SourceKind::Wacz { path } => Arc::new(FileSource::of(packages.at(path), identity)),
        SourceKind::ZipNum { path } => {
            Arc::new(FileSource::of(files(path, Choice::Clusters), identity))
        }
        SourceKind::Cdx {
            api_url,
            replay_url,
            dialect,
        } => Arc::new(CdxSource::new(
            net.clone(),
            identity,
            api_url,
            replay_url.as_deref(),
            *dialect,
        )),
        SourceKind::Memento {
            timegate_url,
            timemap_url,
            replay_url,
        } => Arc::new(MementoSource::new(
            net.clone(),
            identity,
            timegate_url,
            timemap_url,
            replay_url,
        )),
        SourceKind::Live => Arc::new(LiveSource::new(identity)),
        SourceKind::Upstream { url } => Arc::new(UpstreamSource::new(net.clone(), identity, url)),
    }
}
