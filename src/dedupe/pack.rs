//! `PACK` and `UNPACK`: move the committed part of an index from one storage to the other.
//!
//! The old storage is renamed to `moving`, and its entries are moved slice by slice. At the end of
//! every slice, each entry is in exactly one of the two storages. Lookups read both storages, so
//! clients do not notice the move. After a crash, the same command resumes the move, and the other
//! command reverts it.

use crawlspace_host::keyspace::Batch;
use crawlspace_host::reply::Reply;

use super::digest::Digest;
use super::error::{Error, Result};
use super::index::Index;
use super::index::storage::{Of, Storage};
use super::job::{Job, Lent, Time, Walk, each_crawl};
use super::keys::{CrawlKey, is_crawl_id};
use super::packed::Part;
use super::packed::op::Op;
use super::store::Store;

/// Returns the job that converts the storage of an index. Its reply is a map with the storage, the numbers of hashes
/// and records that were moved, and their memory use in bytes.
///
/// # Errors
/// The job fails with `PURGING` while another program purges the index, and with `WRONGTYPE` if a key holds another
/// type.
pub fn move_to<K: Store>(to: Storage) -> Job<K> {
    Job::new(async move |lent| Move::to(to).run(&lent).await)
}

struct Move {
    to: Storage,
    hashes: u64,
    records: u64,
    /// Number of records to be moved.
    all: u64,
}

/// Packs entries of a packed index that are in plain hashes. Such entries exist after an
/// interrupted `PACK`, and after another program deleted the marker and wrote to the key of the
/// merged index. Returns the number of hashes and records.
///
/// # Errors
/// The errors of [`move_to`].
pub(super) async fn pack_rest<K: Store>(lent: &Lent<K>) -> Result<u64> {
    let mut rest = Move::to(Storage::Packed);
    rest.run(lent).await?;
    Ok(rest.hashes + rest.records)
}

impl Move {
    fn to(to: Storage) -> Move {
        Move {
            to,
            hashes: 0,
            records: 0,
            all: 0,
        }
    }

    async fn run<K: Store>(&mut self, lent: &Lent<K>) -> Result<Reply> {
        while !self.move_all(lent).await? {}
        Ok(lent.with(|index, ks| self.answer(index, ks)))
    }

    /// Moves all entries. Returns false if another program changed the storage in the meantime.
    async fn move_all<K: Store>(&mut self, lent: &Lent<K>) -> Result<bool> {
        let to = self.to;
        let committed = self.check(lent).await?;
        while !lent.with(|index, ks| self.switch(index, ks))? {
            join_rest(lent).await?;
        }
        self.move_all_holders(lent).await?;
        let crawls = match to {
            Storage::Packed => committed,
            Storage::Plain => lent.with(|index, ks| index.places.packed_crawls(ks))?,
        };
        for crawl in crawls.iter().rev() {
            self.move_records(lent, crawl).await?;
            lent.pause().await;
        }
        self.move_merged(lent).await?;
        Ok(lent.with(|index, _| index.places.storage() == to))
    }

    /// Switches the index to the new storage and moves the first owners, so that the key of the
    /// merged index exists after every slice. Its name shows the profile even if another program
    /// deletes the `crawlspace` key. Returns false if two plain hashes would have to be merged
    /// first.
    fn switch<K: Store>(&mut self, index: &mut Index<K>, ks: &mut K) -> Result<bool> {
        if !index.switch_storage(ks, self.to)? {
            return Ok(false);
        }
        if let Some(mut left) = self.left(index, ks) {
            let (first, _) = left.next(index, ks)?;
            self.move_owners(index, ks, first)?;
        }
        Ok(true)
    }

    async fn move_all_holders<K: Store>(&self, lent: &Lent<K>) -> Result<()> {
        let to = self.to;
        let mut holders = lent.with(|index, ks| match to {
            Storage::Packed => Walk::hash(ks, index.names().holders.clone()),
            Storage::Plain => packed_walk(index, Of::Holders),
        });
        move_each(lent, &mut holders, to, |index, ks, moved| {
            move_holders(index, ks, to, moved)
        })
        .await
    }

    /// Returns the committed crawls. Checks, before the first move, that all entries can be moved.
    async fn check<K: Store>(&mut self, lent: &Lent<K>) -> Result<Vec<Vec<u8>>> {
        lent.with(|index, ks| {
            index.check_types(ks, None)?;
            index.places.check_move(ks, self.to)?;
            if self.to == Storage::Packed && index.crawls.are_purged(ks) {
                return Err(Error::PurgingIndex); // a purge cannot write to a packed index
            }
            Ok(())
        })?;
        let mut crawls = Vec::new();
        self.all = self.records;
        let check = |index: &mut Index<K>, ks: &mut K, crawl: &[u8]| {
            // Only plain clients can commit a crawl with such an id. The key of its records could
            // have the same name as another key, so its records stay plain.
            if self.to == Storage::Packed && !is_crawl_id(crawl) {
                return Ok(());
            }
            crawls.push(crawl.to_vec());
            // A plain client can commit crawls `x` and `x:urls`: `h:x:urls` then contains the records of `x:urls`
            // and cannot be the URL index of `x`. The move does not use such keys.
            let unused = [CrawlKey::Urls, CrawlKey::Refs];
            for &which in CrawlKey::ALL.iter().filter(|which| !unused.contains(which)) {
                let key = index.crawls.key(ks, crawl, which);
                ks.check_type(&key, which.kind())?;
            }
            let packed = index.places.packed_len(ks, crawl)?;
            self.all += match self.to {
                Storage::Packed => index.records_len(ks, crawl)?.saturating_sub(packed),
                Storage::Plain => packed,
            };
            Ok(())
        };
        each_crawl(lent, &[|names| &names.allcrawls], check).await?;
        Ok(crawls)
    }

    /// Moves the records of a crawl, and the hashes that it owns.
    async fn move_records<K: Store>(&mut self, lent: &Lent<K>, crawl: &[u8]) -> Result<()> {
        let to = self.to;
        let mut records = lent.with(|index, ks| match to {
            Storage::Packed => {
                let records = index.crawls.key(ks, crawl, CrawlKey::Records);
                let len = ks.hash_len(&records)?;
                if len > 0 {
                    index.places.expect(ks, crawl, len)?;
                }
                Ok::<_, Error>(Walk::hash(ks, records))
            }
            Storage::Plain => Ok(Walk::stored(index, ks, Of::Packed(crawl.to_vec()))),
        })?;
        move_each(lent, &mut records, to, |index, ks, batch| {
            let (hashes, records) = match to {
                Storage::Packed => pack_records(index, ks, crawl, batch)?,
                Storage::Plain => unpack_records(index, ks, crawl, batch)?,
            };
            self.hashes += hashes;
            self.records += records;
            lent.report(self.records, self.all);
            Ok(())
        })
        .await
    }

    /// Moves the rest of the merged index: the hashes whose owner has no record of them. Then moves
    /// the entries that a plain client wrote while the marker was missing.
    async fn move_merged<K: Store>(&mut self, lent: &Lent<K>) -> Result<()> {
        while let Some(mut left) = lent.with(|index, ks| self.left(index, ks)) {
            let before = self.hashes;
            move_each(lent, &mut left, self.to, |index, ks, moved| {
                self.move_owners(index, ks, moved)
            })
            .await?;
            lent.with(|index, ks| index.refresh_storage(ks))?;
            if self.hashes == before {
                break;
            }
            lent.pause().await;
        }
        Ok(())
    }

    fn move_owners<K: Store>(
        &mut self,
        index: &mut Index<K>,
        ks: &mut K,
        moved: &Batch,
    ) -> Result<()> {
        for (field, owner) in moved.iter() {
            move_owner(index, ks, field, owner)?;
        }
        self.hashes += moved.len() as u64;
        Ok(())
    }

    /// Returns a walk over the rest of the merged index, if there is any.
    fn left<K: Store>(&self, index: &Index<K>, ks: &mut K) -> Option<Walk<K>> {
        match (self.to, index.places.plain_key()) {
            // Another program may have changed the storage in the meantime.
            _ if !index.places.is_moving() || index.places.storage() != self.to => None,
            (Storage::Packed, plain) => plain.map(|plain| Walk::hash(ks, plain.clone())),
            (Storage::Plain, _) => Some(packed_walk(index, Of::Merged)),
        }
    }

    fn answer<K: Store>(&self, index: &mut Index<K>, ks: &mut K) -> Reply {
        let names = &index.names();
        let memory = match index.places.storage() {
            Storage::Packed => ks.memory(&names.packed),
            Storage::Plain => ks.memory(&names.merged) + ks.memory(&names.holders),
        };
        Reply::named([
            ("storage", Reply::bulk(index.places.storage().name())),
            ("hashes", Reply::count(self.hashes)),
            ("records", Reply::count(self.records)),
            ("memory", Reply::count(memory)),
        ])
    }
}

/// Adds the entries that another program wrote to the key of the merged index to `moving`.
async fn join_rest<K: Store>(lent: &Lent<K>) -> Result<()> {
    let Some((merged, moving)) = lent.with(|index, ks| index.places.two_plain_hashes(ks)) else {
        return Ok(());
    };
    let mut rest = lent.with(|_, ks| Walk::hash(ks, merged.clone()));
    let mut join = |_: &mut Index<K>, ks: &mut K, batch: &Batch| {
        for (field, owner) in batch.iter() {
            ks.hash_set_new(&moving, field, owner)?;
        }
        for (field, _) in batch.iter() {
            ks.hash_del(&merged, field)?;
        }
        Ok(())
    };
    lent.slices(|index, ks, time| slice(&mut rest, index, ks, time, &mut join))
        .await
}

/// Passes the entries of a walk to `act` in batches, and stops if another program changes the
/// storage. Otherwise, `act` would delete the entries without writing them to the new storage.
async fn move_each<K: Store>(
    lent: &Lent<K>,
    walk: &mut Walk<K>,
    to: Storage,
    mut act: impl FnMut(&mut Index<K>, &mut K, &Batch) -> Result<()>,
) -> Result<()> {
    lent.slices(|index, ks, time| {
        Ok(index.places.storage() != to || slice(walk, index, ks, time, &mut act)?)
    })
    .await
}

/// Passes entries of a walk to `act` in batches until the slice has used up its time. `act` should group changes of
/// the same kind, because each kind is replicated as a separate command. Returns true after the last entry.
fn slice<K: Store>(
    walk: &mut Walk<K>,
    index: &mut Index<K>,
    ks: &mut K,
    time: Time<'_>,
    act: &mut impl FnMut(&mut Index<K>, &mut K, &Batch) -> Result<()>,
) -> Result<bool> {
    let mut batches = 0;
    loop {
        let (batch, done) = walk.next(index, ks)?;
        act(index, ks, batch)?;
        batches += 1;
        if done || !time() {
            walk.adapt(batches);
            return Ok(done);
        }
    }
}

/// Returns a walk over packed entries only.
fn packed_walk<K: Store>(index: &Index<K>, of: Of) -> Walk<K> {
    Walk::over(index.places.packed_source(of).into_iter().collect())
}

/// Moves an entry of the merged index to the current storage. If the packed index already has a
/// committed owner of the hash, keeps that owner, as `HSETNX` would.
fn move_owner<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    field: &[u8],
    owner: &[u8],
) -> Result<()> {
    if let (Storage::Packed, Some(plain)) =
        (index.places.storage(), index.places.plain_key().cloned())
        && let Some(packed) = index.places.packed(Part::Owners).get(ks, field)?
        && index.crawls.is_committed(ks, packed.as_ref())?
    {
        ks.hash_del(&plain, field)?;
        return Ok(());
    }
    index.places.merged().set(ks, field, owner)
}

fn move_holders<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    to: Storage,
    moved: &Batch,
) -> Result<()> {
    if to == Storage::Packed {
        if let Some(key) = index.places.packed_key() {
            for (field, value) in moved.iter() {
                ks.change_packed(key, &Op::Set(Part::Holders, field, value))?;
            }
        }
        for (field, _) in moved.iter() {
            ks.hash_del(&index.names().holders, field)?;
        }
    } else {
        for (field, value) in moved.iter() {
            ks.hash_set(&index.names().holders, field, value)?;
        }
        for (field, _) in moved.iter() {
            index.places.packed(Part::Holders).del(ks, field)?;
        }
    }
    Ok(())
}

/// Packs committed records of a crawl and the hashes that the crawl owns. Returns the numbers of hashes and
/// records.
fn pack_records<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    batch: &Batch,
) -> Result<(u64, u64)> {
    let mut lists = CrawlKey::UNCOMMITTED.iter();
    let any = lists.any(|&list| {
        let list = index.crawls.key(ks, crawl, list);
        ks.exists(&list)
    });
    let merged = index.places.plain_key().cloned();
    let (mut moved, mut owned) = (Vec::new(), Vec::new());
    for (field, value) in batch.iter() {
        // Uncommitted records stay in the plain hash.
        if any
            && index
                .crawls
                .is_listed(ks, crawl, &Digest::of_field(field))?
        {
            continue;
        }
        let owner = match &merged {
            Some(merged) => ks.hash_get(merged, field)?,
            None => None,
        };
        let owns = owner.is_some_and(|owner| owner.as_ref() == crawl);
        // Packed records take precedence over records of the same hash that a plain client wrote.
        if !index.places.packed(Part::Records(crawl)).has(ks, field)? {
            index
                .places
                .take(ks, &mut index.crawls, crawl, (field, value), owns)?;
        } else if owns {
            index.places.merged().set(ks, field, crawl)?;
        }
        moved.push(field);
        if owns {
            owned.push(field);
        }
    }
    // Group changes of the same kind, because each kind is replicated as a separate command.
    let (mut hashes, mut records) = (0, 0);
    if let Some(merged) = &merged {
        for field in owned {
            hashes += u64::from(ks.hash_del(merged, field)?);
        }
    }
    let plain = index.crawls.key(ks, crawl, CrawlKey::Records);
    for field in moved {
        records += u64::from(ks.hash_del(&plain, field)?);
    }
    Ok((hashes, records))
}

/// Moves records of a crawl, and the hashes that the crawl owns, back to the plain keys.
fn unpack_records<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    moved: &Batch,
) -> Result<(u64, u64)> {
    // The plain hash of an uncommitted crawl contains all of the crawl's records.
    let committed = !index.has_copies(ks, crawl)?;
    let records = index.crawls.key(ks, crawl, CrawlKey::Records);
    let mut unpacked = 0;
    if committed {
        for (field, value) in moved.iter() {
            ks.hash_set(&records, field, value)?;
            unpacked += 1;
        }
    }
    index.crawls.baseline(ks, crawl).set_copied(ks, 0)?;
    let mut owned = Vec::new();
    for (field, _) in moved.iter() {
        let owner = index.places.packed(Part::Owners).get(ks, field)?;
        if owner.is_some_and(|owner| owner.as_ref() == crawl) {
            owned.push(field);
        }
    }
    if let Some(merged) = index.places.plain_key() {
        for field in &owned {
            ks.hash_set(merged, field, crawl)?;
        }
    }
    for field in &owned {
        index.places.packed(Part::Owners).del(ks, field)?;
    }
    for (field, _) in moved.iter() {
        index.places.unpack_record(ks, crawl, field)?;
    }
    Ok((owned.len() as u64, unpacked))
}
