//! Pauses between attempts.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Pauses that grow from a fraction of a second to half a minute.
pub(super) struct Backoff {
    next: Duration,
}

impl Backoff {
    pub(crate) fn new() -> Backoff {
        Backoff { next: FIRST_PAUSE }
    }

    /// The next pause. Between half and all of what it could be, so that many who failed together do not come
    /// back together.
    pub(crate) fn pause(&mut self) -> Duration {
        let max = self.next;
        self.next = (max * 2).min(MAX_PAUSE);
        // The standard library's source of random keys; nothing here has to be hard to guess.
        let random = RandomState::new().build_hasher().finish();
        let half = max / 2;
        half + half.mul_f64((random >> 11) as f64 / (1u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_stay_within_bounds() {
        let mut backoff = Backoff::new();
        let mut max = FIRST_PAUSE;
        for _ in 0..20 {
            let pause = backoff.pause();
            assert!(max / 2 <= pause && pause <= max, "{pause:?} of {max:?}");
            max = (max * 2).min(MAX_PAUSE);
        }
        assert_eq!(max, MAX_PAUSE);
    }
}
