//! Waits for a server that restarts or loads its data.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crawlspace_client::server::Backoff;
use crawlspace_client::{Ask, Call, Error, Server, redis};

/// Longest pause between two attempts to reach the server.
const PAUSE: Duration = Duration::from_millis(500);

/// Timeout of an attempt.
const TIMEOUT: Duration = Duration::from_secs(5);
/// A server that answered for this long has a new time limit when it is away again.
const STEADY: Duration = Duration::from_secs(10);

/// Patience with a server: how long to wait for it.
pub struct Patience<'a> {
    url: &'a str,
    wait: Duration,
    /// Returns early when this becomes true.
    stop: &'a AtomicBool,
    /// End of the last wait, and since when the server answers again.
    last: Option<(Instant, Instant)>,
}

impl<'a> Patience<'a> {
    /// Creates the patience with the server at `url`, which may be away for as long as `wait`.
    pub fn new(url: &'a str, wait: Duration, stop: &'a AtomicBool) -> Patience<'a> {
        Patience {
            url,
            wait,
            stop,
            last: None,
        }
    }

    /// Waits until the server answers, and calls `tell` with the remaining time before each attempt. Returns at once
    /// if `error` has another cause than a server that is away.
    ///
    /// # Errors
    /// Returns the last error when the time is up.
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
                // Any other refusal comes from a server that is there.
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
