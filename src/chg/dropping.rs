//! `CHG.DROP`: removes the URIs of an aborted crawl from all groups, or the URIs of all crawls from
//! one group. The first form also refuses new URIs of the execution until the leases of workers
//! that may not know about the drop have ended. After the second form, the crawls continue.

use std::sync::Arc;

use crawlspace_host::reply::Reply;

use super::error::{Error, Result};
use super::frontier::Frontier;
use super::job::{Job, Lent, Scan};
use super::keys::COUNTED;
use super::store::Store;
use super::time::Millis;
use super::transition::{Event, Seen};
use super::uris::{Changed, Op, Stock};

/// Maximum number of URIs that are removed from one group at a time.
const BATCH: u64 = 32;

/// Number of groups and URIs that a job has removed.
#[derive(Default)]
struct Dropped {
    /// Number of groups of an execution, or of executions of a group, from which URIs were removed.
    touched: u64,
    uris: u64,
}

impl Dropped {
    /// Removes all URIs of an execution from a group, in batches. With `aborts`, refuses new URIs
    /// of the execution while workers hold leases on its URIs.
    async fn take_out<K: Store>(
        &mut self,
        lent: &Lent<K>,
        (group, execution): (&[u8], &[u8]),
        aborts: bool,
        now: Millis,
    ) -> Result<()> {
        let (mut dropped, mut more) = (0_u64, true);
        while more {
            let gone;
            (gone, more) =
                lent.with(|frontier, ks| frontier.drop_some(ks, group, execution, aborts, now))?;
            dropped = dropped.saturating_add(gone);
            lent.pause().await;
        }
        self.touched += u64::from(dropped > 0);
        self.uris = self.uris.saturating_add(dropped);
        Ok(())
    }

    fn reply(&self) -> Reply {
        Reply::counts(&[self.touched, self.uris])
    }
}

/// Creates a job that removes the URIs of an execution from all groups. A URI that is being fetched
/// is no longer counted, but its group stays leased.
pub fn drop_execution<K: Store>(execution: &[u8], now: Millis) -> Job<K> {
    let execution: Arc<[u8]> = execution.into();
    Job::new(async move |lent: Lent<K>| {
        let (key, queued) = lent.with(|frontier, ks| {
            frontier.drops.begin(&execution);
            let queued = frontier.ledger.queued_of(ks, &execution)?;
            Ok::<_, Error>((frontier.keys.groups_of(ks, &execution), queued))
        })?;
        let mut groups = Scan::hash(&lent, key);
        let mut dropped = Dropped::default();
        while let Some(batch) = groups.next().await? {
            for (group, _) in batch.iter() {
                let of = (group, &execution[..]);
                dropped.take_out(&lent, of, true, now).await?;
                lent.report(dropped.uris, queued);
            }
        }
        lent.with(|frontier, ks| {
            let numbers = frontier.keys.sequence_key(ks, &execution);
            ks.delete(&numbers)?;
            if frontier.pauses.set(ks, Some(&execution), false)? {
                frontier.queues.search_from_head();
            }
            Ok::<_, Error>(())
        })?;
        Ok(dropped.reply())
    })
}

/// Creates a job that removes all URIs from a group, stored URIs first. URIs that are being fetched
/// are no longer counted, but the group stays leased.
pub fn empty_group<K: Store>(group: &[u8], now: Millis) -> Job<K> {
    let group = group.to_vec();
    Job::new(async move |lent: Lent<K>| {
        let mut dropped = Dropped::default();
        let mut from = 0;
        while let Some((next, execution)) =
            lent.with(|frontier, ks| frontier.groups.next_kept(ks, &group, from))?
        {
            from = next;
            let of = (&group[..], &execution[..]);
            dropped.take_out(&lent, of, false, now).await?;
        }
        let Some(loaded) = lent.with(|frontier, ks| frontier.groups.load_sound(ks, &group))? else {
            return Ok(dropped.reply());
        };
        let mut fields = Scan::hash(&lent, loaded.key);
        while let Some(batch) = fields.next().await? {
            for (field, _) in batch.iter() {
                if let Some(execution) = field.strip_prefix(COUNTED) {
                    let of = (&group[..], execution);
                    dropped.take_out(&lent, of, false, now).await?;
                }
            }
        }
        Ok(dropped.reply())
    })
}

impl<K: Store> Frontier<K> {
    /// Removes some URIs of an execution from a group. Returns the number of removed URIs, and true
    /// if there are more. With `aborts`, refuses new URIs of the execution while workers hold
    /// leases on its URIs.
    fn drop_some(
        &mut self,
        ks: &mut K,
        id: &[u8],
        execution: &[u8],
        aborts: bool,
        now: Millis,
    ) -> Result<(u64, bool)> {
        // A key of another type does not contain URIs.
        let Some(mut loaded) = self.groups.load_sound(ks, id)? else {
            return Ok((0, false));
        };
        self.placing().reclaim(ks, &mut loaded, now)?;
        let key = self.keys.uris_key(ks, id);
        let counted = self.ledger.counted(ks, &loaded.key, execution)?;
        if aborts {
            let leased = self
                .groups
                .leased_until(ks, &loaded, execution, counted > 0)?;
            let freed = self.later.last_of(ks, &self.groups, &loaded, execution)?;
            if let Some(until) = leased.max(freed).filter(|&until| until > now) {
                self.drops.mark(ks, execution, until)?;
            }
        }
        let has = ks.uris(&key, |uris| uris.count_of(execution))?;
        let drop = Op::Drop {
            execution,
            limit: BATCH,
        };
        let kept = match has {
            Some(1..) => match ks.change_uris(&key, &drop)? {
                Changed::Removed(n) => n,
                _ => 0,
            },
            _ => 0,
        };
        self.groups.clear_ended(ks, &loaded)?;
        let gone = (kept + counted).min(loaded.group.uris);
        let more = has.unwrap_or(0) > kept;
        if !more {
            self.ledger.delist(ks, execution, id)?;
        }
        if kept + counted == 0 {
            return Ok((0, more));
        }
        self.ledger
            .count(ks, &loaded.key, execution, -(counted as i64))?;
        self.ledger.tally(ks, execution, -(gone as i64))?;
        let mut seen = Seen::at(now, Stock::default());
        seen.away = self.groups.away_without(ks, &loaded, &[])?;
        let step = loaded.group.on(Event::Dropped { uris: gone }, &seen);
        self.placing().apply(ks, &mut loaded, &step, now)?;
        Ok((gone, more))
    }
}

#[cfg(test)]
mod tests {
    use super::super::add::{Kept, Queued};
    use super::super::job::Step;
    use super::*;
    use crate::chg::store::MemoryKeyspace;

    #[test]
    fn only_groups_of_the_execution_are_looked_at() {
        let mut ks = MemoryKeyspace::default();
        let mut frontier = Frontier::open(&mut ks, b"{f}:");
        for n in 0..500 {
            let chg = format!("other-{n}");
            let queued = Queued {
                chg: chg.as_bytes(),
                at: 1,
            };
            frontier.add(&mut ks, b"x", None, &[queued], 1).unwrap();
        }
        for chg in [&b"a"[..], b"b", b"other-7"] {
            let queued = Queued { chg, at: 1 };
            let kept = Kept {
                chg,
                at: 1,
                depth: 0,
                uri: b"u",
            };
            frontier.add(&mut ks, b"y", None, &[queued], 1).unwrap();
            frontier.add_kept(&mut ks, b"y", None, &[kept], 1).unwrap();
        }
        let mut drop = drop_execution(b"y", 1);
        let mut steps = 1;
        let done = loop {
            match drop.step(&mut frontier, &mut ks, &mut || false).unwrap() {
                Step::More => steps += 1,
                Step::Done(reply) => break reply,
            }
        };
        assert_eq!(done, Reply::counts(&[3, 6]));
        assert!(steps <= 4, "{steps} steps");
        let left = ks
            .keys
            .keys()
            .filter(|key| key.starts_with(b"{f}:chg_of:y"));
        assert_eq!(left.count(), 0);
    }
    #[test]
    fn what_is_added_while_a_crawl_is_dropped_is_not_taken_in() {
        let mut ks = MemoryKeyspace::default();
        let mut frontier = Frontier::open(&mut ks, b"{f}:");
        let add = |frontier: &mut Frontier<MemoryKeyspace>, ks: &mut _, chg: &str| {
            let kept = Kept {
                chg: chg.as_bytes(),
                at: 1,
                depth: 0,
                uri: b"u",
            };
            frontier.add_kept(ks, b"y", None, &[kept], 1).unwrap()[0]
        };
        for n in 0..20 {
            assert_eq!(add(&mut frontier, &mut ks, &format!("h{n}")), Some(1));
        }
        let mut drop = drop_execution(b"y", 1);
        let mut steps = 0;
        let done = loop {
            match drop.step(&mut frontier, &mut ks, &mut || false).unwrap() {
                Step::More => {
                    // Add URIs to a group that the job has passed, to a group that it has not
                    // reached, and to a new group.
                    frontier.invalidate();
                    for n in 0..25 {
                        assert_eq!(add(&mut frontier, &mut ks, &format!("h{n}")), None);
                    }
                    steps += 1;
                }
                Step::Done(reply) => break reply,
            }
        };
        assert!(steps > 10, "{steps} steps");
        assert_eq!(done, Reply::counts(&[20, 20]));
        // A job that has ended or was abandoned does not refuse new URIs.
        std::mem::drop(drop);
        assert_eq!(add(&mut frontier, &mut ks, "h3"), Some(1));
        let mut given_up = drop_execution(b"y", 1);
        given_up
            .step(&mut frontier, &mut ks, &mut || false)
            .unwrap();
        std::mem::drop(given_up);
        assert_eq!(add(&mut frontier, &mut ks, "h4"), Some(1));
    }
}
