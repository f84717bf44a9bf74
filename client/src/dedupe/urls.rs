//! Looks up captures by URL.

use redis::{FromRedisValue, ParsingError, Value};
use serde::Serialize;

use super::Index;
use crate::reply::{as_optional_text, as_text};
use crate::server::{Ask, Call};

/// A capture of a URL: a record that a crawl stored.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Capture {
    /// Crawl that stored the record.
    #[serde(serialize_with = "as_text")]
    pub crawl: Vec<u8>,
    /// Hash of the payload.
    #[serde(serialize_with = "as_text")]
    pub hash: Vec<u8>,
    /// Index of the WACZ file that contains the record, within that crawl.
    pub wacz_index: u64,
    /// Capture date in the format that the crawler sent: 14 digits, 17 digits or ISO 8601.
    #[serde(serialize_with = "as_text")]
    pub date: Vec<u8>,
    /// Size of the `response` record in bytes.
    pub size: u64,
    /// Name of the WACZ file. `None` if the crawl lists no file at that index.
    #[serde(serialize_with = "as_optional_text")]
    pub filename: Option<Vec<u8>>,
}

debug_as_text! { Capture { crawl: text, hash: text, wacz_index: plain, date: text, size: plain, filename: optional } }

impl FromRedisValue for Capture {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let (crawl, hash, wacz_index, date, size, filename) =
            FromRedisValue::from_redis_value(value)?;
        Ok(Capture {
            crawl,
            hash,
            wacz_index,
            date,
            size,
            filename,
        })
    }
}

/// Options of a look-up by URL.
#[derive(Clone, Copy, Default)]
pub struct Captures<'a> {
    /// A crawl whose uncommitted captures are also returned.
    pub crawl: Option<&'a [u8]>,
    /// Maximum number of captures per URL, from 1 to 10 000. The default is 100.
    pub limit: Option<u64>,
    /// Exclusive upper bound of the capture date.
    pub before: Option<&'a [u8]>,
}

debug_as_text! { Captures<'_> { crawl: optional, limit: plain, before: optional } }

map_reply! {
    /// State of the index by URL (`DEDUPE.URLS`).
    Urls as "camelCase" {
        /// `on` or `off`.
        urls: String,
        /// Number of indexed crawls, including uncommitted ones.
        crawls: u64,
        /// Number of records of these crawls.
        records: u64,
    }
}

impl<S: Ask> Index<S> {
    /// Returns the captures of each URL, newest first (`DEDUPE.LOOKUPURL`).
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// let newest = Captures { limit: Some(1), ..Captures::default() };
    /// for capture in &index.lookup_urls(newest, &[b"https://example.com/"])?[0] {
    ///     println!("captured at {}", String::from_utf8_lossy(&capture.date));
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NOURLS` when there is no index by URL, `BADCRAWL`; or a connection error.
    pub fn lookup_urls(
        &self,
        captures: Captures<'_>,
        urls: &[&[u8]],
    ) -> S::Answer<Vec<Vec<Capture>>> {
        if urls.is_empty() {
            return self.server.ask(Call::known(Vec::new()));
        }
        let mut lookup = self.command("DEDUPE.LOOKUPURL");
        if let Some(crawl) = captures.crawl {
            lookup.arg("CRAWL").arg(crawl);
        }
        if let Some(limit) = captures.limit {
            lookup.arg("LIMIT").arg(limit);
        }
        if let Some(before) = captures.before {
            lookup.arg("BEFORE").arg(before);
        }
        lookup.arg(urls);
        self.server.ask(Call::new(lookup).repeatable().waits())
    }

    /// Switches the index by URL on or off (`DEDUPE.URLS`). The server serves other clients during
    /// the change.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// println!("{} records can be found by URL", index.set_urls(true)?.records);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `WRONGTYPE` when a key of the index has another type, `OOM` when the server has reached
    /// `maxmemory`; or a connection error.
    pub fn set_urls(&self, on: bool) -> S::Answer<Urls> {
        let mut urls = self.command("DEDUPE.URLS");
        urls.arg(if on { "ON" } else { "OFF" });
        self.server.ask(Call::new(urls).repeatable().waits())
    }
}
