//! The groups of a packed frontier: each one a block of bytes with a number, found by its id.
//!
//! The groups that a command works on are open: decoded, and written back when the command ends.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use crawlspace_compact::interner::{Handles, Interner};
use crawlspace_compact::keyed;
use crawlspace_compact::blocks::Blocks;
use crawlspace_compact::linear::List;
use crawlspace_compact::number::{Reader, put_bytes};

use super::super::group::Id;
use super::super::uris::Uris;
use super::record::Record;

/// Number of groups that are decoded at a time.
const OPEN: usize = 4;

/// A decoded group.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub slot: u32,
    pub id: Id,
    pub record: Record,
    /// The record changed since it was read.
    changed: bool,
    /// The record changed since it was logged.
    unlogged: bool,
}

/// All groups.
#[derive(Clone, Default)]
pub(super) struct Groups {
    /// The bytes of each group; empty if the number is free.
    blocks: Blocks<Box<[u8]>>,
    free: Blocks<u32>,
    table: Interner<Blocks<Handles>>,
    open: SmallVec<[Box<Open>; OPEN]>,
    uris: BTreeMap<u32, Box<Uris>>,
    len: u64,
    /// Bytes of all blocks.
    bytes: usize,
    scratch: Vec<u8>,
}

/// Splits a block into the id and the rest.
fn split(block: &[u8]) -> Reader<'_> {
    Reader::new(block)
}

impl Groups {
    /// Returns the number of groups.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns an exclusive upper bound of all slots.
    pub fn end(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// Returns the id of the group in a slot; empty if the slot is free.
    pub fn id(&self, slot: u32) -> &[u8] {
        match self.blocks.get(slot as usize) {
            Some(block) if !block.is_empty() => split(block).bytes().unwrap_or_default(),
            _ => b"",
        }
    }

    /// Returns the slot of a group.
    pub fn find(&self, id: &[u8]) -> Option<u32> {
        if let Some(open) = self.open.iter().find(|open| open.id[..] == *id) {
            return Some(open.slot);
        }
        let number = self
            .table
            .find(keyed::hash(id), |number| self.id(number - 1) == id)?;
        Some(number - 1)
    }

    /// Returns the slot of a group, which is made if it is not there.
    pub fn enter(&mut self, id: &[u8]) -> u32 {
        if let Some(slot) = self.find(id) {
            return slot;
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.blocks.push(Box::default());
                self.blocks.len() as u32 - 1
            }
        };
        self.len += 1;
        let record = Record::default();
        self.put(slot, id, &record);
        self.table.insert(keyed::hash(id), slot + 1);
        let open = Open {
            slot,
            id: Id::from_slice(id),
            record,
            changed: false,
            unlogged: false,
        };
        self.keep_open(open);
        slot
    }

    fn keep_open(&mut self, open: Open) -> &mut Open {
        if self.open.len() == OPEN {
            let first = self.open.iter().position(|open| !open.unlogged);
            if let Some(first) = first {
                let closed = self.open.remove(first);
                self.close(&closed);
            }
        }
        self.open.push(Box::new(open));
        self.open.last_mut().expect("just pushed")
    }

    /// Decodes a group.
    fn read(&self, slot: u32) -> Open {
        let block = self.blocks.get(slot as usize).expect("a slot in use");
        let mut from = split(block);
        let id = Id::from_slice(from.bytes().expect("own memory"));
        Open {
            slot,
            id,
            record: Record::read(&mut from).expect("own memory"),
            changed: false,
            unlogged: false,
        }
    }

    /// Returns a group for reading.
    pub fn get(&mut self, slot: u32) -> &Open {
        match self.open.iter().position(|open| open.slot == slot) {
            Some(at) => &self.open[at],
            None => {
                let open = self.read(slot);
                self.keep_open(open)
            }
        }
    }

    /// Calls `look` with a group, without opening it.
    pub fn look<T>(&self, slot: u32, look: impl FnOnce(&Open) -> T) -> T {
        match self.open.iter().find(|open| open.slot == slot) {
            Some(open) => look(open),
            None => look(&self.read(slot)),
        }
    }

    /// Returns a group for a change.
    pub fn change(&mut self, slot: u32) -> &mut Open {
        self.get(slot);
        let open = self.open.iter_mut().find(|open| open.slot == slot);
        let open = open.expect("just opened");
        open.changed = true;
        open.unlogged = true;
        open
    }

    /// Returns the record of a group for a change that is logged in another way.
    pub fn change_quietly(&mut self, slot: u32) -> &mut Record {
        self.get(slot);
        let open = self.open.iter_mut().find(|open| open.slot == slot);
        let open = open.expect("just opened");
        open.changed = true;
        &mut open.record
    }

    /// Returns the groups that changed since they were logged.
    pub fn take_unlogged(&mut self, mut each: impl FnMut(&Open)) {
        for open in &mut self.open {
            if std::mem::take(&mut open.unlogged) {
                each(open);
            }
        }
    }

    /// Writes all open groups back.
    pub fn close_all(&mut self) {
        for open in std::mem::take(&mut self.open) {
            self.close(&open);
        }
    }

    fn close(&mut self, open: &Open) {
        let slot = open.slot;
        if open.record.is_empty() && !self.uris.contains_key(&slot) {
            self.table.remove(keyed::hash(&open.id), slot + 1);
            let block = self.blocks.get_mut(slot as usize).expect("a slot in use");
            self.bytes -= block.len();
            *block = Box::default();
            self.free.push(slot);
            self.len -= 1;
        } else if open.changed {
            self.put(slot, &open.id, &open.record);
        }
    }

    fn put(&mut self, slot: u32, id: &[u8], record: &Record) {
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        put_bytes(&mut bytes, id);
        record.write(&mut bytes);
        let block = self.blocks.get_mut(slot as usize).expect("a slot in use");
        if block.len() == bytes.len() {
            block.copy_from_slice(&bytes);
        } else {
            self.bytes = self.bytes - block.len() + bytes.len();
            *block = bytes[..].into();
        }
        self.scratch = bytes;
    }

    /// Returns the URIs kept for a group.
    pub fn uris(&self, slot: u32) -> Option<&Uris> {
        self.uris.get(&slot).map(|uris| &**uris)
    }

    /// Returns the URIs kept for a group for a change.
    pub fn uris_mut(&mut self, slot: u32) -> &mut Uris {
        self.get(slot);
        self.uris.entry(slot).or_default()
    }

    /// Removes the URIs of a group if none are left.
    pub fn tidy(&mut self, slot: u32) {
        if self.uris.get(&slot).is_some_and(|uris| uris.is_empty()) {
            self.uris.remove(&slot);
        }
    }

    /// Returns the memory use in bytes.
    pub fn memory(&self) -> usize {
        let uris: usize = self.uris.values().map(|uris| uris.memory() + 32).sum();
        self.blocks.memory() + self.free.memory() + self.table.memory() + self.bytes + uris
    }

    /// Returns the number of memory blocks.
    pub fn pieces(&self) -> usize {
        self.len as usize + self.table.pieces()
    }
}
