//! An index that is larger than a server: spread over many prefixes, and so over a cluster.

mod crawl;
mod figures;
mod layout;
mod marks;
mod records;
mod requires;
mod spread;
mod standing;
mod storage;

use std::sync::Arc;

use self::marks::{COUNT, KEY};
pub use self::marks::{Doing, Unfinished};
use super::Index;
use crate::server::{Call, Code, Error, Server, Steps};

/// One large index, spread over the prefixes of several shards. Calls are those of an [`Index`].
///
/// Each hash belongs to one shard, which its own bits decide. The lists of WACZ files are in the first shard
/// alone, the home of the index, so that a `wacz_index` means the same in all of them. The prefixes of the
/// shards have hash tags at even distances, so that a cluster is filled evenly; on a server that is no cluster
/// it works as well.
///
/// What concerns records of several shards is done by each of them for itself. When a call fails, some of
/// them may have done their part: send it again, with the same [`Sequence`](super::Sequence) where it has one. A
/// [`commit`](Sharded::commit) is one commit for each shard, the home last: the crawl is committed as a whole
/// when that is done. In between, and after a crash in between, look-ups may see a part of it. A mark in the
/// home shard keeps everybody from doing the opposite before it is finished ([`Code::Sharded`]), and any
/// call that was cut short can be sent again and finishes.
#[derive(Clone, Debug)]
pub struct Sharded<S = Server> {
    shards: Arc<[Index<S>]>,
}

impl Sharded {
    /// Connects to the server or cluster at `url`, and opens the index of this name with `shards` shards, from
    /// 1 to 1024. The number is part of the index: a new one keeps it for ever.
    ///
    /// ```no_run
    /// use crawlspace_client::dedupe::Sharded;
    /// let index = Sharded::open("redis://127.0.0.1:7000/", "coll-42", 16)?;
    /// println!("{} hashes", index.stats()?.hashes);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `SHARDED` when the index has another number of shards, `BADPREFIX` when no index can be called that; or
    /// when the server cannot be reached.
    pub fn open(url: &str, name: impl Into<Vec<u8>>, shards: u16) -> Result<Sharded, Error> {
        Sharded::on(&Server::open(url)?, name, shards)
    }
}

impl<S: Steps> Sharded<S> {
    /// The index of this name on this server, as [`open`](Sharded::open) does.
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
    /// As there.
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

    /// Writes down how many shards there are, or finds that it is written down otherwise.
    async fn agree(&self, shards: u16) -> Result<(), Error> {
        let key = self.home().key(KEY);
        let mut get = redis::cmd("HGET");
        get.arg(&key).arg(COUNT);
        // First a look: a user who may only read cannot write it down.
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

    /// The shards, the home first.
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

    /// What it is asked over.
    pub fn server(&self) -> &S {
        self.home().server()
    }

    fn home(&self) -> &Index<S> {
        &self.shards[0]
    }

    /// The shard that a hash belongs to.
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
