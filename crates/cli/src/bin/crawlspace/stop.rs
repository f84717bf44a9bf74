//! Shutdown by signals.

use std::io;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Maximum time for a running query or call when the program exits. Aborting such a call never affects data that
/// readers see.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Returns a flag that becomes true on SIGTERM and Ctrl-C. If the program does not end within a few seconds, the
/// process exits with this status; after a second signal, at once.
pub(crate) fn on_signal(status: i32) -> io::Result<&'static AtomicBool> {
    static STOP: AtomicBool = AtomicBool::new(false);
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    thread::spawn(move || {
        for _ in signals.forever() {
            if STOP.swap(true, Ordering::Relaxed) {
                process::exit(1);
            }
            thread::spawn(move || {
                thread::sleep(TIMEOUT);
                process::exit(status);
            });
        }
    });
    Ok(&STOP)
}

/// Requests a stop without a signal and without the time limit of a signal.
pub(crate) fn now(stop: &AtomicBool) {
    stop.store(true, Ordering::Relaxed);
}
