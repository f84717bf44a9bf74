//! The queue worker of the design document, for crawlers whose workers take groups from `chg_ready`
//! themselves. `CHG.SWEEP` moves due groups to `chg_ready`, in the order in which they became due.

use crawlspace_host::reply::Reply;

use super::error::Result;
use super::frontier::Frontier;
use super::groups::Loaded;
use super::job::{Job, Lent};
use super::store::Store;
use super::time::{Millis, of_score};
use super::transition::{Placement, Step};

/// Creates a job that moves at most `limit` groups that are due at `now`, from `chg_wait` and from expired
/// leases.
pub fn sweep<K: Store>(now: Millis, limit: u64) -> Job<K> {
    Job::new(async move |lent: Lent<K>| {
        let (mut from_wait, mut from_busy) = (0, 0);
        // Paused groups at the head of `chg_wait`. These groups keep their positions.
        let mut skipped = 0;
        let due = lent.with(|frontier, ks| frontier.queues.due_or_lapsed(ks, now))?;
        while from_wait + from_busy < limit {
            let first = lent.with(|frontier, ks| frontier.sweep_first(ks, skipped, now))?;
            match first {
                Swept::FromWait => from_wait += 1,
                Swept::FromBusy => from_busy += 1,
                Swept::Paused => skipped += 1,
                Swept::Blocked => {}
                Swept::Nothing => break,
            }
            lent.report(from_wait + from_busy, due.min(limit));
            lent.pause().await;
        }
        Ok(Reply::counts(&[from_wait, from_busy]))
    })
}

/// The result of a step of the sweep, for the group that was due first.
enum Swept {
    FromWait,
    FromBusy,
    /// The group is paused and keeps its position.
    Paused,
    /// The group is blocked and waits for the end of its block.
    Blocked,
    /// No group was due.
    Nothing,
}

impl<K: Store> Frontier<K> {
    /// Moves the group that has been due for longest to `chg_ready`. Ignores groups that were
    /// skipped at the head of `chg_wait`.
    fn sweep_first(&mut self, ks: &mut K, skipped: u64, now: Millis) -> Result<Swept> {
        self.evict_idle(ks, now)?;
        let due = |first: Option<(K::Value, f64)>| first.filter(|(_, at)| of_score(*at) <= now);
        let wait = due(ks.zset_at(&self.keys.once.wait, skipped)?);
        let busy = due(ks.zset_at(&self.keys.once.busy, 0)?);
        if let Some((id, at)) = &wait
            && busy.as_ref().is_none_or(|(_, lapsed)| at <= lapsed)
        {
            let id = id.as_ref();
            if self.make_ready(ks, id, now)? {
                return Ok(Swept::FromWait);
            }
            let stays = ks.zset_score(&self.keys.once.wait, id)?;
            let stays = stays.is_some_and(|score| of_score(score) <= now);
            return Ok(if stays { Swept::Paused } else { Swept::Blocked });
        }
        let Some((id, _)) = busy else {
            return Ok(Swept::Nothing);
        };
        let mut loaded = self.groups.load(ks, id.as_ref())?;
        self.end_expired_leases(ks, &mut loaded, now)?;
        Ok(Swept::FromBusy)
    }

    /// Moves a due group from `chg_wait` to `chg_ready`. If the group is blocked, changes its time to the end of
    /// the block instead. If the group is paused, leaves it in place. Returns false if the group is blocked or
    /// paused.
    fn make_ready(&mut self, ks: &mut K, id: &[u8], now: Millis) -> Result<bool> {
        let mut loaded = self.groups.load(ks, id)?;
        if loaded.missing.get() > 0 {
            self.groups.restore_leases(ks, &mut loaded, now)?;
            self.placing().save(ks, &loaded)?;
        }
        if loaded.group.options.paused {
            return Ok(false);
        }
        let closed = loaded.group.closed_until();
        if closed > now {
            let parked = Step::to(Placement::Reschedule(closed));
            self.placing().apply(ks, &mut loaded, &parked, now)?;
            return Ok(false);
        }
        self.queues.leave_wait(ks, id)?;
        ks.list_push(&self.keys.once.ready, id)?;
        Ok(true)
    }

    /// Ends the expired leases on a group, and makes the group ready if it has URIs left.
    pub(super) fn end_expired_leases(
        &mut self,
        ks: &mut K,
        loaded: &mut Loaded<K>,
        now: Millis,
    ) -> Result<()> {
        self.placing().reclaim(ks, loaded, now)?;
        let step = self.expire(ks, loaded, now)?;
        self.placing().apply(ks, loaded, &step, now)
    }
}
