//! Look-ups by URL. The records of a URL may be in any shard.

use std::cmp::Reverse;

use crawlspace_compact::date::Moment;

use super::Sharded;
use crate::dedupe::{Capture, Captures, Urls};
use crate::server::{Error, Steps};

impl<S: Steps> Sharded<S> {
    /// Returns the captures of each URL as [`Index::lookup_urls`](crate::dedupe::Index::lookup_urls)
    /// does, from all shards. Reading the WACZ lists of the home shard takes a second round trip.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// let newest = Captures { limit: Some(1), ..Captures::default() };
    /// let captures = index.lookup_urls(newest, &[b"https://example.com/"])?;
    /// println!("{} captures", captures[0].len());
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::lookup_urls`](crate::dedupe::Index::lookup_urls).
    pub fn lookup_urls(
        &self,
        captures: Captures<'_>,
        urls: &[&[u8]],
    ) -> S::Answer<Vec<Vec<Capture>>> {
        /// Default of `LOOKUPURL … LIMIT`.
        const LIMIT: u64 = 100;
        let limit = captures.limit.unwrap_or(LIMIT) as usize;
        let crawl = captures.crawl.map(<[u8]>::to_vec);
        let before = captures.before.map(<[u8]>::to_vec);
        let urls: Vec<Vec<u8>> = urls.iter().map(|url| url.to_vec()).collect();
        let index = self.clone();
        self.server().run(async move {
            let captures = Captures {
                crawl: crawl.as_deref(),
                limit: Some(limit as u64),
                before: before.as_deref(),
            };
            let names: Vec<&[u8]> = urls.iter().map(Vec::as_slice).collect();
            let shards = index
                .all(|shard| shard.lookup_urls(captures, &names))
                .await?;
            let mut found = vec![Vec::new(); urls.len()];
            for of_shard in shards {
                for (all, part) in found.iter_mut().zip(of_shard) {
                    all.extend(part);
                }
            }
            for all in &mut found {
                // The sort is stable: captures of the same moment stay in the order of the shards.
                all.sort_by_cached_key(|capture| Reverse(Moment::of(&capture.date)));
                all.truncate(limit);
            }
            index.name_files(&mut found).await?;
            Ok(found)
        })
    }

    /// Adds the names of the WACZ files, which only the home shard lists.
    async fn name_files(&self, found: &mut [Vec<Capture>]) -> Result<(), Error> {
        let all = || found.iter().flatten();
        let crawls = all().map(|capture| capture.crawl.clone()).collect();
        let files = self.files(crawls).await?;
        for capture in found.iter_mut().flatten() {
            let at = usize::try_from(capture.wacz_index);
            let listed = files.get(&capture.crawl);
            let file = listed.zip(at.ok()).and_then(|(list, at)| list.get(at));
            capture.filename = file.map(|wacz| wacz.filename.clone());
        }
        Ok(())
    }

    /// Switches the index by URL of all shards on or off, as [`Index::set_urls`](crate::dedupe::Index::set_urls) does.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// println!("{} records can be found by URL", index.set_urls(true)?.records);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::set_urls`](crate::dedupe::Index::set_urls).
    pub fn set_urls(&self, on: bool) -> S::Answer<Urls> {
        let index = self.clone();
        self.server().run(async move {
            let shards = index.all(|shard| shard.set_urls(on)).await?;
            let mut sum = Urls {
                urls: if on { "on" } else { "off" }.to_owned(),
                crawls: 0,
                records: 0,
            };
            for urls in shards {
                // Each shard may have a part of each crawl.
                sum.crawls = sum.crawls.max(urls.crawls);
                sum.records += urls.records;
            }
            Ok(sum)
        })
    }
}
