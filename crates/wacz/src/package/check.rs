//! Whether a set of packages has all that the packages in it need.

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
    /// Where it lies.
    pub location: Location,
    /// What a list calls it, if that is not the name of its file.
    pub name: Option<String>,
    /// The hash that a list tells. It is believed of a package at a URL, of which all would have to be downloaded
    /// otherwise.
    pub hash: Option<String>,
}

/// What a set of packages has and lacks.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Whether everything is there that any of them needs, and all of them can be read.
    pub complete: bool,
    /// Each package of the set.
    pub packages: Vec<Checked>,
    /// Packages that need one another in a cycle, by their names. They can be shown as well as any others.
    #[serde(rename = "circles")]
    pub cycles: Vec<Vec<String>>,
    /// Files that cannot be read, and entries of lists that are of no use, with the reasons.
    pub errors: Vec<String>,
}

/// A package, and what it needs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Checked {
    /// Where it lies.
    pub file: String,
    /// The name of its file.
    pub name: String,
    /// Whether everything is there that it needs, and that this needs, and so on.
    pub complete: bool,
    /// The packages that it needs itself.
    pub requires: Vec<Requirement>,
}

/// A package that is needed, and whether it is there.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// What is needed.
    #[serde(flatten)]
    pub required: Required,
    /// Whether it is there.
    #[serde(flatten)]
    pub state: Presence,
}

/// Whether a package that is needed is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum Presence {
    /// It is.
    Present {
        /// Where it lies.
        file: String,
        /// Whether everything is there that it needs itself.
        complete: bool,
    },
    /// No package of the set has its name, nor its hash.
    Missing,
    /// There is one of its name, but of another size.
    WrongSize {
        /// Where that lies.
        file: String,
        /// The size that it has, in bytes.
        found: u64,
    },
    /// There is one of its name, but with another hash.
    WrongHash {
        /// Where that lies.
        file: String,
        /// The hash that it has.
        found: String,
    },
}

impl Known {
    /// A package by itself.
    pub(crate) fn at(location: Location) -> Known {
        Known {
            location,
            name: None,
            hash: None,
        }
    }

    /// The packages at a place: that file, all `.wacz` files in that folder and those in it, or all that a manifest
    /// names. What cannot be read or used is an error of its own.
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
                    // A link to a folder may lead back to where it lies.
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

/// Holds what each package of a set needs against the set. A package that is needed is the one with its hash; of those
/// whose hash was not known when the list was made, the one with its name.
///
/// All of a file is read for its hash, though only where its size is right and somebody asks for it. `progress` is told
/// what is being read.
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
        // The same file, by two ways.
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
                        "{}: it has no index, so that nothing in it is found",
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

/// Returns whether a package has an index of its WARC files, if it has any.
fn has_index(wacz: &Wacz) -> bool {
    let is_archive = |(name, _): (&str, bool)| name.contains("archive/") && !name.ends_with('/');
    !wacz.indexes().is_empty() || !wacz.members().any(is_archive)
}

/// Those of which one can get to one of the marked ones.
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
