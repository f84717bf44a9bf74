//! Circuit breakers, which pause requests to a source that keeps failing.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Number of different queries that must fail in a row to open the breaker. Repeating one query
/// never opens it, because the query itself may cause the failure.
const FAILURES: usize = 5;
/// Initial pause of an open breaker. The pause doubles each time that the source fails again, up to `MAX_PAUSE`.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// Maximum pause of an open breaker.
const MAX_PAUSE: Duration = Duration::from_secs(300);

/// The circuit breaker of a source.
///
/// A closed breaker lets every request through. After five different queries in a row have failed,
/// it opens and blocks all requests. After a pause it lets a single trial request through. The
/// outcome of that request closes the breaker or opens it for longer.
#[derive(Debug, Default)]
pub struct Breaker(Mutex<Inside>);

#[derive(Debug, Default)]
struct Inside {
    /// Hashes of the different queries that failed since the last answer, up to the number that
    /// opens the breaker.
    failed: Vec<u64>,
    /// End and total length of the current pause, if the breaker is open.
    open: Option<(Instant, Duration)>,
    /// Start of the trial request, if one is running.
    trying: Option<Instant>,
}

/// State of a circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BreakerState {
    /// All requests are allowed.
    Closed,
    /// Requests are blocked for this remaining time.
    Open(Duration),
    /// A trial request is running or allowed.
    Trying,
}

impl BreakerState {
    /// Returns the name of the state in metrics.
    pub(crate) fn word(self) -> &'static str {
        match self {
            BreakerState::Closed => "closed",
            BreakerState::Open(_) => "open",
            BreakerState::Trying => "trying",
        }
    }
}

impl Breaker {
    /// Returns whether the source may be queried now. The caller reports the outcome with
    /// [`succeeded`](Breaker::succeeded) or [`failed`](Breaker::failed).
    pub(crate) fn permits(&self, now: Instant) -> bool {
        let mut inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((until, pause)) = inside.open else {
            return true;
        };
        // A trial request whose outcome was never reported blocks other requests for one pause only.
        let busy = inside.trying.is_some_and(|since| now < since + pause);
        if now < until || busy {
            return false;
        }
        inside.trying = Some(now);
        true
    }

    /// Records an answer. Returns true if it closes the breaker.
    pub(crate) fn succeeded(&self) -> bool {
        let mut inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let was_open = inside.open.is_some();
        if !inside.failed.is_empty() || was_open {
            *inside = Inside::default();
        }
        was_open
    }

    /// Records that the permitted request was not sent. Another trial request may then be sent.
    pub(crate) fn not_asked(&self) {
        let mut inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inside.trying = None;
    }

    /// Records a failure of this query, identified by its hash. Returns the length of the pause if
    /// the failure opens the breaker.
    pub(crate) fn failed(&self, question: u64, now: Instant) -> Option<Duration> {
        let mut inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if inside.failed.len() < FAILURES && !inside.failed.contains(&question) {
            inside.failed.push(question);
        }
        let pause = match (inside.open, inside.trying) {
            (Some((_, pause)), Some(_)) => (pause * 2).min(MAX_PAUSE),
            // The failed request was sent before the breaker opened.
            (Some(_), None) => return None,
            (None, _) if inside.failed.len() >= FAILURES => FIRST_PAUSE,
            (None, _) => return None,
        };
        inside.open = Some((now + pause, pause));
        inside.trying = None;
        Some(pause)
    }

    /// Returns the state at `now`.
    pub(crate) fn state(&self, now: Instant) -> BreakerState {
        let inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match inside.open {
            None => BreakerState::Closed,
            Some((until, _)) if now < until => BreakerState::Open(until - now),
            Some(_) => BreakerState::Trying,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn breaker_opens_after_consecutive_failures_and_allows_a_trial() {
        let breaker = Breaker::default();
        let start = Instant::now();
        for question in 0..4 {
            breaker.failed(question, start);
        }
        assert!(!breaker.succeeded());
        for question in 0..4 {
            breaker.failed(question, start);
            assert!(breaker.permits(start));
        }
        assert_eq!(breaker.failed(4, start), Some(seconds(10)));
        assert!(!breaker.permits(start));
        assert_eq!(breaker.state(start), BreakerState::Open(seconds(10)));
        assert!(!breaker.permits(start + seconds(9)));
        assert!(breaker.permits(start + seconds(10)));
        assert!(
            !breaker.permits(start + seconds(10)),
            "only one trial request is allowed"
        );

        breaker.failed(4, start + seconds(11));
        assert!(!breaker.permits(start + seconds(30)));
        assert!(
            breaker.permits(start + seconds(31)),
            "the second pause is twice as long"
        );
        assert!(breaker.succeeded());
        assert_eq!(breaker.state(start), BreakerState::Closed);
    }

    #[test]
    fn abandoned_trial_is_not_waited_for() {
        let breaker = Breaker::default();
        let start = Instant::now();
        (0..5).for_each(|question| _ = breaker.failed(question, start));
        assert!(breaker.permits(start + seconds(10)));
        assert!(!breaker.permits(start + seconds(19)));
        assert!(breaker.permits(start + seconds(20)));
        breaker.not_asked();
        assert!(breaker.permits(start + seconds(20)));
    }

    #[test]
    fn repeated_query_alone_does_not_open_the_breaker() {
        let breaker = Breaker::default();
        let start = Instant::now();
        for _ in 0..100 {
            assert_eq!(breaker.failed(7, start), None);
        }
        assert!(breaker.permits(start));
        for question in 0..3 {
            assert_eq!(breaker.failed(question, start), None);
        }
        assert_eq!(breaker.failed(3, start), Some(seconds(10)));
    }
}
