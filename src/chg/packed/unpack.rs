//! A packed frontier written as the plain keys that a plain frontier with the same history would have.

use crawlspace_host::keyspace::Result;

use super::super::keys::{COUNTED, GROUP, Names, OF, URIS};
use super::super::store::Store;
use super::super::uris::{CHUNK_BYTES, Op};
use super::keys::{Packed, number_text};
use super::record::{Record, SETS};

/// Number of groups or executions that a step writes.
const STEP: u32 = 64;

/// The part that is written next.
#[derive(Clone, Debug)]
enum Next {
    /// Groups, from this slot on.
    Groups(u32),
    /// Groups in `chg_ready`, from this position on.
    Ready(u64),
    /// Counts of executions, from this number on.
    Executions(u32),
    /// The parts that are kept as they are.
    Small,
    Nothing,
}

/// The progress of unpacking. The packed frontier must not change between two steps.
#[derive(Clone, Debug)]
pub struct Unpacking {
    next: Next,
}

impl Default for Unpacking {
    fn default() -> Self {
        Unpacking {
            next: Next::Groups(0),
        }
    }
}

impl Unpacking {
    /// Writes some of the plain keys, none of which may exist before the first step; returns false at the end.
    ///
    /// # Errors
    /// Any error of the server.
    pub fn step<K: Store>(&mut self, packed: &Packed, ks: &mut K, prefix: &[u8]) -> Result<bool> {
        let once = &Names::of(|row| ks.name(&[prefix, row.name.as_bytes()]));
        let mut plain = Plain { once, ks, prefix };
        self.next = match self.next {
            Next::Groups(from) => {
                let until = from.saturating_add(STEP).min(packed.groups.end());
                for slot in from..until {
                    plain.group(packed, slot)?;
                }
                if until < packed.groups.end() {
                    Next::Groups(until)
                } else {
                    Next::Ready(0)
                }
            }
            Next::Ready(from) => {
                plain.ready(packed, from)?;
                let until = from + u64::from(STEP);
                if until < packed.ready.len() {
                    Next::Ready(until)
                } else {
                    Next::Executions(0)
                }
            }
            Next::Executions(from) => {
                let (page, next) = packed.executions.page(from, STEP);
                for (name, queued) in page {
                    plain
                        .ks
                        .hash_set(&plain.once.executions, name, &number_text(queued))?;
                }
                next.map_or(Next::Small, Next::Executions)
            }
            Next::Small => {
                plain.small(packed)?;
                Next::Nothing
            }
            Next::Nothing => return Ok(false),
        };
        Ok(true)
    }
}

impl Packed {
    /// Writes all plain keys at once.
    ///
    /// # Errors
    /// Any error of the server.
    pub fn unpack<K: Store>(&self, ks: &mut K, prefix: &[u8]) -> Result<()> {
        let mut unpacking = Unpacking::default();
        while unpacking.step(self, ks, prefix)? {}
        Ok(())
    }
}

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
        let names = ["n", "c", "s", "l", "o"];
        for (name, value) in names.into_iter().zip(record.own_values()) {
            if let Some(value) = value {
                self.ks.hash_set(&key, name.as_bytes(), &value)?;
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

    fn ready(&mut self, packed: &Packed, from: u64) -> Result<()> {
        let mut done = Ok(());
        packed.ready.range(from, STEP as usize, &mut |_, slot| {
            if done.is_ok() {
                let id = packed.groups.id(slot);
                done = self.ks.list_push(&self.once.ready, id).map(drop);
            }
        });
        done
    }

    fn small(&mut self, packed: &Packed) -> Result<()> {
        let total = packed.executions.total();
        if total > 0 {
            self.ks.number_set(&self.once.total, total as i64)?;
        }
        let small = &packed.small;
        for (name, hash) in &small.hashes {
            let key = self.ks.name(&[self.prefix, name]);
            for (field, value) in hash {
                self.ks.hash_set(&key, field, value)?;
            }
        }
        for (name, sorted) in &small.sorted {
            let key = self.ks.name(&[self.prefix, name]);
            for (member, score) in sorted.iter() {
                self.ks.zset_add(&key, member, score)?;
            }
        }
        for (name, list) in &small.lists {
            let key = self.ks.name(&[self.prefix, name]);
            for element in list.iter() {
                self.ks.list_push(&key, element)?;
            }
        }
        for (name, &n) in &small.numbers {
            let key = self.ks.name(&[self.prefix, name]);
            self.ks.number_set(&key, n)?;
        }
        Ok(())
    }
}
