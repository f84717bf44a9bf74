//! Checks the queues: each group with queued URIs is in exactly one queue, and queues have no other
//! members.

use crawlspace_host::keyspace::Batch;
use crawlspace_host::text::Shown;

use super::super::error::Result;
use super::super::frontier::Frontier;
use super::super::group::Group;
use super::super::groups::Loaded;
use super::super::job::{Lent, Scan};
use super::super::keys::GATED;
use super::super::store::Store;
use super::{Check, PAGE};

impl Check {
    /// Checks the queue of a group.
    pub(super) fn place<K: Store>(
        &mut self,
        frontier: &mut Frontier<K>,
        ks: &mut K,
        loaded: &Loaded<K>,
    ) -> Result<()> {
        let group = &loaded.group;
        if !group.known {
            return Ok(());
        }
        let waits = ks
            .zset_score(&frontier.keys.once.wait, &loaded.id)?
            .is_some();
        let busy = ks
            .zset_score(&frontier.keys.once.busy, &loaded.id)?
            .is_some();
        let shown = Shown(&loaded.id);
        if group.is_idle() {
            if group.ours && waits {
                self.problem(|| format!("group '{shown}' is in chg_wait, but has no queued URIs"));
                if self.repairs {
                    frontier.queues.leave_wait(ks, &loaded.id)?;
                    self.mended += 1;
                }
            }
            return Ok(());
        }
        let leased = !group.holds.is_empty();
        if leased && !busy {
            self.problem(|| format!("group '{shown}' is leased, but not in chg_busy"));
            if self.repairs {
                frontier.queues.show_busy(ks, loaded)?;
                self.mended += 1;
            }
        }
        if waits && (leased || busy) && group.options.parallel == 1 {
            let other = if busy { "in chg_busy" } else { "leased" };
            self.problem(|| format!("group '{shown}' is {other} and in chg_wait"));
            if self.repairs {
                frontier.queues.leave_wait(ks, &loaded.id)?;
                self.mended += 1;
            }
        }
        if !group.options.gate.is_empty() {
            self.gates.insert(group.options.gate[..].into());
        }
        let held_by_others = busy && group.holds.is_empty();
        if group.is_runnable() && !waits && !held_by_others {
            self.elsewhere.insert(loaded.id[..].into());
        }
        Ok(())
    }

    /// Finds members of queues that are not groups.
    pub(super) async fn look_for_strangers<K: Store>(&mut self, lent: &Lent<K>) -> Result<()> {
        let wait = lent.with(|frontier, _| frontier.keys.once.wait.clone());
        let busy = lent.with(|frontier, _| frontier.keys.once.busy.clone());
        for (name, queue) in [("chg_wait", wait), ("chg_busy", busy)] {
            let mut members = Scan::sorted_set(lent, queue.clone());
            while let Some(batch) = members.next().await? {
                for (id, _) in batch.iter() {
                    lent.with(|frontier, ks| self.member(frontier, ks, (name, &queue), id))?;
                    lent.pause().await;
                }
            }
        }
        Ok(())
    }

    /// Checks that a member of a queue is a group.
    fn member<K: Store>(
        &mut self,
        frontier: &mut Frontier<K>,
        ks: &mut K,
        (name, queue): (&str, &K::Name),
        id: &[u8],
    ) -> Result<()> {
        let loaded = frontier.groups.load_sound(ks, id)?;
        if loaded.is_some_and(|loaded| loaded.group.known) || ks.zset_score(queue, id)?.is_none() {
            return Ok(());
        }
        self.problem(|| format!("'{}' is in {name}, but the group does not exist", Shown(id)));
        if self.repairs {
            frontier.queues.search_from_head();
            ks.zset_del(queue, id)?;
            self.mended += 1;
        }
        Ok(())
    }

    /// Checks `chg_ready`. Other clients may take groups from the head of `chg_ready` during the
    /// check.
    pub(super) async fn look_at_ready<K: Store>(&mut self, lent: &Lent<K>) -> Result<()> {
        // The position relative to the head of the list when the check began.
        let mut at = 0;
        loop {
            let n = lent.with(|frontier, ks| {
                let taken = self.audit(frontier).map_or(0, |audit| audit.taken);
                at = taken.max(at);
                self.ready_page(frontier, ks, at - taken)
            })?;
            at += n;
            if n == 0 {
                return Ok(());
            }
            lent.pause().await;
        }
    }

    /// Checks a page of `chg_ready`. Groups in `chg_ready` must not be in any other queue.
    fn ready_page<K: Store>(
        &mut self,
        frontier: &mut Frontier<K>,
        ks: &mut K,
        from: u64,
    ) -> Result<u64> {
        let mut batch = Batch::default();
        ks.list_range(&frontier.keys.once.ready, from, PAGE as u64, &mut batch)?;
        let mut kept = 0;
        for (id, _) in batch.iter() {
            kept += 1;
            let expected = self.elsewhere.remove(id);
            if expected || self.was_changed(frontier, id) {
                continue;
            }
            let group = frontier
                .groups
                .load_sound(ks, id)?
                .map_or_else(Group::default, |l| l.group);
            let waits = ks.zset_score(&frontier.keys.once.wait, id)?.is_some();
            let busy = ks.zset_score(&frontier.keys.once.busy, id)?.is_some();
            let shown = Shown(id);
            if !group.known {
                self.problem(|| format!("'{shown}' is in chg_ready, but the group does not exist"));
            } else if waits || (busy && group.options.parallel == 1) {
                let other = if waits { "chg_wait" } else { "chg_busy" };
                self.problem(|| format!("group '{shown}' is in chg_ready and in {other}"));
            } else if group.is_idle() {
                continue;
            } else {
                self.problem(|| format!("group '{shown}' is in chg_ready more than once"));
            }
            if self.repairs {
                kept -= 1;
                ks.list_take(&frontier.keys.once.ready, from + kept)?;
                frontier.queues.search_from_head();
                self.mended += 1;
            }
        }
        // Return the number of processed entries that are still in the list; 0 at the end.
        Ok(if batch.is_empty() { 0 } else { kept.max(1) })
    }

    /// Marks the groups that are waiting behind gates as found.
    pub(super) async fn look_behind_gates<K: Store>(&mut self, lent: &Lent<K>) -> Result<()> {
        while let Some(gate) = self.gates.pop_first() {
            let gated = lent.with(|frontier, ks| frontier.keys.key(ks, GATED, &gate));
            let mut batch = Batch::default();
            for page in 0.. {
                let from = page * PAGE as u64;
                lent.with(|_, ks| ks.list_range(&gated, from, PAGE as u64, &mut batch))?;
                if batch.is_empty() {
                    break;
                }
                for (id, _) in batch.iter() {
                    self.elsewhere.remove(id);
                }
                batch.clear();
                lent.pause().await;
            }
        }
        Ok(())
    }

    /// Finds groups that are in no queue.
    pub(super) async fn look_for_lost<K: Store>(&mut self, lent: &Lent<K>) -> Result<()> {
        while let Some(id) = self.elsewhere.pop_first() {
            lent.with(|frontier, ks| self.lost(frontier, ks, &id))?;
            lent.pause().await;
        }
        Ok(())
    }

    /// Queues a group that is in no queue, unless the group has changed since it was checked.
    fn lost<K: Store>(&mut self, frontier: &mut Frontier<K>, ks: &mut K, id: &[u8]) -> Result<()> {
        if self.was_changed(frontier, id) {
            return Ok(());
        }
        let mut loaded = frontier.groups.load(ks, id)?;
        let stands = ks.zset_score(&frontier.keys.once.wait, id)?.is_some()
            || ks.zset_score(&frontier.keys.once.busy, id)?.is_some()
                && loaded.group.options.parallel == 1
            || ks.zset_score(&frontier.keys.once.idle, id)?.is_some();
        if stands || !loaded.group.is_runnable() {
            return Ok(());
        }
        let uris = loaded.group.uris;
        self.problem(|| {
            format!(
                "group '{}' has {uris} URIs queued, but is in none of the queues",
                Shown(id)
            )
        });
        if self.repairs {
            let due = frontier.groups.due_of(ks, &loaded)?.max(self.now);
            frontier.queues.queue(ks, &mut loaded, due, self.now)?;
            frontier.placing().save(ks, &loaded)?;
            self.mended += 1;
        }
        Ok(())
    }
}
