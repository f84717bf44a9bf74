//! Sharded index: spread over many prefixes, and so over the nodes of a cluster.

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

/// A large index, spread over the prefixes of several shards, with the same calls as an [`Index`].
///
/// The bits of a hash decide which shard it belongs to. The lists of WACZ files are in the first shard only,
/// the home shard, so that a `wacz_index` means the same in all shards. The prefixes have hash tags at even
/// distances, so that the shards fill a cluster evenly; a server that is not a cluster works as well.
///
/// A call that concerns several shards runs on each of them separately. When such a call fails, some shards
/// may have done their part: send it again, with the same [`Sequence`](super::Sequence) if it has one. A
/// [`commit`](Sharded::commit) commits each shard in turn, the home shard last: only then is the crawl
/// committed as a whole. Until then, and after a crash, look-ups may see part of the crawl. A mark in the
/// home shard keeps other clients from starting a conflicting operation before this one is finished
/// ([`Code::Sharded`]). Any interrupted call can be sent again and then finishes.
#[derive(Clone, Debug)]
pub struct Sharded<S = Server> {
    shards: Arc<[Index<S>]>,
}

impl Sharded {
    /// Connects to the server or cluster at `url`, and opens the index of this name with `shards` shards,
    /// from 1 to 1024. The number of shards is fixed when the index is created.
    ///
    /// ```no_run
    /// use crawlspace_client::dedupe::Sharded;
    /// let index = Sharded::open("redis://127.0.0.1:7000/", "coll-42", 16)?;
    /// println!("{} hashes", index.stats()?.hashes);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `SHARDED` when the index has another number of shards, `BADPREFIX` when the name is not a valid name
    /// of an index; or a connection error.
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

    /// Stores the number of shards in the home shard, or checks it against the stored number.
    async fn agree(&self, shards: u16) -> Result<(), Error> {
        let key = self.home().key(KEY);
        let mut get = redis::cmd("HGET");
        get.arg(&key).arg(COUNT);
        // Read first: a user without write permission cannot store the number.
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

    /// Returns the server, connection or batch that the calls are sent over.
    pub fn server(&self) -> &S {
        self.home().server()
    }

    fn home(&self) -> &Index<S> {
        &self.shards[0]
    }

    /// Returns the shard that a hash belongs to.
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
