//! Pauses between retries.
//!
//! This crate does not sleep: the caller waits, and decides which failures are transient.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The default pause before the first retry.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// An exponential back-off with jitter. The nominal pause doubles up to a maximum; the actual pause is a
/// random time between half of the nominal pause and all of it. Therefore, clients that failed at the same
/// time, for example in a failover, do not retry at the same time.
///
/// ```
/// use std::time::Duration;
/// use crawlspace_retry::Backoff;
/// let mut backoff = Backoff::new(Duration::from_secs(30));
/// assert!(backoff.pause() <= Duration::from_millis(200));
/// assert!(backoff.pause() >= Duration::from_millis(200));
/// ```
#[derive(Clone, Debug)]
pub struct Backoff {
    next: Duration,
    max: Duration,
    random: fn() -> f64,
}

impl Backoff {
    /// Creates a back-off that begins at 200 ms and ends at `max`.
    pub fn new(max: Duration) -> Backoff {
        Backoff::from(FIRST_PAUSE, max)
    }

    /// Creates a back-off that begins at `first` and ends at `max`.
    pub fn from(first: Duration, max: Duration) -> Backoff {
        Backoff {
            next: first.min(max),
            max,
            random,
        }
    }

    /// Replaces the source of the jitter, a number from 0 to 1.
    pub fn with_random(self, random: fn() -> f64) -> Backoff {
        Backoff { random, ..self }
    }

    /// Returns the next pause.
    pub fn pause(&mut self) -> Duration {
        let nominal = self.next;
        self.next = nominal.saturating_mul(2).min(self.max);
        let half = nominal / 2;
        half + half.mul_f64((self.random)())
    }
}

/// Returns a random number from 0 to 1, derived from the random hash keys of the standard library. The
/// hash keys suffice, because jitter need not be unpredictable.
pub fn random() -> f64 {
    (RandomState::new().hash_one(0) >> 11) as f64 / (1_u64 << 53) as f64
}

/// Compiles and runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(random: fn() -> f64) -> Vec<u128> {
        let mut backoff = Backoff::new(Duration::from_secs(1)).with_random(random);
        (0..5).map(|_| backoff.pause().as_millis()).collect()
    }

    #[test]
    fn pauses_double_up_to_the_maximum_with_jitter() {
        assert_eq!(pauses(|| 0.0), [100, 200, 400, 500, 500]);
        assert_eq!(pauses(|| 0.5), [150, 300, 600, 750, 750]);
        assert_eq!(pauses(|| 1.0), [200, 400, 800, 1000, 1000]);
    }

    #[test]
    fn first_pause_does_not_exceed_the_maximum() {
        let (short, long) = (Duration::from_millis(50), Duration::from_secs(9));
        let mut backoff = Backoff::from(long, short).with_random(|| 1.0);
        assert_eq!([backoff.pause(), backoff.pause()], [short, short]);
        let mut backoff = Backoff::from(Duration::ZERO, long);
        assert_eq!([backoff.pause(), backoff.pause()], [Duration::ZERO; 2]);
    }

    #[test]
    fn random_numbers_differ() {
        let numbers: Vec<f64> = (0..100).map(|_| random()).collect();
        assert!(numbers.iter().all(|number| (0.0..1.0).contains(number)));
        assert!(numbers.iter().any(|&number| number < 0.5), "{numbers:?}");
        assert!(numbers.iter().any(|&number| number >= 0.5), "{numbers:?}");
    }
}
