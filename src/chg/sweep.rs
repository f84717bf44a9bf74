//! The seed's queue worker, for crawlers whose workers pop `chg_ready` themselves: what is due moves
//! there, in the order in which it became due.

use crawlspace_host::reply::Reply;

use super::error::Result;
use super::frontier::{Frontier, Loaded};
use super::job::{Job, Step, Time};
use super::store::Store;
use super::time::{Millis, of_score};

/// Moves groups that are due, from `chg_wait` and from leases that ran out.
#[derive(Debug)]
pub struct Sweep {
    now: Millis,
    left: u64,
    from_wait: u64,
    from_busy: u64,
    /// Paused groups at the head of `chg_wait`, which stay.
    skipped: u64,
}

impl Sweep {
    /// Of at most `limit` groups that are due at `now`.
    pub fn new(now: Millis, limit: u64) -> Sweep {
        Sweep {
            now,
            left: limit,
            from_wait: 0,
            from_busy: 0,
            skipped: 0,
        }
    }

    fn done(&self) -> Step {
        Step::Done(Reply::counts(&[self.from_wait, self.from_busy]))
    }
}

impl<K: Store> Job<K> for Sweep {
    fn step(&mut self, frontier: &mut Frontier<K>, ks: &mut K, time: Time<'_>) -> Result<Step> {
        frontier.tidy(ks, self.now)?;
        let due = |first: Option<(K::Value, f64)>, now: Millis| {
            first.filter(|(_, score)| of_score(*score) <= now)
        };
        while self.left > 0 {
            let wait = due(ks.zset_at(&frontier.names.wait, self.skipped)?, self.now);
            let busy = due(ks.zset_at(&frontier.names.busy, 0)?, self.now);
            let at = |first: &Option<(K::Value, f64)>| first.as_ref().map(|(_, score)| *score);
            let waits_longer = match (at(&wait), at(&busy)) {
                (None, None) => return Ok(self.done()),
                (Some(wait), Some(busy)) => wait <= busy,
                (wait, _) => wait.is_some(),
            };
            if waits_longer {
                let Some((id, _)) = wait else { continue };
                if frontier.raise(ks, id.as_ref(), self.now)? {
                    self.from_wait += 1;
                    self.left -= 1;
                } else if ks
                    .zset_score(&frontier.names.wait, id.as_ref())?
                    .is_some_and(|score| of_score(score) <= self.now)
                {
                    self.skipped += 1;
                }
            } else if let Some((id, _)) = busy {
                let mut loaded = frontier.load(ks, id.as_ref())?;
                frontier.make_ready(ks, &mut loaded, self.now)?;
                self.from_busy += 1;
                self.left -= 1;
            }
            if !time() {
                return Ok(Step::More);
            }
        }
        Ok(self.done())
    }
}

impl<K: Store> Frontier<K> {
    /// Moves a due group from `chg_wait` to `chg_ready`. One that is blocked moves to the end of its
    /// block instead, and one that is paused stays; then false.
    fn raise(&mut self, ks: &mut K, id: &[u8], now: Millis) -> Result<bool> {
        let mut loaded = self.load(ks, id)?;
        if loaded.missing.get() > 0 {
            self.restore_leases(ks, &mut loaded, now)?;
            self.save(ks, &loaded)?;
        }
        if loaded.group.options.paused {
            return Ok(false);
        }
        let closed = loaded.group.closed_until();
        if closed > now {
            loaded.group.due = closed;
            self.wait(ks, id, closed as f64)?;
            self.save(ks, &loaded)?;
            return Ok(false);
        }
        self.leave_wait(ks, id)?;
        ks.list_push(&self.names.ready, id)?;
        Ok(true)
    }

    /// Ends the leases of a group that have run out, and makes it ready if it has anything left.
    pub(super) fn make_ready(
        &mut self,
        ks: &mut K,
        loaded: &mut Loaded<K>,
        now: Millis,
    ) -> Result<()> {
        self.reclaim(ks, loaded, now)?;
        let was_queued = loaded.group.stands_beside_leases();
        self.expire(ks, loaded, now)?;
        if loaded.group.is_idle() && loaded.group.known {
            return self.rest(ks, loaded, now);
        }
        if !was_queued && (loaded.group.is_runnable() || !loaded.group.ours) {
            ks.list_push(&self.names.ready, &loaded.id)?;
        }
        self.save(ks, loaded)
    }
}
