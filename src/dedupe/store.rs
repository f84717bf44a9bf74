//! The key space of dedupe: plain keys, and packed indexes as values of a native type.

use crawlspace_host::keyspace::memory::{self, Native, Plain};
use crawlspace_host::keyspace::{KeyError, KeyType, Keyspace, Result};

use super::packed::op::{Op, Take};
use super::packed::{self, Packed};

/// The expected type in `WRONGTYPE` errors.
pub const PACKED: KeyType = KeyType::Native("packed index");

/// The type of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// The key does not exist.
    Nothing,
    /// A packed index.
    Packed,
    /// The marker at the name of a packed merged index.
    Marker,
    /// A hash.
    Hash,
    /// Any other type.
    Other,
}

/// A key space with packed indexes.
pub trait Store: Keyspace + 'static {
    /// Reads the packed index of a key. Returns `None` if the key does not exist.
    ///
    /// # Errors
    /// `WRONGTYPE` if the key holds another type.
    fn packed<T>(&mut self, key: &Self::Name, read: impl FnOnce(&Packed) -> T)
    -> Result<Option<T>>;

    /// Applies a change that involves no other key. Returns true if the change added or deleted a
    /// field. Creates the key if necessary, and deletes it with its last entry.
    ///
    /// # Errors
    /// `WRONGTYPE` if a key holds another type; errors of the server.
    fn change_packed(&mut self, key: &Self::Name, op: &Op<'_>) -> Result<bool>;

    /// Copies a record from the hash `records` into the packed index. The hash stays unchanged.
    ///
    /// # Errors
    ///
    /// `WRONGTYPE` if a key holds another type; errors of the server.
    fn take_packed(
        &mut self,
        key: &Self::Name,
        records: &Self::Name,
        take: &Take<'_>,
    ) -> Result<bool>;

    /// Creates the marker of a packed merged index. The key must not exist.
    ///
    /// # Errors
    /// Errors of the server.
    fn mark(&mut self, key: &Self::Name) -> Result<()>;

    /// Returns the type of the key.
    fn holds(&mut self, key: &Self::Name) -> Holds;
}

/// A value read from a hash in either storage.
#[derive(Clone, Debug)]
pub enum Stored<V> {
    /// From a plain key.
    Plain(V),
    /// From a packed index.
    Packed(packed::Value),
}

/// A value, and the name under which a lookup found it: the hash in its stored notation, or a
/// crawl.
pub type Under<V> = (Vec<u8>, Stored<V>);

impl<V: AsRef<[u8]>> AsRef<[u8]> for Stored<V> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Stored::Plain(value) => value.as_ref(),
            Stored::Packed(value) => value,
        }
    }
}

/// The key space that tests use.
pub type MemoryKeyspace = memory::MemoryKeyspace<Packed>;

impl Native for Packed {
    fn is_empty(&self) -> bool {
        self.is_empty()
    }

    fn memory(&self) -> usize {
        self.memory()
    }
}

impl Store for MemoryKeyspace {
    fn packed<T>(&mut self, key: &Vec<u8>, read: impl FnOnce(&Packed) -> T) -> Result<Option<T>> {
        match self.keys.get(key) {
            None => Ok(None),
            Some(Plain::Native(packed)) => Ok(Some(read(packed))),
            Some(_) => Err(KeyError::WrongType {
                key: key.clone(),
                needs: PACKED,
            }),
        }
    }

    fn change_packed(&mut self, key: &Vec<u8>, op: &Op<'_>) -> Result<bool> {
        self.packed(key, |_| ())?;
        let value = self.keys.entry(key.clone());
        let Plain::Native(packed) = value.or_insert_with(|| Plain::Native(Box::default())) else {
            unreachable!("looked at above");
        };
        let changed = op.apply(packed);
        if packed.is_empty() {
            self.keys.remove(key);
        }
        Ok(changed)
    }

    fn take_packed(&mut self, key: &Vec<u8>, records: &Vec<u8>, take: &Take<'_>) -> Result<bool> {
        // The hash on a replica must contain the same record as on its master.
        let there = self.hash_get(records, take.field)?;
        assert_eq!(
            there.as_deref(),
            take.record,
            "a replica has the same record"
        );
        self.change_packed(key, &Op::Take(*take))
    }

    fn mark(&mut self, key: &Vec<u8>) -> Result<()> {
        // A packed index is never stored empty, so an empty value represents the marker.
        self.keys.insert(key.clone(), Plain::Native(Box::default()));
        Ok(())
    }

    fn holds(&mut self, key: &Vec<u8>) -> Holds {
        match self.keys.get(key) {
            None => Holds::Nothing,
            Some(Plain::Native(packed)) if packed.is_empty() => Holds::Marker,
            Some(Plain::Native(_)) => Holds::Packed,
            Some(Plain::Hash(_)) => Holds::Hash,
            Some(_) => Holds::Other,
        }
    }
}

/// Compares contents, regardless of their layout in memory.
impl PartialEq for Packed {
    fn eq(&self, other: &Packed) -> bool {
        elements(self) == elements(other)
    }
}

impl std::fmt::Debug for Packed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(elements(self)).finish()
    }
}

fn elements(packed: &Packed) -> std::collections::BTreeSet<Vec<Vec<u8>>> {
    let mut all = std::collections::BTreeSet::new();
    packed.elements(&mut |parts| {
        all.insert(parts.iter().map(|part| part.to_vec()).collect());
    });
    all
}
