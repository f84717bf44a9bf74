//! Statistics and checks across all shards.

use std::collections::{BTreeMap, BTreeSet};

use super::Sharded;
use super::storage::together as storage_of_all;
use crate::dedupe::{
    Check, Crawl, CrawlState, CrawlStats, Index, Listed, Profile, Standing, Stats,
};
use crate::server::{Batch, Code, Error, Pending, Steps};

impl<S: Steps> Sharded<S> {
    /// Sends a call to every shard, and waits for all replies.
    async fn each<T: Send + 'static>(
        &self,
        ask: impl Fn(Index<Batch>) -> Pending<T>,
    ) -> Result<Vec<Result<T, Error>>, Error> {
        let batch = Batch::new();
        let shards = self.shards().iter();
        let asked: Vec<_> = shards.map(|shard| ask(shard.over(&batch))).collect();
        self.server().step_batch(&batch).await?;
        Ok(asked.into_iter().map(Pending::take).collect())
    }

    pub(super) async fn all<T: Send + 'static>(
        &self,
        ask: impl Fn(Index<Batch>) -> Pending<T>,
    ) -> Result<Vec<T>, Error> {
        self.each(ask).await?.into_iter().collect()
    }

    /// Returns the sums of [`Index::stats`] over all shards. A crawl is committed when the home
    /// shard has committed it.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// println!("{} hashes", index.stats()?.hashes);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::stats`].
    pub fn stats(&self) -> S::Answer<Stats> {
        self.sum_of_stats(|shard| shard.stats())
    }

    /// Returns the sums of [`Index::sampled_stats`] over all shards, as [`stats`](Sharded::stats) does.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// println!("{} bytes, more or less", index.sampled_stats(8)?.memory);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::sampled_stats`].
    pub fn sampled_stats(&self, samples: u32) -> S::Answer<Stats> {
        self.sum_of_stats(move |shard| shard.sampled_stats(samples))
    }

    fn sum_of_stats(
        &self,
        ask: impl Fn(Index<Batch>) -> Pending<Stats> + Send + 'static,
    ) -> S::Answer<Stats> {
        let index = self.clone();
        self.server().run(async move {
            let shards = index.all(ask).await?;
            let storages: Vec<_> = shards.iter().map(|stats| stats.storage).collect();
            let mut shards = shards.into_iter();
            let uncommitted = index.members(b"uncommittedcrawls").await?;
            let uncommitted: BTreeSet<_> = uncommitted.into_iter().flatten().collect();
            let Some(mut sum) = shards.next() else {
                unreachable!("there is a home shard");
            };
            sum.uncommitted = uncommitted.len() as u64;
            sum.storage = storage_of_all(&storages);
            for stats in shards {
                sum.hashes += stats.hashes;
                sum.total_urls += stats.total_urls;
                sum.dupe_urls += stats.dupe_urls;
                sum.conserved_size += stats.conserved_size;
                sum.total_crawl_size += stats.total_crawl_size;
                sum.memory += stats.memory;
            }
            Ok(sum)
        })
    }

    /// Returns the sums of [`Index::crawl_stats`] over all shards.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// println!("{} hashes", index.crawl_stats(b"crawl-1")?.hashes);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::crawl_stats`].
    pub fn crawl_stats(&self, crawl: impl AsRef<[u8]>) -> S::Answer<CrawlStats> {
        let crawl = crawl.as_ref();
        let (index, crawl) = (self.clone(), crawl.to_vec());
        self.server().run(async move {
            let shards = index.each(|shard| shard.crawl_stats(&crawl)).await?;
            let at_home = shards[0].as_ref().ok().map(|stats| stats.state);
            let (mut sum, mut nowhere): (Option<CrawlStats>, _) = (None, None);
            for stats in shards {
                let stats = match stats {
                    Ok(stats) => stats,
                    Err(error) if error.code() == Some(Code::NoCrawl) => {
                        nowhere = Some(error);
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                sum = Some(match sum {
                    None => stats,
                    Some(sum) => CrawlStats {
                        state: together(at_home, [sum.state, stats.state]),
                        hashes: sum.hashes + stats.hashes,
                        total_urls: sum.total_urls + stats.total_urls,
                        dupe_urls: sum.dupe_urls + stats.dupe_urls,
                        conserved_size: sum.conserved_size + stats.conserved_size,
                        total_crawl_size: sum.total_crawl_size + stats.total_crawl_size,
                        waczs: sum.waczs + stats.waczs,
                        requires: 0,
                        memory: sum.memory + stats.memory,
                    },
                });
            }
            let Some(mut sum) = sum else {
                return Err(match nowhere {
                    Some(error) => error,
                    None => unreachable!("there is a home shard"),
                });
            };
            sum.state = together(at_home, [sum.state]);
            // Several shards may depend on the same crawl, so count it once.
            sum.requires = index.required_crawls(&[crawl]).await?.len() as u64;
            Ok(sum)
        })
    }

    /// Lists the crawls as [`Index::crawls`] does, with the sums over all shards.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// println!("{} crawls", index.crawls(None)?.len());
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::crawls`].
    pub fn crawls(&self, listed: Option<Listed>) -> S::Answer<Vec<Crawl>> {
        let index = self.clone();
        self.server().run(async move {
            let unlisted = listed.filter(|&listed| listed == Listed::Unlisted);
            let shards = index.all(|shard| shard.crawls(unlisted)).await?;
            let mut at_home = BTreeMap::new();
            let mut all: BTreeMap<Vec<u8>, Standing> = BTreeMap::new();
            for (number, crawls) in shards.into_iter().enumerate() {
                for Crawl { crawl, standing } in crawls {
                    if number == 0 {
                        at_home.insert(crawl.clone(), standing.state);
                    }
                    let home = at_home.get(&crawl).copied();
                    all.entry(crawl)
                        .and_modify(|sum| sum.add(home, &standing))
                        .or_insert_with(|| Standing {
                            state: together(home, [standing.state]),
                            ..standing
                        });
                }
            }
            let is_listed = |state| match listed {
                None | Some(Listed::Unlisted) => true,
                Some(Listed::Uncommitted) => {
                    matches!(state, CrawlState::Uncommitted | CrawlState::Continued)
                }
                Some(Listed::Committed) => {
                    matches!(state, CrawlState::Committed | CrawlState::Continued)
                }
            };
            let crawls = all.into_iter();
            let crawls = crawls.map(|(crawl, standing)| Crawl { crawl, standing });
            Ok(crawls
                .filter(|crawl| is_listed(crawl.standing.state))
                .collect())
        })
    }

    /// Runs [`Index::check`] on all shards, and checks that they agree: a crawl that one shard has
    /// committed is committed in the home shard. A crawl whose commit is running or was interrupted
    /// is included in `interrupted`.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// assert!(index.check()?.ok);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::check`].
    pub fn check(&self) -> S::Answer<Check> {
        let index = self.clone();
        self.server().run(async move {
            let shards = index.all(|shard| shard.check()).await?;
            index.together(shards).await
        })
    }

    /// Runs [`Index::repair`] on all shards.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// println!("{:?} repairs", index.repair()?.repaired);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::repair`].
    pub fn repair(&self) -> S::Answer<Check> {
        let index = self.clone();
        self.server().run(async move {
            let shards = index.all(|shard| shard.repair()).await?;
            index.together(shards).await
        })
    }

    async fn together(&self, shards: Vec<Check>) -> Result<Check, Error> {
        let unfinished = self.server().step(self.marks_call()).await?;
        let mut committed = self.members(b"allcrawls").await?.into_iter();
        let at_home: BTreeSet<_> = committed.next().into_iter().flatten().collect();
        let mut halves: BTreeSet<_> = unfinished.0.into_iter().map(|mark| mark.crawl).collect();
        halves.extend(committed.flatten().filter(|crawl| !at_home.contains(crawl)));

        let mut shards = shards.into_iter();
        let Some(mut sum) = shards.next() else {
            unreachable!("there is a home shard");
        };
        for check in shards {
            sum.hashes += check.hashes;
            sum.dangling_owners += check.dangling_owners;
            sum.missing_hashes += check.missing_hashes;
            sum.hidden_owners += check.hidden_owners;
            sum.bad_records += check.bad_records;
            sum.count_drift += check.count_drift;
            sum.leaked_keys += check.leaked_keys;
            sum.unlisted_crawls += check.unlisted_crawls;
            sum.to_remove_crawls += check.to_remove_crawls;
            sum.stale_holders += check.stale_holders;
            sum.interrupted += check.interrupted;
            sum.placeholders += check.placeholders;
            sum.ok &= check.ok;
            sum.repaired = sum.repaired.zip(check.repaired).map(|(a, b)| a + b);
        }
        sum.interrupted += halves.len() as u64;
        sum.ok &= halves.is_empty();
        Ok(sum)
    }

    /// Returns the profile as [`Index::profile`] does.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// assert_eq!(index.profile()?, Profile::Document);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::profile`].
    pub fn profile(&self) -> S::Answer<Profile> {
        self.home().profile()
    }

    /// Sets the profile of all shards, as [`Index::set_profile`] does.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// index.set_profile(Profile::Browsertrix)?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::set_profile`].
    pub fn set_profile(&self, profile: Profile) -> S::Answer<()> {
        let index = self.clone();
        self.server().run(async move {
            index.all(|shard| shard.set_profile(profile)).await?;
            Ok(())
        })
    }
}

impl Standing {
    fn add(&mut self, at_home: Option<CrawlState>, other: &Standing) {
        self.state = together(at_home, [self.state, other.state]);
        self.hashes += other.hashes;
        self.total_urls += other.total_urls;
        self.dupe_urls += other.dupe_urls;
        self.conserved_size += other.conserved_size;
        self.total_crawl_size += other.total_crawl_size;
        self.waczs += other.waczs;
    }
}

/// Combines the states of a crawl in the shards. The crawl is committed if the home shard has
/// committed it, which happens last. It is continued if any shard has uncommitted records of it.
fn together<const N: usize>(at_home: Option<CrawlState>, states: [CrawlState; N]) -> CrawlState {
    match at_home {
        Some(state @ (CrawlState::Outgoing | CrawlState::Canceled | CrawlState::Unlisted)) => state,
        None | Some(CrawlState::Uncommitted) => match states.first() {
            Some(CrawlState::Unlisted) => CrawlState::Unlisted,
            _ => CrawlState::Uncommitted,
        },
        Some(_) if states.iter().all(|state| *state == CrawlState::Committed) => {
            CrawlState::Committed
        }
        Some(_) => CrawlState::Continued,
    }
}
