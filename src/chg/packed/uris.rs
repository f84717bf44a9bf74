//! The URIs of a packed group, in the form that clients use.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::RangeInclusive;

use smallvec::SmallVec;

use crawlspace_compact::number::{Reader, put};

use super::super::known::Extra;
use super::super::uris::{Bytes, Changed, Kept, Op, Uris, Words, first_uri, raw_form};
use super::executions::Executions;
use super::groups::Stock;
use super::keys::Packed;
use super::known::Found;
use super::log::{ExecutionName, Kind};
use super::name::Name;
use super::spelling::Spelling;
use crate::texts::Texts;

/// Numbers of URIs at which a group is switched to the newest symbol table, because the first groups of a frontier
/// are created before tables are trained. Compressing more URIs at once would take too long. The numbers are lower
/// in tests.
const RESPELLED: RangeInclusive<u64> = if cfg!(test) { 1..=128 } else { 16..=128 };

/// Numbers of executions.
pub(super) type Numbers = SmallVec<[u32; 4]>;

/// Returns the stored form of the number of an execution.
pub(super) fn stored_number(number: u32) -> SmallVec<[u8; 8]> {
    let mut bytes = SmallVec::new();
    put(&mut bytes, number.into());
    bytes
}

/// Returns the stored form of an execution, or `None` if it is unknown.
fn stored(executions: &Executions, is_crowd: bool, name: &[u8]) -> Option<SmallVec<[u8; 8]>> {
    if is_crowd {
        return Some(SmallVec::from_slice(name));
    }
    executions.find(name).map(stored_number)
}

pub(super) fn number_of(stored: &[u8]) -> u32 {
    Reader::new(stored).number().unwrap_or_default() as u32
}

/// Returns the numbers of the executions of a group. Returns an empty list if the group stores its
/// executions by name.
pub(super) fn numbers(stock: &Stock) -> Numbers {
    if stock.is_crowd {
        return Numbers::new();
    }
    stock.uris.ids().map(number_of).collect()
}

/// Increments the reference counts of the executions that a change has added. `before` contains the
/// executions before the change, sorted.
pub(super) fn hold_added(executions: &mut Executions, stock: &Stock, before: &[u32]) {
    for number in numbers(stock) {
        if before.binary_search(&number).is_err() {
            executions.hold_number(number);
        }
    }
}

/// The stored form of the URIs of a group: the numbers of executions (or their names, if there are many
/// executions), and compressed URIs.
struct Spelled<'a> {
    executions: &'a Executions,
    texts: &'a RefCell<Texts>,
    stock: &'a Stock,
    id: &'a [u8],
}

impl Words for Spelled<'_> {
    fn execution<'a>(&'a self, stored: &'a [u8]) -> &'a [u8] {
        if self.stock.is_crowd {
            return stored;
        }
        self.executions.name(number_of(stored))
    }

    fn stored<'a>(&'a self, execution: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        if self.stock.is_crowd {
            return Some(Cow::Borrowed(execution));
        }
        let number = self.executions.find(execution)?;
        Some(Cow::Owned(stored_number(number).to_vec()))
    }

    fn uri<'a>(&'a self, stored: &'a [u8]) -> Cow<'a, [u8]> {
        // A URI usually compresses to about a third of its length, and needs some additional space
        // while it is expanded. For a URI that compresses better, the buffer grows once more.
        let mut uri = Vec::with_capacity(4 * stored.len() + 160);
        let spelling = &self.stock.spelling;
        spelling.expand(&self.texts.borrow(), self.id, stored, &mut uri);
        Cow::Owned(uri)
    }

    fn stored_uri<'a>(&'a self, uri: &'a [u8]) -> Cow<'a, [u8]> {
        let mut bytes = Vec::with_capacity(uri.len() + 1);
        let mut texts = self.texts.borrow_mut();
        let spelling = &self.stock.spelling;
        spelling.shorten(&mut texts, self.id, uri, &mut bytes);
        Cow::Owned(bytes)
    }
}

/// Calls `read` with the URIs of a group, in the form that clients use.
fn read_in<T>(
    (executions, texts): (&Executions, &RefCell<Texts>),
    id: &[u8],
    stock: &Stock,
    read: impl FnOnce(&Kept<'_>) -> T,
) -> T {
    let words = Spelled {
        executions,
        texts,
        stock,
        id,
    };
    read(&Kept::new(&stock.uris, &words))
}

impl Packed {
    /// Calls `read` with the URIs of a group. Returns `None` if there are no URIs.
    pub fn uris<T>(&mut self, key: &Name, read: impl FnOnce(&Kept<'_>) -> T) -> Option<T> {
        let slot = self.groups.find(key.id())?;
        let words = (&self.executions, &self.texts);
        let stock = self.groups.stock(slot)?;
        Some(read_in(words, key.id(), stock, read))
    }

    /// Calls `read` with the URIs of a group, without opening it.
    pub(super) fn look_at_kept<T>(
        &self,
        slot: u32,
        read: impl FnOnce(&Kept<'_>) -> T,
    ) -> Option<T> {
        let words = (&self.executions, &self.texts);
        let id = self.groups.id(slot);
        self.groups
            .look_at_stock(slot, |stock| read_in(words, id, stock, read))
    }

    /// Changes the URIs of a group, and calls `look` with the result.
    pub fn change_uris<T>(
        &mut self,
        key: &Name,
        op: &Op<'_>,
        look: impl FnOnce(&Kept<'_>) -> T,
    ) -> (Changed, Option<T>) {
        self.change_uris_of(key.id(), op, None, look)
    }

    /// Queues a URL whose record was just looked up. `extra` contains the additional data of the
    /// URL.
    pub fn add_url(&mut self, id: &[u8], add: &Op<'_>, found: Found, extra: Extra<'_>) -> Changed {
        let (changed, _) = self.change_uris_of(id, add, Some(found), |_| ());
        if let (Changed::Added, Op::Add { execution, .. }) = (changed, add)
            && extra != Extra::default()
        {
            self.put_extra(execution, &found.print, extra);
        }
        changed
    }

    /// Changes the URIs of a group. `found` is the record of the URL that is added, if the caller has already found
    /// it.
    fn change_uris_of<T>(
        &mut self,
        id: &[u8],
        op: &Op<'_>,
        found: Option<Found>,
        look: impl FnOnce(&Kept<'_>) -> T,
    ) -> (Changed, Option<T>) {
        let ended = if self.log.is_off {
            ExecutionName::new()
        } else {
            self.lease_of(id, op)
        };
        self.store_clock();
        let (changed, seen) = self.apply_finding(id, op, found, look);
        if changed != Changed::Nothing {
            self.log.begin(Kind::Uris).name(id).change(op);
            if !ended.is_empty() {
                self.log.lease_of(&ended);
            }
        }
        (changed, seen)
    }

    /// Returns the execution of the lease that a change begins or ends. Returns an empty name if
    /// the change does neither.
    pub(super) fn lease_of(&mut self, id: &[u8], op: &Op<'_>) -> ExecutionName {
        let token = match *op {
            Op::Take { execution, .. } => return ExecutionName::from_slice(execution),
            Op::Done { token, .. } | Op::Return { token, .. } => token,
            _ => return ExecutionName::new(),
        };
        let slot = self.groups.find(id);
        let Some(stock) = slot.and_then(|slot| self.groups.stock(slot)) else {
            return ExecutionName::new();
        };
        match stock.uris.leased(token) {
            Some(leased) if stock.is_crowd => ExecutionName::from_slice(leased.execution),
            Some(leased) => {
                ExecutionName::from_slice(self.executions.name(number_of(leased.execution)))
            }
            None => ExecutionName::new(),
        }
    }

    pub(super) fn apply_to_uris<T>(
        &mut self,
        id: &[u8],
        op: &Op<'_>,
        look: impl FnOnce(&Kept<'_>) -> T,
    ) -> (Changed, Option<T>) {
        self.apply_finding(id, op, None, look)
    }

    fn apply_finding<T>(
        &mut self,
        id: &[u8],
        op: &Op<'_>,
        found: Option<Found>,
        look: impl FnOnce(&Kept<'_>) -> T,
    ) -> (Changed, Option<T>) {
        let known = self.groups.find(id);
        let slot = match (known, op) {
            (Some(slot), _) if self.groups.stock(slot).is_some() => slot,
            (_, Op::Add { uri, .. }) => {
                let slot = self.groups.enter(id);
                self.begin_stock(slot, id, uri);
                slot
            }
            _ => return (Changed::Nothing, None),
        };
        let noted = if self.known.is_empty() {
            SmallVec::new()
        } else {
            self.note(Some(slot), id, op, found)
        };
        let stock = self.groups.stock(slot).expect("it was looked at");
        // The reference count of an execution includes each group that has the execution, unless
        // the group stores names.
        let is_crowd = stock.is_crowd;
        let mut left = Numbers::new();
        let gone = &mut |stored: &[u8]| {
            if !is_crowd {
                left.push(number_of(stored));
            }
        };
        let texts = self.texts.get_mut();
        let (executions, spelling) = (&mut self.executions, &stock.spelling);
        let mut shorten = |uris: &Uris, execution: &[u8], uri: &[u8]| {
            if uris.has_raw(execution, uri) {
                return raw_form(uri);
            }
            let mut bytes = Vec::with_capacity(uri.len() + 1);
            spelling.shorten(texts, id, uri, &mut bytes);
            Bytes::from_vec(bytes)
        };
        let changed = match *op {
            Op::Add {
                execution,
                weight,
                due,
                depth,
                attempts,
                uri,
            } => {
                let held = (!is_crowd).then(|| executions.hold(execution));
                let execution = &match held {
                    Some(number) => stored_number(number),
                    None => SmallVec::from_slice(execution),
                };
                let had = stock.uris.has_execution(execution);
                let add = Op::Add {
                    execution,
                    weight,
                    due,
                    depth,
                    attempts,
                    uri: &shorten(&stock.uris, execution, uri),
                };
                // All queued and leased URLs have records.
                let is_new = found.is_some_and(|found| !found.is_here());
                let changed = stock.uris.apply_to(&add, is_new, gone);
                if had || !stock.uris.has_execution(execution) {
                    left.extend(held);
                }
                changed
            }
            Op::Take {
                token,
                execution,
                now,
            } => stored(executions, is_crowd, execution).map_or(Changed::Nothing, |id| {
                let take = Op::Take {
                    token,
                    execution: &id,
                    now,
                };
                stock.uris.apply_noting(&take, gone)
            }),
            Op::Drop { execution, limit } => {
                stored(executions, is_crowd, execution).map_or(Changed::Nothing, |id| {
                    let drop = Op::Drop {
                        execution: &id,
                        limit,
                    };
                    stock.uris.apply_noting(&drop, gone)
                })
            }
            Op::Remove { execution, uri } => {
                stored(executions, is_crowd, execution).map_or(Changed::Nothing, |id| {
                    let remove = Op::Remove {
                        execution: &id,
                        uri: &shorten(&stock.uris, &id, uri),
                    };
                    stock.uris.apply_noting(&remove, gone)
                })
            }
            Op::End {
                execution,
                uri,
                end,
            } => stored(executions, is_crowd, execution).map_or(Changed::Nothing, |id| {
                let end = Op::End {
                    execution: &id,
                    uri: &shorten(&stock.uris, &id, uri),
                    end,
                };
                stock.uris.apply_noting(&end, gone)
            }),
            Op::Reschedule {
                execution,
                uri,
                due,
            } => stored(executions, is_crowd, execution).map_or(Changed::Nothing, |id| {
                let reschedule = Op::Reschedule {
                    execution: &id,
                    uri: &shorten(&stock.uris, &id, uri),
                    due,
                };
                stock.uris.apply_noting(&reschedule, gone)
            }),
            ref op => stock.uris.apply_noting(op, gone),
        };
        if let (Changed::Added, Op::Add { uri, .. }) = (changed, op) {
            stock.spelling.learn(self.texts.get_mut(), id, uri);
            let len = stock.uris.len();
            if RESPELLED.contains(&len) && len.is_power_of_two() && !stock.uris.is_mixed() {
                respell(stock, self.texts.get_mut(), id);
            }
        }
        if stock.uris.is_crowd() != is_crowd {
            self.name_executions(slot);
        }
        for number in left {
            self.executions.release(number);
        }
        if !self.known.is_empty() && changed.changes_urls() {
            self.settle(slot, id, op, noted);
        }
        let words = (&self.executions, &self.texts);
        let stock = self.groups.stock(slot).expect("as above");
        let seen = read_in(words, id, stock, look);
        // A group that has not changed need not be written again.
        if changed != Changed::Nothing || stock.uris.is_empty() {
            self.tidy_stock(slot);
        }
        (changed, Some(seen))
    }

    /// Prepares a group without URIs for its first URI.
    fn begin_stock(&mut self, slot: u32, id: &[u8], first_uri: &[u8]) {
        let stock = Stock {
            spelling: Spelling::new(self.texts.get_mut(), id, first_uri),
            uris: Uris::default(),
            is_crowd: false,
        };
        self.groups.add_stock(slot, stock);
    }

    /// Stores the executions of a group by name if there are now many of them, and by number if there are few
    /// again.
    pub(super) fn name_executions(&mut self, slot: u32) {
        let Some(stock) = self.groups.stock(slot) else {
            return;
        };
        let is_crowd = stock.uris.is_crowd();
        if is_crowd == stock.is_crowd {
            return;
        }
        let executions = &mut self.executions;
        if is_crowd {
            let held = numbers(stock);
            let names = &mut |stored: &[u8]| executions.name(number_of(stored)).into();
            stock.uris.rename(names);
            held.into_iter().for_each(|n| executions.release(n));
            self.crowds += 1;
        } else {
            let numbers = &mut |name: &[u8]| stored_number(executions.hold(name))[..].into();
            stock.uris.rename(numbers);
            self.crowds -= 1;
        }
        stock.is_crowd = is_crowd;
    }

    /// Removes the URIs of a group after a change if none are left.
    pub(super) fn tidy_stock(&mut self, slot: u32) {
        if let Some(stock) = self.groups.changed_stock(slot) {
            self.texts.get_mut().retire(stock.spelling.table());
            self.crowds -= u32::from(stock.is_crowd);
            for number in numbers(&stock) {
                self.executions.release(number);
            }
        }
    }

    /// Adds a chunk of URIs of a group.
    pub(super) fn load_uris(&mut self, id: &[u8], chunk: &[u8]) -> Result<(), String> {
        let slot = self.groups.enter(id);
        if self.groups.stock(slot).is_none() {
            let first = first_uri(chunk)?.unwrap_or_default();
            self.begin_stock(slot, id, &first);
        }
        let stock = self.groups.stock(slot).expect("added above");
        let mut held = numbers(stock);
        held.sort_unstable();
        let (executions, texts) = (&mut self.executions, self.texts.get_mut());
        let (spelling, is_crowd) = (&stock.spelling, stock.is_crowd);
        let mut entered = Vec::new();
        let loaded = stock.uris.load_in(
            &mut |name| {
                if is_crowd {
                    return Bytes::from_slice(name);
                }
                let number = executions.hold(name);
                entered.push(number);
                Bytes::from_slice(&stored_number(number))
            },
            &mut |uri| {
                let mut bytes = Vec::new();
                spelling.shorten(texts, id, uri, &mut bytes);
                spelling.learn(texts, id, uri);
                Bytes::from_vec(bytes)
            },
            chunk,
        );
        hold_added(&mut self.executions, stock, &held);
        for number in entered {
            self.executions.release(number);
        }
        self.name_executions(slot);
        self.tidy_stock(slot);
        loaded.map(drop)
    }
}

/// Compresses the URIs of a group with the newest symbol table.
fn respell(stock: &mut Stock, texts: &mut Texts, id: &[u8]) {
    let before = stock.spelling.table();
    let table = texts.assign();
    if table != before {
        let spelling = stock.spelling.with_table(table);
        let mut uri = Vec::new();
        stock.uris.respell(&mut |stored| {
            uri.clear();
            stock.spelling.expand(texts, id, stored, &mut uri);
            let mut bytes = Vec::with_capacity(uri.len() + 1);
            spelling.shorten(texts, id, &uri, &mut bytes);
            Bytes::from_vec(bytes)
        });
        stock.spelling = spelling;
        texts.retire(before);
    } else {
        texts.retire(table);
    }
}
