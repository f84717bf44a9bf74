//! The `TAGS.*` commands, with typed arguments and replies: access control for captures.
//!
//! ```no_run
//! use crawlspace_client::tags::{Captures, Filter, Kind, TagSpace};
//! let space = TagSpace::open("redis://127.0.0.1/", "tags")?;
//! space.rule_set(b"coll", b"filename", br"(?:^|/)ARCHIVEIT-(\d+)-", &[b"coll:$1"])?;
//! space.point_set(b"all", b"coll:* & !private")?;
//! space.add(Kind::Tag, b"coll:1068", &[b"org:77", b"private"])?;
//!
//! let all = Filter { point: Some(b"all"), ..Filter::default() };
//! let cdx = std::fs::read("captures.cdx").unwrap_or_default();
//! let public = space.filter_blob(&all, &cdx)?;
//! println!("{} of them", space.count(&all, Captures::Blob(&cdx))?);
//! # Ok::<(), crawlspace_client::Error>(())
//! ```

mod explain;
mod figures;
mod filter;
mod point;
mod rule;

use std::sync::Arc;

use redis::{Cmd, FromRedisValue};

pub use self::explain::{Clause, Explanation, Source};
pub use self::figures::Info;
pub use self::filter::{Captures, Collapse, Dialect, Filter, Format, Tagged};
pub use self::point::Point;
pub use self::rule::Rule;
pub use crate::server::Error;
use crate::server::{Ask, Call, Server};

/// The kind of object to which tags are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A capture: `urlkey timestamp filename offset`, joined by spaces.
    Record,
    /// A WARC file, by its name.
    File,
    /// A tag, which can carry other tags: `coll:1068` carries `org:77`.
    Tag,
}

impl Kind {
    /// Returns the keyword of the kind in a command.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Record => "RECORD",
            Kind::File => "FILE",
            Kind::Tag => "TAG",
        }
    }
}

/// The handling of existing ids and tags by a bulk load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Adds the given edges.
    Merge,
    /// Sets the tags of each given id to exactly the given tags. Other ids stay unchanged.
    Set,
    /// Replaces all ids of this kind with the given ids.
    Replace,
    /// Adds the given edges to a staged copy. Readers do not see the staged copy until
    /// [`swap`](TagSpace::swap) activates it.
    Stage,
}

impl Mode {
    fn word(self) -> &'static str {
        match self {
            Mode::Merge => "MERGE",
            Mode::Set => "SET",
            Mode::Replace => "REPLACE",
            Mode::Stage => "STAGE",
        }
    }
}

/// An id and its tags, separated by spaces. Without tags, the second string is empty.
pub type TaggedId = (Vec<u8>, Vec<u8>);

/// A page of a scan with a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// Cursor of the next page; 0 after the last page.
    pub next: u64,
    /// Items of this page. A page may be empty even if more pages follow.
    pub items: Vec<T>,
}

/// A tag space, stored in one key.
///
/// If the connection breaks, the client retries a call, unless the description of the call says
/// otherwise.
#[derive(Clone)]
pub struct TagSpace<S = Server> {
    server: S,
    key: Arc<[u8]>,
}

debug_as_text! { TagSpace<S> where S { server: plain, key: text } }

impl TagSpace {
    /// Connects to the server at `url`, as [`Server::open`] does.
    ///
    /// ```no_run
    /// let space = crawlspace_client::tags::TagSpace::open("redis://127.0.0.1/", "tags")?;
    /// println!("{} tags", space.info()?.tags);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails when the URL is invalid, or the server cannot be reached.
    pub fn open(url: &str, key: impl Into<Vec<u8>>) -> Result<TagSpace, Error> {
        Ok(TagSpace::on(&Server::open(url)?, key))
    }
}

impl<S: Ask> TagSpace<S> {
    /// Creates a handle for the tag space at this key on a server, or in a [`Batch`](crate::Batch).
    ///
    /// ```no_run
    /// use crawlspace_client::{tags::{Kind, TagSpace}, AsyncServer};
    /// # async fn open() -> Result<(), crawlspace_client::Error> {
    /// let server = AsyncServer::open("redis://127.0.0.1/").await?;
    /// let space = TagSpace::on(&server, "tags");
    /// space.add(Kind::Tag, b"coll:1068", &[b"private"]).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn on(server: &S, key: impl Into<Vec<u8>>) -> TagSpace<S> {
        TagSpace {
            server: server.clone(),
            key: key.into().into(),
        }
    }

    /// Returns a handle for the same tag space over another connection or a [`Batch`](crate::Batch).
    ///
    /// ```no_run
    /// # use crawlspace_client::tags::*;
    /// # let space = TagSpace::open("redis://127.0.0.1/", "tags")?;
    /// use crawlspace_client::Batch;
    /// let batch = Batch::new();
    /// let tags = ["coll:1", "coll:2"].map(|tag| space.over(&batch).get(Kind::Tag, tag.as_bytes()));
    /// batch.send(space.server())?;
    /// for tags in tags {
    ///     println!("carries {} tags", tags.take()?.len());
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    pub fn over<Z: Ask>(&self, server: &Z) -> TagSpace<Z> {
        TagSpace {
            server: server.clone(),
            key: Arc::clone(&self.key),
        }
    }

    /// Returns the server, connection or batch over which the calls are sent.
    pub fn server(&self) -> &S {
        &self.server
    }

    /// Returns the key of the tag space.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Builds a command with the key as its first argument, for a transaction or a pipeline.
    pub fn command(&self, name: &str) -> Cmd {
        let mut command = redis::cmd(name);
        command.arg(&self.key[..]);
        command
    }

    pub(crate) fn of_kind(&self, name: &str, kind: Kind) -> Cmd {
        let mut command = self.command(name);
        command.arg(kind.word());
        command
    }

    /// Sends a fast command that can safely be sent twice.
    fn repeat<T: FromRedisValue + Send + 'static>(&self, command: Cmd) -> S::Answer<T> {
        self.server.ask(Call::new(command).repeatable())
    }

    /// Adds tags to an id (`TAGS.ADD`). Returns the number of tags that the id did not have; after
    /// a retry, the number of tags that the second attempt added.
    ///
    /// ```no_run
    /// # use crawlspace_client::tags::*;
    /// # let space = TagSpace::open("redis://127.0.0.1/", "tags")?;
    /// space.add(Kind::Tag, b"coll:1068", &[b"org:77", b"private"])?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `CYCLE` if a tag would carry itself (nothing is written), or another server or connection
    /// error.
    pub fn add(&self, kind: Kind, id: impl AsRef<[u8]>, tags: &[&[u8]]) -> S::Answer<u64> {
        let id = id.as_ref();
        self.change("TAGS.ADD", kind, id, tags)
    }

    /// Removes tags from an id (`TAGS.REM`). Returns the number of tags that the id had; after a retry, the
    /// number of tags that the second attempt removed.
    ///
    /// ```no_run
    /// # use crawlspace_client::tags::*;
    /// # let space = TagSpace::open("redis://127.0.0.1/", "tags")?;
    /// space.rem(Kind::Tag, b"coll:1068", &[b"private"])?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails with the error of the server, or a connection error.
    pub fn rem(&self, kind: Kind, id: impl AsRef<[u8]>, tags: &[&[u8]]) -> S::Answer<u64> {
        let id = id.as_ref();
        self.change("TAGS.REM", kind, id, tags)
    }

    fn change(&self, name: &str, kind: Kind, id: &[u8], tags: &[&[u8]]) -> S::Answer<u64> {
        if tags.is_empty() {
            return self.server.ask(Call::known(0));
        }
        let mut change = self.of_kind(name, kind);
        change.arg(id).arg(tags);
        self.repeat(change)
    }

    /// Returns the tags of the id itself, sorted (`TAGS.GET`). Returns an empty list for an unknown
    /// id.
    ///
    /// ```no_run
    /// # use crawlspace_client::tags::*;
    /// # let space = TagSpace::open("redis://127.0.0.1/", "tags")?;
    /// let tags = space.get(Kind::File, b"ARCHIVEIT-1068-A.warc.gz")?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails with the error of the server, or a connection error.
    pub fn get(&self, kind: Kind, id: impl AsRef<[u8]>) -> S::Answer<Vec<Vec<u8>>> {
        let id = id.as_ref();
        let mut get = self.of_kind("TAGS.GET", kind);
        get.arg(id);
        self.repeat(get)
    }

    /// Returns the tags of the id, the tags that rules derive, and all tags that these tags carry
    /// (`TAGS.GET … ALL`).
    ///
    /// ```no_run
    /// # use crawlspace_client::tags::*;
    /// # let space = TagSpace::open("redis://127.0.0.1/", "tags")?;
    /// let tags = space.get_all(Kind::File, b"ARCHIVEIT-1068-A.warc.gz")?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails with the error of the server, or a connection error.
    pub fn get_all(&self, kind: Kind, id: impl AsRef<[u8]>) -> S::Answer<Vec<Vec<u8>>> {
        let id = id.as_ref();
        let mut get = self.of_kind("TAGS.GET", kind);
        get.arg(id).arg("ALL");
        self.repeat(get)
    }

    /// Writes the tags of many ids in one call (`TAGS.LOAD`). Returns the number of ids. Repeating the call
    /// has no further effect.
    ///
    /// ```no_run
    /// # use crawlspace_client::tags::*;
    /// # let space = TagSpace::open("redis://127.0.0.1/", "tags")?;
    /// let table = [("coll:1068", "org:77"), ("coll:1069", "org:77 private")];
    /// space.load(Kind::Tag, Mode::Replace, &table)?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `CYCLE` when a tag would carry itself, or another server error (nothing is written in either case); or
    /// a connection error.
    pub fn load(
        &self,
        kind: Kind,
        mode: Mode,
        entries: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)],
    ) -> S::Answer<u64> {
        let load = self.load_command(kind, mode, entries);
        self.repeat(load)
    }

    /// Builds the command of [`TagSpace::load`], for a transaction or a pipeline.
    pub fn load_command(
        &self,
        kind: Kind,
        mode: Mode,
        entries: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)],
    ) -> Cmd {
        let mut load = self.of_kind("TAGS.LOAD", kind);
        load.arg(mode.word());
        for (id, tags) in entries {
            load.arg(id.as_ref()).arg(tags.as_ref());
        }
        load
    }

    /// Activates the staged copy (`TAGS.SWAP`). With `expected`, fails unless the copy has exactly
    /// this number of ids (not counting ids without tags). Returns the number of active ids. The
    /// client does not retry the call if the connection breaks.
    ///
    /// ```no_run
    /// # use crawlspace_client::tags::*;
    /// # let space = TagSpace::open("redis://127.0.0.1/", "tags")?;
    /// space.load(Kind::Tag, Mode::Stage, &[("coll:1068", "org:77")])?;
    /// space.load(Kind::Tag, Mode::Stage, &[("coll:1069", "org:77 private")])?;
    /// space.swap(Kind::Tag, Some(2))?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NOSTAGE` if there is no staged copy, or if it has a different number of ids (nothing changes);
    /// or another server or connection error.
    pub fn swap(&self, kind: Kind, expected: Option<u64>) -> S::Answer<u64> {
        let swap = self.swap_command(kind, expected);
        self.server.ask(Call::new(swap))
    }

    /// Builds the command of [`TagSpace::swap`], for a transaction or a pipeline.
    pub fn swap_command(&self, kind: Kind, expected: Option<u64>) -> Cmd {
        let mut swap = self.of_kind("TAGS.SWAP", kind);
        if let Some(expected) = expected {
            swap.arg("EXPECT").arg(expected);
        }
        swap
    }

    /// Discards the staged copy, if there is one (`TAGS.SWAP … DISCARD`). Returns the number of ids in
    /// the staged copy.
    ///
    /// ```no_run
    /// # use crawlspace_client::tags::*;
    /// # let space = TagSpace::open("redis://127.0.0.1/", "tags")?;
    /// space.discard(Kind::Tag)?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails with the error of the server, or a connection error.
    pub fn discard(&self, kind: Kind) -> S::Answer<u64> {
        let mut discard = self.of_kind("TAGS.SWAP", kind);
        discard.arg("DISCARD");
        self.repeat(discard)
    }

    /// Returns one page of the ids of a kind with their tags, starting at cursor 0 (`TAGS.SCAN`). An id that
    /// exists during the whole scan is returned at least once.
    ///
    /// ```no_run
    /// # use crawlspace_client::tags::*;
    /// # let space = TagSpace::open("redis://127.0.0.1/", "tags")?;
    /// let mut cursor = 0;
    /// loop {
    ///     let page = space.scan(Kind::Tag, cursor, b"coll:", None)?;
    ///     for (id, tags) in page.items {
    ///         println!("{} -> {}", String::from_utf8_lossy(&id), String::from_utf8_lossy(&tags));
    ///     }
    ///     cursor = page.next;
    ///     if cursor == 0 {
    ///         break;
    ///     }
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails with the error of the server, or a connection error.
    pub fn scan(
        &self,
        kind: Kind,
        cursor: u64,
        prefix: impl AsRef<[u8]>,
        count: Option<u64>,
    ) -> S::Answer<Page<TaggedId>> {
        let prefix = prefix.as_ref();
        let mut scan = self.of_kind("TAGS.SCAN", kind);
        scan.arg(cursor);
        narrow(&mut scan, prefix, count);
        let scan = Call::<(u64, Vec<Vec<u8>>)>::new(scan).repeatable();
        self.server.ask(scan.map(|(next, flat)| {
            let mut items = Vec::with_capacity(flat.len() / 2);
            let mut flat = flat.into_iter();
            while let (Some(id), Some(tags)) = (flat.next(), flat.next()) {
                items.push((id, tags));
            }
            Page { next, items }
        }))
    }

    /// Lists the tags that satisfy the expression: a tag is listed if a capture with only this tag
    /// passes (`TAGS.LIST`). Returns one page, starting at cursor 0.
    ///
    /// ```no_run
    /// # use crawlspace_client::tags::*;
    /// # let space = TagSpace::open("redis://127.0.0.1/", "tags")?;
    /// let private = space.list(b"private", b"coll:", 0, Some(100))?.items;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `SYNTAX` when the expression is invalid, `BADFIELD` when it refers to fields; or another
    /// server or connection error.
    pub fn list(
        &self,
        expression: impl AsRef<[u8]>,
        prefix: impl AsRef<[u8]>,
        cursor: u64,
        count: Option<u64>,
    ) -> S::Answer<Page<Vec<u8>>> {
        let (expression, prefix) = (expression.as_ref(), prefix.as_ref());
        let mut list = self.command("TAGS.LIST");
        list.arg(expression).arg("CURSOR").arg(cursor);
        narrow(&mut list, prefix, count);
        let list = Call::<(u64, Vec<Vec<u8>>)>::new(list).repeatable().waits();
        self.server
            .ask(list.map(|(next, items)| Page { next, items }))
    }

    /// Returns the statistics of the tag space (`TAGS.INFO`). If the key does not exist, all
    /// numbers are 0.
    ///
    /// ```no_run
    /// # use crawlspace_client::tags::*;
    /// # let space = TagSpace::open("redis://127.0.0.1/", "tags")?;
    /// println!("{} bytes", space.info()?.memory);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails with the error of the server, or a connection error.
    pub fn info(&self) -> S::Answer<Info> {
        let info = self.command("TAGS.INFO");
        self.repeat(info)
    }
}

fn narrow(walk: &mut Cmd, prefix: &[u8], count: Option<u64>) {
    if !prefix.is_empty() {
        walk.arg("PREFIX").arg(prefix);
    }
    if let Some(count) = count {
        walk.arg("COUNT").arg(count);
    }
}
