//! Groups that enter and leave a packed frontier as a whole, during a storage conversion.

use std::mem::take;

use super::super::Token;
use super::super::group::{FIELD_NAMES, Group, Id};
use super::super::uris::{Bytes, URI_BYTES, Uris};
use super::element::Element;
use super::groups::Stock;
use super::keys::{Packed, Value};
use super::log::Kind;
use super::name::Name;
use super::order::Order;
use super::record::{Record, SETS};
use super::spelling::Spelling;
use super::uris::{number_of, numbers};
use crate::texts::Texts;

/// Maximum number of queued URIs of a group that is translated as a whole. The number is lower in
/// tests.
const AT_ONCE: u64 = if cfg!(test) { 2 } else { 64 };

/// Number of URIs of a larger group that are translated at a time. The number is lower in tests.
const PART: usize = if cfg!(test) { 1 } else { 16 };

/// Number of elements of a list that are moved at a time.
pub(super) const HEAD: u64 = 16;

fn spelled(spelling: &Spelling, texts: &mut Texts, id: &[u8], uri: &[u8]) -> Bytes {
    let mut bytes = Vec::with_capacity(uri.len() + 1);
    spelling.learn(texts, id, uri);
    spelling.shorten(texts, id, uri, &mut bytes);
    Bytes::from_vec(bytes)
}

fn expanded(spelling: &Spelling, texts: &Texts, id: &[u8], uri: &[u8]) -> Bytes {
    let mut bytes = Vec::with_capacity(4 * uri.len() + 32);
    spelling.expand(texts, id, uri, &mut bytes);
    // A forged file can contain any URI, but a page only stores URIs of 1 to [`URI_BYTES`] bytes.
    bytes.truncate(URI_BYTES);
    if bytes.is_empty() {
        bytes.push(b'/');
    }
    Bytes::from_vec(bytes)
}

/// The state of a storage conversion.
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

/// A group as stored in plain keys, without its URIs.
#[derive(Clone, Debug, Default)]
pub struct Entering {
    /// The group.
    pub group: Group,
    /// The key of the group exists.
    pub exists: bool,
    /// Scores in `chg_wait`, `chg_busy` and `chg_idle`.
    pub scores: [Option<f64>; SETS],
    /// URIs that are counted without being stored, by execution.
    pub counts: Vec<(Vec<u8>, u64)>,
    /// Group of the lease that was granted with the last release.
    pub next: Option<Id>,
    /// Leases on kept URIs that were lost with the hash of the group.
    pub lost: Vec<Token>,
}

impl Packed {
    /// Returns the direction of the storage conversion that is in progress, if any.
    pub fn moving(&self) -> Moving {
        self.moving
    }

    /// Returns true if plain clients had damaged some of the groups that entered; counts may then be wrong.
    pub fn is_damaged(&self) -> bool {
        self.damaged
    }

    /// Begins or ends a storage conversion.
    pub fn set_moving(&mut self, moving: Moving, damaged: bool) {
        if (self.moving, self.damaged) != (moving, damaged) {
            (self.moving, self.damaged) = (moving, damaged);
            self.forget_agendas();
            let number = self.moving_number();
            self.log.begin(Kind::Moving).number(number);
        }
    }

    /// Logs that an element moved.
    pub fn log_move(&mut self, element: &Element<'_>) {
        element.write(&mut self.log);
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

    /// Returns the total number of members of `chg_wait`, `chg_busy` and `chg_idle`.
    pub(super) fn places(&self) -> u64 {
        self.sets.iter().map(Order::len).sum()
    }

    /// Returns true if the packed frontier contains a group. Ignores its positions in `chg_ready`, because the
    /// conversion moves this list separately.
    pub fn holds(&mut self, id: &[u8]) -> bool {
        let Some(slot) = self.groups.find(id) else {
            return false;
        };
        self.groups.get(slot).record.is_stored() || self.groups.stock(slot).is_some()
    }

    /// Adds a group that the packed frontier does not contain, and records whether its counts may
    /// be wrong.
    pub(super) fn enter(&mut self, id: &[u8], entering: Entering, damaged: bool) {
        self.damaged |= damaged;
        let slot = self.groups.enter(id);
        let counts = entering.counts.iter();
        let counts = counts
            .map(|(execution, n)| (self.executions.hold(execution), *n))
            .collect();
        let record = self.groups.change_quietly(slot);
        *record = Record {
            group: entering.group,
            exists: entering.exists,
            scores: entering.scores,
            counts,
            next: entering.next,
            listed: record.listed,
            entry: record.entry,
        };
        for (set, score) in entering.scores.into_iter().enumerate() {
            self.place(set, slot, None, score);
        }
    }

    /// Adds the URIs of a group that enters the packed frontier. The URIs of a large group are
    /// compressed later, in parts.
    pub(super) fn enter_uris(&mut self, id: &[u8], mut uris: Uris) {
        let slot = self.groups.enter(id);
        let texts = self.texts.get_mut();
        let first = uris.first().unwrap_or_default();
        let spelling = Spelling::new(texts, id, &first);
        if uris.queued() > AT_ONCE {
            uris.mix(true);
            self.groups.mixed.insert(slot);
        } else {
            uris.respell(&mut |uri| spelled(&spelling, texts, id, uri));
        }
        let stock = Stock {
            spelling,
            uris,
            is_crowd: true,
        };
        self.crowds += 1;
        self.groups.add_stock(slot, stock);
        self.name_executions(slot);
        self.tidy_stock(slot);
    }

    /// Removes the URIs of a group that leaves the packed frontier, and returns them in the form that clients
    /// use. The group must be removed afterwards.
    pub(super) fn leave_uris(&mut self, slot: u32) -> Option<Uris> {
        let id = Id::from_slice(self.groups.id(slot));
        let stock = self.groups.stock(slot)?;
        let held = numbers(stock);
        let mut uris = take(&mut stock.uris);
        let texts = self.texts.get_mut();
        let expand = &mut |uri: &[u8]| expanded(&stock.spelling, texts, &id, uri);
        if uris.is_mixed() {
            uris.end_unspelling(expand);
        } else {
            uris.respell(expand);
        }
        if !stock.is_crowd {
            uris.rename(&mut |stored| self.executions.name(number_of(stored)).into());
        }
        held.into_iter().for_each(|n| self.executions.release(n));
        self.tidy_stock(slot);
        (!uris.is_empty()).then_some(uris)
    }

    /// Translates some URIs of a large group to the form of the new storage. Returns true when all URIs are
    /// translated.
    pub(super) fn translate(&mut self, id: &[u8]) -> bool {
        let Some(slot) = self.groups.find(id) else {
            return true;
        };
        let texts = self.texts.get_mut();
        let Some(stock) = self.groups.stock(slot) else {
            return true;
        };
        let Stock { spelling, uris, .. } = stock;
        if self.moving == Moving::Out {
            if !uris.is_mixed() {
                if uris.queued() <= AT_ONCE {
                    return true;
                }
                uris.mix(false);
            }
            let is_done = uris.unspell(PART, &mut |uri| expanded(spelling, texts, id, uri));
            self.groups.mixed.insert(slot);
            self.tidy_stock(slot);
            return is_done;
        }
        let is_done =
            !uris.is_mixed() || uris.spell(PART, &mut |uri| spelled(spelling, texts, id, uri));
        if is_done {
            self.groups.mixed.remove(&slot);
        }
        self.tidy_stock(slot);
        is_done
    }

    /// Returns the id of a group whose URIs may be in two encodings.
    pub fn mixed_group(&mut self) -> Option<Id> {
        loop {
            let &slot = self.groups.mixed.first()?;
            let id = Id::from_slice(self.groups.id(slot));
            if !id.is_empty()
                && self
                    .groups
                    .stock(slot)
                    .is_some_and(|stock| stock.uris.is_mixed())
            {
                return Some(id);
            }
            self.groups.mixed.remove(&slot);
        }
    }

    /// Returns true if a group is so large that it must leave in parts.
    pub fn is_large(&mut self, id: &[u8]) -> bool {
        let Some(slot) = self.groups.find(id) else {
            return false;
        };
        let stock = self.groups.stock(slot);
        stock.is_some_and(|stock| stock.uris.queued() > AT_ONCE || stock.is_crowd)
    }

    /// Removes a group, but not its positions in `chg_ready`.
    pub(super) fn forget(&mut self, id: &[u8]) {
        let Some(slot) = self.groups.find(id) else {
            return;
        };
        if let Some(stock) = self.groups.stock(slot) {
            let held = numbers(stock);
            stock.uris = Uris::default();
            self.tidy_stock(slot);
            held.into_iter().for_each(|n| self.executions.release(n));
        }
        let record = self.groups.change_quietly(slot);
        let (listed, entry) = (record.listed, record.entry);
        let before = std::mem::replace(
            record,
            Record {
                listed,
                entry,
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

    /// Returns the id of the first group at or after a slot that the packed frontier contains, and
    /// the slot after it.
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

    /// Returns the id of the first group in the first sorted queue that is not empty.
    pub fn first_queued(&self) -> Option<Id> {
        let (_, slot) = self.sets.iter().find_map(|set| set.at(0))?;
        Some(Id::from_slice(self.groups.id(slot)))
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

    /// Returns the names of some executions with queued URIs, starting at this number, and the number at
    /// which to continue.
    pub fn executions_from(&self, number: u32) -> (Vec<Vec<u8>>, Option<u32>) {
        let (page, next) = self.executions.page(number, 16);
        let names = page.into_iter().map(|(name, _)| name.to_vec());
        (names.collect(), next)
    }

    /// Calls `bring` with the first element of the small parts. Returns `None` if there are no such
    /// elements.
    pub fn first_small<T>(
        &mut self,
        bring: impl FnOnce(&mut Packed, Element<'_>) -> T,
    ) -> Option<T> {
        let small = &self.small;
        if let Some(key) = small.lists.keys().next().cloned() {
            return Some(bring(self, Element::Head(&key, HEAD)));
        }
        if let Some((key, hash)) = small.hashes.iter().next() {
            let (key, (field, _)) = (key.clone(), hash.iter().next()?);
            let field = field.clone();
            return Some(bring(self, Element::Field(&key, &field)));
        }
        if let Some((key, sorted)) = small.sorted.iter().next() {
            let (key, (member, _)) = (key.clone(), sorted.iter().next()?);
            let member = member.to_vec();
            return Some(bring(self, Element::Member(&key, &member)));
        }
        let key = small.numbers.keys().next()?.clone();
        Some(bring(self, Element::Number(&key)))
    }

    /// Returns the names of lists other than `chg_ready`.
    pub fn list_names(&self) -> Vec<Vec<u8>> {
        self.small.lists.keys().map(|name| name.to_vec()).collect()
    }
}
