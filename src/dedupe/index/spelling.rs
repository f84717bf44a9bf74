//! The notations of a hash: its label, its encoding and the case of its letters. Identifiers call a
//! notation a "spelling".
//!
//! The module's commands write each hash in one notation. Plain clients may have used a different one, so a lookup
//! that finds nothing tries all notations, but only in those Redis hashes to which plain clients may have written.
//! For the merged index, the field `written` of the `crawlspace` key stores the size that the merged index had when
//! all of its fields were in the notation that the module writes.

use crawlspace_host::text::parse_unsigned;

use super::Index;
use super::storage::Places;
use crate::dedupe::digest::Digest;
use crate::dedupe::error::Result;
use crate::dedupe::keys::CrawlKey;
use crate::dedupe::profile::Profile;
use crate::dedupe::store::{Store, Stored, Under};

/// Cached information about whether all hashes in the merged index are in the notation that the
/// module writes.
pub struct Spelling<K: Store> {
    /// Name of the key with the field `written`.
    meta: K::Name,
    profile: Profile,
    /// True if every field is known to be in the notation that the module writes, so lookups need not try other
    /// notations.
    is_written: bool,
    /// The value of `written` in the `crawlspace` key.
    size: Option<u64>,
    /// Number of fields in other notations that were added to the merged index. If this number
    /// changes during a check of all fields, the check is invalid.
    oddities: u64,
}

impl<K: Store> Spelling<K> {
    /// Creates the initial state, in which the notations are unknown.
    pub(super) fn new(meta: &K::Name, profile: Profile) -> Spelling<K> {
        Spelling {
            meta: meta.clone(),
            profile,
            is_written: false,
            size: None,
            oddities: 0,
        }
    }

    /// Changes the layout of an index without hashes.
    pub(super) fn set_profile(&mut self, profile: Profile) {
        self.profile = profile;
    }

    /// Reads the size that the last job stored. If the current size differs, plain clients have
    /// added hashes since then.
    pub(super) fn read(&mut self, ks: &mut K, places: &Places<K>) -> Result<()> {
        let size = ks.hash_get(&self.meta, b"written")?;
        self.size = size.and_then(|n| parse_unsigned(n.as_ref()));
        let len = places.merged().len(ks)?;
        self.is_written = len == 0 || self.size == Some(len);
        Ok(())
    }

    /// Invalidates the state after a plain client wrote to the merged index. From now on, lookups
    /// try every notation.
    pub(crate) fn invalidate(&mut self, ks: &mut K, places: &Places<K>) -> Result<()> {
        if places.plain_key().is_some() {
            self.is_written &= places.merged().len(ks)? == 0;
        }
        Ok(())
    }

    /// Begins a check of every field of the merged index. Pass the result to [`Spelling::end_census`].
    pub fn begin_census(&self, opening: u64) -> (u64, u64) {
        (opening, self.oddities)
    }

    /// Ends a check that found all fields in the notation that the module writes. Ignores the result if a field in
    /// another notation was added in the meantime, or if the index was reopened because other clients changed its
    /// keys.
    pub fn end_census(&mut self, opening: u64, begun: (u64, u64)) {
        self.is_written |= self.begin_census(opening) == begun;
    }

    /// Returns true if every hash of the merged index is known to be in the notation that the module writes.
    pub(crate) fn is_written(&self) -> bool {
        self.is_written
    }

    /// Returns true if `spelling` is the only notation of its hash that the merged index can contain.
    pub fn only_written(&self, spelling: &[u8]) -> bool {
        self.is_written && Digest::is_written(spelling, self.profile)
    }

    /// Records that a field in this notation is added to the merged index.
    pub fn note_merged(&mut self, digest: &Digest, spelling: &[u8]) {
        if digest.written(self.profile) != spelling {
            self.is_written = false;
            self.oddities += 1;
        }
    }

    /// Returns the owner of a hash in the merged index, in any notation.
    pub(crate) fn owner(
        &self,
        ks: &mut K,
        places: &Places<K>,
        digest: &Digest,
    ) -> Result<Option<Stored<K::Value>>> {
        if let Some(value) = places.merged().get(ks, digest.written(self.profile))? {
            return Ok(Some(value));
        }
        if self.is_written {
            return Ok(None);
        }
        let foreign = self.foreign_owner(ks, places, digest)?;
        Ok(foreign.map(|(_, value)| value))
    }

    /// Returns the owner of a hash, and the notation under which it is stored.
    pub(crate) fn locate_owner(
        &self,
        ks: &mut K,
        places: &Places<K>,
        digest: &Digest,
    ) -> Result<Option<Under<K::Value>>> {
        let written = digest.written(self.profile);
        if let Some(value) = places.merged().get(ks, written)? {
            return Ok(Some((written.to_vec(), value)));
        }
        if self.is_written {
            return Ok(None);
        }
        self.foreign_owner(ks, places, digest)
    }

    fn foreign_owner(
        &self,
        ks: &mut K,
        places: &Places<K>,
        digest: &Digest,
    ) -> Result<Option<Under<K::Value>>> {
        in_other_spellings(self.profile, digest, |field| places.merged().get(ks, field))
    }

    /// Returns the size to store in the field `written`, if it differs from the stored size.
    fn unwritten_size(&self, ks: &mut K, places: &Places<K>) -> Result<Option<Option<u64>>> {
        let size = if self.is_written {
            Some(places.merged().len(ks)?).filter(|&size| size > 0)
        } else {
            None
        };
        Ok((size != self.size).then_some(size))
    }

    fn write_size(&mut self, ks: &mut K, size: Option<u64>) -> Result<()> {
        match size {
            Some(size) => ks.hash_set(&self.meta, b"written", size.to_string().as_bytes())?,
            None => ks.hash_del(&self.meta, b"written")?,
        };
        self.size = size;
        Ok(())
    }
}

impl<K: Store> Index<K> {
    /// Stores whether all fields of the merged index are in the notation that the module writes, so that the merged
    /// index need not be checked again after a restart. Must be called at the end of every step that changed the merged
    /// index.
    ///
    /// # Errors
    /// `WRONGTYPE` if a key holds another type; errors of the server.
    pub fn write_spelling(&mut self, ks: &mut K) -> Result<()> {
        if let Some(size) = self.spelling.unwritten_size(ks, &self.places)? {
            if size.is_some() {
                self.register(ks)?;
            }
            self.spelling.write_size(ks, size)?;
        }
        Ok(())
    }

    /// Returns a crawl's record of a hash, in any notation, committed or not.
    pub(crate) fn record_of(
        &mut self,
        ks: &mut K,
        crawl: &[u8],
        digest: &Digest,
    ) -> Result<Option<Stored<K::Value>>> {
        let written = digest.written(self.profile);
        if let Some(value) = self.records(ks, crawl)?.get(ks, written)? {
            return Ok(Some(value));
        }
        if self.has_written_records(ks, crawl) {
            return Ok(None);
        }
        let found = foreign_record(self, ks, crawl, digest)?;
        Ok(found.map(|(_, value)| value))
    }

    /// Returns the notation of a hash in the crawl's records, if the crawl has it.
    pub(crate) fn spelling_in(
        &mut self,
        ks: &mut K,
        crawl: &[u8],
        digest: &Digest,
    ) -> Result<Option<Vec<u8>>> {
        let written = digest.written(self.profile);
        if self.records(ks, crawl)?.has(ks, written)? {
            return Ok(Some(written.to_vec()));
        }
        let found = foreign_record(self, ks, crawl, digest)?;
        Ok(found.map(|(spelling, _)| spelling))
    }

    /// Returns the record of a hash in the crawl's plain hash, and its notation there.
    pub(crate) fn plain_record(
        &mut self,
        ks: &mut K,
        crawl: &[u8],
        digest: &Digest,
    ) -> Result<Option<(Vec<u8>, K::Value)>> {
        let records = self.crawls.key(ks, crawl, CrawlKey::Records);
        let written = digest.written(self.profile);
        if let Some(value) = ks.hash_get(&records, written)? {
            return Ok(Some((written.to_vec(), value)));
        }
        in_other_spellings(self.profile, digest, |field| {
            Ok(ks.hash_get(&records, field)?)
        })
    }
}

/// Finds a crawl's record of a hash in a notation other than the one that the module writes.
fn foreign_record<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    digest: &Digest,
) -> Result<Option<Under<K::Value>>> {
    in_other_spellings(index.profile, digest, |field| {
        index.records(ks, crawl)?.get(ks, field)
    })
}

/// Returns the first value that `get` finds in a notation other than the one that the module writes, and that
/// notation.
fn in_other_spellings<V>(
    profile: Profile,
    digest: &Digest,
    mut get: impl FnMut(&[u8]) -> Result<Option<V>>,
) -> Result<Option<(Vec<u8>, V)>> {
    let mut found = Ok(None);
    digest.other_spellings(profile, |spelling| {
        match get(spelling) {
            Ok(None) => return false,
            Ok(Some(value)) => found = Ok(Some((spelling.to_vec(), value))),
            Err(error) => found = Err(error),
        }
        true
    });
    found
}
