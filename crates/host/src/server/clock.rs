//! The clock that measures pauses and leases.
//!
//! The clock follows the server's clock but never goes back while the process runs. If the server's
//! clock is set back, this clock continues at its own pace, so that no deadline is delayed. Both
//! clocks agree again when the server's clock is set forward, or after a restart.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::main_thread::MainThread;

/// Maximum step of the wall clock, in microseconds, that this clock follows. Time synchronisation
/// makes such steps regularly.
const STEP: i64 = 500_000;

/// State of the clock, in microseconds since the epoch.
#[derive(Debug, Default)]
struct Steady {
    last: Option<(i64, Instant)>,
    /// Number of microseconds by which this clock is ahead of the server's clock.
    ahead: i64,
}

impl Steady {
    fn read(&mut self, wall: i64, now: Instant) -> i64 {
        let Some((last, then)) = self.last else {
            self.last = Some((wall, now));
            return wall;
        };
        let expected = last + now.saturating_duration_since(then).as_micros() as i64;
        let off = wall + self.ahead - expected;
        if off < -STEP {
            self.ahead -= off;
        } else if off > STEP {
            self.ahead -= off.min(self.ahead);
        }
        let time = (wall + self.ahead).max(last);
        self.last = Some((time, now));
        time
    }
}

static STEADY: MainThread<Steady> = MainThread::new(Steady {
    last: None,
    ahead: 0,
});

fn wall() -> Duration {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH);
    wall.unwrap_or_default()
}

/// Returns the time since the epoch.
pub fn now() -> Duration {
    let wall = wall().as_micros() as i64;
    let steady = STEADY.borrow().read(wall, Instant::now());
    Duration::from_micros(steady.max(0) as u64)
}

/// Returns the time since the epoch in whole milliseconds.
pub fn now_ms() -> u64 {
    now().as_millis() as u64
}

static START: MainThread<Option<(Duration, Instant)>> = MainThread::new(None);

/// Returns the time for measuring claims, in milliseconds since the epoch: the server's clock at
/// the first call plus the monotonic time since then. No jump of the server's clock, forward or
/// back, shortens or extends a claim before a restart.
pub fn even_ms() -> u64 {
    let (start, then) = *START
        .borrow()
        .get_or_insert_with(|| (wall(), Instant::now()));
    (start + then.elapsed()).as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000;

    #[test]
    fn time_advances_when_the_clock_is_set_back() {
        let mut clock = Steady::default();
        let start = Instant::now();
        let at = |s: u64| start + Duration::from_secs(s);
        assert_eq!(clock.read(10 * HOUR, at(0)), 10 * HOUR);
        assert_eq!(clock.read(9 * HOUR, at(1)), 10 * HOUR + 1_000_000);
        assert_eq!(
            clock.read(9 * HOUR + 1_000_000, at(2)),
            10 * HOUR + 2_000_000
        );
        // The server's clock is corrected. This clock must not add an hour a second time.
        assert_eq!(
            clock.read(10 * HOUR + 3_000_000, at(3)),
            10 * HOUR + 3_000_000
        );
        // The server's clock is set forward, and this clock must follow.
        assert_eq!(clock.read(12 * HOUR, at(4)), 12 * HOUR);
    }

    #[test]
    fn small_steps_are_followed_but_never_backwards() {
        let mut clock = Steady::default();
        let start = Instant::now();
        clock.read(HOUR, start);
        let later = start + Duration::from_millis(10);
        assert_eq!(clock.read(HOUR - 2000, later), HOUR);
        assert_eq!(clock.read(HOUR + 9000, later), HOUR + 9000);
    }
}
