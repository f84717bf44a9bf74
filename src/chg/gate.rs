//! Gates that several groups share because their hosts belong to one server or operator. While a
//! worker fetches from one of the groups, and during the pause after the fetch, the frontier does
//! not lease any other group of the gate.
//!
//! A gate is the hash `chg_gate:<name>` with these fields:
//!
//! - `n`: the time when the gate opens
//! - `p`: the end of the longest pause
//! - `l:<group>`: the deadline of a lease on this group
//! - `w`: the representative, that is, the group that waits in `chg_wait` on behalf of all groups
//!   of the gate
//!
//! `n` is computed from `p` and the deadlines. The other groups wait in the list
//! `chg_gated:<name>`. Therefore opening the gate moves only one group, not thousands.

use super::error::Result;
use super::gates::{FIRST, LEASED, OPENS, PAUSES, put_number};
use super::groups::Loaded;
use super::keys::{GATE, GATED};
use super::placing::Placing;
use super::store::{Store, field_number};
use super::time::Millis;

/// Fraction of a score that sorts a group after all other groups with the same due millisecond.
const LAST: f64 = 0.999;
/// Maximum number of groups behind a gate that are examined for a representative. If no examined
/// group qualifies, the next group becomes the representative anyway, and the search continues when
/// that group is due.
const LOOKED_AT: usize = 1000;
/// Maximum number of entries of a gate's list that are searched when a group is removed from the
/// gate.
const MAX_SEARCHED: u64 = 1000;

impl<K: Store> Placing<'_, K> {
    /// Updates a gate after the leases on one of its groups changed. Stores the last deadline of
    /// the group, if the group is leased, and the end of the group's pause. The gate stays closed
    /// while any of its groups is leased, and until the pauses of all of its groups have ended.
    /// Meanwhile, the representative waits in `chg_wait` for all due groups of the gate.
    pub(super) fn update_gate(
        &mut self,
        ks: &mut K,
        gate: &[u8],
        loaded: &mut Loaded<K>,
        pause: Millis,
    ) -> Result<()> {
        let key = self.keys.key(ks, GATE, gate);
        let leased = if loaded.group.options.gate == gate {
            loaded.group.last_deadline()
        } else {
            None // the group has left the gate
        };
        let field = [LEASED, &loaded.id].concat();
        match leased {
            Some(deadline) => put_number(ks, &key, &field, deadline)?,
            None => drop(ks.hash_del(&key, &field)?),
        }
        let pause = pause.max(field_number(ks, &key, PAUSES)?);
        put_number(ks, &key, PAUSES, pause)?;
        let until = self.gates.deadlines(ks, &key)?.max(pause);
        put_number(ks, &key, OPENS, until)?;
        let first = self.gates.representative(ks, &key)?;
        let is_own = first
            .as_ref()
            .is_some_and(|id| id.as_ref() == &loaded.id[..]);
        if let Some(first) = first.filter(|_| !is_own)
            && let Some(mut first) = self.groups.load_sound(ks, first.as_ref())?
            && self.wait_for_gate(ks, &mut first, until)?
        {
            return Ok(());
        }
        self.promote(ks, gate, loaded, until)?;
        if is_own {
            // The group was queued with the previous opening time of the gate. From now on, the
            // other groups take precedence over it.
            loaded.group.due = self.groups.due_of(ks, loaded)?.max(until);
            self.queues
                .wait(ks, &loaded.id, loaded.group.due as f64 + LAST)?;
        }
        Ok(())
    }

    /// Reads the keys of a gate before the first write, so that a command cannot fail halfway.
    ///
    /// # Errors
    /// `WRONGTYPE`.
    pub(super) fn check_gate(&mut self, ks: &mut K, gate: &[u8]) -> Result<()> {
        if gate.is_empty() {
            return Ok(());
        }
        let key = self.keys.key(ks, GATE, gate);
        let gated = self.keys.key(ks, GATED, gate);
        ks.list_len(&gated)?;
        let next = ks.list_get(&gated, 0)?;
        for id in [self.gates.representative(ks, &key)?, next]
            .into_iter()
            .flatten()
        {
            if let Some(loaded) = self.groups.load_sound(ks, id.as_ref())? {
                self.groups.due_of(ks, &loaded)?;
            }
        }
        Ok(())
    }

    /// Queues a group that is in no queue and is held back only by its gate: the group becomes the
    /// representative of the gate, or joins the gate's list. A group that is not yet due when the
    /// gate opens waits in `chg_wait` separately.
    pub(super) fn wait_behind_gate(
        &mut self,
        ks: &mut K,
        loaded: &mut Loaded<K>,
        until: Millis,
    ) -> Result<()> {
        let gate = loaded.group.options.gate.clone();
        let key = self.keys.key(ks, GATE, &gate);
        let first = self.gates.representative(ks, &key)?;
        let others = first.is_some_and(|first| first.as_ref() != &loaded.id[..]);
        if others && self.groups.due_of(ks, loaded)? <= until {
            let gated = self.keys.key(ks, GATED, &gate);
            ks.list_push(&gated, &loaded.id)?;
            ks.number_add(&self.keys.once.gated, 1)?;
            loaded.group.due = until;
            return Ok(());
        }
        if self.wait_for_gate(ks, loaded, until)? && !others {
            ks.hash_set(&key, FIRST, &loaded.id)?;
        }
        Ok(())
    }

    /// Queues a group from which a worker has just fetched, after all other groups of the gate.
    /// This includes due groups that no search has moved behind the gate yet.
    pub(super) fn wait_last_behind_gate(
        &mut self,
        ks: &mut K,
        loaded: &mut Loaded<K>,
        until: Millis,
    ) -> Result<()> {
        let key = self.keys.key(ks, GATE, &loaded.group.options.gate);
        if self.gates.representative(ks, &key)?.is_some() {
            return self.wait_behind_gate(ks, loaded, until);
        }
        loaded.group.due = self.groups.due_of(ks, loaded)?.max(until);
        self.queues
            .wait(ks, &loaded.id, loaded.group.due as f64 + LAST)
    }

    /// Puts a group into `chg_wait` until its gate opens, or until its due time if that is later.
    /// Returns true if the group is due as soon as the gate opens, so that it can represent other
    /// groups.
    fn wait_for_gate(&mut self, ks: &mut K, loaded: &mut Loaded<K>, until: Millis) -> Result<bool> {
        let own = self.groups.due_of(ks, loaded)?;
        let due = own.max(until);
        loaded.group.due = due;
        self.queues.wait(ks, &loaded.id, due as f64)?;
        self.save(ks, loaded)?;
        Ok(own <= until)
    }

    /// Makes the next group behind a gate its representative. The next group may be `own`, the
    /// group that the caller is changing; use `own` then, because its stored state is outdated.
    fn promote(
        &mut self,
        ks: &mut K,
        gate: &[u8],
        own: &mut Loaded<K>,
        until: Millis,
    ) -> Result<()> {
        let key = &self.keys.key(ks, GATE, gate);
        let gated = self.keys.key(ks, GATED, gate);
        for looked_at in 0.. {
            let Some(id) = ks.list_take(&gated, 0)? else {
                break;
            };
            ks.number_add(&self.keys.once.gated, -1)?;
            let is_own = id.as_ref() == &own.id[..];
            let mut other = if is_own {
                None
            } else {
                let Some(other) = self.groups.load_sound(ks, id.as_ref())? else {
                    continue;
                };
                Some(other)
            };
            let loaded = other.as_deref_mut().unwrap_or(own);
            let waits = ks.zset_score(&self.keys.once.wait, id.as_ref())?.is_some();
            let can_stand = loaded.group.is_runnable() && !waits;
            if !can_stand && (is_own || looked_at < LOOKED_AT) {
                continue;
            }
            if can_stand && loaded.group.options.gate != gate {
                self.wait_for_gate(ks, loaded, 0)?;
            } else if self.wait_for_gate(ks, loaded, until)? {
                ks.hash_set(key, FIRST, id.as_ref())?;
                return Ok(());
            }
        }
        ks.hash_del(key, FIRST)?;
        Ok(())
    }

    /// Makes the next group the representative of a gate if the given group is its representative.
    /// Returns true if the group was the representative.
    pub(super) fn replace_representative(
        &mut self,
        ks: &mut K,
        loaded: &mut Loaded<K>,
    ) -> Result<bool> {
        let gate = &loaded.group.options.gate.clone();
        if gate.is_empty() {
            return Ok(false);
        }
        let key = self.keys.key(ks, GATE, gate);
        let first = ks.hash_get(&key, FIRST)?;
        if first.is_none_or(|first| first.as_ref() != &loaded.id[..]) {
            return Ok(false);
        }
        let until = self.gates.closed_until(ks, gate)?;
        self.promote(ks, gate, loaded, until)?;
        Ok(true)
    }

    /// Removes a group from its gate. Returns true if the group was queued behind the gate and is
    /// in no queue now.
    pub(super) fn leave_gate(&mut self, ks: &mut K, loaded: &mut Loaded<K>) -> Result<bool> {
        if loaded.group.options.gate.is_empty() || self.replace_representative(ks, loaded)? {
            return Ok(false);
        }
        let gated = self.keys.key(ks, GATED, &loaded.group.options.gate);
        let len = ks.list_len(&gated)?.min(MAX_SEARCHED);
        for i in 0..len {
            let here = ks.list_get(&gated, i)?;
            if here.is_some_and(|id| id.as_ref() == &loaded.id[..]) {
                ks.list_take(&gated, i)?;
                ks.number_add(&self.keys.once.gated, -1)?;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::super::add::Queued;
    use super::super::frontier::Frontier;
    use super::super::hold::Limits;
    use super::super::lease::{Fate, ReleaseReply, When};
    use super::super::next::Ask;
    use super::*;
    use crate::chg::store::MemoryKeyspace;
    use crawlspace_host::keyspace::Keyspace;

    fn ask(lease: Millis) -> Ask<'static> {
        Ask {
            lease,
            uris: 1,
            gate: None,
            count: 1,
            execution: None,
            after: None,
        }
    }

    #[test]
    fn group_whose_release_promotes_itself_keeps_the_pause_of_that_release() {
        let ks = &mut MemoryKeyspace::default();
        let mut frontier = Frontier::open(ks, b"");
        let uris = |chg: &'static [u8], n| vec![Queued { chg, at: 1 }; n];
        frontier.add(ks, b"e", None, &uris(b"z", 1), 1).unwrap();
        frontier.add(ks, b"e", None, &uris(b"x", 4), 1).unwrap();
        let limits = Limits {
            parallel: Some(3),
            ..Limits::default()
        };
        frontier.limit(ks, b"x", &limits, 1).unwrap();
        let [long, short] = [60_000, 10_000].map(|lease| {
            let lease = frontier.next_of(ks, b"x", &ask(lease), 10).unwrap();
            lease.expect("three at a time").token
        });
        // Both groups wait for the gate, which their leases close: z waits in `chg_wait`, and x in
        // the gate's list.
        frontier.group(ks, b"g", &[b"z", b"x"], 20).unwrap();
        let mut leases = Vec::new();
        let all = &mut || true;
        frontier.next(ks, &ask(1000), 20, all, &mut leases).unwrap();
        assert!(leases.is_empty());
        let gated = frontier.keys.key(ks, GATED, b"g");
        assert_eq!(ks.list_get(&gated, 0), Ok(Some(b"x".to_vec())));
        // z cannot represent the gate any more, so the release of x makes x the representative.
        frontier.block(ks, b"z", 1_000_000, 30).unwrap();
        let done = Fate::Done {
            execution: b"e",
            count: None,
        };
        let at = When::Delay(0);
        for (token, now) in [(long, 40), (short, 50)] {
            let released = frontier.release(ks, b"x", token, &at, &done, now);
            assert_eq!(released, Ok(ReleaseReply::Released(now)));
        }
        let granted = frontier.next_of(ks, b"x", &ask(1000), 60).unwrap();
        assert!(granted.is_some());
    }
}
