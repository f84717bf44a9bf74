//! The `DEDUPE.*` commands, with types in place of reply arrays.
//!
//! ```no_run
//! use crawlspace_client::dedupe::Index;
//! let mut index = Index::open("redis://127.0.0.1/", "")?;
//! let hash = &b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A"[..];
//! match &index.lookup(None, &[hash])?[0] {
//!     Some(original) => println!("stored by {}", String::from_utf8_lossy(&original.crawl)),
//!     None => println!("new"),
//! }
//! # Ok::<(), crawlspace_client::dedupe::Error>(())
//! ```

use std::time::Duration;

use redis::{Cmd, FromRedisValue, Pipeline, RedisError, Value};
use serde::Serialize;

pub use crate::connection::Error;
use crate::connection::{Connection, REPLY};

/// The record that a hash was first stored with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    /// The crawl that stored it.
    pub crawl: Vec<u8>,
    /// Which of that crawl's WACZ files it is in.
    pub wacz_index: u64,
    /// When it was captured, in the form that the crawler gave: 14 digits, 17 digits or ISO.
    pub date: Vec<u8>,
    /// What was captured.
    pub url: Vec<u8>,
    /// Size of the `response` record in bytes.
    pub size: u64,
}

impl FromRedisValue for Original {
    fn from_redis_value(value: Value) -> Result<Self, redis::ParsingError> {
        let (crawl, wacz_index, date, url, size) = FromRedisValue::from_redis_value(value)?;
        Ok(Original {
            crawl,
            wacz_index,
            date,
            url,
            size,
        })
    }
}

/// A `response` record that was written.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // the arguments of DEDUPE.ADD, in its order
pub struct Added<'a> {
    pub hash: &'a [u8],
    pub wacz_index: u64,
    pub date: &'a [u8],
    pub url: &'a [u8],
    pub size: u64,
}

impl Added<'_> {
    fn write_to(&self, command: &mut Cmd) {
        command
            .arg(self.hash)
            .arg(self.wacz_index)
            .arg(self.date)
            .arg(self.url)
            .arg(self.size);
    }
}

/// A `revisit` record that was written.
#[derive(Clone, Copy, Debug)]
pub struct Revisited<'a> {
    /// Hash of the payload that it stands for.
    pub hash: &'a [u8],
    /// Size of the `revisit` record in bytes.
    pub size: u64,
}

/// What a commit added to the merged index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Committed {
    /// Hashes that the index did not have.
    pub new: u64,
    /// Hashes that another crawl owns already.
    pub known: u64,
}

/// What a claim came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The payload is known: write a `revisit` record.
    Known(Original),
    /// Yours: store the record, and settle with this token.
    Yours(Vec<u8>),
    /// Another worker is about to store it.
    Pending {
        /// The crawl of that worker.
        holder: Vec<u8>,
        /// When its claim ends by itself.
        left: Duration,
    },
}

impl FromRedisValue for Claim {
    fn from_redis_value(value: Value) -> Result<Self, redis::ParsingError> {
        let mut parts = Vec::<Value>::from_redis_value(value)?.into_iter();
        let mut next = || parts.next().unwrap_or(Value::Nil);
        let state = Vec::<u8>::from_redis_value(next())?;
        match &state[..] {
            b"DUPE" => Ok(Claim::Known(Original::from_redis_value(next())?)),
            b"CLAIMED" => Ok(Claim::Yours(FromRedisValue::from_redis_value(next())?)),
            _ => Ok(Claim::Pending {
                holder: FromRedisValue::from_redis_value(next())?,
                left: Duration::from_millis(u64::from_redis_value(next())?),
            }),
        }
    }
}

/// A dedupe index: the keys of one prefix on one server.
pub struct Index {
    server: Connection,
    prefix: Vec<u8>,
}

impl Index {
    /// Connects to the server at `url` (`redis://host:port/db`, or `unix:///path`). `prefix` stands before
    /// every key of the index, and may be empty.
    ///
    /// # Errors
    /// When the URL is none, or nobody answers there.
    pub fn open(url: &str, prefix: impl Into<Vec<u8>>) -> Result<Index, Error> {
        Ok(Index {
            server: Connection::open(url)?,
            prefix: prefix.into(),
        })
    }

    fn command(&self, name: &str) -> Cmd {
        let mut command = redis::cmd(name);
        command.arg(&self.prefix[..]);
        command
    }

    /// `DEDUPE.LOOKUP`: who stored these payloads first? One answer per hash. With `crawl`, what that
    /// crawl has stored itself counts too, though it is not committed.
    ///
    /// # Errors
    /// When the server refuses or cannot be reached.
    pub fn lookup(
        &mut self,
        crawl: Option<&[u8]>,
        hashes: &[&[u8]],
    ) -> Result<Vec<Option<Original>>, Error> {
        if hashes.is_empty() {
            return Ok(Vec::new());
        }
        let mut lookup = self.command("DEDUPE.LOOKUP");
        if let Some(crawl) = crawl {
            lookup.arg("CRAWL").arg(crawl);
        }
        lookup.arg(hashes);
        self.server
            .retry("DEDUPE.LOOKUP", |connection| lookup.query(connection))
    }

    /// `DEDUPE.CLAIM`: looks up, and if nobody knows the payload, reserves it for the caller during
    /// `lasting`. If another worker holds it, waits up to `wait` for what comes of that.
    ///
    /// A claim that a broken connection swallowed ends by itself, so this is sent again.
    ///
    /// # Errors
    /// `CANCELED` when the crawl was cancelled meanwhile; or when the server refuses or cannot be reached.
    pub fn claim(
        &mut self,
        crawl: &[u8],
        hash: &[u8],
        lasting: Duration,
        wait: Duration,
    ) -> Result<Claim, Error> {
        let mut claim = self.command("DEDUPE.CLAIM");
        claim.arg(crawl).arg(hash);
        claim.arg("PX").arg(lasting.as_millis() as u64);
        if !wait.is_zero() {
            // 0 would mean: for as long as it takes. And our own patience ends some time.
            let wait = wait.min(REPLY / 2).max(Duration::from_millis(1));
            claim.arg("BLOCK").arg(wait.as_millis() as u64);
        }
        self.server
            .retry("DEDUPE.CLAIM", |connection| claim.query(connection))
    }

    /// `DEDUPE.ADD` with the token of a claim: the record was stored. Sending it twice counts once.
    ///
    /// # Errors
    /// `STALE` when somebody else has claimed the payload meanwhile (nothing was counted: claim again); or
    /// when the server refuses or cannot be reached.
    pub fn settle(&mut self, crawl: &[u8], token: &[u8], added: &Added<'_>) -> Result<(), Error> {
        let mut add = self.command("DEDUPE.ADD");
        add.arg(crawl).arg("TOKEN").arg(token);
        added.write_to(&mut add);
        self.server
            .retry("DEDUPE.ADD", |connection| add.exec(connection))
    }

    /// `DEDUPE.UNCLAIM`: the record could not be stored, so somebody else may.
    ///
    /// # Errors
    /// When the server refuses or cannot be reached.
    pub fn unclaim(&mut self, hash: &[u8], token: &[u8]) -> Result<(), Error> {
        let mut unclaim = self.command("DEDUPE.UNCLAIM");
        unclaim.arg(hash).arg(token);
        self.server
            .retry("DEDUPE.UNCLAIM", |connection| unclaim.exec(connection))
    }

    /// `DEDUPE.ADD` and `DEDUPE.REVISIT` of one batch, in one round trip. `writer` and `sequence` (numbers
    /// that go up from 1) make it safe to send the batch twice: it is counted once.
    ///
    /// # Errors
    /// When the server refuses one of the two (the other may have been counted), or cannot be reached.
    pub fn write(
        &mut self,
        crawl: &[u8],
        writer: &[u8],
        sequence: u64,
        added: &[Added<'_>],
        revisited: &[Revisited<'_>],
    ) -> Result<(), Error> {
        let mut batch = Pipeline::new();
        batch.ignore_errors();
        let mut names = Vec::new();
        // Two sequences, so that an ADD that was refused is not taken for one that was counted because
        // the REVISIT after it was.
        let sequence_of = |kind: &[u8]| [writer, b" ", kind].concat();
        if !added.is_empty() {
            let mut add = self.command("DEDUPE.ADD");
            add.arg(crawl)
                .arg("SEQ")
                .arg(sequence_of(b"add"))
                .arg(sequence);
            for one in added {
                one.write_to(&mut add);
            }
            batch.add_command(add);
            names.push("DEDUPE.ADD");
        }
        if !revisited.is_empty() {
            let mut revisit = self.command("DEDUPE.REVISIT");
            revisit
                .arg(crawl)
                .arg("SEQ")
                .arg(sequence_of(b"revisit"))
                .arg(sequence);
            for one in revisited {
                revisit.arg(one.hash).arg(one.size);
            }
            batch.add_command(revisit);
            names.push("DEDUPE.REVISIT");
        }
        if names.is_empty() {
            return Ok(());
        }
        let replies: Vec<Result<u64, RedisError>> = self
            .server
            .retry(names[0], |connection| batch.query(connection))?;
        for (reply, name) in replies.into_iter().zip(names) {
            match reply {
                Ok(_) => {}
                // A later batch of this writer was there before: this one was counted long ago.
                Err(cause) if cause.code() == Some("STALE") => {}
                Err(cause) => {
                    let doing = name.to_owned();
                    return Err(Error { doing, cause });
                }
            }
        }
        Ok(())
    }

    /// `DEDUPE.COMMIT`: the crawl becomes part of the merged index. If the connection breaks and the command
    /// has to be sent again, the reply tells what was left for the second time: nothing, as a rule.
    ///
    /// # Errors
    /// `NOCRAWL` when there is no such crawl, `CANCELED` when somebody cancelled it meanwhile; or when the
    /// server cannot be reached.
    pub fn commit(&mut self, crawl: &[u8]) -> Result<Committed, Error> {
        let mut commit = self.command("DEDUPE.COMMIT");
        commit.arg(crawl);
        let (new, known) = self
            .server
            .retry("DEDUPE.COMMIT", |connection| commit.query(connection))?;
        Ok(Committed { new, known })
    }
}
