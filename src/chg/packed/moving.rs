//! Storage conversions of a frontier, step by step. An interrupted conversion continues from any point, and can be
//! reversed.

use crawlspace_host::keyspace::{Batch, KeyError, KeyType, Keyspace, Result};

use super::super::group::Id;
use super::super::keys::{GATE, GATED, GROUP, OF, ONCE, SEQUENCE, URIS};
use super::super::store::Store;
use super::both::{Both, BothName, Home};
use super::element::{Element, MOVING};
use super::moved::HEAD;
use super::{Moving, Packed, mixed};
use crate::storage::Storage;

/// Maximum number of elements that a step moves.
const STEP: u64 = 16;

/// The part that is moved next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Next {
    /// Lists that a frontier has only once.
    #[default]
    Lists,
    /// Groups in the sorted queues, in order, so that both storages find their positions quickly.
    Queues,
    /// Groups, and the other keys that exist for each group, gate or execution.
    Groups,
    /// The remaining keys that a frontier has only once.
    Once,
}

/// The progress of a conversion.
pub struct Progress<C> {
    next: Next,
    /// Row of the table of keys that exist once.
    row: usize,
    /// Slot of the packed frontier.
    slot: u32,
    /// Number of the next execution of the packed frontier; `None` at the end.
    execution: Option<u32>,
    /// Scan of the names of all keys: the names found so far, and the cursor, which is `None` after
    /// the scan.
    names: Vec<Vec<u8>>,
    keys: Option<C>,
    is_scanned: bool,
    /// Scan of one hash.
    fields: Vec<Vec<u8>>,
    hash: Option<C>,
    /// The scan of a list of groups is complete.
    is_listed: bool,
    /// A large group that leaves the packed frontier in parts.
    leaving: Option<Id>,
    /// Number of the next execution of the group.
    listed: u64,
}

impl<C> Default for Progress<C> {
    fn default() -> Self {
        Progress {
            next: Next::default(),
            row: 0,
            slot: 0,
            execution: Some(0),
            names: Vec::new(),
            keys: None,
            is_scanned: false,
            fields: Vec::new(),
            hash: None,
            is_listed: false,
            leaving: None,
            listed: 0,
        }
    }
}

/// The outcome of beginning a storage conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// The frontier already has that storage.
    There,
    /// An earlier conversion in the other direction left lists in two parts. `begin` must be called
    /// again.
    Joining,
    /// The conversion has just begun, so the names of all keys have changed.
    Now,
    /// The conversion had already begun.
    Before,
}

/// A key space whose frontier can be converted to the other storage.
pub trait Movable: Store {
    /// The progress of a conversion.
    type Progress: Default;

    /// Begins a storage conversion, or reverses the direction of a running one.
    ///
    /// # Errors
    /// `MIXED` if a plain key has the name of a key of the unpacked frontier; any server error.
    fn begin(&mut self, prefix: &[u8], to: Storage) -> Result<Begun>;
    /// Returns the number of positions in ordered queues that are still in the packed frontier.
    ///
    /// # Errors
    /// Any server error.
    fn packed_places(&mut self) -> Result<u64>;
    /// Moves some elements, and adds the number of groups among them to `groups`. Returns true if
    /// everything was moved.
    ///
    /// # Errors
    /// Any server error.
    fn step(&mut self, progress: &mut Self::Progress, groups: &mut u64) -> Result<bool>;
    /// Replicates the steps so far, before other code writes to plain keys.
    ///
    /// # Errors
    /// Any server error.
    fn flush(&mut self) -> Result<()>;
    /// Ends the conversion, which changes the names of all keys. Returns true if plain clients had damaged
    /// groups; counts may then be wrong.
    ///
    /// # Errors
    /// Any server error.
    fn finish(&mut self) -> Result<bool>;
}

impl<P: Store, H: Home<P>> Movable for Both<P, H> {
    type Progress = Progress<P::Cursor>;

    fn begin(&mut self, prefix: &[u8], to: Storage) -> Result<Begun> {
        match self.storage() {
            (storage, None) if storage == to => Ok(Begun::There),
            (_, None) => {
                self.begin_now(prefix, to)?;
                Ok(Begun::Now)
            }
            (_, Some(moving_to)) if moving_to == to => Ok(Begun::Before),
            (_, Some(_)) => {
                if !self.join_lists()? {
                    return Ok(Begun::Joining);
                }
                self.turn_to(to);
                self.with(|packed| packed.set_moving(direction(to), packed.is_damaged()))?;
                Ok(Begun::Now)
            }
        }
    }

    fn packed_places(&mut self) -> Result<u64> {
        self.with(|packed| packed.places())
    }

    fn flush(&mut self) -> Result<()> {
        let (_, packed) = self.parts();
        packed.map_or(Ok(()), Home::store)
    }

    fn step(&mut self, progress: &mut Self::Progress, groups: &mut u64) -> Result<bool> {
        if self.to() == Storage::Packed
            && let Some(id) = self.with(|packed| packed.mixed_group())?
        {
            self.bring(Element::Part(&id))?;
            return Ok(false);
        }
        match progress.next {
            Next::Lists => {
                if self.lists_step()? {
                    progress.next = Next::Queues;
                }
            }
            Next::Queues => {
                let is_done = match (self.to(), SETS.get(progress.row)) {
                    (Storage::Packed, Some(name)) => {
                        let kind = KeyType::SortedSet;
                        progress.row += usize::from(self.once_step(name, kind, progress, groups)?);
                        false
                    }
                    (Storage::Packed, None) => true,
                    (Storage::Plain, _) => self.queue_step(progress, groups)?,
                };
                if is_done {
                    (progress.next, progress.row) = (Next::Groups, 0);
                }
            }
            Next::Groups => {
                let is_done = match self.to() {
                    Storage::Packed => self.keys_step(progress, groups)?,
                    Storage::Plain => self.slots_step(progress, groups)?,
                };
                if is_done {
                    progress.next = Next::Once;
                }
            }
            Next::Once => match self.to() {
                Storage::Packed => {
                    let Some(row) = ONCE.get(progress.row) else {
                        return Ok(true);
                    };
                    if self.once_step(row.name.as_bytes(), row.kind, progress, groups)? {
                        progress.row += 1;
                    }
                }
                Storage::Plain => return self.rest_step(progress),
            },
        }
        Ok(false)
    }

    fn finish(&mut self) -> Result<bool> {
        let damaged = self.with(|packed| packed.is_damaged())?;
        let change = self.take_change();
        let prefix = change.names.prefix;
        let (plain, packed) = self.parts();
        if change.to == Storage::Packed {
            let total = plain.name(&[&prefix, MOVING, b"QCT"]);
            plain.delete(&total)?;
            if let Some(packed) = packed {
                packed.with(|packed| packed.set_moving(Moving::No, false))?;
            }
            return Ok(damaged);
        }
        if let Some(packed) = packed {
            packed.remove()?;
        }
        for row in ONCE.iter().filter(|row| row.documented) {
            let name = row.name.as_bytes();
            let moving = plain.name(&[&prefix, MOVING, name]);
            if plain.exists(&moving) {
                let documented = plain.name(&[&prefix, name]);
                plain.rename(&moving, &documented)?;
            }
        }
        self.drop_packed();
        Ok(damaged)
    }
}

/// Checks that a key of a plain frontier either has the given type or does not exist. The key of the packed frontier
/// must not exist.
fn check_type<P: Store>(plain: &mut P, key: &P::Name, kind: KeyType) -> Result<()> {
    match kind {
        KeyType::Hash => plain.hash_len(key).map(drop),
        KeyType::List => plain.list_len(key).map(drop),
        KeyType::SortedSet => plain.zset_len(key).map(drop),
        KeyType::String => plain.number(key).map(drop),
        KeyType::Set | KeyType::Native(_) if !plain.exists(key) => Ok(()),
        KeyType::Set | KeyType::Native(_) => Err(KeyError::WrongType {
            key: key.as_ref().to_vec(),
            needs: kind,
        }),
    }
}

fn direction(to: Storage) -> Moving {
    match to {
        Storage::Packed => Moving::In,
        Storage::Plain => Moving::Out,
    }
}

/// A step of a move.
impl<P: Store, H: Home<P>> Both<P, H> {
    fn begin_now(&mut self, prefix: &[u8], to: Storage) -> Result<()> {
        let (plain, _) = self.parts();
        match to {
            Storage::Packed => {
                for row in ONCE {
                    let key = plain.name(&[prefix, row.name.as_bytes()]);
                    check_type(plain, &key, row.kind)?;
                }
                let home = H::open(plain, prefix);
                for row in ONCE.iter().filter(|row| row.documented) {
                    let name = row.name.as_bytes();
                    let documented = plain.name(&[prefix, name]);
                    if plain.exists(&documented) {
                        let moving = plain.name(&[prefix, MOVING, name]);
                        plain.rename(&documented, &moving)?;
                    }
                }
                self.put_packed(home);
            }
            Storage::Plain => {
                for row in ONCE {
                    let key = plain.name(&[prefix, row.name.as_bytes()]);
                    let is_own = row.documented || matches!(row.kind, KeyType::Native(_));
                    if !is_own && plain.exists(&key) {
                        return Err(mixed(key.as_ref()));
                    }
                }
            }
        }
        self.begin_change(prefix, to);
        self.with(|packed| packed.set_moving(direction(to), false))?;
        let (_, packed) = self.parts();
        packed.map_or(Ok(()), Home::store)
    }

    /// Joins the lists that are in two parts. Returns true once every list is in one part.
    fn join_lists(&mut self) -> Result<bool> {
        let mut names = self.with(|packed| packed.list_names())?;
        names.extend(LISTS.map(<[u8]>::to_vec));
        for name in names {
            if !self.is_joined(&name)? && self.bring(Element::Head(&name, HEAD))? == HEAD {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns true if only one storage contains elements of the list.
    fn is_joined(&mut self, name: &[u8]) -> Result<bool> {
        let prefix = self.prefix();
        let parts: [&[u8]; 3];
        let key = match GATED.id(name) {
            Some(id) => {
                parts = [&prefix, GATED.before, id];
                self.name(&parts)
            }
            None => self.name(&[&prefix, name]),
        };
        let BothName::Two(two) = key else {
            return Ok(true);
        };
        let (head, tail) = self.list_lens(&two)?;
        Ok(head == 0 || tail == 0)
    }

    /// Moves elements of the lists that exist once per frontier ([`LISTS`]). Returns true when all elements
    /// are moved.
    fn lists_step(&mut self) -> Result<bool> {
        for name in LISTS {
            if self.bring(Element::Head(name, HEAD))? == HEAD {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Moves a part of the plain keys that exist per group, gate or execution. Returns true at the end.
    fn keys_step(&mut self, progress: &mut Progress<P::Cursor>, groups: &mut u64) -> Result<bool> {
        let Some(name) = progress.names.last().cloned() else {
            if progress.is_scanned {
                return Ok(true);
            }
            let prefix = self.prefix();
            let (plain, _) = self.parts();
            let cursor = progress.keys.get_or_insert_with(|| plain.cursor());
            let mut batch = Batch::default();
            progress.is_scanned = !plain.keys_scan(&prefix, cursor, &mut batch);
            let names = batch.iter().map(|(key, _)| key[prefix.len()..].to_vec());
            progress.names.extend(names);
            return Ok(false);
        };
        let group = GROUP
            .id(&name)
            .or(URIS.id(&name))
            .filter(|id| !id.is_empty());
        let is_done = if let Some(id) = group {
            *groups += self.bring(Element::Group(id))?;
            true
        } else if OF.id(&name).is_some() {
            self.list_step(&name, progress, groups)?
        } else if GATE.id(&name).or(SEQUENCE.id(&name)).is_some() {
            self.hash_step(&name, progress)?
        } else if GATED.id(&name).is_some() {
            match self.bring(Element::Head(&name, HEAD)) {
                // Another program created this key.
                Err(KeyError::WrongType { .. }) => true,
                moved => moved? < HEAD,
            }
        } else {
            true
        };
        if is_done {
            progress.names.pop();
        }
        Ok(false)
    }

    /// Returns the name of a plain key, given by its name after the prefix.
    fn plain_name(&mut self, name: &[u8]) -> Result<P::Name> {
        self.move_with(|plain, _| Ok(plain.named(name)))
    }

    /// Reads some fields of a plain hash that is being moved. Returns false if no field is left.
    fn scan_hash(&mut self, key: &P::Name, progress: &mut Progress<P::Cursor>) -> Result<bool> {
        let (plain, _) = self.parts();
        match plain.hash_len(key) {
            // Another program created this key.
            Err(KeyError::WrongType { .. }) => return Ok(false),
            len => len?,
        };
        let cursor = progress.hash.get_or_insert_with(|| plain.cursor());
        let mut batch = Batch::default();
        let more = plain.hash_scan(key, cursor, &mut batch)?;
        let fields = batch.iter().map(|(field, _)| field.to_vec());
        progress.fields.extend(fields);
        Ok(more)
    }

    /// Moves the groups in the list of an execution. A packed frontier has no such list, because each group
    /// stores its executions. Therefore, this step also deletes the list. Returns true at the end.
    fn list_step(
        &mut self,
        name: &[u8],
        progress: &mut Progress<P::Cursor>,
        groups: &mut u64,
    ) -> Result<bool> {
        for _ in 0..STEP {
            let Some(id) = progress.fields.pop() else {
                break;
            };
            *groups += self.bring(Element::Group(&id))?;
        }
        if !progress.fields.is_empty() {
            return Ok(false);
        }
        let key = self.plain_name(name)?;
        if progress.is_listed {
            progress.is_listed = false;
            progress.hash = None;
            let (plain, _) = self.parts();
            return match plain.hash_len(&key) {
                Err(KeyError::WrongType { .. }) => Ok(true),
                _ => plain.delete(&key).map(|_| true),
            };
        }
        progress.is_listed = !self.scan_hash(&key, progress)?;
        Ok(false)
    }

    /// Moves some fields of a plain hash. Returns true if no field is left.
    fn hash_step(&mut self, name: &[u8], progress: &mut Progress<P::Cursor>) -> Result<bool> {
        if let Some(field) = progress.fields.pop() {
            self.bring(Element::Field(name, &field))?;
            return Ok(false);
        }
        let key = self.plain_name(name)?;
        if self.parts().0.hash_len(&key).unwrap_or(0) == 0 {
            progress.hash = None;
            return Ok(true);
        }
        if !self.scan_hash(&key, progress)? {
            progress.hash = None;
        }
        Ok(false)
    }

    /// Moves a part of a plain key that exists once per frontier. Returns true at the end.
    fn once_step(
        &mut self,
        name: &[u8],
        kind: KeyType,
        progress: &mut Progress<P::Cursor>,
        groups: &mut u64,
    ) -> Result<bool> {
        match kind {
            KeyType::Hash => self.hash_step(name, progress),
            KeyType::List => Ok(self.bring(Element::Head(name, HEAD))? < HEAD),
            KeyType::String if name == b"QCT" => Ok(true),
            KeyType::String => self.bring(Element::Number(name)).map(|_| true),
            KeyType::SortedSet => {
                let key = self.plain_name(name)?;
                let orders_groups = SETS.contains(&name);
                let mut members = Batch::default();
                self.parts().0.zset_range(&key, 0, STEP, &mut members)?;
                for (member, _) in members.iter() {
                    if orders_groups {
                        *groups += self.bring(Element::Group(member))?;
                        // Another program added this member.
                        self.parts().0.zset_del(&key, member)?;
                    } else {
                        self.bring(Element::Member(name, member))?;
                    }
                }
                Ok(members.is_empty())
            }
            KeyType::Set | KeyType::Native(_) => Ok(true),
        }
    }

    /// Moves the first group of a sorted queue of the packed frontier, or a part of this group. Returns true at
    /// the end.
    fn queue_step(&mut self, progress: &mut Progress<P::Cursor>, groups: &mut u64) -> Result<bool> {
        let id = match progress.leaving.take() {
            Some(id) => Some(id),
            None => self.with(|packed| packed.first_queued())?,
        };
        let Some(id) = id else {
            return Ok(true);
        };
        *groups += self.leave(id, progress)?;
        Ok(false)
    }

    /// Moves a group of the packed frontier, or a part of this group. Returns true at the end.
    fn slots_step(&mut self, progress: &mut Progress<P::Cursor>, groups: &mut u64) -> Result<bool> {
        if let Some(id) = progress.leaving.take() {
            *groups += self.leave(id, progress)?;
            return Ok(false);
        }
        let from = progress.slot;
        let Some((next, id)) = self.with(|packed| packed.next_group(from))? else {
            return Ok(true);
        };
        progress.slot = next;
        if !id.is_empty() {
            *groups += self.leave(id, progress)?;
        }
        Ok(false)
    }

    /// Moves a group, or a part of it. Returns the number of groups that were moved.
    fn leave(&mut self, id: Id, progress: &mut Progress<P::Cursor>) -> Result<u64> {
        if self.with(|packed| packed.is_large(&id))? && !self.prepare(&id, progress)? {
            progress.leaving = Some(id);
            return Ok(0);
        }
        progress.listed = 0;
        self.bring(Element::Group(&id))
    }

    /// Prepares a part of a large group for plain storage. Returns true once the group can be
    /// moved.
    fn prepare(&mut self, id: &[u8], progress: &mut Progress<P::Cursor>) -> Result<bool> {
        if self.bring(Element::Part(id))? > 0 {
            return Ok(false);
        }
        progress.listed = self.bring(Element::Listed(id, progress.listed))?;
        Ok(progress.listed == 0)
    }

    /// Moves some of the remaining elements of the packed frontier. Returns true at the end.
    fn rest_step(&mut self, progress: &mut Progress<P::Cursor>) -> Result<bool> {
        if let Some(number) = progress.execution {
            let (names, next) = self.with(|packed| packed.executions_from(number))?;
            progress.execution = next;
            for name in names {
                self.bring(Element::Field(b"EIDC", &name))?;
            }
            return Ok(false);
        }
        for _ in 0..STEP {
            let moved = self.move_with(|plain, packed| {
                let bring = |packed: &mut Packed, element: Element<'_>| {
                    plain.bring_logged(packed, &element).map(drop)
                };
                packed.first_small(bring).transpose()
            })?;
            if moved.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The sorted sets of groups.
const SETS: [&[u8]; 3] = [b"chg_wait", b"chg_busy", b"chg_idle"];

/// The lists that exist once per frontier, instead of once for each group or gate.
const LISTS: [&[u8]; 2] = [b"chg_ready", b"chg_expired"];
