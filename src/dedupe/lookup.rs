//! Lookup of a hash: combines the two documented lookups, hash → crawl and crawl → record.

use smallvec::SmallVec;

use super::digest::Digest;
use super::error::Result;
use super::index::Index;
use super::keys::CrawlKey;
use super::packed::codec::Numbers;
use super::packed::{Notation, Owned, Packed, Value};
use super::profile::Profile;
use super::record::{OriginalText, Parts, Record};
use super::store::{Store, Stored};
use super::wacz;
use crate::texts::sink::Buffer;

/// The original of a hash: the stored record, and the crawl that has it.
pub struct Original<K: Store> {
    /// Name of the key of the crawl's records, even if they are packed. The name ends with the
    /// crawl id.
    records: K::Name,
    /// Position of the crawl id in the name `records`.
    id: usize,
    value: Stored<K::Value>,
    parts: Parts,
}

impl<K: Store> Original<K> {
    /// Returns the crawl that holds the original.
    pub fn crawl(&self) -> &[u8] {
        &self.records.as_ref()[self.id..]
    }

    /// Returns the name of the key of the crawl's records, even if they are packed.
    pub fn records(&self) -> &K::Name {
        &self.records
    }

    /// Returns the record of the original.
    pub fn record(&self) -> Record<'_> {
        self.parts.record(self.value.as_ref())
    }

    /// Replaces the contents of a buffer with the original as a single string: `crawl waczIndex
    /// date url size`.
    pub fn write_text(&self, text: &mut OriginalText) {
        let value = self.value.as_ref();
        self.parts.write_text(self.crawl(), value, text);
    }
}

/// The original of a hash in the packed index, in the usual case.
pub struct UsualOriginal<'a> {
    /// The crawl that has the original.
    pub crawl: &'a [u8],
    /// Positions of the fields in the record.
    pub parts: Parts,
}

/// Result of a lookup that reads only the packed index.
#[derive(Clone, Copy)]
enum Sight {
    /// Found in the common case: the hash is in the notation that the module writes, and its owner is committed and not
    /// continued.
    Usual,
    /// Neither a committed nor a visible crawl has the hash.
    Absent,
    /// A full lookup is required.
    Other,
}

/// The owner of a hash, and the key of the owner's records.
type QuietOwner<'a, N> = (Owned<'a>, &'a N);

/// Originals of hashes, in the order of the hashes; usually one.
pub type Found<K> = SmallVec<[Option<Original<K>>; 1]>;

impl<K: Store> Index<K> {
    /// Looks up a hash in the merged index, then in the records of the crawl `own`, if given, and
    /// then in the records of visible crawls. Skips owners that are not committed or have no
    /// record.
    pub(super) fn find(
        &mut self,
        ks: &mut K,
        digest: &Digest,
        own: Option<&[u8]>,
    ) -> Result<Option<Original<K>>> {
        let mut found = self.look_up(ks, std::slice::from_ref(digest), own, |_| Ok(()))?;
        Ok(found.pop().flatten())
    }

    /// Looks up several hashes, like `Index::find`. Calls `permit` for each key whose contents the result
    /// discloses.
    ///
    /// # Errors
    /// The errors of `permit`; `WRONGTYPE` if a key holds another type; errors of the server.
    pub fn look_up(
        &mut self,
        ks: &mut K,
        digests: &[Digest],
        own: Option<&[u8]>,
        mut permit: impl FnMut(&K::Name) -> Result<()>,
    ) -> Result<Found<K>> {
        let mut all = Found::<K>::new();
        let sights = sights(self, ks, digests, &mut permit, &mut all)?;
        all.resize_with(digests.len(), || None);
        // Key names are cached, so two names of the same crawl usually have the same address.
        // Compare the addresses first.
        let mut permitted: SmallVec<[*const [u8]; 4]> = SmallVec::new();
        for (i, digest) in digests.iter().enumerate() {
            match sights.get(i) {
                Some(Sight::Usual) => {}
                Some(Sight::Absent) => all[i] = find_uncommitted(self, ks, digest, own)?,
                Some(Sight::Other) | None => all[i] = find_anywhere(self, ks, digest, own)?,
            }
            if let Some(found) = &all[i] {
                let name = std::ptr::from_ref(found.records.as_ref());
                if !permitted.iter().any(|&known| std::ptr::eq(known, name)) {
                    permit(&found.records)?;
                    permitted.push(name);
                }
            }
        }
        Ok(all)
    }

    /// Looks up one hash as `Index::look_up` does, in the usual case: the index is packed, and the hash has the
    /// notation that the module writes. Appends the record to `record`. Returns `None` in all other cases, which need
    /// `Index::look_up`.
    pub fn look_up_usual<'a>(
        &'a self,
        packed: &'a Packed,
        hash: &[u8],
        record: &mut Value,
        permit: impl Fn(&K::Name) -> Result<()>,
    ) -> Option<Result<Option<UsualOriginal<'a>>>> {
        let found = self.look_up_quiet(packed, hash, record, |_, _| (), &permit)?;
        let (Owned { crawl, numbers }, records) = match found {
            Ok(Some(found)) => found,
            Ok(None) => return Some(Ok(None)),
            Err(error) => return Some(Err(error)),
        };
        let parts = match numbers {
            Some(Numbers {
                wacz_index,
                date_len,
                size,
            }) => Parts::of_numbers(wacz_index, date_len, size, record.len()),
            None => Parts::of(record),
        }?;
        let original = UsualOriginal { crawl, parts };
        Some(permit(records).map(|()| Some(original)))
    }

    /// Looks up one hash as [`Index::look_up_usual`] does, and writes the original to `text`, as
    /// [`Original::write_text`] does. Returns false if the index does not know the hash. Also returns `None` if the
    /// record is not stored in fields.
    pub fn look_up_text<'a>(
        &'a self,
        packed: &'a Packed,
        hash: &[u8],
        text: &mut OriginalText,
        permit: impl Fn(&K::Name) -> Result<()>,
    ) -> Option<Result<bool>> {
        let begin = |crawl: &[u8], text: &mut OriginalText| {
            text.extend_from_slice(crawl);
            text.push(b' ');
        };
        let found = self.look_up_quiet(packed, hash, text, begin, &permit)?;
        let (owned, records) = match found {
            Ok(Some(found)) => found,
            Ok(None) => return Some(Ok(false)),
            Err(error) => return Some(Err(error)),
        };
        let size = memchr::memrchr(b' ', text).filter(|_| owned.numbers.is_some())?;
        // A loaded record may have an empty URL.
        let has_url = text[size - 1] != b' ';
        has_url.then(|| permit(records).map(|()| true))
    }

    /// Finds the owner of a hash in the usual case, and the key of the owner's records.
    #[inline]
    fn look_up_quiet<'a, B: Buffer>(
        &'a self,
        packed: &'a Packed,
        hash: &[u8],
        record: &mut B,
        begin: impl FnOnce(&[u8], &mut B),
        permit: &impl Fn(&K::Name) -> Result<()>,
    ) -> Option<Result<Option<QuietOwner<'a, K::Name>>>> {
        let probe = packed.probe(hash);
        let written = match self.profile() {
            Profile::Document => Notation::Labelled,
            Profile::Browsertrix => Notation::Bare,
        };
        if probe.notation() != written || self.places.is_moving() {
            return None;
        }
        let names = self.names();
        let found = packed.look_up_one(&probe, record, begin, || {
            permit(&names.merged)?;
            permit(&names.allcrawls)
        });
        match found {
            Ok(Some(owned)) => {
                let records = self.records_if_quiet(owned.crawl)?;
                Some(Ok(Some((owned, records))))
            }
            Ok(None) => is_sure(self).then_some(Ok(None)),
            Err(error) => Some(Err(error)),
        }
    }

    /// Returns the name of the WACZ file that contains a record, or `None` if the crawl lists no such file.
    /// Calls `permit` for the list of WACZ files.
    ///
    /// # Errors
    /// The errors of [`Index::look_up`].
    pub fn container(
        &mut self,
        ks: &mut K,
        found: &Original<K>,
        mut permit: impl FnMut(&K::Name) -> Result<()>,
    ) -> Result<Option<Vec<u8>>> {
        let waczs = self.crawls.key(ks, found.crawl(), CrawlKey::Waczs);
        permit(&waczs)?;
        let entry = wacz::file(ks, &waczs, found.record().wacz_index)?;
        Ok(entry.map(|entry| entry.filename))
    }
}

/// Looks hashes up in the packed index, and stores the originals in `found`. Returns an empty list
/// if there is no packed index. Meanwhile, `permit` checks the permissions of every lookup.
fn sights<K: Store>(
    index: &Index<K>,
    ks: &mut K,
    digests: &[Digest],
    mut permit: impl FnMut(&K::Name) -> Result<()>,
    found: &mut Found<K>,
) -> Result<SmallVec<[Sight; 16]>> {
    let names = index.names();
    let mut read = [&names.merged, &names.allcrawls].into_iter();
    let mut sights = SmallVec::new();
    if let Some(key) = index.places.packed_key() {
        let profile = index.profile();
        let fields = digests.iter().map(|digest| digest.written(profile));
        let looked = ks.packed(key, |packed| {
            found.reserve(digests.len());
            packed.look_up(
                fields,
                || read.next().map_or(Ok(()), &mut permit),
                |owner, record| {
                    let usual = owner.and_then(|owner| index.records_if_quiet(owner));
                    let parts = Parts::of(&record);
                    found.push(usual.zip(parts).map(|(records, parts)| {
                        original(index, records.clone(), Stored::Packed(record), parts)
                    }));
                    sights.push(match found.last() {
                        Some(Some(_)) => Sight::Usual,
                        _ if owner.is_none() && is_sure(index) => Sight::Absent,
                        _ => Sight::Other,
                    });
                },
            )
        })?;
        looked.transpose()?;
    }
    read.try_for_each(permit)?;
    Ok(sights)
}

/// Returns true if a hash is certainly unknown when the packed index does not contain it in the notation that the
/// module writes.
fn is_sure<K: Store>(index: &Index<K>) -> bool {
    index.spelling.is_written() && !index.places.is_moving() && index.visible.is_empty()
}

fn original<K: Store>(
    index: &Index<K>,
    records: K::Name,
    value: Stored<K::Value>,
    parts: Parts,
) -> Original<K> {
    let id = index.prefix().len() + CrawlKey::Records.around().0.len();
    Original {
        records,
        id,
        value,
        parts,
    }
}

/// Parses a record from a value of the key `records`. Returns `None` if the value is invalid.
fn read_original<K: Store>(
    index: &Index<K>,
    records: K::Name,
    value: Stored<K::Value>,
) -> Option<Original<K>> {
    let parts = Parts::of(value.as_ref())?;
    Some(original(index, records, value, parts))
}

/// Looks a hash up in any notation, in any storage.
fn find_anywhere<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    digest: &Digest,
    own: Option<&[u8]>,
) -> Result<Option<Original<K>>> {
    let Some(owner) = index.spelling.owner(ks, &index.places, digest)? else {
        return find_uncommitted(index, ks, digest, own);
    };
    let owner = owner.as_ref();
    if let (None, Some(records)) = (index.places.packed_key(), index.records_if_quiet(owner)) {
        // The common case in a plain index.
        let records = records.clone();
        if let Some(value) = ks.hash_get(&records, digest.written(index.profile()))?
            && let Some(found) = read_original(index, records, Stored::Plain(value))
        {
            return Ok(Some(found));
        }
    }
    if let Some(value) = index.committed_record(ks, owner, digest)? {
        let records = index.crawls.key(ks, owner, CrawlKey::Records);
        return Ok(read_original(index, records, value));
    }
    let is_owner = |crawl: &[u8]| crawl == owner;
    if let Some((crawl, value)) = index.next_holder(ks, digest, owner, &is_owner)? {
        let records = index.crawls.key(ks, &crawl, CrawlKey::Records);
        return Ok(read_original(index, records, value));
    }
    find_uncommitted(index, ks, digest, own)
}

/// Looks a hash up in the records of a crawl, and then in the records of visible crawls.
fn find_uncommitted<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    digest: &Digest,
    own: Option<&[u8]>,
) -> Result<Option<Original<K>>> {
    let found = find_own(index, ks, digest, own)?;
    if found.is_some() || index.visible.is_empty() {
        return Ok(found);
    }
    for (_, crawl) in index.visible.crawls().iter() {
        if index.crawls.is_uncommitted(ks, crawl)? && !index.under_way.is_removing(ks, crawl)? {
            let found = find_own(index, ks, digest, Some(crawl))?;
            if found.is_some() {
                return Ok(found);
            }
        }
    }
    Ok(None)
}

/// Looks a hash up in the records of a crawl.
fn find_own<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    digest: &Digest,
    own: Option<&[u8]>,
) -> Result<Option<Original<K>>> {
    let Some(own) = own else { return Ok(None) };
    let Some(value) = index.record_of(ks, own, digest)? else {
        return Ok(None);
    };
    let records = index.crawls.key(ks, own, CrawlKey::Records);
    Ok(read_original(index, records, value))
}
