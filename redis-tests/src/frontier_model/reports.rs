//! `SWEEP` and `EXPIRED`.

use super::queues::Score;
use super::words::Args;
use super::{FrontierModel, Outcome};
use crate::wire::{Reply, int};

impl FrontierModel {
    /// Moves due groups to `chg_ready`. The group that has been due for longest is the first.
    /// Paused groups keep their place, and blocked groups wait for the end of their block.
    pub(super) fn sweep(&mut self, args: &mut Args<'_>) -> Outcome {
        let limit = args.option("LIMIT", 1, i64::MAX)?.unwrap_or(i64::MAX);
        args.end()?;
        self.tidy();
        let now = self.now;
        let (mut from_wait, mut from_busy, mut passed) = (0, 0, 0);
        while from_wait + from_busy < limit {
            let wait = self.wait.nth(passed).filter(|(score, _)| score.ms <= now);
            let busy = self.busy.first().filter(|(deadline, _)| *deadline <= now);
            match (wait, busy) {
                (Some((score, chg)), busy)
                    if busy
                        .as_ref()
                        .is_none_or(|(deadline, _)| score <= Score::at(*deadline)) =>
                {
                    let group = self.group(&chg);
                    let closed = group.closed_until();
                    if group.options.paused {
                        passed += 1;
                    } else if closed > now {
                        group.ours = true;
                        self.wait_at(&chg, closed);
                    } else {
                        self.leave_wait(&chg);
                        self.ready.push_back(chg);
                        from_wait += 1;
                    }
                }
                (_, Some((_, chg))) => {
                    self.make_ready(&chg);
                    from_busy += 1;
                }
                (_, None) => break,
            }
        }
        Ok(Reply::Array(vec![int(from_wait), int(from_busy)]))
    }

    /// Returns the oldest reports. If there are too few, first ends expired leases that no command
    /// has noticed yet.
    pub(super) fn expired(&mut self, args: &mut Args<'_>) -> Outcome {
        let most = args.option("COUNT", 1, 1000)?.unwrap_or(100);
        args.end()?;
        self.tidy();
        for _ in 0..most {
            let Some((_, chg)) = self
                .busy
                .first()
                .filter(|(deadline, _)| *deadline <= self.now)
            else {
                break;
            };
            self.make_ready(&chg);
        }
        let most = self.reports.len().min(most as usize);
        Ok(Reply::Array(self.reports.drain(..most).collect()))
    }
}
