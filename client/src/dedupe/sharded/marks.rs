//! Marks of operations that run across all shards, so that conflicting operations are refused until
//! they finish.
//!
//! A commit of a sharded index is one commit per shard, and a crash may happen between two of them.
//! The marks are stored in a plain hash of the home shard. Each run has its own mark. When a later
//! run has completed the operation, it removes the mark of the interrupted run.

use std::hash::{BuildHasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

use redis::{FromRedisValue, ParsingError, Value};
use serde::Serialize;

use super::Sharded;
use crate::dedupe::Committed;
use crate::reply::{as_text, pairs};
use crate::server::{Call, Code, Error, Steps};

/// Name of the hash after the prefix of the home shard, and its field with the number of shards.
pub(super) const KEY: &[u8] = b"shards";
pub(super) const COUNT: &[u8] = b"shards";

/// Type of an operation on a crawl across all shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Doing {
    /// Commit of the crawl.
    Commit,
    /// Cancel: uncommitted records of the crawl are discarded.
    Cancel,
    /// Removal of the crawl from the index.
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

/// An operation that is running across all shards, or was interrupted. Sending it again completes
/// it.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Unfinished {
    /// Type of the operation.
    pub doing: Doing,
    /// Id of the crawl.
    #[serde(serialize_with = "as_text")]
    pub crawl: Vec<u8>,
    /// Start of the operation, in seconds since the Unix epoch, by the clock of the client that
    /// began it.
    pub since: u64,
    /// Counts of the commit that the other shards reported in that run and in earlier interrupted runs.
    #[serde(skip)]
    pub(super) committed: Committed,
    #[serde(skip)]
    field: Vec<u8>,
}

debug_as_text! { Unfinished { doing: plain, crawl: text, since: plain } }

impl Unfinished {
    /// Parses a mark. The field is the operation, the number of the run, and the crawl id, separated by
    /// spaces.
    ///
    /// The value is the start time and, for a commit, the counts of the shards that have completed it.
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

/// The marks of an index.
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
    /// Returns the marks of a crawl.
    pub fn of<'a>(&'a self, crawl: &'a [u8]) -> impl Iterator<Item = &'a Unfinished> {
        self.0.iter().filter(move |mark| mark.crawl == crawl)
    }

    /// Returns true if this operation is running on the crawl, or was interrupted.
    pub fn has(&self, crawl: &[u8], doing: Doing) -> bool {
        self.of(crawl).any(|mark| mark.doing == doing)
    }

    /// Returns the counts that other shards reported to earlier runs of a commit.
    ///
    /// Returns those of the mark with the largest counts, not their sum: each mark includes the counts
    /// of earlier runs, and runs at the same time may have counted the same hashes, because a shard
    /// sends its reply to all clients that commit the crawl.
    pub fn committed(&self, crawl: &[u8]) -> Committed {
        let counts = self.of(crawl).map(|mark| mark.committed);
        counts
            .max_by_key(|counts| counts.new + counts.known)
            .unwrap_or_default()
    }

    /// Returns an error if one of the `others` is running on the crawl, or was interrupted.
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
                "a {doing} of crawl '{crawl}' is running or was interrupted between two shards; repeat the \
                 {doing} to finish it first"
            ),
        ))
    }
}

/// A run of an operation on one or more crawls, with a mark for each crawl.
pub(super) struct Run {
    doing: Doing,
    number: u64,
    since: u64,
}

impl Run {
    /// Returns the field of the mark of a crawl.
    fn field(&self, crawl: &[u8]) -> Vec<u8> {
        let begin = format!("{} {:016x} ", self.doing.word(), self.number);
        [begin.as_bytes(), crawl].concat()
    }
}

impl<S: Steps> Sharded<S> {
    pub(super) fn marks_call(&self) -> Call<Marks> {
        let mut marks = redis::cmd("HGETALL");
        marks.arg(self.home().key(KEY));
        Call::new(marks).repeatable()
    }

    /// Sets the marks of a new run.
    pub(super) async fn enter_marks(&self, doing: Doing, crawls: &[&[u8]]) -> Result<Run, Error> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let since = since.map_or(0, |since| since.as_secs());
        let number = RandomState::new().hash_one(since);
        let run = Run {
            doing,
            number,
            since,
        };
        let mut set = redis::cmd("HSET");
        set.arg(self.home().key(KEY));
        for crawl in crawls {
            set.arg(run.field(crawl)).arg(since);
        }
        let set = Call::<u64>::new(set).repeatable();
        self.server().step(set).await?;
        Ok(run)
    }

    /// Adds the counts that the other shards have reported to the marks of the crawls, together with those
    /// of earlier runs. If this run is interrupted, the next run reports them.
    pub(super) async fn note(&self, run: &Run, counts: &[(&[u8], Committed)]) -> Result<(), Error> {
        if counts.is_empty() {
            return Ok(());
        }
        let mut set = redis::cmd("HSET");
        set.arg(self.home().key(KEY));
        for (crawl, Committed { new, known }) in counts {
            set.arg(run.field(crawl));
            set.arg(format!("{} {new} {known}", run.since));
        }
        let set = Call::<u64>::new(set).repeatable();
        self.server().step(set).await.map(drop)
    }

    /// Removes the marks of completed operations on these crawls: those of this run, and those of
    /// earlier interrupted runs.
    pub(super) async fn end(
        &self,
        run: &Run,
        crawls: &[&[u8]],
        earlier: &Marks,
    ) -> Result<(), Error> {
        if crawls.is_empty() {
            return Ok(());
        }
        let mut delete = redis::cmd("HDEL");
        delete.arg(self.home().key(KEY));
        for crawl in crawls {
            delete.arg(run.field(crawl));
        }
        let left = earlier.0.iter();
        for mark in left.filter(|mark| crawls.contains(&&mark.crawl[..])) {
            delete.arg(&mark.field[..]);
        }
        let delete = Call::<u64>::new(delete).repeatable();
        self.server().step(delete).await.map(drop)
    }
}
