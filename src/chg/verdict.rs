//! Decides how a search handles a group at the head of a queue: the search leases, skips, parks or
//! removes the group, or moves it behind its gate. This module does not write to keys.

use super::Token;
use super::error::Result;
use super::gates::Gates;
use super::group::Group;
use super::groups::{Groups, Loaded};
use super::known::Reached;
use super::ledger::Ledger;
use super::pauses::Paused;
use super::store::Store;
use super::time::Millis;
use super::uris::Kept;

/// The decision of a search about a candidate.
pub(super) enum Verdict {
    /// Lease the group, and the next URI of this execution if the frontier stores URIs of the
    /// group.
    Lease(Option<Vec<u8>>),
    /// Move the group to `chg_wait`, because it is not due before this time.
    Park(Millis),
    /// Skip the group, which is paused and keeps its position. Contains the time when a URI of an
    /// unpaused execution becomes due.
    Pass(Option<Millis>),
    /// Move the group behind its shared gate, which is closed until this time.
    Gate(Millis),
    /// Remove the group from the queue, to which it does not belong.
    Remove,
}

/// The predicted decision of a search about a group that it does not lease.
pub(super) struct Foreseen {
    /// True if the search would do more than skip the group.
    pub returns: bool,
    /// Time when a URI of an unpaused execution becomes due.
    pub later: Option<Millis>,
}

impl Foreseen {
    const RETURN: Foreseen = Foreseen {
        returns: true,
        later: None,
    };
}

/// The parts of a frontier that a verdict reads.
pub(super) struct Judge<'a, K: Store> {
    pub groups: &'a Groups<K>,
    pub gates: &'a Gates<K>,
    pub ledger: &'a Ledger<K>,
}

impl<K: Store> Judge<'_, K> {
    /// Decides how to handle a candidate, considering everything that can hold the group back. If only paused URIs of
    /// a group are due, the group keeps its position, even if a block or a gate also holds it back.
    pub(super) fn verdict(
        &self,
        ks: &mut K,
        loaded: &Loaded<K>,
        paused: &Paused,
        now: Millis,
    ) -> Result<Verdict> {
        let group = &loaded.group;
        let held = group.holds.len() as u64;
        // Plain clients may queue a group that has no hash or no count.
        let from_outside = !group.ours && group.uris == 0;
        if held >= group.options.parallel || (group.uris <= held + group.away && !from_outside) {
            return Ok(Verdict::Remove);
        }
        if group.options.paused {
            return Ok(Verdict::Pass(None));
        }
        let by_uris = self.by_uris(ks, loaded, paused, now)?;
        if matches!(by_uris, Verdict::Pass(_)) {
            return Ok(by_uris);
        }
        let closed = group.closed_until();
        // If only plain clients have written to a group, the group is ready as soon as they queue
        // it.
        if closed > now && (group.ours || group.options.blocked > now) {
            return Ok(Verdict::Park(closed));
        }
        if !group.options.gate.is_empty() {
            let until = self.gates.closed_until(ks, &group.options.gate)?;
            if until > now {
                return Ok(Verdict::Gate(until));
            }
        }
        Ok(by_uris)
    }

    /// Checks the URIs of a group. Returns true if one of them can be leased.
    pub(super) fn by_uris(
        &self,
        ks: &mut K,
        loaded: &Loaded<K>,
        paused: &Paused,
        now: Millis,
    ) -> Result<Verdict> {
        let group = &loaded.group;
        let from_outside = !group.ours && group.uris == 0;
        let reached = self.reached(ks, loaded)?;
        let is_out = |execution: &[u8]| paused.has(execution) || reached.has(execution);
        let kept = self.groups.kept(ks, loaded, |uris| {
            let next = uris.pick(now, &is_out);
            match next {
                Some(next) => Err(next.to_vec()),
                None => Ok((
                    uris.earliest(),
                    uris.earliest_of(&is_out),
                    uris.len(),
                    held_in(group, uris),
                )),
            }
        })?;
        let (earliest, unpaused, kept, kept_held) = match kept {
            Some(Err(next)) => return Ok(Verdict::Lease(Some(next))),
            Some(Ok(held_back)) => held_back,
            None => (None, None, 0, 0),
        };
        let (all_free, counted) = free(loaded, kept, kept_held);
        let mut free = all_free;
        if free > 0 && !paused.executions.is_empty() {
            free = self.unpaused(ks, loaded, paused, counted)?.min(free);
        }
        if free > 0 || from_outside {
            return Ok(Verdict::Lease(None));
        }
        Ok(match earliest {
            Some(earliest) if earliest > now && all_free == 0 => Verdict::Park(earliest),
            _ => Verdict::Pass(unpaused),
        })
    }

    /// Returns the time from which a group can be leased, according to its URIs, its pause and its gates.
    /// Also returns the time from which the group's next URI can be leased after the first lease has
    /// expired, without the URIs of leases that have freed the group. If an execution is given, considers
    /// only the URIs of this execution. Returns `None` if no URI can be leased because the group is blocked,
    /// paused, or has no such URI.
    pub(super) fn leasable_from(
        &self,
        ks: &mut K,
        loaded: &Loaded<K>,
        paused: &Paused,
        only: Option<&[u8]>,
        now: Millis,
    ) -> Result<(Option<Millis>, Option<Millis>)> {
        let group = &loaded.group;
        if group.options.paused || group.options.blocked > now {
            return Ok((None, None));
        }
        let reached = self.reached(ks, loaded)?;
        let is_out =
            |id: &[u8]| paused.has(id) || reached.has(id) || only.is_some_and(|only| *only != *id);
        let kept = self.groups.kept(ks, loaded, |uris| {
            let mut leases = uris.leases();
            let returns = leases.any(|leased| {
                let holds = || group.holds.iter().any(|hold| hold.token == leased.token);
                !leased.dropped && !is_out(leased.execution) && holds()
            });
            let held = held_in(group, uris);
            (uris.earliest_of(&is_out), returns, uris.len(), held)
        })?;
        let (earliest, returns, kept, kept_held) = kept.unwrap_or((None, false, 0, 0));
        let (free, counted) = free(loaded, kept, kept_held);
        let unpaused = match only {
            _ if counted == 0 => 0,
            Some(execution) => self.ledger.counted(ks, &loaded.key, execution)?,
            None if paused.executions.is_empty() => counted,
            None => self.unpaused(ks, loaded, paused, counted)?,
        };
        let from_outside = !group.ours && group.uris == 0 && only.is_none();
        let held = group.holds.len() as u64;
        let is_full = held >= group.options.parallel || (group.uris <= held && !from_outside);
        let opens = self.gates.opens(ks, loaded)?;
        // If only plain clients have written to a group, the group is ready as soon as they queue
        // it.
        let pause = if group.ours { group.gate } else { 0 };
        let first = if free.min(unpaused) > 0 || from_outside {
            Some(0)
        } else {
            earliest
        };
        let ready = first.filter(|_| !is_full);
        let later = if returns || unpaused > 0 {
            Some(0)
        } else {
            earliest
        };
        let from = |due: Millis| due.max(pause).max(opens).max(now);
        Ok((ready.map(from), later.map(from)))
    }

    /// Returns the time from which the URIs of a lease that has freed its group can be leased again once its second
    /// deadline has passed. Returns `None` if no URI of the lease could be leased then.
    pub(super) fn returns_from(
        &self,
        ks: &mut K,
        (loaded, token): (&Loaded<K>, Token),
        paused: &Paused,
        only: Option<&[u8]>,
        now: Millis,
    ) -> Result<Option<Millis>> {
        let group = &loaded.group;
        if group.options.paused || group.options.blocked > now {
            return Ok(None);
        }
        let reached = self.reached(ks, loaded)?;
        let returns = self.groups.kept(ks, loaded, |uris| {
            let mut leases = uris.leased_under(token);
            leases.any(|leased| {
                let id = leased.execution;
                let is_out = paused.has(id) || reached.has(id);
                !leased.dropped && !is_out && only.is_none_or(|only| only == id)
            })
        })?;
        if returns != Some(true) {
            return Ok(None);
        }
        let is_full = group.holds.len() as u64 >= group.options.parallel;
        let ends = group.first_deadline().filter(|_| is_full).unwrap_or(0);
        let opens = self.gates.opens(ks, loaded)?;
        Ok(Some(group.gate.max(ends).max(opens)))
    }

    /// Returns the number of counted URIs of a group whose executions are not paused.
    pub(super) fn unpaused(
        &self,
        ks: &mut K,
        loaded: &Loaded<K>,
        paused: &Paused,
        counted: u64,
    ) -> Result<u64> {
        let mut left = counted;
        // Iterate over the smaller set: the paused executions, or the fields of the group.
        if (paused.executions.len() as u64) < ks.hash_len(&loaded.key)? {
            for execution in &paused.executions {
                left = left.saturating_sub(self.ledger.counted(ks, &loaded.key, execution)?);
            }
            return Ok(left);
        }
        for (execution, n) in self.ledger.counted_in(ks, &loaded.key)? {
            if paused.has(&execution) {
                left = left.saturating_sub(n);
            }
        }
        Ok(left)
    }

    /// Returns the executions that have reached their limit of done URLs in a group.
    pub(super) fn reached(&self, ks: &mut K, loaded: &Loaded<K>) -> Result<Reached> {
        let reached = ks.packed(|packed| packed.limits().reached(&loaded.id))?;
        Ok(reached.unwrap_or_default())
    }

    /// Returns true if a group keeps its position because the group is paused, or because the executions of all its
    /// due URIs are paused or have reached their limits.
    pub(super) fn is_paused(
        &self,
        ks: &mut K,
        loaded: &Loaded<K>,
        paused: &Paused,
        now: Millis,
    ) -> Result<bool> {
        if paused.executions.is_empty() && self.reached(ks, loaded)?.is_empty() {
            return Ok(loaded.group.options.paused);
        }
        let verdict = self.verdict(ks, loaded, paused, now)?;
        Ok(matches!(verdict, Verdict::Pass(_)))
    }

    /// Returns how a search would handle a group if these executions were paused. Returns `None` if
    /// the search would lease the group.
    pub(super) fn foresee(
        &self,
        ks: &mut K,
        id: &[u8],
        paused: &Paused,
        now: Millis,
    ) -> Result<Option<Foreseen>> {
        let Some(loaded) = self.groups.load_sound(ks, id)? else {
            return Ok(Some(Foreseen::RETURN));
        };
        Ok(match self.verdict(ks, &loaded, paused, now)? {
            _ if loaded.missing.get() > 0 => Some(Foreseen::RETURN),
            Verdict::Lease(_) => None,
            Verdict::Pass(later) if loaded.group.options.gate.is_empty() => Some(Foreseen {
                returns: false,
                later,
            }),
            // A search would also make the next group the representative of the shared gate.
            _ => Some(Foreseen::RETURN),
        })
    }

    /// Returns true if all URIs queued for a group belong to paused executions, or to executions that have reached their
    /// limit.
    pub(super) fn is_held_back(
        &self,
        ks: &mut K,
        loaded: &Loaded<K>,
        paused: &Paused,
        reached: &Reached,
    ) -> Result<bool> {
        if paused.executions.is_empty() && reached.is_empty() {
            return Ok(false);
        }
        let key = self.groups.uris_of(ks, loaded);
        let kept = ks.uris(key, |uris| {
            let mut executions = uris.executions();
            let is_free = |id: &[u8]| !paused.has(id) && !reached.has(id);
            let free = executions.any(|share| share.queued > 0 && is_free(share.id));
            (free, uris.len())
        })?;
        let (free, kept) = kept.unwrap_or((false, 0));
        let counted = loaded.group.uris.saturating_sub(kept);
        Ok(!free && self.unpaused(ks, loaded, paused, counted)? == 0)
    }
}

/// Returns the number of leases on a group that have stored URIs.
fn held_in(group: &Group, uris: &Kept<'_>) -> u64 {
    let tokens = group.holds.iter().map(|hold| hold.token);
    tokens.filter(|&token| uris.leased(token).is_some()).count() as u64
}

/// Returns how many URIs a group counts but does not store: first the number without leased URIs, then the
/// total. `kept` is the number of stored URIs of the group, and `kept_held` is the number of leases on
/// stored URIs.
fn free<K: Store>(loaded: &Loaded<K>, kept: u64, kept_held: u64) -> (u64, u64) {
    let held = loaded.group.holds.len() as u64;
    let counted = loaded.group.uris.saturating_sub(kept);
    let free = counted.saturating_sub(held.saturating_sub(kept_held));
    (free, counted)
}
