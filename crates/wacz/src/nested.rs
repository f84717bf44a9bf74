//! Lists that list other lists.

use std::collections::{HashMap, HashSet};

use url::Origin;

use super::manifest::{Manifest, ManifestEntry};
use super::{Error, Location, Options, Problem};

/// How deep lists may lie in each other, the outermost included.
const MAX_DEPTH: usize = 8;
/// How many lists may be read in all.
const MAX_LISTS: usize = 10_000;

impl Manifest {
    /// Reads what lies there: a package if its name ends in `.wacz` or it is a zip file, else a list.
    ///
    /// An entry whose path ends in `.json` is a list itself, whose paths begin at its own folder: its entries stand in
    /// its place, with its `crawlId` where they have none. Lists may lie 8 deep; one that is named twice is read once.
    ///
    /// # Errors
    /// When it cannot be read, or is neither of them. Entries that are of no use are no error of the list, lists among
    /// them that cannot be read or contain themselves included.
    pub fn open(location: &Location, options: &Options) -> Result<Manifest, Error> {
        let list = Manifest::read(location, options)?;
        Ok(if list.is_full {
            flatten(list, location, options)
        } else {
            list
        })
    }
}

/// Puts the entries of lists in the place of the entries that name them. A list that cannot be read, lies too deep or
/// contains itself stays as an entry of no use, which says why; one that is named twice is read once.
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
    /// Servers that could not be reached, and the list that each was asked for.
    unreachable: HashMap<Origin, String>,
    /// Those that the current one lies in, and itself at the end.
    above: Vec<Location>,
    entries: Vec<ManifestEntry>,
}

impl Walk<'_> {
    /// `crawl` is that of entries which give none.
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
                            // Its entries may belong to any crawl.
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
            return Err(format!(
                "it is a list, and they lie more than {MAX_DEPTH} deep"
            ));
        }
        if self.seen.len() == MAX_LISTS {
            return Err(format!(
                "it is a list, and there are more than {MAX_LISTS} of them"
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
    /// Reads a list. A server that could not be reached is not asked again: it was tried several times, and there may
    /// be thousands of lists.
    fn read(&mut self, location: &Location) -> Result<Manifest, String> {
        let origin = match location {
            Location::Url(url) => Some(url.origin()),
            Location::File(_) => None,
        };
        if let Some(first) = origin.as_ref().and_then(|at| self.unreachable.get(at)) {
            return Err(format!(
                "it is not asked for: its server did not answer for {first}"
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

/// One location for all spellings of a path, as far as that can be said.
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
