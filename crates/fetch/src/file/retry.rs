//! Retries of requests.

use std::time::Duration;

use crate::source::Limits;
use crate::{Backoff, Error, is_transient};

/// Number of bytes received after which failures are counted from zero again.
const PROGRESS: u64 = 1 << 20;

/// Limits and retries of the requests for a file.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Limits of each request.
    pub limits: Limits,
    /// Minimum transfer rate in bytes per second, averaged over each minute.
    pub pace: u64,
    /// Maximum number of consecutive retries. Each MiB received resets the count.
    pub retries: u32,
    /// Maximum pause before the first retry; it doubles with each retry.
    pub pause: Duration,
    /// Maximum pause before a retry, even if `Retry-After` asks for a longer pause.
    pub max_pause: Duration,
    /// Retries requests that timed out, too.
    pub retries_timeouts: bool,
}

/// Counts consecutive failures, and pauses between attempts.
#[derive(Debug)]
pub(super) struct Retries {
    policy: Policy,
    failures: u32,
    backoff: Backoff,
    progress: u64,
}

impl Retries {
    pub(super) fn new(policy: &Policy) -> Retries {
        Retries {
            policy: *policy,
            failures: 0,
            backoff: Backoff::from(policy.pause, policy.max_pause),
            progress: 0,
        }
    }

    /// Counts `bytes` received: after enough of them, failures are counted from zero again.
    pub(super) fn progress(&mut self, bytes: usize) {
        self.progress += bytes as u64;
        if self.progress >= PROGRESS {
            *self = Retries::new(&self.policy);
        }
    }

    /// Pauses before the next attempt. The pause grows with each consecutive failure, and has jitter.
    ///
    /// # Errors
    /// Returns the error itself if the request must not be repeated, or if the maximum number of retries is reached.
    pub(super) async fn pause_after(&mut self, error: Error) -> Result<(), Error> {
        tokio::time::sleep(self.pause(error)?).await;
        Ok(())
    }

    fn pause(&mut self, error: Error) -> Result<Duration, Error> {
        let wanted = match &error {
            Error::Timeout | Error::Silence if self.policy.retries_timeouts => Duration::ZERO,
            Error::Unreachable { .. } | Error::Connection(_) => Duration::ZERO,
            Error::Status { status, wait } if is_transient(*status) => wait.unwrap_or_default(),
            _ => return Err(error),
        };
        if self.failures >= self.policy.retries {
            let times = self.failures + 1;
            return Err(match error {
                Error::Status { .. } => error,
                error if times == 1 => error,
                Error::Unreachable { server, why } => Error::Unreachable {
                    server,
                    why: format!("{why}, {times} times in a row"),
                },
                error => Error::Connection(format!("{error}, {times} times in a row")),
            });
        }
        self.failures += 1;
        Ok(self.backoff.pause().max(wanted.min(self.policy.max_pause)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(retries: u32, pause: Duration) -> Policy {
        Policy {
            retries,
            pause,
            max_pause: Duration::from_secs(30),
            ..super::super::POLICY
        }
    }

    fn broken() -> Error {
        Error::Connection("broken".to_owned())
    }

    #[test]
    fn consecutive_failures_are_retried_up_to_a_limit() {
        let mut retries = Retries::new(&policy(2, Duration::ZERO));
        for _ in 0..3 {
            retries.pause(broken()).unwrap();
            retries.pause(broken()).unwrap();
            assert!(retries.pause(broken()).is_err());
            retries.progress(PROGRESS as usize - 1);
            assert!(retries.pause(broken()).is_err());
            retries.progress(1);
        }
        let status = |status| Error::Status { status, wait: None };
        assert!(retries.pause(status(404)).is_err());
        assert!(retries.pause(status(503)).is_ok());
        assert!(retries.pause(Error::Changed(String::new())).is_err());
    }

    #[test]
    fn pauses_differ_between_clients_and_follow_retry_after() {
        let policy = policy(5, Duration::from_millis(200));
        let pauses = || -> Vec<Duration> {
            let mut retries = Retries::new(&policy);
            (0..5).map(|_| retries.pause(broken()).unwrap()).collect()
        };
        assert_ne!(pauses(), pauses());
        let pause = |wait| {
            let wait = Some(Duration::from_secs(wait));
            let status = Error::Status { status: 503, wait };
            Retries::new(&policy).pause(status).unwrap()
        };
        assert_eq!(pause(7), Duration::from_secs(7));
        assert_eq!(pause(99), policy.max_pause);
    }
}
