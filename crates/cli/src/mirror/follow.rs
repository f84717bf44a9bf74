//! A mirror that stays up to date.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use crawlspace_client::server::Backoff;

use super::space::Left;
use super::{Error, Event, Mirror, Session, Space, Tell};

/// Interval of checks whether to stop.
const TICK: Duration = Duration::from_millis(200);
/// How often it looks, when nothing changes, whether both servers are there and the space is what it was.
const CHECK: Duration = Duration::from_secs(2);
/// Maximum number of changed ids read one by one; more at once make a load.
const BURST: usize = 10_000;
/// Time of work after which a failure counts as a new one, with the first back-off.
const STEADY: Duration = Duration::from_secs(5);

/// The longest pause after a failure.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// How a mirror follows its source.
#[derive(Clone, Copy, Debug, Default)]
pub struct Follow {
    /// If another mirror keeps the space, wait for its end.
    pub wait: bool,
    /// Maximum time between two loads of everything, in case a notification was lost.
    pub every: Option<Duration>,
}

/// What one connection after the other leaves to the next.
#[derive(Default)]
struct Past {
    /// A load was placed by this process.
    ever: bool,
    /// A load was placed over the connection of now.
    placed: bool,
    /// What was in the space last.
    left: Option<Left>,
}

impl Mirror<'_> {
    /// Loads everything, and follows the changes until it is stopped. When a server is lost, or the space is
    /// not what it was left as, it starts again.
    ///
    /// # Errors
    /// When the first load fails for a reason that waiting does not mend: a wrong query or password, rows that
    /// are no tags, another mirror of this space.
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
            // Later, a lock that is taken may be that of our own connection, which the server does not yet
            // know to be dead; and a query that is wrong for a while is somebody at work on the tables.
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

    /// Sleeps, unless it is stopped.
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

    /// Makes sure that this mirror is the only one of its space, though it may have to wait for that.
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

    /// Loads and follows until something breaks.
    fn keep(&self, how: &Follow, past: &mut Past, tell: Tell<'_>) -> Result<Infallible, Error> {
        self.stopped()?;
        // One connection hears of changes while the other one reads everything.
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
        // When everything is to be loaded, if nothing happens before.
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
                    // The source is at fault. What readers see is whole, though it may be old, so changes are
                    // still worth following.
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
