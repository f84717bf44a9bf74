//! Manifests that refer to other manifests.

use std::collections::{HashMap, HashSet};

use url::Origin;

use super::manifest::{Manifest, ManifestEntry};
use super::{Error, Location, Options, Problem};

/// Maximum nesting depth of lists, including the outermost one.
const MAX_DEPTH: usize = 8;
/// Maximum total number of lists that are read.
const MAX_LISTS: usize = 10_000;

impl Manifest {
    /// Reads a package or a list. A location is a package if its name ends in `.wacz` or if it is a zip file.
    ///
    /// An entry whose path ends in `.json` is a list itself. Such an entry is replaced by the entries of that
    /// list. Entries without a `crawlId` get the `crawlId` of the replaced entry, and paths are relative to
    /// the folder of the list that contains them. Lists may be nested 8 deep; a list that appears twice is
    /// read once.
    ///
    /// # Errors
    /// Fails if the location cannot be read, or is neither a package nor a list. Unusable entries do not cause an
    /// error, and neither do nested lists that cannot be read or that contain themselves.
    pub fn open(location: &Location, options: &Options) -> Result<Manifest, Error> {
        let list = Manifest::read(location, options)?;
        Ok(if list.is_full {
            flatten(list, location, options)
        } else {
            list
        })
    }
}

/// Replaces the entries that refer to lists by the entries of these lists. A list that cannot be read, is nested too
/// deep or contains itself becomes an unusable entry that states the reason. A list that appears twice is read only
/// once.
fn flatten(list: Manifest, location: &Location, options: &Options) -> Manifest {
    let at = identity(location);
    let mut walk = Walk {
        options,
        seen: HashSet::from([at.clone()]),
        unreachable: HashMap::new(),
        above: vec![at],
        entries: Vec::with_capacity(list.entries.len()),
    };
    walk.add(list.entries, None);
    Manifest {
        entries: walk.entries,
        ..list
    }
}

struct Walk<'a> {
    options: &'a Options,
    /// Lists that were read.
    seen: HashSet<Location>,
    /// Servers that could not be reached, with the list for which each was contacted first.
    unreachable: HashMap<Origin, String>,
    /// The chain of lists from the outermost to the current one.
    above: Vec<Location>,
    entries: Vec<ManifestEntry>,
}

impl Walk<'_> {
    /// Adds entries; `crawl` is assigned to entries without a crawl.
    fn add(&mut self, entries: Vec<ManifestEntry>, crawl: Option<&str>) {
        for mut entry in entries {
            if entry.crawl.is_none() {
                entry.crawl = crawl.map(str::to_owned);
            }
            match &entry.location {
                Ok(location) if is_list(location) => {
                    if let Err(reason) = self.descend(&entry, location) {
                        self.entries.push(ManifestEntry {
                            location: Err(reason),
                            // The entries of the list may belong to any crawl.
                            crawl: None,
                            ..entry
                        });
                    }
                }
                _ => self.entries.push(entry),
            }
        }
    }

    fn descend(&mut self, entry: &ManifestEntry, location: &Location) -> Result<(), String> {
        let at = identity(location);
        if let Some(first) = self.above.iter().position(|other| *other == at) {
            let names = self.above[first..].iter().chain([&at]);
            let names: Vec<String> = names.map(ToString::to_string).collect();
            return Err(format!(
                "it is a list that contains itself: {}",
                names.join(" lists ")
            ));
        }
        if self.seen.contains(&at) {
            return Ok(());
        }
        if self.above.len() == MAX_DEPTH {
            return Err(format!("lists are nested more than {MAX_DEPTH} deep"));
        }
        if self.seen.len() == MAX_LISTS {
            return Err(format!(
                "it is a list, but at most {MAX_LISTS} lists are read"
            ));
        }
        let list = self.read(location)?;
        self.seen.insert(at.clone());
        if !list.is_full {
            self.entries.push(entry.clone());
            return Ok(());
        }
        self.above.push(at);
        self.add(list.entries, entry.crawl.as_deref());
        self.above.pop();
        Ok(())
    }
}

impl Walk<'_> {
    /// Reads a list. A server that could not be reached is not contacted again: the request was already retried, and
    /// there may be thousands of lists.
    fn read(&mut self, location: &Location) -> Result<Manifest, String> {
        let origin = match location {
            Location::Url(url) => Some(url.origin()),
            Location::File(_) => None,
        };
        if let Some(first) = origin.as_ref().and_then(|at| self.unreachable.get(at)) {
            return Err(format!(
                "it is skipped, because its server did not respond to the request for {first}"
            ));
        }
        Manifest::read(location, self.options).map_err(|error| {
            if let (
                Some(origin),
                Error {
                    problem: Problem::Connection(_),
                    ..
                },
            ) = (origin, &error)
            {
                self.unreachable.insert(origin, location.to_string());
            }
            error.to_string()
        })
    }
}

fn is_list(location: &Location) -> bool {
    location.name().to_ascii_lowercase().ends_with(".json")
}

/// Returns the same location for all paths that denote the same existing file. Other paths are returned
/// unchanged.
fn identity(location: &Location) -> Location {
    match location {
        Location::File(path) => {
            Location::File(path.canonicalize().unwrap_or_else(|_| path.clone()))
        }
        Location::Url(url) => {
            let mut url = url.clone();
            url.set_fragment(None);
            Location::Url(url)
        }
    }
}
