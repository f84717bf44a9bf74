//! Writes groups that leave a packed frontier to plain keys.

use crawlspace_host::keyspace::Result;
use smallvec::SmallVec;

use super::super::group::FIELDS;
use super::super::keys::{COUNTED, GROUP, OF, URIS};
use super::super::store::Store;
use super::element::{Plain, SOME};
use super::keys::{Packed, number_text};
use super::record::{Record, SETS};

impl<K: Store> Plain<'_, K> {
    /// Moves a group to plain keys.
    pub(super) fn unpack(&mut self, packed: &mut Packed, id: &[u8]) -> Result<()> {
        let Some(slot) = packed.groups.find(id) else {
            return Ok(());
        };
        let hash = self.key(GROUP.before, id);
        let uris = self.key(URIS.before, id);
        // Another program may have created keys under these names. Delete them, because the group
        // is packed.
        self.ks.delete(&hash)?;
        self.ks.delete(&uris)?;
        packed.groups.look(slot, |open| {
            self.write_record(packed, &hash, id, &open.record)
        })?;
        if let Some(leaving) = packed.leave_uris(slot) {
            if !leaving.is_crowd() {
                for execution in leaving.executions() {
                    self.enlist(execution.id, id)?;
                }
            }
            self.ks.put_uris(&uris, leaving)?;
        }
        packed.forget(id);
        Ok(())
    }

    /// Before a group with many executions leaves, adds the group to the lists of some of these executions.
    /// Returns the number of the execution at which to continue; 0 at the end.
    pub(super) fn list(&mut self, packed: &Packed, id: &[u8], from: u64) -> Result<u64> {
        let Some(slot) = packed.groups.find(id) else {
            return Ok(0);
        };
        let next = packed.look_at_kept(slot, |kept| {
            if !kept.is_crowd() {
                return Ok(0);
            }
            let mut next = 0;
            for execution in kept.executions_from(from).take(SOME) {
                self.enlist(execution.id, id)?;
                next = execution.number + 1;
            }
            Ok(next)
        });
        next.unwrap_or(Ok(0))
    }

    /// Records that a group has URIs of an execution.
    fn enlist(&mut self, execution: &[u8], id: &[u8]) -> Result<()> {
        let key = self.key(OF.before, execution);
        self.ks.hash_set_new(&key, id, b"").map(drop)
    }

    /// Writes the hash of a group, and its positions in the ordered queues.
    fn write_record(
        &mut self,
        packed: &Packed,
        hash: &K::Name,
        id: &[u8],
        record: &Record,
    ) -> Result<()> {
        let values = record.own_values();
        let fields = self.names.fields.iter().zip(&values);
        let fields: SmallVec<[(&K::Name, &[u8]); FIELDS]> = fields
            .filter_map(|(name, value)| Some((name, value.as_deref()?)))
            .collect();
        self.ks.hash_set_many(hash, &fields)?;
        if let Some(next) = &record.next {
            self.ks.hash_set(hash, b"x", next)?;
        }
        for &(number, n) in &record.counts {
            let execution = packed.executions.name(number);
            let field = [COUNTED, execution].concat();
            self.ks.hash_set(hash, &field, &number_text(n))?;
            self.enlist(execution, id)?;
        }
        let once = &self.names.once;
        let sets: [&K::Name; SETS] = [&once.wait, &once.busy, &once.idle];
        for (set, score) in sets.into_iter().zip(record.scores) {
            if let Some(score) = score {
                self.ks.zset_add(set, id, score)?;
            }
        }
        Ok(())
    }
}
