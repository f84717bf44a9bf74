//! The search for the next group to lease.
//!
//! A search takes candidates from three queues: `chg_ready`, the head of `chg_wait` if it is due,
//! and the head of `chg_busy` if its lease has expired. The search leases the group that has been
//! due longest. A search does not move groups in bulk, so the number of due groups does not affect
//! its duration.

use crawlspace_host::keyspace::Batch;

use super::Token;
use super::error::Result;
use super::figures::Pause;
use super::frontier::Frontier;
use super::group::{Hold, Id};
use super::groups::{Groups, Loaded};
use super::pauses::Paused;
use super::placing::Placing;
use super::politeness::When;
use super::skipped::{Place, Position};
use super::store::{Store, check_packed};
use super::time::{Millis, of_score};
use super::transition::{End, Event, Placement, Seen};
use super::uris::{Changed, Op, Stock};
use super::verdict::{Judge, Verdict};

/// Number of groups that are read from a queue at a time.
const PAGE: u64 = 16;

/// Permission to fetch from a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The group.
    pub chg: Vec<u8>,
    /// Token of the lease.
    pub token: Token,
    /// Time when the lease expires.
    pub deadline: Millis,
    /// Due time of the group.
    pub due: Millis,
    /// Number of URIs queued for the group, including the leased one.
    pub uris: u64,
    /// The execution of the URIs; `None` if the frontier does not keep them.
    pub execution: Option<Vec<u8>>,
    /// The URIs, if the frontier stores URIs of the group.
    pub items: Vec<LeasedUri>,
}

/// A leased URI with its key, payload and counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeasedUri {
    /// The URI.
    pub uri: Vec<u8>,
    /// The key that identifies the URI, if there is one.
    pub key: Option<Vec<u8>>,
    /// Payload: bytes from the crawler.
    pub payload: Option<Vec<u8>>,
    /// Number of links between a seed and the URI.
    pub depth: u32,
    /// Number of failed attempts.
    pub attempts: u32,
}

impl LeasedUri {
    fn new<K: Store>(
        ks: &mut K,
        chg: &[u8],
        (execution, name): (&[u8], Vec<u8>),
        (depth, attempts): (u32, u32),
    ) -> Result<LeasedUri> {
        let extra = ks.packed(|packed| {
            let extra = packed.extra(execution, &name, chg);
            (
                extra.url.map(<[u8]>::to_vec),
                extra.payload.map(<[u8]>::to_vec),
            )
        })?;
        let (url, payload) = extra.unwrap_or_default();
        let (uri, key) = match url {
            Some(url) => (url, Some(name)),
            None => (name, None),
        };
        Ok(LeasedUri {
            uri,
            key,
            payload,
            depth,
            attempts,
        })
    }
}

/// Returns the execution and the URIs of a lease, if the frontier stores them.
pub(super) fn leased_uris<K: Store>(
    groups: &Groups<K>,
    ks: &mut K,
    loaded: &Loaded<K>,
    token: Token,
) -> Result<Option<(Vec<u8>, Vec<LeasedUri>)>> {
    let key = groups.uris_of(ks, loaded);
    let found = ks.uris(key, |uris| {
        let execution = uris.leased(token)?.execution.to_vec();
        let all = uris.leased_under(token);
        let all = all.map(|leased| (uris.uri_of(&leased), (leased.depth, leased.attempts)));
        Some((execution, all.collect::<Vec<_>>()))
    })?;
    let Some((execution, all)) = found.flatten() else {
        return Ok(None);
    };
    let all = all.into_iter();
    let items =
        all.map(|(name, figures)| LeasedUri::new(ks, &loaded.id, (&execution, name), figures));
    let items = items.collect::<Result<Vec<_>>>()?;
    Ok(Some((execution, items)))
}

/// A request for leases.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// Duration of a lease.
    pub lease: Millis,
    /// Maximum number of leases.
    pub count: usize,
    /// Maximum number of URIs of each lease.
    pub uris: usize,
    /// If set, the lease frees the group immediately. The group becomes due again after its stored delay or,
    /// without one, after this pause. The worker keeps the URIs until the deadline.
    pub gate: Option<Millis>,
    /// The execution of the URIs; `None` for any execution.
    pub execution: Option<&'a [u8]>,
    /// The release with which the client combined this request. The search updates the stored reply
    /// of this release.
    pub after: Option<(&'a [u8], Token)>,
}

/// The outcome of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// The search granted the requested number of leases, or found no more candidates.
    Complete,
    /// The time was up before the search found enough groups, because it had to skip paused groups
    /// or park blocked groups.
    Unfinished,
}

/// The queue in which a candidate was found.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stand {
    /// The group is in `chg_ready`, at this position.
    Ready(u64),
    /// The group is in `chg_wait`, with this score.
    Wait(f64),
    /// The group is in no queue, because its lease expired.
    None,
}

/// The candidate at the front of the queues.
enum Front<K: Store> {
    Candidate(Stand, Box<Loaded<K>>),
    /// A group whose lease had expired. The search has moved it to its proper queue.
    Settled,
    Nobody,
}

impl<K: Store> Placing<'_, K> {
    /// Removes a group from its queue if the group is due. Returns false if it is not due, or if it
    /// was not found because it is too far from the head of `chg_ready` or of its gate's list.
    fn take_out(&mut self, ks: &mut K, loaded: &mut Loaded<K>, now: Millis) -> Result<bool> {
        if let Some(due) = ks.zset_score(&self.keys.once.wait, &loaded.id)? {
            return Ok(of_score(due) <= now && self.queues.leave_wait(ks, &loaded.id)?);
        }
        Ok(self.queues.leave_ready(ks, &loaded.id)? || self.leave_gate(ks, loaded)?)
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
}

impl<K: Store> Frontier<K> {
    /// Grants leases until the request is fulfilled, no candidates are left, or the time is up.
    ///
    /// # Errors
    /// `WRONGTYPE` if a key holds another type; any server error.
    pub fn next(
        &mut self,
        ks: &mut K,
        ask: &Ask<'_>,
        now: Millis,
        time: &mut dyn FnMut() -> bool,
        leases: &mut Vec<Lease>,
    ) -> Result<Search> {
        self.evict_idle(ks, now)?;
        self.queues.note_limits(ks)?;
        if let Some(execution) = ask.execution {
            return self.next_for(ks, execution, ask, now, (time, leases));
        }
        while leases.len() < ask.count {
            if self.pauses.read(ks)?.all {
                break;
            }
            let lease = match self.front(ks, now)? {
                Front::Nobody if self.end_some_later(ks, now)? => None,
                Front::Nobody => break,
                Front::Settled => None,
                Front::Candidate(place, mut loaded) => {
                    let lease = self.consider(ks, place, &mut loaded, ask, now)?;
                    if lease.is_some() && ks.has_plain_writers() {
                        self.groups.keep_leased(loaded);
                    }
                    lease
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

    /// Leases a given group if it is due. Returns `None` if the group is not due or is held back.
    ///
    /// # Errors
    /// `NOCHG` if the group is unknown; `PLAIN` if the request names an execution and the frontier is not packed.
    pub fn next_of(
        &mut self,
        ks: &mut K,
        id: &[u8],
        ask: &Ask<'_>,
        now: Millis,
    ) -> Result<Option<Lease>> {
        self.evict_idle(ks, now)?;
        let mut loaded = self.groups.known(ks, id)?;
        self.placing().reclaim(ks, &mut loaded, now)?;
        let busy = ks.zset_score(&self.keys.once.busy, id)?;
        if busy.is_some_and(|deadline| of_score(deadline) <= now) {
            self.end_expired_leases(ks, &mut loaded, now)?;
            loaded = self.groups.load(ks, id)?;
        } else if busy.is_some() && loaded.group.holds.is_empty() {
            // A plain client is fetching from the group.
            return Ok(None);
        }
        if let Some(execution) = ask.execution {
            check_packed(ks)?;
            let can = !self.pauses.read(ks)?.holds_back(execution)
                && self.judge().has_due(ks, &loaded, execution, now)?;
            if !can {
                return Ok(None);
            }
            self.placing().take_from_anywhere(ks, &mut loaded)?;
            let execution = Some(execution.to_vec());
            return self.grant(ks, &mut loaded, execution, ask, now).map(Some);
        }
        let paused = self.pauses.read(ks)?;
        if paused.all {
            return Ok(None);
        }
        let Verdict::Lease(execution) = self.judge().verdict(ks, &loaded, &paused, now)? else {
            return Ok(None);
        };
        if self.placing().take_out(ks, &mut loaded, now)? {
            self.grant(ks, &mut loaded, execution, ask, now).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Returns the candidate that has been due for longest.
    fn front(&mut self, ks: &mut K, now: Millis) -> Result<Front<K>> {
        while let Some(id) = self.queues.skipped.walk().come_due(now) {
            self.queues.note_change(ks, &id)?;
        }
        let paused = self.pauses.read(ks)?;
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
            // Groups in this queue are ready even if their due time is later.
            let ready_from = loaded.group.due.min(now) as f64;
            // Return a paused group as a candidate, so that the search skips it. Otherwise, it
            // would hide the groups behind it, which may have been due for longer.
            if (ready_from <= waits_from && ready_from <= busy_from)
                || self.judge().is_paused(ks, &loaded, &paused, now)?
            {
                return Ok(Front::Candidate(Stand::Ready(at), loaded));
            }
        }
        if let Some((id, _)) = busy.filter(|_| busy_from < waits_from) {
            let Some(mut loaded) = self.groups.load_sound(ks, id.as_ref())? else {
                ks.zset_del(&self.keys.once.busy, id.as_ref())?;
                return Ok(Front::Settled);
            };
            self.placing().reclaim(ks, &mut loaded, now)?;
            let mut step = self.expire(ks, &mut loaded, now)?;
            let is_ready = step.placement == Placement::Ready;
            if is_ready {
                // This group is the next candidate.
                step.placement = Placement::Stay;
            }
            self.placing().apply(ks, &mut loaded, &step, now)?;
            if is_ready && loaded.group.is_runnable() {
                return Ok(Front::Candidate(Stand::None, loaded));
            }
            if is_ready {
                // A plain client held the lease, and the group has no URIs left.
                self.placing().retire_if_idle(ks, &mut loaded, now)?;
            }
            return Ok(Front::Settled);
        }
        let Some(first) = wait else {
            return Ok(Front::Nobody);
        };
        Ok(match self.groups.load_sound(ks, &first.id)? {
            Some(loaded) => Front::Candidate(Stand::Wait(first.score), loaded),
            None => {
                // The key of the group holds another type, which CHG.CHECK reports.
                self.queues.leave_wait(ks, &first.id)?;
                Front::Settled
            }
        })
    }

    /// Skips the next groups that a search would have to skip if these executions were paused, and
    /// returns their number. Returns 0 if a search would lease the next group, or if there is no
    /// next group. Writes nothing: a later search makes the required writes.
    pub(super) fn look_ahead(&mut self, ks: &mut K, paused: &Paused, now: Millis) -> Result<u64> {
        let Some(mut ahead) = self.queues.skipped.take_ahead() else {
            return Ok(0);
        };
        let mut skipped = 0;
        let mut page = Batch::default();
        let wait = &self.keys.once.wait;
        ks.zset_range(wait, ahead.end_of_wait(), PAGE, &mut page)?;
        for (id, _) in page.iter() {
            let Some(score) = ks.zset_score(wait, id)?.filter(|at| of_score(*at) <= now) else {
                break;
            };
            let Some(foreseen) = self.judge().foresee(ks, id, paused, now)? else {
                break;
            };
            ahead.skip_wait(Place::new(score, id));
            ahead.look_at_times(foreseen.later, id);
            if foreseen.returns {
                ahead.look_again(id, &Position::Wait(score));
            }
            skipped += 1;
        }
        if skipped == 0 {
            let from = ahead.end_of_ready();
            page.clear();
            ks.list_range(&self.keys.once.ready, from, PAGE, &mut page)?;
            for (at, (id, _)) in (from..).zip(page.iter()) {
                let Some(foreseen) = self.judge().foresee(ks, id, paused, now)? else {
                    break;
                };
                ahead.skip_ready(at, id);
                ahead.look_at_times(foreseen.later, id);
                if foreseen.returns {
                    ahead.return_to_ready(at);
                }
                skipped += 1;
            }
        }
        self.queues.skipped.put_ahead(ahead);
        Ok(skipped)
    }

    /// Returns the parts of the frontier that a verdict reads.
    pub(super) fn judge(&self) -> Judge<'_, K> {
        Judge {
            groups: &self.groups,
            gates: &self.gates,
            ledger: &self.ledger,
        }
    }

    /// Leases a candidate, or moves it to the queue where it belongs.
    fn consider(
        &mut self,
        ks: &mut K,
        place: Stand,
        loaded: &mut Loaded<K>,
        ask: &Ask<'_>,
        now: Millis,
    ) -> Result<Option<Lease>> {
        if loaded.missing.get() > 0 {
            self.groups.restore_leases(ks, loaded, now)?;
        }
        let paused = self.pauses.read(ks)?;
        match self.judge().verdict(ks, loaded, &paused, now)? {
            Verdict::Lease(execution) => {
                self.placing().unqueue(ks, place, &loaded.id)?;
                self.grant(ks, loaded, execution, ask, now).map(Some)
            }
            Verdict::Park(due) => {
                self.placing().replace_representative(ks, loaded)?;
                if let Stand::Ready(at) = place {
                    self.queues.take_ready(ks, at)?;
                }
                loaded.group.due = due;
                self.queues.wait(ks, &loaded.id, due as f64)?;
                self.placing().save(ks, loaded)?;
                Ok(None)
            }
            Verdict::Gate(until) => {
                self.placing().unqueue(ks, place, &loaded.id)?;
                self.placing().wait_behind_gate(ks, loaded, until)?;
                self.placing().save(ks, loaded)?;
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
                        self.placing().save(ks, loaded)?;
                    }
                }
                // Make another group the representative, so that the paused group does not hold
                // back the groups behind the gate. The new representative may sort before the
                // paused group, so skip the paused group first.
                self.placing().replace_representative(ks, loaded)?;
                Ok(None)
            }
            Verdict::Remove => {
                self.placing().unqueue(ks, place, &loaded.id)?;
                if !loaded.group.holds.is_empty() {
                    // When the lease on the group expires, the group returns to a queue, even if a
                    // plain client removed it from `chg_busy`.
                    self.queues.show_busy(ks, loaded)?;
                } else if loaded.group.is_idle() {
                    self.placing().retire_if_idle(ks, loaded, now)?;
                }
                Ok(None)
            }
        }
    }

    /// Frees a group that was just leased; the worker keeps its URIs until the deadline.
    fn free(
        &mut self,
        ks: &mut K,
        loaded: &mut Loaded<K>,
        (token, pause, deadline): (Token, Millis, Millis),
        now: Millis,
    ) -> Result<()> {
        let end = End {
            token,
            when: &When::Delay(pause),
            rounding: self.rounding,
            done: 0,
            counted: false,
            retry: None,
        };
        let mut seen = Seen::at(now, self.groups.stock(ks, loaded)?);
        seen.away = self.groups.count_away(ks, loaded, &[token])?;
        let last = loaded.group.last;
        let step = loaded.group.on(Event::Released(end), &seen);
        // Keep the reply to the release with which this lease was granted.
        loaded.group.last = last;
        self.placing().apply(ks, loaded, &step, now)?;
        self.later.set(ks, &loaded.id, token, deadline)
    }

    /// Leases a group that is in no queue.
    pub(super) fn grant(
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
            // This is the first lease since the hash was created. An earlier hash of the group may
            // have been deleted.
            self.past.forget(ks, &loaded.id)?;
        }
        let (items, stock) = match &execution {
            None => (Vec::new(), self.groups.stock(ks, loaded)?),
            Some(execution) => {
                let key = self.groups.uris_of(ks, loaded);
                let take = Op::Take {
                    token,
                    execution,
                    now,
                };
                // The client may have begun to wait before the frontier became plain.
                let most = match ask.uris {
                    2.. if ks.packed(|_| ())?.is_none() => 1,
                    most => most.max(1),
                };
                let (mut stock, mut items) = (Stock::default(), Vec::with_capacity(1));
                while items.len() < most {
                    let (changed, taken) = ks.change_uris_then(key, &take, |uris| {
                        let leased = uris.leases().last();
                        let leased = leased
                            .map(|leased| (uris.uri_of(&leased), (leased.depth, leased.attempts)));
                        (leased, uris.stock())
                    })?;
                    let (leased, left) = taken.unwrap_or_default();
                    stock = left;
                    let Some((name, figures)) = leased.filter(|_| changed == Changed::Taken) else {
                        break;
                    };
                    items.push(LeasedUri::new(ks, &loaded.id, (execution, name), figures)?);
                }
                (items, stock)
            }
        };
        let more = items.len().saturating_sub(1) as u64;
        let hold = Hold {
            token,
            granted: now,
            deadline,
        };
        let own = ask.after.filter(|(id, _)| *id == &loaded.id[..]);
        let after = own.map(|(_, token)| token);
        let mut seen = Seen::at(now, stock);
        seen.away = (more > 0).then_some(loaded.group.away + more);
        let step = loaded.group.on(Event::Leased { hold, after }, &seen);
        self.placing().apply(ks, loaded, &step, now)?;
        if let Some(pause) = ask.gate.filter(|_| !items.is_empty()) {
            let pause = loaded.group.options.delay.unwrap_or(pause);
            self.free(ks, loaded, (token, pause, deadline), now)?;
        }
        Ok(Lease {
            chg: loaded.id.to_vec(),
            token,
            deadline,
            due,
            uris: loaded.group.uris,
            execution: execution.filter(|_| !items.is_empty()),
            items,
        })
    }
}
