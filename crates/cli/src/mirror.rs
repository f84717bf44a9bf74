//! Keeps the tags of one kind in a space as a database has them.
//!
//! A [`Mirror`] asks a query of PostgreSQL for ids and their tags, loads all of them into a staged copy that no
//! reader sees, and puts that in place at once. Then it hears of changes by `NOTIFY`, asks the query again for
//! the ids that changed, and writes what it answers. After any failure it starts again with a load: what
//! readers see in the meantime is what they saw before.
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

/// How often a load looks for changes while it waits for rows.
const GLANCE: Duration = Duration::from_millis(100);
/// How many pages of rows are read ahead.
const PAGES_AHEAD: usize = 2;

/// What was put in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Loaded {
    /// Ids with tags.
    pub ids: u64,
    /// Their tags.
    pub tags: u64,
    /// How long it took, in milliseconds.
    pub ms: u64,
}

/// Events of a mirror.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Another mirror keeps this space. This one waits for its end.
    Waiting(&'a Error),
    /// Number of ids read so far.
    Staged(u64),
    /// A load is in place.
    Loaded(Loaded),
    /// This id has these tags now, joined by spaces; none when it is gone.
    #[allow(missing_docs)]
    Changed { id: &'a [u8], tags: &'a [u8] },
    /// A change could not be written; the text names the id. It has the tags that it had.
    Refused(&'a str),
    /// A failure; the mirror starts again after a pause.
    #[allow(missing_docs)]
    Trouble { error: &'a Error, pause: Duration },
}

type Tell<'t> = &'t mut dyn FnMut(Event<'_>);

/// A query of a database, mirrored into a space.
pub struct Mirror<'a> {
    database: Database,
    target: Target,
    stop: &'a AtomicBool,
}

impl<'a> Mirror<'a> {
    /// A mirror that ends soon after `stop` has become true. Nothing is connected to yet.
    ///
    /// # Errors
    /// When an URL, a channel or a file of certificates makes no sense.
    pub fn new(source: &Source, target: Target, stop: &'a AtomicBool) -> Result<Mirror<'a>, Error> {
        Ok(Mirror {
            database: Database::new(source, target.kind)?,
            target,
            stop,
        })
    }

    /// One load. Nothing is tried twice.
    ///
    /// # Errors
    /// When it failed; readers see what they saw before.
    pub fn once(&self, tell: Tell<'_>) -> Result<Loaded, Error> {
        let mut session = self.database.open()?;
        self.lock(&mut session)?;
        let mut space = Space::open(&self.target)?;
        self.load(None, &mut session, &mut space, tell)
    }

    /// How the space differs from what a load would put in place. Nothing is written.
    ///
    /// # Errors
    /// When one of them cannot be read.
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

    /// Makes sure that this mirror is the only one of its space.
    fn lock(&self, session: &mut Session) -> Result<(), Error> {
        session.lock(&self.target.lock()?)?.map_err(|holder| {
            let key = self.target.key.escape_ascii();
            let kind = self.target.kind.word().to_lowercase();
            Error::Held(format!(
                "another mirror keeps the {kind}s of the space '{key}' on this server ({holder})"
            ))
        })
    }

    /// Loads everything. Changes that `heard` hears of meanwhile are part of it when it is in place.
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
            // Somebody said meanwhile that everything has changed.
            Some(heard) if since.everything => self.load(Some(heard), asked, space, tell),
            _ => Ok(loaded),
        }
    }

    /// Reads everything into the staged copy. PostgreSQL may think for a while before it gives the first row,
    /// so another thread waits for it: a change is seen without waiting for the end of a load.
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

    /// Takes down what has changed, and writes it at once where readers see it: perhaps nothing comes of the
    /// load.
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

    /// Puts the staged copy in place, with what has changed since it was read.
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

    /// Writes what the query says about changed ids now.
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

/// A read-only connection, which is replaced when it breaks.
fn reader(target: &Target) -> Result<TagSpace, Error> {
    Ok(TagSpace::open(&target.redis, &target.key[..])?)
}
