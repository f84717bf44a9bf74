//! How the shards keep their committed parts.

use super::Sharded;
use crate::dedupe::{Index, Moved, Storage};
use crate::server::{Batch, Pending, Steps};

impl<S: Steps> Sharded<S> {
    /// [`Index::pack`] of every shard; those of different servers at the same time. Gives the sums.
    ///
    /// When it fails, some shards may be packed and others not, and every call has the same answers as before: send
    /// it again, or [`unpack`](Sharded::unpack).
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// println!("{} bytes in all", index.pack()?.memory);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// As there.
    pub fn pack(&self) -> S::Answer<Moved> {
        self.move_all(Index::pack)
    }

    /// [`Index::unpack`] of every shard. Gives the sums.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// println!("{} records are in plain keys again", index.unpack()?.records);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// As there.
    pub fn unpack(&self) -> S::Answer<Moved> {
        self.move_all(Index::unpack)
    }

    fn move_all(&self, ask: fn(&Index<Batch>) -> Pending<Moved>) -> S::Answer<Moved> {
        let index = self.clone();
        self.server().run(async move {
            let shards = index.all(|shard| ask(&shard)).await?;
            let storages: Vec<Storage> = shards.iter().map(|moved| moved.storage).collect();
            Ok(Moved {
                storage: together(&storages),
                hashes: shards.iter().map(|moved| moved.hashes).sum(),
                records: shards.iter().map(|moved| moved.records).sum(),
                memory: shards.iter().map(|moved| moved.memory).sum(),
            })
        })
    }
}

/// How an index is kept whose shards are kept so. Where some are packed and some are not, it was left in the
/// middle: on its way into packed storage, unless a shard is on its way back.
pub(super) fn together(shards: &[Storage]) -> Storage {
    match shards {
        [first, others @ ..] if others.iter().all(|other| other == first) => *first,
        all if all.contains(&Storage::Packing) => Storage::Packing,
        all if all.contains(&Storage::Unpacking) => Storage::Unpacking,
        _ => Storage::Packing,
    }
}
