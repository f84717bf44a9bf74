//! `CHG.DROP`: a crawl is aborted, and its URIs leave all groups.

use crate::reply::Reply;

use super::error::Result;
use super::frontier::Frontier;
use super::job::{Groups, Job, Step, Time, Walked};
use super::keys::COUNTED;
use super::store::Store;
use super::time::Millis;
use super::uris::{Changed, Op};

/// How many URIs of one group leave at a time.
const BATCH: u64 = 128;

/// Takes the URIs of an execution out of all groups. A URI that is being fetched counts no more, but
/// its host stays leased.
pub struct Dropping<K: Store> {
    execution: Vec<u8>,
    now: Millis,
    groups: Groups<K>,
    /// The group that is worked on, and whether anything was dropped from it.
    current: Option<(Vec<u8>, bool)>,
    touched: u64,
    dropped: u64,
}

impl<K: Store> Dropping<K> {
    /// Of this execution.
    pub fn new(frontier: &Frontier<K>, ks: &mut K, execution: &[u8], now: Millis) -> Self {
        Dropping {
            execution: execution.to_vec(),
            now,
            groups: Groups::new(frontier, ks),
            current: None,
            touched: 0,
            dropped: 0,
        }
    }

    /// Drops some of the URIs of a group: how many, and whether there are more.
    fn drop_some(&self, frontier: &mut Frontier<K>, ks: &mut K, id: &[u8]) -> Result<(u64, bool)> {
        let mut loaded = frontier.load(ks, id)?;
        let key = frontier.uris_key(ks, id);
        let drop = Op::Drop {
            execution: &self.execution,
            limit: BATCH,
        };
        let has = ks.uris(&key, |uris| uris.count_of(&self.execution))?;
        let kept = match has {
            Some(1..) => match ks.change_uris(&key, &drop)? {
                Changed::Removed(n) => n,
                _ => 0,
            },
            _ => 0,
        };
        let counted = frontier.counted(ks, &loaded.key, &self.execution)?;
        let gone = (kept + counted).min(loaded.group.uris);
        if gone == 0 {
            return Ok((0, false));
        }
        frontier.count(ks, &loaded.key, &self.execution, -(counted as i64))?;
        let was_runnable = loaded.group.is_runnable();
        loaded.group.uris -= gone;
        frontier.tally(ks, &self.execution, -(gone as i64))?;
        frontier.leave_queues(ks, &loaded, was_runnable)?;
        if loaded.group.is_idle() {
            frontier.rest(ks, &mut loaded, self.now)?;
        } else {
            frontier.save(ks, &loaded)?;
        }
        Ok((gone, has.unwrap_or(0) > kept))
    }
}

impl<K: Store> Job<K> for Dropping<K> {
    fn step(&mut self, frontier: &mut Frontier<K>, ks: &mut K, time: Time<'_>) -> Result<Step> {
        loop {
            let (id, touched) = match self.current.take() {
                Some(current) => current,
                None => match self.groups.next(ks, time) {
                    Walked::Group(id) => (id, false),
                    Walked::Later => return Ok(Step::More),
                    Walked::End => break,
                },
            };
            let (gone, more) = self.drop_some(frontier, ks, &id)?;
            self.dropped = self.dropped.saturating_add(gone);
            self.touched += u64::from(gone > 0 && !touched);
            if more {
                self.current = Some((id, touched || gone > 0));
            }
            if !time() {
                return Ok(Step::More);
            }
        }
        let numbers = frontier.sequence_key(ks, &self.execution);
        ks.delete(&numbers)?;
        let field = [COUNTED, &self.execution].concat();
        ks.hash_del(&frontier.names.paused, &field)?;
        frontier.paused = None;
        frontier.passed = Default::default();
        Ok(Step::Done(Reply::counts(&[self.touched, self.dropped])))
    }
}
