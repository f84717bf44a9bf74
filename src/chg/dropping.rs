//! `CHG.DROP`: a crawl is aborted, and its URIs leave all groups. It stays so until the last lease ends
//! whose worker may not know. Or a group is emptied of the URIs of all crawls, which go on.

use std::sync::Arc;

use crawlspace_host::keyspace::Batch;
use crawlspace_host::reply::Reply;

use super::error::Result;
use super::frontier::Frontier;
use super::job::{Job, Step, Time};
use super::keys::COUNTED;
use super::store::Store;
use super::time::Millis;
use super::uris::{Changed, Op};

/// How many URIs of one group leave at a time.
const BATCH: u64 = 128;

/// Takes the URIs of an execution out of all groups. A URI that is being fetched counts no more, but
/// its host stays leased.
pub struct Dropping<K: Store> {
    execution: Arc<[u8]>,
    now: Millis,
    /// The walk over the groups that have URIs of the execution.
    groups: K::Cursor,
    batch: Batch,
    next: usize,
    walked: bool,
    /// Whether anything was dropped from the group that is worked on.
    touches: bool,
    touched: u64,
    dropped: u64,
}

impl<K: Store> Dropping<K> {
    /// Of this execution.
    pub fn new(ks: &mut K, execution: &[u8], now: Millis) -> Self {
        Dropping {
            execution: execution.into(),
            now,
            groups: ks.cursor(),
            batch: Batch::default(),
            next: 0,
            walked: false,
            touches: false,
            touched: 0,
            dropped: 0,
        }
    }

    /// Makes sure that there is a group to work on; false at the end.
    fn walk(&mut self, frontier: &Frontier<K>, ks: &mut K) -> Result<bool> {
        while self.next >= self.batch.len() {
            if self.walked {
                return Ok(false);
            }
            self.batch.clear();
            self.next = 0;
            let key = frontier.groups_of(ks, &self.execution);
            self.walked = !ks.hash_scan(&key, &mut self.groups, &mut self.batch)?;
        }
        Ok(true)
    }
}

impl<K: Store> Frontier<K> {
    /// Drops some of the URIs of an execution from a group: how many, and whether there are more. With
    /// `aborts` nothing more is taken in for the execution while leases of it are held.
    fn drop_some(
        &mut self,
        ks: &mut K,
        id: &[u8],
        execution: &[u8],
        aborts: bool,
        now: Millis,
    ) -> Result<(u64, bool)> {
        // What is no group has no URIs.
        let Some(mut loaded) = self.load_sound(ks, id)? else {
            return Ok((0, false));
        };
        self.reclaim(ks, &mut loaded, now)?;
        let key = self.uris_key(ks, id);
        let counted = self.counted(ks, &loaded.key, execution)?;
        if aborts {
            let leased = self.leased_until(ks, &loaded, execution, counted > 0)?;
            if let Some(until) = leased.filter(|&until| until > now) {
                self.mark_dropped(ks, execution, until)?;
            }
        }
        let has = ks.uris(&key, |uris| uris.count_of(execution))?;
        let drop = Op::Drop {
            execution,
            limit: BATCH,
        };
        let kept = match has {
            Some(1..) => match ks.change_uris(&key, &drop)? {
                Changed::Removed(n) => n,
                _ => 0,
            },
            _ => 0,
        };
        let gone = (kept + counted).min(loaded.group.uris);
        let more = has.unwrap_or(0) > kept;
        if !more {
            self.delist(ks, execution, id)?;
        }
        if kept + counted == 0 {
            return Ok((0, more));
        }
        self.count(ks, &loaded.key, execution, -(counted as i64))?;
        let was_runnable = loaded.group.is_runnable();
        loaded.group.uris -= gone;
        self.tally(ks, execution, -(gone as i64))?;
        self.leave_queues(ks, &loaded, was_runnable)?;
        if loaded.group.is_idle() {
            self.rest(ks, &mut loaded, now)?;
        } else {
            self.save(ks, &loaded)?;
        }
        Ok((gone, more))
    }
}

impl<K: Store> Job<K> for Dropping<K> {
    fn step(&mut self, frontier: &mut Frontier<K>, ks: &mut K, time: Time<'_>) -> Result<Step> {
        frontier.begin_drop(&self.execution);
        while self.walk(frontier, ks)? {
            let id = self.batch.get(self.next).0.to_vec();
            let (gone, more) = frontier.drop_some(ks, &id, &self.execution, true, self.now)?;
            self.dropped = self.dropped.saturating_add(gone);
            self.touched += u64::from(gone > 0 && !self.touches);
            self.touches = more && (self.touches || gone > 0);
            self.next += usize::from(!more);
            if !time() {
                return Ok(Step::More);
            }
        }
        let numbers = frontier.sequence_key(ks, &self.execution);
        ks.delete(&numbers)?;
        let field = [COUNTED, &self.execution].concat();
        ks.hash_del(&frontier.names.paused, &field)?;
        frontier.paused = None;
        frontier.skipped = Default::default();
        Ok(Step::Done(Reply::counts(&[self.touched, self.dropped])))
    }
}

/// Takes all URIs out of a group. What is being fetched counts no more, but the host stays leased.
pub struct Emptying<K: Store> {
    group: Vec<u8>,
    now: Millis,
    /// The number from which on executions have kept URIs that were not dropped.
    kept_from: u64,
    /// The walk over the executions of which the group counts URIs.
    counted: K::Cursor,
    batch: Batch,
    next: usize,
    walked: bool,
    /// The execution that is worked on, and whether anything of it was dropped.
    execution: Option<Vec<u8>>,
    touches: bool,
    touched: u64,
    dropped: u64,
}

impl<K: Store> Emptying<K> {
    /// Of this group.
    pub fn new(ks: &mut K, group: &[u8], now: Millis) -> Self {
        Emptying {
            group: group.to_vec(),
            now,
            kept_from: 0,
            counted: ks.cursor(),
            batch: Batch::default(),
            next: 0,
            walked: false,
            execution: None,
            touches: false,
            touched: 0,
            dropped: 0,
        }
    }

    /// The next execution with URIs in the group, kept ones first.
    fn find(&mut self, frontier: &Frontier<K>, ks: &mut K) -> Result<Option<Vec<u8>>> {
        let Some(loaded) = frontier.load_sound(ks, &self.group)? else {
            return Ok(None);
        };
        let from = self.kept_from;
        let first = frontier.kept(ks, &loaded, |uris| {
            let first = uris.executions_from(from).next();
            first.map(|share| (share.number, share.id.to_vec()))
        })?;
        if let Some((number, execution)) = first.flatten() {
            self.kept_from = number + 1;
            return Ok(Some(execution));
        }
        loop {
            while self.next < self.batch.len() {
                let field = self.batch.get(self.next).0;
                self.next += 1;
                if let Some(execution) = field.strip_prefix(COUNTED) {
                    return Ok(Some(execution.to_vec()));
                }
            }
            if self.walked {
                return Ok(None);
            }
            self.batch.clear();
            self.next = 0;
            self.walked = !ks.hash_scan(&loaded.key, &mut self.counted, &mut self.batch)?;
        }
    }
}

impl<K: Store> Job<K> for Emptying<K> {
    fn step(&mut self, frontier: &mut Frontier<K>, ks: &mut K, time: Time<'_>) -> Result<Step> {
        loop {
            if self.execution.is_none() {
                self.execution = self.find(frontier, ks)?;
            }
            let Some(execution) = &self.execution else {
                let counts = [self.touched, self.dropped];
                return Ok(Step::Done(Reply::counts(&counts)));
            };
            let (gone, more) = frontier.drop_some(ks, &self.group, execution, false, self.now)?;
            self.dropped = self.dropped.saturating_add(gone);
            self.touched += u64::from(gone > 0 && !self.touches);
            self.touches = more && (self.touches || gone > 0);
            if !more {
                self.execution = None;
            }
            if !time() {
                return Ok(Step::More);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::add::{Kept, Queued};
    use super::*;
    use crate::chg::store::MemoryKeyspace;

    #[test]
    fn only_groups_of_the_execution_are_looked_at() {
        let mut ks = MemoryKeyspace::default();
        let mut frontier = Frontier::open(&mut ks, b"{f}:");
        for n in 0..500 {
            let chg = format!("other-{n}");
            let queued = Queued {
                chg: chg.as_bytes(),
                at: 1,
            };
            frontier.add(&mut ks, b"x", None, &[queued], 1).unwrap();
        }
        for chg in [&b"a"[..], b"b", b"other-7"] {
            let queued = Queued { chg, at: 1 };
            let kept = Kept {
                chg,
                at: 1,
                depth: 0,
                uri: b"u",
            };
            frontier.add(&mut ks, b"y", None, &[queued], 1).unwrap();
            frontier.add_kept(&mut ks, b"y", None, &[kept], 1).unwrap();
        }
        let mut drop = Dropping::new(&mut ks, b"y", 1);
        let mut steps = 1;
        let done = loop {
            match drop.step(&mut frontier, &mut ks, &mut || false).unwrap() {
                Step::More => steps += 1,
                Step::Done(reply) => break reply,
            }
        };
        assert_eq!(done, Reply::counts(&[3, 6]));
        assert!(steps <= 4, "{steps} steps");
        let left = ks
            .keys
            .keys()
            .filter(|key| key.starts_with(b"{f}:chg_of:y"));
        assert_eq!(left.count(), 0);
    }
    #[test]
    fn what_is_added_while_a_crawl_is_dropped_is_not_taken_in() {
        let mut ks = MemoryKeyspace::default();
        let mut frontier = Frontier::open(&mut ks, b"{f}:");
        let add = |frontier: &mut Frontier<MemoryKeyspace>, ks: &mut _, chg: &str| {
            let kept = Kept {
                chg: chg.as_bytes(),
                at: 1,
                depth: 0,
                uri: b"u",
            };
            frontier.add_kept(ks, b"y", None, &[kept], 1).unwrap()[0]
        };
        for n in 0..20 {
            assert_eq!(add(&mut frontier, &mut ks, &format!("h{n}")), Some(1));
        }
        let mut drop = Dropping::new(&mut ks, b"y", 1);
        let mut steps = 0;
        let done = loop {
            match drop.step(&mut frontier, &mut ks, &mut || false).unwrap() {
                Step::More => {
                    // Groups that were skipped, that come yet, and that are new.
                    frontier.invalidate();
                    for n in 0..25 {
                        assert_eq!(add(&mut frontier, &mut ks, &format!("h{n}")), None);
                    }
                    steps += 1;
                }
                Step::Done(reply) => break reply,
            }
        };
        assert!(steps > 10, "{steps} steps");
        assert_eq!(done, Reply::counts(&[20, 20]));
        // A job that ended, or was given up, holds nothing up.
        std::mem::drop(drop);
        assert_eq!(add(&mut frontier, &mut ks, "h3"), Some(1));
        let mut given_up = Dropping::new(&mut ks, b"y", 1);
        given_up
            .step(&mut frontier, &mut ks, &mut || false)
            .unwrap();
        std::mem::drop(given_up);
        assert_eq!(add(&mut frontier, &mut ks, "h4"), Some(1));
    }
}
