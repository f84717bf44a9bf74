//! What must hold whenever everything is counted, and at the end.

use super::super::{EXECUTIONS, FAIR, HALTING, Report};
use super::{Book, Shares, State, Uri, id, number_of};
use crate::wire::Reply;

impl Book {
    /// Reports of leases that ran out; how many.
    pub fn reported(&mut self, now: i64, reply: &Reply) -> usize {
        let Reply::Array(reports) = reply else {
            self.fault(format!("EXPIRED: {reply:?}"));
            return 0;
        };
        for report in reports {
            self.one_report(now, report);
        }
        reports.len()
    }

    fn one_report(&mut self, now: i64, report: &Reply) {
        let [chg, execution, uri, times] = report.items() else {
            return self.fault(format!("an odd report: {report:?}"));
        };
        let group = number_of(&chg.text());
        let Some(group) = group.filter(|&g| g < self.groups.len()) else {
            return self.fault(format!("a report of a strange group: {report:?}"));
        };
        self.run_out(now, group);
        let number = match uri {
            Reply::Nil => None,
            uri => uri.text().rsplit('/').next().and_then(|n| n.parse().ok()),
        };
        let unreported = &mut self.groups[group].unreported;
        let Some(at) = unreported.iter().position(|uri| *uri == number) else {
            return self.fault(format!("nothing ran out: {report:?}"));
        };
        unreported.remove(at);
        let Some(number) = number else {
            if !execution.is_nil() {
                self.fault(format!("whose is it? {report:?}"));
            }
            return;
        };
        let uri = &self.uris[number];
        let right = execution.text() == EXECUTIONS[usize::from(uri.execution)].0;
        // It may have run out again meanwhile.
        let times = times.int();
        if !right || times < 1 || times > i64::from(uri.attempts) {
            let attempts = uri.attempts;
            self.fault(format!("{attempts} attempts: {report:?}"));
        }
    }

    /// What the sums must be. Leases that have run out must have been reported before.
    pub fn sums(&mut self, now: i64) -> [i64; 3] {
        for group in 0..self.groups.len() {
            self.run_out(now, group);
        }
        let unreported = self.groups.iter().filter(|g| !g.unreported.is_empty());
        let unreported = unreported.count();
        if unreported > 0 {
            self.fault(format!(
                "leases of {unreported} groups ran out without a report"
            ));
        }
        [self.queued; 3]
    }

    /// `c` of a group at a checkpoint.
    pub fn counted(&mut self, group: usize, c: i64) {
        let known = self.groups[group].c;
        if c != known && self.wrong.len() < 20 {
            self.fault(format!("{} has c {c}, not {known}", id(group)));
        }
    }

    /// The end: every URI is done or given up, shares were as the weights say, and everything that
    /// was to happen did.
    pub fn close(mut self, elapsed: i64) -> Result<Report, String> {
        let open = |uri: &&Uri| matches!(uri.state, State::Queued | State::Leased);
        let open = self.uris.iter().filter(open).count();
        if open > 0 {
            self.fault(format!("{open} URIs are lost"));
        }
        self.report.seconds = elapsed / 1000;
        self.report.share_deviation = self.share_deviation();
        if self.report.share_deviation > FAIR {
            let off = self.report.share_deviation;
            self.fault(format!("a share is off by {off:.2} %"));
        }
        let r = &self.report;
        let happened = [
            ("leases that ran out", r.expired),
            ("stale releases", r.stale),
            ("repeated releases", r.repeated),
            ("extensions", r.extended),
            ("blocks", r.blocked),
            ("URIs given up", r.given_up),
            ("known additions", r.known),
            ("leases behind shared gates", r.gated),
            ("parallel leases", r.parallel),
        ];
        for (what, times) in happened {
            if times == 0 {
                self.fault(format!("there were no {what}: nothing was tested"));
            }
        }
        if self.wrong.is_empty() {
            Ok(self.report)
        } else {
            Err(self.wrong.join("\n"))
        }
    }

    /// The largest deviation of an execution's share of a large group, in percent.
    fn share_deviation(&self) -> f64 {
        let weights: u32 = EXECUTIONS[..HALTING].iter().map(|(_, w)| w).sum();
        let shares = self.groups.iter().filter_map(|g| g.shares.as_deref());
        let deviation = |shares: &Shares| {
            let all: u32 = shares.leases.iter().sum();
            let of = |(leases, (_, weight)): (&u32, &(&str, u32))| {
                let share = f64::from(*leases) / f64::from(all.max(1));
                100.0 * (share - f64::from(*weight) / f64::from(weights)).abs()
            };
            let each = shares.leases[..HALTING].iter().zip(&EXECUTIONS[..HALTING]);
            each.map(of).fold(0.0, f64::max)
        };
        shares.map(deviation).fold(0.0, f64::max)
    }
}
