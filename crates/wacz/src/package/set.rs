//! The packages of a set, found by name, by size and by hash.

use std::collections::{BTreeMap, HashMap};

use super::{Known, Presence, Required};
use crate::{Location, Options, Wacz};

/// What was found of a package that is needed.
pub(super) enum Match {
    /// The package of the set.
    At(usize),
    Not(Presence),
}

impl Match {
    /// The package of the set, if it is the right one.
    pub(super) fn package(&self) -> Option<usize> {
        match self {
            Match::At(at) => Some(*at),
            Match::Not(_) => None,
        }
    }
}

/// The packages of a set that can be read.
#[derive(Default)]
pub(super) struct Set {
    pub(super) packages: Vec<Package>,
    by_name: HashMap<String, Vec<usize>>,
    by_size: BTreeMap<u64, Vec<usize>>,
    /// Why some could not be read a second time.
    pub(super) errors: Vec<String>,
}

pub(super) struct Package {
    pub(super) known: Known,
    size: u64,
    /// When somebody asked for it: its hash, or nothing if that cannot be read.
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

    /// The package that is needed, or why it is not there.
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
        // Under another name, perhaps.
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

    /// The hexadecimal digits of a package's hash.
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

/// The digits of a SHA-256, in small letters, however it is written.
fn sha256_of(hash: &str) -> Option<String> {
    let lower = hash.to_ascii_lowercase();
    let digits = ["sha256:", "sha-256:"]
        .iter()
        .find_map(|prefix| lower.strip_prefix(prefix));
    let digits = digits.unwrap_or(&lower);
    let is_hash = digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    is_hash.then(|| digits.to_owned())
}
