//! Retries of requests, and the pace that a body must keep.

use std::time::{Duration, Instant};

use crate::wacz::{Options, Problem};

/// Number of bytes received after which failures are counted from zero again.
const PROGRESS: u64 = 1 << 20;
/// Maximum pause between two attempts, also when `Retry-After` asks for a longer one.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Time over which the pace of a body is measured.
const PACE_WINDOW: Duration = Duration::from_secs(60);

/// HTTP statuses after which a request is retried: the next answer may be another one. The guides list them
/// (`docs/guide/wacz.md`). Of servers of indexes, 500 is final: the index cannot be built.
pub const RETRIED_STATUSES: [u16; 7] = [408, 425, 429, 500, 502, 503, 504];

/// Counts failures in a row, and pauses between attempts.
#[derive(Debug)]
pub(super) struct Retries {
    failures: u32,
    max: u32,
    pause: Duration,
    progress: u64,
}

impl Retries {
    pub(super) fn new(options: &Options) -> Retries {
        Retries {
            failures: 0,
            max: options.retries,
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

    /// Pauses before the next attempt. The pause doubles with each failure in a row.
    ///
    /// # Errors
    /// The problem itself when it is not one that is retried, or the maximum of retries is reached.
    pub(super) fn retry(&mut self, problem: Problem) -> Result<(), Problem> {
        let wanted = match &problem {
            Problem::Connection(_) => Duration::ZERO,
            Problem::Status { status, wait } if RETRIED_STATUSES.contains(status) => {
                wait.unwrap_or_default()
            }
            _ => return Err(problem),
        };
        if self.failures >= self.max {
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

/// Checks the pace of a body: a server that sends a byte now and then is never silent.
pub(super) struct Pace {
    least: u64,
    since: Instant,
    count: u64,
}

impl Pace {
    /// Requires at least `least` bytes per second, over each minute.
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
