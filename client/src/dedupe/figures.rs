//! What the commands for operators answer.

use redis::{FromRedisValue, ParsingError, Value};
use serde::Serialize;

use super::{Index, Storage};
use crate::reply::{as_text, pairs};
use crate::server::{Ask, Call};

/// Which key names and which spelling of hashes an index uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// As the published design has it.
    Document,
    /// As the crawler in the field has it.
    Browsertrix,
}

impl Profile {
    /// The profile's word in a command.
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
            other => Err(format!("no profile is called {other}").into()),
        }
    }
}

/// How far a crawl is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CrawlState {
    /// In progress.
    Uncommitted,
    /// Part of the merged index.
    Committed,
    /// Part of it, and used again since.
    Continued,
    /// A purge by Browsertrix has taken it out, and has not done with it.
    Outgoing,
    /// Browsertrix canceled it after it had merged hashes of it.
    Canceled,
    /// Listed in no set: the crawl was not announced, or is left over.
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
            other => Err(format!("no crawl is {other}").into()),
        }
    }
}

map_reply! {
    /// The figures of an index (`DEDUPE.STATS`).
    Stats as "camelCase" {
        /// Which key names it uses.
        profile: Profile,
        /// How its committed part is kept.
        storage: Storage,
        /// Committed crawls.
        crawls: u64,
        /// Crawls in progress.
        uncommitted: u64,
        /// Hashes in the merged index.
        hashes: u64,
        /// Records of committed crawls.
        total_urls: u64,
        /// How many of them were revisits.
        dupe_urls: u64,
        /// Bytes saved by these.
        conserved_size: u64,
        /// Bytes of the finished WACZ files.
        total_crawl_size: u64,
        /// Crawls that are not part of the collection any more.
        removed_crawls: u64,
        /// Bytes of their WACZ files.
        removed_crawl_size: u64,
        /// How far the import that is running is, from 0 to 1.
        update_progress: Option<f64>,
        /// Bytes of memory of the keys, estimated.
        memory: u64,
    }
}

map_reply! {
    /// The figures of a crawl (`DEDUPE.STATS` of one).
    CrawlStats as "camelCase" {
        /// How far it is.
        state: CrawlState,
        /// Hashes that it has.
        hashes: u64,
        /// Records that it wrote.
        total_urls: u64,
        /// How many of them were revisits.
        dupe_urls: u64,
        /// Bytes saved by these.
        conserved_size: u64,
        /// Bytes of its finished WACZ files.
        total_crawl_size: u64,
        /// WACZ files of the crawl, finished or not.
        waczs: u64,
        /// Crawls that it depends on.
        requires: u64,
        /// Bytes of memory of its keys, estimated.
        memory: u64,
    }
}

map_reply! {
    /// A crawl in the list (`DEDUPE.CRAWLS`).
    Standing as "camelCase" {
        /// How far it is.
        state: CrawlState,
        /// Hashes that it has.
        hashes: u64,
        /// Records that it wrote.
        total_urls: u64,
        /// How many of them were revisits.
        dupe_urls: u64,
        /// Bytes saved by these.
        conserved_size: u64,
        /// Bytes of its finished WACZ files.
        total_crawl_size: u64,
        /// WACZ files of the crawl, finished or not.
        waczs: u64,
        /// How far the job is that commits, cancels or removes it, from 0 to 1.
        #[serde(skip_serializing_if = "Option::is_none")]
        progress: Option<f64>,
    }
}

/// A crawl of the list, by its id.
#[derive(Clone, PartialEq, Serialize)]
pub struct Crawl {
    /// The crawl's id.
    #[serde(serialize_with = "as_text")]
    pub crawl: Vec<u8>,
    /// How it stands.
    #[serde(flatten)]
    pub standing: Standing,
}

debug_as_text! { Crawl { crawl: text, standing: plain } }

/// The list of crawls, in the order of their ids.
struct Crawls(Vec<Crawl>);

impl FromRedisValue for Crawls {
    fn from_redis_value(value: Value) -> Result<Crawls, ParsingError> {
        let crawls = pairs(value)?.into_iter();
        let crawls = crawls.map(|(crawl, standing)| Crawl { crawl, standing });
        Ok(Crawls(crawls.collect()))
    }
}

/// Which crawls are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// Crawls with something to commit.
    Uncommitted,
    /// Crawls that are part of the merged index.
    Committed,
    /// Those that have records and are in no set; to find them, the server goes through all of its keys.
    Unlisted,
}

map_reply! {
    /// Whether an index is consistent (`DEDUPE.CHECK`), and what was mended if it was not (`DEDUPE.REPAIR`).
    Check as "camelCase" {
        /// Committed crawls.
        crawls: u64,
        /// Hashes in the merged index.
        hashes: u64,
        /// Hashes whose owner is committed and has no record of them.
        dangling_owners: u64,
        /// Hashes of committed crawls that the merged index does not have.
        missing_hashes: u64,
        /// Hashes whose owner is not committed.
        hidden_owners: u64,
        /// Records that cannot be read.
        bad_records: u64,
        /// Counts that are not the sum over the crawls.
        count_drift: u64,
        /// Keys of our own that are about crawls that do not exist.
        leaked_keys: u64,
        /// Crawls that have records and are in no set; no fault.
        unlisted_crawls: u64,
        /// Crawls that a purge by Browsertrix has taken out and neither put back nor deleted.
        to_remove_crawls: u64,
        /// Lists of further holders that are not true.
        stale_holders: u64,
        /// Crawls whose commit or removal runs, or was cut short; and one more for a change of storage.
        interrupted: u64,
        /// WACZ files of committed crawls that were never finished; no fault.
        placeholders: u64,
        /// Whether nothing is wrong, or was before it was mended.
        ok: bool,
        /// Hashes that the index by URL lacks or has under another URL, and its entries without a record. `None` when
        /// there is no such index.
        url_drift: Option<u64>,
        /// How many repairs were made. `None` for a check, which makes none.
        repaired: Option<u64>,
    }
}

impl<S: Ask> Index<S> {
    /// `DEDUPE.STATS`: the figures of the index. All are 0 when there is none.
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
    /// When the server refuses or cannot be reached.
    pub fn stats(&self) -> S::Answer<Stats> {
        let stats = self.command("DEDUPE.STATS");
        self.server.ask(Call::new(stats).repeatable().waits())
    }

    /// `DEDUPE.STATS` whose `memory` is estimated from so many crawls, 0 to 64: for programs that look again and again.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// println!("{} bytes, more or less", index.sampled_stats(8)?.memory);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the server refuses or cannot be reached.
    pub fn sampled_stats(&self, samples: u32) -> S::Answer<Stats> {
        let mut stats = self.command("DEDUPE.STATS");
        stats.arg("SAMPLES").arg(samples);
        self.server.ask(Call::new(stats).repeatable().waits())
    }

    /// `DEDUPE.STATS` of one crawl.
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
    /// `NOCRAWL` when there is no such crawl; or when the server cannot be reached.
    pub fn crawl_stats(&self, crawl: impl AsRef<[u8]>) -> S::Answer<CrawlStats> {
        let crawl = crawl.as_ref();
        let mut stats = self.command("DEDUPE.STATS");
        stats.arg(crawl);
        self.repeat(stats)
    }

    /// `DEDUPE.CRAWLS`: the crawls of the index, all or some of them, in the order of their ids.
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
    /// When the server refuses or cannot be reached.
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

    /// `DEDUPE.CHECK`: is the index consistent?
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
    /// When the server refuses or cannot be reached.
    pub fn check(&self) -> S::Answer<Check> {
        let check = self.command("DEDUPE.CHECK");
        self.server.ask(Call::new(check).repeatable().waits())
    }

    /// `DEDUPE.REPAIR`: makes it so. Gives what was found, and how much of it was mended.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// println!("{:?} repairs", index.repair()?.repaired);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `OOM` when the server is at `maxmemory`; or when it cannot be reached.
    pub fn repair(&self) -> S::Answer<Check> {
        let repair = self.command("DEDUPE.REPAIR");
        self.server.ask(Call::new(repair).repeatable().waits())
    }

    /// `DEDUPE.PROFILE`: which key names and which spelling of hashes the index uses.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// assert_eq!(index.profile()?, Profile::Document);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the server refuses or cannot be reached.
    pub fn profile(&self) -> S::Answer<Profile> {
        self.repeat(self.command("DEDUPE.PROFILE"))
    }

    /// `DEDUPE.PROFILE` of a new index.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// index.set_profile(Profile::Browsertrix)?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `HASCRAWLS` when the index has crawls already; or when the server cannot be reached.
    pub fn set_profile(&self, profile: Profile) -> S::Answer<()> {
        let mut set = self.command("DEDUPE.PROFILE");
        set.arg(profile.word());
        self.repeat(set)
    }
}
