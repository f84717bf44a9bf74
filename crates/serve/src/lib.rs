//! Index and resource APIs over HTTP for many web archives at once.
//!
//! A [`Config`] names collections. A collection has sources of index [rows](crawlspace_index::row::Row), queried in
//! parallel or step by step, and loaders, which find the WARC record of a row. [`server::serve`] answers requests to
//! all collections.
//!
//! | module | content |
//! |---|---|
//! | [`config`] | the configuration file and its normal form |
//! | [`query`] | queries to the index |
//! | [`host`] | host names allowed in requests |
//! | [`source`] [`sources`] | sources of rows |
//! | `collection` `group` [`merge`] | many sources combined into one |
//! | `operations` | filter, clamp, collapse, order, limit |
//! | `shown` | values of rows in the dialect of the Internet Archive's CDX server |
//! | `reason` | failures as clients see them |
//! | `fuzzy` | captures of similar URLs |
//! | [`memory`] | memory limit of all requests |
//! | [`link_format`] | links with attributes, as in Memento |
//! | [`packages`] | WACZ files shared by sources and loaders |
//! | [`reload`] | replacing the configuration at run time |
//! | [`resource`] | loading WARC records of rows |
//! | `dialects` | API dialects: from requests to queries, from rows to responses |
//! | `routes` | mapping of paths to dialects |
//! | [`server`] | HTTP connections, common headers, the web page |
//! | [`metrics`] | metrics in the Prometheus text format |
//! | `words` | lists of words written as a single string |
//! | `indexes` | indexes of jobs |

#![warn(unreachable_pub)]

pub mod access;
mod breaker;
mod collection;
pub mod config;
mod dialects;
mod failure;
mod figures;
mod fuzzy;
mod gate;
mod group;
pub mod host;
mod indexes;
pub mod link_format;
pub mod memory;
pub mod merge;
pub mod metrics;
mod operations;
pub mod packages;
pub mod query;
mod reason;
pub mod reload;
pub mod resource;
mod routes;
pub mod rules;
pub mod server;
mod shown;
pub mod source;
pub mod sources;
mod words;
mod writable;

use std::collections::HashMap;
use std::sync::Arc;

use self::collection::Collection;
use self::config::Config;
use self::indexes::Indexes;
use self::packages::Packages;
use self::resource::Resources;
use crawlspace_fetch::{Guard, Net};

/// The collections of a configuration, ready to serve requests.
pub struct Federation {
    /// The collections, in the order of the file.
    pub collections: Vec<Arc<Collection>>,
    /// HTTP client for other servers.
    pub net: Arc<Net>,
    /// Loaders of records.
    pub resources: Resources,
    /// Public base URL of this server in links to itself: `https://archive.example`. If unknown, links use the `Host`
    /// of each request.
    pub public_url: Option<String>,
    /// Job indexes, if configured.
    pub indexes: Option<Arc<Indexes>>,
    packages: Arc<Packages>,
    /// The configuration from which the federation was created.
    config: Config,
}

impl Federation {
    /// Creates a federation from a configuration. Nothing is requested or opened yet, so sources may become available
    /// later; only the cache folder of job indexes is created if it is missing.
    ///
    /// # Errors
    /// Fails if the configuration cannot work; the message says why.
    pub fn open(config: &Config) -> Result<Arc<Federation>, String> {
        Federation::open_at(config, None)
    }

    /// Creates a federation like [`Federation::open`], with a [public URL](Federation::public_url).
    ///
    /// # Errors
    /// Fails if the configuration cannot work; the message says why.
    pub fn open_at(config: &Config, public_url: Option<String>) -> Result<Arc<Federation>, String> {
        Federation::open_after(None, config, public_url)
    }

    /// Creates a federation from another configuration, to replace this one. Both share what is unchanged: collections
    /// with their metrics, job indexes, open WACZ files, and connections to other servers.
    ///
    /// # Errors
    /// Fails if the configuration cannot work; the message says why.
    pub fn reopen(&self, config: &Config) -> Result<Arc<Federation>, String> {
        Federation::open_after(Some(self), config, self.public_url.clone())
    }

    fn open_after(
        before: Option<&Federation>,
        config: &Config,
        public_url: Option<String>,
    ) -> Result<Arc<Federation>, String> {
        // All collections use the HTTP client, which has the guard. A changed guard needs a new
        // client, so nothing can be shared.
        let kept = before.filter(|before| before.config.allow_private == config.allow_private);
        let net = match kept {
            Some(kept) => Arc::clone(&kept.net),
            None => Net::new(&config.allow_private)?,
        };
        if let Some(address) = before.and_then(|before| before.net.operator()) {
            net.refuse_operators(address);
        }
        let packages = match kept {
            Some(kept) => kept.packages.only(config),
            None => Packages::new(&net),
        };
        let open_before = kept.into_iter().flat_map(|kept| {
            let collections = kept.config.collections.iter().zip(&kept.collections);
            collections.map(|(config, open)| (&*config.name, (config, open)))
        });
        let open_before: HashMap<&str, _> = open_before.collect();
        let open = |wanted: &config::Collection| match open_before.get(&*wanted.name) {
            Some((config, open)) if *config == wanted => Ok(Arc::clone(open)),
            _ => Collection::open(wanted, &net, &packages).map(Arc::new),
        };
        let collections = config.collections.iter().map(open);
        let collections = collections.collect::<Result<_, String>>()?;
        let indexes = match kept.filter(|kept| kept.config.indexes == config.indexes) {
            Some(kept) => kept.indexes.clone(),
            None => {
                let open = |indexes| Indexes::open(indexes, Guard::new(&config.allow_private));
                let indexes = config.indexes.as_ref().map(open).transpose();
                indexes.map_err(|error| format!("indexes: {error}"))?
            }
        };
        Ok(Arc::new(Federation {
            collections,
            resources: Resources::new(&net, Arc::clone(&packages), &config.folder),
            net,
            public_url,
            indexes,
            packages,
            config: config.clone(),
        }))
    }

    /// Returns the collection with that name.
    pub(crate) fn collection(&self, name: &str) -> Option<&Arc<Collection>> {
        self.collections.iter().find(|one| *one.name == *name)
    }
}

/// Compiles and runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
