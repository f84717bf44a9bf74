//! Times of the politeness frontier, in whole milliseconds since the epoch. The rules do not read a
//! clock: callers read the clock and pass the time.

/// Milliseconds since the epoch, or between two times.
pub type Millis = u64;

pub use crawlspace_compact::limits::chg::TEN_YEARS;

/// Returns the time that a score in a sorted set of due times represents. The fraction of a score
/// orders groups that became due in the same millisecond. Plain clients may write any score.
pub fn of_score(score: f64) -> Millis {
    // This conversion saturates, and maps NaN to 0.
    score.floor() as Millis
}

/// Encodes the difference between a time and a base (zigzag encoding), so that times near the base
/// result in small numbers.
pub(super) fn zigzag(time: Millis, base: Millis) -> u64 {
    let ahead = time.wrapping_sub(base) as i64;
    ((ahead << 1) ^ (ahead >> 63)) as u64
}

/// Reverses [`zigzag`].
pub(super) fn unzigzag(n: u64, base: Millis) -> Millis {
    base.wrapping_add((n >> 1) ^ (n & 1).wrapping_neg())
}

/// Assigns scores to groups that become due "now", in the order of their arrival.
#[derive(Debug, Default)]
pub struct Arrivals {
    now: Millis,
    n: u32,
}

/// Number of arrivals per millisecond that get different scores. A double that contains a time in
/// milliseconds before the year 2527 has twelve spare bits for fractions.
pub(super) const ARRIVALS: u32 = 1 << 11;

impl Arrivals {
    /// Returns the score of the next arrival at this time.
    pub fn score(&mut self, now: Millis) -> f64 {
        if now < self.now {
            // Time goes back only in simulations. The scores then have no fraction, so the order of
            // arrival within a millisecond is not kept.
            return now as f64;
        }
        self.n = if self.now == now {
            (self.n + 1).min(ARRIVALS - 1)
        } else {
            0
        };
        self.now = now;
        now as f64 + f64::from(self.n) / f64::from(ARRIVALS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_of_one_millisecond_keep_their_order() {
        let mut arrivals = Arrivals::default();
        let now = 1_790_000_000_000;
        let scores: Vec<f64> = (0..ARRIVALS).map(|_| arrivals.score(now)).collect();
        assert_eq!(scores[0], now as f64);
        assert!(scores.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(scores.iter().all(|&score| of_score(score) == now));
        assert_eq!(arrivals.score(now + 1), (now + 1) as f64);
    }

    #[test]
    fn scores_of_plain_clients_are_times_too() {
        assert_eq!(of_score(f64::NEG_INFINITY), 0);
        assert_eq!(of_score(-5.0), 0);
        assert_eq!(of_score(f64::INFINITY), Millis::MAX);
        assert_eq!(of_score(10.7), 10);
    }
}
