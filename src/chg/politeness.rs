//! Computes the pause after a fetch from a host.

use super::time::Millis;
pub use crawlspace_compact::limits::chg::MAX_BACKOFF;
use crawlspace_compact::limits::chg::{BACKOFF_BASE, MAX_STEPS, TROUBLE};

/// A decimal factor with three decimal places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factor {
    thousandths: u64,
}

impl Factor {
    /// The factor 1.
    pub const ONE: Factor = Factor { thousandths: 1000 };

    /// Parses a decimal number from 0 to 1000 with at most three decimal places.
    pub fn parse(text: &[u8]) -> Option<Factor> {
        let text = std::str::from_utf8(text).ok()?;
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(decimals) || whole.len() > 4 || decimals.len() > 3 {
            return None;
        }
        let scale = 10_u64.pow(3 - decimals.len() as u32);
        let thousandths = whole.parse::<u64>().ok()? * 1000 + decimals.parse::<u64>().ok()? * scale;
        (thousandths <= 1_000_000).then_some(Factor { thousandths })
    }

    fn of(self, ms: Millis) -> Millis {
        (u128::from(ms) * u128::from(self.thousandths)).div_ceil(1000) as Millis
    }
}

/// The properties of a fetch that determine the pause after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Duration of the fetch.
    pub elapsed: Millis,
    /// Ratio of the pause to the duration of the fetch.
    pub factor: Factor,
    /// Minimum pause.
    pub min: Millis,
    /// Maximum pause that results from `elapsed` and `factor`.
    pub max: Option<Millis>,
    /// Pause that robots.txt requests (`Crawl-delay`), in milliseconds. May be out of range until
    /// [`Facts::clamp_requests`] is called.
    pub crawl_delay: i64,
    /// Pause that the response requests (`Retry-After`, RFC 9110 section 10.2.3), in milliseconds
    /// from now. May be out of range until [`Facts::clamp_requests`] is called.
    pub retry_after: i64,
    /// Status of the response; negative if there was no response.
    pub status: Option<i64>,
}

impl Facts {
    /// Clamps the pauses that the host requests to the range from 0 to `longest`. Returns the number
    /// of pauses that were out of range.
    pub fn clamp_requests(&mut self, longest: Millis) -> u64 {
        let longest = i64::try_from(longest).unwrap_or(i64::MAX);
        let mut clamped = 0;
        for requested in [&mut self.crawl_delay, &mut self.retry_after] {
            let within = (*requested).clamp(0, longest);
            clamped += u64::from(within != *requested);
            *requested = within;
        }
        clamped
    }
}

/// The back-off after consecutive failures of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    /// Number of steps so far. Each step doubles the pause.
    pub steps: u32,
    /// Time of the last step. A failed fetch that began before this time does not add a step.
    pub since: Millis,
}

/// Returns true for a status after which the group must back off: too many requests, a gateway or
/// service that is down, an exceeded bandwidth limit, an error of a CDN whose origin server is
/// down, or no response at all. Other errors concern a single page.
fn is_trouble(status: i64) -> bool {
    status < 0 || TROUBLE.iter().any(|range| range.contains(&status))
}

/// Returns the pause after a fetch that began at `begun` and ended at `now`, and the new back-off.
pub fn pause(facts: &Facts, before: Backoff, begun: Millis, now: Millis) -> (Millis, Backoff) {
    let longest = facts.max.unwrap_or(Millis::MAX).max(facts.min);
    let own = facts.factor.of(facts.elapsed).clamp(facts.min, longest);
    let requested = facts.crawl_delay.max(facts.retry_after);
    let asked = own.max(Millis::try_from(requested).unwrap_or(0));
    match facts.status {
        Some(status) if is_trouble(status) => {
            let same_incident = before.steps > 0 && begun < before.since;
            let after = if same_incident {
                before
            } else {
                Backoff {
                    steps: (before.steps + 1).min(MAX_STEPS),
                    since: now,
                }
            };
            let doubled = own.max(BACKOFF_BASE).saturating_mul(1 << after.steps);
            (asked.max(doubled.min(MAX_BACKOFF)), after)
        }
        Some(_) => (asked, Backoff::default()),
        None => (asked, before),
    }
}

/// The time at which a group becomes due again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The time itself.
    At(Millis),
    /// This number of milliseconds from now.
    Delay(Millis),
    /// After a pause that is computed from the fetch and is at least the stored delay of the group.
    Facts(Facts),
    /// After the stored delay of the group.
    Stored,
}

impl When {
    /// Returns the HTTP status of the fetch, 0 to 999, if the client sent one.
    pub(super) fn status(&self) -> Option<u16> {
        let When::Facts(facts) = self else {
            return None;
        };
        u16::try_from(facts.status?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: Facts = Facts {
        elapsed: 400,
        factor: Factor { thousandths: 5000 },
        min: 500,
        max: Some(30_000),
        crawl_delay: 0,
        retry_after: 0,
        status: Some(200),
    };

    fn pause_of(facts: Facts) -> Millis {
        pause(&facts, Backoff::default(), 0, 400).0
    }

    #[test]
    fn a_pause_is_elapsed_time_times_factor_between_min_and_max() {
        assert_eq!(pause_of(FACTS), 2000);
        assert_eq!(
            pause_of(Facts {
                elapsed: 1,
                ..FACTS
            }),
            500
        );
        assert_eq!(
            pause_of(Facts {
                elapsed: 60_000,
                ..FACTS
            }),
            30_000
        );
        let factor = Factor::parse(b"0.333").unwrap();
        assert_eq!(
            pause_of(Facts {
                factor,
                min: 0,
                ..FACTS
            }),
            134
        );
    }

    #[test]
    fn requests_out_of_range_are_clamped_and_counted() {
        let mut facts = Facts {
            crawl_delay: -1,
            retry_after: i64::MAX,
            ..FACTS
        };
        assert_eq!(facts.clamp_requests(1000), 2);
        assert_eq!((facts.crawl_delay, facts.retry_after), (0, 1000));
        assert_eq!(facts.clamp_requests(1000), 0);
    }

    #[test]
    fn what_the_host_asks_for_goes_beyond_max() {
        assert_eq!(
            pause_of(Facts {
                crawl_delay: 45_000,
                ..FACTS
            }),
            45_000
        );
        assert_eq!(
            pause_of(Facts {
                retry_after: 90_000,
                ..FACTS
            }),
            90_000
        );
        assert_eq!(
            pause_of(Facts {
                crawl_delay: 10,
                ..FACTS
            }),
            2000
        );
    }

    #[test]
    fn back_off_takes_one_step_an_incident() {
        let trouble = Facts {
            status: Some(503),
            ..FACTS
        };
        let (first, after) = pause(&trouble, Backoff::default(), 600, 1000);
        assert_eq!((first, after.steps), (4000, 1));
        // A second fetch from the same host was running when the first fetch failed.
        let (same, after) = pause(&trouble, after, 900, 1300);
        assert_eq!((same, after.steps), (4000, 1));
        let (next, after) = pause(&trouble, after, 6000, 6400);
        assert_eq!((next, after.steps), (8000, 2));
        let unknown = Facts {
            status: None,
            ..FACTS
        };
        assert_eq!(pause(&unknown, after, 9000, 9400), (2000, after));
        let (well, after) = pause(&FACTS, after, 9000, 9400);
        assert_eq!((well, after), (2000, Backoff::default()));
    }

    #[test]
    fn back_off_ends_at_a_day() {
        let gone = Facts {
            status: Some(-2),
            ..FACTS
        };
        let mut backoff = Backoff::default();
        for n in 0..100 {
            let (ms, after) = pause(&gone, backoff, n * 10, n * 10 + 1);
            assert!(ms <= MAX_BACKOFF);
            backoff = after;
        }
        assert_eq!(pause(&gone, backoff, 5000, 5001).0, MAX_BACKOFF);
    }

    #[test]
    fn factors_are_plain_decimals() {
        for bad in [
            "", ".5", "5.", "-1", "1e3", "1000.001", "1.2345", "x", "12345",
        ] {
            assert_eq!(Factor::parse(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(Factor::parse(b"1"), Some(Factor::ONE));
        assert_eq!(Factor::parse(b"1.5").unwrap().of(3), 5);
    }
}
