//! Leases that run out: who notices them, and the reports of them. `SWEEP` and `EXPIRED`.

use redis_tests::Reply;

use crate::model::frontier_model::{Model, Verdict, must};
use crate::model::group::{Group, Held, NEVER, Place, Uri};

/// A lease that ran out and was not read yet.
#[derive(Clone, Debug)]
pub struct Report {
    pub chg: String,
    pub execution: Option<String>,
    pub uri: Option<String>,
    pub times: i64,
    /// When it was noticed, and the deadline.
    pub order: (u64, i64),
    /// The URI had been dropped: it may go unreported.
    pub optional: bool,
}

impl Report {
    fn reply(&self) -> Reply {
        let text = |text: &Option<String>| text.as_ref().map_or(Reply::Nil, redis_tests::bulk);
        Reply::Array(vec![
            redis_tests::bulk(&self.chg),
            text(&self.execution),
            text(&self.uri),
            Reply::Int(self.times),
        ])
    }
}

impl Model {
    /// A lease of this group ran out, and the server has noticed.
    pub fn notice(&mut self, chg: &str) {
        let (now, noticed, attempts) = (self.now, self.commands, self.attempts);
        let group = self.group(chg);
        let deadline = group.deadline().unwrap_or(now);
        let over = group.leases.iter().map(|lease| lease.deadline);
        let last = over.filter(|deadline| *deadline <= now).max();
        let reports = run_out(group, now, attempts);
        if group.leases.is_empty() && group.c() == 0 {
            group.settle_down();
        } else if group.leases.len() < group.parallel && group.place == Place::Nowhere {
            let due = group.due_of_all();
            if due <= now {
                group.or_n = last;
                group.n = deadline.max(due);
                group.place = Place::Ready;
                self.ready.push((chg.to_owned(), noticed, deadline));
            } else {
                // Held back by its gap only: it may as well be seen when it comes up.
                group.n = due;
                group.place = Place::Wait;
                group.score = None;
                group.turn = None;
                group.open = true;
            }
        }
        for (lease, times, optional) in reports {
            self.reports.push(Report {
                chg: chg.to_owned(),
                execution: lease.told.execution,
                uri: lease.told.uri,
                times,
                order: (noticed, deadline),
                optional,
            });
        }
    }

    pub fn sweep(&mut self, limit: Option<i64>, reply: &Reply) -> Verdict {
        let Reply::Array(items) = reply else {
            return Err(format!("two counts were to come: {reply:?}"));
        };
        let [Reply::Int(from_wait), Reply::Int(from_busy)] = items.as_slice() else {
            return Err(format!("two counts were to come: {reply:?}"));
        };
        let now = self.now;
        let (mut moves, mut loose) = (Vec::new(), Vec::new());
        for (chg, group) in &self.groups {
            let waits = group.place == Place::Wait && group.n <= now;
            let ran_out = group.has_run_out(now);
            // The gate may open in this very sweep, with a lease that ran out.
            let gated = group.place == Place::Gated;
            if !waits && !ran_out && !gated {
                continue;
            }
            if self.is_loose(group) {
                loose.push(chg.clone());
            } else if ran_out {
                moves.push((group.deadline().unwrap_or(0), 0.0, false, chg.clone()));
            } else {
                let score = group.score.unwrap_or(group.n as f64);
                moves.push((group.n, score - score.floor(), true, chg.clone()));
            }
        }
        moves.sort_by(|a, b| (a.0, a.2).cmp(&(b.0, b.2)).then(a.1.total_cmp(&b.1)));
        for chg in &loose {
            self.group(chg).open = true;
        }
        let limit = limit.unwrap_or(i64::MAX) as usize;
        // A group with several leases may be in both queues.
        let cut = moves.len() + 2 * loose.len() > limit;
        let extra = loose.len() as i64;
        if cut && (!loose.is_empty() || from_wait + from_busy != limit as i64) {
            must!(
                from_wait + from_busy <= limit as i64,
                "more were moved than asked for"
            );
        }
        if !cut {
            let waited = moves.iter().filter(|m| m.2).count() as i64;
            let ran_out = moves.len() as i64 - waited;
            must!(
                (waited..=waited + extra).contains(from_wait)
                    && (ran_out..=ran_out + extra).contains(from_busy),
                "[{waited}, {ran_out}] was to come (up to {extra} more), got {reply:?}"
            );
        }
        // Where the limit cuts a row of equals, or groups whose place is open count, the server
        // says which ones it took.
        let sure = match cut {
            false => NEVER,
            true if loose.is_empty() => moves[limit].0,
            true => 0,
        };
        for (time, _, waits, chg) in moves {
            let batch = self.commands;
            let group = self.group(&chg);
            if time >= sure {
                group.open = true;
            } else if waits {
                group.place = Place::Ready;
                self.ready.push((chg, batch, time));
            } else {
                self.notice(&chg);
            }
        }
        Ok(())
    }

    /// Notices at least the leases that it reports, and all when it reports fewer than asked for.
    pub fn expired(&mut self, count: usize, reply: &Reply) -> Verdict {
        let Reply::Array(told) = reply else {
            return Err(format!("an array was to come: {reply:?}"));
        };
        must!(told.len() <= count, "more than {count} reports");
        for item in told {
            let at = self.reports.iter().position(|r| r.reply() == *item);
            let at = at.map_or_else(|| self.notice_reported(item), Ok)?;
            let order = self.reports.remove(at).order;
            let earlier = |r: &Report| r.order < order;
            must!(
                !self.reports.iter().any(|r| earlier(r) && !r.optional),
                "{item:?} is not the oldest: {:?}",
                self.reports
            );
            self.reports.retain(|r| !earlier(r));
        }
        let now = self.now;
        let sure = self.reports.iter().find(|report| !report.optional);
        for (chg, group) in &mut self.groups {
            let left = group.has_run_out(now);
            must!(
                told.len() == count || !left && sure.is_none(),
                "the lease of {chg:?} was to be reported, or {sure:?}: {reply:?}"
            );
            group.open |= left;
        }
        Ok(())
    }

    /// A lease that is reported ran out: it is noticed by that. Where the report stands.
    fn notice_reported(&mut self, item: &Reply) -> Result<usize, String> {
        let none = || format!("nothing like {item:?} ran out");
        let Reply::Array(words) = item else {
            return Err(none());
        };
        let Some(Reply::Bulk(chg)) = words.first() else {
            return Err(none());
        };
        let chg = String::from_utf8_lossy(chg).into_owned();
        let now = self.now;
        let group = self.groups.get(&chg).filter(|g| g.has_run_out(now));
        let deadline = group.and_then(Group::deadline).ok_or_else(none)?;
        let over = self.groups.iter().filter(|(_, g)| g.has_run_out(now));
        let earlier = over.filter(|(_, g)| g.deadline() < Some(deadline));
        for (other, group) in earlier {
            must!(self.is_loose(group), "{other:?} ran out before {chg:?}");
        }
        self.notice(&chg);
        let same = |report: &Report| report.reply() == *item;
        self.reports.iter().position(same).ok_or_else(none)
    }
}

/// Ends the leases of a group that ran out: each with how many times, and whether its report may
/// be left out.
pub fn run_out(group: &mut Group, now: i64, attempts: i64) -> Vec<(Held, i64, bool)> {
    let over = |lease: &Held| lease.deadline <= now;
    let leases: Vec<Held> = group.leases.iter().filter(|l| over(l)).cloned().collect();
    group.leases.retain(|lease| !over(lease));
    let mut reports = Vec::new();
    for lease in leases {
        group.expired += 1;
        let (mut times, mut optional) = (group.expired, false);
        if lease.told.uri.is_some() {
            let mine = |uri: &Uri| uri.leased == Some(lease.token());
            match group.kept.iter().position(mine) {
                Some(at) => {
                    let uri = &mut group.kept[at];
                    uri.leased = None;
                    uri.attempts += 1;
                    times = uri.attempts;
                    if times >= attempts {
                        group.kept.remove(at);
                    }
                }
                None => (times, optional) = (lease.attempts + 1, true),
            }
        }
        if group.counted() > 0 {
            group.asked = 0;
        }
        reports.push((lease, times, optional));
    }
    group.forget_weights();
    reports
}
