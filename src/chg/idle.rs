//! Groups with nothing queued and nothing held. They stand in none of the documented queues; their
//! hash stays until the politeness gate has passed, so that a URI that comes a moment after the last one
//! was fetched still waits.

use super::error::Result;
use super::frontier::Frontier;
use super::group::{Group, Options};
use super::groups::Loaded;
use super::store::Store;
use super::time::{Millis, of_score};

/// Maximum number of idle groups that one command deletes beside its own work.
const MAX_TIDIED: usize = 4;

impl<K: Store> Frontier<K> {
    /// Lays a group to rest that may have nothing queued and nothing held any more.
    pub(super) fn rest(&mut self, ks: &mut K, loaded: &mut Loaded<K>, now: Millis) -> Result<()> {
        if loaded.group.is_idle() && self.lay_to_rest(ks, loaded, now)? {
            self.save(ks, loaded)?;
        }
        Ok(())
    }

    /// Lays an idle group to rest; false when its gate has passed, so that its hash went. One that stays
    /// is the caller's to save.
    pub(super) fn lay_to_rest(
        &mut self,
        ks: &mut K,
        loaded: &mut Loaded<K>,
        now: Millis,
    ) -> Result<bool> {
        self.hand_over(ks, loaded)?;
        let until = loaded.group.gate;
        loaded.group.due = until;
        if until <= now {
            self.end(ks, loaded)?;
            ks.zset_del(&self.keys.once.idle, &loaded.id)?;
            return Ok(false);
        }
        ks.zset_add(&self.keys.once.idle, &loaded.id, until as f64)?;
        self.first_idle.add(until);
        Ok(true)
    }

    /// Shows a group that is to be deleted by now as deleted, to commands that only read.
    pub(super) fn see_as_deleted(
        &self,
        ks: &mut K,
        loaded: &mut Loaded<K>,
        now: Millis,
    ) -> Result<()> {
        if !loaded.group.is_idle() {
            return Ok(());
        }
        let until = ks.zset_score(&self.keys.once.idle, &loaded.id)?;
        if until.is_some_and(|until| of_score(until) <= now) {
            let options = std::mem::take(&mut loaded.group.options);
            loaded.group = Group {
                known: options != Options::default(),
                options,
                ..Group::default()
            };
        }
        Ok(())
    }

    /// Deletes a group, and keeps its last release.
    fn end(&mut self, ks: &mut K, loaded: &Loaded<K>) -> Result<()> {
        if let Some(last) = loaded.group.last {
            self.past.keep_last(ks, loaded, last)?;
        }
        self.delete_group(ks, loaded)
    }

    /// When the first idle group is to be deleted.
    pub(super) fn next_idle(&mut self, ks: &mut K) -> Result<Option<Millis>> {
        self.first_idle.at(ks, &self.keys.once.idle)
    }

    /// Deletes idle groups whose gate has passed, at most `MAX_TIDIED` at a time. One that a plain client
    /// queued URIs for meanwhile starts to wait: its client saw that the group was known, and did not
    /// queue it.
    pub(super) fn tidy(&mut self, ks: &mut K, now: Millis) -> Result<()> {
        self.drops.unmark_over(ks, now)?;
        for _ in 0..MAX_TIDIED {
            let Some((id, _)) = self.first_idle.due(ks, &self.keys.once.idle, now)? else {
                return Ok(());
            };
            self.first_idle.invalidate();
            let mut loaded = self.groups.load(ks, id.as_ref())?;
            ks.zset_del(&self.keys.once.idle, id.as_ref())?;
            if loaded.group.is_idle() {
                self.end(ks, &loaded)?;
            } else if loaded.group.is_runnable() {
                self.adopt(ks, &mut loaded)?;
            }
        }
        Ok(())
    }

    /// Queues a group that plain clients queued URIs for while it was idle, or that they deleted while
    /// URIs are kept for it.
    ///
    /// # Errors
    /// `WRONGTYPE` when a key holds another type; or when the server refuses.
    pub fn adopt_if_idle(&mut self, ks: &mut K, id: &[u8], now: Millis) -> Result<()> {
        let mut loaded = self.groups.load(ks, id)?;
        let busy = ks.zset_score(&self.keys.once.busy, id)?.is_some();
        if loaded.missing.get() > 0 && !busy {
            self.first_idle.invalidate();
            return self.reclaim(ks, &mut loaded, now);
        }
        if loaded.group.is_runnable() && ks.zset_del(&self.keys.once.idle, id)? {
            self.first_idle.invalidate();
            self.adopt(ks, &mut loaded)?;
        }
        Ok(())
    }

    fn adopt(&mut self, ks: &mut K, loaded: &mut Loaded<K>) -> Result<()> {
        if ks.zset_score(&self.keys.once.wait, &loaded.id)?.is_some() {
            return Ok(());
        }
        loaded.group.due = loaded.group.closed_until();
        self.queues.wait(ks, &loaded.id, loaded.group.due as f64)?;
        self.save(ks, loaded)
    }
}
