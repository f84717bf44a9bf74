//! Checks whether a set of packages contains all packages that they require.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::cycles::cycles;
use super::set::{Match, Set};
use super::{Required, requires};
use crate::{Error, Location, Manifest, Options, Problem, Wacz};

/// A package of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The location of the package.
    pub location: Location,
    /// The name of the package in a list, if that name differs from the file name.
    pub name: Option<String>,
    /// The hash of the package according to a list. For a package at a URL, this hash is trusted, because
    /// computing the hash would require downloading the whole package.
    pub hash: Option<String>,
}

/// The result of checking a set of packages.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// True if all packages can be read, and everything that they require is in the set.
    pub complete: bool,
    /// The packages of the set.
    pub packages: Vec<Checked>,
    /// Names of packages that require one another in a cycle. A cycle is not an error.
    #[serde(rename = "circles")]
    pub cycles: Vec<Vec<String>>,
    /// Errors of files that cannot be read, and of unusable entries of lists.
    pub errors: Vec<String>,
}

/// A package, and the packages that it requires.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Checked {
    /// The location of the package.
    pub file: String,
    /// The name of the file.
    pub name: String,
    /// True if everything that the package requires, directly and indirectly, is in the set.
    pub complete: bool,
    /// The packages that this package requires directly.
    pub requires: Vec<Requirement>,
}

/// A required package, and whether the set contains it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// The required package.
    #[serde(flatten)]
    pub required: Required,
    /// The result of looking for that package in the set.
    #[serde(flatten)]
    pub state: Presence,
}

/// The result of looking for a required package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum Presence {
    /// The set contains the package.
    Present {
        /// The location of the package.
        file: String,
        /// True if everything that this package requires is in the set.
        complete: bool,
    },
    /// The set contains no package with that name or hash.
    Missing,
    /// A package with that name exists, but its size differs.
    WrongSize {
        /// The location of that package.
        file: String,
        /// The size of that package in bytes.
        found: u64,
    },
    /// A package with that name exists, but its hash differs.
    WrongHash {
        /// The location of that package.
        file: String,
        /// The hash of that package.
        found: String,
    },
}

impl Known {
    /// Creates a package that no list describes.
    pub(crate) fn at(location: Location) -> Known {
        Known {
            location,
            name: None,
            hash: None,
        }
    }

    /// Finds the packages at a location: a file, all `.wacz` files in a folder and its subfolders, or all packages of a
    /// manifest. Files and entries that cannot be used are returned as errors.
    pub fn all(location: &Location, options: &Options) -> Vec<Result<Known, Error>> {
        match location {
            Location::File(path) if path.is_dir() => in_folder(path),
            _ => match Manifest::open(location, options) {
                Err(error) => vec![Err(error)],
                Ok(manifest) => manifest
                    .entries
                    .into_iter()
                    .map(|entry| match entry.location {
                        Ok(location) => Ok(Known {
                            location,
                            name: Some(entry.name),
                            hash: entry.hash,
                        }),
                        Err(reason) => {
                            let name = entry.name;
                            let problem =
                                Problem::Location(format!("{name:?} cannot be used: {reason}"));
                            Err(Error::new(location.to_string(), problem))
                        }
                    })
                    .collect(),
            },
        }
    }
}

fn in_folder(folder: &Path) -> Vec<Result<Known, Error>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let failed = |error| Err(Error::new(folder.display().to_string(), Problem::Io(error)));
        let entries: Result<Vec<PathBuf>, _> = match fs::read_dir(&folder) {
            Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
            Err(error) => Err(error),
        };
        match entries {
            Err(error) => found.push(failed(error)),
            Ok(mut entries) => {
                entries.sort_unstable();
                for path in entries {
                    // A link to a folder may form a cycle.
                    if path.is_dir() && !path.is_symlink() {
                        folders.push(path);
                    } else if path.is_file()
                        && path
                            .extension()
                            .is_some_and(|e| e.eq_ignore_ascii_case("wacz"))
                    {
                        found.push(Ok(Known::at(Location::File(path))));
                    }
                }
            }
        }
    }
    found
}

/// Checks the requirements of each package against the set. A required package is matched by its hash; if the hash was
/// not known when the requirement was written, by its name.
///
/// Computing a hash reads the whole file, so it is done only for candidates of the right size. `progress` is called
/// with each file that is being read.
///
/// ```no_run
/// use crawlspace_wacz::package::{check, Known};
/// use crawlspace_wacz::{Location, Options};
/// let options = Options::default();
/// let known = Known::all(&Location::parse("crawls/")?, &options);
/// let known: Vec<Known> = known.into_iter().collect::<Result<_, _>>()?;
/// for package in check(&known, &options, |_| ()).packages {
///     println!("{}: {}", package.name, if package.complete { "complete" } else { "lacks others" });
/// }
/// # Ok::<(), crawlspace_wacz::Error>(())
/// ```
pub fn check(known: &[Known], options: &Options, mut progress: impl FnMut(&str)) -> Report {
    let mut report = Report::default();
    let mut set = Set::default();
    let mut needed = Vec::new();
    let mut seen = HashSet::new();
    for known in known {
        // The same file may be listed twice.
        if !seen.insert(&known.location) {
            continue;
        }
        progress(&known.location.to_string());
        let opened = Wacz::open(&known.location, options);
        let about = opened.and_then(|wacz| Ok((wacz.size(), requires(&wacz)?, has_index(&wacz))));
        match about {
            Ok((size, required, has_index)) => {
                if !has_index {
                    let what = format!(
                        "{}: it has no index, so nothing in it can be found",
                        known.location
                    );
                    report.errors.push(what);
                }
                set.add(known.clone(), size);
                needed.push(required);
            }
            Err(error) => report.errors.push(error.to_string()),
        }
    }
    let mut edges = Vec::new();
    for required in needed {
        let found: Vec<(Required, Match)> = required
            .into_iter()
            .map(|required| {
                let found = set.find(&required, options, &mut progress);
                (required, found)
            })
            .collect();
        edges.push(found);
    }
    report.errors.append(&mut set.errors);
    let present: Vec<Vec<usize>> = edges
        .iter()
        .map(|found| {
            found
                .iter()
                .filter_map(|(_, found)| found.package())
                .collect()
        })
        .collect();
    let lacks: Vec<bool> = edges
        .iter()
        .map(|found| found.iter().any(|(_, found)| found.package().is_none()))
        .collect();
    let incomplete = whoever_reaches(&present, lacks);
    let names = |i: usize| set.packages[i].known.location.name();
    report.cycles = cycles(&present)
        .into_iter()
        .map(|cycle| cycle.into_iter().map(names).collect())
        .collect();
    for (i, found) in edges.into_iter().enumerate() {
        let requires = found.into_iter().map(|(required, found)| Requirement {
            required,
            state: match found {
                Match::At(at) => Presence::Present {
                    file: set.packages[at].known.location.to_string(),
                    complete: !incomplete[at],
                },
                Match::Not(state) => state,
            },
        });
        report.packages.push(Checked {
            requires: requires.collect(),
            file: set.packages[i].known.location.to_string(),
            name: names(i),
            complete: !incomplete[i],
        });
    }
    report.complete = report.errors.is_empty() && !incomplete.contains(&true);
    report
}

/// Returns false for a package that has WARC files but no index of them.
fn has_index(wacz: &Wacz) -> bool {
    let is_archive = |(name, _): (&str, bool)| name.contains("archive/") && !name.ends_with('/');
    !wacz.indexes().is_empty() || !wacz.members().any(is_archive)
}

/// Returns the nodes from which a marked node can be reached, including the marked nodes.
fn whoever_reaches(edges: &[Vec<usize>], mut marked: Vec<bool>) -> Vec<bool> {
    let mut back: Vec<Vec<usize>> = vec![Vec::new(); edges.len()];
    for (from, tos) in edges.iter().enumerate() {
        for &to in tos {
            back[to].push(from);
        }
    }
    let mut work: Vec<usize> = (0..marked.len()).filter(|&i| marked[i]).collect();
    while let Some(to) = work.pop() {
        for &from in &back[to] {
            if !std::mem::replace(&mut marked[from], true) {
                work.push(from);
            }
        }
    }
    marked
}
