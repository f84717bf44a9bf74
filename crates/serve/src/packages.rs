//! WACZ files, which are opened once for the sources and loaders that read them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crawlspace_archive::index::{Choice, Listings};
use crawlspace_archive::net::Net;
use crawlspace_archive::wacz::Location;

/// The packages at each place that something is configured for.
pub struct Packages {
    net: Arc<Net>,
    places: Mutex<HashMap<Location, Arc<Listings>>>,
}

impl Packages {
    /// With nothing open yet.
    pub fn new(net: &Arc<Net>) -> Arc<Packages> {
        Arc::new(Packages {
            net: Arc::clone(net),
            places: Mutex::default(),
        })
    }

    /// The packages at a place.
    pub(crate) fn at(&self, location: &Location) -> Arc<Listings> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Listings::new(location.clone(), Choice::Packages).over(&self.net);
        let listings = places
            .entry(location.clone())
            .or_insert_with(|| Arc::new(new()));
        Arc::clone(listings)
    }
}
