//! Idle groups: groups that have neither queued URIs nor leases, and are in none of the documented
//! queues. The frontier keeps the hash of an idle group until the politeness pause has ended.
//! Therefore, a URI that arrives shortly after the last fetch has to wait for the end of the pause.

use super::error::Result;
use super::frontier::Frontier;
use super::groups::Loaded;
use super::placing::Placing;
use super::store::Store;
use super::time::Millis;

/// Maximum number of idle groups that one command deletes in addition to its own work.
const MAX_EVICTED: usize = 4;

impl<K: Store> Placing<'_, K> {
    /// Makes a group idle if it has no queued URIs and no leases.
    pub(super) fn retire_if_idle(
        &mut self,
        ks: &mut K,
        loaded: &mut Loaded<K>,
        now: Millis,
    ) -> Result<()> {
        if loaded.group.is_idle() && self.retire(ks, loaded, now)? {
            self.save(ks, loaded)?;
        }
        Ok(())
    }

    /// Makes a group idle. Returns false if the pause of the group has already ended; its hash is
    /// then deleted. Otherwise, the caller must save the group.
    pub(super) fn retire(
        &mut self,
        ks: &mut K,
        loaded: &mut Loaded<K>,
        now: Millis,
    ) -> Result<bool> {
        self.replace_representative(ks, loaded)?;
        let until = loaded.group.gate;
        loaded.group.due = until;
        if until <= now {
            self.delete_group(ks, loaded)?;
            ks.zset_del(&self.keys.once.idle, &loaded.id)?;
            return Ok(false);
        }
        ks.zset_add(&self.keys.once.idle, &loaded.id, until as f64)?;
        self.first_idle.add(until);
        Ok(true)
    }

    fn requeue(&mut self, ks: &mut K, loaded: &mut Loaded<K>) -> Result<()> {
        if ks.zset_score(&self.keys.once.wait, &loaded.id)?.is_some() {
            return Ok(());
        }
        loaded.group.due = loaded.group.closed_until();
        self.queues.wait(ks, &loaded.id, loaded.group.due as f64)?;
        self.save(ks, loaded)
    }
}

impl<K: Store> Frontier<K> {
    /// Returns the time when the first idle group is to be deleted.
    pub(super) fn next_idle(&mut self, ks: &mut K) -> Result<Option<Millis>> {
        self.first_idle.at(ks, &self.keys.once.idle)
    }

    /// Deletes idle groups whose pause has ended, at most `MAX_EVICTED` per call. If a plain client
    /// has added URIs to such a group, puts the group into `chg_wait` instead, because plain
    /// clients do not queue groups that already exist.
    pub(super) fn evict_idle(&mut self, ks: &mut K, now: Millis) -> Result<()> {
        ks.packed(|packed| packed.set_clock(now))?;
        self.drops.unmark_over(ks, now)?;
        self.end_some_later(ks, now)?;
        for _ in 0..MAX_EVICTED {
            let Some((id, _)) = self.first_idle.due(ks, &self.keys.once.idle, now)? else {
                return Ok(());
            };
            self.first_idle.invalidate();
            let mut loaded = self.groups.load(ks, id.as_ref())?;
            ks.zset_del(&self.keys.once.idle, id.as_ref())?;
            if loaded.group.is_idle() {
                self.placing().delete_group(ks, &loaded)?;
            } else if loaded.group.is_runnable() {
                self.placing().requeue(ks, &mut loaded)?;
            }
        }
        Ok(())
    }

    /// Queues a group if plain clients queued URIs for it while it was idle, or deleted its hash
    /// although the frontier stores URIs of it.
    ///
    /// # Errors
    /// `WRONGTYPE` if a key holds another type; any server error.
    pub fn requeue_if_idle(&mut self, ks: &mut K, id: &[u8], now: Millis) -> Result<()> {
        let mut loaded = self.groups.load(ks, id)?;
        let busy = ks.zset_score(&self.keys.once.busy, id)?.is_some();
        if loaded.missing.get() > 0 && !busy {
            self.first_idle.invalidate();
            return self.placing().reclaim(ks, &mut loaded, now);
        }
        if loaded.group.is_runnable() && ks.zset_del(&self.keys.once.idle, id)? {
            self.first_idle.invalidate();
            self.placing().requeue(ks, &mut loaded)?;
        }
        Ok(())
    }

    /// Returns the time for the alarm: the earliest time at which a lease may be granted or a group
    /// must be deleted.
    ///
    /// # Errors
    /// `WRONGTYPE` if a key holds another type; any server error.
    pub fn wake_at(&mut self, ks: &mut K, now: Millis) -> Result<Option<Millis>> {
        let idle = self.next_idle(ks)?;
        let later = self.later.first_deadline(ks)?;
        let idle = [idle, later].into_iter().flatten().min();
        if self.pauses.read(ks)?.all {
            return Ok(idle);
        }
        let search = self.queues.wake_at(ks, now)?;
        Ok([idle, search].into_iter().flatten().min())
    }
}
