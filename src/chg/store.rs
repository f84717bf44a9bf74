//! What the rules of politeness need of a key space besides plain keys: the URIs of a group, one
//! value a key.

use crawlspace_host::keyspace::memory::{self, Native, Plain};
use crawlspace_host::keyspace::{KeyError, KeyType, Keyspace, Result};

use super::uris::{Changed, Op, Uris};

/// What an error says a key should hold.
pub const KEPT_URIS: KeyType = KeyType::Native("queue of URIs");

/// Keys with the URIs of groups.
pub trait Store: Keyspace + 'static {
    /// Looks at the URIs of a key; `None` when there is no such key.
    ///
    /// # Errors
    /// `WRONGTYPE` when the key holds another type.
    fn uris<T>(&mut self, key: &Self::Name, read: impl FnOnce(&Uris) -> T) -> Result<Option<T>>;

    /// Makes a change. [`Op::Add`] and [`Op::Load`] make the key if it is not there, and it goes
    /// with its last URI and lease.
    ///
    /// # Errors
    /// `WRONGTYPE` when a key holds another type; or when the server refuses.
    fn change_uris(&mut self, key: &Self::Name, op: &Op<'_>) -> Result<Changed> {
        Ok(self.change_uris_then(key, op, |_| ())?.0)
    }

    /// Makes a change, and looks at what is there then; `None` when nothing was and nothing is.
    ///
    /// # Errors
    /// As for [`Store::change_uris`].
    fn change_uris_then<T>(
        &mut self,
        key: &Self::Name,
        op: &Op<'_>,
        look: impl FnOnce(&Uris) -> T,
    ) -> Result<(Changed, Option<T>)>;

    /// Whether the key is there. An error when it holds something else.
    ///
    /// # Errors
    /// `WRONGTYPE` when the key holds another type.
    fn keeps_uris(&mut self, key: &Self::Name) -> Result<bool> {
        Ok(self.uris(key, |_| ())?.is_some())
    }
}

/// The number in a field; 0 when there is none.
pub(super) fn field_number<K: Store>(ks: &mut K, key: &K::Name, field: &[u8]) -> Result<u64> {
    let value = ks.hash_get(key, field)?;
    let number = value.and_then(|value| crawlspace_host::text::parse_unsigned(value.as_ref()));
    Ok(number.unwrap_or(0))
}

/// Keys of tests.
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
    fn uris<T>(&mut self, key: &Vec<u8>, read: impl FnOnce(&Uris) -> T) -> Result<Option<T>> {
        match self.keys.get(key) {
            None => Ok(None),
            Some(Plain::Native(uris)) => Ok(Some(read(uris))),
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
        look: impl FnOnce(&Uris) -> T,
    ) -> Result<(Changed, Option<T>)> {
        if !self.keeps_uris(key)? && !op.makes_the_key() {
            return Ok((Changed::Nothing, None));
        }
        let value = self.keys.entry(key.clone());
        let Plain::Native(uris) = value.or_insert_with(|| Plain::Native(Box::default())) else {
            unreachable!("looked at above");
        };
        let changed = uris.apply(op);
        let seen = look(uris);
        if uris.is_empty() {
            self.keys.remove(key);
        }
        Ok((changed, Some(seen)))
    }
}
