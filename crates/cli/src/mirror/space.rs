//! The tag space of a mirror. It uses a single connection; when that breaks, the mirror starts again.

use std::time::Duration;

use redis::{Pipeline, RedisError, Value};

use super::Error;
use super::row::{Row, shown};
use crawlspace_client::server::{Ask, Call, Server};
use crawlspace_client::tags::{Info, Kind, Mode, TagSpace, TaggedId};

/// Timeout without a reply, after which the server is considered dead.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Number of ids per call.
const PAGE: usize = 1000;
/// Maximum number of attempts of a transaction while other clients write to the space.
const MAX_TRIES: usize = 10;

/// The tag space into which a source is mirrored.
#[derive(Clone, Debug)]
pub struct Target {
    /// The server: `redis://host:port/db`, or `unix:///path`.
    pub redis: String,
    /// Key of the space.
    pub key: Vec<u8>,
    /// Kind of the ids. All ids of this kind in the space belong to the mirror.
    pub kind: Kind,
    /// Allows an empty source to empty a space that holds ids.
    pub allow_empty: bool,
}

impl Target {
    /// Returns the name of the lock that excludes other mirrors.
    pub(super) fn lock(&self) -> Result<String, Error> {
        let client = redis::Client::open(&self.redis[..]).map_err(|cause| {
            let doing = format!(
                "the URL {}",
                crawlspace_client::server::without_password(&self.redis)
            );
            Error::Redis(crawlspace_client::Error::new(doing, cause))
        })?;
        let to = client.get_connection_info();
        let (address, database) = (to.addr(), to.redis_settings().db());
        let key = self.key.escape_ascii();
        let kind = self.kind.word();
        Ok(format!("crawlspace tags {address}/{database} {key} {kind}"))
    }
}

/// Contents of a space after a write: number of ids of the kind, and number of edges.
pub(super) type Left = (u64, u64);

/// Connection to a space, with the space's contents after the last call.
pub(super) struct Space {
    tags: TagSpace,
    /// The connection of `tags`, through which other commands are sent.
    server: Server,
    kind: Kind,
    allow_empty: bool,
    /// Contents of the space after the last write, if the space has been loaded completely.
    pub left: Option<Left>,
    staged: Vec<TaggedId>,
    /// Number of ids in the staged copy.
    ids: u64,
}

impl Space {
    pub(crate) fn open(target: &Target) -> Result<Space, Error> {
        let server = Server::options(&target.redis).timeout(TIMEOUT);
        let server = server.only_one().open()?;
        Ok(Space {
            tags: TagSpace::on(&server, &target.key[..]),
            server,
            kind: target.kind,
            allow_empty: target.allow_empty,
            left: None,
            staged: Vec::new(),
            ids: 0,
        })
    }

    /// Returns true if readers see a complete load, including later changes. Otherwise, for example after
    /// the space lost its data, do not write single ids: readers would see no other ids.
    pub(crate) fn is_whole(&self) -> bool {
        self.left.is_some()
    }

    /// Begins an empty staged copy.
    pub(crate) fn begin(&mut self) -> Result<(), Error> {
        self.tags.discard(self.kind)?;
        let none: [TaggedId; 0] = [];
        self.tags.load(self.kind, Mode::Stage, &none)?;
        self.staged.clear();
        self.ids = 0;
        Ok(())
    }

    /// Adds a row to the staged copy. `new` means that its id is not in the copy yet.
    pub(crate) fn stage(&mut self, row: &Row, new: bool) -> Result<(), Error> {
        if row.tags.is_empty() {
            return Ok(());
        }
        self.ids += u64::from(new);
        self.staged.push((row.id.clone(), row.joined()));
        if self.staged.len() >= PAGE {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        if !self.staged.is_empty() {
            self.tags.load(self.kind, Mode::Stage, &self.staged)?;
            self.staged.clear();
        }
        Ok(())
    }

    /// Discards the staged copy, if possible.
    pub(crate) fn discard(&mut self) {
        // If this fails, the next load discards the copy.
        let _ = self.tags.discard(self.kind);
    }

    /// Publishes the staged copy atomically, together with the changes since it was read. Returns the counts, and
    /// errors of rejected changes.
    pub(crate) fn publish(&mut self, changed: &[Row]) -> Result<(Info, Vec<String>), Error> {
        self.flush()?;
        let ids = self.ids;
        let staged = |info: &Info, kind| match info.staged(kind) {
            there if there == ids => Ok(()),
            there => Err(Error::Disturbed(format!(
                "the staged copy holds {there} ids, not {ids}: another client loads this space as well, or the server \
                 lost data"
            ))),
        };
        let swap = self.tags.swap_command(self.kind, Some(ids));
        let mut write = Pipeline::new();
        write.atomic().ignore_errors().add_command(swap);
        let parts = self.add_changes(&mut write, changed);
        let kind = self.kind;
        let empties = would_be_empty(ids, changed);
        let (info, results) = self.transact(&mut write, |info| {
            staged(info, kind)?;
            Ok(empties && info.ids(kind) > 0)
        })?;
        let mut results = results.into_iter();
        if let Some(Err(cause)) = results.next() {
            return Err(refused("TAGS.SWAP", cause));
        }
        let bad = parts.refused(results.collect(), changed)?;
        self.left = Some((info.ids(kind), info.edges(kind)));
        Ok((info, bad))
    }

    /// Writes changes to the published space, atomically. Returns errors of rejected changes.
    pub(crate) fn apply(&mut self, changed: &[Row]) -> Result<Vec<String>, Error> {
        if changed.is_empty() {
            return Ok(Vec::new());
        }
        let Some(left) = self.left else {
            unreachable!("changes are applied after a full load");
        };
        let mut write = Pipeline::new();
        write.atomic().ignore_errors();
        let parts = self.add_changes(&mut write, changed);
        let kind = self.kind;
        let (info, results) = self.transact(&mut write, |info| {
            as_left(info, kind, left)?;
            Ok(left.0 > 0 && would_be_empty(left.0, changed))
        })?;
        let bad = parts.refused(results, changed)?;
        self.left = Some((info.ids(kind), info.edges(kind)));
        Ok(bad)
    }

    /// Checks that the space still has the contents written last.
    pub(super) fn check(&mut self) -> Result<(), Error> {
        let info = self.tags.info()?;
        match self.left {
            Some(left) => as_left(&info, self.kind, left).inspect_err(|_| self.left = None),
            None => Ok(()),
        }
    }

    /// Adds all changes as one call, so that readers see all or none. Each change is also added as
    /// its own call, in case the server refuses the common call because of a single change.
    fn add_changes(&self, write: &mut Pipeline, changed: &[Row]) -> Parts {
        let rows: Vec<TaggedId> = changed
            .iter()
            .map(|row| (row.id.clone(), row.joined()))
            .collect();
        let load = |rows: &[TaggedId]| self.tags.load_command(self.kind, Mode::Set, rows);
        if rows.is_empty() {
            return Parts::None;
        }
        write.add_command(load(&rows));
        if rows.len() == 1 {
            return Parts::One;
        }
        for row in &rows {
            write.add_command(load(std::slice::from_ref(row)));
        }
        Parts::Each
    }

    /// Runs a transaction on the space in the state that `check` saw: no other client writes in between. `check`
    /// returns whether the transaction would empty the space. Returns the counts afterwards, and one result per
    /// command.
    fn transact(
        &mut self,
        write: &mut Pipeline,
        check: impl Fn(&Info) -> Result<bool, Error>,
    ) -> Result<(Info, Vec<Result<Value, RedisError>>), Error> {
        write.add_command(self.tags.command("TAGS.INFO"));
        let watch = self.tags.command("WATCH");
        for _ in 0..MAX_TRIES {
            self.server.ask(Call::<()>::new(watch.clone()))?;
            let info = self.tags.info()?;
            let allowed = match check(&info) {
                Ok(true) if !self.allow_empty => Err(Error::Emptied {
                    ids: info.ids(self.kind),
                }),
                Ok(_) => Ok(()),
                Err(error) => Err(error),
            };
            if let Err(error) = allowed {
                if matches!(error, Error::Disturbed(_)) {
                    self.left = None;
                }
                let unwatch = redis::cmd("UNWATCH");
                self.server.ask(Call::<()>::new(unwatch))?;
                return Err(error);
            }
            // The contents are unknown until the transaction's result is known.
            let left = self.left.take();
            if let Some(mut results) = self.server.transact(write)? {
                let info = match results.pop() {
                    Some(Ok(info)) => redis::from_redis_value(info).map_err(RedisError::from),
                    Some(Err(cause)) => Err(cause),
                    None => unreachable!("as many results as commands"),
                };
                let info = info.map_err(|cause| refused("TAGS.INFO", cause))?;
                return Ok((info, results));
            }
            self.left = left;
        }
        Err(Error::Disturbed(
            "other clients changed the space during each of 10 attempts".to_owned(),
        ))
    }
}

/// Arrangement of changes in a transaction.
enum Parts {
    None,
    One,
    /// A call for all changes together, then a call per change.
    Each,
}

impl Parts {
    /// Returns which changes were rejected, from the results of the commands.
    fn refused(
        &self,
        results: Vec<Result<Value, RedisError>>,
        changed: &[Row],
    ) -> Result<Vec<String>, Error> {
        let singles = match self {
            Parts::None => return Ok(Vec::new()),
            Parts::One => &results[..],
            Parts::Each if results[0].is_ok() => return Ok(Vec::new()),
            Parts::Each => &results[1..],
        };
        let mut bad = Vec::new();
        for (result, row) in singles.iter().zip(changed) {
            let Err(cause) = result else { continue };
            // `CYCLE` is the only error about a tag; all other errors concern the server.
            if cause.code() != Some("CYCLE") {
                return Err(refused("TAGS.LOAD", cause.clone()));
            }
            let sentence = cause.detail().unwrap_or_default();
            bad.push(format!("id '{}': CYCLE {sentence}", shown(&row.id)));
        }
        Ok(bad)
    }
}

fn refused(doing: &str, cause: RedisError) -> Error {
    Error::Redis(crawlspace_client::Error::new(doing, cause))
}

/// Returns true if these changes could remove all ids.
fn would_be_empty(ids: u64, changed: &[Row]) -> bool {
    let gone = changed.iter().filter(|row| row.tags.is_empty()).count() as u64;
    gone == changed.len() as u64 && ids <= gone
}

fn as_left(info: &Info, kind: Kind, left: Left) -> Result<(), Error> {
    let there = (info.ids(kind), info.edges(kind));
    if there == left {
        return Ok(());
    }
    Err(Error::Disturbed(format!(
        "the space holds {} ids with {} tags, but {} with {} were written: another client writes to it, or the server \
         lost data",
        there.0, there.1, left.0, left.1
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, tags: &str) -> Row {
        Row::of_text(Kind::Tag, id.as_bytes(), tags.as_bytes()).unwrap()
    }

    #[test]
    fn space_is_empty_when_all_its_keys_are_gone() {
        assert!(would_be_empty(0, &[]));
        assert!(!would_be_empty(1, &[]));
        assert!(would_be_empty(1, &[row("a", "")]));
        assert!(!would_be_empty(2, &[row("a", "")]));
        assert!(!would_be_empty(1, &[row("a", ""), row("b", "x")]));
    }

    #[test]
    fn lock_does_not_depend_on_the_spelling_of_the_server() {
        let lock = |redis: &str| {
            let target = Target {
                redis: redis.to_owned(),
                key: b"tags".to_vec(),
                kind: Kind::Tag,
                allow_empty: false,
            };
            target.lock().unwrap()
        };
        assert_eq!(lock("redis://me:secret@h"), lock("redis://h:6379/0"));
        assert_ne!(lock("redis://h/1"), lock("redis://h/0"));
        assert!(!lock("redis://me:secret@h").contains("secret"));
    }
}
