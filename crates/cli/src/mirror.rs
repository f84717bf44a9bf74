//! Mirrors the tags of one kind from a database into a tag space.
//!
//! A [`Mirror`] runs an SQL query on PostgreSQL for ids and their tags, loads all rows into a staged copy that no
//! reader sees, and publishes the copy atomically. Then it receives changes by `NOTIFY`, queries the changed ids again,
//! and writes their tags. After any failure it starts again with a load; until that completes, readers see the previous
//! state.
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//! use crawlspace_cli::mirror::{Event, Mirror, Schema, Source, Target};
//! use crawlspace_client::tags::Kind;
//! let source = Source {
//!     url: "postgresql://reader@db.example/archive?sslmode=require".to_owned(),
//!     password: None,
//!     ca: None,
//!     query: Schema::default().query(),
//!     channel: "crawlspace_tags".to_owned(),
//! };
//! let target = Target {
//!     redis: "redis://127.0.0.1/".to_owned(),
//!     key: b"tags".to_vec(),
//!     kind: Kind::Tag,
//!     allow_empty: false,
//! };
//! static STOP: AtomicBool = AtomicBool::new(false);
//! let mirror = Mirror::new(&source, target, &STOP)?;
//! mirror.follow(&Default::default(), &mut |event| {
//!     if let Event::Changed { id, tags } = event {
//!         println!("{} -> {}", String::from_utf8_lossy(id), String::from_utf8_lossy(tags));
//!     }
//! })?;
//! # Ok::<(), crawlspace_cli::mirror::Error>(())
//! ```

mod database;
mod difference;
mod error;
mod file;
mod follow;
mod row;
mod schema;
mod session;
mod space;
mod tls;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use self::database::Database;
pub use self::database::Source;
use self::difference::Rows;
pub use self::difference::{Difference, TagChange};
pub use self::error::Error;
pub use self::file::{compare_csv, load_csv};
pub use self::follow::Follow;
use self::row::Row;
pub use self::schema::{Flag, Schema};
use self::session::{Changes, Session};
use self::space::Space;
pub use self::space::Target;
use crawlspace_client::tags::{Info, TagSpace};

/// Interval at which a load checks for changes while it waits for rows.
const GLANCE: Duration = Duration::from_millis(100);
/// Maximum number of pages read ahead.
const PAGES_AHEAD: usize = 2;

/// Result of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Loaded {
    /// Ids with tags.
    pub ids: u64,
    /// Number of tags of these ids.
    pub tags: u64,
    /// Duration of the load, in milliseconds.
    pub ms: u64,
}

/// Events of a mirror.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Another mirror holds the lock of this space; this mirror waits for it.
    Waiting(&'a Error),
    /// Number of ids read so far.
    Staged(u64),
    /// A load was published.
    Loaded(Loaded),
    /// An id has these tags now, separated by spaces; empty if the id was deleted.
    #[allow(missing_docs)]
    Changed { id: &'a [u8], tags: &'a [u8] },
    /// A change could not be written; the text names the id, which keeps its old tags.
    Refused(&'a str),
    /// A failure; the mirror starts again after a pause.
    #[allow(missing_docs)]
    Trouble { error: &'a Error, pause: Duration },
}

type Tell<'t> = &'t mut dyn FnMut(Event<'_>);

/// Mirror of a database query in a tag space.
pub struct Mirror<'a> {
    database: Database,
    target: Target,
    stop: &'a AtomicBool,
}

impl<'a> Mirror<'a> {
    /// Creates a mirror that ends soon after `stop` becomes true. Does not connect yet.
    ///
    /// # Errors
    /// Fails if a URL, the channel or a certificate file is invalid.
    pub fn new(source: &Source, target: Target, stop: &'a AtomicBool) -> Result<Mirror<'a>, Error> {
        Ok(Mirror {
            database: Database::new(source, target.kind)?,
            target,
            stop,
        })
    }

    /// Loads once, without retries.
    ///
    /// # Errors
    /// Fails if the load fails; readers then see the previous state.
    pub fn once(&self, tell: Tell<'_>) -> Result<Loaded, Error> {
        let mut session = self.database.open()?;
        self.lock(&mut session)?;
        let mut space = Space::open(&self.target)?;
        self.load(None, &mut session, &mut space, tell)
    }

    /// Returns the differences between the space and the source, without writing.
    ///
    /// # Errors
    /// Fails if the source or the space cannot be read.
    pub fn difference(&self) -> Result<Difference, Error> {
        let mut rows = Rows::default();
        self.database.open()?.each_page(|page| {
            page.into_iter().for_each(|row| rows.take(row));
            self.stopped().is_ok()
        })?;
        self.stopped()?;
        rows.compare(&reader(&self.target)?, self.target.kind)
    }

    fn stopped(&self) -> Result<(), Error> {
        if self.stop.load(Ordering::Relaxed) {
            Err(Error::Stopped)
        } else {
            Ok(())
        }
    }

    /// Locks the space, so that this mirror is the only one that writes to it.
    fn lock(&self, session: &mut Session) -> Result<(), Error> {
        session.lock(&self.target.lock()?)?.map_err(|holder| {
            let key = self.target.key.escape_ascii();
            let kind = self.target.kind.word().to_lowercase();
            Error::Held(format!(
                "another mirror already updates the {kind}s of the space '{key}' on this server ({holder})"
            ))
        })
    }

    /// Loads all rows. Changes received by `heard` meanwhile are part of the published copy.
    fn load(
        &self,
        mut heard: Option<&mut Session>,
        asked: &mut Session,
        space: &mut Space,
        tell: Tell<'_>,
    ) -> Result<Loaded, Error> {
        let begun = Instant::now();
        let mut since = Changes::default();
        space.begin()?;
        let placed = self
            .stage(heard.as_deref_mut(), asked, space, &mut since, tell)
            .and_then(|()| self.publish(heard.as_deref_mut(), space, &mut since, tell));
        let info = placed.inspect_err(|_| space.discard())?;
        let loaded = Loaded {
            ids: info.ids(self.target.kind),
            tags: info.edges(self.target.kind),
            ms: begun.elapsed().as_millis() as u64,
        };
        tell(Event::Loaded(loaded));
        match heard {
            // A notification during the load announced that everything has changed.
            Some(heard) if since.everything => self.load(Some(heard), asked, space, tell),
            _ => Ok(loaded),
        }
    }

    /// Reads all rows into the staged copy. PostgreSQL may take a while to return the first row, so
    /// another thread waits for it. Meanwhile, this thread handles changes.
    fn stage(
        &self,
        heard: Option<&mut Session>,
        asked: &mut Session,
        space: &mut Space,
        since: &mut Changes,
        tell: Tell<'_>,
    ) -> Result<(), Error> {
        let cancel = asked.canceller();
        thread::scope(|scope| {
            let (to, pages) = mpsc::sync_channel(PAGES_AHEAD);
            let reading = scope.spawn(move || asked.each_page(|page| to.send(page).is_ok()));
            let staged = self.stage_pages(&pages, heard, space, since, tell);
            drop(pages);
            if staged.is_err() {
                self.database.cancel(&cancel);
            }
            let read = match reading.join() {
                Ok(read) => read,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            staged.and(read)
        })
    }

    fn stage_pages(
        &self,
        pages: &mpsc::Receiver<Vec<Row>>,
        mut heard: Option<&mut Session>,
        space: &mut Space,
        since: &mut Changes,
        tell: Tell<'_>,
    ) -> Result<(), Error> {
        let mut read = 0;
        loop {
            self.stopped()?;
            if let Some(heard) = heard.as_deref_mut() {
                self.hear(heard, space, since, tell)?;
            }
            match pages.recv_timeout(GLANCE) {
                Ok(page) => {
                    for row in &page {
                        space.stage(row, true)?;
                    }
                    read += page.len() as u64;
                    tell(Event::Staged(read));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    /// Records received changes, and immediately writes them to the published space, in case the load fails.
    fn hear(
        &self,
        heard: &mut Session,
        space: &mut Space,
        since: &mut Changes,
        tell: Tell<'_>,
    ) -> Result<(), Error> {
        let changes = heard.changes(Duration::ZERO)?;
        since.add(&changes);
        if space.is_whole() && !changes.ids.is_empty() {
            self.write(&changes, heard, space, tell)?;
        }
        Ok(())
    }

    /// Publishes the staged copy, together with the changes since it was read.
    fn publish(
        &self,
        heard: Option<&mut Session>,
        space: &mut Space,
        since: &mut Changes,
        tell: Tell<'_>,
    ) -> Result<Info, Error> {
        let (mut rows, mut bad) = Default::default();
        if let Some(heard) = heard {
            heard.prove_alive()?;
            self.hear(heard, space, since, tell)?;
            (rows, bad) = heard.ask(&since.ids)?;
        }
        self.stopped()?;
        let (info, refused) = space.publish(&rows)?;
        bad.extend(refused);
        for reason in &bad {
            tell(Event::Refused(reason));
        }
        Ok(info)
    }

    /// Queries the changed ids and writes their current tags.
    fn write(
        &self,
        changes: &Changes,
        session: &mut Session,
        space: &mut Space,
        tell: Tell<'_>,
    ) -> Result<(), Error> {
        let (rows, mut bad) = session.ask(&changes.ids)?;
        bad.extend(space.apply(&rows)?);
        for row in &rows {
            let (id, tags) = (&row.id[..], &row.joined()[..]);
            tell(Event::Changed { id, tags });
        }
        for reason in &bad {
            tell(Event::Refused(reason));
        }
        Ok(())
    }
}

/// Opens a read-only connection, which reconnects when it breaks.
fn reader(target: &Target) -> Result<TagSpace, Error> {
    Ok(TagSpace::open(&target.redis, &target.key[..])?)
}
