//! Key space operations of a packed frontier. They return the same data as the keys of a plain frontier
//! would.

use std::cell::RefCell;

use smallvec::SmallVec;

use crawlspace_host::keyspace::Batch;
use crawlspace_host::text::{parse_unsigned, push_number};

use super::super::group::{Group, Id, Options};
use super::super::keys::COUNTED;
use super::super::known::Spaces;
use super::asked::Asked;
use super::executions::Executions;
use super::groups::Groups;
use super::log::{Kind, Log};
use super::moved::Moving;
use super::name::{Name, Part};
use super::order::Order;
use super::record::{Record, SETS};
use super::saved::Loading;
use super::small::Small;
use crate::texts::Texts;

/// A value read from a key.
pub type Value = SmallVec<[u8; 64]>;

/// Number of groups that one step of a scan visits.
const STEP: u32 = 128;

/// Hash with the number of leased URIs of each group minus the number of its leases.
const AWAY: &[u8] = b"chg_away";

/// Sorted set of the leases with a second deadline.
const LATER: &[u8] = b"chg_later";

/// Number of changed groups after which the agendas are updated without waiting for the next search. The number is
/// lower in tests.
const MAX_WATCHED: usize = if cfg!(test) { 4 } else { 64 };

/// A packed frontier.
#[derive(Clone, Default)]
pub struct Packed {
    pub(super) groups: Groups,
    /// `chg_wait`, `chg_busy`, `chg_idle`.
    pub(super) sets: [Order; SETS],
    pub(super) ready: Order,
    /// Number of the next entry of `chg_ready`.
    pub(super) pushed: u64,
    pub(super) executions: Executions,
    pub(super) texts: RefCell<Texts>,
    pub(super) small: Small,
    pub(super) log: Log,
    pub(super) moving: Moving,
    pub(super) known: Spaces,
    /// Current time, in units of ten minutes.
    pub(super) unit: u32,
    /// True if the log contains the secret key with which group ids are hashed.
    pub(super) is_announced: bool,
    /// True if groups with possibly wrong counts have entered the packed frontier.
    pub(super) damaged: bool,
    /// Number of groups that store executions by name.
    pub(super) crowds: u32,
    pub(super) loading: Loading,
    pub(super) asked: Asked,
}

/// Returns the set that a key represents.
fn set_of(key: &Name) -> Option<usize> {
    match key.part {
        Part::Wait => Some(0),
        Part::Busy => Some(1),
        Part::Idle => Some(2),
        _ => None,
    }
}

pub(super) fn number_text(n: u64) -> Value {
    let mut text = Value::new();
    push_number(&mut text, n);
    text
}

/// Returns the number of URIs of an execution that a group counts without storing them.
fn counted(executions: &Executions, record: &Record, execution: &[u8]) -> u64 {
    if record.counts.is_empty() {
        return 0;
    }
    let number = executions.find(execution);
    let mut counts = record.counts.iter();
    let found = number.and_then(|number| counts.find(|(of, _)| *of == number));
    found.map_or(0, |(_, n)| *n)
}

impl Packed {
    fn set_count(&mut self, slot: u32, execution: &[u8], n: u64) {
        let number = self.executions.find(execution);
        let record = &mut self.groups.change(slot).record;
        let at = number.and_then(|number| record.counts.iter().position(|(of, _)| *of == number));
        match (at, n) {
            (Some(at), 0) => {
                let (number, _) = record.counts.remove(at);
                self.executions.release(number);
            }
            (Some(at), n) => record.counts[at].1 = n,
            (None, 0) => {}
            (None, n) => {
                record.exists = true;
                let number = self.executions.hold(execution);
                self.groups.change(slot).record.counts.push((number, n));
            }
        }
    }

    /// Copies a group into a default group, which remains unchanged if the group does not exist. Returns the number
    /// of fields for the group itself that its hash would have.
    pub fn group(&mut self, key: &Name, group: &mut Group) -> u64 {
        let Some(slot) = self.groups.find(key.id()) else {
            return 0;
        };
        let record = &self.groups.get(slot).record;
        group.clone_from(&record.group);
        let fields = record.own_fields();
        group.away = self.away(key.id());
        fields
    }

    /// Returns the number of leased URIs of a group minus the number of its leases.
    pub(super) fn away(&self, id: &[u8]) -> u64 {
        let away = self.small.hashes.get(AWAY).and_then(|away| away.get(id));
        away.and_then(|away| parse_unsigned(away)).unwrap_or(0)
    }

    fn set_away(&mut self, id: &[u8], n: u64) {
        if n == self.away(id) {
            return;
        }
        if n == 0 {
            self.small.unset(AWAY, id);
            self.log.begin(Kind::Unset).bytes(AWAY).bytes(id);
        } else {
            let text = number_text(n);
            self.small.set(AWAY, id, &text);
            let log = self.log.begin(Kind::Set);
            log.bytes(AWAY).bytes(id).bytes(&text);
        }
    }

    /// Returns true if a lease has several URIs or a second deadline, which plain storage does not
    /// support.
    pub fn has_wide_leases(&self) -> bool {
        self.small.hashes.contains_key(AWAY) || self.has_later()
    }

    /// Returns true if a lease has a second deadline.
    pub fn has_later(&self) -> bool {
        self.small.sorted.contains_key(LATER)
    }

    /// Stores a group, and one additional field.
    pub fn put_group(&mut self, key: &Name, group: &Group, more: Option<(&[u8], &[u8])>) {
        self.set_away(key.id(), group.away);
        let slot = self.groups.enter(key.id());
        let stored = &self.groups.get(slot).record;
        let is_same = stored.exists && group.known && group.ours && stored.group == *group;
        // A command that changes nothing must not be replicated, or break a `WATCH`.
        if !is_same {
            let record = &mut self.groups.change(slot).record;
            record.group.clone_from(group);
            record.group.known = true;
            record.group.ours = true;
            record.exists = true;
        }
        if let Some((field, value)) = more {
            self.hash_set(key, field, value);
        }
    }

    /// Stores the options of a group that has no other data.
    pub fn put_options(&mut self, key: &Name, options: &Options) {
        let slot = self.groups.enter(key.id());
        let record = &mut self.groups.change(slot).record;
        record.group.options.clone_from(options);
        let are_set = *options != Options::default();
        record.exists |= are_set;
        record.group.known |= are_set;
        if !are_set && !record.group.ours && record.counts.is_empty() && record.next.is_none() {
            record.exists = false;
            record.group.known = false;
        }
    }

    /// Resets a group, and keeps only its options.
    pub fn reset_group(&mut self, key: &Name) {
        let Some(slot) = self.groups.find(key.id()) else {
            return;
        };
        self.set_away(key.id(), 0);
        let record = &mut self.groups.change(slot).record;
        let options = std::mem::take(&mut record.group.options);
        record.group = Group {
            known: true,
            options,
            ..Group::default()
        };
        record.next = None;
    }

    /// Returns true if the key exists.
    pub fn exists(&mut self, key: &Name) -> bool {
        match key.part {
            Part::Group => match self.groups.find(key.id()) {
                Some(slot) => self.groups.get(slot).record.exists,
                None => false,
            },
            _ => false,
        }
    }

    /// Deletes a key. Returns true if the key existed.
    pub fn delete(&mut self, key: &Name) -> bool {
        if key.part == Part::Group {
            let Some(slot) = self.groups.find(key.id()) else {
                return false;
            };
            self.set_away(key.id(), 0);
            let record = &mut self.groups.change(slot).record;
            record.group = Group::default();
            record.next = None;
            let counts = std::mem::take(&mut record.counts);
            let existed = std::mem::replace(&mut record.exists, false);
            for (number, _) in counts {
                self.executions.release(number);
            }
            return existed;
        }
        let existed = self.small.delete(key.own());
        if existed {
            self.asked.note_hash(key.own());
            self.log.begin(Kind::Delete).bytes(key.own());
        }
        existed
    }

    /// Returns a field of a hash.
    pub fn hash_get(&mut self, key: &Name, field: &[u8]) -> Option<Value> {
        match key.part {
            Part::Group => {
                let slot = self.groups.find(key.id())?;
                let open = self.groups.get(slot);
                if let Some(execution) = field.strip_prefix(COUNTED) {
                    let n = counted(&self.executions, &open.record, execution);
                    return (n > 0).then(|| number_text(n));
                }
                match field {
                    b"x" => open.record.next.clone(),
                    b"o" if open.record.group.options != Options::default() => {
                        Some(open.record.group.options.write())
                    }
                    _ => None,
                }
            }
            Part::Executions => self.executions.queued(field).map(number_text),
            Part::Of => self.has(field, key.id()).then(Value::new),
            _ => {
                let hash = self.small.hashes.get(key.own())?;
                hash.get(field).map(|value| Value::from_slice(value))
            }
        }
    }

    /// Returns true if a group has URIs of an execution.
    fn has(&mut self, id: &[u8], execution: &[u8]) -> bool {
        let Some(slot) = self.groups.find(id) else {
            return false;
        };
        self.slot_has(slot, execution)
    }

    fn slot_has(&self, slot: u32, execution: &[u8]) -> bool {
        let kept = self.look_at_kept(slot, |kept| kept.count_of(execution));
        kept.unwrap_or(0) > 0
            || self.groups.look(slot, |open| {
                counted(&self.executions, &open.record, execution)
            }) > 0
    }

    /// Returns the number of fields of a hash.
    pub fn hash_len(&mut self, key: &Name) -> u64 {
        match key.part {
            Part::Group => match self.groups.find(key.id()) {
                Some(slot) => {
                    let record = &self.groups.get(slot).record;
                    let more = record.counts.len() as u64 + u64::from(record.next.is_some());
                    record.own_fields() + more
                }
                None => 0,
            },
            Part::Executions => self.executions.counted(),
            Part::Of => u64::MAX,
            _ => self
                .small
                .hashes
                .get(key.own())
                .map_or(0, |hash| hash.len() as u64),
        }
    }

    /// Sets a field. Returns true if the field is new.
    pub fn hash_set(&mut self, key: &Name, field: &[u8], value: &[u8]) -> bool {
        let number = || parse_unsigned(value).unwrap_or(0);
        match key.part {
            Part::Group => {
                let slot = self.groups.enter(key.id());
                if let Some(execution) = field.strip_prefix(COUNTED) {
                    self.set_count(slot, execution, number());
                } else if field == b"x" {
                    self.groups.change(slot).record.next = Some(Id::from_slice(value));
                }
                true
            }
            Part::Executions => {
                self.set_queued(field, number());
                true
            }
            Part::Of => true,
            _ => {
                self.log
                    .begin(Kind::Set)
                    .bytes(key.own())
                    .bytes(field)
                    .bytes(value);
                self.asked.note_hash(key.own());
                self.small.set(key.own(), field, value)
            }
        }
    }

    fn set_queued(&mut self, execution: &[u8], queued: u64) {
        self.executions.set_queued(execution, queued);
        self.log
            .begin(Kind::Queued)
            .execution(execution)
            .number(queued);
    }

    /// Adds to the number in a field. The number does not fall below zero. Returns the previous
    /// number.
    pub fn hash_add(&mut self, key: &Name, field: &[u8], change: i64) -> u64 {
        if key.part == Part::Executions {
            let (before, after) = self.executions.add_queued(field, change);
            self.log.begin(Kind::Queued).execution(field).number(after);
            return before;
        }
        let text = self.hash_get(key, field);
        let before = text.and_then(|text| parse_unsigned(&text)).unwrap_or(0);
        let after = before.saturating_add_signed(change);
        match (key.part, after) {
            (Part::Group, _) => {
                self.hash_set(key, field, &number_text(after));
            }
            (_, 0) => drop(self.hash_del(key, field)),
            _ => drop(self.hash_set(key, field, &number_text(after))),
        }
        before
    }

    /// Deletes a field. Returns true if the field existed.
    pub fn hash_del(&mut self, key: &Name, field: &[u8]) -> bool {
        match key.part {
            Part::Group => {
                let existed = self.hash_get(key, field).is_some();
                if existed && let Some(slot) = self.groups.find(key.id()) {
                    match field.strip_prefix(COUNTED) {
                        Some(execution) => self.set_count(slot, execution, 0),
                        None if field == b"x" => self.groups.change(slot).record.next = None,
                        None => {}
                    }
                }
                existed
            }
            Part::Executions => {
                let existed = self.executions.queued(field).is_some();
                if existed {
                    self.set_queued(field, 0);
                }
                existed
            }
            Part::Of => false,
            _ => {
                let existed = self.small.unset(key.own(), field);
                if existed {
                    self.asked.note_hash(key.own());
                    self.log.begin(Kind::Unset).bytes(key.own()).bytes(field);
                }
                existed
            }
        }
    }

    /// Appends some fields of a hash to `out`. Returns false at the end.
    pub fn hash_scan(&mut self, key: &Name, cursor: &mut u64, out: &mut Batch) -> bool {
        match key.part {
            Part::Group => {
                let Some(slot) = self.groups.find(key.id()) else {
                    return false;
                };
                let counts = self.groups.get(slot).record.counts.clone();
                for (number, n) in counts {
                    let field = [COUNTED, self.executions.name(number)].concat();
                    out.push(&field, &number_text(n));
                }
                false
            }
            Part::Executions => {
                let (page, next) = self.executions.page(*cursor as u32, STEP);
                for (name, queued) in page {
                    out.push(name, &number_text(queued));
                }
                *cursor = next.unwrap_or(0).into();
                next.is_some()
            }
            Part::Of => {
                let execution = key.id();
                if self.crowds == 0 && self.executions.find(execution).is_none() {
                    // No group has URIs of the execution, or the last one was already returned.
                    return false;
                }
                self.scan_slots(cursor, |packed, slot| {
                    if packed.slot_has(slot, execution) {
                        out.push(packed.groups.id(slot), b"");
                    }
                })
            }
            _ => {
                let hash = self.small.hashes.get(key.own()).into_iter().flatten();
                hash.for_each(|(field, value)| out.push(field, value));
                false
            }
        }
    }

    /// Visits some slots that are in use. Returns false at the end.
    fn scan_slots(&self, cursor: &mut u64, mut each: impl FnMut(&Packed, u32)) -> bool {
        let from = *cursor as u32;
        let until = from.saturating_add(STEP).min(self.groups.end());
        for slot in from..until {
            if !self.groups.id(slot).is_empty() {
                each(self, slot);
            }
        }
        *cursor = until.into();
        until < self.groups.end()
    }

    /// Appends the names of the keys of groups that start with the prefix. Returns false at the
    /// end.
    pub fn keys_scan(&self, prefix: &[u8], cursor: &mut u64, out: &mut Batch) -> bool {
        self.scan_slots(cursor, |packed, slot| {
            let key = [
                prefix,
                super::super::keys::GROUP.before,
                packed.groups.id(slot),
            ]
            .concat();
            out.push(&key, b"");
        })
    }

    /// Returns the number of elements of a list.
    pub fn list_len(&self, key: &Name) -> u64 {
        match key.part {
            Part::Ready => self.ready.len(),
            _ => self.small.lists.get(key.own()).map_or(0, |list| list.len()),
        }
    }

    /// Returns an element of a list.
    pub fn list_get(&self, key: &Name, at: u64) -> Option<Value> {
        match key.part {
            Part::Ready => {
                let (_, slot) = self.ready.at(at)?;
                Some(Value::from_slice(self.groups.id(slot)))
            }
            _ => {
                let list = self.small.lists.get(key.own())?;
                list.get(at).map(Value::from_slice)
            }
        }
    }

    /// Appends an element. Returns the new length.
    pub fn list_push(&mut self, key: &Name, element: &[u8]) -> u64 {
        if key.part == Part::Ready {
            self.push_ready(element);
            self.log.begin(Kind::Push).name(element);
            return self.ready.len();
        }
        self.log.begin(Kind::Append).bytes(key.own()).bytes(element);
        self.small.append(key.own(), element)
    }

    pub(super) fn push_ready(&mut self, id: &[u8]) {
        let slot = self.groups.enter(id);
        let record = self.groups.change_quietly(slot);
        (record.listed, record.entry) = (record.listed + 1, self.pushed);
        let groups = &self.groups;
        self.ready
            .insert(self.pushed as f64, slot, |slot| groups.id(slot));
        self.pushed += 1;
    }

    /// Returns the position of a group in a list. In `chg_ready`, returns the position of the
    /// group's last entry.
    pub fn list_find(&mut self, key: &Name, id: &[u8]) -> Option<u64> {
        if key.part != Part::Ready {
            let mut elements = self.small.lists.get(key.own())?.iter();
            return elements
                .position(|element| element == id)
                .map(|at| at as u64);
        }
        let slot = self.groups.find(id)?;
        let record = &self.groups.get(slot).record;
        if record.listed == 0 {
            return None;
        }
        let number = record.entry as f64;
        let at = self.ready.count_up_to(number).checked_sub(1)?;
        (self.ready.at(at) == Some((number, slot))).then_some(at)
    }

    /// Removes an element and returns it.
    pub fn list_take(&mut self, key: &Name, at: u64) -> Option<Value> {
        if key.part == Part::Ready {
            let id = self.take_ready(at)?;
            self.log.begin(Kind::Take).number(at);
            return Some(id);
        }
        let element = self.small.remove(key.own(), at)?;
        self.log.begin(Kind::Remove).bytes(key.own()).number(at);
        Some(Value::from_slice(&element))
    }

    pub(super) fn take_ready(&mut self, at: u64) -> Option<Value> {
        let (number, slot) = self.ready.at(at)?;
        let groups = &self.groups;
        self.ready.remove(number, slot, |slot| groups.id(slot));
        let id = Value::from_slice(self.groups.id(slot));
        self.groups.change_quietly(slot).listed -= 1;
        if self.ready.len() == 0 {
            self.pushed = 0;
        }
        Some(id)
    }

    /// Appends elements to `out`, starting at a position.
    pub fn list_range(&self, key: &Name, at: u64, n: u64, out: &mut Batch) {
        match key.part {
            Part::Ready => self.ready.range(at, n as usize, &mut |_, slot| {
                out.push(self.groups.id(slot), b"");
            }),
            _ => {
                let list = self.small.lists.get(key.own());
                let elements = list.into_iter().flat_map(|list| list.iter());
                let some = elements.skip(at as usize).take(n as usize);
                some.for_each(|element| out.push(element, b""));
            }
        }
    }

    /// Returns the score of a member.
    pub fn score(&mut self, key: &Name, member: &[u8]) -> Option<f64> {
        match set_of(key) {
            Some(set) => {
                let slot = self.groups.find(member)?;
                self.groups.get(slot).record.scores[set]
            }
            None => self.small.sorted.get(key.own())?.score(member),
        }
    }

    /// Returns the member at a rank, and its score.
    pub fn member_at(&self, key: &Name, rank: u64) -> Option<(Value, f64)> {
        match set_of(key) {
            Some(set) => {
                let (score, slot) = self.sets[set].at(rank)?;
                Some((Value::from_slice(self.groups.id(slot)), score))
            }
            None => {
                let sorted = self.small.sorted.get(key.own())?;
                let at = sorted.iter().nth(rank as usize);
                at.map(|(member, score)| (Value::from_slice(member), score))
            }
        }
    }

    /// Appends members to `out`, starting at a rank.
    pub fn members(&self, key: &Name, rank: u64, n: u64, out: &mut Batch) {
        match set_of(key) {
            Some(set) => self.sets[set].range(rank, n as usize, &mut |_, slot| {
                out.push(self.groups.id(slot), b"");
            }),
            None => {
                let sorted = self.small.sorted.get(key.own());
                let members = sorted.into_iter().flat_map(|sorted| sorted.iter());
                let some = members.skip(rank as usize).take(n as usize);
                some.for_each(|(member, _)| out.push(member, b""));
            }
        }
    }

    /// Returns the number of members.
    pub fn set_len(&self, key: &Name) -> u64 {
        match set_of(key) {
            Some(set) => self.sets[set].len(),
            None => self
                .small
                .sorted
                .get(key.own())
                .map_or(0, |sorted| sorted.len()),
        }
    }

    /// Returns the number of members with a score of at most `most`.
    pub fn count_up_to(&self, key: &Name, most: f64) -> u64 {
        match set_of(key) {
            Some(set) => self.sets[set].count_up_to(most),
            None => {
                let sorted = self.small.sorted.get(key.own());
                sorted.map_or(0, |sorted| sorted.count_up_to(most))
            }
        }
    }

    /// Sets the score of a member.
    pub fn set_add(&mut self, key: &Name, member: &[u8], score: f64) {
        match set_of(key) {
            Some(set) => {
                let slot = self.groups.enter(member);
                let before = self.groups.get(slot).record.scores[set];
                if before != Some(score) {
                    self.groups.change(slot).record.scores[set] = Some(score);
                    self.place(set, slot, before, Some(score));
                }
            }
            None => {
                self.log.begin(Kind::Score).bytes(key.own()).bytes(member);
                self.log.number(score.to_bits());
                self.small.score(key.own(), member, score);
            }
        }
    }

    /// Moves a group within an ordered set.
    pub(super) fn place(&mut self, set: usize, slot: u32, before: Option<f64>, after: Option<f64>) {
        let groups = &self.groups;
        if let Some(before) = before {
            self.sets[set].remove(before, slot, |slot| groups.id(slot));
        }
        if let Some(after) = after {
            self.sets[set].insert(after, slot, |slot| groups.id(slot));
        }
    }

    /// Removes a member. Returns true if the member existed.
    pub fn set_del(&mut self, key: &Name, member: &[u8]) -> bool {
        match set_of(key) {
            Some(set) => {
                let Some(slot) = self.groups.find(member) else {
                    return false;
                };
                let before = self.groups.get(slot).record.scores[set];
                if before.is_some() {
                    self.groups.change(slot).record.scores[set] = None;
                    self.place(set, slot, before, None);
                }
                before.is_some()
            }
            None => {
                let existed = self.small.unscore(key.own(), member);
                if existed {
                    self.log.begin(Kind::Unscore).bytes(key.own()).bytes(member);
                }
                existed
            }
        }
    }

    /// Appends some members with their scores to `out`. Returns false at the end.
    pub fn set_scan(&self, key: &Name, cursor: &mut u64, out: &mut Batch) -> bool {
        match set_of(key) {
            Some(set) => self.scan_slots(cursor, |packed, slot| {
                packed.groups.look(slot, |open| {
                    if let Some(score) = open.record.scores[set] {
                        out.push(&open.id, score.to_string().as_bytes());
                    }
                });
            }),
            None => {
                let sorted = self.small.sorted.get(key.own());
                let members = sorted.into_iter().flat_map(|sorted| sorted.iter());
                members.for_each(|(member, score)| out.push(member, score.to_string().as_bytes()));
                false
            }
        }
    }

    /// Returns the number in a key.
    pub fn number(&self, key: &Name) -> i64 {
        match key.part {
            Part::Total => self.executions.total() as i64,
            _ => self.small.numbers.get(key.own()).copied().unwrap_or(0),
        }
    }

    /// Stores a number. The total is computed from the numbers of all executions.
    pub fn set_number(&mut self, key: &Name, n: i64) {
        if key.part != Part::Total {
            self.log
                .begin(Kind::Number)
                .bytes(key.own())
                .number(n as u64);
            self.small.numbers.insert(key.own().into(), n);
        }
    }

    /// Switches the log on or off. The log is needed only if commands are propagated.
    pub fn set_logged(&mut self, logged: bool) {
        self.log.is_off = !logged;
    }

    /// Ends a command, and returns the log of its changes, or `None` if nothing changed.
    pub fn flush(&mut self) -> Option<Vec<u8>> {
        if self.groups.watched() > 0 {
            self.update_agendas_for_open();
            if self.groups.watched() >= MAX_WATCHED {
                self.update_agendas();
            }
        }
        self.retire_texts();
        let (log, executions) = (&mut self.log, &self.executions);
        self.groups
            .take_unlogged(|open| log_group(log, &open.id, &open.record, executions));
        self.groups.close_empty();
        let has_changed = std::mem::take(&mut self.log.begun);
        if has_changed {
            self.loading = Loading::Ended;
        }
        has_changed.then(|| self.take_log())
    }

    /// Returns the log. The first log begins with the secret key with which group ids are hashed.
    pub fn take_log(&mut self) -> Vec<u8> {
        let log = self.log.take();
        if self.is_announced || self.log.is_off {
            return log;
        }
        self.is_announced = true;
        let mut first = Log::default();
        first.begin(Kind::Seed).number(self.groups.seed());
        [first.take(), log].concat()
    }

    /// Returns the memory use in bytes.
    pub fn memory(&self) -> usize {
        let sets: usize = self.sets.iter().map(Order::memory).sum();
        size_of::<Packed>()
            + self.groups.memory()
            + sets
            + self.ready.memory()
            + self.executions.memory()
            + self.small.memory()
            + self.known.memory()
            + self.asked.memory()
            + self.texts.borrow().memory()
    }

    /// Returns the number of memory blocks. The number may be too low for a large frontier, which has many blocks in
    /// any case.
    pub fn free_effort(&self) -> usize {
        let orders = self.sets.iter().chain([&self.ready]);
        self.groups.pieces()
            + orders.map(Order::pieces).sum::<usize>()
            + self.executions.pieces()
            + self.small.pieces()
            + self.known.pieces()
    }
}

/// Logs a group as a whole.
pub(super) fn log_group(log: &mut Log, id: &[u8], record: &Record, executions: &Executions) {
    log.begin(Kind::Group).name(id);
    if log.is_off {
        return;
    }
    let clock = log.clock();
    record.write_alone(clock, &mut log.bytes);
    let counts = record.counts.len() as u64;
    match &record.next {
        None => log.number(counts << 2),
        Some(next) if Log::is_name(next) => log.number(counts << 2 | 1).name(next),
        Some(next) => log.number(counts << 2 | 2).bytes(next),
    };
    for &(number, n) in &record.counts {
        log.execution(executions.name(number)).number(n);
    }
}

#[cfg(test)]
mod tests;
