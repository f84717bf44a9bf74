//! The search for the next group with a URI of a given execution.
//!
//! A packed frontier keeps an agenda of the groups that have URIs of such an execution (`packed/asked.rs`).
//! Therefore, a search does not examine groups that only have URIs of other executions.

use super::error::Result;
use super::frontier::Frontier;
use super::groups::Loaded;
use super::keys::GATED;
use super::next::{Ask, Lease, Search};
use super::placing::Placing;
use super::store::{Store, check_packed, with_packed};
use super::time::Millis;
use super::verdict::Judge;

impl<K: Store> Frontier<K> {
    /// Grants leases on URIs of an execution, as [`Frontier::next`] does. The group that could be leased earliest comes
    /// first.
    pub(super) fn next_for(
        &mut self,
        ks: &mut K,
        execution: &[u8],
        ask: &Ask<'_>,
        now: Millis,
        (time, leases): (&mut dyn FnMut() -> bool, &mut Vec<Lease>),
    ) -> Result<Search> {
        check_packed(ks)?;
        if self.pauses.read(ks)?.holds_back(execution) {
            return Ok(Search::Complete);
        }
        self.groups.write_back(ks, None)?;
        while !with_packed(ks, |packed| packed.prepare_for(execution, now))? {
            if !time() {
                return Ok(Search::Unfinished);
            }
        }
        while leases.len() < ask.count {
            let first = with_packed(ks, |packed| packed.first_for(execution))?;
            let Some((_, id)) = first.filter(|(at, _)| *at <= now) else {
                if self.end_some_later(ks, now)? {
                    continue;
                }
                break;
            };
            let mut loaded = self.groups.load(ks, &id)?;
            let ends = loaded.group.first_deadline();
            if ends.is_some_and(|deadline| deadline <= now) {
                self.end_expired_leases(ks, &mut loaded, now)?;
            } else if self.judge().has_due(ks, &loaded, execution, now)? {
                self.placing().take_from_anywhere(ks, &mut loaded)?;
                let execution = Some(execution.to_vec());
                leases.push(self.grant(ks, &mut loaded, execution, ask, now)?);
                continue;
            } else {
                with_packed(ks, |packed| packed.pass_over(execution, &id))?;
            }
            if !time() {
                return Ok(Search::Unfinished);
            }
        }
        Ok(Search::Complete)
    }

    /// Returns the time for the alarm if a client waits for a URI of an execution.
    ///
    /// # Errors
    /// `PLAIN` if the frontier is not packed.
    pub fn wake_for(&mut self, ks: &mut K, execution: &[u8]) -> Result<Option<Millis>> {
        if self.pauses.read(ks)?.holds_back(execution) {
            return Ok(None);
        }
        self.groups.write_back(ks, None)?;
        with_packed(ks, |packed| packed.waits_for(execution))
    }
}

impl<K: Store> Judge<'_, K> {
    /// Returns true if a group can be leased now for an execution.
    pub(super) fn has_due(
        &self,
        ks: &mut K,
        loaded: &Loaded<K>,
        execution: &[u8],
        now: Millis,
    ) -> Result<bool> {
        let kept = self
            .groups
            .kept(ks, loaded, |uris| uris.due_for(execution))?;
        let (queued, _) = kept.unwrap_or_default();
        let from = loaded.group.leasable_from(queued, false);
        if !loaded.group.is_runnable() || queued.is_none() || from.is_none_or(|from| from > now) {
            return Ok(false);
        }
        if self.reached(ks, loaded)?.has(execution) {
            return Ok(false);
        }
        let gate = &loaded.group.options.gate;
        Ok(gate.is_empty() || self.gates.closed_until(ks, gate)? <= now)
    }
}

impl<K: Store> Placing<'_, K> {
    /// Removes a group that can be leased from its queue.
    pub(super) fn take_from_anywhere(&mut self, ks: &mut K, loaded: &mut Loaded<K>) -> Result<()> {
        if self.queues.leave_wait(ks, &loaded.id)? {
            return Ok(());
        }
        if let Some(at) = ks.list_find(&self.keys.once.ready, &loaded.id)? {
            return self.queues.take_ready(ks, at);
        }
        if !loaded.group.options.gate.is_empty() {
            let gated = self.keys.key(ks, GATED, &loaded.group.options.gate);
            if let Some(at) = ks.list_find(&gated, &loaded.id)? {
                ks.list_take(&gated, at)?;
                ks.number_add(&self.keys.once.gated, -1)?;
            }
        }
        Ok(())
    }
}
