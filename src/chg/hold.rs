//! Holds groups back as operators and crawlers request: blocks, pauses, limits, shared gates.

use crawlspace_host::reply::Reply;

use super::error::{Error, Result};
use super::frontier::Frontier;
pub use super::group::Limits;
use super::job::{Job, Lent};
use super::pauses::Paused;
use super::store::Store;
use super::time::Millis;
use super::transition::{Event, Placement, Seen, Step};

/// The target of a pause or resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// A single group.
    Group(&'a [u8]),
    /// A single crawl execution.
    Execution(&'a [u8]),
}

/// Pauses or resumes an execution. Before a pause takes effect, the job finds the groups that
/// searches will have to skip. It does so in slices, so that the first search after the pause is
/// fast. Until the pause takes effect, groups are leased as usual.
pub fn pause_execution<K: Store>(execution: &[u8], pause: bool, now: Millis) -> Job<K> {
    let execution = execution.to_vec();
    Job::new(async move |lent: Lent<K>| {
        let (paused, due) = lent.with(|frontier, ks| {
            if !pause {
                frontier.drops.unmark(ks, &execution)?;
            }
            let mut paused = Paused::clone(&*frontier.pauses.read(ks)?);
            let changes = if pause {
                paused.executions.insert(execution.clone())
            } else {
                paused.executions.remove(&execution)
            };
            let due = if changes {
                frontier.queues.due(ks, now)?
            } else {
                0
            };
            frontier.queues.skipped.begin();
            Ok::<_, Error>((paused, due))
        })?;
        let mut seen = 0;
        lent.slices(|frontier, ks, time| {
            // If groups become due while the job runs, later searches handle them.
            while seen < due {
                let skipped = frontier.look_ahead(ks, &paused, now)?;
                if skipped == 0 {
                    break;
                }
                seen += skipped;
                lent.report(seen, due);
                if !time() {
                    return Ok(false);
                }
            }
            if frontier.pauses.set(ks, Some(&execution), pause)? {
                frontier.queues.skipped.install();
            }
            frontier.queues.skipped.end();
            Ok::<_, Error>(true)
        })
        .await?;
        Ok(Reply::Ok)
    })
}

impl<K: Store> Frontier<K> {
    /// Blocks fetches from a group until a time. A time in the past ends the block.
    ///
    /// # Errors
    /// `NOCHG` if the group is unknown.
    pub fn block(&mut self, ks: &mut K, id: &[u8], until: Millis, now: Millis) -> Result<()> {
        let mut loaded = self.groups.known(ks, id)?;
        self.placing().reclaim(ks, &mut loaded, now)?;
        let seen = Seen::at(now, self.groups.stock(ks, &loaded)?);
        let step = loaded.group.on(Event::Blocked { until }, &seen);
        self.placing().apply(ks, &mut loaded, &step, now)
    }

    /// Pauses or resumes a group.
    ///
    /// # Errors
    /// `NOCHG` if the group is unknown.
    pub fn pause_group(&mut self, ks: &mut K, id: &[u8], pause: bool, now: Millis) -> Result<()> {
        let mut loaded = self.groups.known(ks, id)?;
        self.placing().reclaim(ks, &mut loaded, now)?;
        loaded.group.options.paused = pause;
        self.placing().save(ks, &loaded)
    }

    /// Sets limits of a group. The group may be unknown to the frontier.
    ///
    /// # Errors
    /// `WRONGTYPE` if a key holds another type; any server error.
    pub fn limit(&mut self, ks: &mut K, id: &[u8], limits: &Limits, now: Millis) -> Result<()> {
        let mut loaded = self.groups.load(ks, id)?;
        self.placing().reclaim(ks, &mut loaded, now)?;
        let seen = Seen::at(now, self.groups.stock(ks, &loaded)?);
        let step = loaded.group.on(Event::Limited(limits), &seen);
        self.placing().place(ks, &mut loaded, &step, now)?;
        self.placing().save_options(ks, &loaded)
    }

    /// Puts groups behind one gate. An empty gate name removes the groups from their gates. The
    /// groups may be unknown to the frontier.
    ///
    /// # Errors
    /// `WRONGTYPE` if a key holds another type; any server error.
    pub fn group(&mut self, ks: &mut K, gate: &[u8], ids: &[&[u8]], now: Millis) -> Result<()> {
        for id in ids {
            let mut loaded = self.groups.load(ks, id)?;
            self.placing().reclaim(ks, &mut loaded, now)?;
            if loaded.group.options.gate == gate {
                continue;
            }
            let before = self.gates.closed_until(ks, &loaded.group.options.gate)?;
            let stood_behind = self.placing().leave_gate(ks, &mut loaded)?;
            let old = std::mem::replace(&mut loaded.group.options.gate, gate.to_vec());
            if !old.is_empty() && !loaded.group.holds.is_empty() {
                // The leases on the group kept the old gate closed, so remove them from it.
                self.placing().update_gate(ks, &old, &mut loaded, now)?;
            }
            let due = self.groups.due_of(ks, &loaded)?.max(now);
            let placement = if stood_behind && loaded.group.is_runnable() {
                Placement::Wait(due)
            } else if loaded.group.due == before {
                Placement::Reschedule(due)
            } else {
                Placement::Stay
            };
            self.placing()
                .place(ks, &mut loaded, &Step::to(placement), now)?;
            self.placing().save_options(ks, &loaded)?;
            // The leases or the pause of the group also close the new gate.
            let closes = !loaded.group.holds.is_empty() || loaded.group.gate > now;
            if closes && !gate.is_empty() {
                let pause = loaded.group.gate.max(now);
                self.placing().update_gate(ks, gate, &mut loaded, pause)?;
            }
        }
        Ok(())
    }
}
