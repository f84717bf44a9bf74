//! Groups that enter and leave a packed frontier as a whole, during a storage conversion.

use std::mem::take;

use crawlspace_host::keyspace::Result;

use super::super::Token;
use super::super::group::{FIELD_NAMES, Group, Id};
use super::super::store::Store;
use super::super::uris::Uris;
use super::keys::{Packed, Value, numbers};
use super::log::Kind;
use super::name::Name;
use super::order::Order;
use super::record::{Record, SETS};
use super::unpack::Plain;

/// A storage conversion that is not complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Moving {
    /// The frontier is packed as a whole.
    #[default]
    No,
    /// The frontier moves from plain keys to the packed value.
    In,
    /// The frontier moves from the packed value to plain keys.
    Out,
}

/// A group as plain keys have it, without its URIs.
#[derive(Clone, Debug, Default)]
pub struct Entering {
    /// The group.
    pub group: Group,
    /// The key of the group exists.
    pub exists: bool,
    /// Scores in `chg_wait`, `chg_busy` and `chg_idle`.
    pub scores: [Option<f64>; SETS],
    /// URIs that are counted without being kept, by execution.
    pub counts: Vec<(Vec<u8>, u64)>,
    /// Group of the lease that the last release took.
    pub next: Option<Id>,
    /// Leases of kept URIs that were lost with the hash of the group.
    pub lost: Vec<Token>,
}

impl Packed {
    /// Returns the storage conversion that is not complete.
    pub fn moving(&self) -> Moving {
        self.moving
    }

    /// Returns true if the last groups that entered had been damaged by plain clients, so that counts may be wrong.
    pub fn is_damaged(&self) -> bool {
        self.damaged
    }

    /// Begins or ends a storage conversion.
    pub fn set_moving(&mut self, moving: Moving, damaged: bool) {
        if (self.moving, self.damaged) != (moving, damaged) {
            (self.moving, self.damaged) = (moving, damaged);
            let number = self.moving_number();
            self.log.begin(Kind::Moving).number(number);
        }
    }

    pub(super) fn moving_number(&self) -> u64 {
        self.moving as u64 | u64::from(self.damaged) << 2
    }

    pub(super) fn apply_moving(&mut self, number: u64) {
        self.damaged = number & 4 != 0;
        self.moving = match number & 3 {
            1 => Moving::In,
            2 => Moving::Out,
            _ => Moving::No,
        };
    }

    /// Returns the number of places in `chg_wait`, `chg_busy` and `chg_idle`.
    pub(super) fn places(&self) -> u64 {
        self.sets.iter().map(Order::len).sum()
    }

    /// Returns true if a group is here. Its places in `chg_ready` do not count, because this list moves by itself.
    pub fn holds(&mut self, id: &[u8]) -> bool {
        let Some(slot) = self.groups.find(id) else {
            return false;
        };
        self.groups.get(slot).record.is_stored() || self.groups.stock(slot).is_some()
    }

    /// Adds a group that is not here.
    pub fn enter(&mut self, id: &[u8], entering: Entering) {
        let slot = self.groups.enter(id);
        let counts = entering.counts.iter();
        let counts = counts
            .map(|(execution, n)| (self.executions.hold(execution), *n))
            .collect();
        let record = &mut self.groups.change(slot).record;
        *record = Record {
            group: entering.group,
            exists: entering.exists,
            scores: entering.scores,
            counts,
            next: entering.next,
            listed: record.listed,
        };
        for (set, score) in entering.scores.into_iter().enumerate() {
            self.place(set, slot, None, score);
        }
    }

    /// Adds a chunk of URIs of a group that enters.
    pub fn enter_uris(&mut self, id: &[u8], chunk: &[u8]) {
        if self.load_uris(id, chunk).is_ok() {
            self.log.begin(Kind::Load).name(id).bytes(chunk);
        }
    }

    /// Writes a group to plain keys, and removes it.
    ///
    /// # Errors
    /// Any error of the server.
    pub(super) fn leave<K: Store>(&mut self, id: &[u8], plain: &mut Plain<'_, K>) -> Result<()> {
        if let Some(slot) = self.groups.find(id) {
            plain.group(self, slot)?;
            self.forget(id);
            self.log.begin(Kind::Forget).name(id);
        }
        Ok(())
    }

    /// Removes a group, but not its places in `chg_ready`.
    pub(super) fn forget(&mut self, id: &[u8]) {
        let Some(slot) = self.groups.find(id) else {
            return;
        };
        if let Some(stock) = self.groups.stock(slot) {
            let held = numbers(&stock.uris);
            stock.uris = Uris::default();
            self.tidy_stock(slot);
            held.into_iter().for_each(|n| self.executions.release(n));
        }
        let record = self.groups.change_quietly(slot);
        let listed = record.listed;
        let before = std::mem::replace(
            record,
            Record {
                listed,
                ..Record::default()
            },
        );
        for (number, _) in before.counts {
            self.executions.release(number);
        }
        for (set, score) in before.scores.into_iter().enumerate() {
            self.place(set, slot, score, None);
        }
    }

    /// Returns the slot of the first group from a slot on that is here, and the slot after it.
    pub fn next_group(&mut self, from: u32) -> Option<(u32, Id)> {
        for slot in from..self.groups.end() {
            let id = Id::from_slice(self.groups.id(slot));
            if !id.is_empty() && self.holds(&id) {
                return Some((slot + 1, id));
            }
            if slot - from >= 64 {
                return Some((slot + 1, Id::new()));
            }
        }
        None
    }

    /// Returns a field of the hash that a group would have.
    pub fn group_field(&mut self, key: &Name, field: &[u8]) -> Option<Value> {
        match FIELD_NAMES.iter().position(|name| *name == field) {
            Some(at) => {
                let slot = self.groups.find(key.id())?;
                take(&mut self.groups.get(slot).record.own_values()[at])
            }
            None => self.hash_get(key, field),
        }
    }

    /// Returns true if a number is stored under this name.
    pub fn has_number(&self, key: &Name) -> bool {
        self.small.numbers.contains_key(key.own())
    }

    /// Returns the names of some executions with queued URIs from a number on, and the number to continue from.
    pub fn executions_from(&self, number: u32) -> (Vec<Vec<u8>>, Option<u32>) {
        let (page, next) = self.executions.page(number, 16);
        let names = page.into_iter().map(|(name, _)| name.to_vec());
        (names.collect(), next)
    }

    /// Moves one entry of the small parts to plain keys; returns false if they are empty. Elements of lists are moved
    /// from the head.
    ///
    /// # Errors
    /// Any error of the server.
    pub fn leave_small<K: Store>(&mut self, ks: &mut K, prefix: &[u8]) -> Result<bool> {
        let small = &self.small;
        if let Some((key, list)) = small.lists.iter().next() {
            let element = list.iter().next().unwrap_or_default();
            let plain = ks.name(&[prefix, key]);
            ks.list_push(&plain, element)?;
            let name = Name::new(&[prefix, key]);
            self.list_take(&name, 0);
            return Ok(true);
        }
        if let Some((key, hash)) = small.hashes.iter().next() {
            let (field, value) = hash.iter().next().expect("hashes are not empty");
            let plain = ks.name(&[prefix, key]);
            ks.hash_set(&plain, field, value)?;
            let (name, field) = (Name::new(&[prefix, key]), field.clone());
            self.hash_del(&name, &field);
        } else if let Some((key, sorted)) = small.sorted.iter().next() {
            let (member, score) = sorted.iter().next().expect("sets are not empty");
            let plain = ks.name(&[prefix, key]);
            ks.zset_add(&plain, member, score)?;
            let (name, member) = (Name::new(&[prefix, key]), member.to_vec());
            self.set_del(&name, &member);
        } else if let Some((key, &n)) = small.numbers.iter().next() {
            let plain = ks.name(&[prefix, key]);
            ks.number_set(&plain, n)?;
            let name = Name::new(&[prefix, key]);
            self.delete(&name);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Returns the names of lists other than `chg_ready`.
    pub fn list_names(&self) -> Vec<Vec<u8>> {
        self.small.lists.keys().map(|name| name.to_vec()).collect()
    }
}
