//! A set of packages, with look-ups by name, size and hash.

use std::collections::{BTreeMap, HashMap};

use super::{Known, Presence, Required};
use crate::{Location, Options, Wacz};

/// The result of looking for a required package.
pub(super) enum Match {
    /// The index of the package in the set.
    At(usize),
    Not(Presence),
}

impl Match {
    /// Returns the index of the package, if it was found.
    pub(super) fn package(&self) -> Option<usize> {
        match self {
            Match::At(at) => Some(*at),
            Match::Not(_) => None,
        }
    }
}

/// The readable packages of a set.
#[derive(Default)]
pub(super) struct Set {
    pub(super) packages: Vec<Package>,
    by_name: HashMap<String, Vec<usize>>,
    by_size: BTreeMap<u64, Vec<usize>>,
    /// Errors of packages that could not be read a second time.
    pub(super) errors: Vec<String>,
}

pub(super) struct Package {
    pub(super) known: Known,
    size: u64,
    /// The hash; the outer `None` means that it has not been computed yet, the inner `None` that
    /// the file cannot be read.
    hash: Option<Option<String>>,
}

impl Set {
    pub(super) fn add(&mut self, known: Known, size: u64) {
        let at = self.packages.len();
        let mut names = vec![known.location.name()];
        names.extend(known.name.clone().filter(|name| *name != names[0]));
        for name in names {
            self.by_name.entry(name).or_default().push(at);
        }
        self.by_size.entry(size).or_default().push(at);
        self.packages.push(Package {
            known,
            size,
            hash: None,
        });
    }

    /// Looks for a required package. Returns the package, or the reason why it is not in the set.
    pub(super) fn find(
        &mut self,
        required: &Required,
        options: &Options,
        progress: &mut impl FnMut(&str),
    ) -> Match {
        let hash = required.hash.as_deref().and_then(sha256_of);
        let mut wrong = Presence::Missing;
        for at in self
            .by_name
            .get(&required.filename)
            .cloned()
            .unwrap_or_default()
        {
            let package = &self.packages[at];
            let file = package.known.location.to_string();
            if required.size.is_some_and(|size| size != package.size) {
                wrong = Presence::WrongSize {
                    file,
                    found: package.size,
                };
                continue;
            }
            let Some(hash) = &hash else {
                return Match::At(at);
            };
            match self.hash(at, options, progress) {
                Some(found) if found == *hash => return Match::At(at),
                Some(found) => {
                    wrong = Presence::WrongHash {
                        file,
                        found: format!("sha256:{found}"),
                    }
                }
                None => {}
            }
        }
        // Look for the hash under another name.
        if let (Some(hash), Some(size)) = (hash, required.size) {
            for at in self.by_size.get(&size).cloned().unwrap_or_default() {
                if self
                    .hash(at, options, progress)
                    .is_some_and(|found| found == hash)
                {
                    return Match::At(at);
                }
            }
        }
        Match::Not(wrong)
    }

    /// Returns the hexadecimal digits of the hash of a package.
    fn hash(
        &mut self,
        at: usize,
        options: &Options,
        progress: &mut impl FnMut(&str),
    ) -> Option<String> {
        let package = &mut self.packages[at];
        if let Some(hash) = &package.hash {
            return hash.clone();
        }
        let declared = package.known.hash.as_deref().and_then(sha256_of);
        let hash = match (&package.known.location, declared) {
            (Location::Url(_), Some(declared)) => Some(declared),
            (location, _) => {
                progress(&location.to_string());
                match Wacz::open(location, options).and_then(|wacz| wacz.digest(|_| ())) {
                    Ok(digest) => sha256_of(&digest),
                    Err(error) => {
                        self.errors.push(error.to_string());
                        None
                    }
                }
            }
        };
        package.hash = Some(hash.clone());
        hash
    }
}

/// Converts any notation of a SHA-256 hash to lower-case hexadecimal digits.
fn sha256_of(hash: &str) -> Option<String> {
    let lower = hash.to_ascii_lowercase();
    let digits = ["sha256:", "sha-256:"]
        .iter()
        .find_map(|prefix| lower.strip_prefix(prefix));
    let digits = digits.unwrap_or(&lower);
    let is_hash = digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    is_hash.then(|| digits.to_owned())
}
