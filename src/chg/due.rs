//! Computes the time at which the next group may be leased, so that a crawler knows how long it can
//! wait.

use std::rc::Rc;

use crawlspace_host::keyspace::Batch;

use super::error::Result;
use super::frontier::Frontier;
use super::groups::Loaded;
use super::keys::{GATED, Keys};
use super::later::Later;
use super::pauses::Paused;
use super::skipped::Walk;
use super::store::Store;
use super::time::{Millis, of_score};
use super::verdict::Judge;

/// Maximum number of groups of a queue, and of an execution, that are examined.
const MAX_LOOKED: u64 = 64;

/// Maximum number of pages of a scan for the groups of an execution.
const MAX_PAGES: usize = 8;

/// The earliest of several times.
#[derive(Clone, Copy, Default)]
struct Earliest(Option<Millis>);

impl Earliest {
    fn add(&mut self, at: Option<Millis>) {
        self.0 = self.0.into_iter().chain(at).min();
    }

    /// Returns true if the result so far is not later than this time.
    fn is_before(self, at: Millis) -> bool {
        self.0.is_some_and(|earliest| earliest <= at)
    }
}

/// The search for the time at which the next group may be leased.
struct Forecast<'a, K: Store> {
    keys: &'a Keys<K>,
    walk: &'a Walk,
    judge: Judge<'a, K>,
    later: &'a Later<K>,
    paused: Rc<Paused>,
    now: Millis,
    /// Earliest time found so far.
    first: Earliest,
}

impl<K: Store> Forecast<'_, K> {
    fn look_at_ready(&mut self, ks: &mut K) -> Result<()> {
        let len = ks.list_len(&self.keys.once.ready)?;
        let walk = self.walk;
        let most = MAX_LOOKED as usize;
        let changed = walk.changed_in_ready();
        let places: Vec<u64> = changed
            .chain(walk.end_of_ready()..len)
            .take(most + 1)
            .collect();
        for &at in places.iter().take(most) {
            if self.first.is_before(self.now) {
                return Ok(());
            }
            let id = ks.list_get(&self.keys.once.ready, at)?;
            let Some(id) = id else { continue };
            if let Some(loaded) = self.judge.groups.load_sound(ks, id.as_ref())? {
                self.first.add(self.queued_from(ks, &loaded)?);
            }
        }
        self.first.add((places.len() > most).then_some(self.now));
        Ok(())
    }

    fn look_at_waiting(&mut self, ks: &mut K) -> Result<()> {
        let walk = self.walk;
        let from = walk.end_of_wait();
        // A skipped group may have been leased, blocked, emptied or queued again since its time was
        // recorded.
        let times = walk.times().take(MAX_LOOKED as usize + 1).cloned();
        let times: Vec<_> = times.collect();
        let changed = walk.all_changed_in_wait().take(MAX_LOOKED as usize + 1);
        let changed: Vec<_> = changed
            .map(|place| (place.id.to_vec(), of_score(place.score)))
            .collect();
        for (n, (due, id)) in (0..).zip(times) {
            if self.first.is_before(due.max(self.now)) {
                break;
            }
            let loaded = self.judge.groups.load_sound(ks, &id)?;
            let Some(loaded) = loaded.filter(|loaded| loaded.group.uris > 0) else {
                continue;
            };
            let waits = ks.zset_score(&self.keys.once.wait, &id)?;
            let due = due.max(waits.map_or(0, of_score)).max(self.now);
            let from = match n {
                MAX_LOOKED => Some(due),
                _ => self.queued_from(ks, &loaded)?,
            };
            self.first.add(from.map(|from| from.max(due)));
        }
        for (n, (id, score)) in (0..).zip(changed) {
            if !self.look_at_place(ks, n, (&id, score))? {
                break;
            }
        }
        for n in 0..=MAX_LOOKED {
            let next = ks.zset_at(&self.keys.once.wait, from + n)?;
            let Some((id, score)) = next else { break };
            let place = (id.as_ref(), of_score(score));
            if !self.look_at_place(ks, n, place)? {
                break;
            }
        }
        Ok(())
    }

    /// Examines a group of `chg_wait`. Returns false if the groups after it need not be examined.
    fn look_at_place(&mut self, ks: &mut K, n: u64, (id, score): (&[u8], Millis)) -> Result<bool> {
        let score = score.max(self.now);
        if self.first.is_before(score) {
            return Ok(false);
        }
        if n == MAX_LOOKED {
            self.first.add(Some(score));
            return Ok(false);
        }
        if let Some(loaded) = self.judge.groups.load_sound(ks, id)? {
            let from = self.queued_from(ks, &loaded)?;
            self.first.add(from.map(|from| from.max(score)));
        }
        Ok(true)
    }

    /// Returns the time from which a queued group, or a group behind it at a shared gate, can be leased.
    fn queued_from(&self, ks: &mut K, loaded: &Loaded<K>) -> Result<Option<Millis>> {
        let (from, _) = (self.judge).leasable_from(ks, loaded, &self.paused, None, self.now)?;
        let gate = &loaded.group.options.gate;
        if gate.is_empty() {
            return Ok(from);
        }
        let gated = self.keys.key(ks, GATED, gate);
        if ks.list_len(&gated)? == 0 {
            return Ok(from);
        }
        // If this group is held back, a search will make the next group the representative of the
        // gate.
        Ok(Some(self.judge.gates.closed_until(ks, gate)?.max(self.now)))
    }

    fn look_at_busy(&mut self, ks: &mut K) -> Result<()> {
        for rank in 0..=MAX_LOOKED {
            let next = ks.zset_at(&self.keys.once.busy, rank)?;
            let Some((id, deadline)) = next else { break };
            let deadline = of_score(deadline).max(self.now);
            if self.first.is_before(deadline) {
                break;
            }
            if rank == MAX_LOOKED {
                self.first.add(Some(deadline));
                break;
            }
            if let Some(loaded) = self.judge.groups.load_sound(ks, id.as_ref())? {
                let (_, after) =
                    (self.judge).leasable_from(ks, &loaded, &self.paused, None, self.now)?;
                self.first.add(after.map(|after| after.max(deadline)));
            }
        }
        Ok(())
    }

    /// Examines the leases that have freed their groups. The URIs of such a lease return to the queue at the
    /// second deadline.
    fn look_at_later(&mut self, ks: &mut K, only: Option<&[u8]>) -> Result<()> {
        for rank in 0..=MAX_LOOKED {
            let Some((chg, token, deadline)) = self.later.at(ks, rank)? else {
                break;
            };
            let deadline = deadline.max(self.now);
            if self.first.is_before(deadline) {
                break;
            }
            if rank == MAX_LOOKED {
                self.first.add(Some(deadline));
                break;
            }
            if let Some(loaded) = self.judge.groups.load_sound(ks, &chg)? {
                let lease = (&*loaded, token);
                let from = (self.judge).returns_from(ks, lease, &self.paused, only, self.now)?;
                self.first.add(from.map(|from| from.max(deadline)));
            }
        }
        Ok(())
    }

    /// Examines a group for a URI of an execution.
    fn look_at_group(&mut self, ks: &mut K, id: &[u8], execution: &[u8]) -> Result<()> {
        let Some(loaded) = self.judge.groups.load_sound(ks, id)? else {
            return Ok(());
        };
        let waits = ks.zset_score(&self.keys.once.wait, id)?;
        let busy = ks.zset_score(&self.keys.once.busy, id)?;
        let (from, after) =
            (self.judge).leasable_from(ks, &loaded, &self.paused, Some(execution), self.now)?;
        let waits = waits.map_or(0, of_score);
        self.first.add(from.map(|from| from.max(waits)));
        self.first
            .add(busy.and_then(|at| Some(after?.max(of_score(at)))));
        Ok(())
    }
}

impl<K: Store> Frontier<K> {
    /// Returns the earliest time, not before `now`, at which a group may be leased. Returns `None` if nothing is
    /// queued, or if everything is blocked or paused. If many groups at the head of a queue are held back, the returned
    /// time may be too early.
    pub(super) fn next_due(&mut self, ks: &mut K, now: Millis) -> Result<Option<Millis>> {
        self.queues.note_limits(ks)?;
        let paused = self.pauses.read(ks)?;
        if paused.all {
            return Ok(None);
        }
        let mut forecast = self.forecast(paused, now);
        forecast.look_at_ready(ks)?;
        forecast.look_at_waiting(ks)?;
        forecast.look_at_busy(ks)?;
        forecast.look_at_later(ks, None)?;
        Ok(forecast.first.0)
    }

    /// Returns the parts of the frontier that the search reads.
    fn forecast(&self, paused: Rc<Paused>, now: Millis) -> Forecast<'_, K> {
        Forecast {
            keys: &self.keys,
            walk: self.queues.skipped.seen(),
            judge: self.judge(),
            later: &self.later,
            paused,
            now,
            first: Earliest::default(),
        }
    }

    /// Returns the earliest time at which a URI of an execution may be leased. The returned time may be
    /// too early: if the frontier has many groups, and no client has named the execution, it is the time for the
    /// whole frontier.
    pub(super) fn next_due_of(
        &mut self,
        ks: &mut K,
        execution: &[u8],
        now: Millis,
    ) -> Result<Option<Millis>> {
        let paused = self.pauses.read(ks)?;
        let queued = self.ledger.queued_of(ks, execution)?;
        if queued == 0 || paused.all || paused.has(execution) {
            return Ok(None);
        }
        let key = self.keys.groups_of(ks, execution);
        let (mut batch, mut cursor, mut pages) = (Batch::default(), ks.cursor(), 0);
        while ks.hash_scan(&key, &mut cursor, &mut batch)? {
            pages += 1;
            if pages == MAX_PAGES || batch.len() as u64 > 2 * MAX_LOOKED {
                return self.next_due_of_many(ks, execution, paused, now);
            }
        }
        let mut groups: Vec<&[u8]> = batch.iter().map(|(id, _)| id).collect();
        // A scan may return a field twice.
        groups.sort_unstable();
        groups.dedup();
        if groups.len() as u64 > MAX_LOOKED {
            return self.next_due_of_many(ks, execution, paused, now);
        }
        let mut forecast = self.forecast(paused, now);
        for id in groups {
            forecast.look_at_group(ks, id, execution)?;
        }
        forecast.look_at_later(ks, Some(execution))?;
        Ok(forecast.first.0)
    }

    /// Works like [`Frontier::next_due_of`], but examines the groups in the order in which a search does.
    fn next_due_of_many(
        &mut self,
        ks: &mut K,
        execution: &[u8],
        paused: Rc<Paused>,
        now: Millis,
    ) -> Result<Option<Millis>> {
        let most = MAX_LOOKED as usize + 1;
        let entries = ks.packed(|packed| packed.first_entries_for(execution, most))?;
        let Some(entries) = entries.flatten() else {
            return self.next_due(ks, now);
        };
        let mut forecast = self.forecast(paused, now);
        for (n, (at, id)) in (0..).zip(entries) {
            let at = at.max(now);
            if forecast.first.is_before(at) {
                break;
            }
            match id {
                Some(id) if n < MAX_LOOKED => forecast.look_at_group(ks, &id, execution)?,
                _ => forecast.first.add(Some(at)),
            }
        }
        forecast.look_at_later(ks, Some(execution))?;
        Ok(forecast.first.0)
    }
}
