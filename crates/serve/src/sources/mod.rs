//! Kinds of sources.

pub(crate) mod dedupe;
pub(crate) mod file;
mod redis;
pub(crate) mod remote;

use std::sync::Arc;

pub use self::dedupe::DedupeSource;
pub(crate) use self::dedupe::Place;
pub use self::redis::RedisSource;
pub use self::remote::{CdxSource, LiveSource, MementoSource, UpstreamSource};
use super::config::{self, SourceKind};
use crate::packages::Packages;
use crate::source::Source;
use crawlspace_fetch::Net;
use crawlspace_index::source::Limits;
use crawlspace_index::{Choice, Listings, WarcFolder};
use crawlspace_wacz::Location;
pub use file::FileSource;

/// Identity and settings of a source.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Name of the source in the `source` field of rows.
    pub name: Arc<str>,
    /// Kind of the source in the `source_type` field of rows.
    pub kind: &'static str,
    /// `name` and `kind` as JSON members: `"source": "ia", "source_type": "cdx"`.
    pub members: Arc<str>,
    /// Limits of its answers.
    pub limits: Limits,
    /// The loaders of the source's step include `$live`: rows of a `cdx` source then get `live_url` instead of
    /// `filename`, `offset` and `length`.
    pub live: bool,
}

/// An opened source. A dedupe index can also be queried by digest.
pub struct Opened {
    /// Source of rows.
    pub source: Arc<dyn Source>,
    /// The dedupe index, if the source is one.
    pub dedupe: Option<DedupeSource>,
}

impl<S: Source + 'static> From<S> for Opened {
    fn from(source: S) -> Opened {
        Opened {
            source: Arc::new(source),
            dedupe: None,
        }
    }
}

/// Creates a source from its configuration. Nothing is requested or opened yet.
pub fn open(
    source: &config::Source,
    identity: Identity,
    net: &Arc<Net>,
    packages: &Packages,
) -> Opened {
    let files =
        |location: &Location, choice| Arc::new(Listings::new(location.clone(), choice).over(net));
    match &source.kind {
        SourceKind::File { path } => FileSource::of(files(path, Choice::All), identity).into(),
        SourceKind::Dedupe {
            url,
            prefix,
            sharded,
            crawl,
        } => {
            let place = match sharded {
                Some(name) => Place::Sharded(name.clone()),
                None => Place::Prefix(prefix.clone()),
            };
            let (crawl, timeout) = (crawl.clone(), identity.limits.first);
            let index = DedupeSource::new(url, place, crawl, &identity.members, timeout);
            Opened {
                dedupe: Some(index.clone()),
                ..index.into()
            }
        }
        SourceKind::Redis { url, has_aliases } => {
            RedisSource::new(url, *has_aliases, identity).into()
        }
        SourceKind::Wacz { path } => FileSource::of(packages.at(path), identity).into(),
        SourceKind::Warc { path, cache_dir } => {
            let warcs = WarcFolder::open(path, cache_dir.as_deref());
            let listings = Arc::new(Listings::of_warcs(path, warcs));
            FileSource::of(listings, identity).into()
        }
        SourceKind::ZipNum { path } => {
            FileSource::of(files(path, Choice::Clusters), identity).into()
        }
        SourceKind::Cdx {
            api_url,
            replay_url,
            dialect,
        } => CdxSource::new(
            net.clone(),
            identity,
            api_url,
            replay_url.as_deref(),
            *dialect,
        )
        .into(),
        SourceKind::Memento {
            timegate_url,
            timemap_url,
            replay_url,
        } => {
            MementoSource::new(net.clone(), identity, timegate_url, timemap_url, replay_url).into()
        }
        SourceKind::Live => LiveSource::new(identity).into(),
        SourceKind::Upstream { url } => UpstreamSource::new(net.clone(), identity, url).into(),
    }
}
