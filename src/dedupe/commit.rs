//! `COMMIT`: a crawl becomes part of the merged index.
//!
//! The hashes of the crawl become visible in the last step: until then look-ups skip owners that are not in
//! `allcrawls`, and for a crawl that continues the fields in `h:<crawl>:merging`. The progress of a commit stands in
//! `committing`, written with each slice, so that a commit that a crash cut short continues with exact figures.

use crawlspace_host::reply::Reply;

use super::counts;
use super::digest::Digest;
use super::error::{Error, Result};
use super::gather::Gather;
use super::index::{CrawlState, Index};
use super::job::{Adoption, Job, Step, Time, Walk};
use super::keys::CrawlKey;
use super::packed::Part;
use super::progress::CommitState;
use super::record::Record;
use super::storage::{Of, Storage};
use super::store::Store;
use super::undo::file_before;
use super::wacz::WaczEntry;

enum Phase<K: Store> {
    Check,
    Adopt(Adoption<K>),
    Start,
    /// Packed records go that are of an earlier crawl with this id, or of a commit that was dropped.
    Clear(Walk<K>),
    /// Fields that came after a commit was cut short join those that it was to commit.
    Join(Walk<K>),
    /// Another commit or a removal came between a crash and this run: what the first run did is
    /// taken back, and the crawl gets a new place in the order.
    Undo(Walk<K>),
    Gather(Walk<K>),
    Walk(Walk<K>),
    Files(u64),
    Finish,
    /// What is packed goes out of the plain hash, where something else has come meanwhile.
    Sweep(Walk<K>),
}

/// Maximum number of records that are copied before they go out of the plain hash: each of the two kinds of change is
/// replicated at once.
const MAX_MOVED: usize = 32;

/// The commit of one crawl.
pub struct Commit<K: Store> {
    crawl: Vec<u8>,
    phase: Phase<K>,
    state: CommitState,
    continued: bool,
    /// Whether the plain hash has nothing that is packed as well.
    swept: bool,
    /// How many hashes were met, up to [`LOOKED_AT`].
    looked_at: usize,
}

/// In how many hashes a commit that begins looks whether the crawl owns them already: then another
/// program merged them while the crawl ran, and did not ask our lists of holders.
const LOOKED_AT: usize = if cfg!(test) { 2 } else { 8 };

impl<K: Store> Commit<K> {
    /// A commit that has not begun.
    pub fn new(crawl: &[u8]) -> Commit<K> {
        Commit {
            crawl: crawl.to_vec(),
            phase: Phase::Check,
            state: CommitState {
                number: 0,
                new: 0,
                known: 0,
            },
            continued: false,
            swept: false,
            looked_at: 0,
        }
    }

    /// Everything that can be refused is looked at before the first write.
    fn check(&self, index: &mut Index<K>, ks: &mut K) -> Result<()> {
        let crawl = &self.crawl[..];
        index.refuse_while_removing(ks, crawl)?;
        index.detect_profile_by(ks, crawl);
        // A plain client may have written the hashes without announcing the crawl.
        if index.standing(ks, crawl)?.is_none() {
            return Err(Error::NoCrawl(crawl.to_vec()));
        }
        index.check_types(ks, Some(crawl))?;
        let counts_key = index.crawl_key(ks, crawl, CrawlKey::Counts);
        for (name, _) in counts::all(ks, &counts_key, b"")? {
            counts::read(ks, &index.names.allcounts, &name)?;
        }
        Ok(())
    }

    fn start(&mut self, index: &mut Index<K>, ks: &mut K) -> Result<Option<Reply>> {
        let crawl = &self.crawl[..];
        index.refuse_while_removing(ks, crawl)?;
        index.heed_purge(ks)?;
        self.put_back(index, ks)?;
        self.continued = index.is_committed(ks, crawl)?;
        if let Some(state) = index.commit_state(ks, crawl)? {
            // An earlier run was cut short. What came since belongs to this one as well.
            self.state = state;
            self.looked_at = LOOKED_AT;
            let added = index.crawl_key(ks, crawl, CrawlKey::Added);
            if self.continued {
                self.phase = Phase::Join(Walk::hash(ks, added));
            } else {
                ks.delete(&added)?;
                self.resume(index, ks)?;
            }
            return Ok(None);
        }
        if !self.continued {
            if index.packed_records_len(ks, crawl)? > 0 {
                let of = Of::Packed(crawl.to_vec());
                self.phase = Phase::Clear(Walk::stored(index, ks, of));
                return Ok(None);
            }
            index.drop_leftovers(
                ks,
                crawl,
                &[CrawlKey::Baseline, CrawlKey::Merging, CrawlKey::Added],
            )?;
        } else if index.copied(ks, crawl)? > 0 || (!self.swept && self.may_be_twice(index, ks)?) {
            self.swept = true;
            self.phase = self.sweep(index, ks);
            return Ok(None);
        }
        let state = index.state(ks, crawl)?;
        if state == Some(CrawlState::Committed) && !index.has_unseen_fields(ks, crawl)? {
            index.take_back(ks, crawl)?;
            return Ok(Some(Reply::counts(&[0, 0])));
        }
        if state.is_none() {
            // Plain clients did not announce it; whoever adds to it meanwhile must find it known.
            index.set_uncommitted(ks, crawl, true)?;
        }
        self.state = CommitState {
            number: index.next_number(ks)?,
            new: 0,
            known: 0,
        };
        index.set_commit_state(ks, crawl, Some(self.state))?;
        index.begin_baseline(ks, crawl)?;
        if self.continued {
            let added = index.crawl_key(ks, crawl, CrawlKey::Added);
            let merging = index.crawl_key(ks, crawl, CrawlKey::Merging);
            if ks.exists(&added) {
                ks.rename(&added, &merging)?;
            }
        }
        self.phase = self.first_walk(index, ks)?;
        Ok(None)
    }

    /// A crawl that another program took out of `allcrawls`, and whose records are packed, goes back: what
    /// is packed is committed.
    fn put_back(&self, index: &mut Index<K>, ks: &mut K) -> Result<()> {
        let crawl = &self.crawl[..];
        let is_out = match index.state(ks, crawl)? {
            None => true,
            Some(CrawlState::Uncommitted) => index.is_outgoing(ks, crawl)?,
            Some(_) => false,
        };
        if is_out && index.packed_records_len(ks, crawl)? > 0 && !index.is_committing(ks, crawl)? {
            index.set_committed(ks, crawl, true)?;
            index.take_back(ks, crawl)?;
        }
        Ok(())
    }

    /// Continues a commit that was cut short.
    fn resume(&mut self, index: &mut Index<K>, ks: &mut K) -> Result<()> {
        index.begin_baseline(ks, &self.crawl)?;
        self.phase = if index.last_number(ks)? > self.state.number {
            let key = self.walked_key(index, ks);
            Phase::Undo(Walk::hash(ks, key))
        } else {
            self.first_walk(index, ks)?
        };
        Ok(())
    }

    /// The hash whose fields this commit walks.
    fn walked_key(&self, index: &mut Index<K>, ks: &mut K) -> K::Name {
        let which = if self.continued {
            CrawlKey::Merging
        } else {
            CrawlKey::Records
        };
        index.crawl_key(ks, &self.crawl, which)
    }

    fn first_walk(&mut self, index: &mut Index<K>, ks: &mut K) -> Result<Phase<K>> {
        if self.continued && index.has_unseen_fields(ks, &self.crawl)? {
            let of = Of::Records(self.crawl.clone());
            return Ok(Phase::Gather(Walk::stored(index, ks, of)));
        }
        let key = self.walked_key(index, ks);
        let records = ks.hash_len(&key)?;
        index.expect(ks, &self.crawl, records)?;
        Ok(Phase::Walk(Walk::hash(ks, key)))
    }

    /// Whether a plain client may have put records beside packed ones, which never count.
    fn may_be_twice(&self, index: &mut Index<K>, ks: &mut K) -> Result<bool> {
        let crawl = &self.crawl[..];
        let records = index.crawl_key(ks, crawl, CrawlKey::Records);
        Ok(index.packed_records_len(ks, crawl)? > 0
            && ks.exists(&records)
            && index.has_unseen_fields(ks, crawl)?)
    }

    /// Takes what is packed out of the crawl's plain hash, record by record.
    fn sweep(&self, index: &mut Index<K>, ks: &mut K) -> Phase<K> {
        let records = index.crawl_key(ks, &self.crawl, CrawlKey::Records);
        Phase::Sweep(Walk::hash(ks, records))
    }

    /// Whether all that the crawl's plain hash has is packed; then it goes.
    fn drop_copied(&mut self, index: &mut Index<K>, ks: &mut K) -> Result<bool> {
        let crawl = &self.crawl[..];
        let records = index.crawl_key(ks, crawl, CrawlKey::Records);
        if ks.hash_len(&records)? != index.packed_records_len(ks, crawl)? {
            return Ok(false);
        }
        ks.delete(&records)?;
        index.set_copied(ks, crawl, 0)?;
        Ok(true)
    }

    fn finish(&mut self, index: &mut Index<K>, ks: &mut K) -> Result<()> {
        let crawl = &self.crawl[..];
        let baseline = index.crawl_key(ks, crawl, CrawlKey::Baseline);
        let merging = index.crawl_key(ks, crawl, CrawlKey::Merging);
        let before = counts::all(ks, &baseline, b"baseline.")?;
        let mut sums = Vec::new();
        for (name, n) in counts::all(ks, &baseline, b"merging.")? {
            let was = before.iter().find(|(b, _)| *b == name).map_or(0, |b| b.1);
            let more = n.saturating_sub(was);
            if more != 0 {
                // All are read before one is written: a plain client may have spoiled one by now.
                let sum = counts::read(ks, &index.names.allcounts, &name)?;
                sums.push((name, sum.saturating_add(more)));
            }
        }
        for (name, sum) in sums {
            counts::set(ks, &index.names.allcounts, &name, sum)?;
        }
        let more_came = index.changed_since_commit_began(ks, crawl)?;
        ks.delete(&merging)?;
        index.settle_baseline(ks, crawl, self.state.number)?;
        ks.hash_set(
            &index.names.commits,
            self.state.number.to_string().as_bytes(),
            crawl,
        )?;
        index.set_commit_state(ks, crawl, None)?;
        index.set_uncommitted(ks, crawl, more_came)?;
        index.set_committed(ks, crawl, true)?;
        // Their purge deletes what is left there.
        index.take_back(ks, crawl)?;
        index.heed_purge(ks)?;
        Ok(())
    }
}

impl<K: Store> Job<K> for Commit<K> {
    fn step(&mut self, index: &mut Index<K>, ks: &mut K, time: Time<'_>) -> Result<Step> {
        loop {
            match &mut self.phase {
                Phase::Check => {
                    self.check(index, ks)?;
                    self.phase = Phase::Adopt(Adoption::default());
                }
                Phase::Adopt(adoption) => {
                    if !adoption.step(index, ks, time)? {
                        return Ok(Step::More);
                    }
                    self.phase = Phase::Start;
                }
                Phase::Start => {
                    if let Some(reply) = self.start(index, ks)? {
                        return Ok(Step::Done(reply));
                    }
                }
                Phase::Clear(walk) => {
                    let crawl = &self.crawl[..];
                    let done = walk.run(index, ks, time, |index, ks, field, _| {
                        index.unpack_record(ks, crawl, field)
                    })?;
                    if !done {
                        return Ok(Step::More);
                    }
                    self.phase = Phase::Start;
                }
                Phase::Join(walk) => {
                    let merging = index.crawl_key(ks, &self.crawl, CrawlKey::Merging);
                    let added = index.crawl_key(ks, &self.crawl, CrawlKey::Added);
                    let done = walk.run(index, ks, time, |_, ks, field, _| {
                        ks.hash_set(&merging, field, b"")?;
                        ks.hash_del(&added, field)?;
                        Ok(())
                    })?;
                    if !done {
                        return Ok(Step::More);
                    }
                    self.resume(index, ks)?;
                }
                Phase::Undo(walk) => {
                    let crawl = &self.crawl[..];
                    let numbers = [self.state.number];
                    let excluded = |other: &[u8]| other == crawl;
                    let done = walk.run(index, ks, time, |index, ks, field, _| {
                        index.withdraw(ks, crawl, &numbers, field, &excluded)?;
                        Ok(())
                    })?;
                    if !done {
                        return Ok(Step::More);
                    }
                    self.state = CommitState {
                        number: index.next_number(ks)?,
                        new: 0,
                        known: 0,
                    };
                    index.set_commit_state(ks, crawl, Some(self.state))?;
                    self.phase = self.first_walk(index, ks)?;
                }
                Phase::Gather(walk) => {
                    let crawl = &self.crawl[..];
                    let mut gather = Gather::new(index, ks, crawl, false)?;
                    let done = walk.run(index, ks, time, |index, ks, field, _| {
                        gather.field(index, ks, crawl, field)
                    })?;
                    if !done {
                        return Ok(Step::More);
                    }
                    let merging = index.crawl_key(ks, &self.crawl, CrawlKey::Merging);
                    self.phase = Phase::Walk(Walk::hash(ks, merging));
                }
                Phase::Walk(walk) => {
                    let crawl = &self.crawl[..];
                    let before = self.state;
                    let continued = self.continued;
                    let state = &mut self.state;
                    let looked_at = &mut self.looked_at;
                    index.heed_purge(ks)?;
                    let added = index.crawl_key(ks, crawl, CrawlKey::Added);
                    // Fields that come while a first commit runs are the next one's.
                    let skip_added = !continued && ks.hash_len(&added)? > 0;
                    let packs = index.storage() == Storage::Packed;
                    let mut moved: Vec<Vec<u8>> = Vec::new();
                    let done = walk.run(index, ks, time, |index, ks, field, value| {
                        // Nearly always the hash is new, and one step does it.
                        let is_new = *looked_at < LOOKED_AT;
                        *looked_at += usize::from(is_new);
                        let is_record = continued || Record::parse(value).is_some();
                        let usual = is_record && !continued && !skip_added;
                        if usual
                            && index.only_written(field)
                            && index.merge_new(ks, crawl, (field, value))?
                        {
                            state.new += 1;
                            return Ok(());
                        }
                        let digest = Digest::of_field(field);
                        if skip_added && ks.hash_has(&added, digest.canonical())? {
                            return Ok(());
                        }
                        if packs && continued {
                            moved.extend(index.take_spelled(ks, crawl, &digest)?);
                            if moved.len() >= MAX_MOVED {
                                index.drop_moved(ks, crawl, &mut moved)?;
                            }
                        } else if packs {
                            index.take(ks, crawl, (field, value), false)?;
                        }
                        if !is_record {
                            return Ok(()); // what is no record cannot be looked up
                        }
                        let spelling = (!continued).then_some(field);
                        if !index.merge(ks, crawl, spelling, &digest, state)? && is_new {
                            index.mark_holders_untrusted(ks)?;
                        }
                        Ok(())
                    })?;
                    if packs {
                        index.drop_moved(ks, &self.crawl, &mut moved)?;
                        if !continued {
                            let copied = index.packed_records_len(ks, &self.crawl)?;
                            index.set_copied(ks, &self.crawl, copied)?;
                        }
                    }
                    if self.state != before {
                        index.set_commit_state(ks, &self.crawl, Some(self.state))?;
                    }
                    if !done {
                        return Ok(Step::More);
                    }
                    self.phase = Phase::Files(0);
                }
                Phase::Files(next) => {
                    let waczs = index.crawl_key(ks, &self.crawl, CrawlKey::Waczs);
                    let baseline = index.crawl_key(ks, &self.crawl, CrawlKey::Baseline);
                    let committed = counts::read(ks, &baseline, b"wacz")?.max(0) as u64;
                    while let Some(json) = ks.list_get(&waczs, *next)? {
                        *next += 1;
                        let entry = WaczEntry::parse(json.as_ref()).filter(WaczEntry::is_closed);
                        if let Some(entry) = entry {
                            let names = &index.names;
                            if !ks.set_has(&names.finished, &entry.filename)? {
                                ks.set_add(&names.finished, &entry.filename)?;
                            } else if *next > committed
                                || file_before(ks, &baseline, *next - 1)?.is_some()
                            {
                                // Another crawl's too, or an importer put it there, or an
                                // earlier run of this: whoever removes it looks.
                                ks.set_add(&names.shared, &entry.filename)?;
                            }
                        }
                        if next.is_multiple_of(8) && !time() {
                            return Ok(Step::More);
                        }
                    }
                    self.phase = Phase::Finish;
                }
                Phase::Finish => {
                    if index.storage() == Storage::Packed {
                        index.expect_no_more(ks, &self.crawl)?;
                    }
                    self.finish(index, ks)?;
                    let copies = !self.continued && index.copied(ks, &self.crawl)? > 0;
                    if copies && !self.drop_copied(index, ks)? {
                        self.phase = self.sweep(index, ks);
                        continue;
                    }
                    let figures = [self.state.new, self.state.known];
                    return Ok(Step::Done(Reply::counts(&figures)));
                }
                Phase::Sweep(walk) => {
                    let crawl = &self.crawl[..];
                    let records = index.crawl_key(ks, crawl, CrawlKey::Records);
                    let mut swept = 0;
                    let done = walk.run(index, ks, time, |index, ks, field, _| {
                        if index.has_packed(ks, Part::Records(crawl), field)? {
                            ks.hash_del(&records, field)?;
                            swept += 1;
                        }
                        Ok(())
                    })?;
                    let copied = if done {
                        0
                    } else {
                        index.copied(ks, crawl)?.saturating_sub(swept)
                    };
                    index.set_copied(ks, crawl, copied)?;
                    if !done {
                        return Ok(Step::More);
                    }
                    if self.state.number == 0 {
                        // An earlier run had ended but for this.
                        self.phase = Phase::Start;
                        continue;
                    }
                    let figures = [self.state.new, self.state.known];
                    return Ok(Step::Done(Reply::counts(&figures)));
                }
            }
        }
    }
}
