//! The documented two look-ups in one: hash → crawl → record.

use smallvec::SmallVec;

use crawlspace_host::keyspace::Batch;

use super::digest::Digest;
use super::error::Result;
use super::index::Index;
use super::keys::CrawlKey;
use super::packed::{Probe, Value};
use super::record::Record;
use super::store::{Store, Stored};
use super::wacz;

/// Where a hash was found.
pub struct Original<V> {
    /// The crawl that holds the original.
    pub crawl: Crawl<V>,
    value: Stored<V>,
}

/// The usual case of a packed index: a hash in the written form, whose owner is committed and nothing
/// else.
pub struct Usual<N> {
    /// Name of the key that the owner's records had if they were plain.
    pub records: N,
    /// Where the owner's id begins in that name.
    id: usize,
}

/// What a look-up in a packed index came to.
pub enum Sight<N> {
    /// It was found, in the usual case.
    Usual(Usual<N>),
    /// No committed crawl has it, and no other that others see.
    Absent,
    /// Only a full look-up can tell.
    Other,
}

impl<N: AsRef<[u8]>> Usual<N> {
    /// The owner.
    pub fn crawl(&self) -> &[u8] {
        &self.records.as_ref()[self.id..]
    }
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

impl<V: AsRef<[u8]>> Original<V> {
    /// The record of the original.
    pub fn record(&self) -> Record<'_> {
        Record::parse(self.value.as_ref()).expect("only whole records are found")
    }
}

impl<K: Store> Index<K> {
    /// Looks a hash up: in the merged index first, then, when `own` names a crawl, among that
    /// crawl's own hashes, then among those of crawls that others see while they run. Other owners that
    /// are not committed, and those whose record is gone, do not count.
    pub(super) fn find(
        &mut self,
        ks: &mut K,
        digest: &Digest,
        own: Option<&[u8]>,
    ) -> Result<Option<Original<K::Value>>> {
        let probe = self.probe(ks, digest)?;
        self.find_begun(ks, digest, probe.as_ref(), own)
    }

    /// Finds a hash with what [`Index::probe`] gave for it, if anything.
    pub(super) fn find_begun(
        &mut self,
        ks: &mut K,
        digest: &Digest,
        probe: Option<&Probe<'_>>,
        own: Option<&[u8]>,
    ) -> Result<Option<Original<K::Value>>> {
        if let Some(probe) = probe {
            let mut value = Value::new();
            match self.find_usual(ks, probe, &mut value)? {
                Sight::Usual(usual) if Record::parse(&value).is_some() => {
                    let crawl = Crawl::Given(usual.crawl().into());
                    let value = Stored::Packed(value);
                    return Ok(Some(Original { crawl, value }));
                }
                Sight::Absent => return self.find_uncommitted(ks, digest, own),
                _ => {}
            }
        }
        if let Some(owner) = self.get_owner(ks, digest)? {
            if let Some(value) = self.committed_record(ks, owner.as_ref(), digest)? {
                let crawl = Crawl::Read(owner);
                return Ok(Some(Original { crawl, value }));
            }
            let is_owner = |crawl: &[u8]| crawl == owner.as_ref();
            if let Some((crawl, value)) = self.next_holder(ks, digest, owner.as_ref(), &is_owner)? {
                let crawl = Crawl::Given(crawl.into());
                return Ok(Some(Original { crawl, value }));
            }
        }
        self.find_uncommitted(ks, digest, own)
    }

    /// Looks a hash up among a crawl's own, and then among those of crawls that others see.
    fn find_uncommitted(
        &mut self,
        ks: &mut K,
        digest: &Digest,
        own: Option<&[u8]>,
    ) -> Result<Option<Original<K::Value>>> {
        let found = self.find_own(ks, digest, own)?;
        if found.is_some() || !self.has_visible() {
            return Ok(found);
        }
        for (_, crawl) in self.visible().iter() {
            if self.is_uncommitted(ks, crawl)? && !self.is_removing(ks, crawl)? {
                let found = self.find_own(ks, digest, Some(crawl))?;
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
        Ok(None)
    }

    /// Looks a hash up among a crawl's own.
    fn find_own(
        &mut self,
        ks: &mut K,
        digest: &Digest,
        own: Option<&[u8]>,
    ) -> Result<Option<Original<K::Value>>> {
        let Some(own) = own else { return Ok(None) };
        let Some(value) = self.record_of(ks, own, digest)? else {
            return Ok(None);
        };
        Ok(Record::parse(value.as_ref()).is_some().then(|| Original {
            crawl: Crawl::Given(own.into()),
            value,
        }))
    }

    /// Begins to look a hash up in the packed index, if there is one: its memory is on its way to the
    /// processor from now on.
    pub(super) fn probe<'d>(&self, ks: &mut K, digest: &'d Digest) -> Result<Option<Probe<'d>>> {
        let Some(key) = self.packed_key() else {
            return Ok(None);
        };
        let field = digest.written(self.profile());
        Ok(ks.packed(key, |packed| packed.probe(field))?)
    }

    /// Says that these fields will be looked for soon.
    pub(super) fn expect_look_ups(&self, ks: &mut K, batch: &Batch) -> Result<()> {
        if let (Some(key), true) = (self.packed_key(), batch.len() > 1) {
            ks.packed(key, |packed| {
                for (field, _) in batch.iter() {
                    packed.probe(field);
                }
            })?;
        }
        Ok(())
    }

    /// Probes for many hashes.
    ///
    /// # Errors
    /// `WRONGTYPE` when a key holds another type; or when the server refuses.
    pub fn probe_all<'d>(
        &mut self,
        ks: &mut K,
        digests: &'d [Digest],
    ) -> Result<Option<SmallVec<[Probe<'d>; 1]>>> {
        let Some(key) = self.packed_key() else {
            return Ok(None);
        };
        let profile = self.profile();
        let probes = ks.packed(key, |packed| {
            let probe = |digest: &'d Digest| packed.probe(digest.written(profile));
            digests.iter().map(probe).collect()
        })?;
        Ok(probes)
    }

    /// Continues look-ups that were probed: asks for the memory of their records.
    ///
    /// # Errors
    /// `WRONGTYPE` when a key holds another type; or when the server refuses.
    pub fn aim(&mut self, ks: &mut K, probes: &[Probe<'_>]) -> Result<()> {
        if let Some(key) = self.packed_key() {
            ks.packed(key, |packed| {
                for probe in probes {
                    packed.aim(probe);
                }
            })?;
        }
        Ok(())
    }

    /// Ends it: the owner, and its record in `value`, in the usual case. In any other
    /// [`Index::find`] tells.
    pub(super) fn find_usual(
        &mut self,
        ks: &mut K,
        probe: &Probe<'_>,
        value: &mut Value,
    ) -> Result<Sight<K::Name>> {
        let Some(key) = self.packed_key() else {
            return Ok(Sight::Other);
        };
        let id = self.prefix().len() + CrawlKey::Records.around().0.len();
        let seen = ks.packed(key, |packed| match packed.find(probe, value) {
            Some(owner) => self.usual(owner).map_or(Sight::Other, |records| {
                let records = records.clone();
                Sight::Usual(Usual { records, id })
            }),
            None if self.is_written() && !self.is_moving() && !self.has_visible() => Sight::Absent,
            None => Sight::Other,
        })?;
        Ok(seen.unwrap_or(Sight::Other))
    }

    /// File name of the WACZ that holds a found record; `None` when the crawl lists none there.
    ///
    /// # Errors
    /// `WRONGTYPE` when a key holds another type; or when the server refuses.
    pub fn container(&mut self, ks: &mut K, found: &Original<K::Value>) -> Result<Option<Vec<u8>>> {
        let waczs = self.crawl_key(ks, found.crawl.id(), CrawlKey::Waczs);
        let Some(entry) = ks.list_get(&waczs, found.record().wacz_index)? else {
            return Ok(None);
        };
        Ok(wacz::WaczEntry::parse(entry.as_ref()).map(|entry| entry.filename))
    }
}
