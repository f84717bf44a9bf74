//! Calls for records, which belong to one shard each, and for WACZ files, which are in the home
//! shard.

use std::collections::HashMap;
use std::time::Duration;

use super::{Sharded, spread};
use crate::dedupe::{
    Added, Adding, Claim, Index, Located, Original, Revisited, Revisiting, Sequence, Wacz, written,
};
use crate::server::{Batch, Pending, Steps, Unsent};

impl<S: Steps> Sharded<S> {
    /// Groups items by shard. Returns the positions of the items of each shard, in order.
    fn split<T>(&self, items: &[T], hash: impl Fn(&T) -> &[u8]) -> Vec<Vec<usize>> {
        let mut parts = vec![Vec::new(); self.shards.len()];
        for (position, item) in items.iter().enumerate() {
            parts[spread::shard_of(hash(item), self.shards.len())].push(position);
        }
        parts
    }

    /// Sends each shard a call for its part of the items. Skips shards without items.
    fn ask_parts<T: Copy, U: Send + 'static>(
        &self,
        batch: &Batch,
        items: &[T],
        hash: impl Fn(&T) -> &[u8],
        ask: impl Fn(Index<Batch>, &[T]) -> Pending<U>,
    ) -> Vec<(Vec<usize>, Pending<U>)> {
        let parts = self.split(items, hash).into_iter().zip(&self.shards[..]);
        let asked = parts.filter(|(part, _)| !part.is_empty());
        let asked = asked.map(|(part, shard)| {
            let of_shard: Vec<T> = part.iter().map(|&position| items[position]).collect();
            let answer = ask(shard.over(batch), &of_shard);
            (part, answer)
        });
        asked.collect()
    }

    /// Looks up payloads as [`Index::lookup`] does.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// if index.lookup(None, &[b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A"])?[0].is_some() {
    ///     println!("a revisit is enough");
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::lookup`].
    pub fn lookup(
        &self,
        crawl: Option<&[u8]>,
        hashes: &[&[u8]],
    ) -> S::Answer<Vec<Option<Original>>> {
        self.look_up(hashes, |shard, part| shard.lookup(crawl, part))
    }

    /// Looks up payloads as [`Index::lookup_text`] does.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// let known = index.lookup_text(None, &[b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A"])?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::lookup`].
    pub fn lookup_text(
        &self,
        crawl: Option<&[u8]>,
        hashes: &[&[u8]],
    ) -> S::Answer<Vec<Option<Vec<u8>>>> {
        self.look_up(hashes, |shard, part| shard.lookup_text(crawl, part))
    }

    /// Looks up hashes in their shards, and returns the replies in the order of the hashes.
    fn look_up<T: Clone + Send + 'static>(
        &self,
        hashes: &[&[u8]],
        ask: impl Fn(Index<Batch>, &[&[u8]]) -> Pending<Vec<Option<T>>>,
    ) -> S::Answer<Vec<Option<T>>> {
        let batch = Batch::new();
        let parts = self.ask_parts(&batch, hashes, |hash| hash, ask);
        let (server, count) = (self.server().clone(), hashes.len());
        self.server().run(async move {
            server.step_batch(&batch).await?;
            let mut found = vec![None; count];
            for (positions, part) in parts {
                for (position, original) in positions.into_iter().zip(part.take()?) {
                    found[position] = original;
                }
            }
            Ok(found)
        })
    }

    /// Looks up payloads and WACZ files as [`Index::lookup_with_wacz`] does. Reading the WACZ lists of
    /// the home shard takes a second round trip.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// let known = index.lookup_with_wacz(None, &[b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A"])?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::lookup_with_wacz`].
    pub fn lookup_with_wacz(
        &self,
        crawl: Option<&[u8]>,
        hashes: &[&[u8]],
    ) -> S::Answer<Vec<Option<Located>>> {
        let batch = Batch::new();
        let parts = self.ask_parts(
            &batch,
            hashes,
            |hash| hash,
            |shard, part| shard.lookup(crawl, part),
        );
        let (index, count) = (self.clone(), hashes.len());
        self.server().run(async move {
            index.server().step_batch(&batch).await?;
            let mut found = vec![None; count];
            let mut crawls = Vec::new();
            for (positions, part) in parts {
                for (position, original) in positions.into_iter().zip(part.take()?) {
                    crawls.extend(original.as_ref().map(|original| original.crawl.clone()));
                    found[position] = original;
                }
            }
            let files = index.files(crawls).await?;
            let located = |original| located(original, &files);
            Ok(found.into_iter().map(|one| one.map(located)).collect())
        })
    }

    /// Adds records as [`Index::add`] does: sends each shard its part, with the same sequence.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// let hash = b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A";
    /// let record = Added::new(hash, 0, b"20240501120000", b"https://example.com/", 5120);
    /// let sequence = Some(Sequence { writer: b"worker-3", number: 1 });
    /// index.add(b"crawl-1", &Adding { sequence, ..Adding::default() }, &[record])?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::add`]. Other shards may have counted their parts.
    pub fn add(
        &self,
        crawl: impl AsRef<[u8]>,
        adding: &Adding<'_>,
        added: &[Added<'_>],
    ) -> S::Answer<u64> {
        let crawl = crawl.as_ref();
        let batch = Batch::new();
        let parts = self.add_parts(&batch, crawl, adding, added);
        self.sum(batch, parts)
    }

    /// Queues a call with the same sequence for each shard that has some of the records.
    pub(in crate::dedupe) fn add_parts(
        &self,
        batch: &Batch,
        crawl: &[u8],
        adding: &Adding<'_>,
        added: &[Added<'_>],
    ) -> Vec<Pending<u64>> {
        let add = |shard: Index<Batch>, part: &[Added<'_>]| shard.add(crawl, adding, part);
        let parts = self
            .ask_parts(batch, added, |one| one.hash, add)
            .into_iter();
        parts.map(|(_, count)| count).collect()
    }

    /// Adds revisits as [`Index::revisit`] does: sends each shard its part, with the same sequence.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// let revisited = Revisited { hash: b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A", size: 620, original: None };
    /// index.revisit(b"crawl-2", &Revisiting::default(), &[revisited])?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::revisit`]. Other shards may have counted their parts.
    pub fn revisit(
        &self,
        crawl: impl AsRef<[u8]>,
        revisiting: &Revisiting<'_>,
        revisited: &[Revisited<'_>],
    ) -> S::Answer<u64> {
        let crawl = crawl.as_ref();
        let batch = Batch::new();
        let parts = self.revisit_in_batch(&batch, crawl, revisiting, revisited);
        self.sum(batch, parts.into_iter().map(|(_, count)| count).collect())
    }

    /// Queues a call with the same sequence for each shard that has some of the revisits. Returns the
    /// positions of the revisits of each call, and its pending reply.
    ///
    /// ```no_run
    /// # use crawlspace_client::{dedupe::*, Batch, Code};
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// # let revisited = [];
    /// let batch = Batch::new();
    /// let sequence = Some(Sequence { writer: b"worker-3", number: 1 });
    /// let revisiting = Revisiting { sequence, ..Revisiting::default() };
    /// let parts = index.revisit_in_batch(&batch, b"crawl-2", &revisiting, &revisited);
    /// batch.send(index.server())?;
    /// for (positions, reply) in parts {
    ///     if reply.take().is_err_and(|error| error.code() == Some(Code::NoHash)) {
    ///         println!("one of the revisits {positions:?} has no original");
    ///     }
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    pub fn revisit_in_batch(
        &self,
        batch: &Batch,
        crawl: &[u8],
        revisiting: &Revisiting<'_>,
        revisited: &[Revisited<'_>],
    ) -> Vec<(Vec<usize>, Pending<u64>)> {
        let revisit =
            |shard: Index<Batch>, part: &[Revisited<'_>]| shard.revisit(crawl, revisiting, part);
        self.ask_parts(batch, revisited, |one| one.hash, revisit)
    }

    fn sum(&self, batch: Batch, parts: Vec<Pending<u64>>) -> S::Answer<u64> {
        let server = self.server().clone();
        self.server().run(async move {
            server.step_batch(&batch).await?;
            let mut sum = 0;
            for part in parts {
                sum += part.take()?;
            }
            Ok(sum)
        })
    }

    /// Writes a batch of records as [`Index::write`] does.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// let hash = b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A";
    /// let record = Added::new(hash, 0, b"20240501120000", b"https://example.com/", 5120);
    /// let sequence = Sequence { writer: b"worker-3", number: 1 };
    /// index.write(b"crawl-1", sequence, &[record], &[])?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::write`]. Other shards may have counted their parts.
    pub fn write(
        &self,
        crawl: impl AsRef<[u8]>,
        sequence: Sequence<'_>,
        added: &[Added<'_>],
        revisited: &[Revisited<'_>],
    ) -> S::Answer<()> {
        let crawl = crawl.as_ref();
        let batch = Batch::new();
        let mut parts = sequence.adding(|adding| self.add_parts(&batch, crawl, adding, added));
        let revisits = sequence
            .revisiting(|revisiting| self.revisit_in_batch(&batch, crawl, revisiting, revisited));
        parts.extend(revisits.into_iter().map(|(_, count)| count));
        written(self.server(), batch, parts)
    }

    /// Claims a payload as [`Index::claim`] does.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// use std::time::Duration;
    /// let minute = Duration::from_secs(60);
    /// let claim = index.claim(b"crawl-1", b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A", minute, Duration::ZERO)?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::claim`].
    pub fn claim(
        &self,
        crawl: impl AsRef<[u8]>,
        hash: impl AsRef<[u8]>,
        lasting: Duration,
        wait: Duration,
    ) -> S::Answer<Claim> {
        let (crawl, hash) = (crawl.as_ref(), hash.as_ref());
        self.shard_of(hash).claim(crawl, hash, lasting, wait)
    }

    /// Claims a payload as [`Index::claim_text`] does.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// use std::time::Duration;
    /// let (minute, hash) = (Duration::from_secs(60), b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A");
    /// let claim = index.claim_text(b"crawl-1", hash, minute, Duration::ZERO)?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::claim`].
    pub fn claim_text(
        &self,
        crawl: impl AsRef<[u8]>,
        hash: impl AsRef<[u8]>,
        lasting: Duration,
        wait: Duration,
    ) -> S::Answer<Claim<Vec<u8>>> {
        let (crawl, hash) = (crawl.as_ref(), hash.as_ref());
        self.shard_of(hash).claim_text(crawl, hash, lasting, wait)
    }

    /// Claims a payload as [`Index::claim_with_wacz`] does. For a known payload, reading the WACZ list
    /// of the home shard takes a second round trip.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// use std::time::Duration;
    /// let (minute, hash) = (Duration::from_secs(60), b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A");
    /// let claim = index.claim_with_wacz(b"crawl-1", hash, minute, Duration::ZERO)?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::claim_with_wacz`].
    pub fn claim_with_wacz(
        &self,
        crawl: impl AsRef<[u8]>,
        hash: impl AsRef<[u8]>,
        lasting: Duration,
        wait: Duration,
    ) -> S::Answer<Claim<Located>> {
        let (crawl, hash) = (crawl.as_ref(), hash.as_ref());
        let shard = self.shard_of(hash).over(&Unsent);
        let claim = shard.claim(crawl, hash, lasting, wait);
        let index = self.clone();
        self.server().run(async move {
            Ok(match index.server().step(claim).await? {
                Claim::Known(original) => {
                    let files = index.files(vec![original.crawl.clone()]).await?;
                    Claim::Known(located(original, &files))
                }
                Claim::Yours(token) => Claim::Yours(token),
                Claim::Pending { holder, left } => Claim::Pending { holder, left },
            })
        })
    }

    /// Settles a claim as [`Index::settle`] does.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// let hash = b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A";
    /// let record = Added::new(hash, 0, b"20240501120000", b"https://example.com/", 5120);
    /// # let token = b"1";
    /// index.settle(b"crawl-1", token, &record)?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::settle`].
    pub fn settle(
        &self,
        crawl: impl AsRef<[u8]>,
        token: impl AsRef<[u8]>,
        added: &Added<'_>,
    ) -> S::Answer<()> {
        let (crawl, token) = (crawl.as_ref(), token.as_ref());
        self.shard_of(added.hash).settle(crawl, token, added)
    }

    /// Releases a claim as [`Index::unclaim`] does.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// # let token = b"1";
    /// index.unclaim(b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A", token)?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::unclaim`].
    pub fn unclaim(&self, hash: impl AsRef<[u8]>, token: impl AsRef<[u8]>) -> S::Answer<bool> {
        let (hash, token) = (hash.as_ref(), token.as_ref());
        self.shard_of(hash).unclaim(hash, token)
    }

    /// Registers a WACZ file as [`Index::wacz_open`] does.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// let wacz_index = index.wacz_open(b"crawl-1", b"crawl-1-0.wacz")?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::wacz_open`].
    pub fn wacz_open(&self, crawl: impl AsRef<[u8]>, filename: impl AsRef<[u8]>) -> S::Answer<u64> {
        let (crawl, filename) = (crawl.as_ref(), filename.as_ref());
        self.home().wacz_open(crawl, filename)
    }

    /// Marks a WACZ file as finished as [`Index::wacz_close`] does.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// index.wacz_close(b"crawl-1", 0, b"crawl-1-0.wacz", b"sha256:fd61a03a", 1_048_576)?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::wacz_close`].
    pub fn wacz_close(
        &self,
        crawl: impl AsRef<[u8]>,
        index: u64,
        filename: impl AsRef<[u8]>,
        hash: impl AsRef<[u8]>,
        size: u64,
    ) -> S::Answer<()> {
        let (crawl, filename, hash) = (crawl.as_ref(), filename.as_ref(), hash.as_ref());
        self.home().wacz_close(crawl, index, filename, hash, size)
    }

    /// Finishes and renames a WACZ file as [`Index::wacz_close_as`] does.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// index.wacz_close_as(b"crawl-1", 0, b"news.wacz", b"sha256:fd61a03a", 1_048_576)?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::wacz_close_as`].
    pub fn wacz_close_as(
        &self,
        crawl: impl AsRef<[u8]>,
        index: u64,
        filename: impl AsRef<[u8]>,
        hash: impl AsRef<[u8]>,
        size: u64,
    ) -> S::Answer<()> {
        let (crawl, filename, hash) = (crawl.as_ref(), filename.as_ref(), hash.as_ref());
        self.home()
            .wacz_close_as(crawl, index, filename, hash, size)
    }

    /// Lists WACZ files as [`Index::wacz_list`] does. An uncommitted crawl without WACZ files returns
    /// `NOCRAWL` here.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// println!("{} files", index.wacz_list(b"crawl-1")?.len());
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::wacz_list`].
    pub fn wacz_list(&self, crawl: impl AsRef<[u8]>) -> S::Answer<Vec<Wacz>> {
        let crawl = crawl.as_ref();
        self.home().wacz_list(crawl)
    }
}

/// Adds the name of its WACZ file to an original.
fn located(original: Original, files: &HashMap<Vec<u8>, Vec<Wacz>>) -> Located {
    let at = usize::try_from(original.wacz_index);
    let files = files.get(&original.crawl).map_or(&[][..], Vec::as_slice);
    let file = at.ok().and_then(|at| files.get(at));
    Located {
        filename: file.map(|wacz| wacz.filename.clone()),
        original,
    }
}
