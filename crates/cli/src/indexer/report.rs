//! Report and progress events of an import.

use serde::Serialize;

use std::time::Duration;

use crawlspace_client::Error;
use crawlspace_client::dedupe::Committed;

/// Results of this importer. If several importers share the work, each reports its own part; crawls and removals are
/// totals.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Packages that the manifest lists.
    pub listed: u64,
    /// Packages imported by this importer.
    pub imported: u64,
    /// Packages imported by an earlier import.
    pub already_imported: u64,
    /// Packages added by the crawlers themselves; none of their records is counted again.
    pub already_in_index: u64,
    /// Packages that could not be imported, with the reason. The next import retries them.
    pub failed: Vec<Failed>,
    /// Index lines read.
    pub lines: u64,
    /// `response` records among them.
    pub responses: u64,
    /// `revisit` records among them.
    pub revisits: u64,
    /// Captures that are neither: extracted text, metadata, DNS.
    pub other: u64,
    /// Unusable lines.
    pub bad_lines: u64,
    /// The first few unusable lines, with reasons.
    pub bad_line_examples: Vec<String>,
    /// Revisits whose original is not in the index. They are kept, and counted when the original is added.
    pub unresolved: u64,
    /// Committed crawls.
    pub crawls: Vec<CommittedCrawl>,
    /// Crawls of the index that the manifest does not list.
    pub unlisted_crawls: u64,
    /// Crawls that the manifest does not list but that are neither removed nor counted as removed, because they are
    /// still running.
    pub left_in_place: Vec<LeftInPlace>,
    /// Crawls that were removed (`--remove`).
    pub removed_crawls: u64,
    /// Hashes that only the removed crawls had.
    pub removed_hashes: u64,
    /// Reason why the index was not compared with the manifest, if it was not.
    pub not_compared: Option<String>,
    /// True if the import was stopped; importing again continues it.
    pub stopped: bool,
    /// Duration in seconds.
    pub seconds: f64,
}

impl Report {
    /// Adds the results of another worker of this importer.
    pub(super) fn add(&mut self, other: Report) {
        self.imported += other.imported;
        self.failed.extend(other.failed);
        self.lines += other.lines;
        self.responses += other.responses;
        self.revisits += other.revisits;
        self.other += other.other;
        self.bad_lines += other.bad_lines;
        for example in other.bad_line_examples {
            self.example(example);
        }
    }

    pub(super) fn example(&mut self, example: String) {
        if self.bad_line_examples.len() < MAX_EXAMPLES {
            self.bad_line_examples.push(example);
        }
    }
}

/// Maximum number of bad lines shown.
const MAX_EXAMPLES: usize = 10;

/// A package that could not be imported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failed {
    /// Name of the package.
    pub name: String,
    /// Location of the package.
    pub path: String,
    /// Reason of the failure.
    pub reason: String,
}

/// A crawl that the manifest does not list, but that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftInPlace {
    /// Id of the crawl.
    pub crawl: String,
    /// Reason for keeping it.
    pub reason: String,
}

/// A crawl that was merged into the index, for the first time or again with further records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommittedCrawl {
    /// Id of the crawl.
    pub crawl: String,
    /// Counts of the hashes that it added.
    #[serde(flatten)]
    pub hashes: Committed,
}

/// Progress events of an import.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The manifest is read and queued.
    Queued {
        /// Packages listed by the manifest.
        listed: u64,
        /// Packages imported earlier.
        already_imported: u64,
        /// Packages added by the crawlers themselves.
        already_in_index: u64,
    },
    /// Packages of this import that are not finished yet, across all workers.
    Left {
        /// Number of packages not finished.
        left: u64,
        /// Number of packages in total.
        total: u64,
    },
    /// Number of further index lines read.
    Lines(u64),
    /// A package was imported.
    Imported {
        /// Name of the package.
        name: &'a str,
        /// Responses and revisits of the package.
        records: u64,
    },
    /// A package could not be imported.
    Failed(&'a Failed),
    /// Number of packages that other importers are still processing.
    Waiting(u64),
    /// A crawl was committed.
    Committed(&'a CommittedCrawl),
    /// The revisit stage begins.
    Revisits,
    /// The server is unavailable; the import waits for it.
    Away {
        /// Reason why the server cannot be used.
        error: &'a Error,
        /// Time until the wait ends.
        left: Duration,
    },
    /// The server answers again.
    Back,
}
