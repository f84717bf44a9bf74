//! Index and resource APIs over HTTP, over many archives at once.
//!
//! A [`Config`] names collections. A collection has sources of index [rows](crawlspace_archive::row::Row), which are
//! asked all at once or one step after the other, and loaders, which find the WARC record that a row is about.
//! [`server::serve`] answers for all of them.
//!
//! | folder | what |
//! |---|---|
//! | [`config`] | the configuration file and its normal form |
//! | [`query`] | what a request asks for |
//! | [`source`] [`sources`] | where rows come from |
//! | `collection` `group` [`merge`] | many sources as one |
//! | `operations` | filter, clamp, collapse, order, limit |
//! | `shown` | rows as the Internet Archive's CDX server shows them |
//! | `reason` | what clients are told of failures |
//! | `fuzzy` | which URLs are similar |
//! | [`memory`] | what all requests together may keep |
//! | [`link_format`] | links with attributes, as Memento has them |
//! | [`packages`] | WACZ files that both read |
//! | [`resource`] | rows to WARC records |
//! | [`server`] | HTTP |
//! | [`metrics`] | figures as Prometheus reads them |
//! | `indexes` | indexes of jobs, which it gives besides |

#![warn(unreachable_pub)]

pub mod access;
mod breaker;
mod collection;
pub mod config;
mod figures;
mod fuzzy;
mod group;
mod indexes;
pub mod link_format;
pub mod memory;
pub mod merge;
pub mod metrics;
mod operations;
pub mod packages;
pub mod query;
mod reason;
pub mod resource;
pub mod server;
mod shown;
pub mod source;
pub mod sources;

use std::sync::Arc;

use self::collection::Collection;
use self::config::Config;
use self::indexes::Indexes;
use self::packages::Packages;
use self::resource::Resources;
use crawlspace_archive::net::{Guard, Net};

/// Everything that a configuration says, ready to be asked.
pub struct Federation {
    /// The collections, in the order of the file.
    pub collections: Vec<Arc<Collection>>,
    /// The way to other servers.
    pub net: Arc<Net>,
    /// The way to records.
    pub resources: Resources,
    /// Where this server is, as others see it, in links to itself: `https://archive.example`. As each request names it
    /// when it is not known.
    pub public_url: Option<String>,
    /// Indexes of jobs, if there are any.
    pub indexes: Option<Arc<Indexes>>,
}

impl Federation {
    /// Makes what the configuration says. Nothing is asked or opened yet, so that whatever is not there now can come
    /// later; only the folder of indexes of jobs is made if it is not there.
    ///
    /// # Errors
    /// What cannot work, in words.
    pub fn open(config: &Config) -> Result<Arc<Federation>, String> {
        Federation::open_at(config, None)
    }

    /// Opens a federation as [`Federation::open`] does, with the [URL](Federation::public_url) that others know it by.
    ///
    /// # Errors
    /// What cannot work, in words.
    pub fn open_at(config: &Config, public_url: Option<String>) -> Result<Arc<Federation>, String> {
        let net = Net::new(&config.allow_private)?;
        let packages = Packages::new(&net);
        let open = |collection| Collection::open(collection, &net, &packages).map(Arc::new);
        let collections = config.collections.iter().map(open);
        let open = |indexes| Indexes::open(indexes, Guard::new(&config.allow_private));
        let indexes = config.indexes.as_ref().map(open).transpose();
        Ok(Arc::new(Federation {
            collections: collections.collect::<Result<_, String>>()?,
            resources: Resources::new(&net, packages, &config.folder),
            net,
            public_url,
            indexes: indexes.map_err(|error| format!("indexes: {error}"))?,
        }))
    }

    /// The collection of that name.
    pub(crate) fn collection(&self, name: &str) -> Option<&Arc<Collection>> {
        self.collections.iter().find(|one| *one.name == *name)
    }
}

/// The example of the README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
