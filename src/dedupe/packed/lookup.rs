//! Look-ups of many fields at once: each stage asks for the memory that the next one reads, so that all of it is waited for
//! together.

use smallvec::SmallVec;

use super::crawls::OWNERS;
use super::field::Field;
use super::place::Records;
use super::{Packed, Value};

/// A look-up that was begun.
pub(super) struct Probe<'a> {
    field: Field<'a>,
    hash: u64,
}

impl Packed {
    /// Looks fields up, and hands `each` the owner of every one, in order, and the owner's record of it; the record is
    /// empty if there is none. `meanwhile` is called twice, each time while memory is on its way.
    ///
    /// # Errors
    /// That of `meanwhile`.
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

    /// Says that these fields will be looked for soon.
    pub fn expect_look_ups<'a>(&self, fields: impl Iterator<Item = &'a [u8]>) {
        for field in fields {
            self.probe(field);
        }
    }

    /// Begins a look-up: asks for the memory that it needs first. What is done between the steps of a
    /// look-up, other look-ups among it, is done while memory is on its way.
    pub(super) fn probe<'a>(&self, field: &'a [u8]) -> Probe<'a> {
        let field = Field::parse(field);
        let hash = field.hash();
        self.table.prefetch(hash);
        Probe { field, hash }
    }

    /// The second step: asks for the record.
    pub(super) fn aim(&self, probe: &Probe<'_>) {
        self.table.find(probe.hash, |place| {
            self.chunks.prefetch(place);
            false
        });
    }

    /// The last step: the owner of the field; and its record of the same field is appended to `record`,
    /// if it has one.
    pub(super) fn find(&self, probe: &Probe<'_>, record: &mut Value) -> Option<&[u8]> {
        let place = self.find_owner(&probe.field, probe.hash)?;
        let (found, chunk) = self.chunks.record(place);
        let owner = match chunk.crawl() {
            OWNERS => self.owner_at(place),
            crawl => {
                self.codec.decode(chunk.base(), found.rest, record);
                crawl
            }
        };
        Some(&self.crawls.get(owner).id)
    }
}
