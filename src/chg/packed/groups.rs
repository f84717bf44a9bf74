//! The groups of a packed frontier: each group is a block of bytes with a number, and is found by its id.
//!
//! The most recently used groups are open, that is, decoded. They are written back when other
//! groups replace them.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;

use crawlspace_compact::blocks::Blocks;
use crawlspace_compact::index::Index;
use crawlspace_compact::keyed;
use crawlspace_compact::linear::List;
use crawlspace_compact::number::{Malformed, Reader, put_bytes};
use crawlspace_host::defrag::Mover;
use crawlspace_host::sizes::class;

use super::super::group::Id;
use super::super::time::Millis;
use super::super::uris::Uris;
use super::log::Log;
use super::record::Record;
use super::spelling::Spelling;

/// Number of groups that stay decoded, even between commands. The number is lower in tests, so that groups are closed
/// in the middle of a command.
const OPEN: usize = if cfg!(test) { 2 } else { 16 };

/// Maximum size of the records of a group's queue that are kept in its block, in bytes. A larger queue is
/// stored in separate pages.
const PACKED_BYTES: usize = 512;

/// Maximum number of groups with many URIs whose memory blocks are counted.
const SAMPLED: usize = 64;

/// The URIs of a group.
#[derive(Clone, Debug)]
pub(super) struct Stock {
    pub spelling: Spelling,
    pub uris: Uris,
    /// True if executions are stored by name, because the group has many; otherwise they are stored
    /// by number.
    pub is_crowd: bool,
}

impl Stock {
    /// Appends the compact form, with times relative to a base. If there are too many URIs for the compact form,
    /// appends nothing and returns false.
    fn put(&self, base: Millis, out: &mut Vec<u8>) -> bool {
        let end = out.len();
        self.spelling.write(out);
        let is_small = self.uris.pack(base, PACKED_BYTES, out);
        if !is_small {
            out.truncate(end);
        }
        is_small
    }
}

/// The position of the URIs of an open group.
#[derive(Clone, Debug, Default)]
enum Place {
    /// The group has no stored URIs.
    #[default]
    Nowhere,
    /// The block of the group, unchanged, from this offset on.
    Block(usize),
    /// The open group: its URIs are decoded, and may have changed.
    Here(Box<Stock>),
    /// Pages outside of the block.
    Apart,
}

/// A decoded group.
#[derive(Clone, Debug, Default)]
pub(super) struct Open {
    pub slot: u32,
    pub id: Id,
    pub record: Record,
    place: Place,
    /// Due time in the block, to which the times of its URIs are relative.
    base: Millis,
    /// True if the record changed since it was read.
    changed: bool,
    /// True if the record changed since it was logged.
    unlogged: bool,
    /// True if the group changed since empty groups were last removed.
    may_be_empty: bool,
}

/// All groups.
#[derive(Clone, Default)]
pub(super) struct Groups {
    /// The key of the hashes of ids. Replicas and files contain the same key, because hashes of ids
    /// are stored with known URLs.
    seed: Seed,
    /// The bytes of each group; empty if the number is free.
    blocks: Blocks<Box<[u8]>>,
    free: Blocks<u32>,
    /// Slots by the hash of the id.
    table: Index,
    // A group that is closed moves out of the list without being copied.
    #[allow(clippy::vec_box)]
    open: Vec<Box<Open>>,
    /// The memory of the group that was closed last, for the group that is opened next.
    spare: Option<Box<Open>>,
    /// Hashes of the ids, and slots, of the open groups.
    hashes: Vec<u64>,
    slots: Vec<u32>,
    /// Position of the open group that was used last.
    last: usize,
    /// Position of the open group that is replaced next, if its changes were logged.
    oldest: usize,
    /// Slots of groups that changed in this command, including groups that have since been closed.
    touched: Vec<u32>,
    /// Slots of closed groups that changed since they were logged.
    pending: Vec<u32>,
    /// URIs of groups that have many URIs.
    apart: BTreeMap<u32, Box<Stock>>,
    len: u64,
    /// Bytes of all blocks.
    bytes: usize,
    scratch: Vec<u8>,
    /// Cursor of the defragmentation of the URIs of a group.
    moved: u64,
    /// Slots of groups whose URIs may be in two encodings.
    pub mixed: BTreeSet<u32>,
    watched: Watched,
}

/// Slots of groups that changed, recorded while agendas exist.
#[derive(Default)]
struct Watched {
    is_on: bool,
    slots: Vec<u32>,
    /// Number of slots that were recorded by earlier commands.
    earlier: usize,
}

impl Clone for Watched {
    /// Returns a value that does not record changes, because the copy has no agendas.
    fn clone(&self) -> Watched {
        Watched::default()
    }
}

/// Key of the hashes of ids.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seed(u64);

impl Default for Seed {
    fn default() -> Seed {
        Seed(keyed::seed())
    }
}

impl Groups {
    /// Returns the seed of the hash function for ids.
    pub fn seed(&self) -> u64 {
        self.seed.0
    }

    /// Sets the seed of the hash function for ids, and hashes all ids again.
    pub fn set_seed(&mut self, seed: u64) {
        if seed == self.seed.0 {
            return;
        }
        self.close_all();
        self.seed = Seed(seed);
        self.table = Index::default();
        for slot in 0..self.end() {
            let id = self.id(slot);
            if !id.is_empty() {
                let hash = self.hash(id) as u32;
                self.table.add(hash, slot);
            }
        }
    }

    fn hash(&self, id: &[u8]) -> u64 {
        keyed::hash_with(self.seed.0, id)
    }

    /// Returns the hash of an id, as stored with known URLs.
    pub fn short_hash(&self, id: &[u8]) -> u32 {
        self.hash(id) as u32
    }

    /// Returns the slots of the groups whose ids have this hash.
    pub fn with_hash(&self, hash: u32) -> impl Iterator<Item = u32> {
        self.table.numbers(hash)
    }

    /// Returns the number of groups.
    #[cfg(test)]
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
            Some(block) if !block.is_empty() => Reader::new(block).bytes().unwrap_or_default(),
            _ => b"",
        }
    }

    /// Returns the slot of a group.
    #[inline]
    pub fn find(&self, id: &[u8]) -> Option<u32> {
        match self.open.get(self.last) {
            Some(open) if open.id[..] == *id => Some(open.slot),
            _ => self.find_other(id),
        }
    }

    /// Returns the slot of a group, which must not be the most recently used one.
    fn find_other(&self, id: &[u8]) -> Option<u32> {
        let hash = self.hash(id);
        let at = self.hashes.iter().position(|&other| other == hash);
        if let Some(open) = at
            .map(|at| &self.open[at])
            .filter(|open| open.id[..] == *id)
        {
            return Some(open.slot);
        }
        let mut slots = self.table.numbers(hash as u32);
        slots.find(|&slot| self.id(slot) == id)
    }

    /// Returns the slot of a group. Creates the group if it does not exist.
    pub fn enter(&mut self, id: &[u8]) -> u32 {
        if let Some(slot) = self.find(id) {
            return slot;
        }
        let slot = self.free_slot();
        self.len += 1;
        let record = Record::default();
        let open = Box::new(Open {
            slot,
            id: Id::from_slice(id),
            record,
            place: Place::Nowhere,
            base: 0,
            changed: false,
            unlogged: false,
            may_be_empty: true,
        });
        self.touched.push(slot);
        self.put(&open, None);
        self.table.add(self.short_hash(id), slot);
        self.keep_open(open);
        slot
    }

    /// Appends the block of a group in the form for files, without its positions in `chg_ready`. If the group
    /// consists only of such positions, appends nothing and returns false.
    pub fn save(&self, slot: u32, out: &mut Vec<u8>) -> bool {
        self.look(slot, |open| {
            let is_stored = open.record.is_stored();
            if !open.changed && open.record.listed == 0 {
                let block = self.blocks.get(slot as usize).expect("a slot in use");
                if is_stored || matches!(open.place, Place::Block(_)) {
                    out.extend_from_slice(block);
                    return true;
                }
            }
            let start = out.len();
            put_bytes(out, &open.id);
            open.record.write_unlisted(out);
            let base = open.record.group.due;
            let has_stock = match &open.place {
                Place::Nowhere | Place::Apart => false,
                Place::Here(stock) => stock.put(base, out),
                Place::Block(at) => self.unpack(slot, *at, open.base).put(base, out),
            };
            if !is_stored && !has_stock {
                out.truncate(start);
            }
            is_stored || has_stock
        })
    }

    /// Returns the URIs of a group if they are stored outside of its block.
    pub fn saved_apart(&self, slot: u32) -> Option<&Stock> {
        match self.position(slot).map(|at| &self.open[at].place) {
            None | Some(Place::Apart) => self.apart.get(&slot).map(|stock| &**stock),
            Some(Place::Here(stock)) if !stock.uris.is_small(PACKED_BYTES) => Some(stock),
            _ => None,
        }
    }

    /// Adds a group from its block in a file. `accept` checks the record of the group and, if there
    /// are URIs, the URIs.
    ///
    /// # Errors
    /// Fails, and changes nothing, if the block is malformed or refused, or if the frontier already
    /// has the group.
    pub fn restore(
        &mut self,
        block: &[u8],
        knows: &dyn Fn(&[u8]) -> bool,
        accept: impl FnOnce(&Record, Option<&Stock>) -> bool,
    ) -> Result<(u32, Record), Malformed> {
        let mut from = Reader::new(block);
        let id = from.bytes()?;
        let record = Record::read(&mut from)?;
        let stock = if from.is_empty() {
            None
        } else {
            let (spelling, len) = Spelling::read(from.rest())?;
            let (base, packed) = (record.group.due, &from.rest()[len..]);
            let uris = Uris::unpack_checked(base, packed, PACKED_BYTES, knows)?;
            Some(Stock {
                spelling,
                uris,
                is_crowd: false,
            })
        };
        let is_new = Log::is_name(id) && self.find(id).is_none();
        let is_empty = !record.is_stored() && stock.is_none();
        if record.listed > 0 || is_empty || !is_new || !accept(&record, stock.as_ref()) {
            return Err(Malformed("has a group that is invalid or occurs twice"));
        }
        let slot = self.free_slot();
        self.len += 1;
        let hash = self.short_hash(id);
        self.table.add(hash, slot);
        self.bytes += class(block.len());
        *self.blocks.get_mut(slot as usize).expect("a free slot") = block.into();
        Ok((slot, record))
    }

    fn free_slot(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.blocks.push(Box::default());
            self.blocks.len() as u32 - 1
        })
    }

    /// Returns the position of an open group.
    #[inline]
    fn position(&self, slot: u32) -> Option<usize> {
        if self.slots.get(self.last) == Some(&slot) {
            return Some(self.last);
        }
        self.slots.iter().position(|&other| other == slot)
    }

    #[inline(never)]
    fn keep_open(&mut self, open: Box<Open>) -> usize {
        let (hash, slot) = (self.hash(&open.id), open.slot);
        if self.open.len() < OPEN {
            self.last = self.open.len();
            self.hashes.push(hash);
            self.slots.push(slot);
            self.open.push(open);
            return self.last;
        }
        let from_oldest = (self.oldest..OPEN).chain(0..self.oldest);
        let logged = from_oldest.into_iter().find(|&at| !self.open[at].unlogged);
        let at = logged.unwrap_or(self.oldest);
        self.oldest = (at + 1) % OPEN;
        (self.last, self.hashes[at], self.slots[at]) = (at, hash, slot);
        let old = std::mem::replace(&mut self.open[at], open);
        self.close(old);
        at
    }

    /// Returns the position of a group, which is opened if necessary.
    #[inline]
    fn opened(&mut self, slot: u32) -> usize {
        match self.position(slot) {
            Some(at) => {
                self.last = at;
                at
            }
            None => {
                let mut open = self.spare.take().unwrap_or_default();
                self.read_into(slot, &mut open);
                self.keep_open(open)
            }
        }
    }

    fn close_at(&mut self, at: usize) {
        self.hashes.remove(at);
        self.slots.remove(at);
        let open = self.open.remove(at);
        self.last = 0;
        self.close(open);
    }

    /// Decodes a group.
    fn read(&self, slot: u32) -> Box<Open> {
        let mut open = Box::default();
        self.read_into(slot, &mut open);
        open
    }

    /// Decodes a group, and replaces another one.
    #[inline(never)]
    fn read_into(&self, slot: u32, open: &mut Open) {
        let block = self.blocks.get(slot as usize).expect("a slot in use");
        let mut from = Reader::new(block);
        open.slot = slot;
        open.id.clear();
        let id = from.bytes().expect("own memory");
        open.id.extend_from_slice(id);
        open.record.replace(0, &mut from).expect("own memory");
        open.place = if !from.is_empty() {
            Place::Block(from.at())
        } else if self.apart.contains_key(&slot) {
            Place::Apart
        } else {
            Place::Nowhere
        };
        open.base = open.record.group.due;
        open.changed = false;
        open.unlogged = false;
        open.may_be_empty = false;
    }

    /// Decodes the URIs in the block of a group, starting at an offset.
    #[inline(never)]
    fn unpack(&self, slot: u32, at: usize, base: Millis) -> Box<Stock> {
        let block = self.blocks.get(slot as usize).expect("a slot in use");
        let (spelling, len) = Spelling::read(&block[at..]).expect("own memory");
        Box::new(Stock {
            spelling,
            uris: Uris::unpack(base, &block[at + len..]),
            is_crowd: false,
        })
    }

    /// Returns a group for reading.
    #[inline]
    pub fn get(&mut self, slot: u32) -> &Open {
        let at = self.opened(slot);
        &self.open[at]
    }

    /// Calls `look` with a group, without opening it.
    pub fn look<T>(&self, slot: u32, look: impl FnOnce(&Open) -> T) -> T {
        match self.position(slot) {
            Some(at) => look(&self.open[at]),
            None => look(&self.read(slot)),
        }
    }

    /// Returns a group, which the caller is about to change.
    pub fn change(&mut self, slot: u32) -> &mut Open {
        let open = self.touch(slot);
        open.unlogged = true;
        open
    }

    /// Opens a group, which may be empty after a change.
    #[inline]
    fn touch(&mut self, slot: u32) -> &mut Open {
        let at = self.opened(slot);
        let open = &mut self.open[at];
        if !open.may_be_empty {
            open.may_be_empty = true;
            self.touched.push(slot);
        }
        open.changed = true;
        if self.watched.is_on && self.watched.slots.last() != Some(&slot) {
            self.watched.slots.push(slot);
        }
        open
    }

    /// Starts or stops recording the groups that change.
    pub fn watch(&mut self, is_on: bool) {
        self.watched = Watched {
            is_on,
            ..Watched::default()
        };
    }

    /// Returns true if the groups that change are recorded.
    pub fn is_watched(&self) -> bool {
        self.watched.is_on
    }

    /// Returns the number of changes that are recorded.
    pub fn watched(&self) -> usize {
        self.watched.slots.len()
    }

    /// Returns the slots of the groups that changed since the last call.
    pub fn take_watched(&mut self) -> Vec<u32> {
        self.watched.earlier = 0;
        let mut slots = std::mem::take(&mut self.watched.slots);
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// Returns the slots of the open groups that this command changed, and no longer returns them from
    /// [`Groups::take_watched`].
    pub fn take_watched_open(&mut self) -> SmallVec<[u32; OPEN]> {
        let Watched { slots, earlier, .. } = &mut self.watched;
        let (mut open, mut kept) = (SmallVec::new(), *earlier);
        for at in *earlier..slots.len() {
            let slot = slots[at];
            if !self.slots.contains(&slot) {
                slots[kept] = slot;
                kept += 1;
            } else if !open.contains(&slot) {
                open.push(slot);
            }
        }
        slots.truncate(kept);
        *earlier = kept;
        open
    }

    /// Returns the record of a group, which the caller changes. The caller logs the change in
    /// another way.
    pub fn change_quietly(&mut self, slot: u32) -> &mut Record {
        &mut self.touch(slot).record
    }

    /// Calls `each` with the groups that changed since the previous call of this function.
    pub fn take_unlogged(&mut self, mut each: impl FnMut(&Open)) {
        let mut pending = std::mem::take(&mut self.pending);
        pending.sort_unstable();
        pending.dedup();
        for slot in pending {
            match self.position(slot) {
                Some(at) => {
                    // The group may have become empty before it was closed and opened again.
                    self.touched.push(slot);
                    let open = &mut self.open[at];
                    open.may_be_empty = true;
                    open.unlogged = false;
                    each(open);
                }
                None => {
                    let open = self.read(slot);
                    each(&open);
                    self.close(open);
                }
            }
        }
        for &slot in &self.touched {
            if let Some(at) = self.position(slot)
                && std::mem::take(&mut self.open[at].unlogged)
            {
                each(&self.open[at]);
            }
        }
    }

    /// Ends an entry of a log that is being applied. Does not log anything, and keeps empty groups until
    /// the end of the log.
    pub fn end_entry(&mut self) {
        self.take_unlogged(|_| {});
        let mut touched = std::mem::take(&mut self.touched);
        for slot in touched.drain(..) {
            if let Some(at) = self.position(slot) {
                self.open[at].may_be_empty = false;
            }
        }
        self.touched = touched;
    }

    /// Removes the open groups that have become empty.
    pub fn close_empty(&mut self) {
        let mut touched = std::mem::take(&mut self.touched);
        for slot in touched.drain(..) {
            let Some(at) = self.position(slot) else {
                continue;
            };
            let open = &mut self.open[at];
            let is_changed = std::mem::take(&mut open.may_be_empty);
            if is_changed && open.record.is_empty() && matches!(open.place, Place::Nowhere) {
                self.close_at(at);
            }
        }
        self.touched = touched;
    }

    /// Writes all open groups back.
    pub fn close_all(&mut self) {
        self.hashes.clear();
        self.slots.clear();
        self.touched.clear();
        self.last = 0;
        for open in std::mem::take(&mut self.open) {
            self.close(open);
        }
    }

    fn close(&mut self, mut open: Box<Open>) {
        self.store(&mut open);
        open.place = Place::Nowhere;
        self.spare = Some(open);
    }

    /// Writes a group back before it is closed, or removes it if it is empty.
    fn store(&mut self, open: &mut Open) {
        let slot = open.slot;
        let is_empty = open.record.is_empty() && matches!(open.place, Place::Nowhere);
        if open.unlogged {
            self.pending.push(slot);
        } else if is_empty && !self.pending.contains(&slot) {
            self.table.remove(self.short_hash(&open.id), slot);
            let block = self.blocks.get_mut(slot as usize).expect("a slot in use");
            self.bytes -= class(block.len());
            *block = Box::default();
            self.free.push(slot);
            self.len -= 1;
            return;
        }
        if !open.changed {
            return;
        }
        if let Place::Block(at) = open.place {
            open.place = Place::Here(self.unpack(slot, at, open.base));
        }
        let stock = match std::mem::replace(&mut open.place, Place::Nowhere) {
            Place::Here(stock) => Some(stock),
            _ => None,
        };
        if let Some(stock) = self.put(open, stock) {
            self.apart.insert(slot, stock);
        }
    }

    /// Writes the block of a group. If the group has too many URIs for the block, returns the URIs.
    fn put(&mut self, open: &Open, stock: Option<Box<Stock>>) -> Option<Box<Stock>> {
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        put_bytes(&mut bytes, &open.id);
        open.record.write(&mut bytes);
        let apart = stock.filter(|stock| !stock.put(open.record.group.due, &mut bytes));
        let block = self
            .blocks
            .get_mut(open.slot as usize)
            .expect("a slot in use");
        if block.len() == bytes.len() {
            block.copy_from_slice(&bytes);
        } else {
            self.bytes = self.bytes - class(block.len()) + class(bytes.len());
            *block = bytes[..].into();
        }
        self.scratch = bytes;
        apart
    }

    /// Returns the URIs kept for a group.
    #[inline]
    pub fn stock(&mut self, slot: u32) -> Option<&mut Stock> {
        let at = self.opened(slot);
        if let Place::Block(from) = self.open[at].place {
            let stock = self.unpack(slot, from, self.open[at].base);
            self.open[at].place = Place::Here(stock);
        }
        match &mut self.open[at].place {
            Place::Here(stock) => Some(stock),
            Place::Apart => self.apart.get_mut(&slot).map(|stock| &mut **stock),
            Place::Nowhere | Place::Block(_) => None,
        }
    }

    /// Calls `look` with the URIs kept for a group, without opening it.
    pub fn look_at_stock<T>(&self, slot: u32, look: impl FnOnce(&Stock) -> T) -> Option<T> {
        self.look(slot, |open| match &open.place {
            Place::Nowhere => None,
            Place::Here(stock) => Some(look(stock)),
            Place::Apart => self.apart.get(&slot).map(|stock| look(stock)),
            Place::Block(at) => Some(look(&self.unpack(slot, *at, open.base))),
        })
    }

    /// Stores URIs of a group that had no stored URIs.
    pub fn add_stock(&mut self, slot: u32, stock: Stock) {
        let at = self.opened(slot);
        let open = &mut self.open[at];
        open.place = Place::Here(Box::new(stock));
        open.changed = true;
    }

    /// Records that the URIs of a group changed. If no URI is left, removes and returns the empty
    /// container.
    pub fn changed_stock(&mut self, slot: u32) -> Option<Box<Stock>> {
        let open = self.touch(slot);
        if matches!(&open.place, Place::Here(stock) if !stock.uris.is_empty()) {
            return None;
        }
        let at = self.opened(slot);
        let open = &mut self.open[at];
        match std::mem::replace(&mut open.place, Place::Nowhere) {
            Place::Here(stock) if stock.uris.is_empty() => Some(stock),
            Place::Apart => {
                let stock = self.apart.get(&slot)?;
                if stock.uris.is_empty() {
                    return self.apart.remove(&slot);
                }
                if stock.uris.is_small(PACKED_BYTES / 2) {
                    open.place = Place::Here(self.apart.remove(&slot)?);
                } else {
                    open.place = Place::Apart;
                }
                None
            }
            place => {
                open.place = place;
                None
            }
        }
    }

    /// Returns the memory use in bytes.
    pub fn memory(&self) -> usize {
        let apart = self.apart.values();
        let uris: usize = apart.map(|stock| stock.uris.memory() + 128).sum();
        self.blocks.memory() + self.free.memory() + self.table.memory() + self.bytes + uris
    }

    /// Moves memory of a slot to reduce fragmentation. Returns the next slot, or `None` at the end.
    pub fn defrag(&mut self, slot: u64, mover: &mut Mover<'_>) -> Option<u64> {
        let at = slot as usize;
        if let Some(stock) = self.apart.get_mut(&(slot as u32)) {
            self.moved = stock.uris.defrag(self.moved, mover);
            if self.moved != 0 {
                return Some(slot);
            }
        }
        if let Some(list) = self.blocks.block_from(at) {
            mover.list(list);
        }
        if let Some(block) = self.blocks.get_mut(at) {
            mover.boxed(block);
        }
        if let Some(piece) = self.table.piece(at) {
            mover.list(piece);
        }
        let end = self.blocks.len().max(self.table.pieces());
        (at + 1 < end).then_some(slot + 1)
    }

    /// Returns the number of memory blocks. Counts unused numbers of groups, too, because freeing a million of them
    /// takes milliseconds. Among the groups with many URIs, only the first few are counted.
    pub fn pieces(&self) -> usize {
        let some = self.apart.values().take(SAMPLED);
        let open = self.open.iter().filter_map(|open| match &open.place {
            Place::Here(stock) => Some(stock),
            _ => None,
        });
        let uris: usize = some.chain(open).map(|stock| stock.uris.free_effort()).sum();
        self.end() as usize + self.table.pieces() + uris
    }
}
