//! Names of the keys of an index.

use super::error::{Error, Result};

/// Longest crawl id, in bytes.
pub const CRAWL_BYTES: usize = 1024;

/// Endings that a crawl id must not have, because `h:<id>` would then be a key of another crawl,
/// or `<id>:reqCrawls` and `<uuid>:duperefs` could be read as the hashes of one.
pub const RESERVED_ENDINGS: [&str; 13] = [
    ":counts",
    ":wacz",
    ":base",
    ":fresh",
    ":cut",
    ":others",
    ":deps",
    ":refs",
    ":seq",
    ":reqCrawls",
    ":duperefs",
    ":duperef",
    ":claims",
];

/// Refuses ids that cannot name a crawl.
pub fn check_crawl_id(crawl: &[u8]) -> Result<()> {
    let reserved = RESERVED_ENDINGS
        .iter()
        .any(|ending| crawl.ends_with(ending.as_bytes()));
    if crawl.is_empty() || crawl.len() > CRAWL_BYTES || reserved {
        return Err(Error::BadCrawl(crawl.to_vec()));
    }
    Ok(())
}

/// Names of the keys that an index has once.
pub struct Names<N> {
    /// The merged index: hash → crawl.
    pub merged: N,
    /// `allcounts`.
    pub allcounts: N,
    /// `allcrawls`.
    pub allcrawls: N,
    /// `uncommittedcrawls`.
    pub uncommitted: N,
    /// `src:d`: names of WACZ files whose hashes are in the index.
    pub finished: N,
    /// `crawlspace`: format, profile, counters.
    pub meta: N,
    /// `committing`: crawl → `n new known`, for commits under way.
    pub committing: N,
    /// `removing`: crawl → state, for removals under way.
    pub removing: N,
    /// `commits`: commit number → crawl.
    pub commits: N,
    /// `holders`: hash → numbers of the commits that met it after its owner's.
    pub holders: N,
    /// `claims`: hash → `token deadline crawl`.
    pub claims: N,
    /// `sharedwaczs`: names in `src:d` that more than one crawl may have.
    pub shared: N,
    /// `moving`: what is left of the storage that the committed part is moving out of.
    pub moving: N,
}

/// Which key of a crawl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrawlKey {
    /// `h:<crawl>`: hash → record.
    Records,
    /// `h:<crawl>:counts`.
    Counts,
    /// `c:<crawl>:wacz`.
    Waczs,
    /// `<crawl>:reqCrawls`.
    Requires,
    /// `h:<crawl>:base`: what the last commit saw, and how to get back to it.
    Base,
    /// `h:<crawl>:fresh`: fields added since the last commit.
    Fresh,
    /// `h:<crawl>:cut`: fresh fields that a running commit is committing.
    Cut,
    /// `h:<crawl>:others`: records counted since the last commit, beside the stored ones.
    Others,
    /// `h:<crawl>:deps`: source crawl → number of revisits.
    Deps,
    /// `h:<crawl>:refs`: ids of the WACZ files whose references this crawl wrote.
    Refs,
    /// `h:<crawl>:seq`: writer → `n reply`.
    Seq,
}

impl CrawlKey {
    /// Every key that a crawl may have.
    pub const ALL: [CrawlKey; 11] = [
        CrawlKey::Records,
        CrawlKey::Counts,
        CrawlKey::Waczs,
        CrawlKey::Requires,
        CrawlKey::Base,
        CrawlKey::Fresh,
        CrawlKey::Cut,
        CrawlKey::Others,
        CrawlKey::Deps,
        CrawlKey::Refs,
        CrawlKey::Seq,
    ];

    /// Those that the documents do not know.
    pub const OURS: [CrawlKey; 7] = [
        CrawlKey::Base,
        CrawlKey::Fresh,
        CrawlKey::Cut,
        CrawlKey::Others,
        CrawlKey::Deps,
        CrawlKey::Refs,
        CrawlKey::Seq,
    ];

    /// What stands before and after the crawl id in the key's name.
    pub fn around(self) -> (&'static [u8], &'static [u8]) {
        match self {
            CrawlKey::Records => (b"h:", b""),
            CrawlKey::Counts => (b"h:", b":counts"),
            CrawlKey::Waczs => (b"c:", b":wacz"),
            CrawlKey::Requires => (b"", b":reqCrawls"),
            CrawlKey::Base => (b"h:", b":base"),
            CrawlKey::Fresh => (b"h:", b":fresh"),
            CrawlKey::Cut => (b"h:", b":cut"),
            CrawlKey::Others => (b"h:", b":others"),
            CrawlKey::Deps => (b"h:", b":deps"),
            CrawlKey::Refs => (b"h:", b":refs"),
            CrawlKey::Seq => (b"h:", b":seq"),
        }
    }
}
