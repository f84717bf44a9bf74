//! Cached listings of paths, which may contain `{coll}`, and of URLs.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tokio::sync::OwnedMutexGuard;

use crate::index::directory::build::read_unknown;
use crate::index::folder::{Choice, Listing};
use crate::index::warcs::WarcFolder;
use crate::sorted::steps::elsewhere;
use crate::source::SourceError;
use crawlspace_fetch::Net;
use crawlspace_wacz::Location;

/// Time after which files are listed again.
const REFRESH: Duration = Duration::from_secs(1);
/// Time after which packages on servers are checked again.
const REFRESH_REMOTE: Duration = Duration::from_secs(30);
/// Time after which packages on servers are checked again if something was wrong with them.
const RETRY_REMOTE: Duration = Duration::from_secs(5);
/// Maximum number of collections whose listings are cached.
const MAX_COLLECTIONS: usize = 4096;
const VARIABLE: &str = "{coll}";

/// A path or URL, and a cached listing of its files for each collection.
#[derive(Debug)]
pub struct Listings {
    location: Location,
    choice: Choice,
    net: Option<Arc<Net>>,
    /// The folder of WARC files whose indexes are listed.
    warcs: Option<Arc<WarcFolder>>,
    varies: bool,
    /// The key of the only listing, if the path is the same for all collections.
    any: Arc<str>,
    listings: RwLock<HashMap<Arc<str>, Arc<Listing>>>,
    /// Held while files are being listed, by one task at a time.
    looking: Arc<tokio::sync::Mutex<()>>,
    look: Duration,
    /// Number of requests that wait for a listing.
    waiting: Arc<AtomicUsize>,
}

/// Registers a request that waits for a listing. Listing stops when no request waits any longer.
struct Waiting(Arc<AtomicUsize>);

impl Waiting {
    fn on(listings: &Listings) -> Waiting {
        listings.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(Arc::clone(&listings.waiting))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Listings {
    /// Creates the listings of a path, which may contain `{coll}`, or of a URL; `choice` selects files by name. Files
    /// on servers need a [network](Listings::over).
    pub fn new(location: impl Into<Location>, choice: Choice) -> Listings {
        let location = location.into();
        let varies = match &location {
            Location::File(path) => path.as_os_str().to_string_lossy().contains(VARIABLE),
            Location::Url(_) => false,
        };
        Listings {
            varies,
            location,
            choice,
            net: None,
            warcs: None,
            any: Arc::from(""),
            listings: RwLock::default(),
            looking: Arc::default(),
            look: REFRESH,
            waiting: Arc::default(),
        }
    }

    /// Creates the listings of the indexes of a folder of WARC files.
    pub fn of_warcs(folder: &Path, warcs: Arc<WarcFolder>) -> Listings {
        Listings {
            varies: false,
            warcs: Some(warcs),
            ..Listings::new(folder.to_owned(), Choice::Warcs)
        }
    }

    /// Returns the folder of WARC files, if the listings are of one.
    pub fn warcs(&self) -> Option<&Arc<WarcFolder>> {
        self.warcs.as_ref()
    }

    /// Reads files on servers through this network.
    pub fn over(mut self, net: &Arc<Net>) -> Listings {
        self.net = Some(Arc::clone(net));
        self
    }

    /// Lists files again when the last listing is older than `age` (default: one second).
    pub fn with_age(mut self, age: Duration) -> Listings {
        self.look = age;
        self
    }

    /// Returns the files. The listing is at most a second old. A listing of packages on servers is
    /// at most half a minute old, or older while the servers are slow to respond.
    ///
    /// # Errors
    /// Fails if the name of the collection cannot be part of a path.
    pub async fn listing(
        self: &Arc<Self>,
        collection: &Arc<str>,
    ) -> Result<Arc<Listing>, SourceError> {
        let name = self.name_of(collection);
        let before = self.cached(&name);
        if let Some(listing) = before.as_ref().filter(|listing| self.is_fresh(listing)) {
            return Ok(Arc::clone(listing));
        }
        let waiting = Waiting::on(self);
        // One request lists the files; meanwhile, other requests use the previous listing.
        let turn = Arc::clone(&self.looking).try_lock_owned();
        let turn = match (turn, before) {
            (Ok(turn), before) => match before {
                // Servers are slow, so their files are listed in the background, unless the
                // previous listing is known to be outdated.
                Some(before) if before.is_remote() && !before.is_superseded() => {
                    let listings = Arc::clone(self);
                    drop(tokio::spawn(async move {
                        let _waiting = waiting;
                        listings.look(name, turn).await
                    }));
                    return Ok(before);
                }
                _ => turn,
            },
            (Err(_), Some(before)) => return Ok(before),
            (Err(_), None) => Arc::clone(&self.looking).lock_owned().await,
        };
        self.look_apart(name, turn).await
    }

    /// Lists the files again, after a file of the last listing turned out to have changed.
    ///
    /// # Errors
    /// Fails if the name of the collection cannot be part of a path.
    pub async fn listing_again(
        self: &Arc<Self>,
        collection: &Arc<str>,
    ) -> Result<Arc<Listing>, SourceError> {
        let name = self.name_of(collection);
        let asked = Instant::now();
        let _waiting = Waiting::on(self);
        let turn = Arc::clone(&self.looking).lock_owned().await;
        // Another request may have listed the files in the meantime.
        if let Some(listing) = self.cached(&name).filter(|listing| listing.seen >= asked) {
            return Ok(listing);
        }
        self.mark_stale(&name);
        self.look_apart(name, turn).await
    }

    fn mark_stale(&self, name: &str) {
        let listings = self.listings.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(listing) = listings.get(name) {
            listing.is_stale.store(true, Ordering::Relaxed);
        }
    }

    fn name_of(&self, collection: &Arc<str>) -> Arc<str> {
        Arc::clone(if self.varies { collection } else { &self.any })
    }

    /// Lists the files in a separate task, because other requests may wait for the result after
    /// this one is cancelled.
    async fn look_apart(
        self: &Arc<Self>,
        name: Arc<str>,
        turn: OwnedMutexGuard<()>,
    ) -> Result<Arc<Listing>, SourceError> {
        let listings = Arc::clone(self);
        let looked = tokio::spawn(async move { listings.look(name, turn).await }).await;
        looked.unwrap_or_else(|error| Err(SourceError::Io(format!("reading failed: {error}"))))
    }

    /// Lists the files, unless another request just did.
    async fn look(
        self: Arc<Self>,
        name: Arc<str>,
        turn: OwnedMutexGuard<()>,
    ) -> Result<Arc<Listing>, SourceError> {
        let before = self.cached(&name);
        if let Some(listing) = before.as_ref().filter(|listing| self.is_fresh(listing)) {
            return Ok(Arc::clone(listing));
        }
        let (location, choice) = (self.location_of(&name)?, self.choice);
        let (net, warcs) = (self.net.clone(), self.warcs.clone());
        let waiting = Arc::clone(&self.waiting);
        let read = move || {
            let is_wanted = || waiting.load(Ordering::Relaxed) > 0;
            let before = before.as_deref();
            let listing = match &warcs {
                Some(warcs) => Listing::of_warcs(warcs, before),
                None => Listing::read(&location, choice, before, net.as_ref(), &is_wanted),
            };
            read_unknown(&listing.directory);
            listing
        };
        let listing = Arc::new(elsewhere(read).await?);
        if listing.is_abandoned {
            let what = "the requests that needed the packages have ended";
            return Err(SourceError::Io(what.to_owned()));
        }
        let mut listings = self
            .listings
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if listings.len() >= MAX_COLLECTIONS {
            listings.clear();
        }
        listings.insert(name, Arc::clone(&listing));
        drop(listings);
        drop(turn);
        Ok(listing)
    }

    fn is_fresh(&self, listing: &Listing) -> bool {
        let age = listing.seen.elapsed();
        let is_stale = listing.is_stale.load(Ordering::Relaxed);
        let most = if listing.has_problem() {
            RETRY_REMOTE
        } else {
            REFRESH_REMOTE
        };
        !is_stale && age < self.look
            || age < most && listing.is_remote() && !listing.is_superseded() && !is_stale
    }

    /// Checks that the path or URL can be read. If the path contains `{coll}`, only the collections requested
    /// so far are checked.
    ///
    /// # Errors
    /// Returns the message of the first problem.
    pub fn health(&self) -> Result<(), String> {
        if let Some(warcs) = &self.warcs {
            return warcs.problem().map_or(Ok(()), Err);
        }
        if let (Location::File(path), false) = (&self.location, self.varies) {
            std::fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        let listings = self.listings.read().unwrap_or_else(PoisonError::into_inner);
        let problem = listings.values().find_map(|listing| listing.problem());
        problem.map_or(Ok(()), Err)
    }

    fn cached(&self, name: &str) -> Option<Arc<Listing>> {
        let listings = self.listings.read().unwrap_or_else(PoisonError::into_inner);
        listings.get(name).cloned()
    }

    fn location_of(&self, name: &str) -> Result<Location, SourceError> {
        let path = match &self.location {
            Location::File(path) if self.varies => path,
            location => return Ok(location.clone()),
        };
        let refused = name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']);
        match path.to_str() {
            Some(path) if !refused => Ok(Location::File(path.replace(VARIABLE, name).into())),
            _ => Err(SourceError::Io(format!(
                "{}: no file matches the collection name {name:?}",
                path.display()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_without_waiting_queries_are_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let list = dir.path().join("list.json");
        let names: Vec<String> = (0..100)
            .map(|n| format!("{{\"path\": \"{n}.wacz\"}}"))
            .collect();
        let text = format!(
            "{{\"profile\": \"multi-wacz-package\", \"resources\": [{}]}}",
            names.join(",")
        );
        std::fs::write(&list, text).unwrap();
        let location = Location::File(list);
        let asked = AtomicUsize::new(0);
        let read = |most: usize| {
            asked.store(0, Ordering::Relaxed);
            let is_wanted = || asked.fetch_add(1, Ordering::Relaxed) < most;
            Listing::read(&location, Choice::Packages, None, None, &is_wanted)
        };
        let whole = read(usize::MAX);
        assert!(!whole.is_abandoned);
        assert_eq!(asked.load(Ordering::Relaxed), 100);
        let left = read(10);
        assert!(left.is_abandoned);
        assert_eq!(asked.load(Ordering::Relaxed), 11);
        assert_eq!(left.packages.len(), 10);
    }

    #[tokio::test]
    async fn waiting_query_is_counted_until_it_ends() {
        let dir = tempfile::tempdir().unwrap();
        let listings = Arc::new(Listings::new(dir.path().to_owned(), Choice::Packages));
        let name: Arc<str> = Arc::from("c");
        listings.listing(&name).await.unwrap();
        assert_eq!(listings.waiting.load(Ordering::Relaxed), 0);
        let waiting = Waiting::on(&listings);
        assert_eq!(listings.waiting.load(Ordering::Relaxed), 1);
        drop(waiting);
        assert_eq!(listings.waiting.load(Ordering::Relaxed), 0);
    }
}
