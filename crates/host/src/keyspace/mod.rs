//! The key space interface, which the rules of all command families use.
//!
//! `server` implements [`Keyspace`] on Redis keys; tests use [`memory::MemoryKeyspace`]. All keys
//! have plain Redis types.

pub mod memory;
mod once;

use std::fmt;
use std::ops::RangeInclusive;

use crate::text::Shown;

/// The Redis type that an operation requires of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyType {
    /// A hash.
    Hash,
    /// A set.
    Set,
    /// A list.
    List,
    /// A sorted set.
    SortedSet,
    /// A string.
    String,
    /// A type that the module defines. Errors show the name of the type.
    Native(&'static str),
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            KeyType::Hash => "hash",
            KeyType::Set => "set",
            KeyType::List => "list",
            KeyType::SortedSet => "sorted set",
            KeyType::String => "number",
            KeyType::Native(name) => name,
        })
    }
}

/// The reason why the key space refused an operation. A refused operation changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// The key holds a value of another type.
    WrongType {
        /// The key's full name.
        key: Vec<u8>,
        /// The required type.
        needs: KeyType,
    },
    /// The server refused the operation, for example because a cluster slot moved away. Contains the server's error,
    /// which begins with its code word.
    Refused(String),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyError::WrongType { key, needs } => write!(
                f,
                "WRONGTYPE key '{}' does not hold a {needs}; rename or delete it, or use another name",
                Shown(key)
            ),
            KeyError::Refused(text) => f.write_str(text),
        }
    }
}

/// Result of a key space operation.
pub type Result<T> = std::result::Result<T, KeyError>;

/// Entries read by a scan: fields and values in one buffer, which is reused for each batch.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    ends: Vec<(usize, usize)>,
}

impl Batch {
    /// Removes all entries but keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Appends one entry; set members have an empty value.
    pub fn push(&mut self, field: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(field);
        let field_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((field_end, self.bytes.len()));
    }

    /// Keeps the first `len` entries and removes all others.
    pub fn truncate(&mut self, len: usize) {
        self.ends.truncate(len);
        self.bytes.truncate(self.ends.last().map_or(0, |end| end.1));
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns entry `i` as (field, value).
    ///
    /// # Panics
    /// Panics if `i` is not below [`Batch::len`].
    pub fn get(&self, i: usize) -> (&[u8], &[u8]) {
        let start = if i == 0 { 0 } else { self.ends[i - 1].1 };
        let (field_end, end) = self.ends[i];
        (&self.bytes[start..field_end], &self.bytes[field_end..end])
    }

    /// Iterates over the entries in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        (0..self.len()).map(|i| self.get(i))
    }
}

/// The keys of one database. As in Redis, reading a missing key returns nothing, and deleting the last element of a key
/// deletes the key.
///
/// # Errors
/// Every method fails with `WRONGTYPE` if the key holds another type, and with the server's error if the server
/// refuses the operation.
#[allow(clippy::missing_errors_doc)] // documented above
pub trait Keyspace {
    /// Name of a key, prepared once and used many times.
    type Name: Clone + AsRef<[u8]>;
    /// A value read from a key.
    type Value: AsRef<[u8]>;
    /// Position of a scan. It is valid while the process runs. Never store it in a key, because scans visit entries
    /// in a different order on each server.
    type Cursor;

    /// Concatenates the parts to a key name.
    fn name(&mut self, parts: &[&[u8]]) -> Self::Name;
    /// Returns a cursor at the start.
    fn cursor(&mut self) -> Self::Cursor;
    /// Returns true if the key exists, with any type.
    fn exists(&mut self, key: &Self::Name) -> bool;
    /// Deletes a key of any type. Returns true if the key existed. Large values are freed in the
    /// background.
    fn delete(&mut self, key: &Self::Name) -> Result<bool>;
    /// Renames a key. Replaces an existing key with the new name. The key must exist.
    fn rename(&mut self, from: &Self::Name, to: &Self::Name) -> Result<()>;
    /// Returns the memory used by the key, in bytes. Returns an estimate if an exact count would
    /// take a long time.
    fn memory(&mut self, key: &Self::Name) -> u64;
    /// Sets a plain string key.
    fn string_set(&mut self, key: &Self::Name, value: &[u8]) -> Result<()>;

    /// Returns a field of a hash.
    fn hash_get(&mut self, key: &Self::Name, field: &[u8]) -> Result<Option<Self::Value>>;
    /// Returns several fields of a hash in one call. The field names are prepared names.
    fn hash_get_many<const N: usize>(
        &mut self,
        key: &Self::Name,
        fields: [&Self::Name; N],
    ) -> Result<[Option<Self::Value>; N]>;
    /// Sets several fields of a hash in one call. The field names are prepared names.
    fn hash_set_many(&mut self, key: &Self::Name, fields: &[(&Self::Name, &[u8])]) -> Result<()>;
    /// Returns true if a hash has the field.
    fn hash_has(&mut self, key: &Self::Name, field: &[u8]) -> Result<bool>;
    /// Returns the number of fields of a hash.
    fn hash_len(&mut self, key: &Self::Name) -> Result<u64>;
    /// Sets a field. Returns true if the field is new.
    fn hash_set(&mut self, key: &Self::Name, field: &[u8], value: &[u8]) -> Result<bool>;
    /// Sets a field unless it exists. Returns true if the field was set.
    fn hash_set_new(&mut self, key: &Self::Name, field: &[u8], value: &[u8]) -> Result<bool>;
    /// Adds to the number in a field and returns the previous number. The number does not fall
    /// below zero. A field that reaches zero is deleted.
    fn hash_add(&mut self, key: &Self::Name, field: &[u8], change: i64) -> Result<u64>;
    /// Deletes a field. Returns true if the field existed.
    fn hash_del(&mut self, key: &Self::Name, field: &[u8]) -> Result<bool>;
    /// Appends the next entries to `out`. Returns false when the scan is complete. Every entry that
    /// exists from the first call to the last is returned at least once, and may be returned again.
    fn hash_scan(
        &mut self,
        key: &Self::Name,
        cursor: &mut Self::Cursor,
        out: &mut Batch,
    ) -> Result<bool>;

    /// Returns true if a set has the member.
    fn set_has(&mut self, key: &Self::Name, member: &[u8]) -> Result<bool>;
    /// Returns the number of members of a set.
    fn set_len(&mut self, key: &Self::Name) -> Result<u64>;
    /// Adds a member. Returns true if the member is new.
    fn set_add(&mut self, key: &Self::Name, member: &[u8]) -> Result<bool>;
    /// Removes a member. Returns true if the member existed.
    fn set_del(&mut self, key: &Self::Name, member: &[u8]) -> Result<bool>;
    /// Scans the members of a set like [`Keyspace::hash_scan`], with empty values.
    fn set_scan(
        &mut self,
        key: &Self::Name,
        cursor: &mut Self::Cursor,
        out: &mut Batch,
    ) -> Result<bool>;

    /// Returns the number of elements of a list.
    fn list_len(&mut self, key: &Self::Name) -> Result<u64>;
    /// Returns element `i`, counted from the head.
    fn list_get(&mut self, key: &Self::Name, i: u64) -> Result<Option<Self::Value>>;
    /// Appends an element at the tail and returns the new length.
    fn list_push(&mut self, key: &Self::Name, element: &[u8]) -> Result<u64>;
    /// Replaces element `i`, which must exist.
    fn list_set(&mut self, key: &Self::Name, i: u64, element: &[u8]) -> Result<()>;
    /// Keeps the first `len` elements and removes all others.
    fn list_trim(&mut self, key: &Self::Name, len: u64) -> Result<()>;

    /// Removes element `i`, counted from the head, and returns it.
    fn list_take(&mut self, key: &Self::Name, i: u64) -> Result<Option<Self::Value>>;

    /// Appends up to `n` elements, beginning at element `i`, to `out`, with empty values.
    fn list_range(&mut self, key: &Self::Name, i: u64, n: u64, out: &mut Batch) -> Result<()>;

    /// Returns the score of a member.
    fn zset_score(&mut self, key: &Self::Name, member: &[u8]) -> Result<Option<f64>>;
    /// Returns the member at a rank, counted from the lowest score, and its score.
    fn zset_at(&mut self, key: &Self::Name, rank: u64) -> Result<Option<(Self::Value, f64)>>;
    /// Appends up to `n` members, beginning at a rank, to `out`, with empty values.
    fn zset_range(&mut self, key: &Self::Name, rank: u64, n: u64, out: &mut Batch) -> Result<()>;
    /// Appends the first `n` members with scores in this range to `out`, in the order of score and bytes, with empty
    /// values. Returns true if there are more.
    fn zset_between(
        &mut self,
        key: &Self::Name,
        scores: RangeInclusive<f64>,
        n: u64,
        out: &mut Batch,
    ) -> Result<bool>;
    /// Returns the number of members of a sorted set.
    fn zset_len(&mut self, key: &Self::Name) -> Result<u64>;
    /// Returns the number of members with a score of at most `most`.
    fn zset_count(&mut self, key: &Self::Name, most: f64) -> Result<u64>;
    /// Sets the score of a member, and adds the member if it is missing.
    fn zset_add(&mut self, key: &Self::Name, member: &[u8], score: f64) -> Result<()>;
    /// Removes a member that should exist.
    fn zset_remove(&mut self, key: &Self::Name, member: &[u8]) -> Result<()>;
    /// Removes a member. Returns true if the member existed.
    fn zset_del(&mut self, key: &Self::Name, member: &[u8]) -> Result<bool>;
    /// Scans a sorted set like [`Keyspace::hash_scan`], with scores as values.
    fn zset_scan(
        &mut self,
        key: &Self::Name,
        cursor: &mut Self::Cursor,
        out: &mut Batch,
    ) -> Result<bool>;

    /// Returns the integer stored in a string key. Returns 0 for a missing key and for a value that
    /// is not a number.
    fn number(&mut self, key: &Self::Name) -> Result<i64>;
    /// Stores an integer in a string.
    fn number_set(&mut self, key: &Self::Name, n: i64) -> Result<()>;
    /// Adds to the integer in a string. The integer does not fall below zero.
    fn number_add(&mut self, key: &Self::Name, change: i64) -> Result<()>;

    /// Refuses a key that holds another type. Does not check values of the module's own types,
    /// which are checked when they are opened.
    ///
    /// # Errors
    /// `WRONGTYPE`, with the key.
    fn check_type(&mut self, key: &Self::Name, needs: KeyType) -> Result<()> {
        match needs {
            KeyType::Hash => self.hash_len(key).map(drop),
            KeyType::Set => self.set_len(key).map(drop),
            KeyType::List => self.list_len(key).map(drop),
            KeyType::SortedSet => self.zset_len(key).map(drop),
            KeyType::String => self.number(key).map(drop),
            KeyType::Native(_) => Ok(()),
        }
    }

    /// Appends names of keys of any type that start with `prefix`. Returns false when the scan is
    /// complete.
    fn keys_scan(&mut self, prefix: &[u8], cursor: &mut Self::Cursor, out: &mut Batch) -> bool;
}
