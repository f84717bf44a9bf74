//! What the rules of every command family need from a key space, and nothing more.
//!
//! The server side (`server`) implements [`Keyspace`] on Redis keys; tests use
//! [`memory::MemoryKeyspace`]. All keys are plain Redis types.

pub mod memory;
mod once;

use std::fmt;
use std::ops::RangeInclusive;

use crate::text::Shown;

/// The Redis type that an operation needs a key to have.
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
    /// A type of this module, by its name in errors.
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

/// Why the key space refused an operation. Nothing was changed by the refused operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// The key holds another type.
    WrongType {
        /// The key's full name.
        key: Vec<u8>,
        /// What it should be.
        needs: KeyType,
    },
    /// The server said no, for example because a cluster slot moved away. The text is the
    /// server's own, code word first.
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

/// Fields and values read by a scan, in one buffer that is reused from batch to batch.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    ends: Vec<(usize, usize)>,
}

impl Batch {
    /// Drops the entries, keeps the memory.
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

    /// Drops all entries but the first `len`.
    pub fn truncate(&mut self, len: usize) {
        self.ends.truncate(len);
        self.bytes.truncate(self.ends.last().map_or(0, |end| end.1));
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True when there is no entry.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Entry `i` as (field, value).
    ///
    /// # Panics
    /// When `i` is not below [`Batch::len`].
    pub fn get(&self, i: usize) -> (&[u8], &[u8]) {
        let start = if i == 0 { 0 } else { self.ends[i - 1].1 };
        let (field_end, end) = self.ends[i];
        (&self.bytes[start..field_end], &self.bytes[field_end..end])
    }

    /// All entries in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        (0..self.len()).map(|i| self.get(i))
    }
}

/// Keys of one database. Reads of a missing key give nothing, as in Redis; deleting the last
/// element deletes the key.
///
/// # Errors
/// Of each method: `WRONGTYPE` when the key holds another type; or when the server
/// refuses.
#[allow(clippy::missing_errors_doc)] // said above
pub trait Keyspace {
    /// A key name made ready once and used many times.
    type Name: Clone + AsRef<[u8]>;
    /// A value read from a key.
    type Value: AsRef<[u8]>;
    /// Position of a scan. Valid while the process lives; never stored in a key, because
    /// the order of a scan differs between servers.
    type Cursor;

    /// Makes the name that the parts give when put one after the other.
    fn name(&mut self, parts: &[&[u8]]) -> Self::Name;
    /// A cursor at the start.
    fn cursor(&mut self) -> Self::Cursor;
    /// Whether the key exists, whatever its type.
    fn exists(&mut self, key: &Self::Name) -> bool;
    /// Deletes a key of any type; true when it was there. Large values are freed in the background.
    fn delete(&mut self, key: &Self::Name) -> Result<bool>;
    /// Gives a key another name, replacing what was there. The key must exist.
    fn rename(&mut self, from: &Self::Name, to: &Self::Name) -> Result<()>;
    /// Bytes of memory that the key uses; an estimate where counting exactly would take long.
    fn memory(&mut self, key: &Self::Name) -> u64;
    /// Sets a plain string key.
    fn string_set(&mut self, key: &Self::Name, value: &[u8]) -> Result<()>;

    /// One field of a hash.
    fn hash_get(&mut self, key: &Self::Name, field: &[u8]) -> Result<Option<Self::Value>>;
    /// Several fields of a hash at once, named beforehand.
    fn hash_get_many<const N: usize>(
        &mut self,
        key: &Self::Name,
        fields: [&Self::Name; N],
    ) -> Result<[Option<Self::Value>; N]>;
    /// Sets several fields, named beforehand.
    fn hash_set_many(&mut self, key: &Self::Name, fields: &[(&Self::Name, &[u8])]) -> Result<()>;
    /// Whether a hash has the field.
    fn hash_has(&mut self, key: &Self::Name, field: &[u8]) -> Result<bool>;
    /// Number of fields.
    fn hash_len(&mut self, key: &Self::Name) -> Result<u64>;
    /// Sets a field; true when it is new.
    fn hash_set(&mut self, key: &Self::Name, field: &[u8], value: &[u8]) -> Result<bool>;
    /// Sets a field only if it is not there; true when it was set.
    fn hash_set_new(&mut self, key: &Self::Name, field: &[u8], value: &[u8]) -> Result<bool>;
    /// Adds to the number in a field, which does not go below zero, and at zero is deleted; what it
    /// was before.
    fn hash_add(&mut self, key: &Self::Name, field: &[u8], change: i64) -> Result<u64>;
    /// Deletes a field; true when it was there.
    fn hash_del(&mut self, key: &Self::Name, field: &[u8]) -> Result<bool>;
    /// Appends some entries to `out`; false when the scan is complete. Every entry that is there
    /// from the first call to the last is given at least once, and may be given again.
    fn hash_scan(
        &mut self,
        key: &Self::Name,
        cursor: &mut Self::Cursor,
        out: &mut Batch,
    ) -> Result<bool>;

    /// Whether a set has the member.
    fn set_has(&mut self, key: &Self::Name, member: &[u8]) -> Result<bool>;
    /// Number of members.
    fn set_len(&mut self, key: &Self::Name) -> Result<u64>;
    /// Adds a member; true when it is new.
    fn set_add(&mut self, key: &Self::Name, member: &[u8]) -> Result<bool>;
    /// Removes a member; true when it was there.
    fn set_del(&mut self, key: &Self::Name, member: &[u8]) -> Result<bool>;
    /// Like [`Keyspace::hash_scan`], with empty values.
    fn set_scan(
        &mut self,
        key: &Self::Name,
        cursor: &mut Self::Cursor,
        out: &mut Batch,
    ) -> Result<bool>;

    /// Number of elements.
    fn list_len(&mut self, key: &Self::Name) -> Result<u64>;
    /// Element `i`, counted from the head.
    fn list_get(&mut self, key: &Self::Name, i: u64) -> Result<Option<Self::Value>>;
    /// Appends at the tail; the new length.
    fn list_push(&mut self, key: &Self::Name, element: &[u8]) -> Result<u64>;
    /// Replaces element `i`, which must exist.
    fn list_set(&mut self, key: &Self::Name, i: u64, element: &[u8]) -> Result<()>;
    /// Keeps the first `len` elements.
    fn list_trim(&mut self, key: &Self::Name, len: u64) -> Result<()>;

    /// Takes element `i` out of a list, counted from the head.
    fn list_take(&mut self, key: &Self::Name, i: u64) -> Result<Option<Self::Value>>;

    /// Appends up to `n` elements from element `i` on to `out`, with empty values.
    fn list_range(&mut self, key: &Self::Name, i: u64, n: u64, out: &mut Batch) -> Result<()>;

    /// The score of a member.
    fn zset_score(&mut self, key: &Self::Name, member: &[u8]) -> Result<Option<f64>>;
    /// The member at a rank, counted from the lowest score, with its score.
    fn zset_at(&mut self, key: &Self::Name, rank: u64) -> Result<Option<(Self::Value, f64)>>;
    /// Appends up to `n` members from a rank on to `out`, with empty values.
    fn zset_range(&mut self, key: &Self::Name, rank: u64, n: u64, out: &mut Batch) -> Result<()>;
    /// Appends the first `n` members with these scores to `out`, those of one score in the order of bytes, with empty
    /// values; true when there are more of them.
    fn zset_between(
        &mut self,
        key: &Self::Name,
        scores: RangeInclusive<f64>,
        n: u64,
        out: &mut Batch,
    ) -> Result<bool>;
    /// Number of members.
    fn zset_len(&mut self, key: &Self::Name) -> Result<u64>;
    /// Number of members with a score of at most `most`.
    fn zset_count(&mut self, key: &Self::Name, most: f64) -> Result<u64>;
    /// Sets a member's score, adding it if it is not there.
    fn zset_add(&mut self, key: &Self::Name, member: &[u8], score: f64) -> Result<()>;
    /// Removes a member that is there, as far as anybody knows.
    fn zset_remove(&mut self, key: &Self::Name, member: &[u8]) -> Result<()>;
    /// Removes a member; true when it was there.
    fn zset_del(&mut self, key: &Self::Name, member: &[u8]) -> Result<bool>;
    /// Like [`Keyspace::hash_scan`], with scores as values.
    fn zset_scan(
        &mut self,
        key: &Self::Name,
        cursor: &mut Self::Cursor,
        out: &mut Batch,
    ) -> Result<bool>;

    /// A whole number kept in a string; 0 when there is none. Text that is no number counts as 0.
    fn number(&mut self, key: &Self::Name) -> Result<i64>;
    /// Sets a number.
    fn number_set(&mut self, key: &Self::Name, n: i64) -> Result<()>;
    /// Adds to a number, which does not go below zero.
    fn number_add(&mut self, key: &Self::Name, change: i64) -> Result<()>;

    /// Refuses a key that holds another type. Values of this module check themselves when they are opened.
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

    /// Appends names of keys that start with `prefix`, of any type; false when complete.
    fn keys_scan(&mut self, prefix: &[u8], cursor: &mut Self::Cursor, out: &mut Batch) -> bool;
}
