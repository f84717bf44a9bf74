//! A hash of an index, stored in a plain key or in the packed index.

use std::borrow::Cow;

use crate::dedupe::error::Result;
use crate::dedupe::packed::Part;
use crate::dedupe::packed::op::Op;
use crate::dedupe::store::{Store, Stored};

/// The storage to which a field is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// The plain hash; the field is deleted from the packed index.
    Plain,
    /// The packed index; the field is deleted from the plain hash.
    Packed,
    /// The storage that contains the field. A new field is written to the plain hash.
    Same,
}

/// A hash whose fields are in a plain key or in the packed index. While the index changes its
/// storage, fields may be in either.
///
/// If a field is in both, the packed field takes precedence; see the [module on
/// storages](super::storage).
pub(crate) struct Table<'a, N: Clone> {
    pub(crate) part: Part<'a>,
    /// The key of the packed index, if it may contain fields.
    pub(crate) packed: Option<&'a N>,
    /// The plain hash, if it may contain fields.
    pub(crate) plain: Option<Cow<'a, N>>,
    pub(crate) home: Home,
}

impl<N: Clone> Table<'_, N> {
    /// Returns the value of a field.
    ///
    /// # Errors
    /// `WRONGTYPE` if a key holds another type.
    pub(crate) fn get<K: Store<Name = N>>(
        &self,
        ks: &mut K,
        field: &[u8],
    ) -> Result<Option<Stored<K::Value>>> {
        if let Some(key) = self.packed {
            let value = ks.packed(key, |packed| packed.get(self.part, field))?;
            if let Some(value) = value.flatten() {
                return Ok(Some(Stored::Packed(value)));
            }
        }
        match &self.plain {
            Some(key) => Ok(ks.hash_get(key, field)?.map(Stored::Plain)),
            None => Ok(None),
        }
    }

    /// Returns true if the field exists.
    ///
    /// # Errors
    /// The errors of [`Table::get`].
    pub(crate) fn has<K: Store<Name = N>>(&self, ks: &mut K, field: &[u8]) -> Result<bool> {
        let in_plain = match &self.plain {
            Some(key) => ks.hash_has(key, field)?,
            None => false,
        };
        Ok(in_plain || self.has_packed(ks, field)?)
    }

    fn has_packed<K: Store<Name = N>>(&self, ks: &mut K, field: &[u8]) -> Result<bool> {
        match self.packed {
            Some(key) => Ok(ks.packed(key, |packed| packed.has(self.part, field))? == Some(true)),
            None => Ok(false),
        }
    }

    /// Sets a field.
    ///
    /// # Errors
    /// `WRONGTYPE` if a key holds another type; errors of the server.
    pub(crate) fn set<K: Store<Name = N>>(
        &self,
        ks: &mut K,
        field: &[u8],
        value: &[u8],
    ) -> Result<()> {
        let is_packed = match self.home {
            Home::Packed => true,
            Home::Same => self.has_packed(ks, field)?,
            Home::Plain => false,
        };
        if let (true, Some(key)) = (is_packed, self.packed) {
            if let (Home::Packed, Some(plain)) = (self.home, &self.plain) {
                ks.hash_del(plain, field)?;
            }
            ks.change_packed(key, &Op::Set(self.part, field, value))?;
        } else if let Some(plain) = &self.plain {
            if self.home == Home::Plain {
                self.del_packed(ks, field)?;
            }
            ks.hash_set(plain, field, value)?;
        }
        Ok(())
    }

    /// Deletes a field. Returns true if it existed.
    ///
    /// # Errors
    /// The errors of [`Table::set`].
    pub(crate) fn del<K: Store<Name = N>>(&self, ks: &mut K, field: &[u8]) -> Result<bool> {
        let packed = self.del_packed(ks, field)?;
        match &self.plain {
            Some(key) => Ok(ks.hash_del(key, field)? || packed),
            None => Ok(packed),
        }
    }

    fn del_packed<K: Store<Name = N>>(&self, ks: &mut K, field: &[u8]) -> Result<bool> {
        match self.packed {
            Some(key) if self.has_packed(ks, field)? => {
                Ok(ks.change_packed(key, &Op::Del(self.part, field))?)
            }
            _ => Ok(false),
        }
    }

    /// Returns the number of fields; a field that is in both storages counts twice.
    ///
    /// # Errors
    /// The errors of [`Table::get`].
    pub(crate) fn len<K: Store<Name = N>>(&self, ks: &mut K) -> Result<u64> {
        let plain = match &self.plain {
            Some(key) => ks.hash_len(key)?,
            None => 0,
        };
        let packed = match self.packed {
            Some(key) => ks.packed(key, |packed| packed.len(self.part))?,
            None => None,
        };
        Ok(plain + packed.unwrap_or(0))
    }
}
