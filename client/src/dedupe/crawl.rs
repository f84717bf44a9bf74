//! A crawl becomes part of the index, and leaves it.

use serde::Serialize;

use super::Index;
use crate::server::{Ask, Call};

/// What a commit added to the merged index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Committed {
    /// Hashes that the index did not have.
    pub new: u64,
    /// Hashes that another crawl owns already.
    pub known: u64,
}

/// What a removal took out of the merged index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Removed {
    /// Crawls that were removed.
    pub crawls: u64,
    /// Hashes that the index has no longer.
    pub dropped: u64,
    /// Hashes that another crawl owns now.
    pub reowned: u64,
}

/// What the crawls of a collection were compared with those of the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Retained {
    /// Committed crawls that are not part of the collection; removed, if that was asked for.
    pub crawls: u64,
    /// Hashes that the index has no longer.
    pub dropped: u64,
    /// Hashes that another crawl owns now.
    pub reowned: u64,
}

impl<S: Ask> Index<S> {
    /// `DEDUPE.BEGIN`: the crawl begins, or a committed one goes on. So it can be committed though it stores
    /// nothing. False when it is under way already; after a connection that broke, also when it was not.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// index.begin(b"crawl-1")?;
    /// assert_eq!(index.commit(b"crawl-1")?, Committed { new: 0, known: 0 });
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `BADCRAWL`, `REMOVING`; or when the server cannot be reached.
    pub fn begin(&self, crawl: impl AsRef<[u8]>) -> S::Answer<bool> {
        let crawl = crawl.as_ref();
        let mut begin = self.command("DEDUPE.BEGIN");
        begin.arg(crawl);
        self.repeat(begin)
    }

    /// `DEDUPE.BEGIN … VISIBLE`: as [`begin`](Index::begin), and others see what the crawl adds while it runs.
    /// False when they do already.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// index.begin_visible(b"crawl-1")?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `BADCRAWL`, `REMOVING`; `ERR` when 64 other crawls are visible; or when the server cannot be reached.
    pub fn begin_visible(&self, crawl: impl AsRef<[u8]>) -> S::Answer<bool> {
        let crawl = crawl.as_ref();
        let mut begin = self.command("DEDUPE.BEGIN");
        begin.arg(crawl).arg("VISIBLE");
        self.repeat(begin)
    }

    /// `DEDUPE.COMMIT`: the crawl becomes part of the merged index. If the connection breaks and the command
    /// has to be sent again, the reply tells what was left for the second time: nothing, as a rule.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// let Committed { new, known } = index.commit(b"crawl-1")?;
    /// println!("{new} payloads that the index did not have, {known} that it had");
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NOCRAWL` when there is no such crawl, `CANCELED` when somebody cancelled it meanwhile, `REMOVING`; or
    /// when the server cannot be reached.
    pub fn commit(&self, crawl: impl AsRef<[u8]>) -> S::Answer<Committed> {
        let crawl = crawl.as_ref();
        let mut commit = self.command("DEDUPE.COMMIT");
        commit.arg(crawl);
        let commit = Call::<(u64, u64)>::new(commit).repeatable().waits();
        self.server
            .ask(commit.map(|(new, known)| Committed { new, known }))
    }

    /// `DEDUPE.CANCEL`: what the crawl has added since its last commit goes; all of it, if it was never
    /// committed. Gives the number of hashes.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// println!("{} hashes are dropped", index.cancel(b"crawl-1")?);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NOCRAWL` when there is no such crawl; after a connection that broke, also when it was cancelled.
    /// `COMMITTED` when it has nothing new, `REMOVING`; or when the server cannot be reached.
    pub fn cancel(&self, crawl: impl AsRef<[u8]>) -> S::Answer<u64> {
        let crawl = crawl.as_ref();
        let mut cancel = self.command("DEDUPE.CANCEL");
        cancel.arg(crawl);
        self.server.ask(Call::new(cancel).repeatable().waits())
    }

    /// `DEDUPE.REMOVE`: takes committed crawls out of the index, as if they had never been in it.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// if index.required_by(b"crawl-1")?.is_empty() {
    ///     let removed = index.remove(&[b"crawl-1"])?;
    ///     println!("{} hashes are gone, {} have another owner", removed.dropped, removed.reowned);
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NOCRAWL` when one of them is not there; after a connection that broke, also when they were removed.
    /// `UNCOMMITTED` when one was never committed (nothing was changed); or when the server cannot be reached.
    pub fn remove(&self, crawls: &[&[u8]]) -> S::Answer<Removed> {
        if crawls.is_empty() {
            return self.server.ask(Call::known(Removed::default()));
        }
        let mut remove = self.command("DEDUPE.REMOVE");
        remove.arg(crawls);
        let remove = Call::<(u64, u64, u64)>::new(remove).repeatable().waits();
        self.server
            .ask(remove.map(|(crawls, dropped, reowned)| Removed {
                crawls,
                dropped,
                reowned,
            }))
    }

    /// `DEDUPE.RETAIN`: these crawls are the whole collection now. The others are counted, or with `purge`
    /// removed.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// let others = index.retain(false, &[b"crawl-1", b"crawl-2"])?;
    /// println!("{} crawls are not part of the collection any more", others.crawls);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NOCRAWL` when one of them does not exist (nothing was changed); or when the server refuses, also
    /// because none was given, or cannot be reached.
    pub fn retain(&self, purge: bool, crawls: &[&[u8]]) -> S::Answer<Retained> {
        let mut retain = self.command("DEDUPE.RETAIN");
        if purge {
            retain.arg("PURGE");
        }
        retain.arg(crawls);
        let retain = Call::<(u64, u64, u64)>::new(retain).repeatable().waits();
        self.server
            .ask(retain.map(|(crawls, dropped, reowned)| Retained {
                crawls,
                dropped,
                reowned,
            }))
    }
}
