//! The key space of a frontier in either storage: plain keys, or a packed value with the same interface.

use std::ops::RangeInclusive;

use crawlspace_host::keyspace::{Batch, KeyType, Keyspace, Result};

use super::super::group::{Group, Options};
use super::super::store::Store;
use super::super::uris::{Changed, Kept, Op};
use super::{Name, Packed, Value};

/// Access to a packed frontier.
pub trait Holder: 'static {
    /// Calls `act` with the frontier.
    ///
    /// # Errors
    /// `WRONGTYPE` if the key of the packed frontier holds another type.
    fn with<T>(&mut self, act: impl FnOnce(&mut Packed) -> T) -> Result<T>;

    /// Checks that no plain key has the name of a marker of the packed frontier.
    ///
    /// # Errors
    /// `MIXED` for a plain key.
    fn check(&mut self, _key: &Name) -> Result<()> {
        Ok(())
    }

    /// Returns true if a plain key has the name of a marker of the packed frontier.
    fn is_misplaced(&mut self, _key: &Name) -> bool {
        false
    }
}

impl Holder for Box<Packed> {
    fn with<T>(&mut self, act: impl FnOnce(&mut Packed) -> T) -> Result<T> {
        Ok(act(self))
    }
}

/// A key space in either storage.
pub struct Either<P, H> {
    /// The plain keys.
    pub plain: P,
    /// The packed frontier; `None` in plain storage.
    pub packed: Option<H>,
}

/// The name of a key in either storage.
#[derive(Clone)]
pub enum EitherName<N> {
    /// The name of a plain key.
    Plain(N),
    /// The name of a part of a packed frontier.
    Packed(Name),
}

/// A value read in either storage.
pub enum EitherValue<V> {
    /// From a plain key.
    Plain(V),
    /// From a packed frontier.
    Packed(Value),
}

impl<N: AsRef<[u8]>> AsRef<[u8]> for EitherName<N> {
    fn as_ref(&self) -> &[u8] {
        match self {
            EitherName::Plain(name) => name.as_ref(),
            EitherName::Packed(name) => name.as_ref(),
        }
    }
}

impl<V: AsRef<[u8]>> AsRef<[u8]> for EitherValue<V> {
    fn as_ref(&self) -> &[u8] {
        match self {
            EitherValue::Plain(value) => value.as_ref(),
            EitherValue::Packed(value) => value,
        }
    }
}

/// Calls a method of the plain key space, or of the packed frontier, depending on the name of the key.
macro_rules! either {
    ($self:ident, $key:ident, $plain:expr, $packed:expr) => {
        match ($key, &mut $self.packed) {
            (EitherName::Plain($key), _) => $plain(&mut $self.plain, $key),
            (EitherName::Packed($key), Some(holder)) => holder.with(|packed| $packed(packed, $key)),
            (EitherName::Packed(_), None) => unreachable!("names are made for one storage"),
        }
    };
}

impl<P: Store, H: Holder> Keyspace for Either<P, H> {
    type Name = EitherName<P::Name>;
    type Value = EitherValue<P::Value>;
    type Cursor = (P::Cursor, u64);

    fn name(&mut self, parts: &[&[u8]]) -> Self::Name {
        match self.packed {
            None => EitherName::Plain(self.plain.name(parts)),
            Some(_) => EitherName::Packed(Name::new(parts)),
        }
    }

    fn cursor(&mut self) -> Self::Cursor {
        (self.plain.cursor(), 0)
    }

    fn exists(&mut self, key: &Self::Name) -> bool {
        let exists: Result<bool> = either!(
            self,
            key,
            |p: &mut P, key| Ok(p.exists(key)),
            |p: &mut Packed, key| p.exists(key)
        );
        exists.unwrap_or(false)
    }

    fn delete(&mut self, key: &Self::Name) -> Result<bool> {
        either!(
            self,
            key,
            |p: &mut P, key| p.delete(key),
            |p: &mut Packed, key| p.delete(key)
        )
    }

    fn rename(&mut self, from: &Self::Name, to: &Self::Name) -> Result<()> {
        match (from, to) {
            (EitherName::Plain(from), EitherName::Plain(to)) => self.plain.rename(from, to),
            _ => unreachable!("no part of a packed frontier is renamed"),
        }
    }

    fn memory(&mut self, key: &Self::Name) -> u64 {
        match key {
            EitherName::Plain(key) => self.plain.memory(key),
            EitherName::Packed(_) => 0,
        }
    }

    fn string_set(&mut self, key: &Self::Name, value: &[u8]) -> Result<()> {
        match key {
            EitherName::Plain(key) => self.plain.string_set(key, value),
            EitherName::Packed(_) => unreachable!("a packed frontier contains no strings"),
        }
    }

    fn hash_get(&mut self, key: &Self::Name, field: &[u8]) -> Result<Option<Self::Value>> {
        either!(
            self,
            key,
            |p: &mut P, key| Ok(p.hash_get(key, field)?.map(EitherValue::Plain)),
            |p: &mut Packed, key| p.hash_get(key, field).map(EitherValue::Packed)
        )
    }

    fn hash_get_many<const N: usize>(
        &mut self,
        key: &Self::Name,
        fields: [&Self::Name; N],
    ) -> Result<[Option<Self::Value>; N]> {
        let mut values = std::array::from_fn(|_| None);
        if let EitherName::Plain(key) = key {
            let fields = fields.map(|field| match field {
                EitherName::Plain(field) => field,
                EitherName::Packed(_) => unreachable!("names are made for one storage"),
            });
            let read = self.plain.hash_get_many(key, fields)?;
            return Ok(read.map(|value| value.map(EitherValue::Plain)));
        }
        for (value, field) in values.iter_mut().zip(fields) {
            *value = self.hash_get(key, field.as_ref())?;
        }
        Ok(values)
    }

    fn hash_set_many(&mut self, key: &Self::Name, fields: &[(&Self::Name, &[u8])]) -> Result<()> {
        let EitherName::Plain(plain) = key else {
            for (field, value) in fields {
                self.hash_set(key, field.as_ref(), value)?;
            }
            return Ok(());
        };
        let fields: smallvec::SmallVec<[(&P::Name, &[u8]); 8]> = fields
            .iter()
            .filter_map(|(field, value)| match field {
                EitherName::Plain(field) => Some((field, *value)),
                EitherName::Packed(_) => None,
            })
            .collect();
        self.plain.hash_set_many(plain, &fields)
    }

    fn hash_has(&mut self, key: &Self::Name, field: &[u8]) -> Result<bool> {
        either!(
            self,
            key,
            |p: &mut P, key| p.hash_has(key, field),
            |p: &mut Packed, key| p.hash_get(key, field).is_some()
        )
    }

    fn hash_len(&mut self, key: &Self::Name) -> Result<u64> {
        either!(
            self,
            key,
            |p: &mut P, key| p.hash_len(key),
            |p: &mut Packed, key| p.hash_len(key)
        )
    }

    fn hash_set(&mut self, key: &Self::Name, field: &[u8], value: &[u8]) -> Result<bool> {
        either!(
            self,
            key,
            |p: &mut P, key| p.hash_set(key, field, value),
            |p: &mut Packed, key| p.hash_set(key, field, value)
        )
    }

    fn hash_set_new(&mut self, key: &Self::Name, field: &[u8], value: &[u8]) -> Result<bool> {
        either!(
            self,
            key,
            |p: &mut P, key| p.hash_set_new(key, field, value),
            |p: &mut Packed, key| p.hash_set(key, field, value)
        )
    }

    fn hash_add(&mut self, key: &Self::Name, field: &[u8], change: i64) -> Result<u64> {
        either!(
            self,
            key,
            |p: &mut P, key| p.hash_add(key, field, change),
            |p: &mut Packed, key| p.hash_add(key, field, change)
        )
    }

    fn hash_del(&mut self, key: &Self::Name, field: &[u8]) -> Result<bool> {
        either!(
            self,
            key,
            |p: &mut P, key| p.hash_del(key, field),
            |p: &mut Packed, key| p.hash_del(key, field)
        )
    }

    fn hash_scan(
        &mut self,
        key: &Self::Name,
        cursor: &mut Self::Cursor,
        out: &mut Batch,
    ) -> Result<bool> {
        either!(
            self,
            key,
            |p: &mut P, key| p.hash_scan(key, &mut cursor.0, out),
            |p: &mut Packed, key| p.hash_scan(key, &mut cursor.1, out)
        )
    }

    fn set_has(&mut self, _: &Self::Name, _: &[u8]) -> Result<bool> {
        unreachable!("a frontier uses no set keys")
    }

    fn set_len(&mut self, _: &Self::Name) -> Result<u64> {
        unreachable!("a frontier uses no set keys")
    }

    fn set_add(&mut self, _: &Self::Name, _: &[u8]) -> Result<bool> {
        unreachable!("a frontier uses no set keys")
    }

    fn set_del(&mut self, _: &Self::Name, _: &[u8]) -> Result<bool> {
        unreachable!("a frontier uses no set keys")
    }

    fn set_scan(&mut self, _: &Self::Name, _: &mut Self::Cursor, _: &mut Batch) -> Result<bool> {
        unreachable!("a frontier uses no set keys")
    }

    fn list_len(&mut self, key: &Self::Name) -> Result<u64> {
        either!(
            self,
            key,
            |p: &mut P, key| p.list_len(key),
            |p: &mut Packed, key| p.list_len(key)
        )
    }

    fn list_get(&mut self, key: &Self::Name, i: u64) -> Result<Option<Self::Value>> {
        either!(
            self,
            key,
            |p: &mut P, key| Ok(p.list_get(key, i)?.map(EitherValue::Plain)),
            |p: &mut Packed, key| p.list_get(key, i).map(EitherValue::Packed)
        )
    }

    fn list_push(&mut self, key: &Self::Name, element: &[u8]) -> Result<u64> {
        either!(
            self,
            key,
            |p: &mut P, key| p.list_push(key, element),
            |p: &mut Packed, key| p.list_push(key, element)
        )
    }

    fn list_set(&mut self, _: &Self::Name, _: u64, _: &[u8]) -> Result<()> {
        unreachable!("no element of a list is replaced")
    }

    fn list_trim(&mut self, _: &Self::Name, _: u64) -> Result<()> {
        unreachable!("no list is trimmed")
    }

    fn list_take(&mut self, key: &Self::Name, i: u64) -> Result<Option<Self::Value>> {
        either!(
            self,
            key,
            |p: &mut P, key| Ok(p.list_take(key, i)?.map(EitherValue::Plain)),
            |p: &mut Packed, key| p.list_take(key, i).map(EitherValue::Packed)
        )
    }

    fn list_range(&mut self, key: &Self::Name, i: u64, n: u64, out: &mut Batch) -> Result<()> {
        either!(
            self,
            key,
            |p: &mut P, key| p.list_range(key, i, n, out),
            |p: &mut Packed, key| p.list_range(key, i, n, out)
        )
    }

    fn zset_score(&mut self, key: &Self::Name, member: &[u8]) -> Result<Option<f64>> {
        either!(
            self,
            key,
            |p: &mut P, key| p.zset_score(key, member),
            |p: &mut Packed, key| p.score(key, member)
        )
    }

    fn zset_at(&mut self, key: &Self::Name, rank: u64) -> Result<Option<(Self::Value, f64)>> {
        either!(
            self,
            key,
            |p: &mut P, key| {
                let at = p.zset_at(key, rank)?;
                Ok(at.map(|(member, score)| (EitherValue::Plain(member), score)))
            },
            |p: &mut Packed, key| {
                let at = p.member_at(key, rank);
                at.map(|(member, score)| (EitherValue::Packed(member), score))
            }
        )
    }

    fn zset_range(&mut self, key: &Self::Name, rank: u64, n: u64, out: &mut Batch) -> Result<()> {
        either!(
            self,
            key,
            |p: &mut P, key| p.zset_range(key, rank, n, out),
            |p: &mut Packed, key| p.members(key, rank, n, out)
        )
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
        either!(
            self,
            key,
            |p: &mut P, key| p.zset_len(key),
            |p: &mut Packed, key| p.set_len(key)
        )
    }

    fn zset_count(&mut self, key: &Self::Name, most: f64) -> Result<u64> {
        either!(
            self,
            key,
            |p: &mut P, key| p.zset_count(key, most),
            |p: &mut Packed, key| p.count_up_to(key, most)
        )
    }

    fn zset_add(&mut self, key: &Self::Name, member: &[u8], score: f64) -> Result<()> {
        either!(
            self,
            key,
            |p: &mut P, key| p.zset_add(key, member, score),
            |p: &mut Packed, key| p.set_add(key, member, score)
        )
    }

    fn zset_remove(&mut self, key: &Self::Name, member: &[u8]) -> Result<()> {
        either!(
            self,
            key,
            |p: &mut P, key| p.zset_remove(key, member),
            |p: &mut Packed, key| {
                p.set_del(key, member);
            }
        )
    }

    fn zset_del(&mut self, key: &Self::Name, member: &[u8]) -> Result<bool> {
        either!(
            self,
            key,
            |p: &mut P, key| p.zset_del(key, member),
            |p: &mut Packed, key| p.set_del(key, member)
        )
    }

    fn zset_scan(
        &mut self,
        key: &Self::Name,
        cursor: &mut Self::Cursor,
        out: &mut Batch,
    ) -> Result<bool> {
        either!(
            self,
            key,
            |p: &mut P, key| p.zset_scan(key, &mut cursor.0, out),
            |p: &mut Packed, key| p.set_scan(key, &mut cursor.1, out)
        )
    }

    fn number(&mut self, key: &Self::Name) -> Result<i64> {
        either!(
            self,
            key,
            |p: &mut P, key| p.number(key),
            |p: &mut Packed, key| p.number(key)
        )
    }

    fn number_set(&mut self, key: &Self::Name, n: i64) -> Result<()> {
        either!(
            self,
            key,
            |p: &mut P, key| p.number_set(key, n),
            |p: &mut Packed, key| p.set_number(key, n)
        )
    }

    fn number_add(&mut self, key: &Self::Name, change: i64) -> Result<()> {
        either!(
            self,
            key,
            |p: &mut P, key| p.number_add(key, change),
            |p: &mut Packed, key| {
                let sum = p.number(key) + change;
                p.set_number(key, sum.max(0));
            }
        )
    }

    fn check_type(&mut self, key: &Self::Name, needs: KeyType) -> Result<()> {
        match (key, &mut self.packed) {
            (EitherName::Packed(key), Some(holder)) => holder.check(key),
            (EitherName::Plain(key), _) => self.plain.check_type(key, needs),
            _ => Ok(()),
        }
    }

    fn keys_scan(&mut self, prefix: &[u8], cursor: &mut Self::Cursor, out: &mut Batch) -> bool {
        match &mut self.packed {
            None => self.plain.keys_scan(prefix, &mut cursor.0, out),
            Some(holder) => holder
                .with(|packed| packed.keys_scan(prefix, &mut cursor.1, out))
                .unwrap_or(false),
        }
    }
}

impl<P: Store, H: Holder> Store for Either<P, H> {
    fn uris<T>(
        &mut self,
        key: &Self::Name,
        read: impl FnOnce(&Kept<'_>) -> T,
    ) -> Result<Option<T>> {
        either!(
            self,
            key,
            |p: &mut P, key| p.uris(key, read),
            |p: &mut Packed, key| p.uris(key, read)
        )
    }

    fn change_uris_then<T>(
        &mut self,
        key: &Self::Name,
        op: &Op<'_>,
        look: impl FnOnce(&Kept<'_>) -> T,
    ) -> Result<(Changed, Option<T>)> {
        either!(
            self,
            key,
            |p: &mut P, key| p.change_uris_then(key, op, look),
            |p: &mut Packed, key| p.change_uris(key, op, look)
        )
    }

    fn has_plain_writers(&self) -> bool {
        self.packed.is_none()
    }

    fn has_plain_groups(&self) -> bool {
        self.packed.is_none()
    }

    fn is_misplaced(&mut self, key: &Self::Name) -> bool {
        match (key, &mut self.packed) {
            (EitherName::Packed(key), Some(holder)) => holder.is_misplaced(key),
            _ => false,
        }
    }

    fn packed<T>(&mut self, act: impl FnOnce(&mut Packed) -> T) -> Result<Option<T>> {
        self.packed
            .as_mut()
            .map(|holder| holder.with(act))
            .transpose()
    }

    fn list_find(&mut self, key: &Self::Name, id: &[u8]) -> Result<Option<u64>> {
        either!(self, key, |_: &mut P, _| Ok(None), |p: &mut Packed, key| p
            .list_find(key, id))
    }

    fn group(&mut self, key: &Self::Name, group: &mut Group) -> Result<Option<u64>> {
        either!(self, key, |_: &mut P, _| Ok(None), |p: &mut Packed, key| {
            Some(p.group(key, group))
        })
    }

    fn put_group(
        &mut self,
        key: &Self::Name,
        group: &Group,
        more: Option<(&[u8], &[u8])>,
    ) -> Result<bool> {
        either!(
            self,
            key,
            |_: &mut P, _| Ok(false),
            |p: &mut Packed, key| {
                p.put_group(key, group, more);
                true
            }
        )
    }

    fn put_options(&mut self, key: &Self::Name, options: &Options) -> Result<bool> {
        either!(
            self,
            key,
            |_: &mut P, _| Ok(false),
            |p: &mut Packed, key| {
                p.put_options(key, options);
                true
            }
        )
    }

    fn reset_group(&mut self, key: &Self::Name) -> Result<bool> {
        either!(
            self,
            key,
            |_: &mut P, _| Ok(false),
            |p: &mut Packed, key| {
                p.reset_group(key);
                true
            }
        )
    }
}
