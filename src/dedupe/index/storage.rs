//! The storage of the committed part of an index: plain keys, or one packed value.
//!
//! Three kinds of hashes can be in either storage: the merged index, the records of committed
//! crawls, and the further holders of hashes. The rules access them through the functions here, and
//! work in the same way with both storages. During a storage conversion (`PACK`, `UNPACK`), every
//! entry is in exactly one of the two storages. Entries that are still to be packed are in
//! `moving`.
//!
//! The packed index is stored at an undocumented key. The documented key of the merged index
//! contains a marker. A plain client that looks up a hash there gets `WRONGTYPE` instead of
//! "unknown", and a client that deletes or renames the marker destroys no record.
//!
//! The records of an uncommitted crawl are always in its plain hash. The commit copies these records into the
//! packed index, and deletes the plain hash at the end. Meanwhile, `copied` in `h:<crawl>:baseline` is the
//! number of records in both storages. A plain client may write to the hash of a committed crawl at any time.
//! If the crawl has a packed record of the same hash, the packed record takes precedence, as if the field had
//! already existed when the client sent `HSETNX`.

use std::borrow::Cow;

use crawlspace_host::keyspace::{Batch, KeyError, KeyType, Keyspace};
use crawlspace_host::text::Shown;

use super::Index;
use super::crawls::Crawls;
use super::table::{Home, Table};
use crate::dedupe::error::{Error, Result};
use crate::dedupe::keys::{CrawlKey, Names};
use crate::dedupe::packed::op::{Op, Take};
use crate::dedupe::packed::{Cursor, Part};
use crate::dedupe::profile::Profile;
use crate::dedupe::store::{Holds, Store};
pub use crate::storage::Storage;

/// The layout of a new index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Naming of keys and fields.
    pub profile: Profile,
    /// Storage of the committed part.
    pub storage: Storage,
}

impl From<Profile> for Layout {
    fn from(profile: Profile) -> Layout {
        Layout {
            profile,
            storage: Storage::Plain,
        }
    }
}

/// The keys of the committed part.
pub struct Places<K: Store> {
    /// Name of the merged index.
    merged_key: K::Name,
    /// Name of the key `packedhashes`.
    packed_name: K::Name,
    /// Name of the key `moving`.
    moving_key: K::Name,
    /// Name of the key `holders`.
    holders: K::Name,
    /// Name of the key that records the storage of the index.
    meta: K::Name,
    /// The storage to which changes are written.
    storage: Storage,
    /// The key of the packed index, if there may be one.
    packed: Option<K::Name>,
    /// The key of the plain merged index, if there may be one.
    plain: Option<K::Name>,
    /// True if the packed index is at the key that version 0.1.0 used.
    is_old: bool,
    /// True if there is a marker at the name of the merged index.
    is_marked: bool,
}

impl<K: Store> Places<K> {
    /// Detects the storage from the keys and from `stored`, the value in the `crawlspace` key. If the
    /// storage is evident from neither, uses `new`.
    pub(super) fn find(
        ks: &mut K,
        names: &Names<K::Name>,
        stored: Option<Storage>,
        new: Storage,
    ) -> Places<K> {
        use Holds::{Hash, Marker, Nothing, Other, Packed};
        let keys = [&names.packed, &names.merged, &names.moving];
        let [value, merged, moving] = keys.map(|key| ks.holds(key));
        let (storage, old) = match (value, merged, moving) {
            // Version 0.1.0 packed into the key of the merged index, and unpacked from `moving`.
            (Nothing, Packed, _) => (Storage::Packed, Some(&names.merged)),
            (Nothing, _, Packed) => (Storage::Plain, Some(&names.moving)),
            (Nothing, Hash | Other, _) => (stored.unwrap_or(Storage::Plain), None),
            (Nothing, _, _) => (stored.unwrap_or(new), None),
            // `UNPACK` deletes the marker first.
            (Packed, Marker, _) => (Storage::Packed, None),
            // `UNPACK` renames `moving` before it writes the field `storage`. If the field is missing,
            // another program deleted it, and `moving` still has entries.
            (Packed, _, Hash) => (Storage::Packed, None),
            _ => (stored.unwrap_or(Storage::Packed), None),
        };
        let is_there = value != Nothing || old.is_some();
        let packed =
            (storage == Storage::Packed || is_there).then(|| old.unwrap_or(&names.packed).clone());
        let plain = match (storage, merged, moving) {
            // The marker is a leftover. The first write deletes it.
            (Storage::Plain, Marker, _) => None,
            (Storage::Plain, _, _) => Some(names.merged.clone()),
            // If no other part of an index exists, the hash belongs to another program.
            (Storage::Packed, _, Hash) if is_there || stored.is_some() => {
                Some(names.moving.clone())
            }
            // A plain client created this hash while the marker was missing.
            (Storage::Packed, Hash, _) => Some(names.merged.clone()),
            _ => None,
        };
        Places {
            packed,
            plain,
            is_old: old.is_some(),
            is_marked: merged == Marker,
            ..Places::of_empty(names, storage)
        }
    }

    /// Creates the state of an empty index that uses that storage.
    pub(super) fn of_empty(names: &Names<K::Name>, storage: Storage) -> Places<K> {
        let is_packed = storage == Storage::Packed;
        Places {
            merged_key: names.merged.clone(),
            packed_name: names.packed.clone(),
            moving_key: names.moving.clone(),
            holders: names.holders.clone(),
            meta: names.meta.clone(),
            storage,
            packed: is_packed.then(|| names.packed.clone()),
            plain: (!is_packed).then(|| names.merged.clone()),
            is_old: false,
            is_marked: false,
        }
    }

    /// Returns true if there is a merged index in either storage.
    pub(super) fn has_hashes(&self, ks: &mut K) -> bool {
        let mut keys = [&self.merged_key, &self.packed_name, &self.moving_key].into_iter();
        keys.any(|key| ks.exists(key))
    }

    /// Stops using the old storage if a removal has deleted its last entry.
    fn forget_emptied(&mut self, ks: &mut K) {
        if self.is_moving() {
            let rest = match self.storage {
                Storage::Packed => &mut self.plain,
                Storage::Plain => &mut self.packed,
            };
            rest.take_if(|key| !ks.exists(key));
        }
    }

    /// Deletes the marker of a plain index, before the first write.
    fn unmark_plain(&mut self, ks: &mut K) -> Result<()> {
        if self.storage == Storage::Plain && self.is_marked {
            self.unmark(ks)?;
            self.plain = Some(self.merged_key.clone());
        }
        Ok(())
    }

    /// Renames a packed index at the key of version 0.1.0 to its current key, which plain clients do not delete.
    /// Returns false if there is no such index.
    fn rename_old(&mut self, ks: &mut K) -> Result<bool> {
        if !self.is_old {
            return Ok(false);
        }
        if let Some(old) = &self.packed {
            ks.rename(old, &self.packed_name)?;
        }
        self.packed = Some(self.packed_name.clone());
        self.is_old = false;
        Ok(true)
    }

    /// Returns the current storage or, during a storage conversion, the new storage.
    pub fn storage(&self) -> Storage {
        self.storage
    }

    /// Returns true if a storage conversion is running, or was interrupted.
    pub fn is_moving(&self) -> bool {
        self.packed.is_some() && self.plain.is_some()
    }

    /// Returns the name of the storage in statistics.
    pub fn shown(&self) -> &'static str {
        match (self.storage, self.is_moving()) {
            (storage, false) => storage.name(),
            (Storage::Packed, true) => "packing",
            (Storage::Plain, true) => "unpacking",
        }
    }

    /// Returns the key of the packed index, if there may be one.
    pub fn packed_key(&self) -> Option<&K::Name> {
        self.packed.as_ref()
    }

    /// Returns the key of the plain merged index, if there may be one.
    pub(crate) fn plain_key(&self) -> Option<&K::Name> {
        self.plain.as_ref()
    }

    /// Returns true if plain hashes contain a part of a packed index that `PACK` can pack now.
    /// Returns false while a purge is running.
    pub fn has_left_to_pack(&self, ks: &mut K, crawls: &Crawls<K>) -> bool {
        self.storage == Storage::Packed && self.is_moving() && !crawls.are_purged(ks)
    }

    /// Returns true if the storage is packed and the packed index exists in the keys.
    fn is_there(&self, ks: &mut K) -> bool {
        self.storage == Storage::Packed && ks.exists(&self.packed_name)
    }

    /// Stores a marker in the key of the merged index, in which plain clients look up hashes. If a
    /// plain client created a hash there, the hash is renamed to `moving`, and the next `PACK`
    /// packs it. During a purge by another program, the key is not changed, because that program
    /// uses it.
    pub(super) fn mark(&mut self, ks: &mut K, crawls: &mut Crawls<K>) -> Result<()> {
        if self.is_marked || !self.is_there(ks) || crawls.are_purged(ks) {
            return Ok(());
        }
        let [merged, moving] = [&self.merged_key, &self.moving_key];
        match ks.holds(merged) {
            Holds::Hash if ks.exists(moving) => return Ok(()), // wait until the hash in `moving` is packed
            Holds::Hash => {
                ks.rename(merged, moving)?;
                self.plain = Some(moving.clone());
                crawls.clear();
            }
            Holds::Nothing => {}
            // This value prevents plain clients from using the key, as a marker does. Another
            // program wrote the value, so leave it in place.
            Holds::Packed | Holds::Other => return Ok(()),
            Holds::Marker => {
                self.is_marked = true;
                return Ok(());
            }
        }
        ks.mark(merged)?;
        self.is_marked = true;
        Ok(())
    }

    /// Deletes the marker.
    fn unmark(&mut self, ks: &mut K) -> Result<()> {
        if ks.holds(&self.merged_key) == Holds::Marker {
            ks.delete(&self.merged_key)?;
        }
        self.is_marked = false;
        Ok(())
    }

    /// Deletes the marker if another program deleted or renamed the packed index.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn unmark_emptied(&mut self, ks: &mut K) -> Result<()> {
        if self.is_marked && !ks.exists(&self.packed_name) {
            return self.unmark(ks);
        }
        Ok(())
    }

    /// Checks, before the first write, that no key of another type or of another program prevents a storage conversion.
    pub(crate) fn check_move(&self, ks: &mut K, to: Storage) -> Result<()> {
        let [merged, moving] = [&self.merged_key, &self.moving_key];
        if self.storage == to {
            return Ok(());
        }
        if to == Storage::Packed && ks.exists(moving) && !self.is_moving() {
            return Err(Error::Argument(format!(
                "key '{}' exists, but the index needs that name to change its storage; rename or delete it",
                Shown(moving.as_ref())
            )));
        }
        match ks.holds(merged) {
            Holds::Packed | Holds::Other if !self.is_old => Err(KeyError::WrongType {
                key: merged.as_ref().to_vec(),
                needs: KeyType::Hash,
            }
            .into()),
            _ => Ok(()),
        }
    }

    /// Switches to the other storage. Returns false if two plain hashes would have to be merged first: see
    /// [`Places::two_plain_hashes`].
    fn switch(&mut self, ks: &mut K, to: Storage) -> Result<bool> {
        let (merged, moving) = (self.merged_key.clone(), self.moving_key.clone());
        match to {
            Storage::Packed => {
                let name = to.name().as_bytes();
                ks.hash_set(&self.meta, b"storage", name)?;
                if ks.exists(&merged) {
                    ks.rename(&merged, &moving)?;
                }
            }
            Storage::Plain => {
                self.unmark(ks)?;
                if self.two_plain_hashes(ks).is_some() {
                    return Ok(false);
                }
                if ks.holds(&moving) == Holds::Hash {
                    // The conversion is reverted: the entries that are still to be packed become
                    // the merged index again.
                    ks.rename(&moving, &merged)?;
                }
                ks.hash_del(&self.meta, b"storage")?;
            }
        }
        Ok(true)
    }

    /// Returns two plain hashes that must be merged: the hash that another program created at the
    /// name of a packed merged index while the marker was missing, and the hash of the entries that
    /// are still to be packed.
    pub(crate) fn two_plain_hashes(&self, ks: &mut K) -> Option<(K::Name, K::Name)> {
        let [merged, moving] = [&self.merged_key, &self.moving_key];
        let are_both = [merged, moving]
            .iter()
            .all(|key| ks.holds(key) == Holds::Hash);
        are_both.then(|| (merged.clone(), moving.clone()))
    }

    /// Returns the merged index: hash → crawl that owns it.
    pub(crate) fn merged(&self) -> Table<'_, K::Name> {
        self.either(Part::Owners, self.plain.as_ref())
    }

    /// Returns the further holders: hash → commit numbers.
    pub(crate) fn further_holders(&self) -> Table<'_, K::Name> {
        let plain = self.plain.as_ref();
        self.either(Part::Holders, plain.map(|_| &self.holders))
    }

    /// Returns a table in the storage of the index.
    fn either<'a>(&'a self, part: Part<'a>, plain: Option<&'a K::Name>) -> Table<'a, K::Name> {
        Table {
            part,
            packed: self.packed.as_ref(),
            plain: plain.map(Cow::Borrowed),
            home: match self.storage {
                Storage::Plain => Home::Plain,
                Storage::Packed => Home::Packed,
            },
        }
    }

    /// Returns only the packed part of a table.
    pub(crate) fn packed<'a>(&'a self, part: Part<'a>) -> Table<'a, K::Name> {
        self.either(part, None)
    }

    /// Returns the crawls that have packed records.
    pub(crate) fn packed_crawls(&self, ks: &mut K) -> Result<Vec<Vec<u8>>> {
        match &self.packed {
            Some(key) => Ok(ks
                .packed(key, |packed| packed.crawls())?
                .unwrap_or_default()),
            None => Ok(Vec::new()),
        }
    }

    /// Returns the number of a crawl's packed records.
    pub(crate) fn packed_len(&self, ks: &mut K, crawl: &[u8]) -> Result<u64> {
        self.packed(Part::Records(crawl)).len(ks)
    }

    /// Deletes a field from a crawl's packed records.
    pub(crate) fn unpack_record(&self, ks: &mut K, crawl: &[u8], field: &[u8]) -> Result<()> {
        self.packed(Part::Records(crawl)).del(ks, field).map(drop)
    }

    /// Copies a record of a crawl's plain hash into the packed index. With `owns`, the crawl becomes the owner of the
    /// hash if the hash has no owner. Returns true if the crawl became the owner.
    pub(crate) fn take(
        &self,
        ks: &mut K,
        crawls: &mut Crawls<K>,
        crawl: &[u8],
        (field, record): (&[u8], &[u8]),
        owns: bool,
    ) -> Result<bool> {
        let records = crawls.key(ks, crawl, CrawlKey::Records);
        let Some(key) = &self.packed else {
            return Ok(false);
        };
        let take = Take {
            crawl,
            field,
            record: Some(record),
            owns,
        };
        Ok(ks.take_packed(key, &records, &take)?)
    }

    /// Announces the number of records of a crawl to the packed index, which reserves memory for them.
    pub(crate) fn expect(&self, ks: &mut K, crawl: &[u8], records: u64) -> Result<()> {
        if let (Some(key), true) = (&self.packed, records >= WORTH_EXPECTING) {
            ks.change_packed(key, &Op::Expect(crawl, records))?;
        }
        Ok(())
    }

    /// Announces to the packed index that no more records of a crawl will follow.
    pub(crate) fn expect_no_more(&self, ks: &mut K, crawl: &[u8]) -> Result<()> {
        if self.packed_len(ks, crawl)? >= WORTH_EXPECTING
            && let Some(key) = &self.packed
        {
            ks.change_packed(key, &Op::Expect(crawl, 0))?;
        }
        Ok(())
    }

    /// Returns the packed part of one of these hashes, for a walk.
    pub(crate) fn packed_source(&self, of: Of) -> Option<Source<K>> {
        let key = self.packed.clone()?;
        Some(Source::Packed(key, of, Cursor::default()))
    }

    /// Returns the sources of a walk over one of these hashes.
    pub(crate) fn sources(&self, ks: &mut K, crawls: &mut Crawls<K>, of: &Of) -> Vec<Source<K>> {
        let plain = match of {
            Of::Merged => self.plain.clone(),
            Of::Holders => self.further_holders().plain.map(Cow::into_owned),
            Of::Records(crawl) => Some(crawls.key(ks, crawl, CrawlKey::Records)),
            Of::Packed(_) => None,
        };
        let mut sources = Vec::new();
        // The walk takes the last source first.
        sources.extend(self.packed_source(of.clone()));
        if let Some(key) = plain {
            sources.push(Source::Hash(key, ks.cursor()));
        }
        sources
    }
}

impl<K: Store> Index<K> {
    /// Updates the cached storage of the committed part, and sets the marker if there is a packed
    /// index. Must be called at the end of every step that changes the index.
    ///
    /// # Errors
    /// `WRONGTYPE` if a key holds another type; errors of the server.
    pub fn refresh_storage(&mut self, ks: &mut K) -> Result<()> {
        self.places.forget_emptied(ks);
        if !self.registered {
            return Ok(()); // the keys of the index may be arriving one by one
        }
        if self.places.is_marked && !self.places.is_there(ks) {
            return self.places.unmark(ks);
        }
        self.places.mark(ks, &mut self.crawls)
    }

    /// Restores a marker that another program deleted. If the packed value is missing, nothing is
    /// done, because a client may be renaming the keys of the index.
    ///
    /// # Errors
    /// `WRONGTYPE` if a key holds another type; errors of the server.
    pub fn restore_marker(&mut self, ks: &mut K) -> Result<()> {
        if self.registered {
            self.prepare_storage(ks)?;
            self.places.mark(ks, &mut self.crawls)?;
        }
        Ok(())
    }

    /// Prepares the storage before the first write: moves a packed index of version 0.1.0 to its current key, and
    /// deletes the marker of a plain index.
    pub(crate) fn prepare_storage(&mut self, ks: &mut K) -> Result<()> {
        self.places.unmark_plain(ks)?;
        if self.places.rename_old(ks)? {
            self.refresh_storage(ks)?;
        }
        Ok(())
    }

    /// Switches to that storage, and keeps the old storage until all entries are moved. Returns false if two plain
    /// hashes would have to be merged first: see [`Places::two_plain_hashes`].
    pub(crate) fn switch_storage(&mut self, ks: &mut K, to: Storage) -> Result<bool> {
        self.register(ks)?;
        if self.places.storage() == to {
            return Ok(true);
        }
        if !self.places.switch(ks, to)? {
            return Ok(false);
        }
        self.places = Places::find(ks, &self.names, Some(to), to);
        self.crawls.clear();
        self.ledger.note_moved();
        self.refresh_storage(ks)?;
        Ok(true)
    }

    /// Returns the records of a crawl: hash → record. New records are written to the plain hash.
    pub(crate) fn records<'a>(
        &'a mut self,
        ks: &mut K,
        crawl: &'a [u8],
    ) -> Result<Table<'a, K::Name>> {
        let may_be_packed = self.may_be_packed(ks, crawl)?;
        let mut table = self.all_records(ks, crawl);
        table.packed = table.packed.filter(|_| may_be_packed);
        Ok(table)
    }

    /// Returns the packed and the plain records of a crawl, whether it is committed or not.
    pub(crate) fn all_records<'a>(&'a mut self, ks: &mut K, crawl: &'a [u8]) -> Table<'a, K::Name> {
        let plain = self.crawls.key(ks, crawl, CrawlKey::Records);
        Table {
            part: Part::Records(crawl),
            packed: self.places.packed.as_ref(),
            plain: Some(Cow::Owned(plain)),
            home: Home::Same,
        }
    }

    /// Returns true if the records of a crawl may be packed. The records of an uncommitted crawl
    /// are in its plain hash, even if copies of them are packed.
    pub(crate) fn may_be_packed(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        Ok(self.places.packed.is_some() && self.crawls.is_committed(ks, crawl)?)
    }

    /// Returns the number of records of a crawl.
    pub(crate) fn records_len(&mut self, ks: &mut K, crawl: &[u8]) -> Result<u64> {
        let records = self.crawls.key(ks, crawl, CrawlKey::Records);
        let plain = ks.hash_len(&records)?;
        let packed = self.places.packed_len(ks, crawl)?;
        if packed == 0 || !self.may_be_packed(ks, crawl)? {
            // The packed records of an uncommitted crawl are copies, unless another program took
            // the crawl out of the sets. In that case, the packed records are the only copy.
            let are_copies = packed > 0 && self.has_copies(ks, crawl)?;
            return Ok(if are_copies { plain } else { plain + packed });
        }
        let copied = match plain.min(packed) {
            0 => 0,
            most => self.crawls.baseline(ks, crawl).copied(ks)?.min(most),
        };
        Ok(plain + packed - copied)
    }
}

/// Minimum number of records for which the packed index reserves memory in advance.
const WORTH_EXPECTING: u64 = 1000;

/// A hash that can be in either storage.
#[derive(Clone, Debug)]
pub enum Of {
    /// The merged index.
    Merged,
    /// Further holders of hashes.
    Holders,
    /// The records of a crawl.
    Records(Vec<u8>),
    /// The packed records of a crawl, without its plain records.
    Packed(Vec<u8>),
}

/// A source of the entries of a walk.
pub(crate) enum Source<K: Keyspace> {
    /// A plain hash.
    Hash(K::Name, K::Cursor),
    /// A plain set.
    Set(K::Name, K::Cursor),
    /// A sorted set.
    SortedSet(K::Name, K::Cursor),
    /// A part of a packed index.
    Packed(K::Name, Of, Cursor),
}

impl<K: Store> Source<K> {
    /// Appends the next entries to `out`. Returns false at the end.
    pub fn scan(&mut self, ks: &mut K, out: &mut Batch) -> Result<bool> {
        Ok(match self {
            Source::Hash(key, cursor) => ks.hash_scan(key, cursor, out)?,
            Source::Set(key, cursor) => ks.set_scan(key, cursor, out)?,
            Source::SortedSet(key, cursor) => ks.zset_scan(key, cursor, out)?,
            Source::Packed(key, of, cursor) => {
                let part = match of {
                    Of::Merged => Part::Owners,
                    Of::Holders => Part::Holders,
                    Of::Records(crawl) | Of::Packed(crawl) => Part::Records(crawl),
                };
                let more = ks.packed(key, |packed| packed.scan(part, cursor, out))?;
                more == Some(true)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dedupe::add::{Adding, Response};
    use crate::dedupe::commit::commit;
    use crate::dedupe::digest::Digest;
    use crate::dedupe::job::{Job, Step};
    use crate::dedupe::pack::move_to;
    use crate::dedupe::record::Record;
    use crate::dedupe::store::MemoryKeyspace;

    type MemoryIndex = Index<MemoryKeyspace>;

    fn open(ks: &mut MemoryKeyspace) -> MemoryIndex {
        Index::open(ks, b"", Layout::default(), false).unwrap()
    }

    fn digest(n: usize) -> Digest {
        Digest::parse(format!("sha256:{n:064x}").as_bytes()).unwrap()
    }

    /// Runs `slices` slices of a job, or all of them.
    fn run(mut job: Job<MemoryKeyspace>, ks: &mut MemoryKeyspace, slices: usize) {
        let mut index = open(ks);
        for _ in 0..slices {
            index.prepare_storage(ks).unwrap();
            let step = job.step(&mut index, ks, &mut || false).unwrap();
            index.refresh_storage(ks).unwrap();
            if let Step::Done(_) = step {
                return;
            }
        }
    }

    const HASHES: usize = 60;

    /// Creates an index in plain storage with a committed crawl.
    fn committed() -> MemoryKeyspace {
        let mut ks = MemoryKeyspace::default();
        let mut index = open(&mut ks);
        for n in 0..HASHES {
            let record = Record::parse(b"0 20260319102015 https://e/ 1000").unwrap();
            let digest = digest(n);
            let response = [Response { digest, record }];
            let how = Adding::default();
            index.add(&mut ks, b"a", &response, how, 1).unwrap();
        }
        run(commit(b"a"), &mut ks, usize::MAX);
        ks
    }

    fn assert_whole(ks: &mut MemoryKeyspace, shown: &str, when: &str) {
        let mut index = open(ks);
        assert_eq!(index.places.shown(), shown, "{when}");
        for n in 0..HASHES {
            let found = index.find(ks, &digest(n), None).unwrap();
            assert!(found.is_some(), "hash {n}, {when}");
        }
    }

    fn permutations(of: &[Vec<u8>]) -> Vec<Vec<Vec<u8>>> {
        if of.is_empty() {
            return vec![Vec::new()];
        }
        let each = (0..of.len()).flat_map(|at| {
            let mut rest = of.to_vec();
            let first = rest.remove(at);
            let others = permutations(&rest);
            others
                .into_iter()
                .map(move |order| [vec![first.clone()], order].concat())
        });
        each.collect()
    }

    #[test]
    fn keys_added_in_any_order_give_the_same_index() {
        let pack = || move_to(Storage::Packed);
        let unpack = || move_to(Storage::Plain);
        type Jobs = Vec<(Job<MemoryKeyspace>, usize)>;
        let states: [(&str, Jobs); 4] = [
            ("packed", vec![(pack(), usize::MAX)]),
            ("packing", vec![(pack(), 4)]),
            ("unpacking", vec![(pack(), usize::MAX), (unpack(), 2)]),
            ("unpacking", vec![(pack(), usize::MAX), (unpack(), 1)]),
        ];
        for (shown, jobs) in states {
            let mut ks = committed();
            for (job, slices) in jobs {
                run(job, &mut ks, slices);
            }
            assert_whole(&mut ks, shown, "before");
            let names = ["allhashes", "packedhashes", "moving", "crawlspace"];
            let names = names.map(|name| name.as_bytes().to_vec());
            let names: Vec<Vec<u8>> = names
                .into_iter()
                .filter(|name| ks.keys.contains_key(name))
                .collect();
            for order in permutations(&names) {
                let mut copy = MemoryKeyspace::default();
                copy.keys = ks.keys.clone();
                for name in &names {
                    copy.keys.remove(name);
                }
                for name in &order {
                    let before = copy.keys.insert(name.clone(), ks.keys[name].clone());
                    let what = format!("{order:?}, {shown}");
                    assert!(before.is_none(), "{what}: RESTORE would be refused");
                    // The module sets a timer after each change of the merged index.
                    let mut index = open(&mut copy);
                    if name == b"allhashes" {
                        index.restore_marker(&mut copy).unwrap();
                    }
                }
                assert_whole(&mut copy, shown, &format!("{order:?}"));
                run(unpack(), &mut copy, usize::MAX);
                assert_whole(&mut copy, "plain", &format!("{order:?}, unpacked"));
            }
        }
    }
}
