//! Statistics, consistency checks and profiles of an index.

use redis::{FromRedisValue, ParsingError, Value};
use serde::Serialize;

use super::{Index, Storage};
use crate::reply::{as_text, pairs};
use crate::server::{Ask, Call};

/// Key names and hash format that an index uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Key names and hash format of the published design document.
    Document,
    /// Key names and hash format that Browsertrix uses in production.
    Browsertrix,
}

impl Profile {
    /// Returns the ending of the keys that hold the references of a WACZ file.
    pub fn references(self) -> &'static [u8] {
        match self {
            Profile::Document => b":duperefs",
            Profile::Browsertrix => b":duperef",
        }
    }

    /// Returns the keyword of the profile in a command.
    pub fn word(self) -> &'static str {
        match self {
            Profile::Document => "document",
            Profile::Browsertrix => "browsertrix",
        }
    }
}

impl FromRedisValue for Profile {
    fn from_redis_value(value: Value) -> Result<Profile, ParsingError> {
        match &String::from_redis_value(value)?[..] {
            "document" => Ok(Profile::Document),
            "browsertrix" => Ok(Profile::Browsertrix),
            other => Err(format!("unknown profile {other}").into()),
        }
    }
}

/// State of a crawl.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CrawlState {
    /// Uncommitted: the crawl is in progress.
    Uncommitted,
    /// Part of the merged index.
    Committed,
    /// Part of the merged index, and in progress again.
    Continued,
    /// Moved to `to-remove-crawls` by an unfinished purge of Browsertrix.
    Outgoing,
    /// Cancelled by Browsertrix after some of its hashes were merged.
    Canceled,
    /// Not in any set of crawls: the crawl was never registered, or is a leftover.
    Unlisted,
}

impl FromRedisValue for CrawlState {
    fn from_redis_value(value: Value) -> Result<CrawlState, ParsingError> {
        match &String::from_redis_value(value)?[..] {
            "uncommitted" => Ok(CrawlState::Uncommitted),
            "committed" => Ok(CrawlState::Committed),
            "continued" => Ok(CrawlState::Continued),
            "outgoing" => Ok(CrawlState::Outgoing),
            "canceled" => Ok(CrawlState::Canceled),
            "unlisted" => Ok(CrawlState::Unlisted),
            other => Err(format!("unknown crawl state {other}").into()),
        }
    }
}

map_reply! {
    /// Statistics of an index (`DEDUPE.STATS`).
    Stats as "camelCase" {
        /// Key names of the index.
        profile: Profile,
        /// Storage format of the committed part.
        storage: Storage,
        /// Number of committed crawls.
        crawls: u64,
        /// Number of crawls in progress.
        uncommitted: u64,
        /// Number of hashes in the merged index.
        hashes: u64,
        /// Number of records of committed crawls.
        total_urls: u64,
        /// Number of these records that are revisits.
        dupe_urls: u64,
        /// Bytes saved by these revisits.
        conserved_size: u64,
        /// Total size of the finished WACZ files in bytes.
        total_crawl_size: u64,
        /// Number of crawls that were removed from the collection.
        removed_crawls: u64,
        /// Total size of the WACZ files of removed crawls in bytes.
        removed_crawl_size: u64,
        /// Progress of the running import, from 0 to 1.
        update_progress: Option<f64>,
        /// Estimated memory of the keys in bytes.
        memory: u64,
    }
}

map_reply! {
    /// Statistics of one crawl (`DEDUPE.STATS` with a crawl id).
    CrawlStats as "camelCase" {
        /// State of the crawl.
        state: CrawlState,
        /// Number of hashes of the crawl.
        hashes: u64,
        /// Number of records that the crawl wrote.
        total_urls: u64,
        /// Number of these records that are revisits.
        dupe_urls: u64,
        /// Bytes saved by these revisits.
        conserved_size: u64,
        /// Total size of its finished WACZ files in bytes.
        total_crawl_size: u64,
        /// Number of WACZ files of the crawl, finished or not.
        waczs: u64,
        /// Number of crawls on which this crawl depends.
        requires: u64,
        /// Estimated memory of its keys in bytes.
        memory: u64,
    }
}

map_reply! {
    /// State and statistics of a crawl in the list (`DEDUPE.CRAWLS`).
    Standing as "camelCase" {
        /// State of the crawl.
        state: CrawlState,
        /// Number of hashes of the crawl.
        hashes: u64,
        /// Number of records that the crawl wrote.
        total_urls: u64,
        /// Number of these records that are revisits.
        dupe_urls: u64,
        /// Bytes saved by these revisits.
        conserved_size: u64,
        /// Total size of its finished WACZ files in bytes.
        total_crawl_size: u64,
        /// Number of WACZ files of the crawl, finished or not.
        waczs: u64,
        /// Progress of the job that commits, cancels or removes the crawl, from 0 to 1.
        #[serde(skip_serializing_if = "Option::is_none")]
        progress: Option<f64>,
    }
}

/// An entry of the list of crawls: id and statistics.
#[derive(Clone, PartialEq, Serialize)]
pub struct Crawl {
    /// Id of the crawl.
    #[serde(serialize_with = "as_text")]
    pub crawl: Vec<u8>,
    /// State and statistics of the crawl.
    #[serde(flatten)]
    pub standing: Standing,
}

debug_as_text! { Crawl { crawl: text, standing: plain } }

/// Crawls of an index, sorted by id.
struct Crawls(Vec<Crawl>);

impl FromRedisValue for Crawls {
    fn from_redis_value(value: Value) -> Result<Crawls, ParsingError> {
        let crawls = pairs(value)?.into_iter();
        let crawls = crawls.map(|(crawl, standing)| Crawl { crawl, standing });
        Ok(Crawls(crawls.collect()))
    }
}

/// Filter for the list of crawls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// Crawls with uncommitted records.
    Uncommitted,
    /// Crawls that are part of the merged index.
    Committed,
    /// Crawls that have records but are in no set. To find them, the server scans all of its keys.
    Unlisted,
}

map_reply! {
    /// Result of a consistency check (`DEDUPE.CHECK`) or repair (`DEDUPE.REPAIR`).
    Check as "camelCase" {
        /// Number of committed crawls.
        crawls: u64,
        /// Number of hashes in the merged index.
        hashes: u64,
        /// Number of hashes whose owner is committed but has no record of them.
        dangling_owners: u64,
        /// Number of hashes of committed crawls that are missing from the merged index.
        missing_hashes: u64,
        /// Number of hashes whose owner is not committed.
        hidden_owners: u64,
        /// Number of records that cannot be parsed.
        bad_records: u64,
        /// Number of counters that differ from the sum over the crawls.
        count_drift: u64,
        /// Number of the module's keys that refer to nonexistent crawls.
        leaked_keys: u64,
        /// Number of crawls that have records but are in no set. This is not an error.
        unlisted_crawls: u64,
        /// Number of crawls that a purge by Browsertrix has set aside and neither restored nor deleted.
        to_remove_crawls: u64,
        /// Number of outdated lists of further holders (the other crawls that have a hash).
        stale_holders: u64,
        /// Number of crawls whose commit or removal is running or was interrupted, plus 1 if a
        /// storage conversion is running or was interrupted.
        interrupted: u64,
        /// Number of WACZ files of committed crawls that were never finished. This is not an error.
        placeholders: u64,
        /// True if no errors were found. A repair reports the state before the repair.
        ok: bool,
        /// Number of hashes that are missing from the index by URL or are in it under another URL,
        /// plus the number of its entries without a record. `None` if there is no index by URL.
        url_drift: Option<u64>,
        /// Number of repairs made. `None` for a check, which repairs nothing.
        repaired: Option<u64>,
    }
}

impl<S: Ask> Index<S> {
    /// Returns the statistics of the index (`DEDUPE.STATS`). If the index does not exist, all
    /// numbers are 0.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// let stats = index.stats()?;
    /// println!("{} hashes of {} crawls, {} bytes saved", stats.hashes, stats.crawls, stats.conserved_size);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails with the error of the server, or a connection error.
    pub fn stats(&self) -> S::Answer<Stats> {
        let stats = self.command("DEDUPE.STATS");
        self.server.ask(Call::new(stats).repeatable().waits())
    }

    /// Returns the statistics of the index, with `memory` estimated from a sample of 0 to 64 crawls
    /// (`DEDUPE.STATS … SAMPLES`). Fast enough for frequent polling.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// println!("{} bytes, more or less", index.sampled_stats(8)?.memory);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails with the error of the server, or a connection error.
    pub fn sampled_stats(&self, samples: u32) -> S::Answer<Stats> {
        let mut stats = self.command("DEDUPE.STATS");
        stats.arg("SAMPLES").arg(samples);
        self.server.ask(Call::new(stats).repeatable().waits())
    }

    /// Returns the statistics of one crawl (`DEDUPE.STATS` with a crawl id).
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// let stats = index.crawl_stats(b"crawl-1")?;
    /// println!("{} of {} records were duplicates", stats.dupe_urls, stats.total_urls);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NOCRAWL` when the crawl does not exist, or a connection error.
    pub fn crawl_stats(&self, crawl: impl AsRef<[u8]>) -> S::Answer<CrawlStats> {
        let crawl = crawl.as_ref();
        let mut stats = self.command("DEDUPE.STATS");
        stats.arg(crawl);
        self.repeat(stats)
    }

    /// Lists the crawls of the index, all or filtered, sorted by id (`DEDUPE.CRAWLS`).
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// for Crawl { crawl, standing } in index.crawls(Some(Listed::Uncommitted))? {
    ///     println!("{}: {} hashes", String::from_utf8_lossy(&crawl), standing.hashes);
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails with the error of the server, or a connection error.
    pub fn crawls(&self, listed: Option<Listed>) -> S::Answer<Vec<Crawl>> {
        let mut crawls = self.command("DEDUPE.CRAWLS");
        match listed {
            Some(Listed::Uncommitted) => crawls.arg("UNCOMMITTED"),
            Some(Listed::Committed) => crawls.arg("COMMITTED"),
            Some(Listed::Unlisted) => crawls.arg("UNLISTED"),
            None => &mut crawls,
        };
        let crawls = Call::<Crawls>::new(crawls).repeatable().waits();
        self.server.ask(crawls.map(|crawls| crawls.0))
    }

    /// Checks that the index is consistent (`DEDUPE.CHECK`).
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// let check = index.check()?;
    /// assert!(check.ok, "{check:?}");
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails with the error of the server, or a connection error.
    pub fn check(&self) -> S::Answer<Check> {
        let check = self.command("DEDUPE.CHECK");
        self.server.ask(Call::new(check).repeatable().waits())
    }

    /// Repairs an inconsistent index (`DEDUPE.REPAIR`). Returns the errors that were found, and the
    /// number of repairs.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// println!("{:?} repairs", index.repair()?.repaired);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `OOM` if the server has reached `maxmemory`, or a connection error.
    pub fn repair(&self) -> S::Answer<Check> {
        let repair = self.command("DEDUPE.REPAIR");
        self.server.ask(Call::new(repair).repeatable().waits())
    }

    /// Returns the profile of the index: its key names and hash format (`DEDUPE.PROFILE`).
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// assert_eq!(index.profile()?, Profile::Document);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails with the error of the server, or a connection error.
    pub fn profile(&self) -> S::Answer<Profile> {
        self.repeat(self.command("DEDUPE.PROFILE"))
    }

    /// Sets the profile of a new index (`DEDUPE.PROFILE`).
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// index.set_profile(Profile::Browsertrix)?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `HASCRAWLS` when the index already has crawls, or a connection error.
    pub fn set_profile(&self, profile: Profile) -> S::Answer<()> {
        let mut set = self.command("DEDUPE.PROFILE");
        set.arg(profile.word());
        self.repeat(set)
    }
}
