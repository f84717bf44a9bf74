//! Groups of a packed frontier written as the plain keys that they would have in plain storage.

use crawlspace_host::keyspace::Result;

use super::super::group::FIELD_NAMES;
use super::super::keys::{COUNTED, GROUP, Names, OF, URIS};
use super::super::store::Store;
use super::super::uris::{CHUNK_BYTES, Op};
use super::keys::{Packed, number_text};
use super::record::{Record, SETS};

/// The plain keys of a frontier.
pub(super) struct Plain<'a, K: Store> {
    pub ks: &'a mut K,
    pub prefix: &'a [u8],
    /// The keys that exist once.
    pub once: &'a Names<K::Name>,
}

impl<K: Store> Plain<'_, K> {
    /// Writes a group with its URIs.
    pub(super) fn group(&mut self, packed: &Packed, slot: u32) -> Result<()> {
        let id = packed.groups.id(slot);
        if id.is_empty() {
            return Ok(());
        }
        packed
            .groups
            .look(slot, |open| self.record(packed, id, &open.record))?;
        let key = self.ks.name(&[self.prefix, URIS.before, id]);
        let written = packed.look_at_kept(slot, |kept| {
            let mut done = Ok(());
            kept.encode(CHUNK_BYTES, &mut |chunk| {
                if done.is_ok() {
                    done = self.ks.change_uris(&key, &Op::Load { chunk }).map(drop);
                }
            });
            done?;
            for share in kept.executions() {
                self.enlist(share.id, id)?;
            }
            Ok(())
        });
        written.unwrap_or(Ok(()))
    }

    /// Records that a group has URIs of an execution.
    fn enlist(&mut self, execution: &[u8], id: &[u8]) -> Result<()> {
        let key = self.ks.name(&[self.prefix, OF.before, execution]);
        self.ks.hash_set_new(&key, id, b"").map(drop)
    }

    /// Writes the hash of a group, and its places in the ordered queues.
    fn record(&mut self, packed: &Packed, id: &[u8], record: &Record) -> Result<()> {
        let key = self.ks.name(&[self.prefix, GROUP.before, id]);
        for (name, value) in FIELD_NAMES.into_iter().zip(record.own_values()) {
            if let Some(value) = value {
                self.ks.hash_set(&key, name, &value)?;
            }
        }
        if let Some(next) = &record.next {
            self.ks.hash_set(&key, b"x", next)?;
        }
        for &(number, n) in &record.counts {
            let execution = packed.executions.name(number);
            self.ks
                .hash_set(&key, &[COUNTED, execution].concat(), &number_text(n))?;
            self.enlist(execution, id)?;
        }
        let sets: [&K::Name; SETS] = [&self.once.wait, &self.once.busy, &self.once.idle];
        for (set, score) in sets.into_iter().zip(record.scores) {
            if let Some(score) = score {
                self.ks.zset_add(set, id, score)?;
            }
        }
        Ok(())
    }
}
