//! Waiting for a condition with a deadline.

use std::time::{Duration, Instant};

/// Time limit of a condition before the test fails. It is generous, so that a loaded machine does
/// not fail tests.
const DEADLINE: Duration = Duration::from_secs(60);

/// Polls `condition` until it is true.
///
/// # Panics
/// Panics with `what` if it is not true within a minute.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    until_some(what, || condition().then_some(()));
}

/// Polls `attempt` until it returns a value.
///
/// # Panics
/// Panics with `what` if it returns none within a minute.
pub fn until_some<T>(what: &str, attempt: impl FnMut() -> Option<T>) -> T {
    within(DEADLINE, attempt).unwrap_or_else(|| panic!("timed out after a minute: {what}"))
}

/// Polls `attempt` until it returns a value or `deadline` has passed. The pause between two
/// attempts grows from zero and stays under 5 ms, so that short-lived states are seen.
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
