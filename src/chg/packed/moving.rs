//! Storage conversions of a frontier, step by step. An interrupted conversion continues from any point, and can be
//! reversed.

use crawlspace_host::keyspace::{Batch, KeyError, KeyType, Keyspace, Result};

use super::super::group::Id;
use super::super::keys::{GATE, GATED, GROUP, OF, ONCE, SEQUENCE, URIS};
use super::super::store::Store;
use super::both::{Both, BothName, Home, MOVING, Two};
use super::name::Part;
use super::{Moving, mixed};
use crate::storage::Storage;

/// Maximum number of elements that a step moves.
const STEP: u64 = 16;

/// The part that is moved next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Next {
    /// Lists that exist once.
    #[default]
    Lists,
    /// Groups, and other keys that exist per group, gate or execution.
    Groups,
    /// The rest of the keys that exist once.
    Once,
}

/// The progress of a move.
pub struct Progress<C> {
    next: Next,
    /// Row of the table of keys that exist once.
    row: usize,
    /// Slot of the packed frontier.
    slot: u32,
    /// Number of the next execution of the packed frontier; `None` at the end.
    execution: Option<u32>,
    /// Scan of the names of all keys: names that were found, and the cursor, until the end.
    names: Vec<Vec<u8>>,
    keys: Option<C>,
    is_scanned: bool,
    /// Scan of one hash.
    fields: Vec<Vec<u8>>,
    hash: Option<C>,
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
        }
    }
}

/// The beginning of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// The frontier is in that storage already.
    There,
    /// An earlier move in the other direction has lists in two parts; `begin` must be called again.
    Joining,
    /// The move has begun just now, so that the names of all keys have changed.
    Now,
    /// The move was begun before.
    Before,
}

/// A key space whose frontier can be converted to the other storage.
pub trait Movable: Store {
    /// The progress of a move.
    type Progress: Default;

    /// Begins to move the frontier, or turns a move around.
    ///
    /// # Errors
    /// `MIXED` if a plain key is where a key of the unpacked frontier would be; any error of the server.
    fn begin(&mut self, prefix: &[u8], to: Storage) -> Result<Begun>;
    /// Returns the number of places in ordered queues that the packed frontier has.
    ///
    /// # Errors
    /// Any error of the server.
    fn packed_places(&mut self) -> Result<u64>;
    /// Moves some elements, and counts the groups among them; returns true if everything has moved.
    ///
    /// # Errors
    /// Any error of the server.
    fn step(&mut self, progress: &mut Self::Progress, groups: &mut u64) -> Result<bool>;
    /// Ends the move; all names change. Returns true if counts may be wrong, because plain clients had damaged groups.
    ///
    /// # Errors
    /// Any error of the server.
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

    fn step(&mut self, progress: &mut Self::Progress, groups: &mut u64) -> Result<bool> {
        match progress.next {
            Next::Lists => {
                if self.lists_step()? {
                    progress.next = Next::Groups;
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
        let prefix = change.prefix;
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

    /// Returns the names of a key, given by its name after the prefix.
    fn two(&mut self, name: &[u8]) -> Two<P::Name> {
        let prefix = self.prefix();
        let kinds = [GROUP, URIS, OF, GATE, GATED, SEQUENCE];
        let of_one = kinds
            .iter()
            .find_map(|kind| Some((kind.before, kind.id(name)?)));
        let made = match of_one {
            Some((before, id)) => self.name(&[&prefix, before, id]),
            None => self.name(&[&prefix, name]),
        };
        match made {
            BothName::Two(two) => *two,
            BothName::One(_) => unreachable!("the frontier is moving"),
        }
    }

    /// Joins the lists that are in two parts; returns true once every list is in one part.
    fn join_lists(&mut self) -> Result<bool> {
        let mut names = self.with(|packed| packed.list_names())?;
        names.extend(LISTS.map(<[u8]>::to_vec));
        for name in names {
            let key = self.two(&name);
            for moved in 0.. {
                let (head, tail) = self.list_lens(&key)?;
                if head == 0 || tail == 0 {
                    break;
                }
                if moved == STEP {
                    return Ok(false);
                }
                self.bring_element(&key)?;
            }
        }
        Ok(true)
    }

    /// Moves elements of the lists that exist once; returns true at the end.
    fn lists_step(&mut self) -> Result<bool> {
        for name in LISTS {
            let key = self.two(name);
            if !self.bring_elements(&key)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Moves some elements of a list; returns true at the end.
    fn bring_elements(&mut self, key: &Two<P::Name>) -> Result<bool> {
        for _ in 0..STEP {
            if !self.bring_element(key)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Moves a part of the plain keys that exist per group, gate or execution; returns true at the end.
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
            *groups += u64::from(self.bring(id)?);
            true
        } else if OF
            .id(&name)
            .or(GATE.id(&name))
            .or(SEQUENCE.id(&name))
            .is_some()
        {
            let key = self.two(&name);
            self.hash_step(&key, progress, groups)?
        } else if GATED.id(&name).is_some() {
            let key = self.two(&name);
            match self.bring_elements(&key) {
                // A key of another program.
                Err(KeyError::WrongType { .. }) => true,
                is_done => is_done?,
            }
        } else {
            true
        };
        if is_done {
            progress.names.pop();
        }
        Ok(false)
    }

    /// Moves some fields of a plain hash; returns true if none is left.
    fn hash_step(
        &mut self,
        key: &Two<P::Name>,
        progress: &mut Progress<P::Cursor>,
        groups: &mut u64,
    ) -> Result<bool> {
        if let Some(field) = progress.fields.pop() {
            if key.part == Part::Of {
                // The packed frontier knows the groups of an execution from the groups themselves.
                *groups += u64::from(self.bring(&field)?);
                self.parts().0.hash_del(key.plain(), &field)?;
            } else {
                self.bring_field(key, &field)?;
            }
            return Ok(false);
        }
        let (plain, _) = self.parts();
        match plain.hash_len(key.plain()) {
            // A key of another program.
            Err(KeyError::WrongType { .. }) => return Ok(true),
            Ok(0) => {
                progress.hash = None;
                return Ok(true);
            }
            len => len?,
        };
        let cursor = progress.hash.get_or_insert_with(|| plain.cursor());
        let mut batch = Batch::default();
        if !plain.hash_scan(key.plain(), cursor, &mut batch)? {
            progress.hash = None;
        }
        progress
            .fields
            .extend(batch.iter().map(|(field, _)| field.to_vec()));
        Ok(false)
    }

    /// Moves a part of a plain key that exists once; returns true at the end.
    fn once_step(
        &mut self,
        name: &[u8],
        kind: KeyType,
        progress: &mut Progress<P::Cursor>,
        groups: &mut u64,
    ) -> Result<bool> {
        let key = self.two(name);
        match kind {
            KeyType::Hash => self.hash_step(&key, progress, groups),
            KeyType::List => Ok(!self.bring_element(&key)?),
            KeyType::String if key.part == Part::Total => Ok(true),
            KeyType::String => self.bring_number(&key).map(|()| true),
            KeyType::SortedSet => {
                let mut members = Batch::default();
                self.parts()
                    .0
                    .zset_range(key.plain(), 0, STEP, &mut members)?;
                for (member, _) in members.iter() {
                    let (plain, _) = self.parts();
                    let score = plain.zset_score(key.plain(), member)?;
                    if key.orders_groups() {
                        *groups += u64::from(self.bring(member)?);
                    } else if let Some(score) = score {
                        let key = BothName::Two(Box::new(key.clone()));
                        self.zset_add(&key, member, score)?;
                    }
                    // Written by another program.
                    self.parts().0.zset_del(key.plain(), member)?;
                }
                Ok(members.is_empty())
            }
            KeyType::Set | KeyType::Native(_) => Ok(true),
        }
    }

    /// Moves a group of the packed frontier; returns true at the end.
    fn slots_step(&mut self, progress: &mut Progress<P::Cursor>, groups: &mut u64) -> Result<bool> {
        let from = progress.slot;
        let Some((next, id)) = self.with(|packed| packed.next_group(from))? else {
            return Ok(true);
        };
        progress.slot = next;
        if !id.is_empty() {
            let id = Id::from_slice(&id);
            *groups += u64::from(self.bring(&id)?);
        }
        Ok(false)
    }

    /// Moves a part of everything else in the packed frontier; returns true at the end.
    fn rest_step(&mut self, progress: &mut Progress<P::Cursor>) -> Result<bool> {
        if let Some(number) = progress.execution {
            let (names, next) = self.with(|packed| packed.executions_from(number))?;
            progress.execution = next;
            let key = self.two(b"EIDC");
            for name in names {
                self.bring_field(&key, &name)?;
            }
            return Ok(false);
        }
        let prefix = self.prefix();
        let (plain, packed) = self.parts();
        let packed = packed.expect("the frontier is moving");
        for _ in 0..STEP {
            if !packed.with(|packed| packed.leave_small(plain, &prefix))?? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The lists that exist once.
const LISTS: [&[u8]; 2] = [b"chg_ready", b"chg_expired"];
