//! Key space in memory, for tests: plain maps with the semantics of Redis.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, RangeInclusive};

use super::{Batch, KeyError, KeyType, Keyspace, Result};
use crate::text::{parse_signed, parse_unsigned};

/// A value of a module type, with only the methods that tests need.
pub trait Native {
    /// Returns true if the key is deleted because its value is empty.
    fn is_empty(&self) -> bool;
    /// Returns the memory used, in bytes.
    fn memory(&self) -> usize;
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Plain<N> {
    /// A hash.
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    /// A set.
    Set(BTreeSet<Vec<u8>>),
    /// A list.
    List(Vec<Vec<u8>>),
    /// A sorted set: score by member.
    SortedSet(BTreeMap<Vec<u8>, f64>),
    /// A string.
    Text(Vec<u8>),
    /// A value of a type defined by this module.
    Native(Box<N>),
}

/// A key space in memory. Scans return entries in byte order. Every few steps, a scan returns some
/// entries again, as a scan of a growing Redis hash may do.
#[derive(Clone, Debug)]
pub struct MemoryKeyspace<N> {
    /// Values by key.
    pub keys: BTreeMap<Vec<u8>, Plain<N>>,
    /// Number of scan steps after which one step is repeated; 0 for never.
    pub repeat_every: u32,
    steps: u32,
}

impl<N> Default for MemoryKeyspace<N> {
    fn default() -> MemoryKeyspace<N> {
        MemoryKeyspace {
            keys: BTreeMap::new(),
            repeat_every: 0,
            steps: 0,
        }
    }
}

const SCAN_STEP: usize = 3;

macro_rules! typed {
    ($self:ident, $key:ident, $variant:ident) => {
        match $self.keys.get($key) {
            None => None,
            Some(Plain::$variant(value)) => Some(value),
            Some(_) => return Err(wrong_type($key, KeyType::$variant)),
        }
    };
}

macro_rules! typed_mut {
    ($self:ident, $key:ident, $variant:ident) => {
        match $self
            .keys
            .entry($key.clone())
            .or_insert_with(|| Plain::$variant(Default::default()))
        {
            Plain::$variant(value) => value,
            _ => return Err(wrong_type($key, KeyType::$variant)),
        }
    };
}

fn wrong_type(key: &[u8], needs: KeyType) -> KeyError {
    KeyError::WrongType {
        key: key.to_vec(),
        needs,
    }
}

impl<N: Native> MemoryKeyspace<N> {
    fn drop_if_empty(&mut self, key: &[u8]) {
        let empty = match self.keys.get(key) {
            Some(Plain::Hash(v)) => v.is_empty(),
            Some(Plain::Set(v)) => v.is_empty(),
            Some(Plain::List(v)) => v.is_empty(),
            Some(Plain::SortedSet(v)) => v.is_empty(),
            Some(Plain::Native(v)) => v.is_empty(),
            Some(Plain::Text(_)) | None => false,
        };
        if empty {
            self.keys.remove(key);
        }
    }

    /// Returns the members of a sorted set in Redis's order: by score, then by bytes.
    fn ranked(&self, key: &[u8]) -> Result<Vec<(&Vec<u8>, f64)>> {
        let mut ranked: Vec<_> = typed!(self, key, SortedSet)
            .into_iter()
            .flatten()
            .map(|(member, &score)| (member, score))
            .collect();
        ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
        Ok(ranked)
    }

    /// Returns true if this scan step must not move the cursor, so that the next step returns its
    /// entries again.
    fn repeats(&mut self) -> bool {
        self.steps = self.steps.wrapping_add(1);
        // If a scan runs inside another scan, a repetition at regular intervals could repeat the
        // same step of one scan forever.
        let scattered = self.steps.wrapping_mul(0x9e37_79b9) >> 16;
        self.repeat_every > 0 && scattered.is_multiple_of(self.repeat_every)
    }
}

/// Appends some entries and moves the cursor past them, unless the step must be repeated. Returns true if there are
/// more entries.
fn scan_step<'a, V>(
    mut rest: impl Iterator<Item = (&'a Vec<u8>, V)>,
    repeat: bool,
    cursor: &mut Option<Vec<u8>>,
    mut give: impl FnMut(&[u8], V),
) -> bool {
    let mut last = None;
    for (entry, value) in rest.by_ref().take(SCAN_STEP) {
        give(entry, value);
        last = Some(entry.clone());
    }
    if repeat {
        return true;
    }
    *cursor = last;
    rest.next().is_some()
}

fn after(cursor: &Option<Vec<u8>>) -> Bound<&[u8]> {
    match cursor {
        Some(last) => Bound::Excluded(last.as_slice()),
        None => Bound::Unbounded,
    }
}

impl<V: Native> Keyspace for MemoryKeyspace<V> {
    type Name = Vec<u8>;
    type Value = Vec<u8>;
    type Cursor = Option<Vec<u8>>;

    fn name(&mut self, parts: &[&[u8]]) -> Vec<u8> {
        parts.concat()
    }

    fn cursor(&mut self) -> Self::Cursor {
        None
    }

    fn exists(&mut self, key: &Vec<u8>) -> bool {
        self.keys.contains_key(key)
    }

    fn delete(&mut self, key: &Vec<u8>) -> Result<bool> {
        Ok(self.keys.remove(key).is_some())
    }

    fn rename(&mut self, from: &Vec<u8>, to: &Vec<u8>) -> Result<()> {
        let value = self
            .keys
            .remove(from)
            .ok_or_else(|| KeyError::Refused("ERR no such key".into()))?;
        self.keys.insert(to.clone(), value);
        Ok(())
    }

    fn memory(&mut self, key: &Vec<u8>) -> u64 {
        match self.keys.get(key) {
            None => 0,
            Some(Plain::Hash(v)) => v.iter().map(|(f, v)| f.len() + v.len()).sum::<usize>() as u64,
            Some(Plain::Set(v)) => v.iter().map(Vec::len).sum::<usize>() as u64,
            Some(Plain::List(v)) => v.iter().map(Vec::len).sum::<usize>() as u64,
            Some(Plain::SortedSet(v)) => v.keys().map(|m| m.len() + 8).sum::<usize>() as u64,
            Some(Plain::Text(v)) => v.len() as u64,
            Some(Plain::Native(v)) => v.memory() as u64,
        }
    }

    fn string_set(&mut self, key: &Vec<u8>, value: &[u8]) -> Result<()> {
        self.keys.insert(key.clone(), Plain::Text(value.to_vec()));
        Ok(())
    }

    fn hash_get(&mut self, key: &Vec<u8>, field: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(typed!(self, key, Hash).and_then(|h| h.get(field).cloned()))
    }

    fn hash_get_many<const N: usize>(
        &mut self,
        key: &Vec<u8>,
        fields: [&Vec<u8>; N],
    ) -> Result<[Option<Vec<u8>>; N]> {
        let hash = typed!(self, key, Hash);
        Ok(fields.map(|field| hash?.get(field).cloned()))
    }

    fn hash_set_many(&mut self, key: &Vec<u8>, fields: &[(&Vec<u8>, &[u8])]) -> Result<()> {
        for (field, value) in fields {
            self.hash_set(key, field, value)?;
        }
        Ok(())
    }

    fn hash_has(&mut self, key: &Vec<u8>, field: &[u8]) -> Result<bool> {
        Ok(typed!(self, key, Hash).is_some_and(|h| h.contains_key(field)))
    }

    fn hash_len(&mut self, key: &Vec<u8>) -> Result<u64> {
        Ok(typed!(self, key, Hash).map_or(0, |h| h.len() as u64))
    }

    fn hash_set(&mut self, key: &Vec<u8>, field: &[u8], value: &[u8]) -> Result<bool> {
        let hash = typed_mut!(self, key, Hash);
        Ok(hash.insert(field.to_vec(), value.to_vec()).is_none())
    }

    fn hash_set_new(&mut self, key: &Vec<u8>, field: &[u8], value: &[u8]) -> Result<bool> {
        if self.hash_has(key, field)? {
            return Ok(false);
        }
        self.hash_set(key, field, value)
    }

    fn hash_add(&mut self, key: &Vec<u8>, field: &[u8], change: i64) -> Result<u64> {
        let value = self.hash_get(key, field)?;
        let before = value.and_then(|value| parse_unsigned(&value)).unwrap_or(0);
        match before.saturating_add_signed(change) {
            0 => drop(self.hash_del(key, field)?),
            sum => drop(self.hash_set(key, field, sum.to_string().as_bytes())?),
        }
        Ok(before)
    }

    fn hash_del(&mut self, key: &Vec<u8>, field: &[u8]) -> Result<bool> {
        if typed!(self, key, Hash).is_none() {
            return Ok(false);
        }
        let gone = typed_mut!(self, key, Hash).remove(field).is_some();
        self.drop_if_empty(key);
        Ok(gone)
    }

    fn hash_scan(
        &mut self,
        key: &Vec<u8>,
        cursor: &mut Self::Cursor,
        out: &mut Batch,
    ) -> Result<bool> {
        let repeat = self.repeats();
        let Some(hash) = typed!(self, key, Hash) else {
            return Ok(false);
        };
        let rest = hash.range::<[u8], _>((after(cursor), Bound::Unbounded));
        Ok(scan_step(rest, repeat, cursor, |field, value| {
            out.push(field, value)
        }))
    }

    fn set_has(&mut self, key: &Vec<u8>, member: &[u8]) -> Result<bool> {
        Ok(typed!(self, key, Set).is_some_and(|s| s.contains(member)))
    }

    fn set_len(&mut self, key: &Vec<u8>) -> Result<u64> {
        Ok(typed!(self, key, Set).map_or(0, |s| s.len() as u64))
    }

    fn set_add(&mut self, key: &Vec<u8>, member: &[u8]) -> Result<bool> {
        let set = typed_mut!(self, key, Set);
        Ok(set.insert(member.to_vec()))
    }

    fn set_del(&mut self, key: &Vec<u8>, member: &[u8]) -> Result<bool> {
        if typed!(self, key, Set).is_none() {
            return Ok(false);
        }
        let gone = typed_mut!(self, key, Set).remove(member);
        self.drop_if_empty(key);
        Ok(gone)
    }

    fn set_scan(
        &mut self,
        key: &Vec<u8>,
        cursor: &mut Self::Cursor,
        out: &mut Batch,
    ) -> Result<bool> {
        let repeat = self.repeats();
        let Some(set) = typed!(self, key, Set) else {
            return Ok(false);
        };
        let rest = set.range::<[u8], _>((after(cursor), Bound::Unbounded));
        let rest = rest.map(|member| (member, ()));
        Ok(scan_step(rest, repeat, cursor, |member, ()| {
            out.push(member, b"")
        }))
    }

    fn list_len(&mut self, key: &Vec<u8>) -> Result<u64> {
        Ok(typed!(self, key, List).map_or(0, |l| l.len() as u64))
    }

    fn list_get(&mut self, key: &Vec<u8>, i: u64) -> Result<Option<Vec<u8>>> {
        Ok(typed!(self, key, List).and_then(|l| l.get(i as usize).cloned()))
    }

    fn list_push(&mut self, key: &Vec<u8>, element: &[u8]) -> Result<u64> {
        let list = typed_mut!(self, key, List);
        list.push(element.to_vec());
        Ok(list.len() as u64)
    }

    fn list_set(&mut self, key: &Vec<u8>, i: u64, element: &[u8]) -> Result<()> {
        let list = typed_mut!(self, key, List);
        list[i as usize] = element.to_vec();
        Ok(())
    }

    fn list_trim(&mut self, key: &Vec<u8>, len: u64) -> Result<()> {
        if typed!(self, key, List).is_none() {
            return Ok(());
        }
        typed_mut!(self, key, List).truncate(len as usize);
        self.drop_if_empty(key);
        Ok(())
    }

    fn list_take(&mut self, key: &Vec<u8>, i: u64) -> Result<Option<Vec<u8>>> {
        if self.list_len(key)? <= i {
            return Ok(None);
        }
        let taken = typed_mut!(self, key, List).remove(i as usize);
        self.drop_if_empty(key);
        Ok(Some(taken))
    }

    fn list_range(&mut self, key: &Vec<u8>, i: u64, n: u64, out: &mut Batch) -> Result<()> {
        let elements = typed!(self, key, List).into_iter().flatten();
        for element in elements.skip(i as usize).take(n as usize) {
            out.push(element, b"");
        }
        Ok(())
    }

    fn zset_score(&mut self, key: &Vec<u8>, member: &[u8]) -> Result<Option<f64>> {
        Ok(typed!(self, key, SortedSet).and_then(|z| z.get(member).copied()))
    }

    fn zset_at(&mut self, key: &Vec<u8>, rank: u64) -> Result<Option<(Vec<u8>, f64)>> {
        let ranked = self.ranked(key)?;
        Ok(ranked.get(rank as usize).map(|(m, s)| ((*m).clone(), *s)))
    }

    fn zset_range(&mut self, key: &Vec<u8>, rank: u64, n: u64, out: &mut Batch) -> Result<()> {
        let ranked = self.ranked(key)?;
        for (member, _) in ranked.iter().skip(rank as usize).take(n as usize) {
            out.push(member, b"");
        }
        Ok(())
    }

    fn zset_between(
        &mut self,
        key: &Vec<u8>,
        scores: RangeInclusive<f64>,
        n: u64,
        out: &mut Batch,
    ) -> Result<bool> {
        let ranked = self.ranked(key)?;
        let mut equal = ranked.iter().filter(|(_, score)| scores.contains(score));
        for (member, _) in equal.by_ref().take(n as usize) {
            out.push(member, b"");
        }
        Ok(equal.next().is_some())
    }

    fn zset_len(&mut self, key: &Vec<u8>) -> Result<u64> {
        Ok(typed!(self, key, SortedSet).map_or(0, |z| z.len() as u64))
    }

    fn zset_count(&mut self, key: &Vec<u8>, most: f64) -> Result<u64> {
        let ranked = self.ranked(key)?;
        Ok(ranked.iter().filter(|(_, score)| *score <= most).count() as u64)
    }

    fn zset_add(&mut self, key: &Vec<u8>, member: &[u8], score: f64) -> Result<()> {
        typed_mut!(self, key, SortedSet).insert(member.to_vec(), score);
        Ok(())
    }

    fn zset_remove(&mut self, key: &Vec<u8>, member: &[u8]) -> Result<()> {
        self.zset_del(key, member).map(drop)
    }

    fn zset_del(&mut self, key: &Vec<u8>, member: &[u8]) -> Result<bool> {
        if typed!(self, key, SortedSet).is_none() {
            return Ok(false);
        }
        let gone = typed_mut!(self, key, SortedSet).remove(member).is_some();
        self.drop_if_empty(key);
        Ok(gone)
    }

    fn zset_scan(
        &mut self,
        key: &Vec<u8>,
        cursor: &mut Self::Cursor,
        out: &mut Batch,
    ) -> Result<bool> {
        let repeat = self.repeats();
        let Some(zset) = typed!(self, key, SortedSet) else {
            return Ok(false);
        };
        let rest = zset.range::<[u8], _>((after(cursor), Bound::Unbounded));
        Ok(scan_step(rest, repeat, cursor, |member, score| {
            out.push(member, score.to_string().as_bytes());
        }))
    }

    fn number(&mut self, key: &Vec<u8>) -> Result<i64> {
        match self.keys.get(key) {
            None => Ok(0),
            Some(Plain::Text(text)) => Ok(parse_signed(text).unwrap_or(0)),
            Some(_) => Err(wrong_type(key, KeyType::String)),
        }
    }

    fn number_add(&mut self, key: &Vec<u8>, change: i64) -> Result<()> {
        let sum = self.number(key)? + change;
        self.number_set(key, sum.max(0))
    }

    fn number_set(&mut self, key: &Vec<u8>, n: i64) -> Result<()> {
        self.number(key)?;
        self.string_set(key, n.to_string().as_bytes())
    }

    fn keys_scan(&mut self, prefix: &[u8], cursor: &mut Self::Cursor, out: &mut Batch) -> bool {
        let from = match &*cursor {
            Some(last) => Bound::Excluded(last.as_slice()),
            None => Bound::Included(prefix),
        };
        let mut more = self
            .keys
            .range::<[u8], _>((from, Bound::Unbounded))
            .map(|(key, _)| key)
            .take_while(|key| key.starts_with(prefix));
        let mut last = None;
        for key in more.by_ref().take(SCAN_STEP) {
            out.push(key, b"");
            last = Some(key.clone());
        }
        let unfinished = more.next().is_some();
        *cursor = last;
        unfinished
    }
}
