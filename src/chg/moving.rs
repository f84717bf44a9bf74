//! `CHG.MOVE`: what is queued for one group is from now on queued for another, because a host turned
//! out to share its address with others.

use crawlspace_host::keyspace::Batch;
use crawlspace_host::reply::Reply;
use crawlspace_host::text::parse_unsigned;

use super::error::{Error, Result};
use super::frontier::{Frontier, Loaded};
use super::job::{Step, Steps, Time};
use super::keys::COUNTED;
use super::store::Store;
use super::time::{Millis, of_score};
use super::uris::{Changed, Op, Queued};

/// How many kept URIs move at a time.
const BATCH: usize = 64;

/// Moves everything that is queued for a group.
pub struct Moving<K: Store> {
    from: Vec<u8>,
    to: Vec<u8>,
    now: Millis,
    moved: u64,
    /// The walk over the executions of which the group counts URIs, and whether it met any.
    counted: K::Cursor,
    met: bool,
}

impl<K: Store> Moving<K> {
    /// From one group to another.
    pub fn new(ks: &mut K, from: &[u8], to: &[u8], now: Millis) -> Moving<K> {
        Moving {
            from: from.to_vec(),
            to: to.to_vec(),
            now,
            moved: 0,
            counted: ks.cursor(),
            met: false,
        }
    }

    /// Moves URIs that the frontier keeps.
    fn move_kept(
        &mut self,
        frontier: &mut Frontier<K>,
        ks: &mut K,
        from: &mut Loaded<K>,
        to: &mut Loaded<K>,
        uris: &[Queued],
    ) -> Result<()> {
        let from_key = frontier.uris_key(ks, &self.from);
        let to_key = frontier.uris_key(ks, &self.to);
        for queued in uris {
            let Queued { execution, uri, .. } = queued;
            let add = Op::Add {
                execution,
                weight: Some(queued.weight),
                due: queued.due,
                depth: queued.depth,
                attempts: queued.attempts,
                uri,
            };
            let added = ks.change_uris(&to_key, &add)? == Changed::Added;
            ks.change_uris(&from_key, &Op::Remove { execution, uri })?;
            from.group.uris = from.group.uris.saturating_sub(1);
            frontier.delist_if_done(ks, from, execution)?;
            if added {
                to.group.keeps = true;
                frontier.enlist(ks, execution, &self.to)?;
                frontier.arrive(ks, to, 1, queued.due, self.now)?;
                self.moved += 1;
            } else {
                // The other group has it already: it counts once.
                frontier.tally(ks, execution, -1)?;
            }
        }
        Ok(())
    }

    /// Moves the counts of some executions, of URIs that crawlers keep; false when none is left, and
    /// what plain clients counted, who do not say for whom, has moved too.
    fn move_counted(
        &mut self,
        frontier: &mut Frontier<K>,
        ks: &mut K,
        from: &mut Loaded<K>,
        to: &mut Loaded<K>,
    ) -> Result<bool> {
        let mut batch = Batch::default();
        let mut more = ks.hash_scan(&from.key, &mut self.counted, &mut batch)?;
        let mut counted = 0;
        for (field, _) in batch.iter() {
            let Some(execution) = field.strip_prefix(COUNTED) else {
                continue;
            };
            // A scan may give a field twice.
            let n = ks.hash_get(&from.key, field)?;
            let n = n.and_then(|n| parse_unsigned(n.as_ref())).unwrap_or(0);
            ks.hash_del(&from.key, field)?;
            frontier.delist_if_done(ks, from, execution)?;
            if n > 0 {
                frontier.count(ks, &to.key, execution, n as i64)?;
                frontier.enlist(ks, execution, &self.to)?;
                counted += n.min(from.group.uris - counted);
                self.met = true;
            }
        }
        if !more {
            // Others may have come behind the walk.
            self.counted = ks.cursor();
            more = std::mem::take(&mut self.met);
        }
        // What is known of the group itself, and of its last release; the hash may have gone with it.
        let next = ks.hash_has(&from.key, frontier.fields.next.as_ref())?;
        more &= ks.hash_len(&from.key)? > from.own_fields() + u64::from(next);
        if !more {
            counted = from.group.uris;
        }
        if counted > 0 {
            from.group.uris -= counted;
            // Behind a shared gate it was due when that opens.
            let due = if from.group.options.gate.is_empty() {
                from.group.due
            } else {
                frontier.due_of(ks, from)?
            };
            frontier.arrive(ks, to, counted, due, self.now)?;
            self.moved += counted;
        }
        Ok(more)
    }
}

impl<K: Store> Steps<K> for Moving<K> {
    fn step(&mut self, frontier: &mut Frontier<K>, ks: &mut K, time: Time<'_>) -> Result<Step> {
        loop {
            let mut from = match frontier.known(ks, &self.from) {
                Ok(from) => from,
                // What was left of it went while its URIs were moved.
                Err(Error::NoChg(_)) if self.moved > 0 => {
                    let to = frontier.load(ks, &self.to)?;
                    let counts = [self.moved, to.group.uris];
                    return Ok(Step::Done(Reply::counts(&counts)));
                }
                Err(error) => return Err(error),
            };
            let busy = ks.zset_score(&frontier.names.busy, &self.from)?;
            let deadline = from.group.first_deadline().or(busy.map(of_score));
            if let Some(deadline) = deadline {
                return Err(Error::Leased(self.from.clone(), deadline));
            }
            frontier.reclaim(ks, &mut from, self.now)?;
            let was_runnable = from.group.is_runnable();
            let mut to = frontier.load(ks, &self.to)?;
            frontier.reclaim(ks, &mut to, self.now)?;
            // It is one host now, so both pauses hold.
            to.group.gate = to.group.gate.max(from.group.gate);
            to.group.released = to.group.released.max(from.group.released);
            let blocked = from.group.options.blocked.max(to.group.options.blocked);
            to.group.options.blocked = blocked;
            let key = frontier.uris_key(ks, &self.from);
            let uris = ks.uris(&key, |uris| uris.batch(BATCH))?.unwrap_or_default();
            self.move_kept(frontier, ks, &mut from, &mut to, &uris)?;
            let done = uris.is_empty() && !self.move_counted(frontier, ks, &mut from, &mut to)?;
            let closed = to.group.closed_until();
            if to.group.due < closed && frontier.stands_in_wait(ks, &to)? {
                to.group.due = closed;
                frontier.wait(ks, &self.to, closed as f64)?;
            }
            if to.group.uris > 0 {
                frontier.save(ks, &to)?;
            } else if done && to.group.gate > self.now {
                // Nothing was queued, but the pause holds for what comes.
                frontier.rest(ks, &mut to, self.now)?;
            }
            frontier.leave_queues(ks, &from, was_runnable)?;
            if done {
                frontier.rest(ks, &mut from, self.now)?;
                let counts = [self.moved, to.group.uris];
                return Ok(Step::Done(Reply::counts(&counts)));
            }
            frontier.save(ks, &from)?;
            // With nothing left it is laid to rest before anybody sees it.
            if !time() && !from.group.is_idle() {
                return Ok(Step::More);
            }
        }
    }
}
