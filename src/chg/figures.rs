//! Statistics of a frontier since it was opened, for `CHG.INFO`.

use super::time::Millis;

/// Number of seconds from which the rate is computed.
const SECONDS: usize = 10;

/// The actual pause between two fetches of a host, and the pause that was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Time from the end of one fetch to the start of the next.
    pub observed: Millis,
    /// Pause that the previous release requested.
    pub asked: Millis,
}

impl Pause {
    /// Returns the actual pause minus the requested pause. The result is negative if a worker
    /// fetched from the host too early.
    pub fn margin(self) -> i64 {
        self.observed as i64 - self.asked as i64
    }
}

/// Statistics since the frontier was opened. A frontier is opened at its first use after the server
/// started, or after its cache was dropped.
#[derive(Debug, Default)]
pub struct Figures {
    /// Number of URIs added.
    pub added: u64,
    /// Number of leases granted.
    pub leases: u64,
    /// Number of leases released.
    pub releases: u64,
    /// Number of leases that expired.
    pub expired: u64,
    /// Number of reports of expired leases that were dropped because the list was full.
    pub reports_dropped: u64,
    /// Number of pauses observed.
    pub pauses: u64,
    /// The shortest pause.
    pub shortest: Option<Pause>,
    /// The pause with the smallest margin.
    pub tightest: Option<Pause>,
    /// Leases in each of the last seconds, as pairs of second and count.
    recent: [(u64, u64); SECONDS],
}

impl Figures {
    /// Returns the numbers of URIs added, leases granted, leases released and leases expired.
    pub fn totals(&self) -> [u64; 4] {
        [self.added, self.leases, self.releases, self.expired]
    }

    /// Counts a lease and, if there was an earlier fetch, the pause before the lease.
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

    /// Returns the leases per second over the last full seconds.
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
