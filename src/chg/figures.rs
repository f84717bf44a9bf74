//! What happened in a frontier since it was opened: for `CHG.INFO`.

use super::time::Millis;

/// Over how many seconds the rate is taken.
const SECONDS: usize = 10;

/// The pause that a host saw, and what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// From the end of one fetch to the start of the next.
    pub observed: Millis,
    /// What the release before asked for.
    pub asked: Millis,
}

impl Pause {
    /// How much longer it was than asked; negative when a host was fetched from too soon.
    pub fn margin(self) -> i64 {
        self.observed as i64 - self.asked as i64
    }
}

/// Counts since the frontier was opened, which is at the latest when the server started.
#[derive(Debug, Default)]
pub struct Figures {
    /// URIs taken in.
    pub added: u64,
    /// Leases granted.
    pub leases: u64,
    /// Leases released.
    pub releases: u64,
    /// Leases that ran out.
    pub expired: u64,
    /// Reports of them that were not kept, because nobody read the others.
    pub reports_dropped: u64,
    /// Pauses seen.
    pub pauses: u64,
    /// The shortest of them.
    pub shortest: Option<Pause>,
    /// The one that was least longer than asked.
    pub tightest: Option<Pause>,
    /// Leases in each of the last seconds: which second, and how many.
    recent: [(u64, u64); SECONDS],
}

impl Figures {
    /// URIs taken in, leases granted, leases released, leases that ran out.
    pub fn totals(&self) -> [u64; 4] {
        [self.added, self.leases, self.releases, self.expired]
    }

    /// Counts a lease, and the pause before it if there was a fetch before.
    pub fn lease(&mut self, now: Millis, pause: Option<Pause>) {
        self.leases += 1;
        let second = now / 1000;
        let slot = &mut self.recent[(second % SECONDS as u64) as usize];
        if slot.0 != second {
            *slot = (second, 0);
        }
        slot.1 += 1;
        let Some(pause) = pause else { return };
        self.pauses += 1;
        if self
            .shortest
            .is_none_or(|least| pause.observed < least.observed)
        {
            self.shortest = Some(pause);
        }
        if self
            .tightest
            .is_none_or(|least| pause.margin() < least.margin())
        {
            self.tightest = Some(pause);
        }
    }

    /// Leases a second over the last full seconds.
    pub fn rate(&self, now: Millis) -> u64 {
        let second = now / 1000;
        let recent = self.recent.iter();
        let leases: u64 = recent
            .filter(|(at, _)| *at < second && *at + SECONDS as u64 > second)
            .map(|(_, n)| n)
            .sum();
        leases / (SECONDS as u64 - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let mut figures = Figures::default();
        for ms in (0..60_000).step_by(10) {
            figures.lease(ms, None);
        }
        assert_eq!((figures.leases, figures.rate(60_000)), (6000, 100));
        assert_eq!(figures.rate(90_000), 0);
    }

    #[test]
    fn the_tightest_pause_need_not_be_the_shortest() {
        let mut figures = Figures::default();
        let short = Pause {
            observed: 100,
            asked: 50,
        };
        let tight = Pause {
            observed: 1000,
            asked: 999,
        };
        figures.lease(0, Some(short));
        figures.lease(0, Some(tight));
        assert_eq!(
            (figures.shortest, figures.tightest),
            (Some(short), Some(tight))
        );
    }
}
