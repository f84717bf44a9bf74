//! A source that keeps failing is left alone for a while.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Number of different questions whose failures in a row open the breaker. One question alone does not open it, however
/// often it is asked: the question may be at fault.
const FAILURES: usize = 5;
/// How long it stays open at first; twice as long each time that the source fails again, up to `MAX_PAUSE`.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// Maximum time for which it stays open.
const MAX_PAUSE: Duration = Duration::from_secs(300);

/// The circuit breaker of a source.
///
/// Closed, it lets every request through. After failures of five different questions in a row it is open: none goes
/// through. When its pause is over, a single request may try, and its outcome closes it or opens it for longer.
#[derive(Debug, Default)]
pub struct Breaker(Mutex<Inside>);

#[derive(Debug, Default)]
struct Inside {
    /// The questions that failed since the source answered last, as far as they count.
    failed: Vec<u64>,
    /// Until when it is open, and for how long that is in all.
    open: Option<(Instant, Duration)>,
    /// Since when one request is trying.
    trying: Option<Instant>,
}

/// Whether a source is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BreakerState {
    /// Every request goes through.
    Closed,
    /// The source is skipped, for this long.
    Open(Duration),
    /// One request is trying, or may.
    Trying,
}

impl BreakerState {
    /// One word for figures.
    pub(crate) fn word(self) -> &'static str {
        match self {
            BreakerState::Closed => "closed",
            BreakerState::Open(_) => "open",
            BreakerState::Trying => "trying",
        }
    }
}

impl Breaker {
    /// Whether the source may be asked now. Whoever asks it says how that went, by [`succeeded`](Breaker::succeeded)
    /// or [`failed`](Breaker::failed).
    pub(crate) fn permits(&self, now: Instant) -> bool {
        let mut inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((until, pause)) = inside.open else {
            return true;
        };
        // Somebody who tried and went away without a word does not keep others from trying.
        let busy = inside.trying.is_some_and(|since| now < since + pause);
        if now < until || busy {
            return false;
        }
        inside.trying = Some(now);
        true
    }

    /// Records an answer. True when that closes the breaker.
    pub(crate) fn succeeded(&self) -> bool {
        let mut inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let was_open = inside.open.is_some();
        if !inside.failed.is_empty() || was_open {
            *inside = Inside::default();
        }
        was_open
    }

    /// Records that the source was not asked after all, so that another request may try.
    pub(crate) fn not_asked(&self) {
        let mut inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inside.trying = None;
    }

    /// Records a failure of this question. Gives how long the breaker stays open, when that opens it.
    pub(crate) fn failed(&self, question: u64, now: Instant) -> Option<Duration> {
        let mut inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if inside.failed.len() < FAILURES && !inside.failed.contains(&question) {
            inside.failed.push(question);
        }
        let pause = match (inside.open, inside.trying) {
            (Some((_, pause)), Some(_)) => (pause * 2).min(MAX_PAUSE),
            // Answers to what was asked before it opened.
            (Some(_), None) => return None,
            (None, _) if inside.failed.len() >= FAILURES => FIRST_PAUSE,
            (None, _) => return None,
        };
        inside.open = Some((now + pause, pause));
        inside.trying = None;
        Some(pause)
    }

    /// How it is.
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
    fn it_opens_after_failures_in_a_row_and_lets_one_try_again() {
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
        assert!(!breaker.permits(start + seconds(10)), "one is enough");

        breaker.failed(4, start + seconds(11));
        assert!(!breaker.permits(start + seconds(30)));
        assert!(breaker.permits(start + seconds(31)), "twice as long");
        assert!(breaker.succeeded());
        assert_eq!(breaker.state(start), BreakerState::Closed);
    }

    #[test]
    fn somebody_who_tries_and_says_nothing_is_not_waited_for() {
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
    fn one_question_does_not_open_it_however_often_it_is_asked() {
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
