//! Finds the WACZ files that a WACZ file depends on for replay, from its own revisit records.
//!
//! A crawler that sends `REF` with `DEDUPE.REVISIT` can query dependencies by an id ([`Of::Wacz`]). For all other
//! crawlers, this module reads the CDX index in the file and looks up the originals of its revisits.

use std::collections::BTreeSet;

use crawlspace_client::dedupe::{Index, Of};
use crawlspace_index::capture::Capture;
use crawlspace_wacz as wacz;
use crawlspace_wacz::Wacz;
use crawlspace_wacz::package::Required;

/// Number of hashes, or of references, per call.
const BATCH: usize = 500;
/// Maximum number of unknown items listed.
const MAX_NAMED: usize = 20;

/// Dependencies of a WACZ file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// Files with the originals of its revisits, except files of its own crawl.
    pub requires: Vec<Required>,
    /// Number of `revisit` records in its indexes.
    pub revisits: u64,
    /// Number of revisits with unknown originals, plus invalid lines of revisits.
    pub unknown: u64,
    /// The first few unknown items: a hash, or the error of a line.
    pub named: Vec<String>,
    /// References to files that are not in the list of their crawl, in the form `crawl waczIndex`.
    pub unlisted: Vec<String>,
}

impl Dependencies {
    /// Returns true if no dependency is missing from the list.
    pub fn are_complete(&self) -> bool {
        self.unknown == 0 && self.unlisted.is_empty()
    }
}

/// Error while finding the dependencies of a WACZ file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("{0}")]
    Wacz(#[from] wacz::Error),
    /// The dedupe index cannot be queried.
    #[error("{0}")]
    Index(#[from] crawlspace_client::Error),
}

/// Returns the dependencies of a WACZ file that belongs to `crawl`; an empty name means that its crawl is not in the
/// index.
///
/// Originals in other files of the same crawl are not listed, because they are stored with the crawl.
///
/// ```no_run
/// use crawlspace_client::dedupe::Index;
/// use crawlspace_cli::dependencies;
/// use crawlspace_wacz::{Location, Options, Wacz};
/// let index = Index::open("redis://127.0.0.1/", "{coll-42}:")?;
/// let wacz = Wacz::open(&Location::parse("crawl-2.wacz")?, &Options::default())?;
/// for required in dependencies::of_package(&index, b"crawl-2", &wacz)?.requires {
///     println!("{}", required.filename);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Fails if the file or its index cannot be read, or if the server returns an error or cannot be reached.
pub fn of_package(index: &Index, crawl: &[u8], wacz: &Wacz) -> Result<Dependencies, Error> {
    let mut search = Search {
        index,
        crawl,
        references: BTreeSet::new(),
        found: Dependencies::default(),
    };
    let mut batch = Vec::new();
    for member in wacz.indexes() {
        let mut lines = wacz.lines(member)?;
        while let Some(line) = lines.next()? {
            match Capture::of_line(line) {
                Capture::Revisit { hash, .. } => batch.push(hash.into_owned()),
                Capture::Order(reason) => {
                    search.unknown(format!("{}: {reason}", lines.member()));
                    break;
                }
                // Only revisits have dependencies.
                Capture::Bad(reason) if is_of_a_revisit(line) => {
                    let line = format!("{}, line {}: {reason}", lines.member(), lines.number());
                    search.unknown(line);
                }
                Capture::Response { .. } | Capture::Other | Capture::Nothing | Capture::Bad(_) => {}
            }
            if batch.len() == BATCH {
                search.look_up(&mut batch)?;
            }
        }
    }
    search.look_up(&mut batch)?;
    search.finish()
}

/// Returns true if an unreadable line looks like the line of a `revisit` record.
fn is_of_a_revisit(line: &[u8]) -> bool {
    const TYPE: &[u8] = b"warc/revisit";
    line.windows(TYPE.len()).any(|part| part == TYPE)
}

struct Search<'a> {
    index: &'a Index,
    crawl: &'a [u8],
    /// The files of the originals: the crawl, and the number of the file in the list of the crawl.
    references: BTreeSet<(Vec<u8>, u64)>,
    found: Dependencies,
}

impl Search<'_> {
    fn unknown(&mut self, what: String) {
        self.found.unknown += 1;
        if self.found.named.len() < MAX_NAMED && !self.found.named.contains(&what) {
            self.found.named.push(what);
        }
    }

    fn look_up(&mut self, hashes: &mut Vec<Vec<u8>>) -> Result<(), Error> {
        self.found.revisits += hashes.len() as u64;
        let asked: Vec<&[u8]> = hashes.iter().map(Vec::as_slice).collect();
        let crawl = Some(self.crawl).filter(|crawl| !crawl.is_empty());
        let originals = self.index.lookup(crawl, &asked)?;
        for (hash, original) in hashes.drain(..).zip(originals) {
            match original {
                None => self.unknown(String::from_utf8_lossy(&hash).into_owned()),
                Some(original) if original.crawl == self.crawl => {}
                Some(original) => {
                    self.references
                        .insert((original.crawl, original.wacz_index));
                }
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Dependencies, Error> {
        let references: Vec<Vec<u8>> = std::mem::take(&mut self.references)
            .into_iter()
            .map(|(crawl, index)| [&crawl[..], b" ", index.to_string().as_bytes()].concat())
            .collect();
        for references in references.chunks(BATCH) {
            let references: Vec<&[u8]> = references.iter().map(Vec::as_slice).collect();
            let mut required = self.index.requires(Of::References(&references), false)?;
            if required.len() < references.len() {
                // The reply does not tell which references are unlisted, so they are requested one
                // by one.
                required.clear();
                for reference in references {
                    let one = self.index.requires(Of::References(&[reference]), false)?;
                    if one.is_empty() {
                        let reference = String::from_utf8_lossy(reference).into_owned();
                        self.found.unlisted.push(reference);
                    }
                    required.extend(one);
                }
            }
            self.found
                .requires
                .extend(required.into_iter().map(in_text));
        }
        Ok(self.found)
    }
}

/// Converts a dependency to text for JSON; bytes that are not UTF-8 are replaced.
pub fn in_text(required: crawlspace_client::dedupe::Required) -> Required {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Required {
        filename: text(required.filename),
        hash: required.hash.map(text),
        size: required.size,
        crawl: Some(text(required.crawl)),
    }
}
