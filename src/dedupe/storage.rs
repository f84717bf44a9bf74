//! Where the committed part of an index is: in plain keys, or packed in one value.
//!
//! Three kinds of hashes can be in either storage: the merged index, the records of committed crawls,
//! and the further holders of hashes. The rules see them through the functions here, and are the same
//! for both. While an index changes its storage (`PACK`, `UNPACK`), what is left of the old one is in
//! `moving`, and every entry is in exactly one of the two.
//!
//! The records of a crawl that is not committed are in its plain hash always. Its commit copies them
//! into the packed index, and when it has ended the plain hash goes: `copied` in `h:<crawl>:baseline`
//! says how many records are in both meanwhile. A plain client may write to the hash of a committed
//! crawl at any time; of a hash that the crawl has packed, the packed record counts, as if the client had
//! found it there (`HSETNX`).

use crawlspace_host::keyspace::{Batch, Keyspace};
use crawlspace_host::text::parse_unsigned;

use super::digest::Digest;
use super::error::Result;
use super::index::Index;
use super::keys::{CrawlKey, Names};
use super::packed::op::{Op, Take};
use super::packed::{Cursor, Part};
use super::profile::Profile;
use super::store::{Holds, Store, Stored};

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
#[derive(Clone)]
pub(super) struct Places<N> {
    /// Where changes go.
    pub storage: Storage,
    /// The key of the packed index, if there may be one.
    pub packed: Option<N>,
    /// The key of the plain merged index, if there may be one.
    pub plain: Option<N>,
}

impl<N: Clone> Places<N> {
    /// Finds them: the types of the keys tell, and where there is none, `stored` does.
    pub fn find<K: Store<Name = N>>(ks: &mut K, names: &Names<N>, stored: Storage) -> Places<N> {
        let (merged, moving) = (ks.holds(&names.merged), ks.holds(&names.moving));
        let storage = match (merged, moving) {
            (Holds::Packed, _) => Storage::Packed,
            (Holds::Other, _) => Storage::Plain,
            // The old one was put aside, and nothing is in the new one yet.
            (Holds::Nothing, Holds::Other) => Storage::Packed,
            (Holds::Nothing, Holds::Packed) => Storage::Plain,
            (Holds::Nothing, Holds::Nothing) => stored,
        };
        Places::of(names, storage, moving != Holds::Nothing)
    }

    /// For an index of that storage, which is moving there or not.
    pub fn of(names: &Names<N>, storage: Storage, is_moving: bool) -> Places<N> {
        let (here, rest) = (
            names.merged.clone(),
            is_moving.then(|| names.moving.clone()),
        );
        match storage {
            Storage::Plain => Places {
                storage,
                plain: Some(here),
                packed: rest,
            },
            Storage::Packed => Places {
                storage,
                plain: rest,
                packed: Some(here),
            },
        }
    }

    /// Whether a change of storage is under way, or was cut short.
    pub fn is_moving(&self) -> bool {
        self.packed.is_some() && self.plain.is_some()
    }
}

impl<K: Store> Index<K> {
    /// How the committed part is kept, or is going to be.
    pub fn storage(&self) -> Storage {
        self.places.storage
    }

    /// Whether a change of storage is under way, or was cut short.
    pub fn is_moving(&self) -> bool {
        self.places.is_moving()
    }

    /// Takes note if nothing is left of the old storage: a removal may have taken the last of it. Belongs
    /// at the end of every step that changes the index.
    pub fn settle_move(&mut self, ks: &mut K) {
        if self.is_moving() && !ks.exists(&self.names.moving) {
            self.places = Places::of(&self.names, self.places.storage, false);
        }
    }

    /// What figures say of it.
    pub fn storage_shown(&self) -> &'static str {
        match (self.storage(), self.is_moving()) {
            (storage, false) => storage.name(),
            (Storage::Packed, true) => "packing",
            (Storage::Plain, true) => "unpacking",
        }
    }

    /// The packed index's key, if there may be one.
    pub fn packed_key(&self) -> Option<&K::Name> {
        self.places.packed.as_ref()
    }

    pub(super) fn get_packed(
        &self,
        ks: &mut K,
        part: Part<'_>,
        field: &[u8],
    ) -> Result<Option<Stored<K::Value>>> {
        let Some(key) = &self.places.packed else {
            return Ok(None);
        };
        let value = ks.packed(key, |packed| packed.get(part, field))?.flatten();
        Ok(value.map(Stored::Packed))
    }

    pub(super) fn has_packed(&self, ks: &mut K, part: Part<'_>, field: &[u8]) -> Result<bool> {
        match &self.places.packed {
            Some(key) => Ok(ks.packed(key, |packed| packed.has(part, field))? == Some(true)),
            None => Ok(false),
        }
    }

    pub(super) fn len_packed(&self, ks: &mut K, part: Part<'_>) -> Result<u64> {
        match &self.places.packed {
            Some(key) => Ok(ks.packed(key, |packed| packed.len(part))?.unwrap_or(0)),
            None => Ok(0),
        }
    }

    /// Sets a field where changes go, and takes it out of the other storage.
    fn set_either(
        &self,
        ks: &mut K,
        part: Part<'_>,
        plain: &K::Name,
        field: &[u8],
        value: &[u8],
    ) -> Result<()> {
        match (self.places.storage, &self.places.packed) {
            (Storage::Packed, Some(key)) => {
                if self.is_moving() {
                    ks.hash_del(plain, field)?;
                }
                ks.change_packed(key, &Op::Set(part, field, value))?;
            }
            (_, packed) => {
                if packed.is_some() {
                    self.del_packed(ks, part, field)?;
                }
                ks.hash_set(plain, field, value)?;
            }
        }
        Ok(())
    }

    pub(super) fn del_packed(&self, ks: &mut K, part: Part<'_>, field: &[u8]) -> Result<bool> {
        match &self.places.packed {
            Some(key) if self.has_packed(ks, part, field)? => {
                Ok(ks.change_packed(key, &Op::Del(part, field))?)
            }
            _ => Ok(false),
        }
    }

    /// The owner that the merged index has in a field.
    pub(super) fn merged_get(&self, ks: &mut K, field: &[u8]) -> Result<Option<Stored<K::Value>>> {
        if let Some(owner) = self.get_packed(ks, Part::Owners, field)? {
            return Ok(Some(owner));
        }
        match &self.places.plain {
            Some(key) => Ok(ks.hash_get(key, field)?.map(Stored::Plain)),
            None => Ok(None),
        }
    }

    /// Sets the owner in a field of the merged index.
    pub(super) fn merged_set(&self, ks: &mut K, field: &[u8], owner: &[u8]) -> Result<()> {
        // There is a plain key whenever it is looked at.
        let plain = self.places.plain.as_ref().unwrap_or(&self.names.merged);
        self.set_either(ks, Part::Owners, plain, field, owner)
    }

    /// Takes a field out of the merged index.
    pub(super) fn merged_del(&self, ks: &mut K, field: &[u8]) -> Result<()> {
        if !self.del_packed(ks, Part::Owners, field)?
            && let Some(key) = &self.places.plain
        {
            ks.hash_del(key, field)?;
        }
        Ok(())
    }

    /// Number of fields of the merged index.
    pub(super) fn merged_len(&self, ks: &mut K) -> Result<u64> {
        let plain = match &self.places.plain {
            Some(key) => ks.hash_len(key)?,
            None => 0,
        };
        Ok(plain + self.len_packed(ks, Part::Owners)?)
    }

    /// Whether records of a crawl may be packed: those of one that is not committed are not, or
    /// stand in its plain hash as well.
    pub(super) fn may_be_packed(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        Ok(self.places.packed.is_some() && self.is_committed(ks, crawl)?)
    }

    /// A field of a crawl's records.
    pub(super) fn record_get(
        &mut self,
        ks: &mut K,
        crawl: &[u8],
        field: &[u8],
    ) -> Result<Option<Stored<K::Value>>> {
        if self.may_be_packed(ks, crawl)? {
            let packed = self.get_packed(ks, Part::Records(crawl), field)?;
            if packed.is_some() {
                return Ok(packed);
            }
        }
        let records = self.crawl_key(ks, crawl, CrawlKey::Records);
        Ok(ks.hash_get(&records, field)?.map(Stored::Plain))
    }

    /// Whether a crawl has a record in that field.
    pub(super) fn record_has(&mut self, ks: &mut K, crawl: &[u8], field: &[u8]) -> Result<bool> {
        let records = self.crawl_key(ks, crawl, CrawlKey::Records);
        Ok(ks.hash_has(&records, field)?
            || (self.may_be_packed(ks, crawl)?
                && self.has_packed(ks, Part::Records(crawl), field)?))
    }

    /// Sets a field of a crawl's records: a new one in its plain hash, one that is packed where it is.
    ///
    /// # Errors
    /// `WRONGTYPE` when a key holds another type; or when the server refuses.
    pub fn record_set(
        &mut self,
        ks: &mut K,
        crawl: &[u8],
        field: &[u8],
        value: &[u8],
    ) -> Result<()> {
        let records = self.crawl_key(ks, crawl, CrawlKey::Records);
        if self.may_be_packed(ks, crawl)? {
            let part = Part::Records(crawl);
            if let (Some(key), true) = (&self.places.packed, self.has_packed(ks, part, field)?) {
                ks.change_packed(key, &Op::Set(part, field, value))?;
                return Ok(());
            }
        }
        ks.hash_set(&records, field, value)?;
        Ok(())
    }

    /// Takes a field out of a crawl's records; true when it was there.
    pub(super) fn record_del(&mut self, ks: &mut K, crawl: &[u8], field: &[u8]) -> Result<bool> {
        let packed = self.del_packed(ks, Part::Records(crawl), field)?;
        let records = self.crawl_key(ks, crawl, CrawlKey::Records);
        Ok(ks.hash_del(&records, field)? || packed)
    }

    /// Takes a field out of a crawl's packed records.
    pub(super) fn unpack_record(&mut self, ks: &mut K, crawl: &[u8], field: &[u8]) -> Result<()> {
        self.del_packed(ks, Part::Records(crawl), field).map(drop)
    }

    /// Number of records that a crawl has.
    pub(super) fn records_len(&mut self, ks: &mut K, crawl: &[u8]) -> Result<u64> {
        let records = self.crawl_key(ks, crawl, CrawlKey::Records);
        let plain = ks.hash_len(&records)?;
        let packed = self.packed_records_len(ks, crawl)?;
        if packed == 0 || !self.may_be_packed(ks, crawl)? {
            // Of an uncommitted crawl the packed ones are copies; one that another program took out of
            // the sets has them there alone.
            let are_copies = packed > 0 && self.is_uncommitted(ks, crawl)?;
            return Ok(if are_copies { plain } else { plain + packed });
        }
        let copied = match plain.min(packed) {
            0 => 0,
            most => self.copied(ks, crawl)?.min(most),
        };
        Ok(plain + packed - copied)
    }

    /// Crawls that have packed records.
    pub(super) fn packed_crawls(&self, ks: &mut K) -> Result<Vec<Vec<u8>>> {
        match &self.places.packed {
            Some(key) => Ok(ks
                .packed(key, |packed| packed.crawls())?
                .unwrap_or_default()),
            None => Ok(Vec::new()),
        }
    }

    /// Number of a crawl's records that are packed.
    pub(super) fn packed_records_len(&self, ks: &mut K, crawl: &[u8]) -> Result<u64> {
        self.len_packed(ks, Part::Records(crawl))
    }

    /// How many of a crawl's packed records stand in its plain hash as well.
    pub(super) fn copied(&mut self, ks: &mut K, crawl: &[u8]) -> Result<u64> {
        let baseline = self.crawl_key(ks, crawl, CrawlKey::Baseline);
        let copied = ks.hash_get(&baseline, COPIED)?;
        Ok(copied.and_then(|n| parse_unsigned(n.as_ref())).unwrap_or(0))
    }

    /// Writes that number down.
    pub(super) fn set_copied(&mut self, ks: &mut K, crawl: &[u8], copied: u64) -> Result<()> {
        if copied != self.copied(ks, crawl)? {
            let baseline = self.crawl_key(ks, crawl, CrawlKey::Baseline);
            match copied {
                0 => ks.hash_del(&baseline, COPIED)?,
                _ => ks.hash_set(&baseline, COPIED, copied.to_string().as_bytes())?,
            };
        }
        Ok(())
    }

    /// Copies a record of a crawl's plain hash into the packed index. With `owns`, the crawl becomes
    /// its owner if nobody is; whether it did.
    pub(super) fn take(
        &mut self,
        ks: &mut K,
        crawl: &[u8],
        (field, record): (&[u8], &[u8]),
        owns: bool,
    ) -> Result<bool> {
        let records = self.crawl_key(ks, crawl, CrawlKey::Records);
        let Some(key) = &self.places.packed else {
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
    pub(super) fn expect(&mut self, ks: &mut K, crawl: &[u8], records: u64) -> Result<()> {
        if let (Some(key), true) = (&self.places.packed, records >= WORTH_EXPECTING) {
            ks.change_packed(key, &Op::Expect(crawl, records))?;
        }
        Ok(())
    }

    /// Tells it that no more will come.
    pub(super) fn expect_no_more(&mut self, ks: &mut K, crawl: &[u8]) -> Result<()> {
        if self.packed_records_len(ks, crawl)? >= WORTH_EXPECTING
            && let Some(key) = &self.places.packed
        {
            ks.change_packed(key, &Op::Expect(crawl, 0))?;
        }
        Ok(())
    }

    /// The numbers that `holders` has for a hash.
    pub(super) fn holders_get(
        &self,
        ks: &mut K,
        digest: &Digest,
    ) -> Result<Option<Stored<K::Value>>> {
        let field = digest.canonical();
        if let Some(value) = self.get_packed(ks, Part::Holders, field)? {
            return Ok(Some(value));
        }
        Ok(match &self.places.plain {
            Some(_) => ks.hash_get(&self.names.holders, field)?.map(Stored::Plain),
            None => None,
        })
    }

    /// Sets them.
    pub(super) fn holders_set(&self, ks: &mut K, digest: &Digest, numbers: &[u8]) -> Result<()> {
        let field = digest.canonical();
        self.set_either(ks, Part::Holders, &self.names.holders, field, numbers)
    }

    /// Takes them out.
    pub(super) fn holders_del(&self, ks: &mut K, digest: &Digest) -> Result<()> {
        self.holders_del_field(ks, digest.canonical())
    }

    /// Takes a field of `holders` out, however it is spelled.
    pub(super) fn holders_del_field(&self, ks: &mut K, field: &[u8]) -> Result<()> {
        if !self.del_packed(ks, Part::Holders, field)? && self.places.plain.is_some() {
            ks.hash_del(&self.names.holders, field)?;
        }
        Ok(())
    }

    /// Whether any hash has further holders.
    pub(super) fn any_holders(&self, ks: &mut K) -> Result<bool> {
        Ok(self.len_packed(ks, Part::Holders)? > 0
            || (self.places.plain.is_some() && ks.exists(&self.names.holders)))
    }

    /// The packed part of one of these hashes.
    pub(super) fn packed_source(&self, of: Of) -> Option<Source<K>> {
        let key = self.places.packed.clone()?;
        Some(Source::Packed(key, of, Cursor::default()))
    }

    /// Where a walk over one of these hashes goes.
    pub(super) fn sources(&mut self, ks: &mut K, of: &Of) -> Vec<Source<K>> {
        let plain = match of {
            Of::Merged => self.places.plain.clone(),
            Of::Holders => self
                .places
                .plain
                .as_ref()
                .map(|_| self.names.holders.clone()),
            Of::Records(crawl) => Some(self.crawl_key(ks, crawl, CrawlKey::Records)),
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

/// The field of `h:<crawl>:baseline` with the number of records that are both packed and plain.
const COPIED: &[u8] = b"copied";

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
pub(super) enum Source<K: Keyspace> {
    /// A plain hash.
    Hash(K::Name, K::Cursor),
    /// A plain set.
    Set(K::Name, K::Cursor),
    /// A part of a packed index.
    Packed(K::Name, Of, Cursor),
}

impl<K: Store> Source<K> {
    /// Appends some entries; false when there are no more.
    pub fn scan(&mut self, ks: &mut K, out: &mut Batch) -> Result<bool> {
        Ok(match self {
            Source::Hash(key, cursor) => ks.hash_scan(key, cursor, out)?,
            Source::Set(key, cursor) => ks.set_scan(key, cursor, out)?,
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
