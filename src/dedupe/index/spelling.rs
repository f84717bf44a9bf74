//! One hash, many spellings.
//!
//! Our own commands write each hash in one form. Plain clients may have written it in others, so a
//! look-up that misses tries those too, but only where plain clients can have written: of the merged
//! index the `crawlspace` key says in `written` how large it was when all of its fields were in the
//! written form.

use crawlspace_host::text::parse_unsigned;

use super::Index;
use crate::dedupe::digest::Digest;
use crate::dedupe::error::Result;
use crate::dedupe::keys::CrawlKey;
use crate::dedupe::profile::Profile;
use crate::dedupe::store::{Store, Stored, Under};

/// What is known of how the merged index spells its hashes.
#[derive(Default)]
pub(super) struct Spelling {
    /// Whether every field is known to be in the written form, so that a look-up need not try the others.
    is_written: bool,
    /// The size of the merged index that says so in the `crawlspace` key.
    size: Option<u64>,
    /// How often the merged index got a field in another form: a look at all of its fields holds if this
    /// is the same at its end as at its beginning.
    oddities: u64,
}

impl<K: Store> Index<K> {
    /// Reads what the last job that changed the merged index wrote down. Plain clients add hashes, and then the
    /// sizes differ.
    pub(super) fn read_spelling(&mut self, ks: &mut K) -> Result<()> {
        let size = ks.hash_get(&self.names.meta, b"written")?;
        self.spelling.size = size.and_then(|n| parse_unsigned(n.as_ref()));
        let len = self.merged().len(ks)?;
        self.spelling.is_written = len == 0 || self.spelling.size == Some(len);
        Ok(())
    }

    /// Notes that a plain client wrote to the merged index: look-ups try every spelling from now on.
    pub(crate) fn invalidate_merged(&mut self, ks: &mut K) -> Result<()> {
        if self.plain_key().is_some() {
            self.spelling.is_written &= self.merged().len(ks)? == 0;
        }
        Ok(())
    }

    /// Begins a look at every field of the merged index. The result is for [`Index::end_census`].
    pub fn begin_census(&self) -> (u64, u64) {
        (self.opening(), self.spelling.oddities)
    }

    /// Ends a look at every field that found all of them in the written form. It counts only if no
    /// other field came meanwhile, and the index was not opened anew because others changed its keys.
    pub fn end_census(&mut self, begun: (u64, u64)) {
        self.spelling.is_written |= self.begin_census() == begun;
    }

    /// Writes down whether the merged index has only written forms, so that a restart need not
    /// look at all of it. Belongs at the end of every step that changed it.
    ///
    /// # Errors
    /// `WRONGTYPE` when a key holds another type; or when the server refuses.
    pub fn write_spelling(&mut self, ks: &mut K) -> Result<()> {
        let size = if self.spelling.is_written {
            Some(self.merged().len(ks)?).filter(|&size| size > 0)
        } else {
            None
        };
        if size != self.spelling.size {
            match size {
                Some(size) => {
                    self.register(ks)?;
                    ks.hash_set(&self.names.meta, b"written", size.to_string().as_bytes())?;
                }
                None => {
                    ks.hash_del(&self.names.meta, b"written")?;
                }
            }
            self.spelling.size = size;
        }
        Ok(())
    }

    /// Whether every hash of the merged index is known to be in the written form.
    pub(crate) fn is_written(&self) -> bool {
        self.spelling.is_written
    }

    /// Whether `spelling` is the only one under which the merged index can have its hash.
    pub fn only_written(&self, spelling: &[u8]) -> bool {
        self.spelling.is_written && Digest::is_written(spelling, self.profile)
    }

    /// A field goes into the merged index as it is spelled.
    pub fn note_merged(&mut self, digest: &Digest, spelling: &[u8]) {
        if digest.written(self.profile) != spelling {
            self.spelling.is_written = false;
            self.spelling.oddities += 1;
        }
    }

    /// The owner that the merged index has for a hash, under any of its spellings.
    pub(crate) fn get_owner(
        &self,
        ks: &mut K,
        digest: &Digest,
    ) -> Result<Option<Stored<K::Value>>> {
        if let Some(value) = self.merged().get(ks, digest.written(self.profile))? {
            return Ok(Some(value));
        }
        if self.spelling.is_written {
            return Ok(None);
        }
        let foreign = self.foreign_owner(ks, digest)?;
        Ok(foreign.map(|(_, value)| value))
    }

    /// Finds the owner, with the spelling under which it stands.
    pub(crate) fn locate_owner(
        &self,
        ks: &mut K,
        digest: &Digest,
    ) -> Result<Option<Under<K::Value>>> {
        let written = digest.written(self.profile);
        if let Some(value) = self.merged().get(ks, written)? {
            return Ok(Some((written.to_vec(), value)));
        }
        if self.spelling.is_written {
            return Ok(None);
        }
        self.foreign_owner(ks, digest)
    }

    fn foreign_owner(&self, ks: &mut K, digest: &Digest) -> Result<Option<Under<K::Value>>> {
        in_other_spellings(self.profile, digest, |field| self.merged().get(ks, field))
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
        let found = self.foreign_record(ks, crawl, digest)?;
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
        let found = self.foreign_record(ks, crawl, digest)?;
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

    fn foreign_record(
        &mut self,
        ks: &mut K,
        crawl: &[u8],
        digest: &Digest,
    ) -> Result<Option<Under<K::Value>>> {
        in_other_spellings(self.profile, digest, |field| {
            self.records(ks, crawl)?.get(ks, field)
        })
    }
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
