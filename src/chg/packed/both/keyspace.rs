//! Hashes, lists, sorted sets and numbers of a frontier in either storage, or in both.

use std::cmp::Ordering;
use std::ops::RangeInclusive;

use crawlspace_host::keyspace::{Batch, KeyType, Keyspace, Result};

use super::super::Name;
use super::super::either::{EitherName, EitherValue};
use super::super::element::MOVING;
use super::super::name::Part;
use super::{Both, BothCursor, BothName, Home, Two, precedes};
use crate::chg::group::Id;
use crate::chg::store::Store;
use crate::storage::Storage;

/// Names of fields with their values.
type FieldValues<'a, N> = smallvec::SmallVec<[(&'a N, &'a [u8]); 8]>;

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
            BothName::Two(_) => unreachable!("a frontier has no text keys"),
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
            // A packed frontier stores executions in groups, which may be in either storage.
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
        // In packed storage, the total is computed from the counts of executions.
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
