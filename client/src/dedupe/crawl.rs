//! The life cycle of a crawl: begin, commit, cancel, remove, retain.

use serde::Serialize;

use super::Index;
use crate::server::{Ask, Call};

/// The result of a commit: the changes to the merged index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Committed {
    /// Number of hashes that were new to the index.
    pub new: u64,
    /// Number of hashes that another crawl already owns.
    pub known: u64,
}

/// The result of a removal: the changes to the merged index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Removed {
    /// Number of removed crawls.
    pub crawls: u64,
    /// Number of hashes that are no longer in the index.
    pub dropped: u64,
    /// Number of hashes that another crawl owns now.
    pub reowned: u64,
}

/// The result of comparing the crawls of a collection with the crawls of the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Retained {
    /// Number of committed crawls that are not part of the collection. With `purge`, they were
    /// removed.
    pub crawls: u64,
    /// Number of hashes that are no longer in the index.
    pub dropped: u64,
    /// Number of hashes that another crawl owns now.
    pub reowned: u64,
}

impl<S: Ask> Index<S> {
    /// Begins a crawl, or continues a committed one (`DEDUPE.BEGIN`). The crawl can then be
    /// committed even if it stores nothing. Returns false if the crawl is already in progress. A
    /// retry may also return false because the first attempt began the crawl.
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
    /// `BADCRAWL`, `REMOVING`, or a connection error.
    pub fn begin(&self, crawl: impl AsRef<[u8]>) -> S::Answer<bool> {
        let crawl = crawl.as_ref();
        let mut begin = self.command("DEDUPE.BEGIN");
        begin.arg(crawl);
        self.repeat(begin)
    }

    /// Begins a crawl as [`begin`](Index::begin) does, and makes its records visible to other crawls while it
    /// runs (`DEDUPE.BEGIN … VISIBLE`). Returns false if the crawl is already visible.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// index.begin_visible(b"crawl-1")?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `BADCRAWL`, `REMOVING`; `ERR` when 64 other crawls are visible; or a connection error.
    pub fn begin_visible(&self, crawl: impl AsRef<[u8]>) -> S::Answer<bool> {
        let crawl = crawl.as_ref();
        let mut begin = self.command("DEDUPE.BEGIN");
        begin.arg(crawl).arg("VISIBLE");
        self.repeat(begin)
    }

    /// Merges the crawl into the index (`DEDUPE.COMMIT`). If the connection breaks and the client
    /// retries the command, the reply counts only the hashes that the second attempt processed,
    /// which is usually none.
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
    /// `NOCRAWL` when the crawl does not exist, `CANCELED` when another client cancelled it during
    /// the commit, `REMOVING` if the crawl is being removed, or a connection error.
    pub fn commit(&self, crawl: impl AsRef<[u8]>) -> S::Answer<Committed> {
        let crawl = crawl.as_ref();
        let mut commit = self.command("DEDUPE.COMMIT");
        commit.arg(crawl);
        let commit = Call::<(u64, u64)>::new(commit).repeatable().waits();
        self.server
            .ask(commit.map(|(new, known)| Committed { new, known }))
    }

    /// Commits several crawls in this order by one command, as [`commit`](Index::commit) does. Returns `None`
    /// for each crawl whose commit failed: commit such a crawl on its own to get the error.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// for committed in index.commit_each(&[b"crawl-1", b"crawl-2"])? {
    ///     println!("{:?}", committed.map(|committed| committed.new));
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`commit`](Index::commit). `NOCRAWL` and `REMOVING` mean that none of the crawls is
    /// committed. After other errors, some of the crawls may be committed.
    pub fn commit_each(&self, crawls: &[&[u8]]) -> S::Answer<Vec<Option<Committed>>> {
        if crawls.is_empty() {
            return self.server.ask(Call::known(Vec::new()));
        }
        let mut commit = self.command("DEDUPE.COMMIT");
        commit.arg(crawls);
        let committed = |(new, known)| Committed { new, known };
        if crawls.len() == 1 {
            let commit = Call::<(u64, u64)>::new(commit).repeatable().waits();
            return self
                .server
                .ask(commit.map(move |counts| vec![Some(committed(counts))]));
        }
        let commit = Call::<Vec<Option<(u64, u64)>>>::new(commit);
        self.server.ask(commit.repeatable().waits().map(move |all| {
            let all = all.into_iter();
            all.map(|counts| counts.map(committed)).collect()
        }))
    }

    /// Discards the records that the crawl has added since its last commit, or all of its records
    /// if it was never committed (`DEDUPE.CANCEL`). Returns the number of discarded hashes.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// println!("{} hashes are dropped", index.cancel(b"crawl-1")?);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NOCRAWL` when the crawl does not exist, or, after a retry, when the first attempt
    /// cancelled it. `COMMITTED` if the crawl has no uncommitted records, `REMOVING` if the crawl is
    /// being removed, or a connection error.
    pub fn cancel(&self, crawl: impl AsRef<[u8]>) -> S::Answer<u64> {
        let crawl = crawl.as_ref();
        let mut cancel = self.command("DEDUPE.CANCEL");
        cancel.arg(crawl);
        self.server.ask(Call::new(cancel).repeatable().waits())
    }

    /// Removes committed crawls from the index, as if they had never been part of it
    /// (`DEDUPE.REMOVE`).
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
    /// `NOCRAWL` when one of the crawls does not exist, or, after a retry, when the first attempt
    /// removed them. `UNCOMMITTED` if one of the crawls was never committed (nothing changes); or a
    /// connection error.
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

    /// Declares these crawls to be the whole collection (`DEDUPE.RETAIN`). Counts all other
    /// committed crawls or, with `purge`, removes them.
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
    /// `NOCRAWL` when one of the crawls does not exist (nothing is changed), or another server
    /// error (for example, if `crawls` is empty); or a connection error.
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
