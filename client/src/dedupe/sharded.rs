//! A sharded index: an index that is spread over many prefixes, and therefore over the nodes of a
//! cluster.

mod crawl;
mod figures;
mod layout;
mod marks;
mod records;
mod requires;
mod spread;
mod standing;
mod storage;
mod urls;

use std::sync::Arc;

use self::marks::{COUNT, KEY};
pub use self::marks::{Doing, Unfinished};
use super::Index;
use crate::server::{Call, Code, Error, Server, Steps};

/// A large index, spread over the prefixes of several shards, with the same calls as an [`Index`].
///
/// The bits of a hash determine its shard. The lists of WACZ files are only in the first shard (the
/// home shard), so that a `wacz_index` has the same meaning in all shards. The hash tags of the
/// prefixes are evenly spaced over the slots, so that the shards are evenly distributed over a
/// cluster. The server need not be a cluster.
///
/// A call for several shards runs on each of them separately. If such a call fails, it may have
/// succeeded on some shards: send it again, with the same [`Sequence`](super::Sequence) if it has
/// one. A [`commit`](Sharded::commit) commits each shard in turn, the home shard last; then the
/// whole crawl is committed. Until then, and after a crash, look-ups may find only a part of the
/// crawl. A mark in the home shard keeps other clients from starting a conflicting operation before
/// this one is finished ([`Code::Sharded`]). To finish an interrupted call, send it again.
#[derive(Clone, Debug)]
pub struct Sharded<S = Server> {
    shards: Arc<[Index<S>]>,
}

impl Sharded {
    /// Connects to the server or cluster at `url`, and opens the index of this name with `shards`
    /// shards, from 1 to 1024. The number of shards cannot change after the index was created.
    ///
    /// ```no_run
    /// use crawlspace_client::dedupe::Sharded;
    /// let index = Sharded::open("redis://127.0.0.1:7000/", "coll-42", 16)?;
    /// println!("{} hashes", index.stats()?.hashes);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `SHARDED` when the index has a different number of shards, `BADPREFIX` when the name is not a
    /// valid name of an index; or a connection error.
    pub fn open(url: &str, name: impl Into<Vec<u8>>, shards: u16) -> Result<Sharded, Error> {
        Sharded::on(&Server::open(url)?, name, shards)
    }
}

impl<S: Steps> Sharded<S> {
    /// Opens the index of this name on a connected server, as [`open`](Sharded::open) does.
    ///
    /// ```no_run
    /// use crawlspace_client::{dedupe::Sharded, AsyncServer};
    /// # async fn open() -> Result<(), crawlspace_client::Error> {
    /// let server = AsyncServer::open("redis://127.0.0.1:7000/").await?;
    /// let index = Sharded::on(&server, "coll-42", 16).await?;
    /// println!("{} hashes", index.stats().await?.hashes);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`open`](Sharded::open).
    pub fn on(server: &S, name: impl Into<Vec<u8>>, shards: u16) -> S::Answer<Sharded<S>> {
        let (name, connected) = (name.into(), server.clone());
        server.run(async move {
            let prefixes = layout::prefixes(&name, shards)?.into_iter();
            let index = Sharded {
                shards: prefixes
                    .map(|prefix| Index::on(&connected, prefix))
                    .collect(),
            };
            index.agree(shards).await?;
            Ok(index)
        })
    }

    /// Opens the existing index of this name, with the number of shards that is stored in it. Returns `None` if there is
    /// none.
    ///
    /// ```no_run
    /// use crawlspace_client::{dedupe::Sharded, Server};
    /// let server = Server::open("redis://127.0.0.1:7000/")?;
    /// if let Some(index) = Sharded::find(&server, "coll-42")? {
    ///     println!("{} shards", index.shards().len());
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `BADPREFIX` when the name is not a valid name of an index, or a connection error.
    pub fn find(server: &S, name: impl Into<Vec<u8>>) -> S::Answer<Option<Sharded<S>>> {
        let (name, connected) = (name.into(), server.clone());
        server.run(async move {
            let home = layout::prefixes(&name, 1)?.swap_remove(0);
            let mut get = redis::cmd("HGET");
            get.arg([&home, KEY].concat()).arg(COUNT);
            let there: Option<u16> = connected.step(Call::new(get).repeatable()).await?;
            let Some(there) = there else {
                return Ok(None);
            };
            let prefixes = layout::prefixes(&name, there)?.into_iter();
            Ok(Some(Sharded {
                shards: prefixes
                    .map(|prefix| Index::on(&connected, prefix))
                    .collect(),
            }))
        })
    }

    /// Stores the number of shards in the home shard. If a number is stored already, checks that it
    /// is the same.
    async fn agree(&self, shards: u16) -> Result<(), Error> {
        let key = self.home().key(KEY);
        let mut get = redis::cmd("HGET");
        get.arg(&key).arg(COUNT);
        // Read the number first, because a user without write permission cannot store it.
        let there: Option<u16> = self
            .server()
            .step(Call::new(get.clone()).repeatable())
            .await?;
        let there = match there {
            Some(there) => there,
            None => {
                let mut set = redis::cmd("HSETNX");
                set.arg(&key).arg(COUNT).arg(shards);
                let set = Call::<bool>::new(set).repeatable();
                self.server().step(set).await?;
                self.server().step(Call::new(get).repeatable()).await?
            }
        };
        if there == shards {
            return Ok(());
        }
        Err(Error::refused(
            "sharded index",
            Code::Sharded,
            format!("this index has {there} shards, not {shards}; their number cannot be changed"),
        ))
    }

    /// Returns the shards, the home shard first.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// for shard in index.shards() {
    ///     println!("{}", String::from_utf8_lossy(shard.prefix()));
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    pub fn shards(&self) -> &[Index<S>] {
        &self.shards
    }

    /// Returns the server, connection or batch over which the calls are sent.
    pub fn server(&self) -> &S {
        self.home().server()
    }

    fn home(&self) -> &Index<S> {
        &self.shards[0]
    }

    /// Returns the shard of a hash.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// let shard = index.shard_of(b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A");
    /// println!("{}", String::from_utf8_lossy(shard.prefix()));
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    pub fn shard_of(&self, hash: impl AsRef<[u8]>) -> &Index<S> {
        let hash = hash.as_ref();
        &self.shards[spread::shard_of(hash, self.shards.len())]
    }
}
