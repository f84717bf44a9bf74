//! The key space of a frontier in either storage, or on the way from one to the other.
//!
//! While a frontier moves, each of its elements is in exactly one storage: a group with its URIs and its places in the
//! sorted queues, a field of any other hash, a member of any other sorted set, a number. Reads look where the element
//! is, and move nothing. A write moves the element to the new storage first; only groups that leave the packed frontier
//! are written where they are, because a large one takes long to leave. A list is in two parts: the new storage has its
//! head, the old one its tail; elements are appended to the old part as long as there is one.
//!
//! The documented keys have other names meanwhile ([`MOVING`]), because markers are in their places.

use std::cmp::Ordering;
use std::ops::RangeInclusive;

use crawlspace_host::keyspace::{Batch, KeyType, Keyspace, Result};

use super::super::group::{FIELD_NAMES, Group, Id, Options};
use super::super::store::Store;
use super::super::uris::{Changed, Kept, Op};
use super::either::{Either, EitherName, EitherValue, Holder};
use super::element::{Element, MOVING, Plain, PlainNames};
use super::name::Part;
use super::{Name, Packed, Stored};
use crate::storage::Storage;

/// Makes and removes packed frontiers.
pub trait Home<P>: Holder {
    /// Opens the packed frontier with a prefix.
    fn open(plain: &P, prefix: &[u8]) -> Self;
    /// Stores changes so far, and makes the key and its markers.
    ///
    /// # Errors
    /// Any error of the server.
    fn store(&mut self) -> Result<()>;
    /// Deletes the key and its markers.
    ///
    /// # Errors
    /// Any error of the server.
    fn remove(&mut self) -> Result<()>;
}

/// A frontier that is moving.
pub(super) struct Change<N> {
    pub to: Storage,
    pub names: PlainNames<N>,
}

/// The key space of a frontier.
pub struct Both<P: Store, H> {
    either: Either<P, H>,
    change: Option<Box<Change<P::Name>>>,
}

/// The name of a key.
#[derive(Clone)]
pub enum BothName<N> {
    /// The name in the storage of the frontier.
    One(EitherName<N>),
    /// The names in both storages of a frontier that is moving.
    Two(Box<Two<N>>),
}

/// The names of a key in both storages.
#[derive(Clone)]
pub struct Two<N> {
    plain: EitherName<N>,
    packed: EitherName<N>,
    pub(super) part: Part,
    /// The id of a group, gate or execution.
    id: Id,
}

impl<N> Two<N> {
    fn in_storage(&self, storage: Storage) -> &EitherName<N> {
        match storage {
            Storage::Plain => &self.plain,
            Storage::Packed => &self.packed,
        }
    }

    pub(super) fn plain(&self) -> &N {
        match &self.plain {
            EitherName::Plain(name) => name,
            EitherName::Packed(_) => unreachable!("made as a plain name"),
        }
    }

    fn packed(&self) -> &Name {
        match &self.packed {
            EitherName::Packed(name) => name,
            EitherName::Plain(_) => unreachable!("made as a packed name"),
        }
    }

    /// Returns true if the members are groups, which move as a whole.
    pub(super) fn orders_groups(&self) -> bool {
        matches!(self.part, Part::Wait | Part::Busy | Part::Idle)
    }
}

impl<N: AsRef<[u8]>> AsRef<[u8]> for BothName<N> {
    fn as_ref(&self) -> &[u8] {
        match self {
            BothName::One(name) => name.as_ref(),
            BothName::Two(two) => two.packed.as_ref(),
        }
    }
}

/// Position of a scan: in either storage, and whether the old one was scanned to its end.
#[derive(Clone)]
pub struct BothCursor<C> {
    at: (C, u64),
    in_new: bool,
}

fn other(storage: Storage) -> Storage {
    match storage {
        Storage::Plain => Storage::Packed,
        Storage::Packed => Storage::Plain,
    }
}

impl<P: Store, H: Home<P>> Both<P, H> {
    /// Opens the keys of a frontier with a prefix: in one storage, or, with `moving_to`, on the way to another one.
    pub fn open(plain: P, packed: Option<H>, prefix: &[u8], moving_to: Option<Storage>) -> Self {
        let either = Either { plain, packed };
        let mut keys = Both {
            either,
            change: None,
        };
        if let Some(to) = moving_to {
            keys.begin_change(prefix, to);
        }
        keys
    }

    /// Returns the plain keys.
    pub fn into_plain(self) -> P {
        self.either.plain
    }

    /// Returns the plain keys and the packed frontier.
    pub fn parts(&mut self) -> (&mut P, Option<&mut H>) {
        (&mut self.either.plain, self.either.packed.as_mut())
    }

    /// Returns the storage of the frontier, and the storage that it is moving to.
    pub fn storage(&self) -> (Storage, Option<Storage>) {
        match (&self.change, &self.either.packed) {
            (Some(change), _) => (other(change.to), Some(change.to)),
            (None, Some(_)) => (Storage::Packed, None),
            (None, None) => (Storage::Plain, None),
        }
    }

    pub(super) fn begin_change(&mut self, prefix: &[u8], to: Storage) {
        let names = PlainNames::new(&mut self.either.plain, prefix);
        self.change = Some(Box::new(Change { to, names }));
    }

    pub(super) fn turn_to(&mut self, to: Storage) {
        if let Some(change) = &mut self.change {
            change.to = to;
        }
    }

    pub(super) fn take_change(&mut self) -> Change<P::Name> {
        *self.change.take().expect("the frontier is moving")
    }

    pub(super) fn put_packed(&mut self, packed: H) {
        self.either.packed = Some(packed);
    }

    pub(super) fn drop_packed(&mut self) {
        self.either.packed = None;
    }

    pub(super) fn prefix(&self) -> Box<[u8]> {
        self.change().names.prefix.clone()
    }

    fn change(&self) -> &Change<P::Name> {
        self.change.as_deref().expect("the frontier is moving")
    }

    pub(super) fn to(&self) -> Storage {
        self.change().to
    }

    fn from(&self) -> Storage {
        other(self.to())
    }

    pub(super) fn with<T>(&mut self, act: impl FnOnce(&mut Packed) -> T) -> Result<T> {
        let packed = self.either.packed.as_mut();
        packed.expect("the frontier is moving").with(act)
    }

    /// Calls `act` with the plain keys and the packed frontier. Its writes to plain keys are not replicated.
    pub(super) fn move_with<T>(
        &mut self,
        act: impl FnOnce(&mut Plain<'_, P>, &mut Packed) -> Result<T>,
    ) -> Result<T> {
        let change = self.change.as_deref().expect("the frontier is moving");
        let Either { plain, packed } = &mut self.either;
        let packed = packed.as_mut().expect("the frontier is moving");
        plain.silently(|ks| {
            let names = &change.names;
            packed.with(|packed| act(&mut Plain { ks, names }, packed))?
        })
    }

    /// Moves an element to the new storage; returns the number of elements that moved.
    pub(super) fn bring(&mut self, element: Element<'_>) -> Result<u64> {
        self.move_with(|plain, packed| plain.bring_logged(packed, &element))
    }

    /// Moves an element to the new storage for a command, which then writes to it.
    fn bring_first(&mut self, element: Element<'_>) -> Result<bool> {
        let moved = self.bring(element)? > 0;
        if moved && self.to() == Storage::Plain {
            // A replica must not get the writes to plain keys before the log.
            let packed = self.either.packed.as_mut();
            packed.expect("the frontier is moving").store()?;
        }
        Ok(moved)
    }

    /// Returns the storage that a group is written to. A group enters the packed frontier with its first write, but it
    /// leaves only by itself, because it may be large.
    fn home(&mut self, id: &[u8]) -> Result<Storage> {
        if self.to() == Storage::Plain {
            return self.storage_of(id);
        }
        self.bring_first(Element::Group(id))?;
        Ok(Storage::Packed)
    }

    /// Returns the name of a group in the storage that it is written to.
    fn at_home<'a>(&mut self, two: &'a Two<P::Name>) -> Result<&'a EitherName<P::Name>> {
        let storage = self.home(&two.id)?;
        Ok(two.in_storage(storage))
    }

    /// Returns the storage that has a group; the new one if there is no such group.
    fn storage_of(&mut self, id: &[u8]) -> Result<Storage> {
        if self.with(|packed| packed.holds(id))? {
            return Ok(Storage::Packed);
        }
        if self.to() == Storage::Plain {
            return Ok(Storage::Plain);
        }
        let is_plain = self.move_with(|plain, _| Ok(plain.holds(id)))?;
        Ok(if is_plain {
            Storage::Plain
        } else {
            Storage::Packed
        })
    }

    /// Moves a field of a hash, which is then written; returns true if it moved.
    fn bring_field(&mut self, key: &Two<P::Name>, field: &[u8]) -> Result<bool> {
        self.bring_first(Element::Field(key.packed().own(), field))
    }

    /// Moves a number, which is then written.
    fn bring_number(&mut self, key: &Two<P::Name>) -> Result<()> {
        self.bring_first(Element::Number(key.packed().own()))
            .map(drop)
    }

    fn has_number(&mut self, key: &Two<P::Name>, storage: Storage) -> Result<bool> {
        match storage {
            Storage::Plain => Ok(self.either.plain.exists(key.plain())),
            Storage::Packed => self.with(|packed| packed.has_number(key.packed())),
        }
    }

    /// Returns the lengths of the parts of a list in the new and in the old storage.
    pub(super) fn list_lens(&mut self, key: &Two<P::Name>) -> Result<(u64, u64)> {
        let (old, new) = (self.from(), self.to());
        let head = self.either.list_len(key.in_storage(new))?;
        Ok((head, self.either.list_len(key.in_storage(old))?))
    }

    /// Returns the part of a list that has an element, and the position of the element there.
    fn element<'a>(
        &mut self,
        key: &'a Two<P::Name>,
        i: u64,
    ) -> Result<(&'a EitherName<P::Name>, u64)> {
        let (head, _) = self.list_lens(key)?;
        Ok(match i.checked_sub(head) {
            None => (key.in_storage(self.to()), i),
            Some(i) => (key.in_storage(self.from()), i),
        })
    }

    /// Returns the numbers of members in the old and in the new storage that come before a rank.
    fn before_rank(&mut self, key: &Two<P::Name>, rank: u64) -> Result<(u64, u64)> {
        let (old, new) = (key.in_storage(self.from()), key.in_storage(self.to()));
        let either = &mut self.either;
        let (old_len, new_len) = (either.zset_len(old)?, either.zset_len(new)?);
        let (mut least, mut most) = (rank.saturating_sub(new_len), rank.min(old_len));
        while least < most {
            let middle = least + (most - least) / 2;
            let here = either.zset_at(old, middle)?;
            let there = either.zset_at(new, rank - middle - 1)?;
            if precedes(&here, &there) {
                least = middle + 1;
            } else {
                most = middle;
            }
        }
        Ok((least, rank.saturating_sub(least)))
    }

    /// Scans the old storage, and then the new one.
    fn scan_both(
        &mut self,
        key: &Two<P::Name>,
        cursor: &mut BothCursor<P::Cursor>,
        mut scan: impl FnMut(
            &mut Either<P, H>,
            &EitherName<P::Name>,
            &mut (P::Cursor, u64),
        ) -> Result<bool>,
    ) -> Result<bool> {
        let (old, new) = (self.from(), self.to());
        if cursor.in_new {
            return scan(&mut self.either, key.in_storage(new), &mut cursor.at);
        }
        cursor.in_new = !scan(&mut self.either, key.in_storage(old), &mut cursor.at)?;
        Ok(true)
    }
}

type Ranked<V> = Option<(V, f64)>;

/// Names of fields with their values.
type FieldValues<'a, N> = smallvec::SmallVec<[(&'a N, &'a [u8]); 8]>;

/// Returns true if a member comes before another one; one that is missing comes last.
fn precedes<V: AsRef<[u8]>>(a: &Ranked<V>, b: &Ranked<V>) -> bool {
    match (a, b) {
        (Some((a, score)), Some((b, other))) => {
            let order = score.total_cmp(other);
            order.then_with(|| a.as_ref().cmp(b.as_ref())) == Ordering::Less
        }
        (a, _) => a.is_some(),
    }
}

impl<P: Store, H: Home<P>> Keyspace for Both<P, H> {
    type Name = BothName<P::Name>;
    type Value = EitherValue<P::Value>;
    type Cursor = BothCursor<P::Cursor>;

    fn name(&mut self, parts: &[&[u8]]) -> Self::Name {
        if self.change.is_none() {
            return BothName::One(self.either.name(parts));
        }
        let packed = Name::new(parts);
        let plain = match parts {
            [prefix, name] if packed.has_marker() => {
                self.either.plain.name(&[prefix, MOVING, name])
            }
            parts => self.either.plain.name(parts),
        };
        let id = match parts {
            [_, _, id] => Id::from_slice(id),
            _ => Id::new(),
        };
        BothName::Two(Box::new(Two {
            plain: EitherName::Plain(plain),
            part: packed.part,
            packed: EitherName::Packed(packed),
            id,
        }))
    }

    fn cursor(&mut self) -> Self::Cursor {
        BothCursor {
            at: self.either.cursor(),
            in_new: false,
        }
    }

    fn exists(&mut self, key: &Self::Name) -> bool {
        match key {
            BothName::One(key) => self.either.exists(key),
            BothName::Two(two) => self.either.exists(&two.plain) || self.either.exists(&two.packed),
        }
    }

    fn delete(&mut self, key: &Self::Name) -> Result<bool> {
        let two = match key {
            BothName::One(key) => return self.either.delete(key),
            BothName::Two(two) => two,
        };
        if two.part == Part::Group {
            let key = self.at_home(two)?;
            return self.either.delete(key);
        }
        let plain = self.either.delete(&two.plain)?;
        Ok(self.either.delete(&two.packed)? || plain)
    }

    fn rename(&mut self, from: &Self::Name, to: &Self::Name) -> Result<()> {
        match (from, to) {
            (BothName::One(from), BothName::One(to)) => self.either.rename(from, to),
            _ => unreachable!("no key of a frontier is renamed by its rules"),
        }
    }

    fn memory(&mut self, key: &Self::Name) -> u64 {
        match key {
            BothName::One(key) => self.either.memory(key),
            BothName::Two(two) => self.either.memory(&two.plain),
        }
    }

    fn string_set(&mut self, key: &Self::Name, value: &[u8]) -> Result<()> {
        match key {
            BothName::One(key) => self.either.string_set(key, value),
            BothName::Two(_) => unreachable!("no part of a frontier is a text"),
        }
    }

    fn hash_get(&mut self, key: &Self::Name, field: &[u8]) -> Result<Option<Self::Value>> {
        let two = match key {
            BothName::One(key) => return self.either.hash_get(key, field),
            BothName::Two(two) => two,
        };
        if two.part == Part::Group {
            return match self.storage_of(&two.id)? {
                Storage::Plain => self.either.hash_get(&two.plain, field),
                Storage::Packed => {
                    let field = self.with(|packed| packed.group_field(two.packed(), field))?;
                    Ok(field.map(EitherValue::Packed))
                }
            };
        }
        match self.either.hash_get(&two.plain, field)? {
            None => self.either.hash_get(&two.packed, field),
            value => Ok(value),
        }
    }

    fn hash_get_many<const N: usize>(
        &mut self,
        key: &Self::Name,
        fields: [&Self::Name; N],
    ) -> Result<[Option<Self::Value>; N]> {
        if let BothName::One(key) = key {
            let fields = fields.map(|field| match field {
                BothName::One(field) => field,
                BothName::Two(_) => unreachable!("names are made for one state of the frontier"),
            });
            return self.either.hash_get_many(key, fields);
        }
        let mut values = std::array::from_fn(|_| None);
        for (value, field) in values.iter_mut().zip(fields) {
            *value = self.hash_get(key, field.as_ref())?;
        }
        Ok(values)
    }

    fn hash_set_many(&mut self, key: &Self::Name, fields: &[(&Self::Name, &[u8])]) -> Result<()> {
        let BothName::One(key) = key else {
            for (field, value) in fields {
                self.hash_set(key, field.as_ref(), value)?;
            }
            return Ok(());
        };
        let fields: FieldValues<'_, EitherName<P::Name>> = fields
            .iter()
            .filter_map(|(field, value)| match field {
                BothName::One(field) => Some((field, *value)),
                BothName::Two(_) => None,
            })
            .collect();
        self.either.hash_set_many(key, &fields)
    }

    fn hash_has(&mut self, key: &Self::Name, field: &[u8]) -> Result<bool> {
        match key {
            BothName::One(key) => self.either.hash_has(key, field),
            BothName::Two(two) if two.part == Part::Of => {
                Ok(self.either.hash_has(&two.plain, field)?
                    || self.either.hash_has(&two.packed, field)?)
            }
            BothName::Two(_) => Ok(self.hash_get(key, field)?.is_some()),
        }
    }

    fn hash_len(&mut self, key: &Self::Name) -> Result<u64> {
        let two = match key {
            BothName::One(key) => return self.either.hash_len(key),
            BothName::Two(two) => two,
        };
        match two.part {
            Part::Group => {
                let storage = self.storage_of(&two.id)?;
                self.either.hash_len(two.in_storage(storage))
            }
            Part::Of => Ok(u64::MAX),
            _ => Ok(self.either.hash_len(&two.plain)? + self.either.hash_len(&two.packed)?),
        }
    }

    fn hash_set(&mut self, key: &Self::Name, field: &[u8], value: &[u8]) -> Result<bool> {
        let two = match key {
            BothName::One(key) => return self.either.hash_set(key, field, value),
            BothName::Two(two) => two,
        };
        let (storage, moved) = match two.part {
            Part::Group => (self.home(&two.id)?, false),
            Part::Of => (self.to(), false),
            _ => (self.to(), self.bring_field(two, field)?),
        };
        let key = two.in_storage(storage);
        Ok(self.either.hash_set(key, field, value)? && !moved)
    }

    fn hash_set_new(&mut self, key: &Self::Name, field: &[u8], value: &[u8]) -> Result<bool> {
        match key {
            BothName::One(key) => return self.either.hash_set_new(key, field, value),
            // The packed frontier knows the groups of an execution from the groups, which may be in either storage.
            BothName::Two(two) if two.part == Part::Of => {
                let new = self.to();
                return self.either.hash_set_new(two.in_storage(new), field, value);
            }
            BothName::Two(_) => {}
        }
        if self.hash_has(key, field)? {
            return Ok(false);
        }
        self.hash_set(key, field, value)
    }

    fn hash_add(&mut self, key: &Self::Name, field: &[u8], change: i64) -> Result<u64> {
        let two = match key {
            BothName::One(key) => return self.either.hash_add(key, field, change),
            BothName::Two(two) => two,
        };
        let storage = if two.part == Part::Group {
            self.home(&two.id)?
        } else {
            self.bring_field(two, field)?;
            self.to()
        };
        let key = two.in_storage(storage);
        self.either.hash_add(key, field, change)
    }

    fn hash_del(&mut self, key: &Self::Name, field: &[u8]) -> Result<bool> {
        let two = match key {
            BothName::One(key) => return self.either.hash_del(key, field),
            BothName::Two(two) => two,
        };
        match two.part {
            Part::Group => {
                let key = self.at_home(two)?;
                return self.either.hash_del(key, field);
            }
            Part::Executions => self.bring_field(two, field)?,
            _ => false,
        };
        let plain = self.either.hash_del(&two.plain, field)?;
        Ok(self.either.hash_del(&two.packed, field)? || plain)
    }

    fn hash_scan(
        &mut self,
        key: &Self::Name,
        cursor: &mut Self::Cursor,
        out: &mut Batch,
    ) -> Result<bool> {
        let two = match key {
            BothName::One(key) => return self.either.hash_scan(key, &mut cursor.at, out),
            BothName::Two(two) => two,
        };
        if two.part == Part::Group {
            let storage = self.storage_of(&two.id)?;
            let key = two.in_storage(storage);
            return self.either.hash_scan(key, &mut cursor.at, out);
        }
        self.scan_both(two, cursor, |either, key, at| {
            either.hash_scan(key, at, out)
        })
    }

    fn set_has(&mut self, _: &Self::Name, _: &[u8]) -> Result<bool> {
        unreachable!("a frontier has no sets")
    }

    fn set_len(&mut self, _: &Self::Name) -> Result<u64> {
        unreachable!("a frontier has no sets")
    }

    fn set_add(&mut self, _: &Self::Name, _: &[u8]) -> Result<bool> {
        unreachable!("a frontier has no sets")
    }

    fn set_del(&mut self, _: &Self::Name, _: &[u8]) -> Result<bool> {
        unreachable!("a frontier has no sets")
    }

    fn set_scan(&mut self, _: &Self::Name, _: &mut Self::Cursor, _: &mut Batch) -> Result<bool> {
        unreachable!("a frontier has no sets")
    }

    fn list_len(&mut self, key: &Self::Name) -> Result<u64> {
        match key {
            BothName::One(key) => self.either.list_len(key),
            BothName::Two(two) => {
                let (head, tail) = self.list_lens(two)?;
                Ok(head + tail)
            }
        }
    }

    fn list_get(&mut self, key: &Self::Name, i: u64) -> Result<Option<Self::Value>> {
        let two = match key {
            BothName::One(key) => return self.either.list_get(key, i),
            BothName::Two(two) => two,
        };
        let (part, i) = self.element(two, i)?;
        self.either.list_get(part, i)
    }

    fn list_push(&mut self, key: &Self::Name, element: &[u8]) -> Result<u64> {
        let two = match key {
            BothName::One(key) => return self.either.list_push(key, element),
            BothName::Two(two) => two,
        };
        let (head, tail) = self.list_lens(two)?;
        let storage = if tail > 0 { self.from() } else { self.to() };
        self.either.list_push(two.in_storage(storage), element)?;
        Ok(head + tail + 1)
    }

    fn list_set(&mut self, _: &Self::Name, _: u64, _: &[u8]) -> Result<()> {
        unreachable!("no element of a list is replaced")
    }

    fn list_trim(&mut self, _: &Self::Name, _: u64) -> Result<()> {
        unreachable!("no list is trimmed")
    }

    fn list_take(&mut self, key: &Self::Name, i: u64) -> Result<Option<Self::Value>> {
        let two = match key {
            BothName::One(key) => return self.either.list_take(key, i),
            BothName::Two(two) => two,
        };
        let (part, i) = self.element(two, i)?;
        self.either.list_take(part, i)
    }

    fn list_range(&mut self, key: &Self::Name, i: u64, n: u64, out: &mut Batch) -> Result<()> {
        let two = match key {
            BothName::One(key) => return self.either.list_range(key, i, n, out),
            BothName::Two(two) => two,
        };
        let (head, _) = self.list_lens(two)?;
        let (old, new) = (self.from(), self.to());
        let here = head.saturating_sub(i).min(n);
        self.either.list_range(two.in_storage(new), i, here, out)?;
        let rest = i.saturating_sub(head);
        self.either
            .list_range(two.in_storage(old), rest, n - here, out)
    }

    fn zset_score(&mut self, key: &Self::Name, member: &[u8]) -> Result<Option<f64>> {
        match key {
            BothName::One(key) => self.either.zset_score(key, member),
            BothName::Two(two) => match self.either.zset_score(&two.packed, member)? {
                None => self.either.zset_score(&two.plain, member),
                score => Ok(score),
            },
        }
    }

    fn zset_at(&mut self, key: &Self::Name, rank: u64) -> Result<Option<(Self::Value, f64)>> {
        let two = match key {
            BothName::One(key) => return self.either.zset_at(key, rank),
            BothName::Two(two) => two,
        };
        let (before_old, before_new) = self.before_rank(two, rank)?;
        let (old, new) = (self.from(), self.to());
        let here = self.either.zset_at(two.in_storage(old), before_old)?;
        let there = self.either.zset_at(two.in_storage(new), before_new)?;
        Ok(if precedes(&here, &there) { here } else { there })
    }

    fn zset_range(&mut self, key: &Self::Name, rank: u64, n: u64, out: &mut Batch) -> Result<()> {
        let two = match key {
            BothName::One(key) => return self.either.zset_range(key, rank, n, out),
            BothName::Two(two) => two,
        };
        let (before_old, before_new) = self.before_rank(two, rank)?;
        let mut both = Vec::new();
        for (storage, from) in [(self.from(), before_old), (self.to(), before_new)] {
            let mut some = Batch::default();
            let key = two.in_storage(storage);
            self.either.zset_range(key, from, n, &mut some)?;
            for (member, _) in some.iter() {
                let score = self.either.zset_score(key, member)?.unwrap_or(0.0);
                both.push(Some((member.to_vec(), score)));
            }
        }
        both.sort_by(|a, b| {
            if precedes(a, b) {
                Ordering::Less
            } else {
                Ordering::Greater
            }
        });
        let some = both.iter().flatten().take(n as usize);
        some.for_each(|(member, _)| out.push(member, b""));
        Ok(())
    }

    fn zset_between(
        &mut self,
        _: &Self::Name,
        _: RangeInclusive<f64>,
        _: u64,
        _: &mut Batch,
    ) -> Result<bool> {
        unreachable!("no range of scores is read")
    }

    fn zset_len(&mut self, key: &Self::Name) -> Result<u64> {
        match key {
            BothName::One(key) => self.either.zset_len(key),
            BothName::Two(two) => {
                Ok(self.either.zset_len(&two.plain)? + self.either.zset_len(&two.packed)?)
            }
        }
    }

    fn zset_count(&mut self, key: &Self::Name, most: f64) -> Result<u64> {
        match key {
            BothName::One(key) => self.either.zset_count(key, most),
            BothName::Two(two) => {
                let plain = self.either.zset_count(&two.plain, most)?;
                Ok(plain + self.either.zset_count(&two.packed, most)?)
            }
        }
    }

    fn zset_add(&mut self, key: &Self::Name, member: &[u8], score: f64) -> Result<()> {
        let two = match key {
            BothName::One(key) => return self.either.zset_add(key, member, score),
            BothName::Two(two) => two,
        };
        let storage = if two.orders_groups() {
            self.home(member)?
        } else {
            let old = self.from();
            self.either.zset_del(two.in_storage(old), member)?;
            self.to()
        };
        let key = two.in_storage(storage);
        self.either.zset_add(key, member, score)
    }

    fn zset_remove(&mut self, key: &Self::Name, member: &[u8]) -> Result<()> {
        match key {
            BothName::One(key) => self.either.zset_remove(key, member),
            BothName::Two(_) => self.zset_del(key, member).map(drop),
        }
    }

    fn zset_del(&mut self, key: &Self::Name, member: &[u8]) -> Result<bool> {
        let two = match key {
            BothName::One(key) => return self.either.zset_del(key, member),
            BothName::Two(two) => two,
        };
        let plain = self.either.zset_del(&two.plain, member)?;
        Ok(self.either.zset_del(&two.packed, member)? || plain)
    }

    fn zset_scan(
        &mut self,
        key: &Self::Name,
        cursor: &mut Self::Cursor,
        out: &mut Batch,
    ) -> Result<bool> {
        match key {
            BothName::One(key) => self.either.zset_scan(key, &mut cursor.at, out),
            BothName::Two(two) => self.scan_both(two, cursor, |either, key, at| {
                either.zset_scan(key, at, out)
            }),
        }
    }

    fn number(&mut self, key: &Self::Name) -> Result<i64> {
        let two = match key {
            BothName::One(key) => return self.either.number(key),
            BothName::Two(two) => two,
        };
        if two.part == Part::Total {
            let plain = self.either.number(&two.plain)?;
            return Ok(plain.saturating_add(self.either.number(&two.packed)?));
        }
        let (old, new) = (self.from(), self.to());
        let storage = if self.has_number(two, old)? { old } else { new };
        self.either.number(two.in_storage(storage))
    }

    fn number_set(&mut self, key: &Self::Name, n: i64) -> Result<()> {
        let two = match key {
            BothName::One(key) => return self.either.number_set(key, n),
            BothName::Two(two) => two,
        };
        if two.part == Part::Total {
            let packed = self.either.number(&two.packed)?;
            let rest = n.saturating_sub(packed).max(0);
            return self.either.number_set(&two.plain, rest);
        }
        self.bring_number(two)?;
        let new = self.to();
        self.either.number_set(two.in_storage(new), n)
    }

    fn number_add(&mut self, key: &Self::Name, change: i64) -> Result<()> {
        let two = match key {
            BothName::One(key) => return self.either.number_add(key, change),
            BothName::Two(two) => two,
        };
        if two.part != Part::Total {
            self.bring_number(two)?;
        }
        // The packed total follows from the counts of executions.
        let new = self.to();
        self.either.number_add(two.in_storage(new), change)
    }

    fn check_type(&mut self, key: &Self::Name, needs: KeyType) -> Result<()> {
        match key {
            BothName::One(key) => self.either.check_type(key, needs),
            BothName::Two(two) => {
                self.either.check_type(&two.plain, needs)?;
                self.either.check_type(&two.packed, needs)
            }
        }
    }

    fn keys_scan(&mut self, prefix: &[u8], cursor: &mut Self::Cursor, out: &mut Batch) -> bool {
        if self.change.is_none() {
            return self.either.keys_scan(prefix, &mut cursor.at, out);
        }
        let old = self.from();
        let storage = if cursor.in_new { self.to() } else { old };
        let more = match storage {
            Storage::Plain => self.either.plain.keys_scan(prefix, &mut cursor.at.0, out),
            Storage::Packed => self
                .with(|packed| packed.keys_scan(prefix, &mut cursor.at.1, out))
                .unwrap_or(false),
        };
        if cursor.in_new {
            return more;
        }
        cursor.in_new = !more;
        true
    }
}

impl<P: Store, H: Home<P>> Store for Both<P, H> {
    fn uris<T>(
        &mut self,
        key: &Self::Name,
        read: impl FnOnce(&Kept<'_>) -> T,
    ) -> Result<Option<T>> {
        match key {
            BothName::One(key) => self.either.uris(key, read),
            BothName::Two(two) => {
                let storage = self.storage_of(&two.id)?;
                self.either.uris(two.in_storage(storage), read)
            }
        }
    }

    fn change_uris_then<T>(
        &mut self,
        key: &Self::Name,
        op: &Op<'_>,
        look: impl FnOnce(&Kept<'_>) -> T,
    ) -> Result<(Changed, Option<T>)> {
        match key {
            BothName::One(key) => self.either.change_uris_then(key, op, look),
            BothName::Two(two) => {
                let key = self.at_home(two)?;
                self.either.change_uris_then(key, op, look)
            }
        }
    }

    fn has_plain_writers(&self) -> bool {
        self.either.packed.is_none()
    }

    fn has_plain_groups(&self) -> bool {
        self.either.packed.is_none() || self.change.is_some()
    }

    fn is_misplaced(&mut self, key: &Self::Name) -> bool {
        let key = match key {
            BothName::One(key) => key,
            BothName::Two(two) => &two.packed,
        };
        self.either.is_misplaced(key)
    }

    fn storage_name(&self) -> &'static str {
        match self.storage() {
            (storage, None) => storage.name(),
            (_, Some(Storage::Packed)) => "packing",
            (_, Some(Storage::Plain)) => "unpacking",
        }
    }

    fn group(&mut self, key: &Self::Name) -> Result<Option<Stored>> {
        let two = match key {
            BothName::One(key) => return self.either.group(key),
            BothName::Two(two) => two,
        };
        if self.storage_of(&two.id)? == Storage::Packed {
            return self.either.group(&two.packed);
        }
        if self.to() == Storage::Plain {
            return Ok(None);
        }
        let read = self.move_with(|plain, _| plain.read(&two.id))?;
        Ok(read.map(|(entering, fields, _)| Stored {
            group: entering.group,
            fields,
        }))
    }

    fn put_group(
        &mut self,
        key: &Self::Name,
        group: &Group,
        more: Option<(&[u8], &[u8])>,
    ) -> Result<bool> {
        match key {
            BothName::One(key) => self.either.put_group(key, group, more),
            BothName::Two(two) => {
                let key = self.at_home(two)?;
                if self.either.put_group(key, group, more)? {
                    return Ok(true);
                }
                // It was read as a packed group, and has been deleted since.
                for (field, value) in FIELD_NAMES.iter().zip(group.write()) {
                    match value {
                        Some(value) => drop(self.either.hash_set(key, field, &value)?),
                        None => drop(self.either.hash_del(key, field)?),
                    }
                }
                if let Some((field, value)) = more {
                    self.either.hash_set(key, field, value)?;
                }
                Ok(true)
            }
        }
    }

    fn put_options(&mut self, key: &Self::Name, options: &Options) -> Result<bool> {
        match key {
            BothName::One(key) => self.either.put_options(key, options),
            BothName::Two(two) => {
                let key = self.at_home(two)?;
                self.either.put_options(key, options)
            }
        }
    }

    fn reset_group(&mut self, key: &Self::Name) -> Result<bool> {
        match key {
            BothName::One(key) => self.either.reset_group(key),
            BothName::Two(two) => {
                let key = self.at_home(two)?;
                self.either.reset_group(key)
            }
        }
    }
}
