//! Waits for a condition, with a deadline.

use std::time::{Duration, Instant};

/// Time limit for a condition, after which the test fails. The limit is long, so that tests do not
/// fail on a loaded machine.
const DEADLINE: Duration = Duration::from_secs(180);

/// Polls `condition` until it is true.
///
/// # Panics
/// Panics with `what` if the condition is not true within three minutes.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    until_some(what, || condition().then_some(()));
}

/// Polls `attempt` until it returns a value.
///
/// # Panics
/// Panics with `what` if no attempt returns a value within three minutes.
pub fn until_some<T>(what: &str, attempt: impl FnMut() -> Option<T>) -> T {
    within(DEADLINE, attempt).unwrap_or_else(|| panic!("timed out after three minutes: {what}"))
}

/// Polls `attempt` until it returns a value or `deadline` has passed. The pause between two
/// attempts increases from zero to at most 5 ms, so that the caller sees short-lived states.
pub fn within<T>(deadline: Duration, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    let mut pause = Duration::ZERO;
    loop {
        if let Some(value) = attempt() {
            return Some(value);
        }
        if start.elapsed() > deadline {
            return None;
        }
        std::thread::sleep(pause);
        pause = (pause + Duration::from_micros(100)).min(Duration::from_millis(5));
    }
}
