//! A source that keeps failing is left alone for a while.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// So many failures in a row open it.
const FAILURES: u32 = 5;
/// How long it stays open at first; twice as long each time that the source fails again, up to the longest.
const PAUSE: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(300);

/// Remembers how a source behaved of late.
///
/// Closed, it lets everything through. After five failures in a row it is open: nobody asks. When its time is over,
/// a single request may try, and what comes of that closes it or opens it for longer.
#[derive(Debug, Default)]
pub struct Breaker(Mutex<Inside>);

#[derive(Debug, Default)]
struct Inside {
    failures: u32,
    /// Until when nobody asks, and for how long that was said.
    open: Option<(Instant, Duration)>,
    /// Since when somebody is trying.
    trying: Option<Instant>,
}

/// Whether a source is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is.
    Closed,
    /// It is not, for so long.
    Open(Duration),
    /// One request is trying, or may.
    Trying,
}

impl State {
    /// One word for figures.
    pub fn word(self) -> &'static str {
        match self {
            State::Closed => "closed",
            State::Open(_) => "open",
            State::Trying => "trying",
        }
    }
}

impl Breaker {
    /// Whether the source may be asked now. Whoever asks it says how that went, by [`succeeded`](Breaker::succeeded)
    /// or [`failed`](Breaker::failed).
    pub fn permits(&self, now: Instant) -> bool {
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

    /// It answered. Whether that is news: nobody was to ask it.
    pub fn succeeded(&self) -> bool {
        let mut inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let was_open = inside.open.is_some();
        if inside.failures > 0 || was_open {
            *inside = Inside::default();
        }
        was_open
    }

    /// It did not. How long nobody asks it from now on, if that is news.
    pub fn failed(&self, now: Instant) -> Option<Duration> {
        let mut inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inside.failures = inside.failures.saturating_add(1);
        let pause = match (inside.open, inside.trying) {
            (Some((_, pause)), Some(_)) => (pause * 2).min(LONGEST),
            // Answers to what was asked before it opened.
            (Some(_), None) => return None,
            (None, _) if inside.failures >= FAILURES => PAUSE,
            (None, _) => return None,
        };
        inside.open = Some((now + pause, pause));
        inside.trying = None;
        Some(pause)
    }

    /// How it is.
    pub fn state(&self, now: Instant) -> State {
        let inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match inside.open {
            None => State::Closed,
            Some((until, _)) if now < until => State::Open(until - now),
            Some(_) => State::Trying,
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
        for _ in 0..4 {
            breaker.failed(start);
        }
        assert!(!breaker.succeeded());
        for _ in 0..4 {
            breaker.failed(start);
            assert!(breaker.permits(start));
        }
        assert_eq!(breaker.failed(start), Some(seconds(10)));
        assert!(!breaker.permits(start));
        assert_eq!(breaker.state(start), State::Open(seconds(10)));
        assert!(!breaker.permits(start + seconds(9)));
        assert!(breaker.permits(start + seconds(10)));
        assert!(!breaker.permits(start + seconds(10)), "one is enough");

        breaker.failed(start + seconds(11));
        assert!(!breaker.permits(start + seconds(30)));
        assert!(breaker.permits(start + seconds(31)), "twice as long");
        assert!(breaker.succeeded());
        assert_eq!(breaker.state(start), State::Closed);
    }

    #[test]
    fn somebody_who_tries_and_says_nothing_is_not_waited_for() {
        let breaker = Breaker::default();
        let start = Instant::now();
        (0..5).for_each(|_| _ = breaker.failed(start));
        assert!(breaker.permits(start + seconds(10)));
        assert!(!breaker.permits(start + seconds(19)));
        assert!(breaker.permits(start + seconds(20)));
    }
}
