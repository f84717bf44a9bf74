//! The key space that the politeness rules use: plain keys, and the URIs of a group as one native
//! value per key.

use crawlspace_host::keyspace::memory::{self, Native, Plain};
use crawlspace_host::keyspace::{KeyError, KeyType, Keyspace, Result};

use super::group::{Group, Options};
use super::packed::Packed;
use super::uris::{Changed, Kept, Op, Uris};
use crate::storage::Storage;

/// The type of a key with URIs, as error messages name it.
pub const KEPT_URIS: KeyType = KeyType::Native("queue of URIs");

/// A key space that stores the URIs of groups.
pub trait Store: Keyspace + 'static {
    /// Calls `read` with the URIs of a key. Returns `None` if the key does not exist.
    ///
    /// # Errors
    /// `WRONGTYPE` if the key holds another type.
    fn uris<T>(&mut self, key: &Self::Name, read: impl FnOnce(&Kept<'_>) -> T)
    -> Result<Option<T>>;

    /// Applies a change. [`Op::Add`] and [`Op::Load`] create the key if it does not exist. A change
    /// that removes the last URI and lease deletes the key.
    ///
    /// # Errors
    /// `WRONGTYPE` if a key holds another type; any server error.
    fn change_uris(&mut self, key: &Self::Name, op: &Op<'_>) -> Result<Changed> {
        Ok(self.change_uris_then(key, op, |_| ())?.0)
    }

    /// Applies a change, and calls `look` with the resulting value. The second element of the
    /// result is `None` if the key did not exist and was not created.
    ///
    /// # Errors
    /// As for [`Store::change_uris`].
    fn change_uris_then<T>(
        &mut self,
        key: &Self::Name,
        op: &Op<'_>,
        look: impl FnOnce(&Kept<'_>) -> T,
    ) -> Result<(Changed, Option<T>)>;

    /// Calls `act` without replicating its writes: the caller replicates them in another way.
    fn silently<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        act(self)
    }

    /// Deletes a plain key, and returns its URIs. Returns `None` if the key does not exist.
    ///
    /// # Errors
    /// `WRONGTYPE` if the key holds another type.
    fn take_uris(&mut self, _key: &Self::Name) -> Result<Option<Uris>> {
        unreachable!("only plain keys are values of their own")
    }

    /// Stores URIs in a new plain key.
    ///
    /// # Errors
    /// `WRONGTYPE` if the key holds another type.
    fn put_uris(&mut self, _key: &Self::Name, _uris: Uris) -> Result<()> {
        unreachable!("only plain keys are values of their own")
    }

    /// Returns true if the key exists.
    ///
    /// # Errors
    /// `WRONGTYPE` if the key holds another type.
    fn keeps_uris(&mut self, key: &Self::Name) -> Result<bool> {
        Ok(self.uris(key, |_| ())?.is_some())
    }

    /// Returns true if plain clients can write to the keys.
    fn has_plain_writers(&self) -> bool {
        true
    }

    /// Returns true if groups can be in plain keys. Such a key can hold another type.
    fn has_plain_groups(&self) -> bool {
        true
    }

    /// Returns true if a plain key has the name of a marker of a packed frontier. Commands then fail with
    /// `MIXED`.
    fn is_misplaced(&mut self, _key: &Self::Name) -> bool {
        false
    }

    /// Returns the storage of the frontier, as `CHG.INFO` shows it.
    fn storage_name(&self) -> &'static str {
        if self.has_plain_writers() {
            Storage::Plain.name()
        } else {
            Storage::Packed.name()
        }
    }

    /// Calls `act` with the packed frontier, which is the only storage with known URLs. Returns `None` in any other
    /// storage.
    ///
    /// # Errors
    /// `WRONGTYPE` if the key holds another type.
    fn packed<T>(&mut self, _act: impl FnOnce(&mut Packed) -> T) -> Result<Option<T>> {
        Ok(None)
    }

    /// Returns the position of a group in a list, if the storage can find the group without reading the whole list.
    /// Returns `None` if the group is not found.
    ///
    /// # Errors
    /// `WRONGTYPE` if the key holds another type.
    fn list_find(&mut self, _key: &Self::Name, _id: &[u8]) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Copies a group into a default group, if the storage keeps groups as native values. Returns the number of fields
    /// that its hash would have, or `None` if the storage keeps groups as hashes.
    ///
    /// # Errors
    /// `WRONGTYPE` if the key holds another type.
    fn group(&mut self, _key: &Self::Name, _group: &mut Group) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Stores a group and one additional field. Returns false if the storage keeps groups as
    /// hashes.
    ///
    /// # Errors
    /// `WRONGTYPE` if the key holds another type.
    fn put_group(
        &mut self,
        _key: &Self::Name,
        _group: &Group,
        _more: Option<(&[u8], &[u8])>,
    ) -> Result<bool> {
        Ok(false)
    }

    /// Stores a group that has only options. Returns false if the storage keeps groups as hashes.
    ///
    /// # Errors
    /// `WRONGTYPE` if the key holds another type.
    fn put_options(&mut self, _key: &Self::Name, _options: &Options) -> Result<bool> {
        Ok(false)
    }

    /// Removes all fields of a group except its options. Returns false if the storage keeps groups
    /// as hashes.
    ///
    /// # Errors
    /// `WRONGTYPE` if the key holds another type.
    fn reset_group(&mut self, _key: &Self::Name) -> Result<bool> {
        Ok(false)
    }
}

/// Returns the number in a field, or 0 if the field does not exist.
pub(super) fn field_number<K: Store>(ks: &mut K, key: &K::Name, field: &[u8]) -> Result<u64> {
    let value = ks.hash_get(key, field)?;
    let number = value.and_then(|value| crawlspace_host::text::parse_unsigned(value.as_ref()));
    Ok(number.unwrap_or(0))
}

/// The key space that tests use.
pub type MemoryKeyspace = memory::MemoryKeyspace<Uris>;

impl Native for Uris {
    fn is_empty(&self) -> bool {
        self.is_empty()
    }

    fn memory(&self) -> usize {
        self.memory()
    }
}

impl Store for MemoryKeyspace {
    fn uris<T>(&mut self, key: &Vec<u8>, read: impl FnOnce(&Kept<'_>) -> T) -> Result<Option<T>> {
        match self.keys.get(key) {
            None => Ok(None),
            Some(Plain::Native(uris)) => Ok(Some(read(&Kept::verbatim(uris)))),
            Some(_) => Err(KeyError::WrongType {
                key: key.clone(),
                needs: KEPT_URIS,
            }),
        }
    }

    fn change_uris_then<T>(
        &mut self,
        key: &Vec<u8>,
        op: &Op<'_>,
        look: impl FnOnce(&Kept<'_>) -> T,
    ) -> Result<(Changed, Option<T>)> {
        if !self.keeps_uris(key)? && !op.makes_the_key() {
            return Ok((Changed::Nothing, None));
        }
        let value = self.keys.entry(key.clone());
        let Plain::Native(uris) = value.or_insert_with(|| Plain::Native(Box::default())) else {
            unreachable!("looked at above");
        };
        let changed = uris.apply(op);
        let seen = look(&Kept::verbatim(uris));
        if uris.is_empty() {
            self.keys.remove(key);
        }
        Ok((changed, Some(seen)))
    }

    fn take_uris(&mut self, key: &Vec<u8>) -> Result<Option<Uris>> {
        if !self.keeps_uris(key)? {
            return Ok(None);
        }
        match self.keys.remove(key) {
            Some(Plain::Native(uris)) => Ok(Some(*uris)),
            _ => unreachable!("looked at above"),
        }
    }

    fn put_uris(&mut self, key: &Vec<u8>, uris: Uris) -> Result<()> {
        self.keys.insert(key.clone(), Plain::Native(Box::new(uris)));
        Ok(())
    }
}

/// Calls `act` with the packed frontier.
///
/// # Errors
/// `PLAIN` if the frontier is in another storage.
pub(super) fn with_packed<K: Store, T>(
    ks: &mut K,
    act: impl FnOnce(&mut Packed) -> T,
) -> super::error::Result<T> {
    let done = ks.packed(act)?;
    done.ok_or_else(|| {
        if ks.has_plain_writers() {
            super::error::Error::Plain
        } else {
            super::error::Error::Moving
        }
    })
}

/// Checks that the frontier is packed.
///
/// # Errors
/// `PLAIN` if the frontier is in plain storage or is being converted.
pub fn check_packed<K: Store>(ks: &mut K) -> super::error::Result<()> {
    with_packed(ks, |_| ())
}
