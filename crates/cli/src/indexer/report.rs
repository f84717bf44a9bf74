//! What an import came to, and how it goes on.

use serde::Serialize;

use std::time::Duration;

use crawlspace_client::Error;
use crawlspace_client::dedupe::Committed;

/// What this importer did. Where several share the work, each reports its own part; crawls and removals are
/// those of all.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Packages that the manifest lists.
    pub listed: u64,
    /// Packages imported by this importer.
    pub imported: u64,
    /// Packages that an earlier import had brought already.
    pub already_imported: u64,
    /// Packages that the crawlers of their crawls had brought themselves, so that nothing of them is counted again.
    pub already_in_index: u64,
    /// Packages that could not be imported, and why. The next import tries them again.
    pub failed: Vec<Failed>,
    /// Lines of the indexes that were read.
    pub lines: u64,
    /// `response` records among them.
    pub responses: u64,
    /// `revisit` records among them.
    pub revisits: u64,
    /// Captures that are neither: extracted text, metadata, DNS.
    pub other: u64,
    /// Lines that could not be used.
    pub bad_lines: u64,
    /// The first few of them, with their reasons.
    pub bad_line_examples: Vec<String>,
    /// Revisits whose original the index has never seen. They are kept, and counted when it comes.
    pub unresolved: u64,
    /// Crawls that were committed.
    pub crawls: Vec<CommittedCrawl>,
    /// Crawls of the index that the manifest does not list.
    pub unlisted_crawls: u64,
    /// Crawls that the manifest does not list, and that are neither removed nor counted as removed: they are still running.
    pub left_in_place: Vec<LeftInPlace>,
    /// Crawls that were removed (`--remove`), with the hashes that no other crawl had.
    pub removed_crawls: u64,
    /// Hashes that went with them.
    pub removed_hashes: u64,
    /// Why the index was not compared with the manifest, if it was not.
    pub not_compared: Option<String>,
    /// Whether it was stopped on the way; importing again goes on from there.
    pub stopped: bool,
    /// How long it took.
    pub seconds: f64,
}

impl Report {
    /// Adds what another worker of this importer did.
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
    /// The package's name.
    pub name: String,
    /// Where it was looked for.
    pub path: String,
    /// What is wrong with it.
    pub reason: String,
}

/// A crawl that the manifest does not list, and that stays all the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftInPlace {
    /// The crawl's id.
    pub crawl: String,
    /// Why it stays.
    pub reason: String,
}

/// A crawl that became part of the merged index, or more of it than before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommittedCrawl {
    /// The crawl's id.
    pub crawl: String,
    /// What it added.
    #[serde(flatten)]
    pub hashes: Committed,
}

/// How an import goes on.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The manifest is read and queued.
    Queued {
        /// Packages that it lists.
        listed: u64,
        /// Packages that were imported before.
        already_imported: u64,
        /// Packages that crawlers had brought themselves.
        already_in_index: u64,
    },
    /// Packages of this import that are not finished yet, whichever worker has them.
    Left {
        /// Number of packages not finished.
        left: u64,
        /// Number of packages in total.
        total: u64,
    },
    /// More lines of indexes were read.
    Lines(u64),
    /// A package is in.
    Imported {
        /// The package's name.
        name: &'a str,
        /// The package's responses and revisits.
        records: u64,
    },
    /// A package could not be imported.
    Failed(&'a Failed),
    /// Number of packages that other importers are still at work on.
    Waiting(u64),
    /// A crawl was committed.
    Committed(&'a CommittedCrawl),
    /// Revisits are being counted now.
    Revisits,
    /// The server is away, and is waited for.
    Away {
        /// Why it cannot be used.
        error: &'a Error,
        /// The rest of the wait.
        left: Duration,
    },
    /// The server answers again.
    Back,
}
