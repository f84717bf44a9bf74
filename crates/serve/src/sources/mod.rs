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
use crawlspace_fetch::Net;
use crawlspace_index::source::Limits;
use crawlspace_index::{Choice, Listings};
use crawlspace_wacz::Location;
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

/// A source, and the dedupe index that it is, if it is one: that is asked by digest as well.
pub struct Opened {
    /// What is asked for rows.
    pub source: Arc<dyn Source>,
    /// What is asked by digest.
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

/// Makes a source of what the configuration says. Nothing is asked or opened yet.
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
        SourceKind::Dedupe { url, prefix, crawl } => {
            let (crawl, timeout) = (crawl.clone(), identity.limits.first);
            let index = DedupeSource::new(url, prefix, crawl, &identity.members, timeout);
            Opened {
                dedupe: Some(index.clone()),
                ..index.into()
            }
        }
        SourceKind::Redis { url } => RedisSource::new(url, identity).into(),
        SourceKind::Wacz { path } => FileSource::of(packages.at(path), identity).into(),
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
