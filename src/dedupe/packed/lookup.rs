//! Looks up many fields at once. Each stage prefetches the memory that the next stage reads, so
//! that the waits for memory overlap.

use smallvec::SmallVec;

use super::codec::Numbers;
use super::crawls::OWNERS;
use super::field::{Field, Notation};
use super::place::{RecordSlot, Records};
use super::{Packed, Value};
use crate::texts::sink::Buffer;

/// A lookup in progress.
pub struct Probe<'a> {
    field: Field<'a>,
    hash: u64,
}

impl Probe<'_> {
    /// Returns the notation of the field.
    pub fn notation(&self) -> Notation {
        self.field.notation()
    }
}

impl Packed {
    /// Looks up fields. For each field in order, passes its owner and the owner's record of the
    /// field to `each`. The record is empty if the owner has none. Calls `meanwhile` twice, each
    /// time while memory is being prefetched.
    ///
    /// # Errors
    /// The errors of `meanwhile`.
    pub fn look_up<'a, E>(
        &self,
        fields: impl Iterator<Item = &'a [u8]>,
        mut meanwhile: impl FnMut() -> Result<(), E>,
        mut each: impl FnMut(Option<&[u8]>, Value),
    ) -> Result<(), E> {
        let probes: SmallVec<[Probe<'_>; 1]> = fields.map(|field| self.probe(field)).collect();
        meanwhile()?;
        for probe in &probes {
            self.aim(probe);
        }
        meanwhile()?;
        for probe in &probes {
            let mut record = Value::new();
            let owner = self.find(probe, &mut record);
            each(owner, record);
        }
        Ok(())
    }

    /// Prefetches memory for fields that will be looked up soon.
    pub fn expect_look_ups<'a>(&self, fields: impl Iterator<Item = &'a [u8]>) {
        for field in fields {
            self.probe(field);
        }
    }

    /// Begins a lookup by prefetching the table. While the memory is being fetched, the caller can
    /// do other work, such as other lookups.
    #[inline]
    pub fn probe<'a>(&self, field: &'a [u8]) -> Probe<'a> {
        let field = Field::parse(field);
        let hash = field.hash();
        self.table.prefetch(hash);
        Probe { field, hash }
    }

    /// Prefetches the record, as the second step of a lookup.
    pub(super) fn aim(&self, probe: &Probe<'_>) {
        self.table.find(probe.hash, |place| {
            self.chunks.prefetch(place);
            false
        });
    }

    /// Looks up one field, as [`Packed::look_up`] does. Calls `meanwhile` while memory is being
    /// prefetched. Passes the owner to `begin` before it appends the record to `record`.
    ///
    /// # Errors
    /// The error of `meanwhile`.
    #[inline]
    pub fn look_up_one<B: Buffer, E>(
        &self,
        probe: &Probe<'_>,
        record: &mut B,
        begin: impl FnOnce(&[u8], &mut B),
        meanwhile: impl FnOnce() -> Result<(), E>,
    ) -> Result<Option<Owned<'_>>, E> {
        let aimed = self.table.find(probe.hash, |place| {
            self.chunks.prefetch(place);
            true
        });
        meanwhile()?;
        let owned = aimed.filter(|&place| self.is_owned_at(place, &probe.field));
        let owned = match (aimed, owned) {
            // Another field has the same tag.
            (Some(_), None) => self.find_owner(&probe.field, probe.hash),
            (_, owned) => owned,
        };
        Ok(owned.map(|place| self.read_at(place, record, begin)))
    }

    /// Returns the owner of the field, as the last step of a lookup. Appends the owner's record, if
    /// there is one, to `record`.
    pub(super) fn find(&self, probe: &Probe<'_>, record: &mut Value) -> Option<&[u8]> {
        let place = self.find_owner(&probe.field, probe.hash)?;
        Some(self.read_at(place, record, |_, _| ()).crawl)
    }

    /// Returns the owner that the entry at this position names, passes it to `begin`, and appends the owner's record, if
    /// there is one, to `record`.
    #[inline]
    fn read_at<B: Buffer>(
        &self,
        place: RecordSlot,
        record: &mut B,
        begin: impl FnOnce(&[u8], &mut B),
    ) -> Owned<'_> {
        let (found, chunk) = self.chunks.record(place);
        let (owner, has_record) = match chunk.crawl() {
            OWNERS => (self.owner_at(place), false),
            crawl => (crawl, true),
        };
        let crawl = &self.crawls.get(owner).id[..];
        begin(crawl, record);
        let numbers = if has_record {
            self.codec.decode(chunk.base(), found.rest, record)
        } else {
            None
        };
        Owned { crawl, numbers }
    }
}

/// The owner of a field.
pub struct Owned<'a> {
    /// The crawl that owns the field.
    pub crawl: &'a [u8],
    /// Numbers of the owner's record, if the record is stored in fields. Its URL may be empty.
    pub numbers: Option<Numbers>,
}
