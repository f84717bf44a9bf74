//! Storage formats of the shards.

use super::Sharded;
use crate::dedupe::{Index, Moved, Storage};
use crate::server::{Batch, Pending, Steps};

impl<S: Steps> Sharded<S> {
    /// Packs every shard as [`Index::pack`] does. Shards on different servers are packed at the
    /// same time. Returns the sums.
    ///
    /// If the call fails, some shards may be packed and others not, but all calls keep returning
    /// the same results. Send the call again, or call [`unpack`](Sharded::unpack).
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// println!("{} bytes in all", index.pack()?.memory);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::pack`].
    pub fn pack(&self) -> S::Answer<Moved> {
        self.move_all(Index::pack)
    }

    /// Unpacks every shard as [`Index::unpack`] does. Returns the sums.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Sharded::open("redis://127.0.0.1/", "coll-42", 16)?;
    /// println!("{} records are in plain keys again", index.unpack()?.records);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Index::unpack`].
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

/// Combines the storage formats of the shards. If some shards are packed and others are plain, a
/// conversion was interrupted: returns `Unpacking` if a shard is unpacking and none is packing,
/// otherwise `Packing`.
pub(super) fn together(shards: &[Storage]) -> Storage {
    match shards {
        [first, others @ ..] if others.iter().all(|other| other == first) => *first,
        all if all.contains(&Storage::Packing) => Storage::Packing,
        all if all.contains(&Storage::Unpacking) => Storage::Unpacking,
        _ => Storage::Packing,
    }
}
