//! Index and resource APIs over HTTP, over many archives at once.
//!
//! A [`Config`] names collections. A collection has sources of index [rows](crawlspace_index::row::Row), which are
//! asked all at once or one step after the other, and loaders, which find the WARC record that a row is about.
//! [`server::serve`] answers for all of them.
//!
//! | folder | what |
//! |---|---|
//! | [`config`] | the configuration file and its normal form |
//! | [`query`] | what a request asks for |
//! | [`host`] | host names that requests may name |
//! | [`source`] [`sources`] | where rows come from |
//! | `collection` `group` [`merge`] | many sources as one |
//! | `operations` | filter, clamp, collapse, order, limit |
//! | `shown` | rows as the Internet Archive's CDX server shows them |
//! | `reason` | what clients are told of failures |
//! | `fuzzy` | which URLs are similar |
//! | [`memory`] | what all requests together may keep |
//! | [`link_format`] | links with attributes, as Memento has them |
//! | [`packages`] | WACZ files that both read |
//! | [`reload`] | another configuration while the server runs |
//! | [`resource`] | rows to WARC records |
//! | `dialects` | the ways in which clients ask: requests to queries, rows to answers |
//! | `routes` | which path is answered by which of them |
//! | [`server`] | HTTP connections, what every answer has, the page |
//! | [`metrics`] | figures as Prometheus reads them |
//! | `words` | lists of words that are written as one text |
//! | `indexes` | indexes of jobs, which it gives besides |

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

use std::collections::HashMap;
use std::sync::Arc;

use self::collection::Collection;
use self::config::Config;
use self::indexes::Indexes;
use self::packages::Packages;
use self::resource::Resources;
use crawlspace_fetch::{Guard, Net};

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
    packages: Arc<Packages>,
    /// What all of it was made from.
    config: Config,
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
        Federation::open_after(None, config, public_url)
    }

    /// Opens what another configuration says, to be served in place of this federation. Both share what is unchanged:
    /// collections with their figures, indexes of jobs, WACZ files that are open, and connections to other servers.
    ///
    /// # Errors
    /// What cannot work, in words.
    pub fn reopen(&self, config: &Config) -> Result<Arc<Federation>, String> {
        Federation::open_after(Some(self), config, self.public_url.clone())
    }

    fn open_after(
        before: Option<&Federation>,
        config: &Config,
        public_url: Option<String>,
    ) -> Result<Arc<Federation>, String> {
        // Everything that fetches does it by a way with the guard, so that under another guard nothing stays.
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

    /// The collection of that name.
    pub(crate) fn collection(&self, name: &str) -> Option<&Arc<Collection>> {
        self.collections.iter().find(|one| *one.name == *name)
    }
}

/// The example of the README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
