//! The documented two look-ups in one: hash → crawl → record.

use smallvec::SmallVec;

use super::digest::Digest;
use super::error::Result;
use super::index::Index;
use super::keys::CrawlKey;
use super::record::Record;
use super::store::{Store, Stored};
use super::wacz;

/// Where a hash was found.
pub struct Found<V> {
    /// The crawl that holds the original.
    pub crawl: Crawl<V>,
    value: Stored<V>,
}

/// A crawl's id, read from a key or given by the caller.
pub enum Crawl<V> {
    /// As the merged index has it.
    Read(Stored<V>),
    /// As it was found elsewhere.
    Given(SmallVec<[u8; 32]>),
}

impl<V: AsRef<[u8]>> Crawl<V> {
    /// The id.
    pub fn id(&self) -> &[u8] {
        match self {
            Crawl::Read(value) => value.as_ref(),
            Crawl::Given(id) => id,
        }
    }
}

impl<V: AsRef<[u8]>> Found<V> {
    /// The record of the original.
    pub fn record(&self) -> Record<'_> {
        Record::parse(self.value.as_ref()).expect("only whole records are found")
    }
}

impl<K: Store> Index<K> {
    /// Looks a hash up: in the merged index first, then, when `own` names a crawl, among that
    /// crawl's own hashes. Owners that are not committed, or whose record is gone, do not count.
    pub fn find(
        &mut self,
        ks: &mut K,
        digest: &Digest,
        own: Option<&[u8]>,
    ) -> Result<Option<Found<K::Value>>> {
        if let Some(found) = self.find_packed(ks, digest)? {
            return Ok(Some(found));
        }
        if let Some(owner) = self.get_owner(ks, digest)? {
            if let Some(value) = self.committed_record(ks, owner.as_ref(), digest)? {
                let crawl = Crawl::Read(owner);
                return Ok(Some(Found { crawl, value }));
            }
            let is_owner = |crawl: &[u8]| crawl == owner.as_ref();
            if let Some((crawl, value)) = self.next_holder(ks, digest, owner.as_ref(), &is_owner)? {
                let crawl = Crawl::Given(crawl.into());
                return Ok(Some(Found { crawl, value }));
            }
        }
        let Some(own) = own else { return Ok(None) };
        let Some(value) = self.record_of(ks, own, digest)? else {
            return Ok(None);
        };
        Ok(Record::parse(value.as_ref()).is_some().then(|| Found {
            crawl: Crawl::Given(own.into()),
            value,
        }))
    }

    /// Says which hashes will be looked up next, so that their memory is on its way to the processor.
    pub fn prefetch(&mut self, ks: &mut K, digests: &[Digest]) -> Result<()> {
        if let (Some(key), true) = (self.packed_key(), digests.len() > 1) {
            let profile = self.profile();
            let fields = digests.iter().map(|digest| digest.written(profile));
            ks.packed(key, |packed| packed.prefetch(fields))?;
        }
        Ok(())
    }

    /// The usual case of a packed index: a hash in the written form, whose owner is committed and nothing
    /// else, in one step.
    fn find_packed(&mut self, ks: &mut K, digest: &Digest) -> Result<Option<Found<K::Value>>> {
        let Some(key) = self.packed_key() else {
            return Ok(None);
        };
        let field = digest.written(self.profile());
        let found = ks.packed(key, |packed| {
            let (owner, record) = packed.find(field)?;
            let record = record.filter(|record| Record::parse(record).is_some())?;
            self.usual(owner).filter(|crawl| crawl.is_packed)?;
            Some(Found {
                crawl: Crawl::Given(owner.into()),
                value: Stored::Packed(record),
            })
        })?;
        Ok(found.flatten())
    }

    /// File name of the WACZ that holds a found record; `None` when the crawl lists none there.
    pub fn container(&mut self, ks: &mut K, found: &Found<K::Value>) -> Result<Option<Vec<u8>>> {
        let waczs = self.crawl_key(ks, found.crawl.id(), CrawlKey::Waczs);
        let Some(entry) = ks.list_get(&waczs, found.record().wacz_index)? else {
            return Ok(None);
        };
        Ok(wacz::Entry::parse(entry.as_ref()).map(|entry| entry.filename))
    }
}
