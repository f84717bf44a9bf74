//! `REMOVE`, `RETAIN` and `CANCEL`: crawls leave the index.
//!
//! The work is proportional to the crawls that leave. Each of their hashes goes to its next
//! holder in commit order, or goes. Which crawls are on their way out stands in `removing`
//! until all of it is done, so that a removal cut short by a crash is finished by running it again.

use crawlspace_host::reply::Reply;
use crawlspace_host::text::parse_unsigned;

use super::counts;
use super::digest::Digest;
use super::error::{Error, Result};
use super::gather::Gather;
use super::holders::{Numbers, parse_numbers, write_numbers};
use super::index::{CrawlState, Index};
use super::job::{Adoption, Job, Step, Time, Walk};
use super::keys::CrawlKey;
use super::merge::Withdrawn;
use super::progress::{CANCEL, GONE, REMOVE};
use super::storage::Of;
use super::store::Store;
use super::undo::file;

/// The field of `removing` with the figures so far: no crawl has an empty id.
const FIGURES: &[u8] = b"";

enum RemovalPhase<K: Store> {
    Check(usize),
    Adopt(Adoption<K>),
    Start,
    Mark(usize),
    Open,
    Walk(Walk<K>, Numbers),
    Leave(Leaving<K>),
    End,
}

/// The removal of committed crawls.
pub struct Removal<K: Store> {
    crawls: Vec<Vec<u8>>,
    at: usize,
    phase: RemovalPhase<K>,
    removed: u64,
    dropped: u64,
    reowned: u64,
    /// `RETAIN PURGE`: nothing is tracked as removed afterwards.
    reset_tracked: bool,
}

impl<K: Store> Removal<K> {
    /// Of these crawls, which must be committed, or left over from a removal cut short.
    pub fn new(crawls: Vec<Vec<u8>>, reset_tracked: bool) -> Removal<K> {
        Removal {
            crawls,
            at: 0,
            phase: RemovalPhase::Check(0),
            removed: 0,
            dropped: 0,
            reowned: 0,
            reset_tracked,
        }
    }

    /// Refuses crawls that cannot be removed.
    ///
    /// # Errors
    /// `NOCRAWL`, and `UNCOMMITTED` for a crawl that is not committed yet.
    pub fn check(index: &mut Index<K>, ks: &mut K, crawls: &[&[u8]]) -> Result<()> {
        for &crawl in crawls {
            if index.is_removable(ks, crawl)? || is_gone(index, ks, crawl)? {
                continue;
            }
            return Err(match index.standing(ks, crawl)? {
                Some(_) => Error::Uncommitted(crawl.to_vec()),
                None => Error::NoCrawl(crawl.to_vec()),
            });
        }
        Ok(())
    }

    /// Joins what a crash left of an earlier removal with what is asked now.
    fn start(&mut self, index: &mut Index<K>, ks: &mut K) -> Result<()> {
        index.heed_purge(ks)?;
        let mut wanted = Vec::new();
        for (crawl, state) in counts::fields(ks, &index.names.removing)?.iter() {
            if crawl == FIGURES {
                if let [removed, dropped, reowned] = parse_numbers(state)[..] {
                    (self.removed, self.dropped, self.reowned) = (removed, dropped, reowned);
                }
            } else if state == REMOVE {
                wanted.push(crawl.to_vec());
            }
        }
        // An earlier job of the queue may have removed some of them meanwhile.
        for crawl in std::mem::take(&mut self.crawls) {
            if index.is_removable(ks, &crawl)? && !index.is_canceling(ks, &crawl)? {
                wanted.push(crawl);
            }
        }
        wanted.sort();
        wanted.dedup();
        self.crawls = wanted;
        // A commit that was cut short must not go on with figures from before this removal.
        if !self.crawls.is_empty() {
            index.next_number(ks)?;
        }
        Ok(())
    }

    fn write_figures(&self, index: &mut Index<K>, ks: &mut K) -> Result<()> {
        let figures = write_numbers(&[self.removed, self.dropped, self.reowned]);
        index.set_removing(ks, FIGURES, Some(&figures))
    }
}

impl<K: Store> Job<K> for Removal<K> {
    fn step(&mut self, index: &mut Index<K>, ks: &mut K, time: Time<'_>) -> Result<Step> {
        loop {
            match &mut self.phase {
                RemovalPhase::Check(next) => {
                    index.check_types(ks, None)?;
                    while let Some(crawl) = self.crawls.get(*next) {
                        index.check_types(ks, Some(crawl))?;
                        *next += 1;
                        if next.is_multiple_of(8) && !time() {
                            return Ok(Step::More);
                        }
                    }
                    self.phase = RemovalPhase::Adopt(Adoption::default());
                }
                RemovalPhase::Adopt(adoption) => {
                    if !adoption.step(index, ks, time)? {
                        return Ok(Step::More);
                    }
                    self.phase = RemovalPhase::Start;
                }
                RemovalPhase::Start => {
                    self.start(index, ks)?;
                    self.phase = RemovalPhase::Mark(0);
                }
                RemovalPhase::Mark(next) => {
                    while let Some(crawl) = self.crawls.get(*next) {
                        index.set_removing(ks, crawl, Some(REMOVE))?;
                        *next += 1;
                        if next.is_multiple_of(8) && !time() {
                            return Ok(Step::More);
                        }
                    }
                    self.phase = RemovalPhase::Open;
                }
                RemovalPhase::Open => match self.crawls.get(self.at) {
                    None => self.phase = RemovalPhase::End,
                    Some(crawl) => {
                        let mut numbers = index.numbers_of(ks, crawl)?;
                        numbers.extend(index.commit_state(ks, crawl)?.map(|s| s.number));
                        let walk = Walk::stored(index, ks, Of::Records(crawl.clone()));
                        self.phase = RemovalPhase::Walk(walk, numbers);
                    }
                },
                RemovalPhase::Walk(walk, numbers) => {
                    index.heed_purge(ks)?;
                    let crawls = &self.crawls;
                    let crawl = &crawls[self.at];
                    let excluded =
                        |other: &[u8]| crawls.binary_search_by(|c| c[..].cmp(other)).is_ok();
                    let (mut dropped, mut reowned) = (0, 0);
                    let merging = index.crawl_key(ks, crawl, CrawlKey::Merging);
                    let is_merging = ks.exists(&merging);
                    let done = walk.run(index, ks, time, |index, ks, field, _| {
                        // What a commit cut short had put in does not count: nobody saw it.
                        let unseen = is_merging
                            && ks.hash_has(&merging, Digest::of_field(field).canonical())?;
                        match index.withdraw(ks, crawl, numbers, field, &excluded)? {
                            Withdrawn::NotOwner => {}
                            _ if unseen => {}
                            Withdrawn::Reowned => reowned += 1,
                            Withdrawn::Dropped => dropped += 1,
                        }
                        // Nobody sees a record of a crawl that leaves; the plain ones go all at once.
                        index.unpack_record(ks, crawl, field)
                    })?;
                    self.dropped += dropped;
                    self.reowned += reowned;
                    if done {
                        let leaving = Leaving::new(index, ks, crawl, true);
                        self.phase = RemovalPhase::Leave(leaving);
                    }
                    self.write_figures(index, ks)?;
                    if !done {
                        return Ok(Step::More);
                    }
                }
                RemovalPhase::Leave(leaving) => {
                    let crawl = self.crawls[self.at].clone();
                    if !leaving.step(index, ks, &crawl, time)? {
                        return Ok(Step::More);
                    }
                    for (name, _) in counts::all(ks, &index.names.allcounts, b"")? {
                        let share = index.removed_count(ks, &crawl, &name)?;
                        counts::add(ks, &index.names.allcounts, &name, share.saturating_neg())?;
                    }
                    for n in index.numbers_of(ks, &crawl)? {
                        ks.hash_del(&index.names.commits, n.to_string().as_bytes())?;
                    }
                    index.drop_crawl(ks, &crawl)?;
                    index.set_committed(ks, &crawl, false)?;
                    index.set_removing(ks, &crawl, Some(GONE))?;
                    self.removed += 1;
                    self.write_figures(index, ks)?;
                    self.at += 1;
                    self.phase = RemovalPhase::Open;
                    if !time() {
                        return Ok(Step::More);
                    }
                }
                RemovalPhase::End => {
                    index.end_removal(ks)?;
                    if self.reset_tracked {
                        for count in [counts::REMOVED_CRAWLS, counts::REMOVED_CRAWL_SIZE] {
                            ks.hash_set(&index.names.allcounts, count, b"0")?;
                        }
                    }
                    let figures = [self.removed, self.dropped, self.reowned];
                    return Ok(Step::Done(Reply::counts(&figures)));
                }
            }
        }
    }
}

/// Whether an unfinished removal has already taken this crawl out.
fn is_gone<K: Store>(index: &mut Index<K>, ks: &mut K, crawl: &[u8]) -> Result<bool> {
    let state = ks.hash_get(&index.names.removing, crawl)?;
    Ok(state.is_some_and(|state| state.as_ref() == GONE))
}

/// Takes what a crawl wrote outside its own keys away, in slices: its claims, and, when all of it
/// leaves, the names of its WACZ files in `src:d` and its sets of references.
struct Leaving<K: Store> {
    /// The claims, then the sets of references.
    walks: Vec<(Outside, Walk<K>)>,
    file: Option<u64>,
}

#[derive(Clone, Copy)]
enum Outside {
    Claims,
    References,
}

impl<K: Store> Leaving<K> {
    /// With `whole`, nothing of the crawl stays.
    fn new(index: &mut Index<K>, ks: &mut K, crawl: &[u8], whole: bool) -> Leaving<K> {
        let claims = index.names.claims.clone();
        let mut walks = vec![(Outside::Claims, Walk::hash(ks, claims))];
        if whole {
            let refs = index.crawl_key(ks, crawl, CrawlKey::Refs);
            walks.push((Outside::References, Walk::set(ks, refs)));
        }
        Leaving {
            walks,
            file: whole.then_some(0),
        }
    }

    fn step(
        &mut self,
        index: &mut Index<K>,
        ks: &mut K,
        crawl: &[u8],
        time: Time<'_>,
    ) -> Result<bool> {
        if let Some(at) = &mut self.file {
            let waczs = index.crawl_key(ks, crawl, CrawlKey::Waczs);
            let files = ks.list_len(&waczs)?;
            while *at < files {
                if let Some(entry) = file(ks, &waczs, *at)? {
                    // The name of a placeholder is another crawl's, if it is there.
                    let is_ours =
                        entry.is_closed() && index.state(ks, crawl)? == Some(CrawlState::Committed);
                    index.drop_finished(ks, &entry.filename, is_ours)?;
                }
                *at += 1;
                if at.is_multiple_of(8) && !time() {
                    return Ok(false);
                }
            }
        }
        while let Some((outside, walk)) = self.walks.last_mut() {
            let outside = *outside;
            let done = walk.run(index, ks, time, |index, ks, field, value| match outside {
                Outside::Claims => index.drop_claim_of(ks, crawl, field, value),
                Outside::References => {
                    let references = index.references_key(ks, field);
                    ks.delete(&references)?;
                    Ok(())
                }
            })?;
            if !done {
                return Ok(false);
            }
            self.walks.pop();
        }
        Ok(true)
    }
}

enum CancelPhase<K: Store> {
    Start,
    Gather(Walk<K>),
    Walk(Walk<K>),
    Added(Walk<K>),
    Leave(Leaving<K>),
    End,
}

/// The cancellation of what is uncommitted of one crawl.
pub struct Cancel<K: Store> {
    crawl: Vec<u8>,
    phase: CancelPhase<K>,
    numbers: Numbers,
    continued: bool,
    dropped: u64,
}

impl<K: Store> Cancel<K> {
    /// A cancellation that has not begun.
    pub fn new(crawl: &[u8]) -> Cancel<K> {
        Cancel {
            crawl: crawl.to_vec(),
            phase: CancelPhase::Start,
            numbers: Numbers::new(),
            continued: false,
            dropped: 0,
        }
    }

    /// Refuses crawls that have nothing to cancel.
    ///
    /// # Errors
    /// `NOCRAWL`, `COMMITTED`, `REMOVING` while the crawl is being removed, and `PURGING` for one that
    /// another program's purge has set aside.
    pub fn check(index: &mut Index<K>, ks: &mut K, crawl: &[u8]) -> Result<()> {
        if index.is_removing(ks, crawl)? && !index.is_canceling(ks, crawl)? {
            return Err(Error::Removing(crawl.to_vec()));
        }
        index.refuse_while_outgoing(ks, crawl)?;
        match index.standing(ks, crawl)? {
            Some(CrawlState::Committed) if index.is_canceling(ks, crawl)? => Ok(()),
            Some(CrawlState::Committed) => Err(Error::Committed(crawl.to_vec())),
            Some(_) => Ok(()),
            None => Err(Error::NoCrawl(crawl.to_vec())),
        }
    }

    fn start(&mut self, index: &mut Index<K>, ks: &mut K) -> Result<()> {
        let crawl = &self.crawl[..];
        Self::check(index, ks, crawl)?;
        index.check_types(ks, Some(crawl))?;
        self.continued = index.is_committed(ks, crawl)?;
        if !self.continued && !index.is_committing(ks, crawl)? {
            index.drop_leftovers(
                ks,
                crawl,
                &[CrawlKey::Baseline, CrawlKey::Added, CrawlKey::Merging],
            )?;
        }
        self.numbers
            .extend(index.commit_state(ks, crawl)?.map(|state| state.number));
        let marked = ks
            .hash_get(&index.names.removing, crawl)?
            .and_then(|state| parse_unsigned(state.as_ref().strip_prefix(CANCEL)?));
        if let Some(dropped) = marked {
            self.dropped = dropped;
        } else {
            if self.continued {
                index.ensure_base(ks, crawl)?;
            } else {
                self.dropped = index.records_len(ks, crawl)?;
            }
            index.register(ks)?;
            self.mark(index, ks)?;
        }
        self.phase = if self.continued && index.has_unseen_fields(ks, &self.crawl)? {
            let of = Of::Records(self.crawl.clone());
            CancelPhase::Gather(Walk::stored(index, ks, of))
        } else {
            self.walk(index, ks)
        };
        Ok(())
    }

    fn walk(&self, index: &mut Index<K>, ks: &mut K) -> CancelPhase<K> {
        CancelPhase::Walk(if self.continued {
            let merging = index.crawl_key(ks, &self.crawl, CrawlKey::Merging);
            Walk::hash(ks, merging)
        } else {
            Walk::stored(index, ks, Of::Records(self.crawl.clone()))
        })
    }

    fn mark(&self, index: &mut Index<K>, ks: &mut K) -> Result<()> {
        let state = [CANCEL, self.dropped.to_string().as_bytes()].concat();
        index.set_removing(ks, &self.crawl, Some(&state))
    }
}

impl<K: Store> Job<K> for Cancel<K> {
    fn step(&mut self, index: &mut Index<K>, ks: &mut K, time: Time<'_>) -> Result<Step> {
        loop {
            match &mut self.phase {
                CancelPhase::Start => self.start(index, ks)?,
                CancelPhase::Gather(walk) => {
                    let crawl = &self.crawl[..];
                    let mut gather = Gather::new(index, ks, crawl, true)?;
                    let done = walk.run(index, ks, time, |index, ks, field, _| {
                        gather.field(index, ks, crawl, field)
                    })?;
                    if !done {
                        return Ok(Step::More);
                    }
                    self.phase = self.walk(index, ks);
                }
                CancelPhase::Walk(walk) => {
                    let crawl = &self.crawl[..];
                    let (continued, numbers) = (self.continued, &self.numbers);
                    let mut dropped = 0;
                    let excluded = |other: &[u8]| other == crawl;
                    let done = walk.run(index, ks, time, |index, ks, field, _| {
                        index.withdraw(ks, crawl, numbers, field, &excluded)?;
                        if continued {
                            dropped += u64::from(index.drop_record(ks, crawl, field)?);
                        } else {
                            // What its commit, cut short, had copied.
                            index.unpack_record(ks, crawl, field)?;
                        }
                        Ok(())
                    })?;
                    self.dropped += dropped;
                    if dropped > 0 {
                        self.mark(index, ks)?;
                    }
                    if !done {
                        return Ok(Step::More);
                    }
                    let added = index.crawl_key(ks, &self.crawl, CrawlKey::Added);
                    self.phase = if self.continued {
                        CancelPhase::Added(Walk::hash(ks, added))
                    } else {
                        CancelPhase::Leave(Leaving::new(index, ks, &self.crawl, true))
                    };
                }
                CancelPhase::Added(walk) => {
                    let crawl = &self.crawl[..];
                    let mut dropped = 0;
                    let done = walk.run(index, ks, time, |index, ks, field, _| {
                        dropped += u64::from(index.drop_record(ks, crawl, field)?);
                        Ok(())
                    })?;
                    self.dropped += dropped;
                    self.mark(index, ks)?;
                    if !done {
                        return Ok(Step::More);
                    }
                    let leaving = Leaving::new(index, ks, &self.crawl, false);
                    self.phase = CancelPhase::Leave(leaving);
                }
                CancelPhase::Leave(leaving) => {
                    if !leaving.step(index, ks, &self.crawl, time)? {
                        return Ok(Step::More);
                    }
                    self.phase = CancelPhase::End;
                }
                CancelPhase::End => {
                    let crawl = &self.crawl[..];
                    if self.continued {
                        index.restore_baseline(ks, crawl)?;
                        // Sequence numbers only grow, and those from before the commit still count.
                        for key in [CrawlKey::Added, CrawlKey::Merging, CrawlKey::Unstored] {
                            let key = index.crawl_key(ks, crawl, key);
                            ks.delete(&key)?;
                        }
                        index.set_commit_state(ks, crawl, None)?;
                        index.set_uncommitted(ks, crawl, false)?;
                    } else {
                        index.drop_crawl(ks, crawl)?;
                    }
                    index.set_removing(ks, crawl, None)?;
                    return Ok(Step::Done(Reply::count(self.dropped)));
                }
            }
        }
    }
}

/// `RETAIN`: which committed crawls are not in the collection, and then their removal or tracking.
pub struct Retain<K: Store> {
    keep: Vec<Vec<u8>>,
    purge: bool,
    /// Over the sets of crawls that were committed once, the next one last.
    walks: Option<Vec<Walk<K>>>,
    others: Vec<Vec<u8>>,
    size: i64,
    summed: usize,
    removal: Option<Removal<K>>,
}

impl<K: Store> Retain<K> {
    /// These crawls are the whole collection; others are removed with `purge`, or else tracked.
    pub fn new(mut keep: Vec<Vec<u8>>, purge: bool) -> Retain<K> {
        keep.sort();
        Retain {
            keep,
            purge,
            walks: None,
            others: Vec::new(),
            size: 0,
            summed: 0,
            removal: None,
        }
    }
}

impl<K: Store> Job<K> for Retain<K> {
    fn step(&mut self, index: &mut Index<K>, ks: &mut K, time: Time<'_>) -> Result<Step> {
        if self.removal.is_none() {
            if self.walks.is_none() {
                let names = &index.names;
                ks.hash_len(&names.allcounts)?;
                let sets = [&names.canceled, &names.outgoing, &names.allcrawls];
                self.walks = Some(sets.map(|set| Walk::set(ks, set.clone())).into());
            }
            let (keep, others) = (&self.keep, &mut self.others);
            let walks = self.walks.as_mut().expect("made above");
            while let Some(walk) = walks.last_mut() {
                let complete = walk.run(index, ks, time, |_, _, crawl, _| {
                    if keep.binary_search_by(|c| c[..].cmp(crawl)).is_err() {
                        others.push(crawl.to_vec());
                    }
                    Ok(())
                })?;
                if !complete {
                    return Ok(Step::More);
                }
                walks.pop();
            }
            self.others.sort();
            self.others.dedup();
            if !self.purge {
                while let Some(crawl) = self.others.get(self.summed) {
                    let size = index.committed_count(ks, crawl, counts::TOTAL_CRAWL_SIZE)?;
                    self.size = self.size.saturating_add(size);
                    self.summed += 1;
                    if self.summed.is_multiple_of(8) && !time() {
                        return Ok(Step::More);
                    }
                }
                index.register(ks)?;
                let others = self.others.len() as u64;
                for (count, n) in [
                    (counts::REMOVED_CRAWLS, others as i64),
                    (counts::REMOVED_CRAWL_SIZE, self.size),
                ] {
                    let n = n.to_string();
                    let was = ks.hash_get(&index.names.allcounts, count)?;
                    // The same list again changes nothing.
                    if was.is_none_or(|was| was.as_ref() != n.as_bytes()) {
                        ks.hash_set(&index.names.allcounts, count, n.as_bytes())?;
                    }
                }
                return Ok(Step::Done(Reply::counts(&[others, 0, 0])));
            }
            index.register(ks)?;
            self.removal = Some(Removal::new(std::mem::take(&mut self.others), true));
        }
        let removal = self.removal.as_mut().expect("made above");
        removal.step(index, ks, time)
    }
}

impl<K: Store> Index<K> {
    /// Whether the crawl is being canceled, or a cancel was cut short.
    fn is_canceling(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        let state = ks.hash_get(&self.names.removing, crawl)?;
        Ok(state.is_some_and(|state| state.as_ref().starts_with(CANCEL)))
    }

    /// Ends a removal: its marks go, those of cancels that were cut short stay.
    fn end_removal(&mut self, ks: &mut K) -> Result<()> {
        let marks = counts::fields(ks, &self.names.removing)?;
        if !marks.iter().any(|(_, state)| state.starts_with(CANCEL)) {
            return self.clear_removing(ks);
        }
        for (crawl, state) in marks.iter() {
            if !state.starts_with(CANCEL) {
                self.set_removing(ks, crawl, None)?;
            }
        }
        Ok(())
    }

    /// Deletes one record of a crawl, whatever its spelling; true when it was there.
    fn drop_record(&mut self, ks: &mut K, crawl: &[u8], field: &[u8]) -> Result<bool> {
        let digest = Digest::of_field(field);
        let mut dropped = false;
        while let Some(spelling) = self.spelling_in(ks, crawl, &digest)? {
            dropped |= self.record_del(ks, crawl, &spelling)?;
        }
        Ok(dropped)
    }

    /// Deletes a crawl's keys, and its marks as uncommitted or being committed.
    fn drop_crawl(&mut self, ks: &mut K, crawl: &[u8]) -> Result<()> {
        for key in CrawlKey::ALL {
            let key = self.crawl_key(ks, crawl, key);
            ks.delete(&key)?;
        }
        if self.is_committing(ks, crawl)? {
            self.set_commit_state(ks, crawl, None)?;
        }
        if self.is_uncommitted(ks, crawl)? {
            self.set_uncommitted(ks, crawl, false)?;
        }
        self.take_back(ks, crawl)?;
        Ok(())
    }
}
