//! The `DEDUPE.*` commands, with typed arguments and replies.
//!
//! ```no_run
//! use crawlspace_client::dedupe::Index;
//! let index = Index::open("redis://127.0.0.1/", "")?;
//! let hash = &b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A"[..];
//! match &index.lookup(None, &[hash])?[0] {
//!     Some(original) => println!("stored by {}", String::from_utf8_lossy(&original.crawl)),
//!     None => println!("new"),
//! }
//! # Ok::<(), crawlspace_client::Error>(())
//! ```

mod claim;
mod crawl;
pub mod feed;
mod figures;
mod record;
mod requires;
mod sharded;
mod storage;
mod urls;
mod wacz;

use std::sync::Arc;

use redis::{Cmd, FromRedisValue};

pub use self::claim::Claim;
pub use self::crawl::{Committed, Removed, Retained};
pub use self::figures::{Check, Crawl, CrawlState, CrawlStats, Listed, Profile, Standing, Stats};
pub use self::record::{
    Added, Adding, Located, Original, Reference, Revisited, Revisiting, Sequence,
};
pub use self::requires::{Dependent, Of, Required};
pub use self::sharded::{Doing, Sharded, Unfinished};
pub use self::storage::Moved;
pub use self::urls::{Capture, Captures, Urls};
pub use self::wacz::Wacz;
use crate::server::{Ask, Batch, Call, Code, Pending, Server, Steps};

pub use crate::server::Error;
pub use crate::storage::Storage;

/// A dedupe index: all keys with one prefix.
///
/// If the connection breaks, the client retries a call, unless the description of the call says
/// otherwise.
#[derive(Clone)]
pub struct Index<S = Server> {
    server: S,
    prefix: Arc<[u8]>,
}

debug_as_text! { Index<S> where S { server: plain, prefix: text } }

impl Index {
    /// Connects to the server at `url`, as [`Server::open`] does. Every key of the index begins
    /// with `prefix`, which may be empty.
    ///
    /// ```no_run
    /// let index = crawlspace_client::dedupe::Index::open("redis://127.0.0.1:6379/0", "{coll-42}:")?;
    /// assert_eq!(index.prefix(), b"{coll-42}:");
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the URL is invalid or the server cannot be reached.
    pub fn open(url: &str, prefix: impl Into<Vec<u8>>) -> Result<Index, Error> {
        Ok(Index::on(&Server::open(url)?, prefix))
    }
}

impl<S: Ask> Index<S> {
    /// Creates a handle for the index with this prefix on a server, or in a [`Batch`].
    ///
    /// ```no_run
    /// use crawlspace_client::{dedupe::Index, AsyncServer};
    /// # async fn connect() -> Result<(), crawlspace_client::Error> {
    /// let server = AsyncServer::open("redis://127.0.0.1/").await?;
    /// let (one, other) = (Index::on(&server, "{coll-1}:"), Index::on(&server, "{coll-2}:"));
    /// println!("{} and {}", one.stats().await?.hashes, other.stats().await?.hashes);
    /// # Ok(())
    /// # }
    /// ```
    pub fn on(server: &S, prefix: impl Into<Vec<u8>>) -> Index<S> {
        Index {
            server: server.clone(),
            prefix: prefix.into().into(),
        }
    }

    /// Returns a handle for the same index over another connection or a [`Batch`].
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// use crawlspace_client::Batch;
    /// let batch = Batch::new();
    /// let crawls = ["crawl-1", "crawl-2"].map(|crawl| index.over(&batch).crawl_stats(crawl.as_bytes()));
    /// batch.send(index.server())?;
    /// for crawl in crawls {
    ///     println!("{} hashes", crawl.take()?.hashes);
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    pub fn over<Z: Ask>(&self, server: &Z) -> Index<Z> {
        Index {
            server: server.clone(),
            prefix: Arc::clone(&self.prefix),
        }
    }

    /// Returns the server, connection or batch over which the calls are sent.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// let plain = crawlspace_client::redis::cmd("PING");
    /// let pong: String = crawlspace_client::Ask::ask(index.server(), crawlspace_client::Call::new(plain))?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    pub fn server(&self) -> &S {
        &self.server
    }

    /// Returns the prefix of every key of the index.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Returns the full name of a plain key of the index: the prefix and `name`.
    fn key(&self, name: &[u8]) -> Vec<u8> {
        [&self.prefix, name].concat()
    }

    fn command(&self, name: &str) -> Cmd {
        let mut command = redis::cmd(name);
        command.arg(&self.prefix[..]);
        command
    }

    /// Sends a fast command that can safely be sent twice.
    fn repeat<T: FromRedisValue + Send + 'static>(&self, command: Cmd) -> S::Answer<T> {
        self.server.ask(Call::new(command).repeatable())
    }

    /// Looks up the first record of each payload (`DEDUPE.LOOKUP`). Returns one entry per hash.
    /// Also finds uncommitted records of `crawl`, if one is given.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// let hash = &b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A"[..];
    /// let known = index.lookup(Some(b"crawl-1"), &[hash])?;
    /// if let Some(original) = &known[0] {
    ///     println!("a revisit of {}", String::from_utf8_lossy(&original.url));
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `BADHASH`, `BADCRAWL`, or a connection error.
    pub fn lookup(
        &self,
        crawl: Option<&[u8]>,
        hashes: &[&[u8]],
    ) -> S::Answer<Vec<Option<Original>>> {
        if hashes.is_empty() {
            return self.server.ask(Call::known(Vec::new()));
        }
        self.repeat(self.look_up(crawl, &[], hashes))
    }

    /// Looks up payloads as [`lookup`](Index::lookup) does, and adds the name of the WACZ file that
    /// contains each record (`DEDUPE.LOOKUP … WITHWACZ`).
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// let known = index.lookup_with_wacz(None, &[b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A"])?;
    /// if let Some(Located { filename: Some(wacz), .. }) = &known[0] {
    ///     println!("it is in {}", String::from_utf8_lossy(wacz));
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`lookup`](Index::lookup).
    pub fn lookup_with_wacz(
        &self,
        crawl: Option<&[u8]>,
        hashes: &[&[u8]],
    ) -> S::Answer<Vec<Option<Located>>> {
        if hashes.is_empty() {
            return self.server.ask(Call::known(Vec::new()));
        }
        self.repeat(self.look_up(crawl, &["WITHWACZ"], hashes))
    }

    /// Looks up payloads as [`lookup`](Index::lookup) does, and returns each original as a single
    /// string, `crawl waczIndex date url size` (`DEDUPE.LOOKUP … FORMAT RECORD`), for callers that pass
    /// it on.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// let known = index.lookup_text(None, &[b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A"])?;
    /// if let Some(text) = &known[0] {
    ///     println!("{}", String::from_utf8_lossy(text));
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`lookup`](Index::lookup).
    pub fn lookup_text(
        &self,
        crawl: Option<&[u8]>,
        hashes: &[&[u8]],
    ) -> S::Answer<Vec<Option<Vec<u8>>>> {
        if hashes.is_empty() {
            return self.server.ask(Call::known(Vec::new()));
        }
        self.repeat(self.look_up(crawl, &["FORMAT", "RECORD"], hashes))
    }

    fn look_up(&self, crawl: Option<&[u8]>, options: &[&str], hashes: &[&[u8]]) -> Cmd {
        let mut lookup = self.command("DEDUPE.LOOKUP");
        if let Some(crawl) = crawl {
            lookup.arg("CRAWL").arg(crawl);
        }
        lookup.arg(options).arg(hashes);
        lookup
    }

    /// Adds `response` records that the crawl has written (`DEDUPE.ADD`). Returns the number of
    /// hashes that are new in this crawl.
    ///
    /// A call with a [`Sequence`] can safely be sent twice. Without a sequence, the client does not
    /// retry the call if the connection breaks.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// let hash = b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A";
    /// let record = Added::new(hash, 0, b"20240501120000", b"https://example.com/", 5120);
    /// let sequence = Some(Sequence { writer: b"worker-3", number: 1 });
    /// let new = index.add(b"crawl-1", &Adding { sequence, ..Adding::default() }, &[record])?;
    /// println!("{new} of 1 were new in this crawl");
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `BADHASH`, `BADCRAWL`, `REMOVING`; `STALE` when another worker holds the claim on a hash, or
    /// the writer has already sent a higher sequence number. In all these cases, the server counts
    /// nothing. After a connection error, it is unknown whether the records were counted.
    pub fn add(
        &self,
        crawl: impl AsRef<[u8]>,
        adding: &Adding<'_>,
        added: &[Added<'_>],
    ) -> S::Answer<u64> {
        let crawl = crawl.as_ref();
        if added.is_empty() {
            return self.server.ask(Call::known(0));
        }
        let mut add = self.command("DEDUPE.ADD");
        add.arg(crawl);
        adding.write_to(&mut add);
        for one in added {
            one.write_to(&mut add);
        }
        let add = Call::new(add);
        self.server.ask(match adding.sequence {
            Some(_) => add.repeatable(),
            None => add,
        })
    }

    /// Adds `revisit` records that the crawl has written (`DEDUPE.REVISIT`). Returns the number of
    /// records counted.
    ///
    /// A call with a [`Sequence`] can safely be sent twice. Without a sequence, the client does not
    /// retry the call if the connection breaks.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// let revisited = Revisited { hash: b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A", size: 620, original: None };
    /// let sequence = Some(Sequence { writer: b"worker-3", number: 1 });
    /// let revisiting = Revisiting { sequence, reference: Reference::Wacz(b"5c0a2b7e") };
    /// index.revisit(b"crawl-2", &revisiting, &[revisited])?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NOHASH` if a revisit is given without an original, and neither the index nor this crawl has
    /// its hash; `BADHASH`, `BADCRAWL`, `REMOVING`; `STALE` when the writer has already sent a
    /// higher sequence number. In all these cases, the server counts nothing. After a connection
    /// error, it is unknown whether the records were counted.
    pub fn revisit(
        &self,
        crawl: impl AsRef<[u8]>,
        revisiting: &Revisiting<'_>,
        revisited: &[Revisited<'_>],
    ) -> S::Answer<u64> {
        let crawl = crawl.as_ref();
        if revisited.is_empty() {
            return self.server.ask(Call::known(0));
        }
        let mut revisit = self.command("DEDUPE.REVISIT");
        revisit.arg(crawl);
        revisiting.write_to(&mut revisit);
        for one in revisited {
            one.write_to(&mut revisit);
        }
        let revisit = Call::new(revisit);
        self.server.ask(match revisiting.sequence {
            Some(_) => revisit.repeatable(),
            None => revisit,
        })
    }
}

impl<S: Steps> Index<S> {
    /// Sends the `DEDUPE.ADD` and the `DEDUPE.REVISIT` of one batch in one round trip. The batch
    /// has a sequence number, so it can safely be sent twice: the server counts it once.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// let hash = b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A";
    /// let record = Added::new(hash, 0, b"20240501120000", b"https://example.com/", 5120);
    /// let revisited = Revisited { hash: b"sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ", size: 620, original: None };
    /// let sequence = Sequence { writer: b"worker-3", number: 1 };
    /// index.write(b"crawl-1", sequence, &[record], &[revisited])?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the server refuses one of the two commands (it may have counted the other), or
    /// cannot be reached.
    pub fn write(
        &self,
        crawl: impl AsRef<[u8]>,
        sequence: Sequence<'_>,
        added: &[Added<'_>],
        revisited: &[Revisited<'_>],
    ) -> S::Answer<()> {
        let crawl = crawl.as_ref();
        let batch = Batch::new();
        let index = self.over(&batch);
        let added = sequence.adding(|adding| index.add(crawl, adding, added));
        let revisited =
            sequence.revisiting(|revisiting| index.revisit(crawl, revisiting, revisited));
        written(&self.server, batch, vec![added, revisited])
    }
}

/// Sends a batch of records with sequences. Treats `STALE` as success.
fn written<S: Steps>(server: &S, batch: Batch, answers: Vec<Pending<u64>>) -> S::Answer<()> {
    let sending = server.clone();
    server.run(async move {
        sending.step_batch(&batch).await?;
        for answer in answers {
            match answer.take() {
                Ok(_) => {}
                // The server has seen a later batch of this writer, so it counted this batch
                // earlier.
                Err(error) if error.code() == Some(Code::Stale) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    })
}
