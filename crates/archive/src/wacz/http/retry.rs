//! How long a server is borne.

use std::time::{Duration, Instant};

use crate::wacz::{Options, Problem};

/// What has to come for the count of failures to begin anew, in bytes.
const PROGRESS: u64 = 1 << 20;
/// The longest pause between two attempts, also when a server wants a longer one.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Over which time the pace of a body is looked at.
const PACE_WINDOW: Duration = Duration::from_secs(60);

/// Statuses that say "not now": whoever asks again may get another answer.
pub const RETRIED_STATUSES: [u16; 6] = [408, 425, 429, 502, 503, 504];

/// Counts the failures in a row.
#[derive(Debug)]
pub(super) struct Retries {
    failures: u32,
    most: u32,
    pause: Duration,
    progress: u64,
}

impl Retries {
    pub(super) fn new(options: &Options) -> Retries {
        Retries {
            failures: 0,
            most: options.retries,
            pause: options.pause,
            progress: 0,
        }
    }

    /// Counts `bytes` received: after enough of them, failures are counted from zero again.
    pub(super) fn progress(&mut self, bytes: usize) {
        self.progress += bytes as u64;
        if self.progress >= PROGRESS {
            self.progress = 0;
            self.failures = 0;
        }
    }

    /// Waits until it is time for another attempt, or gives the problem back if there is no use in one, or there
    /// were enough.
    pub(super) fn retry(&mut self, problem: Problem) -> Result<(), Problem> {
        let wanted = match &problem {
            Problem::Connection(_) => Duration::ZERO,
            // A server of files that fails may be well again, too.
            Problem::Status { status, wait }
                if *status == 500 || RETRIED_STATUSES.contains(status) =>
            {
                wait.unwrap_or_default()
            }
            _ => return Err(problem),
        };
        if self.failures >= self.most {
            return Err(match problem {
                Problem::Connection(how) if self.failures > 0 => {
                    Problem::Connection(format!("{how}, {} times in a row", self.failures + 1))
                }
                other => other,
            });
        }
        let doubled = self.pause.saturating_mul(1 << self.failures.min(16));
        std::thread::sleep(doubled.max(wanted).min(MAX_PAUSE));
        self.failures += 1;
        Ok(())
    }
}

/// Sees to it that a body comes at some pace: a server that sends a byte now and then is never silent.
pub(super) struct Pace {
    least: u64,
    since: Instant,
    count: u64,
}

impl Pace {
    /// At least so many bytes per second.
    pub(super) fn new(least: u64) -> Pace {
        Pace {
            least,
            since: Instant::now(),
            count: 0,
        }
    }

    pub(super) fn count(&mut self, bytes: usize) -> Result<(), Problem> {
        self.count += bytes as u64;
        let elapsed = self.since.elapsed();
        if elapsed < PACE_WINDOW {
            return Ok(());
        }
        if self.count < self.least.saturating_mul(elapsed.as_secs()) {
            let how = format!(
                "the server sends fewer than {} bytes per second",
                self.least
            );
            return Err(Problem::Connection(how));
        }
        *self = Pace::new(self.least);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_must_come_at_some_pace() {
        let of = |seconds, count| Pace {
            least: 1000,
            since: Instant::now() - Duration::from_secs(seconds),
            count,
        };
        assert!(of(0, 0).count(1).is_ok());
        assert!(of(59, 0).count(1).is_ok(), "it is too early to say");
        assert!(of(70, 1000).count(1).is_err());
        let mut pace = of(60, 10_000_000);
        assert!(pace.count(1).is_ok());
        assert_eq!(pace.count, 0, "what came before is no credit");
    }

    #[test]
    fn failures_in_a_row_are_borne_until_there_are_too_many() {
        let options = Options {
            retries: 2,
            pause: Duration::ZERO,
            ..Options::default()
        };
        let broken = || Problem::Connection("broken".to_owned());
        let mut retries = Retries::new(&options);
        for _ in 0..3 {
            retries.retry(broken()).unwrap();
            retries.retry(broken()).unwrap();
            assert!(retries.retry(broken()).is_err());
            retries.progress(PROGRESS as usize - 1);
            assert!(retries.retry(broken()).is_err());
            retries.progress(1);
        }
        let status = |status| Problem::Status { status, wait: None };
        assert!(retries.retry(status(404)).is_err());
        assert!(retries.retry(status(503)).is_ok());
        assert!(retries.retry(Problem::Changed(String::new())).is_err());
    }
}
