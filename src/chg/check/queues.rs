//! Where groups stand: each that has something queued in one queue, and nothing else in any.

use crawlspace_host::keyspace::Batch;
use crawlspace_host::text::Shown;

use super::super::error::Result;
use super::super::frontier::{Frontier, Loaded};
use super::super::group::Group;
use super::super::store::Store;
use super::{Check, PAGE};

impl<K: Store> Check<K> {
    /// Looks where a group stands.
    pub(super) fn place(
        &mut self,
        frontier: &mut Frontier<K>,
        ks: &mut K,
        loaded: &Loaded<K>,
    ) -> Result<()> {
        let group = &loaded.group;
        if !group.known {
            return Ok(());
        }
        let waits = ks.zset_score(&frontier.names.wait, &loaded.id)?.is_some();
        let busy = ks.zset_score(&frontier.names.busy, &loaded.id)?.is_some();
        let shown = Shown(&loaded.id);
        if group.is_idle() {
            if group.ours && waits {
                self.problem(|| format!("group '{shown}' waits, but has nothing queued"));
                if self.repairs {
                    frontier.leave_wait(ks, &loaded.id)?;
                    self.mended += 1;
                }
            }
            return Ok(());
        }
        let leased = !group.holds.is_empty();
        if leased && !busy {
            self.problem(|| format!("group '{shown}' is leased, but not in chg_busy"));
            if self.repairs {
                frontier.show_busy(ks, loaded)?;
                self.mended += 1;
            }
        }
        if waits && (leased || busy) && group.options.parallel == 1 {
            let other = if busy { "in chg_busy" } else { "leased" };
            self.problem(|| format!("group '{shown}' is {other} and in chg_wait"));
            if self.repairs {
                frontier.leave_wait(ks, &loaded.id)?;
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

    /// Looks at members of a queue that are no groups.
    pub(super) fn members(
        &mut self,
        frontier: &mut Frontier<K>,
        ks: &mut K,
        cursor: &mut K::Cursor,
        busy: bool,
    ) -> Result<bool> {
        let (queue, name) = if busy {
            (frontier.names.busy.clone(), "chg_busy")
        } else {
            (frontier.names.wait.clone(), "chg_wait")
        };
        let mut batch = Batch::default();
        let more = ks.zset_scan(&queue, cursor, &mut batch)?;
        for (id, _) in batch.iter() {
            let loaded = frontier.load_sound(ks, id)?;
            if loaded.is_some_and(|loaded| loaded.group.known)
                || ks.zset_score(&queue, id)?.is_none()
            {
                continue;
            }
            self.problem(|| format!("'{}' is in {name}, but the group does not exist", Shown(id)));
            if self.repairs {
                frontier.skipped = Default::default();
                ks.zset_del(&queue, id)?;
                self.mended += 1;
            }
        }
        Ok(more)
    }

    /// Crosses off those that stand in a list; how many there were on this page.
    pub(super) fn cross_off(&mut self, ks: &mut K, list: &K::Name, from: u64) -> Result<u64> {
        let mut batch = Batch::default();
        ks.list_range(list, from, PAGE, &mut batch)?;
        for (id, _) in batch.iter() {
            self.elsewhere.remove(id);
        }
        Ok(batch.len() as u64)
    }

    /// Checks a page of `chg_ready`: a group in it should stand in no other queue.
    pub(super) fn look_at_ready(
        &mut self,
        frontier: &mut Frontier<K>,
        ks: &mut K,
        from: u64,
    ) -> Result<u64> {
        let mut batch = Batch::default();
        ks.list_range(&frontier.names.ready, from, PAGE, &mut batch)?;
        let mut kept = 0;
        for (id, _) in batch.iter() {
            kept += 1;
            let expected = self.elsewhere.remove(id);
            if expected || self.was_changed(frontier, id) {
                continue;
            }
            let group = frontier
                .load_sound(ks, id)?
                .map_or_else(Group::default, |l| l.group);
            let waits = ks.zset_score(&frontier.names.wait, id)?.is_some();
            let busy = ks.zset_score(&frontier.names.busy, id)?.is_some();
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
                ks.list_take(&frontier.names.ready, from + kept)?;
                frontier.skipped = Default::default();
                self.mended += 1;
            }
        }
        // How far the walk is now, of those that are left; nothing at the end.
        Ok(if batch.is_empty() { 0 } else { kept.max(1) })
    }

    /// Those that stand nowhere, unless something happened to them since they were looked at.
    pub(super) fn lost(&mut self, frontier: &mut Frontier<K>, ks: &mut K) -> Result<bool> {
        let Some(id) = self.elsewhere.pop_first() else {
            return Ok(false);
        };
        if self.was_changed(frontier, &id) {
            return Ok(true);
        }
        let mut loaded = frontier.load(ks, &id)?;
        let stands = ks.zset_score(&frontier.names.wait, &id)?.is_some()
            || ks.zset_score(&frontier.names.busy, &id)?.is_some()
                && loaded.group.options.parallel == 1
            || ks.zset_score(&frontier.names.idle, &id)?.is_some();
        if stands || !loaded.group.is_runnable() {
            return Ok(true);
        }
        let uris = loaded.group.uris;
        self.problem(|| {
            format!(
                "group '{}' has {uris} URIs queued, but is in none of the queues",
                Shown(&id)
            )
        });
        if self.repairs {
            let due = frontier.due_of(ks, &loaded)?.max(self.now);
            frontier.queue(ks, &mut loaded, due, self.now)?;
            frontier.save(ks, &loaded)?;
            self.mended += 1;
        }
        Ok(true)
    }
}
