//! `REMOVE`, `RETAIN` and `CANCEL`: the removal of crawls from the index.
//!
//! The work is proportional to the size of the removed crawls. For each hash that they own, the
//! next holder in commit order becomes the owner; a hash without another holder is deleted.
//! `removing` lists the crawls until all of them are removed, so that the same command completes an
//! interrupted removal.

use crawlspace_host::reply::Reply;

use super::adopt::{adopt_all, drop_marks, ensure_base};
use super::begin::drop_leftovers;
use super::counts;
use super::digest::Digest;
use super::error::{Error, Result};
use super::gather::gather;
use super::index::numbers::{Numbers, parse_numbers, write_numbers};
use super::index::progress::{GONE, REMOVE};
use super::index::storage::Of;
use super::index::{CrawlState, Index};
use super::job::{Job, Lent, Walk, crawls_in};
use super::keys::{CrawlKey, Pick};
use super::merge::Withdrawn;
use super::merge::withdraw;
use super::store::Store;
use super::sums::{Lacks, committed_count, lacks, uncount};
use super::undo::{drop_finished, restore_baseline};
use super::wacz::file;

/// Field of `removing` that contains the counts so far. The name of the field is empty, which
/// cannot be a crawl id.
const FIGURES: &[u8] = b"";

/// Checks that all these crawls can be removed.
///
/// # Errors
/// `NOCRAWL`, and `UNCOMMITTED` for a crawl that is not committed yet.
pub fn check_removable<K: Store>(index: &mut Index<K>, ks: &mut K, crawls: &[&[u8]]) -> Result<()> {
    for &crawl in crawls {
        if index.crawls.is_removable(ks, crawl)? || index.under_way.is_gone(ks, crawl)? {
            continue;
        }
        return Err(match index.standing(ks, crawl)? {
            Some(_) => Error::Uncommitted(crawl.to_vec()),
            None => Error::NoCrawl(crawl.to_vec()),
        });
    }
    Ok(())
}

/// Returns the job that removes committed crawls, including the crawls of an interrupted removal.
/// Its reply contains three numbers: crawls removed, hashes deleted, and hashes that got a new
/// owner.
///
/// # Errors
/// The job fails with `WRONGTYPE` if a key holds another type, and with errors of the server.
pub fn remove<K: Store>(crawls: Vec<Vec<u8>>) -> Job<K> {
    Job::new(async move |lent| Removal::default().run(&lent, crawls).await)
}

/// State and results of a removal.
#[derive(Default)]
struct Removal {
    removed: u64,
    dropped: u64,
    reowned: u64,
    /// Number of records processed, and their total number.
    done: u64,
    all: u64,
    /// Differences between the sums in `allcounts` and the counts of the committed crawls.
    lacks: Lacks,
}

impl Removal {
    async fn run<K: Store>(mut self, lent: &Lent<K>, crawls: Vec<Vec<u8>>) -> Result<Reply> {
        lent.with(|index, ks| index.check_types(ks, None))?;
        for crawl in &crawls {
            lent.with(|index, ks| index.check_types(ks, Some(crawl)))?;
            lent.pause().await;
        }
        adopt_all(lent).await?;
        let crawls = lent.with(|index, ks| self.join(index, ks, crawls))?;
        for crawl in &crawls {
            self.all += lent.with(|index, ks| {
                index.under_way.set_removing(ks, crawl, Some(REMOVE))?;
                index.records_len(ks, crawl)
            })?;
            lent.pause().await;
        }
        self.lacks = lacks(lent, &crawls).await?;
        for crawl in &crawls {
            self.withdraw(lent, crawl, &crawls).await?;
            drop_traces(lent, crawl, true).await?;
            lent.with(|index, ks| self.take_out(index, ks, crawl))?;
            lent.pause().await;
        }
        lent.with(|index, ks| index.under_way.end_removal(ks))?;
        Ok(Reply::counts(&[self.removed, self.dropped, self.reowned]))
    }

    /// Returns the crawls to remove, sorted: the requested crawls, and the crawls of an earlier
    /// removal that a crash interrupted.
    fn join<K: Store>(
        &mut self,
        index: &mut Index<K>,
        ks: &mut K,
        crawls: Vec<Vec<u8>>,
    ) -> Result<Vec<Vec<u8>>> {
        index.note_purge(ks)?;
        let mut wanted = Vec::new();
        for (crawl, state) in counts::fields(ks, &index.names().removing)?.iter() {
            if crawl == FIGURES {
                if let [removed, dropped, reowned] = parse_numbers(state)[..] {
                    (self.removed, self.dropped, self.reowned) = (removed, dropped, reowned);
                }
            } else if state == REMOVE {
                wanted.push(crawl.to_vec());
            }
        }
        // An earlier job may have removed some of these crawls already.
        for crawl in crawls {
            if index.crawls.is_removable(ks, &crawl)?
                && !index.under_way.is_canceling(ks, &crawl)?
            {
                wanted.push(crawl);
            }
        }
        wanted.sort();
        wanted.dedup();
        // Take a commit number, so that an interrupted commit does not resume with counts from
        // before this removal.
        if !wanted.is_empty() {
            index.next_number(ks)?;
        }
        Ok(wanted)
    }

    /// Removes a crawl's hashes from the merged index. None of `crawls` can become an owner.
    async fn withdraw<K: Store>(
        &mut self,
        lent: &Lent<K>,
        crawl: &[u8],
        crawls: &[Vec<u8>],
    ) -> Result<()> {
        let numbers = lent.with(|index, ks| {
            let mut numbers = index.crawls.baseline(ks, crawl).numbers(ks)?;
            numbers.extend(index.under_way.commit_state(ks, crawl)?.map(|s| s.number));
            Ok::<_, Error>(numbers)
        })?;
        let excluded = |other: &[u8]| crawls.binary_search_by(|c| c[..].cmp(other)).is_ok();
        let of = Of::Records(crawl.to_vec());
        let mut records = lent.with(|index, ks| Walk::stored(index, ks, of));
        let before = self.done;
        lent.slices(|index, ks, time| {
            index.note_purge(ks)?;
            let merging = index.crawls.key(ks, crawl, CrawlKey::Merging);
            let is_merging = ks.exists(&merging);
            let done = records.slice(index, ks, time, |index, ks, field, _| {
                // Do not count hashes that an interrupted commit merged, because they were never
                // visible.
                let unseen =
                    is_merging && ks.hash_has(&merging, Digest::of_field(field).canonical())?;
                match withdraw(index, ks, crawl, &numbers, field, &excluded)? {
                    Withdrawn::NotOwner => {}
                    _ if unseen => {}
                    Withdrawn::Reowned => self.reowned += 1,
                    Withdrawn::Dropped => self.dropped += 1,
                }
                // Delete packed records one by one. The crawl's plain hash is deleted as a whole at
                // the end.
                index.places.unpack_record(ks, crawl, field)
            })?;
            self.write_figures(index, ks)?;
            self.done = before + records.given();
            lent.report(self.done, self.all);
            Ok(done)
        })
        .await
    }

    /// Deletes the rest of a crawl: its keys, counts and marks.
    fn take_out<K: Store>(&mut self, index: &mut Index<K>, ks: &mut K, crawl: &[u8]) -> Result<()> {
        uncount(index, ks, crawl, &mut self.lacks)?;
        for n in index.crawls.baseline(ks, crawl).numbers(ks)? {
            index.ledger.drop_number(ks, n)?;
        }
        drop_crawl(index, ks, crawl)?;
        index.set_committed(ks, crawl, false)?;
        index.under_way.set_removing(ks, crawl, Some(GONE))?;
        self.removed += 1;
        self.write_figures(index, ks)
    }

    fn write_figures<K: Store>(&self, index: &mut Index<K>, ks: &mut K) -> Result<()> {
        let figures = write_numbers(&[self.removed, self.dropped, self.reowned]);
        index.under_way.set_removing(ks, FIGURES, Some(&figures))
    }
}

/// Deletes the data that a crawl wrote outside of its own keys: its claims and, if the `whole`
/// crawl is removed, the names of its WACZ files in `src:d` and its sets of references.
async fn drop_traces<K: Store>(lent: &Lent<K>, crawl: &[u8], whole: bool) -> Result<()> {
    if whole {
        let waczs = lent.with(|index, ks| index.crawls.key(ks, crawl, CrawlKey::Waczs));
        for at in 0..lent.with(|_, ks| ks.list_len(&waczs))? {
            lent.with(|index, ks| match file(ks, &waczs, at)? {
                Some(entry) => {
                    // If `src:d` contains the name of a placeholder, another crawl has added the
                    // name.
                    let is_ours = entry.is_closed()
                        && index.crawls.state(ks, crawl)? == Some(CrawlState::Committed);
                    drop_finished(index, ks, &entry.filename, is_ours)
                }
                None => Ok(()),
            })?;
            lent.pause().await;
        }
        let references = lent.with(|index, ks| {
            let key = index.crawls.key(ks, crawl, CrawlKey::Refs);
            Walk::set(ks, key)
        });
        let drop_set = |index: &mut Index<K>, ks: &mut K, uuid: &[u8], _: &[u8]| {
            let references = index.references_key(ks, uuid);
            ks.delete(&references)?;
            Ok(())
        };
        references.run(lent, drop_set).await?;
    }
    let claims = lent.with(|index, ks| Walk::hash(ks, index.names().claims.clone()));
    let drop_claim = |index: &mut Index<K>, ks: &mut K, hash: &[u8], claim: &[u8]| {
        index.claims.drop_of(ks, crawl, hash, claim)
    };
    claims.run(lent, drop_claim).await
}

/// Returns the names of the keys that contain the references of a crawl's WACZ files.
///
/// # Errors
/// `WRONGTYPE` if a key holds another type; errors of the server.
pub fn references_of<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
) -> Result<Vec<K::Name>> {
    let refs = index.crawls.key(ks, crawl, CrawlKey::Refs);
    let uuids = counts::members(ks, &refs)?;
    let names = uuids.iter().map(|uuid| index.references_key(ks, uuid));
    Ok(names.collect())
}

/// Checks that a crawl has uncommitted records that can be canceled.
///
/// # Errors
/// `NOCRAWL`, `COMMITTED`, `REMOVING` while the crawl is being removed, and `PURGING` for a crawl that a purge by
/// another program has set aside.
pub fn check_cancelable<K: Store>(index: &mut Index<K>, ks: &mut K, crawl: &[u8]) -> Result<()> {
    if index.under_way.is_removing(ks, crawl)? && !index.under_way.is_canceling(ks, crawl)? {
        return Err(Error::Removing(crawl.to_vec()));
    }
    index.crawls.refuse_while_outgoing(ks, crawl)?;
    match index.standing(ks, crawl)? {
        Some(CrawlState::Committed) if index.under_way.is_canceling(ks, crawl)? => Ok(()),
        Some(CrawlState::Committed) => Err(Error::Committed(crawl.to_vec())),
        Some(_) => Ok(()),
        None => Err(Error::NoCrawl(crawl.to_vec())),
    }
}

/// Returns the job that cancels the uncommitted part of a crawl; its reply is the number of hashes dropped.
///
/// # Errors
/// The job fails with an error of [`check_cancelable`], or with `WRONGTYPE` if a key holds another type.
pub fn cancel<K: Store>(crawl: &[u8]) -> Job<K> {
    let crawl = crawl.to_vec();
    Job::new(async move |lent| {
        let cancel = Cancel {
            crawl: &crawl,
            numbers: Numbers::new(),
            continued: false,
            dropped: 0,
        };
        cancel.run(&lent).await
    })
}

struct Cancel<'a> {
    crawl: &'a [u8],
    /// Numbers of the crawl's interrupted commit and its earlier commits.
    numbers: Numbers,
    /// True if the crawl was committed before.
    continued: bool,
    dropped: u64,
}

impl Cancel<'_> {
    async fn run<K: Store>(mut self, lent: &Lent<K>) -> Result<Reply> {
        let crawl = self.crawl;
        lent.with(|index, ks| self.begin(index, ks))?;
        if self.continued {
            if lent.with(|index, ks| index.has_unclear_fields(ks, crawl))? {
                gather(lent, crawl, true).await?;
            }
            self.drop_listed(lent, CrawlKey::Merging).await?;
            self.drop_listed(lent, CrawlKey::Added).await?;
        } else {
            self.withdraw(lent).await?;
        }
        drop_traces(lent, crawl, !self.continued).await?;
        let mut lacks = lacks(lent, &[crawl.to_vec()]).await?;
        lent.with(|index, ks| self.end(index, ks, &mut lacks))?;
        Ok(Reply::count(self.dropped))
    }

    fn begin<K: Store>(&mut self, index: &mut Index<K>, ks: &mut K) -> Result<()> {
        let crawl = self.crawl;
        check_cancelable(index, ks, crawl)?;
        index.check_types(ks, Some(crawl))?;
        self.continued = index.crawls.is_committed(ks, crawl)?;
        if !self.continued && index.crawls.is_canceled(ks, crawl)? {
            // The crawl was committed before.
            self.numbers
                .extend(index.crawls.baseline(ks, crawl).numbers(ks)?);
        } else if !self.continued && !index.under_way.is_committing(ks, crawl)? {
            drop_leftovers(index, ks, crawl, CrawlKey::OF_COMMITS)?;
        }
        let cut_short = index.under_way.commit_state(ks, crawl)?;
        self.numbers.extend(cut_short.map(|state| state.number));
        if let Some(dropped) = index.under_way.canceled(ks, crawl)? {
            self.dropped = dropped;
            return Ok(());
        }
        if self.continued {
            ensure_base(index, ks, crawl)?;
        } else {
            self.dropped = index.records_len(ks, crawl)?;
        }
        index.register(ks)?;
        index.under_way.set_canceled(ks, crawl, self.dropped)
    }

    /// Removes the hashes that an interrupted first commit added from the merged index.
    async fn withdraw<K: Store>(&self, lent: &Lent<K>) -> Result<()> {
        let crawl = self.crawl;
        let excluded = |other: &[u8]| other == crawl;
        let of = Of::Records(crawl.to_vec());
        let (mut records, all) = lent.with(|index, ks| {
            let all = index.records_len(ks, crawl)?;
            Ok::<_, Error>((Walk::stored(index, ks, of), all))
        })?;
        let mut withdraw = |index: &mut Index<K>, ks: &mut K, field: &[u8], _: &[u8]| {
            withdraw(index, ks, crawl, &self.numbers, field, &excluded)?;
            // Delete the copy that the interrupted commit made.
            index.places.unpack_record(ks, crawl, field)
        };
        lent.slices(|index, ks, time| {
            let done = records.slice(index, ks, time, &mut withdraw)?;
            lent.report(records.given(), all);
            Ok(done)
        })
        .await
    }

    /// Deletes the records of a continued crawl whose hashes are in `list`. Hashes in `merging` may
    /// also be in the merged index.
    async fn drop_listed<K: Store>(&mut self, lent: &Lent<K>, list: CrawlKey) -> Result<()> {
        let crawl = self.crawl;
        let excluded = |other: &[u8]| other == crawl;
        let mut fields = lent.with(|index, ks| {
            let key = index.crawls.key(ks, crawl, list);
            Walk::hash(ks, key)
        });
        lent.slices(|index, ks, time| {
            let before = self.dropped;
            let done = fields.slice(index, ks, time, |index, ks, field, _| {
                if list == CrawlKey::Merging {
                    withdraw(index, ks, crawl, &self.numbers, field, &excluded)?;
                }
                self.dropped += u64::from(drop_record(index, ks, crawl, field)?);
                Ok(())
            })?;
            if self.dropped > before {
                index.under_way.set_canceled(ks, crawl, self.dropped)?;
            }
            Ok(done)
        })
        .await
    }

    fn end<K: Store>(&self, index: &mut Index<K>, ks: &mut K, lacks: &mut Lacks) -> Result<()> {
        let crawl = self.crawl;
        if self.continued {
            restore_baseline(index, ks, crawl)?;
            // Keep the sequence numbers: they only increase, and the numbers used before the commit
            // remain valid.
            for key in [CrawlKey::Added, CrawlKey::Merging, CrawlKey::Unstored] {
                let key = index.crawls.key(ks, crawl, key);
                ks.delete(&key)?;
            }
            index.under_way.set_commit_state(ks, crawl, None)?;
            index.set_uncommitted(ks, crawl, false)?;
        } else {
            uncount(index, ks, crawl, lacks)?;
            drop_leftovers(index, ks, crawl, CrawlKey::OF_COMMITS)?;
            drop_crawl(index, ks, crawl)?;
        }
        index.under_way.set_removing(ks, crawl, None)
    }
}

/// Returns the job for `RETAIN`, which declares the crawls in `keep` to be the whole collection.
/// With `purge`, all other committed crawls are removed. Otherwise, they are only counted as
/// removed. The reply is that of [`remove`].
///
/// # Errors
/// The errors of [`remove`].
pub fn retain<K: Store>(mut keep: Vec<Vec<u8>>, purge: bool) -> Job<K> {
    keep.sort();
    Job::new(async move |lent| {
        let others = others(&lent, &keep).await?;
        if purge {
            purge_others(&lent, others).await
        } else {
            track(&lent, &others).await
        }
    })
}

/// Returns the crawls that were committed and are not in `keep`. `keep` must be sorted.
async fn others<K: Store>(lent: &Lent<K>, keep: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
    lent.with(|index, ks| ks.hash_len(&index.names().allcounts))?;
    let sets: [Pick<K::Name>; 3] = [
        |names| &names.allcrawls,
        |names| &names.outgoing,
        |names| &names.canceled,
    ];
    let mut others = crawls_in(lent, &sets).await?;
    others.retain(|crawl| keep.binary_search(crawl).is_err());
    Ok(others)
}

async fn purge_others<K: Store>(lent: &Lent<K>, others: Vec<Vec<u8>>) -> Result<Reply> {
    lent.with(|index, ks| index.register(ks))?;
    let reply = Removal::default().run(lent, others).await?;
    // All crawls that were counted as removed are gone, so reset these counts.
    lent.with(|index, ks| {
        for count in [counts::REMOVED_CRAWLS, counts::REMOVED_CRAWL_SIZE] {
            ks.hash_set(&index.names().allcounts, count, b"0")?;
        }
        Ok(reply)
    })
}

async fn track<K: Store>(lent: &Lent<K>, others: &[Vec<u8>]) -> Result<Reply> {
    let mut size = 0_i64;
    for crawl in others {
        let of =
            lent.with(|index, ks| committed_count(index, ks, crawl, counts::TOTAL_CRAWL_SIZE))?;
        size = size.saturating_add(of);
        lent.pause().await;
    }
    let others = others.len() as u64;
    lent.with(|index, ks| {
        index.register(ks)?;
        for (count, n) in [
            (counts::REMOVED_CRAWLS, others as i64),
            (counts::REMOVED_CRAWL_SIZE, size),
        ] {
            let n = n.to_string();
            let was = ks.hash_get(&index.names().allcounts, count)?;
            // A second `RETAIN` with the same list writes nothing.
            if was.is_none_or(|was| was.as_ref() != n.as_bytes()) {
                ks.hash_set(&index.names().allcounts, count, n.as_bytes())?;
            }
        }
        Ok(Reply::counts(&[others, 0, 0]))
    })
}

/// Deletes a crawl's record of a hash, in any notation. Returns true if the record existed.
fn drop_record<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    field: &[u8],
) -> Result<bool> {
    let digest = Digest::of_field(field);
    let mut dropped = false;
    while let Some(spelling) = index.spelling_in(ks, crawl, &digest)? {
        dropped |= index.records(ks, crawl)?.del(ks, &spelling)?;
    }
    index.urls.drop(ks, &mut index.crawls, crawl, &digest)?;
    Ok(dropped)
}

/// Deletes a crawl's keys, and its marks as uncommitted or being committed.
fn drop_crawl<K: Store>(index: &mut Index<K>, ks: &mut K, crawl: &[u8]) -> Result<()> {
    drop_marks(index, ks, crawl)?;
    for &key in CrawlKey::ALL {
        let key = index.crawls.key(ks, crawl, key);
        ks.delete(&key)?;
    }
    if index.under_way.is_committing(ks, crawl)? {
        index.under_way.set_commit_state(ks, crawl, None)?;
    }
    if index.crawls.is_uncommitted(ks, crawl)? {
        index.set_uncommitted(ks, crawl, false)?;
    }
    Ok(())
}
