//! Waits while a server restarts or loads its data.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crawlspace_client::server::Backoff;
use crawlspace_client::{Ask, Call, Error, Server, redis};

/// Maximum pause between two connection attempts.
const PAUSE: Duration = Duration::from_millis(500);

/// Timeout of a connection attempt.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Time of availability after which the next outage gets the full time limit again.
const STEADY: Duration = Duration::from_secs(10);

/// Wait for an unavailable server, with a time limit.
pub struct Patience<'a> {
    url: &'a str,
    wait: Duration,
    /// Flag that ends the wait early when it becomes true.
    stop: &'a AtomicBool,
    /// Deadline of the last wait, and the time at which the server answered again.
    last: Option<(Instant, Instant)>,
}

impl<'a> Patience<'a> {
    /// Creates a wait for the server at `url`, which may be unavailable for up to `wait`.
    pub fn new(url: &'a str, wait: Duration, stop: &'a AtomicBool) -> Patience<'a> {
        Patience {
            url,
            wait,
            stop,
            last: None,
        }
    }

    /// Waits until the server answers, and calls `tell` with the remaining time before each attempt. Returns
    /// immediately if the cause of `error` is not an unavailable server.
    ///
    /// # Errors
    /// Returns the last error when the time limit is reached.
    pub fn wait(&mut self, error: Error, tell: impl Fn(&Error, Duration)) -> Result<(), Error> {
        if !error.is_transient() {
            return Err(error);
        }
        let mut error = error;
        let until = match self.last {
            Some((until, back)) if back.elapsed() < STEADY => until,
            _ => Instant::now() + self.wait,
        };
        let mut backoff = Backoff::from(PAUSE, PAUSE);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(error);
            }
            tell(&error, left);
            thread::sleep(backoff.pause().min(left));
            if self.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            match self.attempt() {
                Err(still) if still.is_transient() => error = still,
                // Any other error comes from a running server.
                _ => {
                    self.last = Some((until, Instant::now()));
                    return Ok(());
                }
            }
        }
    }

    fn attempt(&self) -> Result<(), Error> {
        let options = Server::options(self.url).retries(0);
        let server = options.timeout(TIMEOUT).job_timeout(TIMEOUT).open()?;
        let ping = Call::<redis::Value>::new(redis::cmd("PING"));
        server.ask(ping).map(drop)
    }
}
