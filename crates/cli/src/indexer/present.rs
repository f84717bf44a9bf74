//! Packages that are in the index without an import: crawlers write the WACZ lists of their crawls themselves.

use std::collections::HashMap;

use super::package::{Package, is_same_hash, is_sha256};
use super::queue::Queue;
use super::report::Failed;
use crawlspace_client::dedupe::{Index, Wacz};
use crawlspace_client::{Batch, Code, Error, Server};

/// Number of WACZ lists per round trip.
pub(super) const LISTS: usize = 100;

/// Finished WACZ files of crawls, read once per crawl.
pub(super) struct Present<'a> {
    index: &'a Index<Server>,
    queue: &'a Queue,
    finished: HashMap<String, HashMap<Vec<u8>, Wacz>>,
}

/// Packages by required action.
#[derive(Default)]
pub(super) struct Sorted {
    /// Packages for the queue. Packages imported earlier are among them: the queue skips them.
    pub others: Vec<Package>,
    /// Packages that their crawl lists as finished.
    pub present: Vec<Package>,
    /// Packages for which their crawl lists a different version.
    pub replaced: Vec<Failed>,
}

impl<'a> Present<'a> {
    pub(crate) fn new(index: &'a Index<Server>, queue: &'a Queue) -> Present<'a> {
        Present {
            index,
            queue,
            finished: HashMap::new(),
        }
    }

    /// Separates the packages that are present from the others.
    pub(crate) fn sort(&mut self, packages: Vec<Package>) -> Result<Sorted, Error> {
        let mut sorted = Sorted::default();
        self.read(&packages)?;
        let listed = packages
            .iter()
            .filter(|package| self.listed(package).is_some());
        let names: Vec<&str> = listed.map(|package| &package.name[..]).collect();
        let standing = self.queue.standing(&names)?;
        for package in packages {
            let wacz = self.listed(&package);
            let standing = standing.get(&package.name).copied().unwrap_or_default();
            match wacz {
                // If an import has begun the package, an import must finish it, because its
                // revisits are not counted yet.
                Some(wacz) if !standing.is_begun => match difference(&package, wacz) {
                    Some(reason) => sorted.replaced.push(Failed {
                        path: package.shown_path(),
                        name: package.name,
                        reason,
                    }),
                    None if standing.is_imported => sorted.others.push(package),
                    None => sorted.present.push(package),
                },
                _ => sorted.others.push(package),
            }
        }
        Ok(sorted)
    }

    fn listed(&self, package: &Package) -> Option<&Wacz> {
        self.finished
            .get(&package.crawl)?
            .get(package.name.as_bytes())
    }

    fn read(&mut self, packages: &[Package]) -> Result<(), Error> {
        let mut missing: Vec<&str> = packages
            .iter()
            .map(|package| &package.crawl[..])
            .filter(|crawl| !self.finished.contains_key(*crawl))
            .collect();
        missing.sort_unstable();
        missing.dedup();
        for some in missing.chunks(LISTS) {
            // Check for lists first, because usually none exists.
            let lists = if self.queue.have_lists(some)? {
                wacz_lists(self.index, some)?
            } else {
                Vec::new()
            };
            let lists = lists.into_iter().chain(std::iter::repeat(Vec::new()));
            for (crawl, waczs) in some.iter().zip(lists) {
                let finished = waczs.into_iter().filter(|wacz| wacz.size.is_some());
                let finished = finished.map(|wacz| (wacz.filename.clone(), wacz));
                self.finished
                    .insert((*crawl).to_owned(), finished.collect());
            }
        }
        Ok(())
    }
}

/// Reads the WACZ lists of crawls in one round trip; the list of a missing crawl is empty.
pub(super) fn wacz_lists(
    index: &Index<Server>,
    crawls: &[impl AsRef<[u8]>],
) -> Result<Vec<Vec<Wacz>>, Error> {
    let batch = Batch::new();
    let asked = index.over(&batch);
    let lists: Vec<_> = crawls
        .iter()
        .map(|crawl| asked.wacz_list(crawl.as_ref()))
        .collect();
    batch.send(index.server())?;
    let lists = lists.into_iter().map(|list| match list.take() {
        Err(error) if matches!(error.code(), Some(Code::NoCrawl | Code::BadCrawl)) => {
            Ok(Vec::new())
        }
        other => other,
    });
    lists.collect()
}

/// Describes the difference between a file that a crawl lists and the file to import. Values missing on one side are
/// not compared.
fn difference(package: &Package, wacz: &Wacz) -> Option<String> {
    let size = package.size.zip(wacz.size).filter(|(new, old)| new != old);
    let hash = wacz.hash.as_deref().map(String::from_utf8_lossy);
    let hash = package.hash.as_deref().zip(hash.as_deref());
    let hash =
        hash.filter(|(new, old)| is_sha256(new) && is_sha256(old) && !is_same_hash(new, old));
    let (new, old) = match (size, hash) {
        (Some((new, old)), _) => (format!("{new} bytes"), format!("{old} bytes")),
        (None, Some((new, old))) => (format!("hash {new}"), format!("hash {old}")),
        (None, None) => return None,
    };
    let crawl = &package.crawl;
    Some(format!(
        "crawl {crawl} has another file of this name, with {old} (the manifest says {new}), and the index keeps that \
         file: to replace it, remove that crawl and import again"
    ))
}
