//! The key space of a frontier in plain keys, in a packed value, or during the conversion between
//! the two storages.
//!
//! During a conversion, each element is in exactly one storage. An element is a group with its URIs and its
//! positions in the sorted queues, a field of any other hash, a member of any other sorted set, or a number.
//! Reads use the storage that contains the element, and move nothing. A write first moves the element to the
//! new storage. Only groups that leave the packed frontier are written in their old storage, because moving a
//! large group takes a long time. A list is in two parts: the new storage contains its head, and the old
//! storage contains its tail. Elements are appended to the old part as long as it exists.
//!
//! During a conversion, the documented keys have different names ([`MOVING`](super::element::MOVING)),
//! because markers occupy the documented names.

mod keyspace;
mod store;

use std::cmp::Ordering;

use crawlspace_host::keyspace::{Keyspace, Result};

use super::super::group::Id;
use super::super::store::Store;
use super::either::{Either, EitherName, Holder};
use super::element::{Element, Plain, PlainNames};
use super::name::Part;
use super::{Name, Packed};
use crate::storage::Storage;

/// Creates and deletes packed frontiers.
pub trait Home<P>: Holder {
    /// Opens the packed frontier with a prefix.
    fn open(plain: &P, prefix: &[u8]) -> Self;
    /// Stores the changes so far, and creates the key and its markers.
    ///
    /// # Errors
    /// Any server error.
    fn store(&mut self) -> Result<()>;
    /// Deletes the key and its markers.
    ///
    /// # Errors
    /// Any server error.
    fn remove(&mut self) -> Result<()>;
}

/// The storage conversion of a frontier.
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
    /// The names in both storages, during a storage conversion.
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
            EitherName::Packed(_) => unreachable!("the name of a plain frontier"),
        }
    }

    fn packed(&self) -> &Name {
        match &self.packed {
            EitherName::Packed(name) => name,
            EitherName::Plain(_) => unreachable!("the name of a packed frontier"),
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

/// Position of a scan: a cursor in either storage, and true if the old storage was scanned to its
/// end.
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
    /// Opens the keys of a frontier with a prefix: in one storage, or, with `moving_to`, during the conversion to
    /// another storage.
    #[inline]
    pub fn open(plain: P, packed: Option<H>, prefix: &[u8], moving_to: Option<Storage>) -> Self {
        let mut keys = Both {
            either: Either { plain, packed },
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

    /// Returns the storage of the frontier, and the storage to which it is being converted.
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

    /// Calls `act` with the plain keys and the packed frontier. Writes of `act` to plain keys are not
    /// replicated.
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

    /// Moves an element to the new storage. Returns the number of elements that were moved.
    pub(super) fn bring(&mut self, element: Element<'_>) -> Result<u64> {
        self.move_with(|plain, packed| plain.bring_logged(packed, &element))
    }

    /// Moves an element to the new storage for a command that is about to write the element.
    fn bring_first(&mut self, element: Element<'_>) -> Result<bool> {
        let moved = self.bring(element)? > 0;
        if moved && self.to() == Storage::Plain {
            // Send the log to replicas before the writes to plain keys.
            let packed = self.either.packed.as_mut();
            packed.expect("the frontier is moving").store()?;
        }
        Ok(moved)
    }

    /// Returns the storage to which a group is written. While a frontier is being packed, the first
    /// write to a group moves the group to the packed frontier. Only the conversion itself moves a group
    /// to plain keys, because the group may be large.
    fn home(&mut self, id: &[u8]) -> Result<Storage> {
        if self.to() == Storage::Plain {
            return self.storage_of(id);
        }
        self.bring_first(Element::Group(id))?;
        Ok(Storage::Packed)
    }

    /// Returns the name of a group in the storage to which the group is written.
    fn at_home<'a>(&mut self, two: &'a Two<P::Name>) -> Result<&'a EitherName<P::Name>> {
        let storage = self.home(&two.id)?;
        Ok(two.in_storage(storage))
    }

    /// Returns the storage that contains a group, or the new storage if the group does not exist.
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

    /// Moves a field of a hash before the field is written. Returns true if the field was moved.
    fn bring_field(&mut self, key: &Two<P::Name>, field: &[u8]) -> Result<bool> {
        self.bring_first(Element::Field(key.packed().own(), field))
    }

    /// Moves a number before the number is written.
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

    /// Returns the part of a list that contains an element, and the position of the element in this
    /// part.
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

    /// Returns how many of the members before a rank are in the old storage, and how many are in
    /// the new storage.
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

/// Returns true if member `a` comes before member `b`; a missing member comes last.
fn precedes<V: AsRef<[u8]>>(a: &Ranked<V>, b: &Ranked<V>) -> bool {
    match (a, b) {
        (Some((a, score)), Some((b, other))) => {
            let order = score.total_cmp(other);
            order.then_with(|| a.as_ref().cmp(b.as_ref())) == Ordering::Less
        }
        (a, _) => a.is_some(),
    }
}
