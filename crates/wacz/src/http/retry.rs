//! Retries of requests.

use std::time::Duration;

use crate::{Options, Problem};
use crawlspace_fetch::{Backoff, is_transient};

/// Number of bytes received after which failures are counted from zero again.
const PROGRESS: u64 = 1 << 20;
/// Maximum pause between two attempts, also when `Retry-After` asks for a longer one.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Counts consecutive failures, and pauses between attempts.
#[derive(Debug)]
pub(super) struct Retries {
    failures: u32,
    max: u32,
    first: Duration,
    backoff: Backoff,
    progress: u64,
}

impl Retries {
    pub(super) fn new(options: &Options) -> Retries {
        Retries {
            failures: 0,
            max: options.retries,
            first: options.pause,
            backoff: Backoff::from(options.pause, MAX_PAUSE),
            progress: 0,
        }
    }

    /// Counts `bytes` received: after enough of them, failures are counted from zero again.
    pub(super) fn progress(&mut self, bytes: usize) {
        self.progress += bytes as u64;
        if self.progress >= PROGRESS {
            self.progress = 0;
            self.failures = 0;
            self.backoff = Backoff::from(self.first, MAX_PAUSE);
        }
    }

    /// Pauses before the next attempt. The pause grows with each consecutive failure, and has
    /// jitter.
    ///
    /// # Errors
    /// Returns the problem itself if it must not be retried, or if the maximum number of retries is
    /// reached.
    pub(super) fn retry(&mut self, problem: Problem) -> Result<(), Problem> {
        std::thread::sleep(self.pause(problem)?);
        Ok(())
    }

    fn pause(&mut self, problem: Problem) -> Result<Duration, Problem> {
        let wanted = match &problem {
            Problem::Connection(_) => Duration::ZERO,
            Problem::Status { status, wait } if is_transient(*status) => wait.unwrap_or_default(),
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
        self.failures += 1;
        Ok(self.backoff.pause().max(wanted.min(MAX_PAUSE)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn pauses_differ_between_clients_and_are_as_long_as_a_server_asks() {
        let pauses = || -> Vec<Duration> {
            let mut retries = Retries::new(&Options::default());
            let broken = || Problem::Connection("broken".to_owned());
            (0..5).map(|_| retries.pause(broken()).unwrap()).collect()
        };
        assert_ne!(pauses(), pauses());
        let pause = |wait| {
            let status = Problem::Status {
                status: 503,
                wait: Some(Duration::from_secs(wait)),
            };
            Retries::new(&Options::default()).pause(status).unwrap()
        };
        assert_eq!(pause(7), Duration::from_secs(7));
        assert_eq!(pause(99), MAX_PAUSE);
    }
}
