//! `COMMIT`: merges a crawl into the merged index.
//!
//! The hashes of the crawl become visible in the last slice. Until then, lookups skip owners that
//! are not in `allcrawls` and, for a continued crawl, the fields in `h:<crawl>:merging`. Each slice
//! stores the progress of the commit in `committing`, so that a commit interrupted by a crash
//! resumes with exact counts.

use crawlspace_host::reply::Reply;

use super::adopt::{adopt_all, drop_marks, ensure_base, restore};
use super::begin::drop_leftovers;
use super::counts;
use super::digest::Digest;
use super::error::{Error, Result};
use super::gather::{changed_since_commit_began, gather};
use super::index::progress::CommitState;
use super::index::storage::{Of, Storage};
use super::index::{CrawlState, Index};
use super::job::{Job, Lent, Time, Walk};
use super::keys::CrawlKey;
use super::merge::{drop_moved, merge, merge_new, take_by_digest, withdraw};
use super::packed::Part;
use super::record::Record;
use super::store::Store;
use super::undo::{begin_baseline, end_baseline, file_before, note_files, replace_baseline};
use super::urls;
use super::wacz::WaczEntry;
use super::waiting::{count_waiting, may_have_waiting, was_imported_to};

/// Maximum number of records that are copied before they are deleted from the plain hash.
/// If the commit alternated between copies and deletions, each change would be replicated as a
/// separate command.
const MAX_MOVED: usize = 32;

/// Maximum number of hashes, and of WACZ files, of a commit without a pause. Merging this number of hashes takes less time
/// than a slice.
const SHORT: u64 = if cfg!(test) { 3 } else { 32 };

/// Number of hashes for which a commit checks whether the crawl already owns them. If the crawl already
/// owns one of these hashes, another program merged the hashes during the crawl without updating the
/// module's lists of holders.
const LOOKED_AT: usize = if cfg!(test) { 2 } else { 8 };

/// Returns the job that commits a crawl; its reply contains the number of new hashes and the number
/// of known hashes.
///
/// # Errors
/// The job fails with `NOCRAWL`, `REMOVING` or `PURGING`, or with `WRONGTYPE` if a key holds another type.
pub fn commit<K: Store>(crawl: &[u8]) -> Job<K> {
    let crawl = crawl.to_vec();
    Job::new(async move |lent| Ok(Reply::counts(&Commit::of(&crawl).run(&lent).await?)))
}

/// Checks that all of these crawls exist and that none of them is being removed.
///
/// # Errors
/// `NOCRAWL`, `REMOVING`; errors of the server.
pub fn check_committable<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawls: &[&[u8]],
) -> Result<()> {
    crawls
        .iter()
        .try_for_each(|crawl| Commit::of(crawl).check_exists(index, ks))
}

/// Returns the job that commits several crawls, one after the other. Its reply contains, for each crawl, the reply
/// of [`commit`], or null if the commit of this crawl failed.
pub fn commit_each<K: Store>(crawls: Vec<Vec<u8>>) -> Job<K> {
    Job::new(async move |lent| {
        let mut replies = Vec::with_capacity(crawls.len());
        for crawl in &crawls {
            let committed = Commit::of(crawl).run(&lent).await;
            replies.push(committed.map_or(Reply::Nil, |counts| Reply::counts(&counts)));
            lent.pause().await;
        }
        Ok(Reply::Array(replies))
    })
}

struct Commit<'a> {
    crawl: &'a [u8],
    state: CommitState,
    /// True if the crawl was committed before.
    continued: bool,
    /// Number of hashes checked so far, at most [`LOOKED_AT`].
    looked_at: usize,
    /// True if revisits may be waiting for originals in this crawl.
    may_wait: bool,
    /// True if another program removed the crawl from `allcrawls`, so that the sums in `allcounts`
    /// do not include its counts.
    came_back: bool,
    /// True if the commit is so small that it needs no pause. No client can write to the crawl meanwhile, so the
    /// commit does not copy its counts.
    is_short: bool,
}

impl Commit<'_> {
    fn of(crawl: &[u8]) -> Commit<'_> {
        Commit {
            crawl,
            state: CommitState::default(),
            continued: false,
            looked_at: 0,
            may_wait: false,
            came_back: false,
            is_short: false,
        }
    }

    /// Commits the crawl. Returns the number of new hashes and the number of known hashes.
    async fn run<K: Store>(mut self, lent: &Lent<K>) -> Result<[u64; 2]> {
        lent.with(|index, ks| self.check(index, ks))?;
        adopt_all(lent).await?;
        let mut swept = false;
        loop {
            lent.pause().await;
            lent.with(|index, ks| self.look(index, ks))?;
            if lent.with(|index, ks| self.was_cut_short(index, ks))? {
                self.resume(lent).await?;
                break;
            }
            if lent.with(|index, ks| self.has_strays(index, ks))? {
                self.clear(lent).await?;
            } else if lent.with(|index, ks| self.may_be_twice(index, ks, swept))? {
                self.sweep(lent).await?;
                swept = true;
            } else if lent.with(|index, ks| self.begin(index, ks))? {
                if !self.is_short {
                    break;
                }
                if !lent.with(|index, ks| self.commit_shortly(index, ks))? {
                    self.sweep(lent).await?;
                }
                return Ok([self.state.new, self.state.known]);
            } else {
                // A plain client may have committed the crawl without updating `src:d`.
                let files = self.announce_files(lent).await?;
                lent.with(|index, ks| note_files(index, ks, self.crawl, files))?;
                return Ok([0, 0]);
            }
        }
        self.merge(lent).await?;
        self.announce_files(lent).await?;
        if !lent.with(|index, ks| self.finish(index, ks))? {
            self.sweep(lent).await?;
        }
        Ok([self.state.new, self.state.known])
    }

    /// Checks that the crawl exists and is not being removed.
    fn check_exists<K: Store>(&self, index: &mut Index<K>, ks: &mut K) -> Result<()> {
        let crawl = self.crawl;
        index.under_way.refuse_while_removing(ks, crawl)?;
        index.detect_profile_by(ks, crawl);
        // A plain client may have written the hashes without registering the crawl.
        if index.standing(ks, crawl)?.is_none() {
            return Err(Error::NoCrawl(crawl.to_vec()));
        }
        Ok(())
    }

    /// Checks every condition that can make the commit fail, before the first write.
    fn check<K: Store>(&self, index: &mut Index<K>, ks: &mut K) -> Result<()> {
        let crawl = self.crawl;
        self.check_exists(index, ks)?;
        index.check_types(ks, Some(crawl))?;
        let counts_key = index.crawls.key(ks, crawl, CrawlKey::Counts);
        for (name, _) in counts::all(ks, &counts_key, b"")? {
            counts::read(ks, &index.names().allcounts, &name)?;
        }
        Ok(())
    }

    /// Reads the state of the crawl, which other clients may have changed since the last slice.
    fn look<K: Store>(&mut self, index: &mut Index<K>, ks: &mut K) -> Result<()> {
        let crawl = self.crawl;
        index.under_way.refuse_while_removing(ks, crawl)?;
        index.note_purge(ks)?;
        let is_canceled = index.standing(ks, crawl)? == Some(CrawlState::Canceled);
        // If another program removed a crawl with packed records from `allcrawls`, restore the crawl: packed
        // records are committed.
        let is_out = match index.crawls.state(ks, crawl)? {
            None => !is_canceled && index.places.packed_len(ks, crawl)? > 0,
            Some(CrawlState::Uncommitted) => index.was_set_aside(ks, crawl)?,
            Some(_) => false,
        };
        if is_canceled {
            // The crawler added the crawl's counts to `allcounts` while writing. Another program
            // may since have removed the crawl's hashes and its entries as owner.
            ensure_base(index, ks, crawl)?;
            index.crawls.baseline(ks, crawl).set_seen(ks, 0)?;
            index.set_committed(ks, crawl, true)?;
            drop_marks(index, ks, crawl)?;
        }
        if is_out && !index.under_way.is_committing(ks, crawl)? {
            restore(index, ks, crawl)?;
            self.came_back = true;
        }
        self.continued = index.crawls.is_committed(ks, crawl)?;
        Ok(())
    }

    /// Returns true if an earlier run was interrupted. In that case, this run also commits the
    /// records added since then.
    fn was_cut_short<K: Store>(&mut self, index: &mut Index<K>, ks: &mut K) -> Result<bool> {
        let Some(state) = index.under_way.commit_state(ks, self.crawl)? else {
            return Ok(false);
        };
        self.state = state;
        self.looked_at = LOOKED_AT;
        Ok(true)
    }

    /// Returns true if the packed index has records of an earlier crawl with this id, or of an abandoned commit.
    fn has_strays<K: Store>(&self, index: &mut Index<K>, ks: &mut K) -> Result<bool> {
        Ok(!self.continued && index.places.packed_len(ks, self.crawl)? > 0)
    }

    /// Deletes the packed records that `has_strays` found.
    async fn clear<K: Store>(&self, lent: &Lent<K>) -> Result<()> {
        let of = Of::Packed(self.crawl.to_vec());
        let records = lent.with(|index, ks| Walk::stored(index, ks, of));
        let take_out = |index: &mut Index<K>, ks: &mut K, field: &[u8], _: &[u8]| {
            index.places.unpack_record(ks, self.crawl, field)
        };
        records.run(lent, take_out).await
    }

    /// Returns true if the plain hash may contain copies of packed records. A commit must not count
    /// these copies. Either an earlier run copied them, or a plain client wrote them and no sweep
    /// has run since (`swept`).
    fn may_be_twice<K: Store>(
        &self,
        index: &mut Index<K>,
        ks: &mut K,
        swept: bool,
    ) -> Result<bool> {
        if !self.continued || index.crawls.baseline(ks, self.crawl).copied(ks)? > 0 {
            return Ok(self.continued);
        }
        let records = index.crawls.key(ks, self.crawl, CrawlKey::Records);
        Ok(!swept
            && index.places.packed_len(ks, self.crawl)? > 0
            && ks.exists(&records)
            && index.has_unseen_fields(ks, self.crawl)?)
    }

    /// Deletes packed records from the plain hash of the crawl. Other clients may have added more
    /// records to the plain hash in the meantime, so it cannot be deleted as a whole.
    async fn sweep<K: Store>(&self, lent: &Lent<K>) -> Result<()> {
        let crawl = self.crawl;
        let records = lent.with(|index, ks| index.crawls.key(ks, crawl, CrawlKey::Records));
        let mut walk = lent.with(|_, ks| Walk::hash(ks, records.clone()));
        lent.slices(|index, ks, time| {
            let mut swept = 0;
            let done = walk.slice(index, ks, time, |index, ks, field, _| {
                if index.places.packed(Part::Records(crawl)).has(ks, field)? {
                    ks.hash_del(&records, field)?;
                    swept += 1;
                }
                Ok(())
            })?;
            let left = if done {
                0
            } else {
                index
                    .crawls
                    .baseline(ks, crawl)
                    .copied(ks)?
                    .saturating_sub(swept)
            };
            index.crawls.baseline(ks, crawl).set_copied(ks, left)?;
            Ok(done)
        })
        .await
    }

    /// Assigns a commit number to the crawl. Returns false if there is nothing to commit.
    fn begin<K: Store>(&mut self, index: &mut Index<K>, ks: &mut K) -> Result<bool> {
        let crawl = self.crawl;
        if !self.continued {
            drop_leftovers(index, ks, crawl, CrawlKey::OF_COMMITS)?;
        }
        let state = index.crawls.state(ks, crawl)?;
        if state == Some(CrawlState::Committed) && !index.has_unseen_fields(ks, crawl)? {
            drop_marks(index, ks, crawl)?;
            return Ok(false);
        }
        if state.is_none() {
            // Plain clients wrote the crawl without registering it. Register it now, because
            // clients may add to the crawl during the commit.
            index.set_uncommitted(ks, crawl, true)?;
        }
        self.take_number(index, ks)?;
        self.is_short = self.would_be_short(index, ks)?;
        if !self.is_short {
            begin_baseline(index, ks, crawl)?;
        }
        if self.continued {
            let added = index.crawls.key(ks, crawl, CrawlKey::Added);
            let merging = index.crawls.key(ks, crawl, CrawlKey::Merging);
            if ks.exists(&added) {
                ks.rename(&added, &merging)?;
            }
        }
        Ok(true)
    }

    /// Returns true if the commit, which has not begun, needs no pause.
    fn would_be_short<K: Store>(&self, index: &mut Index<K>, ks: &mut K) -> Result<bool> {
        let crawl = self.crawl;
        let walked = if self.continued {
            CrawlKey::Added
        } else {
            CrawlKey::Records
        };
        let walked = index.crawls.key(ks, crawl, walked);
        let waczs = index.crawls.key(ks, crawl, CrawlKey::Waczs);
        Ok(ks.hash_len(&walked)? <= SHORT
            && ks.list_len(&waczs)? <= SHORT
            && !(self.continued && index.has_unseen_fields(ks, crawl)?)
            && !was_imported_to(index, ks)?)
    }

    /// Commits a crawl without a pause. Returns false if copies of packed records are left in the plain hash.
    fn commit_shortly<K: Store>(&mut self, index: &mut Index<K>, ks: &mut K) -> Result<bool> {
        let crawl = self.crawl;
        let walked = self.walked_key(index, ks);
        let records = ks.hash_len(&walked)?;
        index.places.expect(ks, crawl, records)?;
        let mut fields = Walk::hash(ks, walked);
        while !self.merge_slice(index, ks, &mut || true, &mut fields)? {}
        let [waczs, baseline] =
            [CrawlKey::Waczs, CrawlKey::Baseline].map(|key| index.crawls.key(ks, crawl, key));
        let committed = index.crawls.baseline(ks, crawl).files(ks)?;
        let mut at = 0;
        while announce_file(index, ks, [&waczs, &baseline], committed, at)? {
            at += 1;
        }
        self.finish(index, ks)
    }

    /// Takes the next commit number, and starts the commit with all counts at 0.
    fn take_number<K: Store>(&mut self, index: &mut Index<K>, ks: &mut K) -> Result<()> {
        self.state = CommitState {
            number: index.next_number(ks)?,
            ..CommitState::default()
        };
        index
            .under_way
            .set_commit_state(ks, self.crawl, Some(self.state))
    }

    /// Prepares to resume an interrupted commit.
    async fn resume<K: Store>(&mut self, lent: &Lent<K>) -> Result<()> {
        let crawl = self.crawl;
        let [added, merging] = [CrawlKey::Added, CrawlKey::Merging]
            .map(|key| lent.with(|index, ks| index.crawls.key(ks, crawl, key)));
        if self.continued {
            // This commit resumes an interrupted commit, and includes the fields added since the
            // interruption.
            let fields = lent.with(|_, ks| Walk::hash(ks, added.clone()));
            let join = |_: &mut Index<K>, ks: &mut K, field: &[u8], _: &[u8]| {
                ks.hash_set(&merging, field, b"")?;
                ks.hash_del(&added, field)?;
                Ok(())
            };
            fields.run(lent, join).await?;
        } else {
            lent.with(|_, ks| ks.delete(&added))?;
        }
        lent.with(|index, ks| begin_baseline(index, ks, crawl))?;
        if lent.with(|index, ks| index.last_number(ks))? <= self.state.number {
            return Ok(());
        }
        // Another commit or a removal happened between the interruption and this run: undo the
        // first run, and take a new commit number.
        let fields = self.fields(lent);
        let numbers = [self.state.number];
        let excluded = |other: &[u8]| other == crawl;
        let undo = |index: &mut Index<K>, ks: &mut K, field: &[u8], _: &[u8]| {
            withdraw(index, ks, crawl, &numbers, field, &excluded)?;
            Ok(())
        };
        fields.run(lent, undo).await?;
        lent.with(|index, ks| self.take_number(index, ks))
    }

    /// Returns the key of the hash whose fields this commit visits.
    fn walked_key<K: Store>(&self, index: &mut Index<K>, ks: &mut K) -> K::Name {
        let which = if self.continued {
            CrawlKey::Merging
        } else {
            CrawlKey::Records
        };
        index.crawls.key(ks, self.crawl, which)
    }

    /// Returns a new walk over the fields of this commit.
    fn fields<K: Store>(&self, lent: &Lent<K>) -> Walk<K> {
        lent.with(|index, ks| {
            let key = self.walked_key(index, ks);
            Walk::hash(ks, key)
        })
    }

    /// Adds the names of the crawl's finished WACZ files to `src:d`. Returns the number of WACZ files
    /// of the crawl.
    async fn announce_files<K: Store>(&self, lent: &Lent<K>) -> Result<u64> {
        let [waczs, baseline] = [CrawlKey::Waczs, CrawlKey::Baseline]
            .map(|key| lent.with(|index, ks| index.crawls.key(ks, self.crawl, key)));
        let committed = lent.with(|index, ks| index.crawls.baseline(ks, self.crawl).files(ks))?;
        let mut at = 0;
        while lent.with(|index, ks| announce_file(index, ks, [&waczs, &baseline], committed, at))? {
            at += 1;
            lent.pause().await;
        }
        Ok(at)
    }

    /// Adds the crawl's hashes to the merged index.
    async fn merge<K: Store>(&mut self, lent: &Lent<K>) -> Result<()> {
        let crawl = self.crawl;
        let gathers =
            self.continued && lent.with(|index, ks| index.has_unseen_fields(ks, crawl))?;
        if gathers {
            gather(lent, crawl, false).await?;
        }
        let all = lent.with(|index, ks| {
            let key = self.walked_key(index, ks);
            let records = ks.hash_len(&key)?;
            if !gathers {
                index.places.expect(ks, crawl, records)?;
            }
            Ok::<_, Error>(records)
        })?;
        self.may_wait = may_have_waiting(lent, all).await?;
        let mut fields = self.fields(lent);
        lent.slices(|index, ks, time| {
            let done = self.merge_slice(index, ks, time, &mut fields)?;
            lent.report(fields.given(), all);
            Ok(done)
        })
        .await
    }

    fn merge_slice<K: Store>(
        &mut self,
        index: &mut Index<K>,
        ks: &mut K,
        time: Time<'_>,
        fields: &mut Walk<K>,
    ) -> Result<bool> {
        let before = self.state;
        index.note_purge(ks)?;
        let added = index.crawls.key(ks, self.crawl, CrawlKey::Added);
        // Fields that are added during a first commit belong to the next commit.
        let skipped = (!self.continued && ks.hash_len(&added)? > 0).then_some(added);
        let mut moved = Vec::new();
        let done = fields.slice(index, ks, time, |index, ks, field, value| {
            self.merge_field(index, ks, (field, value), skipped.as_ref(), &mut moved)
        })?;
        if index.places.storage() == Storage::Packed {
            drop_moved(index, ks, self.crawl, &mut moved)?;
            if !self.continued {
                let copied = index.places.packed_len(ks, self.crawl)?;
                index
                    .crawls
                    .baseline(ks, self.crawl)
                    .set_copied(ks, copied)?;
            }
        }
        if self.state != before && !self.is_short {
            index
                .under_way
                .set_commit_state(ks, self.crawl, Some(self.state))?;
        }
        Ok(done)
    }

    /// Merges one field of the crawl, unless the key `skipped` contains the field. If the record was
    /// packed but is still in the plain hash, adds the notation of its hash to `moved`.
    fn merge_field<K: Store>(
        &mut self,
        index: &mut Index<K>,
        ks: &mut K,
        (field, value): (&[u8], &[u8]),
        skipped: Option<&K::Name>,
        moved: &mut Vec<Vec<u8>>,
    ) -> Result<()> {
        let (crawl, continued) = (self.crawl, self.continued);
        if index.urls.are_kept() {
            // A plain client may have written the record.
            urls::correct(index, ks, crawl, &Digest::of_field(field), true)?;
        }
        // In almost all cases, the hash is new and is merged in one step.
        let is_new = self.looked_at < LOOKED_AT;
        self.looked_at += usize::from(is_new);
        let is_record = continued || Record::parse(value).is_some();
        let usual = is_record && !continued && skipped.is_none();
        if usual
            && index.spelling.only_written(field)
            && merge_new(index, ks, crawl, (field, value))?
        {
            self.state.new += 1;
            if self.may_wait {
                count_waiting(index, ks, crawl, &Digest::of_field(field))?;
            }
            return Ok(());
        }
        let digest = Digest::of_field(field);
        if let Some(skipped) = skipped
            && ks.hash_has(skipped, digest.canonical())?
        {
            return Ok(());
        }
        if self.may_wait && is_record {
            count_waiting(index, ks, crawl, &digest)?;
        }
        let packs = index.places.storage() == Storage::Packed;
        if packs && continued {
            moved.extend(take_by_digest(index, ks, crawl, &digest)?);
            if moved.len() >= MAX_MOVED {
                drop_moved(index, ks, crawl, moved)?;
            }
        } else if packs {
            index
                .places
                .take(ks, &mut index.crawls, crawl, (field, value), false)?;
        }
        if !is_record {
            return Ok(()); // lookups cannot return an invalid record
        }
        let spelling = (!continued).then_some(field);
        if !merge(index, ks, crawl, spelling, &digest, &mut self.state)? && is_new {
            index.mark_holders_untrusted(ks)?;
        }
        Ok(())
    }

    /// Makes the crawl visible. Returns false if copies of packed records are left in the plain hash.
    fn finish<K: Store>(&self, index: &mut Index<K>, ks: &mut K) -> Result<bool> {
        let crawl = self.crawl;
        if index.places.storage() == Storage::Packed {
            index.places.expect_no_more(ks, crawl)?;
        }
        let baseline = index.crawls.key(ks, crawl, CrawlKey::Baseline);
        let merging = index.crawls.key(ks, crawl, CrawlKey::Merging);
        let before = counts::all(ks, &baseline, b"baseline.")?;
        // Plain clients themselves add the counts of crawls that they commit to `allcounts`, even
        // during this commit.
        let is_counted =
            !self.came_back && index.crawls.state(ks, crawl)? == Some(CrawlState::Committed);
        let mut sums = Vec::new();
        let counts_key = index.crawls.key(ks, crawl, CrawlKey::Counts);
        let merged = if self.is_short {
            counts::all(ks, &counts_key, b"")?
        } else {
            counts::all(ks, &baseline, b"merging.")?
        };
        for (name, n) in merged {
            let was = before.iter().find(|(b, _)| *b == name && !self.came_back);
            let was = was.map_or(0, |b| b.1);
            let more = n.saturating_sub(was);
            if is_counted {
                index
                    .crawls
                    .baseline(ks, crawl)
                    .note_uncertain(ks, &name, more)?;
            } else if more != 0 {
                // Read all sums before the first write, because a plain client may have corrupted
                // one of them.
                let sum = counts::read(ks, &index.names().allcounts, &name)?;
                sums.push((name, sum.saturating_add(more)));
            }
        }
        for (name, sum) in sums {
            counts::set(ks, &index.names().allcounts, &name, sum)?;
        }
        let more_came =
            !is_counted && !self.is_short && changed_since_commit_began(index, ks, crawl)?;
        ks.delete(&merging)?;
        let number = self.state.number;
        if self.is_short {
            replace_baseline(index, ks, crawl)?;
        }
        end_baseline(index, ks, crawl, number, !self.is_short)?;
        index.ledger.record(ks, number, crawl)?;
        index.under_way.set_commit_state(ks, crawl, None)?;
        index.set_uncommitted(ks, crawl, more_came)?;
        index.set_committed(ks, crawl, true)?;
        // If the marks remained, a purge by another program would delete the crawl.
        drop_marks(index, ks, crawl)?;
        index.note_purge(ks)?;
        if self.continued || index.crawls.baseline(ks, crawl).copied(ks)? == 0 {
            return Ok(true);
        }
        let records = index.crawls.key(ks, crawl, CrawlKey::Records);
        if ks.hash_len(&records)? != index.places.packed_len(ks, crawl)? {
            return Ok(false);
        }
        ks.delete(&records)?;
        index.crawls.baseline(ks, crawl).set_copied(ks, 0)?;
        Ok(true)
    }
}

/// Adds the name of a WACZ file of a crawl to `src:d`. An earlier commit has already added the first `committed`
/// files. Returns false if there is no such file.
fn announce_file<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    [waczs, baseline]: [&K::Name; 2],
    committed: i64,
    at: u64,
) -> Result<bool> {
    let Some(json) = ks.list_get(waczs, at)? else {
        return Ok(false);
    };
    let Some(entry) = WaczEntry::parse(json.as_ref()).filter(WaczEntry::is_closed) else {
        return Ok(true);
    };
    let names = index.names();
    if !ks.set_has(&names.finished, &entry.filename)? {
        ks.set_add(&names.finished, &entry.filename)?;
    } else if at as i64 >= committed || file_before(ks, baseline, at)?.is_some() {
        // Another crawl, an importer or an earlier run may have added the name already. Removals
        // check whether another crawl needs the name.
        ks.set_add(&names.shared, &entry.filename)?;
    }
    Ok(true)
}
