//! One hash, many spellings.
//!
//! Our own commands write each hash in one form. Plain clients may have written it in others, so a
//! look-up that misses tries those too, but only where plain clients can have written: of the merged
//! index the `crawlspace` key says in `written` how large it was when all of its fields were in the
//! written form.

use crawlspace_host::text::parse_unsigned;

use super::Index;
use super::storage::Places;
use crate::dedupe::digest::Digest;
use crate::dedupe::error::Result;
use crate::dedupe::keys::CrawlKey;
use crate::dedupe::profile::Profile;
use crate::dedupe::store::{Store, Stored, Under};

/// What is known of how the merged index spells its hashes.
pub struct Spelling<K: Store> {
    /// Name of the key that has the size.
    meta: K::Name,
    profile: Profile,
    /// Whether every field is known to be in the written form, so that a look-up need not try the others.
    is_written: bool,
    /// The size of the merged index that says so in the `crawlspace` key.
    size: Option<u64>,
    /// How often the merged index got a field in another form: a look at all of its fields holds if this
    /// is the same at its end as at its beginning.
    oddities: u64,
}

impl<K: Store> Spelling<K> {
    /// Knows nothing yet.
    pub(super) fn new(meta: &K::Name, profile: Profile) -> Spelling<K> {
        Spelling {
            meta: meta.clone(),
            profile,
            is_written: false,
            size: None,
            oddities: 0,
        }
    }

    /// Notes that the index, which has no hashes, has another layout.
    pub(super) fn set_profile(&mut self, profile: Profile) {
        self.profile = profile;
    }

    /// Reads what the last job that changed the merged index wrote down. Plain clients add hashes, and then the
    /// sizes differ.
    pub(super) fn read(&mut self, ks: &mut K, places: &Places<K>) -> Result<()> {
        let size = ks.hash_get(&self.meta, b"written")?;
        self.size = size.and_then(|n| parse_unsigned(n.as_ref()));
        let len = places.merged().len(ks)?;
        self.is_written = len == 0 || self.size == Some(len);
        Ok(())
    }

    /// Notes that a plain client wrote to the merged index: look-ups try every spelling from now on.
    pub(crate) fn invalidate(&mut self, ks: &mut K, places: &Places<K>) -> Result<()> {
        if places.plain_key().is_some() {
            self.is_written &= places.merged().len(ks)? == 0;
        }
        Ok(())
    }

    /// Begins a look at every field of the merged index. The result is for [`Spelling::end_census`].
    pub fn begin_census(&self, opening: u64) -> (u64, u64) {
        (opening, self.oddities)
    }

    /// Ends a look at every field that found all of them in the written form. It counts only if no
    /// other field came meanwhile, and the index was not opened anew because others changed its keys.
    pub fn end_census(&mut self, opening: u64, begun: (u64, u64)) {
        self.is_written |= self.begin_census(opening) == begun;
    }

    /// Returns whether every hash of the merged index is known to be in the written form.
    pub(crate) fn is_written(&self) -> bool {
        self.is_written
    }

    /// Returns whether `spelling` is the only one under which the merged index can have its hash.
    pub fn only_written(&self, spelling: &[u8]) -> bool {
        self.is_written && Digest::is_written(spelling, self.profile)
    }

    /// A field goes into the merged index as it is spelled.
    pub fn note_merged(&mut self, digest: &Digest, spelling: &[u8]) {
        if digest.written(self.profile) != spelling {
            self.is_written = false;
            self.oddities += 1;
        }
    }

    /// The owner that the merged index has for a hash, under any of its spellings.
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

    /// Finds the owner, with the spelling under which it stands.
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

    /// Returns the size that the `crawlspace` key should have, if it has another one.
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
    /// Writes down whether the merged index has only written forms, so that a restart need not
    /// look at all of it. Belongs at the end of every step that changed it.
    ///
    /// # Errors
    /// `WRONGTYPE` when a key holds another type; or when the server refuses.
    pub fn write_spelling(&mut self, ks: &mut K) -> Result<()> {
        if let Some(size) = self.spelling.unwritten_size(ks, &self.places)? {
            if size.is_some() {
                self.register(ks)?;
            }
            self.spelling.write_size(ks, size)?;
        }
        Ok(())
    }

    /// The record of a crawl for a hash, under any of its spellings, committed or not.
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

    /// How a crawl's own hash spells the digest, if it has it.
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

    /// The record that the crawl's plain hash has, and its spelling there.
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

/// A record of a crawl under another spelling than the written one.
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

/// What a field has that spells the digest in another than the written form, with that spelling.
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
