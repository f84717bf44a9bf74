//! The URL index: finds the captures of a URL without reading all records.
//!
//! `h:<crawl>:urls` is a sorted set of the crawl's hashes. The score of each hash combines a
//! fingerprint of the URL and the minute of the date of its record. Therefore, the candidates for a
//! URL are adjacent, newest first. A lookup then compares the URLs and dates of their records. The
//! field `urls` of `crawlspace` enables the URL index; without this field, no `urls` key is written
//! or read.
//!
//! Version 0.1.0 used positive scores that depend only on the URL; the current scores are negative.
//! A set may contain both kinds until the URL index is switched on again.

pub use crawlspace_compact::limits::dedupe::{CAPTURES, MAX_CAPTURES};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

use crawlspace_host::keyspace::Batch;
use crawlspace_host::reply::Reply;

use super::digest::Digest;
use super::error::{Error, Result};
use super::gather::Gather;
use super::index::Index;
use super::index::storage::Of;
use super::index::urls::{State, score, scores, undated};
use super::job::{Job, Lent, Walk, crawls_in};
use super::keys::{CrawlKey, Pick};
use super::profile::Profile;
use super::record::{Record, Room};
use super::store::{Store, Stored};
use super::wacz;
use crawlspace_compact::date::Moment;

/// Number of hashes of a URL to read at a time.
const AT_ONCE: u64 = if cfg!(test) { 2 } else { 32 };

/// Returns the URL in the form in which records of this profile contain it.
fn stored_url(url: &[u8], profile: Profile) -> Vec<u8> {
    let (wacz_index, date, size) = (0, &b""[..], 0);
    let given = Record {
        wacz_index,
        date,
        url,
        size,
    };
    let mut room = Room::default();
    given.as_stored(profile, &mut room).url.to_vec()
}

/// Compares the entry of a hash with the crawl's record. Returns true if they do not match. With
/// `mends`, corrects the entry.
pub(super) fn correct<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    digest: &Digest,
    mends: bool,
) -> Result<bool> {
    let record = index.record_of(ks, crawl, digest)?;
    let record = record
        .as_ref()
        .and_then(|value| Record::parse(value.as_ref()));
    let right = record.map(|record| score(record.url, Moment::of(record.date)));
    let key = index.crawls.key(ks, crawl, CrawlKey::Urls);
    let score = ks.zset_score(&key, digest.canonical())?;
    let is_old = index.urls.state() == State::Undated
        && record.is_some_and(|record| Some(*undated(record.url).start()) == score);
    let differs = score != right && (mends || !is_old);
    if differs && mends {
        match right {
            Some(score) => ks.zset_add(&key, digest.canonical(), score)?,
            None => ks.zset_remove(&key, digest.canonical())?,
        }
    }
    Ok(differs)
}

/// Returns true if a plain client wrote this record of a continued crawl, and no commit has merged
/// it.
fn is_unseen<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    digest: &Digest,
) -> Result<bool> {
    if !index.crawls.is_uncommitted(ks, crawl)? || !index.has_unseen_fields(ks, crawl)? {
        return Ok(false);
    }
    let commits = Gather::new(index, ks, crawl, true)?;
    Ok(!commits.is_recorded(index, ks, crawl, digest)?)
}

/// Returns a crawl's record of a hash, if it is visible to the caller. `own` is the crawl of the
/// caller.
fn seen_record<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    digest: &Digest,
    own: Option<&[u8]>,
) -> Result<Option<Stored<K::Value>>> {
    let committed = index.committed_record(ks, crawl, digest)?;
    if committed.is_some() && !is_unseen(index, ks, crawl, digest)? {
        return Ok(committed);
    }
    let is_seen = own == Some(crawl)
        || index.visible.has(crawl)
            && index.crawls.is_uncommitted(ks, crawl)?
            && !index.under_way.is_removing(ks, crawl)?;
    if is_seen && !index.under_way.is_leaving(ks, crawl)? {
        index.record_of(ks, crawl, digest)
    } else {
        Ok(None)
    }
}

/// The hashes of a crawl whose scores are in the range of a URL. Valid for one slice, during which
/// the set does not change.
struct Candidates<N> {
    key: N,
    scores: RangeInclusive<f64>,
    /// Ranks of the hashes that were not read yet. `None` before the first read: the ranks are
    /// usually not needed, because the first batch contains all hashes of a URL.
    ranks: Option<Range<u64>>,
}

impl<N: Clone + AsRef<[u8]>> Candidates<N> {
    /// Creates candidates that start after the hash `last`, which had this score.
    fn behind<K: Store<Name = N>>(
        ks: &mut K,
        key: N,
        scores: RangeInclusive<f64>,
        last: Option<&(f64, Vec<u8>)>,
    ) -> Result<Candidates<N>> {
        let mut candidates = Candidates {
            key,
            scores,
            ranks: None,
        };
        if let Some((score, last)) = last {
            let Range { end, .. } = candidates.all_ranks(ks)?;
            let mut start = ks.zset_count(&candidates.key, score - 1.0)?;
            let mut behind = ks.zset_count(&candidates.key, *score)?;
            // Hashes with equal scores are in byte order.
            while start < behind {
                let middle = start.midpoint(behind);
                match ks.zset_at(&candidates.key, middle)? {
                    Some((hash, _)) if hash.as_ref() <= last.as_slice() => start = middle + 1,
                    _ => behind = middle,
                }
            }
            candidates.ranks = Some(start..end);
        }
        Ok(candidates)
    }

    fn all_ranks<K: Store<Name = N>>(&self, ks: &mut K) -> Result<Range<u64>> {
        let begin = ks.zset_count(&self.key, self.scores.start() - 1.0)?;
        Ok(begin..ks.zset_count(&self.key, *self.scores.end())?)
    }

    /// Excludes hashes with higher scores, which are older.
    fn end_with<K: Store<Name = N>>(&mut self, ks: &mut K, score: f64) -> Result<()> {
        if score < *self.scores.end() {
            self.scores = *self.scores.start()..=score;
            if let Some(ranks) = &mut self.ranks {
                ranks.end = ks.zset_count(&self.key, score)?;
            }
        }
        Ok(())
    }

    /// Reads the next hashes. Returns false at the end.
    fn next<K: Store<Name = N>>(&mut self, ks: &mut K, out: &mut Batch) -> Result<bool> {
        let Some(ranks) = &mut self.ranks else {
            let more = ks.zset_between(&self.key, self.scores.clone(), AT_ONCE, out)?;
            if more {
                let mut ranks = self.all_ranks(ks)?;
                ranks.start += out.len() as u64;
                self.ranks = Some(ranks);
            }
            return Ok(more);
        };
        let n = (ranks.end.saturating_sub(ranks.start)).min(AT_ONCE);
        if n > 0 {
            ks.zset_range(&self.key, ranks.start, n, out)?;
        }
        ranks.start += n;
        Ok(ranks.start < ranks.end)
    }
}

/// Returns the job that switches the URL index on or off. Its reply is a map with the state and
/// with the numbers of crawls and records in the URL index. Switching the URL index on again adds
/// the records that plain clients have written since then.
///
/// # Errors
/// The job fails with `WRONGTYPE` if a key holds another type, and with errors of the server.
pub fn switch<K: Store>(on: bool) -> Job<K> {
    Job::new(async move |lent: Lent<K>| {
        lent.with(|index, ks| {
            index.check_types(ks, None)?;
            let state = match (on, index.urls.state()) {
                (true, State::On | State::Undated) => return Ok(()),
                (true, _) => State::Building,
                (false, State::Off) => return Ok(()),
                (false, _) => State::Off,
            };
            index.register(ks)?;
            index.urls.set_state(ks, state)
        })?;
        let sets: [Pick<K::Name>; 3] = [
            |names| &names.allcrawls,
            |names| &names.uncommitted,
            |names| &names.outgoing,
        ];
        let crawls = crawls_in(&lent, &sets).await?;
        let mut records = 0;
        for (done, crawl) in crawls.iter().enumerate() {
            if on {
                compare(&lent, crawl, true).await?;
            }
            records += lent.with(|index, ks| {
                let key = index.crawls.key(ks, crawl, CrawlKey::Urls);
                if on {
                    return Ok(ks.zset_len(&key)?);
                }
                ks.delete(&key)?;
                Ok::<_, Error>(0)
            })?;
            lent.report(done as u64 + 1, crawls.len() as u64);
            lent.pause().await;
        }
        lent.with(|index, ks| {
            if on && index.urls.state() != State::On {
                // A client may have flushed the database since the last slice.
                index.register(ks)?;
                index.urls.set_state(ks, State::On)?;
            }
            Ok(Reply::named([
                ("urls", Reply::bulk(if on { "on" } else { "off" })),
                (
                    "crawls",
                    Reply::count(if on { crawls.len() as u64 } else { 0 }),
                ),
                ("records", Reply::count(records)),
            ]))
        })
    })
}

/// Compares the URL index of a crawl with its records; with `mends`, corrects it. Returns the number of entries that
/// were missing, wrong or orphaned.
///
/// # Errors
/// `WRONGTYPE` if a key holds another type; errors of the server.
pub(super) async fn compare<K: Store>(lent: &Lent<K>, crawl: &[u8], mends: bool) -> Result<u64> {
    let mut wrong = 0;
    let records = lent.with(|index, ks| Walk::stored(index, ks, Of::Records(crawl.to_vec())));
    let entries = lent.with(|index, ks| {
        let key = index.crawls.key(ks, crawl, CrawlKey::Urls);
        Walk::sorted_set(ks, key)
    });
    // Only the second walk finds entries without a record.
    for (walk, is_second) in [(records, false), (entries, true)] {
        let look = |index: &mut Index<K>, ks: &mut K, field: &[u8], _: &[u8]| {
            let digest = Digest::of_field(field);
            if !is_second || index.record_of(ks, crawl, &digest)?.is_none() {
                wrong += u64::from(correct(index, ks, crawl, &digest, mends)?);
            }
            Ok(())
        };
        walk.run(lent, look).await?;
    }
    Ok(wrong)
}

/// The arguments of a lookup by URL.
pub struct Asked {
    /// The crawl whose uncommitted records are included.
    pub own: Option<Vec<u8>>,
    /// Maximum number of captures per URL.
    pub limit: u64,
    /// Returns only captures before this date.
    pub before: Option<Vec<u8>>,
    /// The URLs.
    pub urls: Vec<Vec<u8>>,
}

/// Captures of a URL and their records, by date, crawl and hash. The newest come first, and
/// captures with invalid dates last.
type Captures = BTreeMap<(Reverse<Option<Moment>>, Vec<u8>, Vec<u8>), Vec<u8>>;

/// Returns the job that lists the captures of URLs, newest first; its reply has a list for each URL.
///
/// # Errors
/// The job fails with `NOURLS` if there is no complete URL index, `NOPERM` if the user may not read a crawl's records,
/// and `WRONGTYPE` if a key holds another type.
pub fn look_up<K: Store>(asked: Asked) -> Job<K> {
    Job::new(async move |lent: Lent<K>| {
        let profile = lent.with(|index, _| index.urls.require().map(|()| index.profile()))?;
        let mut crawls = crawls_in(&lent, &[|names| &names.allcrawls]).await?;
        let visible = lent.with(|index, _| index.visible.crawls());
        let visible = visible.iter().map(|(_, crawl)| crawl);
        crawls.extend(visible.chain(&asked.own).cloned());
        crawls.sort_unstable();
        crawls.dedup();
        let mut lists = Vec::with_capacity(asked.urls.len());
        for url in &asked.urls {
            let url = stored_url(url, profile);
            let found = captures(&lent, &crawls, &url, &asked).await?;
            let mut list = Vec::with_capacity(found.len());
            for ((_, crawl, hash), value) in &found {
                list.push(lent.with(|index, ks| reply_of(index, ks, (crawl, hash), value))?);
                lent.pause().await;
            }
            lists.push(Reply::Array(list));
        }
        Ok(Reply::Array(lists))
    })
}

/// Returns the newest captures of a URL in these crawls.
async fn captures<K: Store>(
    lent: &Lent<K>,
    crawls: &[Vec<u8>],
    url: &[u8],
    asked: &Asked,
) -> Result<Captures> {
    let before = asked.before.as_deref().and_then(Moment::of);
    let (mut found, mut hashes) = (Captures::new(), Batch::default());
    for (crawl, is_dated) in crawls
        .iter()
        .flat_map(|crawl| [(crawl, true), (crawl, false)])
    {
        let mut last: Option<(f64, Vec<u8>)> = None;
        lent.slices(|index, ks, time| {
            // The URL index may have been dropped since the last slice.
            index.urls.require()?;
            if !is_dated && index.urls.state() == State::On {
                return Ok(true);
            }
            let key = index.crawls.key(ks, crawl, CrawlKey::Urls);
            let scores = if is_dated {
                scores(url, before)
            } else {
                undated(url)
            };
            // Other clients may have added or deleted hashes since the last slice.
            let mut candidates = Candidates::behind(ks, key, scores, last.as_ref())?;
            loop {
                if is_dated && let Some(score) = last_wanted(&found, url, asked.limit) {
                    candidates.end_with(ks, score)?;
                }
                hashes.clear();
                let more = candidates.next(ks, &mut hashes)?;
                if !hashes.is_empty() && index.places.packed_key().is_some() {
                    // Packed records are in another key. A user who may not read the plain key must
                    // not see the packed records either.
                    let records = index.crawls.key(ks, crawl, CrawlKey::Records);
                    ks.hash_len(&records)?;
                }
                for (i, (hash, _)) in hashes.iter().enumerate() {
                    let digest = Digest::of_field(hash);
                    let seen = seen_record(index, ks, crawl, &digest, asked.own.as_deref())?;
                    let value = seen.as_ref().map_or(&b""[..], AsRef::as_ref);
                    let record = Record::parse(value).filter(|record| record.url == url);
                    if let Some(moment) = record.map(|record| Moment::of(record.date))
                        && (before.is_none() || moment.is_some() && moment < before)
                    {
                        let place = (Reverse(moment), &crawl[..], digest.canonical());
                        keep(&mut found, asked.limit, place, value);
                    }
                    // Reading one record of a packed index may take as long as reading many plain
                    // records.
                    let is_last = !more && i + 1 == hashes.len();
                    if !is_last && !time() {
                        let score = ks.zset_score(&candidates.key, hash)?;
                        last = score.map(|score| (score, hash.to_vec()));
                        return Ok(false);
                    }
                }
                if !more {
                    return Ok::<_, Error>(true);
                }
            }
        })
        .await?;
        lent.pause().await;
    }
    Ok(found)
}

/// Once the limit is reached, returns the score of the oldest capture that may still be in the
/// reply. Other captures of the same minute may be newer than this capture.
fn last_wanted(found: &Captures, url: &[u8], limit: u64) -> Option<f64> {
    let ((Reverse(oldest), ..), _) = found.last_key_value()?;
    (found.len() as u64 >= limit).then(|| score(url, *oldest))
}

/// Adds a capture to the newest captures, and keeps at most `limit` of them.
fn keep(
    found: &mut Captures,
    limit: u64,
    (moment, crawl, hash): (Reverse<Option<Moment>>, &[u8], &[u8]),
    value: &[u8],
) {
    if found.len() as u64 >= limit {
        let oldest = found.last_key_value();
        let is_newer = oldest.is_some_and(|((oldest, of, with), _)| {
            (moment, crawl, hash) < (*oldest, &of[..], &with[..])
        });
        if !is_newer {
            return;
        }
        found.pop_last();
    }
    found.insert((moment, crawl.to_vec(), hash.to_vec()), value.to_vec());
}

fn reply_of<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    (crawl, hash): (&[u8], &[u8]),
    value: &[u8],
) -> Result<Reply> {
    let record = Record::parse(value).expect("only whole records are found");
    let waczs = index.crawls.key(ks, crawl, CrawlKey::Waczs);
    let file = wacz::file(ks, &waczs, record.wacz_index)?;
    Ok(Reply::Array(vec![
        Reply::bulk(crawl),
        Reply::bulk(Digest::of_field(hash).written(index.profile())),
        Reply::count(record.wacz_index),
        Reply::bulk(record.date),
        Reply::count(record.size),
        file.map_or(Reply::Nil, |file| Reply::bulk(file.filename)),
    ]))
}

#[cfg(test)]
mod tests;
