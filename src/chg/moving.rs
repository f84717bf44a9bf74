//! `CHG.MOVE`: moves all URIs queued for one group to another group, for example because two hosts
//! have the same address.

use crawlspace_host::reply::Reply;

use super::discover::regroup;
use super::error::{Error, Result};
use super::frontier::Frontier;
use super::groups::Loaded;
use super::job::{Job, Lent, Scan, Time};
use super::keys::{COUNTED, GROUP};
use super::ledger::counted_field;
use super::limiting::{copy_limits, limits_of, remove_limits};
use super::store::Store;
use super::time::Millis;
use super::transition::{Placement, Step};
use super::uris::{Changed, Op, Queued};

/// Maximum number of kept URIs read at a time.
const BATCH: usize = 32;

/// Creates a job that moves all URIs queued for a group to another group.
pub fn move_group<K: Store>(from: &[u8], to: &[u8], now: Millis) -> Job<K> {
    let mut moving = Moving {
        from: from.to_vec(),
        to: to.to_vec(),
        now,
        moved: 0,
        done: false,
    };
    Job::new(async move |lent: Lent<K>| {
        if !limits_of(&lent, &moving.from)?.is_empty() {
            // Fails if the group is unknown or leased.
            moving.with_both(&lent, |_| Ok(true))?;
            copy_limits(&lent, &moving.from, &moving.to).await?;
        }
        moving.run(&lent).await?;
        regroup(&lent, &moving.from, &moving.to).await?;
        remove_limits(&lent, &moving.from)?;
        let to = lent.with(|frontier, ks| frontier.groups.load(ks, &moving.to))?;
        Ok(Reply::counts(&[moving.moved, to.group.uris]))
    })
}

struct Moving {
    from: Vec<u8>,
    to: Vec<u8>,
    now: Millis,
    moved: u64,
    /// True once the source group is empty.
    done: bool,
}

/// Both groups during one step of the move.
struct Pair<'a, K: Store> {
    moving: &'a mut Moving,
    frontier: &'a mut Frontier<K>,
    ks: &'a mut K,
    time: Time<'a>,
    from: Box<Loaded<K>>,
    to: Box<Loaded<K>>,
}

impl Moving {
    async fn run<K: Store>(&mut self, lent: &Lent<K>) -> Result<()> {
        while !self.done {
            while self.with_both(lent, |pair| pair.move_kept())? {
                lent.pause().await;
            }
            let key = lent.with(|frontier, ks| frontier.keys.key(ks, GROUP, &self.from));
            let mut fields = Scan::hash(lent, key);
            let mut met = false;
            while !self.done
                && let Some(batch) = fields.next().await?
            {
                let fields = batch.iter().map(|(field, _)| field);
                let mut executions = fields.filter_map(|f| f.strip_prefix(COUNTED)).peekable();
                while !self.done && executions.peek().is_some() {
                    met |= self.with_both(lent, |pair| pair.move_counted(&mut executions))?;
                    lent.pause().await;
                }
            }
            // More URIs may have arrived in parts of the group that the scan has already passed.
            if !self.done && !met {
                self.with_both(lent, |pair| pair.move_rest())?;
            }
        }
        Ok(())
    }

    /// Calls `act` with both groups, and saves them in a consistent state. Returns the result of
    /// `act`, or false when the source group is empty. Makes the source group idle in the same
    /// step.
    fn with_both<K: Store>(
        &mut self,
        lent: &Lent<K>,
        act: impl FnOnce(&mut Pair<'_, K>) -> Result<bool>,
    ) -> Result<bool> {
        lent.with_time(|frontier, ks, time| {
            let mut from = match frontier.groups.known(ks, &self.from) {
                Err(Error::NoChg(_)) if self.moved > 0 => {
                    // Another client removed the remaining URIs of the group during the move.
                    self.done = true;
                    return Ok(false);
                }
                from => from?,
            };
            let mut deadline = frontier.groups.first_deadline(ks, &from)?;
            if deadline.is_some_and(|deadline| deadline <= self.now) {
                frontier.end_expired_leases(ks, &mut from, self.now)?;
                deadline = frontier.groups.first_deadline(ks, &from)?;
            }
            if let Some(deadline) = deadline {
                return Err(Error::Leased(self.from.clone(), deadline));
            }
            frontier.placing().reclaim(ks, &mut from, self.now)?;
            let was_runnable = from.group.is_runnable();
            let mut to = frontier.groups.load(ks, &self.to)?;
            frontier.placing().reclaim(ks, &mut to, self.now)?;
            let mut pair = Pair {
                moving: self,
                frontier,
                ks,
                time,
                from,
                to,
            };
            pair.join_pauses();
            let acted = act(&mut pair)?;
            pair.save(was_runnable)?;
            Ok(acted && !self.done)
        })
    }
}

impl<K: Store> Pair<'_, K> {
    /// Combines the pauses and blocks of both groups. The groups now count as one host, so the later of two times
    /// applies.
    fn join_pauses(&mut self) {
        let (from, to) = (&self.from.group, &mut self.to.group);
        to.gate = to.gate.max(from.gate);
        to.released = to.released.max(from.released);
        to.options.blocked = to.options.blocked.max(from.options.blocked);
    }

    /// Writes both groups, and records whether the source group is empty.
    fn save(&mut self, was_runnable: bool) -> Result<()> {
        // URIs of leases that have freed the group stay in the group until they are done.
        let from = &self.from.group;
        let has_none = from.uris == from.away && from.holds.is_empty();
        self.moving.done |= has_none && !self.counts()? && !self.keeps()?;
        let (frontier, ks, now) = (&mut *self.frontier, &mut *self.ks, self.moving.now);
        let closed = self.to.group.closed_until();
        if self.to.group.due < closed {
            let later = Step::to(Placement::Reschedule(closed));
            frontier.placing().place(ks, &mut self.to, &later, now)?;
        }
        if self.to.group.uris > 0 {
            frontier.placing().save(ks, &self.to)?;
        } else if self.moving.done && self.to.group.gate > now {
            // The other group has no queued URIs, but URIs that arrive later must wait for the end
            // of its pause.
            frontier.placing().retire_if_idle(ks, &mut self.to, now)?;
        }
        let mut left = Step::to(Placement::Stay);
        left.leaves = was_runnable && !self.from.group.is_runnable();
        frontier.placing().place(ks, &mut self.from, &left, now)?;
        if self.from.group.is_idle() && self.moving.done {
            return frontier.placing().retire_if_idle(ks, &mut self.from, now);
        }
        frontier.placing().save(ks, &self.from)
    }

    /// Returns true if stored URIs remain.
    fn keeps(&mut self) -> Result<bool> {
        let key = self.frontier.keys.uris_key(self.ks, &self.from.id);
        let first = self.ks.uris(&key, |uris| uris.batch(1))?;
        Ok(first.is_some_and(|first| !first.is_empty()))
    }

    /// Returns true if counts of executions remain, that is, if the hash has fields besides those
    /// of the group itself and of its last release. The hash may have been deleted.
    fn counts(&mut self) -> Result<bool> {
        let next = self.frontier.keys.fields.next.as_ref();
        let next = self.ks.hash_has(&self.from.key, next)?;
        Ok(self.ks.hash_len(&self.from.key)? > self.from.own_fields() + u64::from(next))
    }

    /// Moves stored URIs until the time is up. Returns false if there were no stored URIs.
    fn move_kept(&mut self) -> Result<bool> {
        let (frontier, ks) = (&mut *self.frontier, &mut *self.ks);
        let (from, to) = (&mut self.from, &mut self.to);
        let from_key = frontier.keys.uris_key(ks, &from.id);
        let to_key = frontier.keys.uris_key(ks, &to.id);
        let uris = ks.uris(&from_key, |uris| uris.batch(BATCH))?;
        let uris = uris.unwrap_or_default();
        for queued in &uris {
            let Queued { execution, uri, .. } = queued;
            let add = Op::Add {
                execution,
                weight: Some(queued.weight),
                due: queued.due,
                depth: queued.depth,
                attempts: queued.attempts,
                uri,
            };
            let added = ks.change_uris(&to_key, &add)? == Changed::Added;
            ks.change_uris(&from_key, &Op::Remove { execution, uri })?;
            from.group.uris = from.group.uris.saturating_sub(1);
            frontier
                .ledger
                .delist_if_done(ks, &frontier.groups, from, execution)?;
            if added {
                to.group.keeps = true;
                frontier.ledger.enlist(ks, execution, &to.id)?;
                frontier
                    .placing()
                    .arrive(ks, to, 1, queued.due, self.moving.now)?;
                self.moving.moved += 1;
            } else {
                // The other group already has the URI, so count the URI only once.
                frontier.ledger.tally(ks, execution, -1)?;
            }
            if !(self.time)() {
                break;
            }
        }
        Ok(!uris.is_empty())
    }

    /// Moves the counts of some executions, for URIs that crawlers store themselves, until the time
    /// is up. Returns false if these executions had no counts.
    fn move_counted<'e>(&mut self, executions: impl Iterator<Item = &'e [u8]>) -> Result<bool> {
        let (frontier, ks) = (&mut *self.frontier, &mut *self.ks);
        let (mut counted, mut met) = (0, false);
        for execution in executions {
            // A scan may return a field twice.
            let n = frontier.ledger.counted(ks, &self.from.key, execution)?;
            ks.hash_del(&self.from.key, &counted_field(execution))?;
            frontier
                .ledger
                .delist_if_done(ks, &frontier.groups, &self.from, execution)?;
            if n > 0 {
                frontier
                    .ledger
                    .count(ks, &self.to.key, execution, n as i64)?;
                frontier.ledger.enlist(ks, execution, &self.to.id)?;
                counted += n.min(self.from.group.uris - counted);
                met = true;
            }
            if !(self.time)() {
                break;
            }
        }
        self.move_count(counted)?;
        Ok(met)
    }

    /// Moves the URIs that plain clients counted without naming an execution. Moves nothing if URIs
    /// were added to the frontier's store in the meantime.
    fn move_rest(&mut self) -> Result<bool> {
        if !self.keeps()? {
            let from = &self.from.group;
            self.move_count(from.uris.saturating_sub(from.away))?;
            self.moving.done = true;
        }
        Ok(true)
    }

    /// Moves URIs that are only counted.
    fn move_count(&mut self, counted: u64) -> Result<()> {
        if counted == 0 {
            return Ok(());
        }
        self.from.group.uris -= counted;
        // The due time of a group behind a shared gate is the time when the gate opens.
        let due = if self.from.group.options.gate.is_empty() {
            self.from.group.due
        } else {
            self.frontier.groups.due_of(self.ks, &self.from)?
        };
        let now = self.moving.now;
        self.frontier
            .placing()
            .arrive(self.ks, &mut self.to, counted, due, now)?;
        self.moving.moved += counted;
        Ok(())
    }
}
