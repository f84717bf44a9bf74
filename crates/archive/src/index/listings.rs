//! Paths with `{coll}` in them, and what is there.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use crate::index::folder::{Choice, Listing};
use crate::sorted::steps::elsewhere;
use crate::source::SourceError;

/// Time after which files are listed again.
const REFRESH: Duration = Duration::from_secs(1);
/// Maximum number of collections whose listings are cached.
const MAX_COLLECTIONS: usize = 4096;
const VARIABLE: &str = "{coll}";

/// A path, and the files that it leads to for each collection.
#[derive(Debug)]
pub struct Listings {
    path: PathBuf,
    choice: Choice,
    varies: bool,
    /// Stands for the name of every collection, where the path is the same for all.
    any: Arc<str>,
    listings: RwLock<HashMap<Arc<str>, Listing>>,
    /// Held by whoever looks what there is.
    looking: tokio::sync::Mutex<()>,
    look: Duration,
}

impl Listings {
    /// The files at a path, which may have `{coll}` in it, chosen by their names.
    pub fn new(path: PathBuf, choice: Choice) -> Listings {
        Listings {
            varies: path.as_os_str().to_string_lossy().contains(VARIABLE),
            path,
            choice,
            any: Arc::from(""),
            listings: RwLock::default(),
            looking: tokio::sync::Mutex::default(),
            look: REFRESH,
        }
    }

    /// Lists files again when the last listing is older than `age`, in place of a second.
    pub fn with_age(mut self, age: Duration) -> Listings {
        self.look = age;
        self
    }

    /// The files, as they were a second ago at the earliest.
    ///
    /// # Errors
    /// When the name of the collection cannot be part of a path.
    pub async fn listing(&self, collection: &Arc<str>) -> Result<Listing, SourceError> {
        let name = if self.varies {
            Arc::clone(collection)
        } else {
            Arc::clone(&self.any)
        };
        let fresh = |listing: &Listing| listing.seen.elapsed() < self.look;
        let before = self.cached(&name);
        if let Some(listing) = before.as_ref().filter(|listing| fresh(listing)) {
            return Ok(listing.clone());
        }
        // One looks; meanwhile it is for others as it was.
        let looking = match (self.looking.try_lock(), before) {
            (Ok(looking), _) => looking,
            (Err(_), Some(before)) => return Ok(before),
            (Err(_), None) => self.looking.lock().await,
        };
        let before = self.cached(&name);
        if let Some(listing) = before.as_ref().filter(|listing| fresh(listing)) {
            return Ok(listing.clone());
        }
        let (path, choice) = (self.path_of(&name)?, self.choice);
        let listing = elsewhere(move || Listing::read(&path, choice, before.as_ref())).await?;
        let mut listings = self
            .listings
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if listings.len() >= MAX_COLLECTIONS {
            listings.clear();
        }
        listings.insert(name, listing.clone());
        drop(listings);
        drop(looking);
        Ok(listing)
    }

    /// Whether what it leads to is there; where that depends on the collection, for those that were asked for.
    ///
    /// # Errors
    /// What is not there, in words.
    pub fn health(&self) -> Result<(), String> {
        if !self.varies {
            std::fs::metadata(&self.path)
                .map_err(|error| format!("{}: {error}", self.path.display()))?;
        }
        let listings = self.listings.read().unwrap_or_else(PoisonError::into_inner);
        let problem = listings
            .values()
            .find_map(|listing| listing.problem.clone());
        problem.map_or(Ok(()), Err)
    }

    fn cached(&self, name: &str) -> Option<Listing> {
        let listings = self.listings.read().unwrap_or_else(PoisonError::into_inner);
        listings.get(name).cloned()
    }

    fn path_of(&self, name: &str) -> Result<PathBuf, SourceError> {
        if !self.varies {
            return Ok(self.path.clone());
        }
        let refused = name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']);
        match self.path.to_str() {
            Some(path) if !refused => Ok(Path::new(&path.replace(VARIABLE, name)).to_owned()),
            _ => Err(SourceError::Io(format!(
                "{}: there is no file for a collection of the name {name:?}",
                self.path.display()
            ))),
        }
    }
}
