//! The life cycle of a crawl across all shards.
//!
//! The client processes the home shard last, so that its state shows if an operation is complete.
//! It sets a mark before the first shard and removes the mark after the last. After a crash in
//! between, the same call completes the operation.

use std::collections::BTreeSet;
use std::iter::repeat;

use super::marks::{Doing, Marks};
use super::standing::{Standing, Standings};
use super::{Sharded, Unfinished};
use crate::dedupe::{Committed, Index, Removed, Retained};
use crate::server::{Ask, Batch, Call, Code, Error, Pending, Steps, Unsent};

/// Maximum number of rounds of a removal. Each round checks for remaining data, because other
/// clients may write to the crawl at the same time.
const MAX_ROUNDS: usize = 10;

impl<S: Steps> Sharded<S> {
    /// Begins a crawl in the home shard, as [`Index::begin`](crate::dedupe::Index::begin) does.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// index.begin(b"crawl-1")?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::begin`](crate::dedupe::Index::begin).
    pub fn begin(&self, crawl: impl AsRef<[u8]>) -> S::Answer<bool> {
        let crawl = crawl.as_ref();
        let (index, crawl) = (self.clone(), crawl.to_vec());
        self.server().run(async move {
            let (standing, _) = index.standing(&crawl).await?;
            let begin = index.home().over(&Unsent).begin(&crawl);
            let begins = index.server().step(begin).await?;
            Ok(begins && !standing.others().iter().any(|other| other.uncommitted))
        })
    }

    /// Begins a visible crawl as [`Index::begin_visible`](crate::dedupe::Index::begin_visible) does, in all
    /// shards.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// index.begin_visible(b"crawl-1")?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::begin_visible`](crate::dedupe::Index::begin_visible). The crawl may have begun
    /// in other shards.
    pub fn begin_visible(&self, crawl: impl AsRef<[u8]>) -> S::Answer<bool> {
        let crawl = crawl.as_ref();
        let (index, crawl) = (self.clone(), crawl.to_vec());
        self.server().run(async move {
            let batch = Batch::new();
            let begin = |shard: &Index<S>| shard.over(&batch).begin_visible(&crawl);
            let begun: Vec<Pending<bool>> = index.shards().iter().map(begin).collect();
            index.server().step_batch(&batch).await?;
            let mut begins = false;
            for answer in begun {
                begins |= answer.take()?;
            }
            Ok(begins)
        })
    }

    /// Commits the crawl as [`Index::commit`](crate::dedupe::Index::commit) does, in all shards,
    /// the home shard last.
    ///
    /// If a commit fails halfway, send it again: the result covers the whole commit, except for the
    /// counts of a shard whose reply was lost because the connection broke or the client ended.
    /// Unless it is the crawl's first commit, the crawl cannot be cancelled until the commit is
    /// complete. If several clients commit the same crawl at the same time, no result counts a hash
    /// twice, but hashes that another client has committed may be missing.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// let committed = index.commit(b"crawl-1")?;
    /// println!("{} payloads that the index did not have", committed.new);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::commit`](crate::dedupe::Index::commit), and `SHARDED` while a cancel
    /// or removal of the crawl is unfinished.
    pub fn commit(&self, crawl: impl AsRef<[u8]>) -> S::Answer<Committed> {
        let crawl = crawl.as_ref();
        let (index, crawl) = (self.clone(), crawl.to_vec());
        self.server().run(async move {
            match index.commit_all(&[&crawl], Where::AllShards).await?.pop() {
                Some(committed) => committed,
                None => unreachable!("one result per crawl"),
            }
        })
    }

    /// Commits these crawls in this order, each as [`commit`](Sharded::commit) does, in few round trips.
    /// Returns the result of each crawl.
    ///
    /// Besides the home shard, only the shards that list a crawl as uncommitted get a command. So this
    /// call does not find records that plain clients added to a shard without listing the crawl.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// for committed in index.commit_each(&[b"crawl-1", b"crawl-2"])? {
    ///     println!("{} payloads that the index did not have", committed?.new);
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails if a server cannot be reached. Some of the crawls may be committed, or committed in some
    /// shards only: commit them again.
    pub fn commit_each(&self, crawls: &[&[u8]]) -> S::Answer<Vec<Result<Committed, Error>>> {
        let (index, crawls) = (self.clone(), owned(crawls));
        self.server().run(async move {
            let crawls: Vec<&[u8]> = crawls.iter().map(Vec::as_slice).collect();
            index.commit_all(&crawls, Where::Uncommitted).await
        })
    }

    async fn commit_all(
        &self,
        crawls: &[&[u8]],
        shards: Where,
    ) -> Result<Vec<Result<Committed, Error>>, Error> {
        let marks = self.server().step(self.marks_call()).await?;
        let refused = |crawl: &&[u8]| {
            let refused = marks.refuse("DEDUPE.COMMIT", crawl, &[Doing::Cancel, Doing::Remove]);
            refused.map(|()| Committed::default())
        };
        let mut sums: Vec<Result<Committed, Error>> = crawls.iter().map(refused).collect();
        let those = |sums: &[Result<Committed, Error>]| {
            let zipped = crawls.iter().zip(sums).enumerate();
            let left = zipped.filter(|(_, (_, sum))| sum.is_ok());
            left.map(|(at, (crawl, _))| (at, *crawl))
                .collect::<Vec<_>>()
        };
        let left = those(&sums);
        if left.is_empty() {
            return Ok(sums);
        }
        let marked: Vec<&[u8]> = left.iter().map(|(_, crawl)| *crawl).collect();
        let run = self.enter_marks(Doing::Commit, &marked).await?;

        let has_crawl = self.have(&marked, shards).await?;
        let wanted = has_crawl.into_iter().map(|has_crawl| {
            let left = left.iter().zip(has_crawl);
            let left = left.filter(|(_, has_crawl)| *has_crawl);
            left.map(|(wanted, _)| *wanted).collect()
        });
        let wanted: Vec<Wanted<'_>> = wanted.collect();
        let (others, sent) = self.commit_in(&self.shards()[1..], &wanted).await;
        let mut counts = vec![None; crawls.len()];
        for (at, other) in others {
            match other {
                Ok(committed) => {
                    let sum: Committed = counts[at].unwrap_or_default();
                    counts[at] = Some(sum.plus(committed));
                }
                Err(error) if error.code() == Some(Code::NoCrawl) => {}
                Err(error) if sums[at].is_ok() => sums[at] = Err(error),
                Err(_) => {}
            }
        }
        let counted = crawls.iter().zip(&counts);
        let counted = counted.filter_map(|(crawl, sum)| Some((*crawl, (*sum)?)));
        let counted: Vec<_> = counted
            .filter(|(_, sum)| *sum != Committed::default())
            .map(|(crawl, sum)| (crawl, sum.plus(marks.committed(crawl))))
            .collect();
        let noted = self.note(&run, &counted).await;
        sent?;
        noted?;

        let (at_home, sent) = self.commit_in(&self.shards()[..1], &[those(&sums)]).await;
        sent?;
        let mut done = Vec::new();
        for (at, at_home) in at_home {
            let crawl = crawls[at];
            let at_home = match at_home {
                // The crawl has no records in the home shard and no WACZ files.
                Err(error) if error.code() == Some(Code::NoCrawl) => {
                    self.commit_unknown_at_home(crawl, error).await
                }
                at_home => at_home,
            };
            let is_nowhere = |error: &Error| error.code() == Some(Code::NoCrawl);
            if at_home.as_ref().map_or_else(is_nowhere, |_| true) {
                done.push(crawl);
            }
            let others = counts[at].unwrap_or_default().plus(marks.committed(crawl));
            sums[at] = at_home.map(|at_home| others.plus(at_home));
        }
        self.end(&run, &done, &marks).await?;
        // If no shard has committed any records of a crawl, this run leaves nothing to finish.
        let unchanged = crawls.iter().zip(&sums).zip(&counts);
        let unchanged = unchanged.filter(|((_, sum), count)| {
            let failed = sum.as_ref().err();
            count.is_none() && failed.is_some_and(|error| !error.is_connection())
        });
        let unchanged: Vec<&[u8]> = unchanged.map(|((crawl, _), _)| *crawl).collect();
        self.end(&run, &unchanged, &Marks::default()).await?;
        Ok(sums)
    }

    /// Commits crawls in shards: sends each shard one call for its crawls. Then commits the crawls that these calls
    /// did not commit, each on its own. Returns the replies, and the connection error if there was one.
    async fn commit_in(
        &self,
        shards: &[Index<S>],
        wanted: &[Wanted<'_>],
    ) -> (Vec<(usize, Result<Committed, Error>)>, Result<(), Error>) {
        let batch = Batch::new();
        let asked = shards.iter().zip(wanted).map(|(shard, crawls)| {
            let ids: Vec<&[u8]> = crawls.iter().map(|(_, crawl)| *crawl).collect();
            (shard, crawls, shard.over(&batch).commit_each(&ids))
        });
        let asked: Vec<_> = asked.collect();
        let sent = self.server().step_batch(&batch).await;
        let (mut replies, mut single) = (Vec::new(), Vec::new());
        for (shard, crawls, asked) in asked {
            match (asked.take(), &crawls[..]) {
                (Err(error), [(at, _)]) => replies.push((*at, Err(error))),
                (asked, _) => {
                    let counts = asked.unwrap_or_default().into_iter().chain(repeat(None));
                    for (&(at, crawl), counts) in crawls.iter().zip(counts) {
                        match counts {
                            Some(counts) => replies.push((at, Ok(counts))),
                            None => single.push((at, shard.over(&batch).commit(crawl))),
                        }
                    }
                }
            }
        }
        if sent.is_err() || single.is_empty() {
            return (replies, sent);
        }
        let sent = self.server().step_batch(&batch).await;
        replies.extend(single.into_iter().map(|(at, reply)| (at, reply.take())));
        (replies, sent)
    }

    /// Returns, for each shard except the home shard, those of these crawls that the shard must commit.
    async fn have(&self, crawls: &[&[u8]], shards: Where) -> Result<Vec<Vec<bool>>, Error> {
        let others = &self.shards()[1..];
        if let Where::AllShards = shards {
            return Ok(vec![vec![true; crawls.len()]; others.len()]);
        }
        let batch = Batch::new();
        let asked: Vec<Pending<Vec<bool>>> = others
            .iter()
            .map(|shard| {
                let mut members = redis::cmd("SMISMEMBER");
                members.arg(shard.key(b"uncommittedcrawls")).arg(crawls);
                batch.ask(Call::new(members).repeatable())
            })
            .collect();
        self.server().step_batch(&batch).await?;
        asked.into_iter().map(Pending::take).collect()
    }

    /// Commits a crawl of which the home shard has no records, if other shards have some. Otherwise,
    /// returns the error.
    async fn commit_unknown_at_home(&self, crawl: &[u8], error: Error) -> Result<Committed, Error> {
        let (standing, _) = self.standing(crawl).await?;
        if !standing.others().iter().any(|other| other.committed) {
            return Err(error);
        }
        self.enter(crawl).await?;
        self.server()
            .step(self.home().over(&Unsent).commit(crawl))
            .await
    }

    /// Registers a crawl in the home shard if only other shards know it.
    async fn enter(&self, crawl: &[u8]) -> Result<(), Error> {
        let mut add = redis::cmd("SADD");
        add.arg(self.home().key(b"uncommittedcrawls")).arg(crawl);
        let add = Call::<u64>::new(add).repeatable();
        self.server().step(add).await.map(drop)
    }

    /// Cancels the crawl as [`Index::cancel`](crate::dedupe::Index::cancel) does, in all shards.
    ///
    /// If the first commit of the crawl was interrupted, also removes the crawl from the shards
    /// that had committed it. Returns the number of discarded hashes. For shards that had committed
    /// the crawl, this number includes only hashes that no other crawl has.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// index.cancel(b"crawl-1")?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::cancel`](crate::dedupe::Index::cancel), and `SHARDED` while a removal
    /// of the crawl, or a commit that is not its first, is unfinished.
    pub fn cancel(&self, crawl: impl AsRef<[u8]>) -> S::Answer<u64> {
        let crawl = crawl.as_ref();
        let (index, crawl) = (self.clone(), crawl.to_vec());
        self.server()
            .run(async move { index.cancel_all(&crawl).await })
    }

    async fn cancel_all(&self, crawl: &[u8]) -> Result<u64, Error> {
        let (standing, marks) = self.standing(crawl).await?;
        let was_whole = standing.home().committed;
        let others: &[Doing] = if was_whole {
            // Some shards may already have committed the new records, and a cancel cannot undo
            // that.
            &[Doing::Remove, Doing::Commit]
        } else {
            &[Doing::Remove]
        };
        marks.refuse("DEDUPE.CANCEL", crawl, others)?;
        if standing.is_nowhere() && marks.of(crawl).next().is_none() {
            return self
                .server()
                .step(self.home().over(&Unsent).cancel(crawl))
                .await;
        }
        let run = self.enter_marks(Doing::Cancel, &[crawl]).await?;
        let gone = if was_whole {
            self.discard_uncommitted(crawl).await
        } else {
            self.take_away(&[crawl]).await.map(|gone| gone.hashes)
        };
        match gone {
            // The crawl had no uncommitted records.
            Err(error) if error.code() == Some(Code::Committed) => {
                self.end(&run, &[crawl], &marks).await?;
                Err(error)
            }
            gone => {
                let gone = gone?;
                self.end(&run, &[crawl], &marks).await?;
                Ok(gone)
            }
        }
    }

    /// Discards the records that a committed crawl has added since its last commit.
    async fn discard_uncommitted(&self, crawl: &[u8]) -> Result<u64, Error> {
        let batch = Batch::new();
        let shards = self.shards().iter();
        let asked: Vec<Pending<u64>> = shards
            .map(|shard| shard.over(&batch).cancel(crawl))
            .collect();
        self.server().step_batch(&batch).await?;
        let (mut gone, mut nothing) = (None, None);
        for answer in asked {
            match answer.take() {
                Ok(hashes) => gone = Some(gone.unwrap_or(0) + hashes),
                Err(error) => match error.code() {
                    Some(Code::Committed) => nothing = Some(error),
                    Some(Code::NoCrawl) => {}
                    _ => return Err(error),
                },
            }
        }
        match (gone, nothing) {
            (None, Some(error)) => Err(error),
            (gone, _) => Ok(gone.unwrap_or(0)),
        }
    }

    /// Removes crawls from all shards, the home shard last, as
    /// [`Index::remove`](crate::dedupe::Index::remove) does.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// index.remove(&[b"crawl-1", b"crawl-2"])?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::remove`](crate::dedupe::Index::remove) (nothing changes). For a crawl
    /// whose first commit was interrupted, `UNCOMMITTED`.
    pub fn remove(&self, crawls: &[&[u8]]) -> S::Answer<Removed> {
        let (index, crawls) = (self.clone(), owned(crawls));
        self.server().run(async move {
            let crawls: Vec<&[u8]> = crawls.iter().map(Vec::as_slice).collect();
            index.remove_all(&crawls).await
        })
    }

    async fn remove_all(&self, crawls: &[&[u8]]) -> Result<Removed, Error> {
        const NAME: &str = "DEDUPE.REMOVE";
        let mut named = BTreeSet::new();
        let once = crawls.iter().filter(|crawl| named.insert(**crawl));
        let crawls = &once.copied().collect::<Vec<&[u8]>>()[..];
        if crawls.is_empty() {
            return Ok(Removed::default());
        }
        let (standings, marks) = self.standings(crawls).await?;
        for (crawl, standing) in crawls.iter().zip(&standings) {
            let shown = crawl.escape_ascii();
            if standing.home().is_removable() || marks.has(crawl, Doing::Remove) {
                continue;
            }
            return Err(if standing.is_nowhere() {
                let sentence = format!("crawl '{shown}' is not in this index");
                Error::refused(NAME, Code::NoCrawl, sentence)
            } else {
                let sentence = format!("crawl '{shown}' is not committed; cancel it");
                Error::refused(NAME, Code::Uncommitted, sentence)
            });
        }
        let run = self.enter_marks(Doing::Remove, crawls).await?;
        let gone = self.take_away(crawls).await?;
        self.end(&run, crawls, &marks).await?;
        Ok(Removed {
            crawls: crawls.len() as u64,
            dropped: gone.removed.dropped,
            reowned: gone.removed.reowned,
        })
    }

    /// Removes all data of these crawls, committed or not: from the other shards first, then from
    /// the home shard.
    async fn take_away(&self, crawls: &[&[u8]]) -> Result<Gone, Error> {
        let mut gone = Gone::default();
        for of_home in [false, true] {
            let mut rounds = 0;
            loop {
                let (standings, _) = self.standings(crawls).await?;
                if !self
                    .take_away_once(crawls, &standings, of_home, &mut gone)
                    .await?
                {
                    break;
                }
                rounds += 1;
                if rounds == MAX_ROUNDS {
                    let sentence = "crawlers are still writing to the crawl; stop them first";
                    return Err(Error::refused("sharded index", Code::Sharded, sentence));
                }
            }
        }
        Ok(gone)
    }

    /// Runs one round of a removal. Returns false if no data were left.
    async fn take_away_once(
        &self,
        crawls: &[&[u8]],
        standings: &[Standings],
        of_home: bool,
        gone: &mut Gone,
    ) -> Result<bool, Error> {
        let shards = if of_home {
            0..1
        } else {
            1..self.shards().len()
        };
        let batch = Batch::new();
        let (mut canceled, mut removed) = (Vec::new(), Vec::new());
        for number in shards {
            let shard = self.shards()[number].over(&batch);
            let those = |is: fn(&Standing) -> bool| {
                let zipped = crawls.iter().zip(standings);
                zipped
                    .filter(|(_, standing)| is(&standing.0[number]))
                    .map(|(&crawl, _)| crawl)
                    .collect::<Vec<&[u8]>>()
            };
            // Cancel uncommitted data first, because a removal skips crawls whose cancel was interrupted.
            let cancelable = those(Standing::is_cancelable);
            if !cancelable.is_empty() {
                canceled.extend(cancelable.iter().map(|crawl| shard.cancel(crawl)));
                continue;
            }
            let removable = those(Standing::is_removable);
            if !removable.is_empty() {
                removed.push(shard.remove(&removable));
            }
        }
        if batch.is_empty() {
            return Ok(false);
        }
        self.server().step_batch(&batch).await?;
        for answer in canceled {
            gone.hashes += passed(answer)?.unwrap_or(0);
        }
        for answer in removed {
            if let Some(removed) = passed(answer)? {
                gone.hashes += removed.dropped;
                gone.removed.dropped += removed.dropped;
                gone.removed.reowned += removed.reowned;
            }
        }
        Ok(true)
    }

    /// Declares these crawls to be the whole collection, as [`Index::retain`](crate::dedupe::Index::retain)
    /// does.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// index.retain(true, &[b"crawl-3"])?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::retain`](crate::dedupe::Index::retain).
    pub fn retain(&self, purge: bool, crawls: &[&[u8]]) -> S::Answer<Retained> {
        let (index, crawls) = (self.clone(), owned(crawls));
        self.server().run(async move {
            let crawls: Vec<&[u8]> = crawls.iter().map(Vec::as_slice).collect();
            index.retain_all(purge, &crawls).await
        })
    }

    async fn retain_all(&self, purge: bool, crawls: &[&[u8]]) -> Result<Retained, Error> {
        let (standings, marks) = self.standings(crawls).await?;
        for (crawl, standing) in crawls.iter().zip(&standings) {
            // The statistics and the list of committed crawls are in the home shard.
            if standing.home().is_nowhere() && !standing.is_nowhere() {
                self.enter(crawl).await?;
            }
        }
        let mut gone = Retained::default();
        if purge {
            // Check for errors of the home shard before removing any data.
            let counted = self.home().over(&Unsent).retain(false, crawls);
            self.server().step(counted).await?;
            let kept: BTreeSet<&[u8]> = crawls.iter().copied().collect();
            let committed = self.members(b"allcrawls").await?.swap_remove(0);
            // Add the crawls whose removal was interrupted, because the home shard may have removed them
            // already.
            let left = marks.0.iter().filter(|mark| mark.doing == Doing::Remove);
            let left = left.map(|mark| &mark.crawl);
            let away: BTreeSet<&[u8]> = committed.iter().chain(left).map(Vec::as_slice).collect();
            let away: Vec<&[u8]> = away.difference(&kept).copied().collect();
            let removed = self.remove_all(&away).await?;
            gone = Retained {
                crawls: removed.crawls,
                dropped: removed.dropped,
                reowned: removed.reowned,
            };
        }
        let at_home = self.home().over(&Unsent).retain(purge, crawls);
        let at_home = self.server().step(at_home).await?;
        Ok(if purge { gone } else { at_home })
    }

    /// Lists the operations that are running on all shards, or were interrupted between two shards.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// for half in index.unfinished()? {
    ///     println!("{:?} {} again", half.doing, String::from_utf8_lossy(&half.crawl));
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails with the error of the server, or a connection error.
    pub fn unfinished(&self) -> S::Answer<Vec<Unfinished>> {
        self.server().ask(self.marks_call().map(|marks| marks.0))
    }
}

/// Shards that get the commit of a crawl.
#[derive(Clone, Copy)]
enum Where {
    AllShards,
    /// The home shard, and the shards that list the crawl as uncommitted.
    Uncommitted,
}

/// Crawls that a shard commits, with their positions in the call.
type Wanted<'a> = Vec<(usize, &'a [u8])>;

/// Totals of a removal so far.
#[derive(Default)]
struct Gone {
    hashes: u64,
    removed: Removed,
}

impl Committed {
    fn plus(self, other: Committed) -> Committed {
        Committed {
            new: self.new + other.new,
            known: self.known + other.known,
        }
    }
}

/// Returns the reply. Returns `None` if another client was faster; the caller must then repeat the
/// round.
fn passed<T>(answer: Pending<T>) -> Result<Option<T>, Error> {
    let error = match answer.take() {
        Ok(answer) => return Ok(Some(answer)),
        Err(error) => error,
    };
    match error.code() {
        Some(Code::NoCrawl | Code::Committed | Code::Uncommitted | Code::Removing) => Ok(None),
        _ => Err(error),
    }
}

fn owned(crawls: &[&[u8]]) -> Vec<Vec<u8>> {
    crawls.iter().map(|crawl| crawl.to_vec()).collect()
}
