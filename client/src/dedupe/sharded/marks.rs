//! Operations under way on all shards, so that the opposite ones are refused until they are finished.
//!
//! A commit of an index that is spread is one commit for each shard, and a crash may come between two of them.
//! The marks stand in a plain hash of the home shard. Each run has one of its own: what an earlier run left
//! goes when a later one has done all of the work.

use std::hash::{BuildHasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

use redis::{FromRedisValue, ParsingError, Value};
use serde::Serialize;

use super::Sharded;
use crate::dedupe::Committed;
use crate::reply::{as_text, pairs};
use crate::server::{Call, Code, Error, Steps};

/// The hash, behind the prefix of the home shard, and its field with the number of shards.
pub(super) const KEY: &[u8] = b"shards";
pub(super) const COUNT: &[u8] = b"shards";

/// What is done to a crawl on all shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Doing {
    /// The crawl becomes part of the index.
    Commit,
    /// What is not committed of it goes.
    Cancel,
    /// The crawl leaves the index.
    Remove,
}

impl Doing {
    fn word(self) -> &'static str {
        match self {
            Doing::Commit => "commit",
            Doing::Cancel => "cancel",
            Doing::Remove => "remove",
        }
    }

    fn of(word: &[u8]) -> Option<Doing> {
        let all = [Doing::Commit, Doing::Cancel, Doing::Remove];
        all.into_iter()
            .find(|doing| doing.word().as_bytes() == word)
    }
}

/// Something that is under way on all shards, or was cut short: then sending it again finishes it.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Unfinished {
    /// What is done.
    pub doing: Doing,
    /// To which crawl.
    #[serde(serialize_with = "as_text")]
    pub crawl: Vec<u8>,
    /// Since when, in seconds since the epoch by the clock of the client that began it.
    pub since: u64,
    /// The figures that the other shards had committed in that run.
    #[serde(skip)]
    pub(super) committed: Committed,
    #[serde(skip)]
    field: Vec<u8>,
}

debug_as_text! { Unfinished { doing: plain, crawl: text, since: plain } }

impl Unfinished {
    /// A field: what, the number of the run, and the crawl, between spaces.
    ///
    /// Its value: since when, and of a commit the figures of the shards that have done it.
    fn read(field: Vec<u8>, value: &[u8]) -> Option<Unfinished> {
        let mut parts = field.splitn(3, |&byte| byte == b' ');
        let doing = Doing::of(parts.next()?)?;
        let crawl = parts.nth(1)?.to_vec();
        let mut numbers = std::str::from_utf8(value).ok()?.split(' ');
        let mut number = || numbers.next()?.parse().ok();
        Some(Unfinished {
            doing,
            crawl,
            since: number().unwrap_or_default(),
            committed: Committed {
                new: number().unwrap_or_default(),
                known: number().unwrap_or_default(),
            },
            field,
        })
    }
}

/// All marks of an index.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks(pub Vec<Unfinished>);

impl FromRedisValue for Marks {
    fn from_redis_value(value: Value) -> Result<Marks, ParsingError> {
        let fields = pairs::<Vec<u8>, Vec<u8>>(value)?.into_iter();
        let marks = fields.filter_map(|(field, value)| Unfinished::read(field, &value));
        Ok(Marks(marks.collect()))
    }
}

impl Marks {
    /// The marks of a crawl.
    pub fn of<'a>(&'a self, crawl: &'a [u8]) -> impl Iterator<Item = &'a Unfinished> {
        self.0.iter().filter(move |mark| mark.crawl == crawl)
    }

    /// Whether this is under way.
    pub fn has(&self, crawl: &[u8], doing: Doing) -> bool {
        self.of(crawl).any(|mark| mark.doing == doing)
    }

    /// Refuses to go on while something else is under way, or is yet to be finished.
    pub fn refuse(&self, name: &str, crawl: &[u8], others: &[Doing]) -> Result<(), Error> {
        let mut marks = self.of(crawl);
        let Some(mark) = marks.find(|mark| others.contains(&mark.doing)) else {
            return Ok(());
        };
        let (crawl, doing) = (crawl.escape_ascii(), mark.doing.word());
        Err(Error::refused(
            name,
            Code::Sharded,
            format!(
                "a {doing} of crawl '{crawl}' is under way or was cut short between two shards; {doing} it again \
                 to finish that first"
            ),
        ))
    }
}

/// The mark of one run.
pub(super) struct Run {
    fields: Vec<Vec<u8>>,
    since: u64,
}

impl<S: Steps> Sharded<S> {
    pub(super) fn marks_call(&self) -> Call<Marks> {
        let mut marks = redis::cmd("HGETALL");
        marks.arg(self.home().key(KEY));
        Call::new(marks).repeatable()
    }

    /// From now on this is under way.
    pub(super) async fn enter_marks(&self, doing: Doing, crawls: &[&[u8]]) -> Result<Run, Error> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let since = since.map_or(0, |since| since.as_secs());
        let number = RandomState::new().hash_one(since);
        let field = |crawl: &&[u8]| {
            let mut field = format!("{} {number:016x} ", doing.word()).into_bytes();
            field.extend_from_slice(crawl);
            field
        };
        let fields: Vec<_> = crawls.iter().map(field).collect();
        let mut set = redis::cmd("HSET");
        set.arg(self.home().key(KEY));
        for field in &fields {
            set.arg(field).arg(since);
        }
        let set = Call::<u64>::new(set).repeatable();
        self.server().step(set).await?;
        Ok(Run { fields, since })
    }

    /// Adds to the mark what the other shards have committed: the next run reports it, if this one is cut short.
    pub(super) async fn note(&self, run: &Run, committed: Committed) -> Result<(), Error> {
        let value = format!("{} {} {}", run.since, committed.new, committed.known);
        let mut set = redis::cmd("HSET");
        set.arg(self.home().key(KEY));
        for field in &run.fields {
            set.arg(field).arg(&value);
        }
        let set = Call::<u64>::new(set).repeatable();
        self.server().step(set).await.map(drop)
    }

    /// All of it is done: what earlier runs left to do as well.
    pub(super) async fn end<'a>(
        &self,
        run: Run,
        left: impl Iterator<Item = &'a Unfinished>,
    ) -> Result<(), Error> {
        let mut delete = redis::cmd("HDEL");
        delete.arg(self.home().key(KEY)).arg(run.fields);
        for mark in left {
            delete.arg(&mark.field[..]);
        }
        let delete = Call::<u64>::new(delete).repeatable();
        self.server().step(delete).await.map(drop)
    }
}
