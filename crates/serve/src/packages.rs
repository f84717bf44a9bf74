//! WACZ files, opened once for all sources and loaders that read them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crawlspace_fetch::Net;
use crawlspace_index::{Choice, Listings};
use crawlspace_wacz::Location;

use super::config::{Config, Loader, SourceKind};

/// Packages of all configured locations.
pub struct Packages {
    net: Arc<Net>,
    places: Mutex<HashMap<Location, Arc<Listings>>>,
}

impl Packages {
    /// Creates an empty set of packages.
    pub fn new(net: &Arc<Net>) -> Arc<Packages> {
        Arc::new(Packages {
            net: Arc::clone(net),
            places: Mutex::default(),
        })
    }

    /// Returns only the packages that another configuration uses as well.
    pub(crate) fn only(&self, config: &Config) -> Arc<Packages> {
        let mut kept = HashMap::new();
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        for step in config.collections.iter().flat_map(|one| &one.steps) {
            let indexes = step.sources.iter().filter_map(|source| match &source.kind {
                SourceKind::Wacz { path } => Some(path),
                _ => None,
            });
            let archives = step.resource.iter().filter_map(|loader| match loader {
                Loader::Packages(path) => Some(path),
                _ => None,
            });
            for path in indexes.chain(archives) {
                if let Some(listings) = places.get(path) {
                    kept.insert(path.clone(), Arc::clone(listings));
                }
            }
        }
        Arc::new(Packages {
            net: Arc::clone(&self.net),
            places: Mutex::new(kept),
        })
    }

    /// Returns the packages at a location.
    pub(crate) fn at(&self, location: &Location) -> Arc<Listings> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Listings::new(location.clone(), Choice::Packages).over(&self.net);
        let listings = places
            .entry(location.clone())
            .or_insert_with(|| Arc::new(new()));
        Arc::clone(listings)
    }
}
