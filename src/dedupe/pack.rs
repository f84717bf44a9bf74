//! `PACK` and `UNPACK`: the committed part of an index moves from one storage to the other.
//!
//! The old storage is put aside under the name `moving`, and its entries go over slice by slice. Each
//! is in exactly one of the two at the end of every slice, and look-ups see both, so nobody notices.
//! Cut short by a crash, the same command goes on, and the other one goes back.

use crawlspace_host::keyspace::Batch;
use crawlspace_host::reply::Reply;

use super::digest::Digest;
use super::error::{Error, Result};
use super::index::{CrawlState, Index};
use super::job::{Job, Step, Time, Walk};
use super::keys::CrawlKey;
use super::packed::Part;
use super::packed::op::Op;
use super::storage::{Of, Places, Storage};
use super::store::Store;

enum Phase<K: Store> {
    Check,
    /// The committed crawls, whose records are to be moved.
    Crawls(Walk<K>),
    Start,
    /// Further holders.
    Holders(Walk<K>),
    /// The next crawl.
    Next,
    /// Records of one crawl, with the hashes that it owns.
    Records(Vec<u8>, Walk<K>),
    /// What is left of the merged index: hashes whose owner has no record of them.
    Merged(Walk<K>),
    End,
}

/// The change of an index's storage.
pub struct Move<K: Store> {
    to: Storage,
    phase: Phase<K>,
    /// Those whose records are still to be moved.
    crawls: Vec<Vec<u8>>,
    hashes: u64,
    records: u64,
}

impl<K: Store> Move<K> {
    /// To that storage, not yet begun.
    pub fn new(to: Storage) -> Move<K> {
        Move {
            to,
            phase: Phase::Check,
            crawls: Vec::new(),
            hashes: 0,
            records: 0,
        }
    }

    /// Puts the old storage aside.
    fn start(&mut self, index: &mut Index<K>, ks: &mut K) -> Result<()> {
        if index.storage() != self.to {
            index.register(ks)?;
            let (merged, moving) = (index.names.merged.clone(), index.names.moving.clone());
            let had = ks.exists(&merged);
            if index.is_moving() {
                // The way back: what was left of the other storage is where changes go now.
                let aside = index.names.aside.clone();
                ks.rename(&moving, &aside)?;
                if had {
                    ks.rename(&merged, &moving)?;
                }
                ks.rename(&aside, &merged)?;
            } else if had {
                ks.rename(&merged, &moving)?;
            }
            match self.to {
                Storage::Packed => {
                    let name = self.to.name().as_bytes();
                    ks.hash_set(&index.names.meta, b"storage", name)?;
                }
                Storage::Plain => {
                    ks.hash_del(&index.names.meta, b"storage")?;
                }
            }
            let is_moving = ks.exists(&moving);
            index.places = Places::of(&index.names, self.to, is_moving);
            index.crawls.clear();
            index.has_holders = None;
        }
        Ok(())
    }

    fn next_crawl(&mut self, index: &mut Index<K>, ks: &mut K) -> Result<Phase<K>> {
        while let Some(crawl) = self.crawls.pop() {
            let walk = match self.to {
                Storage::Packed => {
                    let records = index.crawl_key(ks, &crawl, CrawlKey::Records);
                    let len = ks.hash_len(&records)?;
                    if len == 0 {
                        continue;
                    }
                    index.expect(ks, &crawl, len)?;
                    Walk::hash(ks, records)
                }
                Storage::Plain => Walk::stored(index, ks, Of::Packed(crawl.clone())),
            };
            return Ok(Phase::Records(crawl, walk));
        }
        let walk = match (self.to, &index.places.plain) {
            (Storage::Packed, Some(plain)) if index.is_moving() => Walk::hash(ks, plain.clone()),
            (Storage::Plain, _) if index.is_moving() => index.packed_walk(Of::Merged),
            _ => return Ok(Phase::End),
        };
        Ok(Phase::Merged(walk))
    }

    fn answer(&self, index: &mut Index<K>, ks: &mut K) -> Reply {
        let names = &index.names;
        let memory = match index.storage() {
            Storage::Packed => ks.memory(&names.merged),
            Storage::Plain => ks.memory(&names.merged) + ks.memory(&names.holders),
        };
        Reply::named([
            ("storage", Reply::bulk(index.storage().name())),
            ("hashes", Reply::count(self.hashes)),
            ("records", Reply::count(self.records)),
            ("memory", Reply::count(memory)),
        ])
    }
}

impl<K: Store> Job<K> for Move<K> {
    fn step(&mut self, index: &mut Index<K>, ks: &mut K, time: Time<'_>) -> Result<Step> {
        let to = self.to;
        loop {
            match &mut self.phase {
                Phase::Check => {
                    index.check_types(ks, None)?;
                    if to == Storage::Packed && index.is_purged(ks) {
                        return Err(Error::PurgingIndex); // it could not write to a packed index
                    }
                    self.phase = Phase::Crawls(Walk::set(ks, index.names.allcrawls.clone()));
                }
                Phase::Crawls(walk) => {
                    // Nothing is moved unless all of it can be.
                    let crawls = &mut self.crawls;
                    let done = walk.run(index, ks, time, |index, ks, crawl, _| {
                        crawls.push(crawl.to_vec());
                        index.check_types(ks, Some(crawl))
                    })?;
                    if !done {
                        return Ok(Step::More);
                    }
                    crawls.sort();
                    crawls.dedup();
                    self.phase = Phase::Start;
                }
                Phase::Start => {
                    self.start(index, ks)?;
                    self.phase = Phase::Holders(match to {
                        Storage::Packed => Walk::hash(ks, index.names.holders.clone()),
                        Storage::Plain => index.packed_walk(Of::Holders),
                    });
                }
                Phase::Holders(walk) => {
                    let (moved, done) = walk.next(index, ks)?;
                    index.move_holders(ks, to, moved)?;
                    if !done {
                        if time() {
                            continue;
                        } else {
                            return Ok(Step::More);
                        }
                    }
                    if to == Storage::Plain {
                        self.crawls = index.packed_crawls(ks)?;
                    }
                    self.phase = Phase::Next;
                }
                Phase::Next => {
                    self.phase = self.next_crawl(index, ks)?;
                    if !time() {
                        return Ok(Step::More);
                    }
                }
                Phase::Records(crawl, walk) => {
                    let crawl = &*crawl;
                    let (batch, done) = walk.next(index, ks)?;
                    let (hashes, records) = match to {
                        Storage::Packed => index.pack_records(ks, crawl, batch)?,
                        Storage::Plain => index.unpack_records(ks, crawl, batch)?,
                    };
                    self.hashes += hashes;
                    self.records += records;
                    if !done {
                        if time() {
                            continue;
                        } else {
                            return Ok(Step::More);
                        }
                    }
                    self.phase = Phase::Next;
                }
                Phase::Merged(walk) => {
                    let (moved, done) = walk.next(index, ks)?;
                    for (field, owner) in moved.iter() {
                        index.merged_set(ks, field, owner)?;
                    }
                    self.hashes += moved.len() as u64;
                    if !done {
                        if time() {
                            continue;
                        } else {
                            return Ok(Step::More);
                        }
                    }
                    self.phase = Phase::End;
                }
                Phase::End => {
                    let is_moving = ks.exists(&index.names.moving);
                    index.places = Places::of(&index.names, to, is_moving);
                    return Ok(Step::Done(self.answer(index, ks)));
                }
            }
        }
    }
}

impl<K: Store> Index<K> {
    /// A walk over what is packed alone.
    fn packed_walk(&self, of: Of) -> Walk<K> {
        Walk::over(self.packed_source(of).into_iter().collect())
    }

    fn move_holders(&mut self, ks: &mut K, to: Storage, moved: &Batch) -> Result<()> {
        if to == Storage::Packed {
            if let Some(key) = &self.places.packed {
                for (field, value) in moved.iter() {
                    ks.change_packed(key, &Op::Set(Part::Holders, field, value))?;
                }
            }
            for (field, _) in moved.iter() {
                ks.hash_del(&self.names.holders, field)?;
            }
        } else {
            for (field, value) in moved.iter() {
                ks.hash_set(&self.names.holders, field, value)?;
            }
            for (field, _) in moved.iter() {
                self.del_packed(ks, Part::Holders, field)?;
            }
        }
        Ok(())
    }

    /// Committed records go into the packed index, and with them the hashes that their crawl owns; gives
    /// how many hashes and records that were.
    fn pack_records(&mut self, ks: &mut K, crawl: &[u8], batch: &Batch) -> Result<(u64, u64)> {
        let uncommitted =
            [CrawlKey::Added, CrawlKey::Merging].map(|part| self.crawl_key(ks, crawl, part));
        let any = uncommitted.iter().any(|part| ks.exists(part));
        let merged = self.places.plain.clone();
        let (mut moved, mut owned) = (Vec::new(), Vec::new());
        for (field, value) in batch.iter() {
            // What is not committed stays in the plain hash.
            if any {
                let digest = Digest::of_field(field);
                let [added, merging] = &uncommitted;
                if ks.hash_has(added, digest.canonical())?
                    || ks.hash_has(merging, digest.canonical())?
                {
                    continue;
                }
            }
            let owner = match &merged {
                Some(merged) => ks.hash_get(merged, field)?,
                None => None,
            };
            let owns = owner.is_some_and(|owner| owner.as_ref() == crawl);
            // What a plain client wrote beside a packed record was never seen.
            if !self.has_packed(ks, Part::Records(crawl), field)? {
                self.take(ks, crawl, (field, value), owns)?;
            } else if owns {
                self.merged_set(ks, field, crawl)?;
            }
            moved.push(field);
            if owns {
                owned.push(field);
            }
        }
        // One kind of change after the other, because each is replicated at once.
        let (mut hashes, mut records) = (0, 0);
        if let Some(merged) = &merged {
            for field in owned {
                hashes += u64::from(ks.hash_del(merged, field)?);
            }
        }
        let plain = self.crawl_key(ks, crawl, CrawlKey::Records);
        for field in moved {
            records += u64::from(ks.hash_del(&plain, field)?);
        }
        Ok((hashes, records))
    }

    /// Packed records go into the plain keys, with the hashes that the crawl owns.
    fn unpack_records(&mut self, ks: &mut K, crawl: &[u8], moved: &Batch) -> Result<(u64, u64)> {
        // Of a crawl that is not committed the plain hash has them all.
        let committed = self.state(ks, crawl)? != Some(CrawlState::Uncommitted)
            || self.is_outgoing(ks, crawl)?;
        let records = self.crawl_key(ks, crawl, CrawlKey::Records);
        let mut unpacked = 0;
        if committed {
            for (field, value) in moved.iter() {
                ks.hash_set(&records, field, value)?;
                unpacked += 1;
            }
        }
        self.set_copied(ks, crawl, 0)?;
        let mut owned = Vec::new();
        for (field, _) in moved.iter() {
            let owner = self.get_packed(ks, Part::Owners, field)?;
            if owner.is_some_and(|owner| owner.as_ref() == crawl) {
                owned.push(field);
            }
        }
        if let Some(merged) = &self.places.plain {
            for field in &owned {
                ks.hash_set(merged, field, crawl)?;
            }
        }
        for field in &owned {
            self.del_packed(ks, Part::Owners, field)?;
        }
        for (field, _) in moved.iter() {
            self.unpack_record(ks, crawl, field)?;
        }
        Ok((owned.len() as u64, unpacked))
    }
}
