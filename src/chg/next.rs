//! Who may be fetched from next.
//!
//! Three queues have candidates: `chg_ready`, the head of `chg_wait` once it is due, and the head of
//! `chg_busy` once its lease has run out. The one that is due longest goes first. Nothing is moved in
//! bulk, so it costs the same whether one group is due or a million.

use super::Token;
use super::error::Result;
use super::figures::Pause;
use super::frontier::Frontier;
use super::group::Hold;
use super::group::Id;
use super::groups::Loaded;
use super::hold::Paused;
use super::skipped::Place;
use super::store::Store;
use super::time::{Millis, of_score};
use super::transition::{Event, Placement, Seen};
use super::uris::Op;

/// Leave to fetch one URI from a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The group.
    pub chg: Vec<u8>,
    /// Names the lease.
    pub token: Token,
    /// When it runs out.
    pub deadline: Millis,
    /// When the group was due.
    pub due: Millis,
    /// URIs queued for the group, the one to be fetched included.
    pub uris: u64,
    /// Execution and URI, if the frontier keeps them.
    pub uri: Option<(Vec<u8>, Vec<u8>)>,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// How long a lease lasts.
    pub lease: Millis,
    /// How many leases at most.
    pub count: usize,
    /// The release that this is fused with, whose reply is kept on.
    pub after: Option<(&'a [u8], Token)>,
}

/// Whether all candidates were looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// There are as many leases as asked for, or no more to be had.
    Complete,
    /// Time was up in the middle of passing over paused groups or parking blocked ones.
    Unfinished,
}

/// Which queue a candidate stands in.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stand {
    /// In `chg_ready`, at this position.
    Ready(u64),
    /// In `chg_wait`, with this score.
    Wait(f64),
    /// In no queue: its lease expired.
    None,
}

/// Who stands first.
///
/// As large as a candidate, which is what it mostly is: a box would cost an allocation a lease.
#[allow(clippy::large_enum_variant)]
enum Front<K: Store> {
    Candidate(Stand, Loaded<K>),
    /// A group whose lease had expired, and which is where it belongs now.
    Settled,
    Nobody,
}

/// What becomes of a candidate.
enum Verdict {
    /// It is leased, with the next URI of this execution if URIs are kept for it.
    Lease(Option<Vec<u8>>),
    /// It is not due before this.
    Park(Millis),
    /// It is paused, and keeps its place; a URI of it that is not paused is due then.
    Pass(Option<Millis>),
    /// The gate that it shares is closed until this.
    Gate(Millis),
    /// It should not be here.
    Remove,
}

impl<K: Store> Frontier<K> {
    /// Grants leases until there are enough, no more to be had, or time is up.
    ///
    /// # Errors
    /// `WRONGTYPE` when a key holds another type; or when the server refuses.
    pub fn next(
        &mut self,
        ks: &mut K,
        ask: &Ask<'_>,
        now: Millis,
        time: &mut dyn FnMut() -> bool,
        leases: &mut Vec<Lease>,
    ) -> Result<Search> {
        self.tidy(ks, now)?;
        while leases.len() < ask.count {
            if self.pauses.read(ks)?.all {
                break;
            }
            let lease = match self.front(ks, now)? {
                Front::Nobody => break,
                Front::Settled => None,
                Front::Candidate(place, mut loaded) => {
                    self.consider(ks, place, &mut loaded, ask, now)?
                }
            };
            match lease {
                Some(lease) => leases.push(lease),
                None if !time() => return Ok(Search::Unfinished),
                None => {}
            }
        }
        Ok(Search::Complete)
    }

    /// Leases one group, if it is due; none when it is not, or is held back by anything.
    ///
    /// # Errors
    /// `NOCHG` for an unknown group.
    pub fn next_of(
        &mut self,
        ks: &mut K,
        id: &[u8],
        ask: &Ask<'_>,
        now: Millis,
    ) -> Result<Option<Lease>> {
        self.tidy(ks, now)?;
        let mut loaded = self.groups.known(ks, id)?;
        self.reclaim(ks, &mut loaded, now)?;
        let busy = ks.zset_score(&self.keys.once.busy, id)?;
        if busy.is_some_and(|deadline| of_score(deadline) <= now) {
            self.make_ready(ks, &mut loaded, now)?;
            loaded = self.groups.load(ks, id)?;
        } else if busy.is_some() && loaded.group.holds.is_empty() {
            // A plain client has it.
            return Ok(None);
        }
        if self.pauses.read(ks)?.all {
            return Ok(None);
        }
        let paused = self.pauses.read(ks)?;
        let Verdict::Lease(execution) = self.verdict(ks, &loaded, &paused, now)? else {
            return Ok(None);
        };
        if self.take_out(ks, &mut loaded, now)? {
            self.grant(ks, &mut loaded, execution, ask, now).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Takes a group out of the queue that it stands in, if it is due there; false when it is not, or
    /// stands too far behind in `chg_ready` or behind its gate to be found.
    fn take_out(&mut self, ks: &mut K, loaded: &mut Loaded<K>, now: Millis) -> Result<bool> {
        if let Some(due) = ks.zset_score(&self.keys.once.wait, &loaded.id)? {
            return Ok(of_score(due) <= now && self.queues.leave_wait(ks, &loaded.id)?);
        }
        Ok(self.queues.leave_ready(ks, &loaded.id)? || self.leave_gate(ks, loaded)?)
    }

    /// The candidate that is due longest.
    fn front(&mut self, ks: &mut K, now: Millis) -> Result<Front<K>> {
        while let Some(id) = self.queues.skipped.walk().come_due(now) {
            self.queues.note_change(ks, &id)?;
        }
        let at = self.queues.skipped.walk().ready();
        let ready = ks.list_get(&self.keys.once.ready, at)?;
        let wait = self.queues.first_waiting(ks)?;
        let wait = wait.filter(|first| of_score(first.score) <= now);
        let busy = self.queues.first_lapsed(ks, now)?;
        let waits_from = wait.as_ref().map_or(f64::INFINITY, |first| first.score);
        let busy_from = busy.as_ref().map_or(f64::INFINITY, |(_, score)| *score);
        if let Some(id) = ready {
            let Some(loaded) = self.groups.load_sound(ks, id.as_ref())? else {
                self.queues.take_ready(ks, at)?;
                return Ok(Front::Settled);
            };
            // What stands in this queue is ready, whatever its due time says.
            let ready_from = loaded.group.due.min(now) as f64;
            // A paused group hides none behind it, which may have been due for longer.
            if (ready_from <= waits_from && ready_from <= busy_from)
                || self.is_paused(ks, &loaded, now)?
            {
                return Ok(Front::Candidate(Stand::Ready(at), loaded));
            }
        }
        if let Some((id, _)) = busy.filter(|_| busy_from < waits_from) {
            let Some(mut loaded) = self.groups.load_sound(ks, id.as_ref())? else {
                ks.zset_del(&self.keys.once.busy, id.as_ref())?;
                return Ok(Front::Settled);
            };
            self.reclaim(ks, &mut loaded, now)?;
            let mut step = self.expire(ks, &mut loaded, now)?;
            let is_ready = step.placement == Placement::Ready;
            if is_ready {
                // It is the next one.
                step.placement = Placement::Stay;
            }
            self.carry_out(ks, &mut loaded, &step, now)?;
            if is_ready && loaded.group.is_runnable() {
                return Ok(Front::Candidate(Stand::None, loaded));
            }
            if is_ready {
                // A plain client's, with nothing left to fetch.
                self.rest(ks, &mut loaded, now)?;
            }
            return Ok(Front::Settled);
        }
        let Some(first) = wait else {
            return Ok(Front::Nobody);
        };
        Ok(match self.groups.load_sound(ks, &first.id)? {
            Some(loaded) => Front::Candidate(Stand::Wait(first.score), loaded),
            None => {
                // Its key holds something else; CHECK tells of that.
                self.queues.leave_wait(ks, &first.id)?;
                Front::Settled
            }
        })
    }

    /// Whether a group keeps its place because all its URIs that are due are paused, or the group is.
    fn is_paused(&mut self, ks: &mut K, loaded: &Loaded<K>, now: Millis) -> Result<bool> {
        let paused = self.pauses.read(ks)?;
        if paused.executions.is_empty() {
            return Ok(loaded.group.options.paused);
        }
        let verdict = self.verdict(ks, loaded, &paused, now)?;
        Ok(matches!(verdict, Verdict::Pass(_)))
    }

    /// Skips the next groups that searches would skip if these executions were paused; false when the next
    /// group would be leased, or there is none. Nothing is written, so the walk returns to a group with
    /// which a search has more to do.
    pub(super) fn look_ahead(&mut self, ks: &mut K, paused: &Paused, now: Millis) -> Result<bool> {
        let Some(ahead) = self.queues.skipped.ahead() else {
            return Ok(false);
        };
        let (rank, at) = (ahead.end_of_wait(), ahead.end_of_ready());
        let wait = ks.zset_at(&self.keys.once.wait, rank)?;
        if let Some((id, score)) = wait.filter(|(_, score)| of_score(*score) <= now)
            && let Some((again, later)) = self.foresee(ks, id.as_ref(), paused, now)?
            && let Some(ahead) = self.queues.skipped.ahead()
        {
            let place = Place::new(score, id.as_ref());
            ahead.look_at_times(later, &place.id);
            ahead.skip_wait(place.clone());
            if again {
                ahead.return_to_wait(place);
            }
            return Ok(true);
        }
        let Some(id) = ks.list_get(&self.keys.once.ready, at)? else {
            return Ok(false);
        };
        let id = id.as_ref();
        if let Some((again, later)) = self.foresee(ks, id, paused, now)?
            && let Some(ahead) = self.queues.skipped.ahead()
        {
            ahead.look_at_times(later, id);
            ahead.skip_ready(at, id);
            if again {
                ahead.return_to_ready(at);
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Whether a search would have anything to do with a group but skip it, and when a URI of it comes due
    /// that is not paused; `None` when the group would be leased.
    fn foresee(
        &mut self,
        ks: &mut K,
        id: &[u8],
        paused: &Paused,
        now: Millis,
    ) -> Result<Option<(bool, Option<Millis>)>> {
        let Some(loaded) = self.groups.load_sound(ks, id)? else {
            return Ok(Some((true, None)));
        };
        Ok(match self.verdict(ks, &loaded, paused, now)? {
            _ if loaded.missing.get() > 0 => Some((true, None)),
            Verdict::Lease(_) => None,
            Verdict::Pass(later) if loaded.group.options.gate.is_empty() => Some((false, later)),
            // A search also hands the shared gate over to the next group.
            _ => Some((true, None)),
        })
    }

    /// Leases a candidate, or puts it where it belongs.
    fn consider(
        &mut self,
        ks: &mut K,
        place: Stand,
        loaded: &mut Loaded<K>,
        ask: &Ask<'_>,
        now: Millis,
    ) -> Result<Option<Lease>> {
        if loaded.missing.get() > 0 {
            self.restore_leases(ks, loaded, now)?;
        }
        let paused = self.pauses.read(ks)?;
        match self.verdict(ks, loaded, &paused, now)? {
            Verdict::Lease(execution) => {
                self.unqueue(ks, place, &loaded.id)?;
                self.grant(ks, loaded, execution, ask, now).map(Some)
            }
            Verdict::Park(due) => {
                self.hand_over(ks, loaded)?;
                if let Stand::Ready(at) = place {
                    self.queues.take_ready(ks, at)?;
                }
                loaded.group.due = due;
                self.queues.wait(ks, &loaded.id, due as f64)?;
                self.save(ks, loaded)?;
                Ok(None)
            }
            Verdict::Gate(until) => {
                self.unqueue(ks, place, &loaded.id)?;
                self.stand_behind(ks, loaded, until)?;
                self.save(ks, loaded)?;
                Ok(None)
            }
            Verdict::Pass(later) => {
                let walk = self.queues.skipped.walk();
                walk.look_at_times(later.filter(|_| place != Stand::None), &loaded.id);
                match place {
                    Stand::Ready(at) => walk.skip_ready(at, &loaded.id),
                    Stand::Wait(score) => walk.skip_wait(Place::new(score, &loaded.id)),
                    Stand::None => {
                        let due = self.groups.due_of(ks, loaded)?;
                        self.queues.queue(ks, loaded, due, now)?;
                        self.save(ks, loaded)?;
                    }
                }
                // It does not hold back those that it stands for. Whoever does now may come to stand
                // before it, so it must have been counted.
                self.hand_over(ks, loaded)?;
                Ok(None)
            }
            Verdict::Remove => {
                self.unqueue(ks, place, &loaded.id)?;
                if !loaded.group.holds.is_empty() {
                    // So that it comes back when its lease runs out, whoever took it from there.
                    self.queues.show_busy(ks, loaded)?;
                } else if loaded.group.is_idle() {
                    self.rest(ks, loaded, now)?;
                }
                Ok(None)
            }
        }
    }

    fn unqueue(&mut self, ks: &mut K, place: Stand, id: &Id) -> Result<()> {
        match place {
            Stand::Ready(at) => {
                self.queues.take_ready(ks, at)?;
                self.ledger.audits.taken();
            }
            Stand::Wait(score) => {
                ks.zset_remove(&self.keys.once.wait, id)?;
                if !self.queues.skipped.is_empty() {
                    self.queues.skipped.left_wait(&Place::new(score, id));
                }
            }
            Stand::None => {}
        }
        Ok(())
    }

    /// Whether a candidate may be fetched from, by everything that can hold it back. A group of which only
    /// paused URIs are due keeps its place, whatever else holds it back.
    fn verdict(
        &mut self,
        ks: &mut K,
        loaded: &Loaded<K>,
        paused: &Paused,
        now: Millis,
    ) -> Result<Verdict> {
        let group = &loaded.group;
        let held = group.holds.len() as u64;
        // Plain clients may queue a group of which nothing is known, or nothing is counted.
        let from_outside = !group.ours && group.uris == 0;
        if held >= group.options.parallel || (group.uris <= held && !from_outside) {
            return Ok(Verdict::Remove);
        }
        if group.options.paused {
            return Ok(Verdict::Pass(None));
        }
        let by_uris = self.verdict_by_uris(ks, loaded, paused, now)?;
        if matches!(by_uris, Verdict::Pass(_)) {
            return Ok(by_uris);
        }
        let closed = group.closed_until();
        // A group that only plain clients know is ready when they say so.
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

    /// Whether a group has a URI for a lease.
    fn verdict_by_uris(
        &mut self,
        ks: &mut K,
        loaded: &Loaded<K>,
        paused: &Paused,
        now: Millis,
    ) -> Result<Verdict> {
        let group = &loaded.group;
        let held = group.holds.len() as u64;
        let from_outside = !group.ours && group.uris == 0;
        let kept = self.groups.kept(ks, loaded, |uris| {
            let next = uris.pick(now, &|execution| paused.has(execution));
            (
                next.map(<[u8]>::to_vec),
                uris.earliest(),
                uris.earliest_of(&|execution| paused.has(execution)),
                uris.len(),
                uris.leases().count() as u64,
            )
        })?;
        let (next, earliest, unpaused, kept, kept_held) = kept.unwrap_or((None, None, None, 0, 0));
        if next.is_some() {
            return Ok(Verdict::Lease(next));
        }
        // Beside URIs that are kept there may be others that are only counted.
        let counted = group.uris.saturating_sub(kept);
        let mut free = counted.saturating_sub(held.saturating_sub(kept_held));
        let all_free = free;
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

    /// Of the URIs that a group counts, how many are not of a paused execution.
    pub(super) fn unpaused(
        &self,
        ks: &mut K,
        loaded: &Loaded<K>,
        paused: &Paused,
        counted: u64,
    ) -> Result<u64> {
        let mut left = counted;
        // Whichever are fewer: executions that are paused, or that the group has.
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

    /// Leases a group that stands in no queue.
    fn grant(
        &mut self,
        ks: &mut K,
        loaded: &mut Loaded<K>,
        execution: Option<Vec<u8>>,
        ask: &Ask<'_>,
        now: Millis,
    ) -> Result<Lease> {
        let token = self.tokens.mint(ks, now)?;
        let deadline = now + ask.lease;
        let group = &mut loaded.group;
        if !group.ours && group.uris == 0 && group.due == 0 {
            group.due = now;
        }
        let pause = (group.released > 0).then(|| Pause {
            observed: now.saturating_sub(group.released),
            asked: group.gate.saturating_sub(group.released),
        });
        self.figures.lease(now, pause);
        let due = group.due;
        if group.released == 0 && group.last.is_none() {
            // The first lease since the group was made, perhaps not for the first time.
            self.past.forget(ks, &loaded.id)?;
        }
        let (uri, stock) = match execution {
            None => (None, self.groups.stock(ks, loaded)?),
            Some(execution) => {
                let key = self.groups.uris_of(ks, loaded);
                let take = Op::Take {
                    token,
                    execution: &execution,
                    now,
                };
                let (_, taken) = ks.change_uris_then(&key, &take, |uris| {
                    (uris.leased(token).map(|l| l.uri.to_vec()), uris.stock())
                })?;
                let (uri, stock) = taken.unwrap_or_default();
                (uri.map(|uri| (execution, uri)), stock)
            }
        };
        let hold = Hold {
            token,
            granted: now,
            deadline,
        };
        let own = ask.after.filter(|(id, _)| *id == &loaded.id[..]);
        let after = own.map(|(_, token)| token);
        let seen = Seen::at(now, stock);
        let step = loaded.group.on(Event::Leased { hold, after }, &seen);
        self.carry_out(ks, loaded, &step, now)?;
        Ok(Lease {
            chg: loaded.id.to_vec(),
            token,
            deadline,
            due,
            uris: loaded.group.uris,
            uri,
        })
    }
}
