//! Local and remote files: CDX and CDXJ files sorted like `LC_ALL=C sort`, folders of them, ZipNum clusters, and WACZ
//! files.
//!
//! A search reads a few kilobytes of an unknown file and caches the keys it has seen; after a while a lookup takes a
//! single read. Data in the page cache is read directly; everything else, and everything large, is read in small steps
//! on a blocking thread. Files that appear, disappear, grow or are replaced are noticed: open files are checked for
//! changes at each read, and folders are listed again at most once a second.

#[cfg(test)]
mod hostile;
mod pages;
#[cfg(test)]
pub(crate) mod tests;
#[cfg(test)]
mod zipnum_tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as Memory};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};

use super::Identity;
use crate::source::{Blocks, Lookup, Rows, Source};
use crawlspace_index::sorted::Order;
use crawlspace_index::sorted::disorder::Disorder;
use crawlspace_index::sorted::line::Writer;
use crawlspace_index::source::{Batch, Batches, Gaps, SourceError};
use crawlspace_index::{Changes, Choice, Files, Listing, Listings, Sought, WarcCounts};

/// A source of CDX or CDXJ files, ZipNum clusters, or WACZ files.
#[derive(Clone, Debug)]
pub struct FileSource(Arc<Parts>);

/// Shared parts of a source. One reference count covers all parts, because each counter moves between processor caches.
#[derive(Debug)]
struct Parts {
    identity: Identity,
    listings: Arc<Listings>,
    broken: Arc<AtomicU64>,
    disorder: Arc<Disorder>,
}

impl FileSource {
    /// Creates a source of a local file or folder, which may appear later. `{coll}` in its path is replaced by the name
    /// of the collection.
    pub fn new(path: std::path::PathBuf, identity: Identity) -> FileSource {
        FileSource::of(Arc::new(Listings::new(path, Choice::All)), identity)
    }

    /// Creates a source of local or remote files.
    pub(crate) fn of(listings: Arc<Listings>, identity: Identity) -> FileSource {
        FileSource(Arc::new(Parts {
            identity,
            listings,
            broken: Arc::default(),
            disorder: Arc::default(),
        }))
    }

    /// Scans all files; if a file has changed since it was listed, lists and scans them again.
    async fn ask(&self, lookup: &Arc<Lookup>) -> Result<Rows, SourceError> {
        let listing = self.listing(lookup).await?;
        let gaps = Arc::new(Gaps::default());
        let changes = Arc::new(Changes::default());
        let (ordered, batches) = self.scan_all(&listing, lookup, &gaps, &changes);
        let again = Again {
            source: self.clone(),
            lookup: Arc::clone(lookup),
            gaps: Arc::clone(&gaps),
            changes,
        };
        let batches = stream::unfold(
            (batches, Some(again)),
            move |(mut batches, again)| async move {
                let batch = batches.next().await?;
                match (batch, again) {
                    (Err(SourceError::Changed(_)), Some(again)) => {
                        let (same, new) = match again.scan().await {
                            Ok(scanned) => scanned,
                            Err(error) => return Some((Err(error), (batches, None))),
                        };
                        // The order of the rows was already reported to the caller, so it must not change.
                        if same != ordered {
                            let what = "its files changed while they were read".to_owned();
                            return Some((Err(SourceError::Io(what)), (new, None)));
                        }
                        Some((Ok(Batch::new()), (new, Some(again))))
                    }
                    (Ok(batch), again) if batch.is_empty() => Some((Ok(batch), (batches, again))),
                    (batch, _) => Some((batch, (batches, None))),
                }
            },
        );
        Ok(Rows {
            ordered,
            batches: batches.boxed(),
            gaps: Some(gaps),
        })
    }

    /// Scans all files of a listing. Returns the rows, and whether they are in the order of the lookup.
    fn scan_all(
        &self,
        listing: &Listing,
        lookup: &Lookup,
        gaps: &Arc<Gaps>,
        changes: &Arc<Changes>,
    ) -> (bool, Batches) {
        let query = &lookup.query;
        let sought = Sought::new(&query.keys, &query.aliases, query.from, query.to);
        let order = match lookup.order {
            Order::Closest(_) if !sought.span.one_key => Order::Ascending,
            order => order,
        };
        let disorder = self.0.disorder.problem();
        for failure in listing.failures.iter().chain(&disorder) {
            gaps.add(SourceError::Io(failure.clone()));
        }
        gaps.set_waiting(listing.waiting);
        // The caller sorts the rows of an unsorted file, like the rows of a server.
        let is_sorted = listing.is_sorted() && disorder.is_none();
        let ordered = order == lookup.order && is_sorted;
        let at_most = lookup.at_most.filter(|_| ordered);
        let files = Files::of(listing, sought, order)
            .at_most(at_most)
            .within(self.0.identity.limits.first)
            .with_gaps(Arc::clone(gaps), Arc::clone(changes));
        (ordered, self.scan(files, at_most))
    }

    pub(super) async fn listing(&self, lookup: &Lookup) -> Result<Arc<Listing>, SourceError> {
        self.0.listings.listing(&lookup.collection).await
    }

    pub(super) fn scan(&self, files: Files, at_most: Option<u64>) -> Batches {
        let (broken, disorder) = (Arc::clone(&self.0.broken), Arc::clone(&self.0.disorder));
        files.rows(self.writer(), at_most, broken, disorder)
    }

    pub(super) fn writer(&self) -> Writer {
        Writer::new(Arc::clone(&self.0.identity.members))
    }
}

/// Scans the files again with a new listing, after the last one turned out to be stale.
struct Again {
    source: FileSource,
    lookup: Arc<Lookup>,
    gaps: Arc<Gaps>,
    changes: Arc<Changes>,
}

impl Again {
    async fn scan(&self) -> Result<(bool, Batches), SourceError> {
        let listings = &self.source.0.listings;
        let listing = listings.listing_again(&self.lookup.collection).await?;
        self.gaps.clear();
        Ok(self
            .source
            .scan_all(&listing, &self.lookup, &self.gaps, &self.changes))
    }
}

impl Source for FileSource {
    fn rows(&self, lookup: Arc<Lookup>) -> BoxFuture<'_, Result<Rows, SourceError>> {
        async move { self.ask(&lookup).await }.boxed()
    }

    fn health(&self) -> Result<(), String> {
        self.0.listings.health()?;
        self.0.disorder.problem().map_or(Ok(()), Err)
    }

    fn broken(&self) -> u64 {
        self.0.broken.load(Memory::Relaxed)
    }

    fn warcs(&self) -> Option<WarcCounts> {
        self.0.listings.warcs().map(|warcs| warcs.counts())
    }

    fn blocks(&self) -> Option<&dyn Blocks> {
        Some(self)
    }
}
