//! Waiting for a condition with a deadline.

use std::time::{Duration, Instant};

/// Time limit of a condition before the test fails. Generous: a loaded machine is not a bug.
const DEADLINE: Duration = Duration::from_secs(60);

/// Polls `condition` until it holds.
///
/// # Panics
/// With `what` when it does not hold within a minute.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    until_some(what, || condition().then_some(()));
}

/// Polls `attempt` until it gives a value.
///
/// # Panics
/// With `what` when it gives none within a minute.
pub fn until_some<T>(what: &str, attempt: impl FnMut() -> Option<T>) -> T {
    within(DEADLINE, attempt).unwrap_or_else(|| panic!("waited a minute in vain: {what}"))
}

/// Polls `attempt` until it gives a value or `deadline` is over. The pause between two attempts
/// starts at nothing and stays under 5 ms, so that a short-lived state is seen.
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
