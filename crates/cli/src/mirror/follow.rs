//! Continuous mirroring.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use crawlspace_client::server::Backoff;

use super::space::Left;
use super::{Error, Event, Mirror, Session, Space, Tell};

/// Interval of checks for a stop request.
const TICK: Duration = Duration::from_millis(200);
/// Interval of checks, without changes, that both servers answer and the space is unmodified.
const CHECK: Duration = Duration::from_secs(2);
/// Maximum number of changed ids to query individually; if more change at once, everything is loaded again.
const BURST: usize = 10_000;
/// Time without a failure after which the next failure restarts the back-off.
const STEADY: Duration = Duration::from_secs(5);

/// Maximum pause after a failure.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Options for following a source.
#[derive(Clone, Copy, Debug, Default)]
pub struct Follow {
    /// Waits if another mirror holds the lock of the space.
    pub wait: bool,
    /// Maximum interval between two full loads, in case a notification was lost.
    pub every: Option<Duration>,
}

/// State kept from one connection to the next.
#[derive(Default)]
struct Past {
    /// True if this process has published a load.
    ever: bool,
    /// True if a load was published over the current connection.
    placed: bool,
    /// Contents of the space after the last write.
    left: Option<Left>,
}

impl Mirror<'_> {
    /// Loads all rows, and follows changes until stopped. If a server is lost, or another client modified the space,
    /// the mirror starts again.
    ///
    /// # Errors
    /// Fails if the first load fails for a reason that waiting does not fix: a wrong query or
    /// password, invalid rows, another mirror of this space.
    pub fn follow(&self, how: &Follow, tell: Tell<'_>) -> Result<(), Error> {
        let mut backoff = Backoff::new(MAX_PAUSE);
        let mut past = Past::default();
        loop {
            let begun = Instant::now();
            past.placed = false;
            let error = match self.keep(how, &mut past, tell) {
                Ok(never) => match never {},
                Err(Error::Stopped) => return Ok(()),
                Err(error) => error,
            };
            past.ever |= past.placed;
            // After the first load, these errors may be temporary: the lock may still be held by
            // the mirror's own broken connection, and a query may fail because the tables are being
            // changed.
            if !past.ever && error.is_lasting() {
                return Err(error);
            }
            if past.placed && begun.elapsed() > STEADY {
                backoff = Backoff::new(MAX_PAUSE);
            }
            let pause = backoff.pause();
            let error = &error;
            tell(Event::Trouble { error, pause });
            if self.sleep(pause).is_err() {
                return Ok(());
            }
        }
    }

    /// Sleeps unless stopped.
    fn sleep(&self, pause: Duration) -> Result<(), Error> {
        let begun = Instant::now();
        loop {
            self.stopped()?;
            match pause.checked_sub(begun.elapsed()) {
                Some(left) if !left.is_zero() => std::thread::sleep(left.min(TICK)),
                _ => return Ok(()),
            }
        }
    }

    /// Locks the space; if the options allow it, waits for another mirror to release the lock.
    fn lock_or_wait(
        &self,
        session: &mut Session,
        how: &Follow,
        tell: Tell<'_>,
    ) -> Result<(), Error> {
        let mut reported = false;
        loop {
            match self.lock(session) {
                Err(error @ Error::Held(_)) if how.wait => {
                    if !reported {
                        tell(Event::Waiting(&error));
                        reported = true;
                    }
                    self.sleep(Duration::from_secs(1))?;
                }
                outcome => return outcome,
            }
        }
    }

    /// Loads and follows until an error occurs.
    fn keep(&self, how: &Follow, past: &mut Past, tell: Tell<'_>) -> Result<Infallible, Error> {
        self.stopped()?;
        // One connection receives notifications while the other one reads all rows.
        let mut heard = self.database.open()?;
        self.lock_or_wait(&mut heard, how, tell)?;
        heard.listen()?;
        let mut space = Space::open(&self.target)?;
        space.left = past.left.take();
        let outcome = self.follow_in(&mut heard, &mut space, how, past, tell);
        past.left = space.left;
        outcome
    }

    fn follow_in(
        &self,
        heard: &mut Session,
        space: &mut Space,
        how: &Follow,
        past: &mut Past,
        tell: Tell<'_>,
    ) -> Result<Infallible, Error> {
        let mut backoff = Backoff::new(MAX_PAUSE);
        let mut checked = Instant::now();
        // Time of the next full load, unless an event causes one before.
        let mut due = Some(Instant::now());
        loop {
            self.stopped()?;
            if due.is_some_and(|due| due <= Instant::now()) {
                let mut asked = self.database.open()?;
                match self.load(Some(heard), &mut asked, space, tell) {
                    Ok(_) => {
                        past.placed = true;
                        backoff = Backoff::new(MAX_PAUSE);
                        due = how.every.map(|every| Instant::now() + every);
                    }
                    // The source is faulty. Readers see a complete but possibly old state, so the
                    // mirror keeps following changes.
                    Err(error @ (Error::Row(_) | Error::Emptied { .. })) if space.is_whole() => {
                        let pause = backoff.pause();
                        let error = &error;
                        tell(Event::Trouble { error, pause });
                        due = Some(Instant::now() + pause);
                    }
                    Err(error) => return Err(error),
                }
            }
            let mut changes = heard.changes(TICK)?;
            if changes.is_empty() {
                if checked.elapsed() > CHECK {
                    heard.prove_alive()?;
                    space.check()?;
                    checked = Instant::now();
                }
                continue;
            }
            heard.prove_alive()?;
            changes.add(&heard.changes(Duration::ZERO)?);
            if changes.everything || changes.ids.len() > BURST {
                due = Some(Instant::now());
                continue;
            }
            match self.write(&changes, heard, space, tell) {
                Err(Error::Emptied { .. }) => due = Some(Instant::now()),
                outcome => outcome?,
            }
        }
    }
}
