//! Where the committed part of an index is: in plain keys, or packed in one value.
//!
//! Three kinds of hashes can be in either storage: the merged index, the records of committed crawls,
//! and the further holders of hashes. The rules see them through the functions here, and are the same
//! for both. While an index changes its storage (`PACK`, `UNPACK`), every entry is in exactly one of the two; what is
//! left to pack is in `moving`.
//!
//! The packed index is at a key that no document names. At the name of the merged index stands a marker: a plain client
//! that looks for a hash there gets `WRONGTYPE` instead of "unknown", and one that deletes or renames it destroys no
//! record.
//!
//! The records of a crawl that is not committed are in its plain hash always. Its commit copies them
//! into the packed index, and when it has ended the plain hash goes: `copied` in `h:<crawl>:baseline`
//! says how many records are in both meanwhile. A plain client may write to the hash of a committed
//! crawl at any time; of a hash that the crawl has packed, the packed record counts, as if the client had
//! found it there (`HSETNX`).

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

/// How the committed part of an index is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Storage {
    /// In plain keys, as the documents say.
    #[default]
    Plain,
    /// In one packed value.
    Packed,
}

impl Storage {
    /// All storages, in the order of their configuration values.
    pub const ALL: [Storage; 2] = [Storage::Plain, Storage::Packed];

    /// The storage's name in commands, configuration and the `crawlspace` key.
    pub fn name(self) -> &'static str {
        match self {
            Storage::Plain => "plain",
            Storage::Packed => "packed",
        }
    }

    /// Reads a name, in any case.
    pub fn parse(name: &[u8]) -> Option<Storage> {
        Storage::ALL
            .into_iter()
            .find(|storage| name.eq_ignore_ascii_case(storage.name().as_bytes()))
    }
}

/// What a new index is like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// How it names its keys and fields.
    pub profile: Profile,
    /// How it keeps its committed part.
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

/// The keys that have the committed part.
pub struct Places<K: Store> {
    /// Name of the merged index.
    merged_key: K::Name,
    /// Name of `packedhashes`.
    packed_name: K::Name,
    /// Name of `moving`.
    moving_key: K::Name,
    /// Name of `holders`.
    holders: K::Name,
    /// Name of the key that says which storage the index has.
    meta: K::Name,
    /// Where changes go.
    storage: Storage,
    /// The key of the packed index, if there may be one.
    packed: Option<K::Name>,
    /// The key of the plain merged index, if there may be one.
    plain: Option<K::Name>,
    /// Whether the packed index lies at the key where version 0.1.0 kept it.
    is_old: bool,
    /// Whether a marker stands at the name of the merged index.
    is_marked: bool,
}

impl<K: Store> Places<K> {
    /// Finds them: the keys tell, and what is `stored` in the `crawlspace` key; an index of which neither says anything
    /// is as a `new` one.
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
            // Version 0.1.0 packed into the key of the merged index, and unpacked out of `moving`.
            (Nothing, Packed, _) => (Storage::Packed, Some(&names.merged)),
            (Nothing, _, Packed) => (Storage::Plain, Some(&names.moving)),
            (Nothing, Hash | Other, _) => (stored.unwrap_or(Storage::Plain), None),
            (Nothing, _, _) => (stored.unwrap_or(new), None),
            _ => (stored.unwrap_or(Storage::Packed), None),
        };
        let is_there = value != Nothing || old.is_some();
        let packed =
            (storage == Storage::Packed || is_there).then(|| old.unwrap_or(&names.packed).clone());
        let plain = match (storage, merged, moving) {
            // A marker is left over; it goes before the first write.
            (Storage::Plain, Marker, _) => None,
            (Storage::Plain, _, _) => Some(names.merged.clone()),
            // Without anything else of an index it is another program's.
            (Storage::Packed, _, Hash) if is_there || stored.is_some() => {
                Some(names.moving.clone())
            }
            // A plain client made it, where no marker stood.
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

    /// Of an index of that storage with nothing in it.
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

    /// Returns whether there is a merged index in either storage.
    pub(super) fn has_hashes(&self, ks: &mut K) -> bool {
        let mut keys = [&self.merged_key, &self.packed_name, &self.moving_key].into_iter();
        keys.any(|key| ks.exists(key))
    }

    /// Notes that nothing is left of the old storage, where a removal has taken the last of it.
    fn forget_emptied(&mut self, ks: &mut K) {
        if self.is_moving() {
            let rest = match self.storage {
                Storage::Packed => &mut self.plain,
                Storage::Plain => &mut self.packed,
            };
            rest.take_if(|key| !ks.exists(key));
        }
    }

    /// Takes the marker away from where changes go to plain keys, before the first write.
    fn unmark_plain(&mut self, ks: &mut K) -> Result<()> {
        if self.storage == Storage::Plain && self.is_marked {
            self.unmark(ks)?;
            self.plain = Some(self.merged_key.clone());
        }
        Ok(())
    }

    /// Renames a packed index that version 0.1.0 wrote to the key where it belongs: there, plain clients do not delete it.
    /// False if there is none.
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

    /// How the committed part is kept, or is going to be.
    pub fn storage(&self) -> Storage {
        self.storage
    }

    /// Returns whether a change of storage is under way, or was cut short.
    pub fn is_moving(&self) -> bool {
        self.packed.is_some() && self.plain.is_some()
    }

    /// What figures say of it.
    pub fn shown(&self) -> &'static str {
        match (self.storage, self.is_moving()) {
            (storage, false) => storage.name(),
            (Storage::Packed, true) => "packing",
            (Storage::Plain, true) => "unpacking",
        }
    }

    /// The packed index's key, if there may be one.
    pub fn packed_key(&self) -> Option<&K::Name> {
        self.packed.as_ref()
    }

    /// The key of the plain merged index, if there may be one.
    pub(crate) fn plain_key(&self) -> Option<&K::Name> {
        self.plain.as_ref()
    }

    /// Returns whether plain hashes have a part of a packed index, and nobody purges it.
    pub fn has_left_to_pack(&self, ks: &mut K, crawls: &Crawls<K>) -> bool {
        self.storage == Storage::Packed && self.is_moving() && !crawls.are_purged(ks)
    }

    /// Returns whether there is a packed index, to which changes go.
    fn is_there(&self, ks: &mut K) -> bool {
        self.storage == Storage::Packed && ks.exists(&self.packed_name)
    }

    /// Puts a marker at the name of the merged index, where plain clients look for hashes. What one of them made there
    /// is put aside, to be packed by the next `PACK`. While another program purges, it finds what it expects.
    pub(super) fn mark(&mut self, ks: &mut K, crawls: &mut Crawls<K>) -> Result<()> {
        if self.is_marked || !self.is_there(ks) || crawls.are_purged(ks) {
            return Ok(());
        }
        let [merged, moving] = [&self.merged_key, &self.moving_key];
        match ks.holds(merged) {
            Holds::Hash if ks.exists(moving) => return Ok(()), // until that is packed
            Holds::Hash => {
                ks.rename(merged, moving)?;
                self.plain = Some(moving.clone());
                crawls.clear();
            }
            Holds::Nothing => {}
            // It does what a marker does, and is not ours to delete.
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

    /// Takes the marker away.
    fn unmark(&mut self, ks: &mut K) -> Result<()> {
        if ks.holds(&self.merged_key) == Holds::Marker {
            ks.delete(&self.merged_key)?;
        }
        self.is_marked = false;
        Ok(())
    }

    /// Takes the marker of a value away that another program took away, or moved to another name.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn unmark_emptied(&mut self, ks: &mut K) -> Result<()> {
        if self.is_marked && !ks.exists(&self.packed_name) {
            return self.unmark(ks);
        }
        Ok(())
    }

    /// Refuses a change of storage that would meet keys of another type, or of others, before its first write.
    pub(crate) fn check_move(&self, ks: &mut K, to: Storage) -> Result<()> {
        let [merged, moving] = [&self.merged_key, &self.moving_key];
        if self.storage == to {
            return Ok(());
        }
        if to == Storage::Packed && ks.exists(moving) && !self.is_moving() {
            return Err(Error::Argument(format!(
                "key '{}' is in the way; rename or delete it",
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

    /// Has changes go to the other storage from now on. False while two plain hashes would have to become one: a packed
    /// index has [`Places::two_plain_hashes`].
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
                    // The way back: what was left to pack is where changes go now.
                    ks.rename(&moving, &merged)?;
                }
                ks.hash_del(&self.meta, b"storage")?;
            }
        }
        Ok(true)
    }

    /// Returns the plain hash that another program made at the name of a packed merged index while its marker was gone,
    /// and the one with what was left to pack, to which it belongs.
    pub(crate) fn two_plain_hashes(&self, ks: &mut K) -> Option<(K::Name, K::Name)> {
        let [merged, moving] = [&self.merged_key, &self.moving_key];
        let are_both = [merged, moving]
            .iter()
            .all(|key| ks.holds(key) == Holds::Hash);
        are_both.then(|| (merged.clone(), moving.clone()))
    }

    /// The merged index: hash → crawl that owns it.
    pub(crate) fn merged(&self) -> Table<'_, K::Name> {
        self.either(Part::Owners, self.plain.as_ref())
    }

    /// Further holders: hash → numbers of commits.
    pub(crate) fn further_holders(&self) -> Table<'_, K::Name> {
        let plain = self.plain.as_ref();
        self.either(Part::Holders, plain.map(|_| &self.holders))
    }

    /// A table that is in the storage of the index.
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

    /// The packed part of a table alone.
    pub(crate) fn packed<'a>(&'a self, part: Part<'a>) -> Table<'a, K::Name> {
        self.either(part, None)
    }

    /// Crawls that have packed records.
    pub(crate) fn packed_crawls(&self, ks: &mut K) -> Result<Vec<Vec<u8>>> {
        match &self.packed {
            Some(key) => Ok(ks
                .packed(key, |packed| packed.crawls())?
                .unwrap_or_default()),
            None => Ok(Vec::new()),
        }
    }

    /// Number of a crawl's records that are packed.
    pub(crate) fn packed_len(&self, ks: &mut K, crawl: &[u8]) -> Result<u64> {
        self.packed(Part::Records(crawl)).len(ks)
    }

    /// Takes a field out of a crawl's packed records.
    pub(crate) fn unpack_record(&self, ks: &mut K, crawl: &[u8], field: &[u8]) -> Result<()> {
        self.packed(Part::Records(crawl)).del(ks, field).map(drop)
    }

    /// Copies a record of a crawl's plain hash into the packed index. With `owns`, the crawl becomes
    /// its owner if nobody is; whether it did.
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

    /// Tells the packed index how many records of a crawl will come.
    pub(crate) fn expect(&self, ks: &mut K, crawl: &[u8], records: u64) -> Result<()> {
        if let (Some(key), true) = (&self.packed, records >= WORTH_EXPECTING) {
            ks.change_packed(key, &Op::Expect(crawl, records))?;
        }
        Ok(())
    }

    /// Tells it that no more will come.
    pub(crate) fn expect_no_more(&self, ks: &mut K, crawl: &[u8]) -> Result<()> {
        if self.packed_len(ks, crawl)? >= WORTH_EXPECTING
            && let Some(key) = &self.packed
        {
            ks.change_packed(key, &Op::Expect(crawl, 0))?;
        }
        Ok(())
    }

    /// The packed part of one of these hashes.
    pub(crate) fn packed_source(&self, of: Of) -> Option<Source<K>> {
        let key = self.packed.clone()?;
        Some(Source::Packed(key, of, Cursor::default()))
    }

    /// Where a walk over one of these hashes goes.
    pub(crate) fn sources(&self, ks: &mut K, crawls: &mut Crawls<K>, of: &Of) -> Vec<Source<K>> {
        let plain = match of {
            Of::Merged => self.plain.clone(),
            Of::Holders => self.further_holders().plain.map(Cow::into_owned),
            Of::Records(crawl) => Some(crawls.key(ks, crawl, CrawlKey::Records)),
            Of::Packed(_) => None,
        };
        let mut sources = Vec::new();
        // The last one is gone through first.
        sources.extend(self.packed_source(of.clone()));
        if let Some(key) = plain {
            sources.push(Source::Hash(key, ks.cursor()));
        }
        sources
    }
}

impl<K: Store> Index<K> {
    /// Takes note of where the committed part is now, and puts the marker where there is a packed index. Belongs at the end
    /// of every step that changes the index.
    ///
    /// # Errors
    /// `WRONGTYPE` when a key holds another type; or when the server refuses.
    pub fn refresh_storage(&mut self, ks: &mut K) -> Result<()> {
        self.places.forget_emptied(ks);
        if !self.registered {
            return Ok(()); // its keys may be about to come, one by one
        }
        if self.places.is_marked && !self.places.is_there(ks) {
            return self.places.unmark(ks);
        }
        self.places.mark(ks, &mut self.crawls)
    }

    /// Puts the marker back that another program took away. The marker of an index whose value is gone stays: its keys
    /// may be on their way to another name.
    ///
    /// # Errors
    /// `WRONGTYPE` when a key holds another type; or when the server refuses.
    pub fn restore_marker(&mut self, ks: &mut K) -> Result<()> {
        if self.registered {
            self.prepare_storage(ks)?;
            self.places.mark(ks, &mut self.crawls)?;
        }
        Ok(())
    }

    /// Puts right where the parts of an index are. A packed index that version 0.1.0 wrote moves to the key where it
    /// belongs. The marker of a plain index goes. Belongs before the first write.
    pub(crate) fn prepare_storage(&mut self, ks: &mut K) -> Result<()> {
        self.places.unmark_plain(ks)?;
        if self.places.rename_old(ks)? {
            self.refresh_storage(ks)?;
        }
        Ok(())
    }

    /// Has changes go to that storage from now on, and keeps the old one until all of it is moved. False while two plain
    /// hashes would have to become one: a packed index has [`Places::two_plain_hashes`].
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

    /// The records of a crawl: hash → record. A new one goes into the plain hash.
    pub(crate) fn records<'a>(
        &'a mut self,
        ks: &mut K,
        crawl: &'a [u8],
    ) -> Result<Table<'a, K::Name>> {
        let plain = self.crawls.key(ks, crawl, CrawlKey::Records);
        let may_be_packed = self.may_be_packed(ks, crawl)?;
        Ok(Table {
            part: Part::Records(crawl),
            packed: self.places.packed.as_ref().filter(|_| may_be_packed),
            plain: Some(Cow::Owned(plain)),
            home: Home::Same,
        })
    }

    /// Returns whether records of a crawl may be packed: those of one that is not committed are not, or
    /// stand in its plain hash as well.
    pub(crate) fn may_be_packed(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        Ok(self.places.packed.is_some() && self.crawls.is_committed(ks, crawl)?)
    }

    /// Number of records that a crawl has.
    pub(crate) fn records_len(&mut self, ks: &mut K, crawl: &[u8]) -> Result<u64> {
        let records = self.crawls.key(ks, crawl, CrawlKey::Records);
        let plain = ks.hash_len(&records)?;
        let packed = self.places.packed_len(ks, crawl)?;
        if packed == 0 || !self.may_be_packed(ks, crawl)? {
            // Of an uncommitted crawl the packed ones are copies; one that another program took out of
            // the sets has them there alone.
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

/// From how many records on it is worth to make room for them at once.
const WORTH_EXPECTING: u64 = 1000;

/// One of the hashes that can be in either storage.
#[derive(Clone, Debug)]
pub enum Of {
    /// The merged index.
    Merged,
    /// Further holders of hashes.
    Holders,
    /// The records of a crawl.
    Records(Vec<u8>),
    /// Those that are packed.
    Packed(Vec<u8>),
}

/// One of the places that a walk goes through.
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
    /// Appends some entries; false when there are no more.
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

    /// Runs so many slices of a job, or all.
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

    /// An index with a committed crawl, plain.
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
    fn keys_that_come_one_by_one_in_any_order_come_to_the_same_index() {
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
                    // What happens to the merged index makes a timer of the module come.
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
