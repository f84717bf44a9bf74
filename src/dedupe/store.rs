//! What the rules of dedupe need of a key space besides plain keys: the packed index, one value a key.

use crawlspace_host::keyspace::memory::{self, Native, Plain};
use crawlspace_host::keyspace::{KeyError, KeyType, Keyspace, Result};

use super::packed::op::{Op, Take};
use super::packed::{self, Packed};

/// What an error says a key should hold.
pub const PACKED: KeyType = KeyType::Native("packed index");

/// What a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// There is no such key.
    Nothing,
    /// A packed index.
    Packed,
    /// What stands at the name of a merged index that is packed.
    Marker,
    /// A hash.
    Hash,
    /// Anything else.
    Other,
}

/// Keys with packed indexes.
pub trait Store: Keyspace + 'static {
    /// Looks at the packed index of a key; `None` when there is no such key.
    ///
    /// # Errors
    /// `WRONGTYPE` when the key holds another type.
    fn packed<T>(&mut self, key: &Self::Name, read: impl FnOnce(&Packed) -> T)
    -> Result<Option<T>>;

    /// Makes a change that needs no other key; true if a field is new, or was there to go. The key is
    /// made if it is not there, and goes with its last entry.
    ///
    /// # Errors
    /// `WRONGTYPE` when a key holds another type; or when the server refuses.
    fn change_packed(&mut self, key: &Self::Name, op: &Op<'_>) -> Result<bool>;

    /// Takes a record in that stands in the hash `records`, which stays as it is.
    ///
    /// # Errors
    /// `WRONGTYPE` when a key holds another type; or when the server refuses.
    fn take_packed(
        &mut self,
        key: &Self::Name,
        records: &Self::Name,
        take: &Take<'_>,
    ) -> Result<bool>;

    /// Makes a key that says that the merged index of this name is packed. There must be no such key.
    ///
    /// # Errors
    /// When the server refuses.
    fn mark(&mut self, key: &Self::Name) -> Result<()>;

    /// What the key holds.
    fn holds(&mut self, key: &Self::Name) -> Holds;
}

/// A value read from a hash of either storage.
#[derive(Clone, Debug)]
pub enum Stored<V> {
    /// From a plain key.
    Plain(V),
    /// From a packed index.
    Packed(packed::Value),
}

/// A value with what it stands under: a hash as it is spelled there, or a crawl.
pub type Under<V> = (Vec<u8>, Stored<V>);

impl<V: AsRef<[u8]>> AsRef<[u8]> for Stored<V> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Stored::Plain(value) => value.as_ref(),
            Stored::Packed(value) => value,
        }
    }
}

/// Keys of tests.
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
        // What a replica will look for must be there.
        let there = self.hash_get(records, take.field)?;
        assert_eq!(there.as_deref(), take.record, "a record is taken as it is");
        self.change_packed(key, &Op::Take(*take))
    }

    fn mark(&mut self, key: &Vec<u8>) -> Result<()> {
        // An index with nothing in it has no key otherwise.
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

/// By content; how it lies in memory is no matter.
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
