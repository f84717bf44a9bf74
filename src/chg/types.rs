//! Type check of the keys that exist once per frontier.

use std::rc::Rc;

use super::error::Result;
use super::keys::Keys;
use super::store::Store;

/// The keys that exist once, and whether their types were checked.
pub struct Types<K: Store> {
    keys: Rc<Keys<K>>,
    checked: bool,
}

impl<K: Store> Types<K> {
    pub(super) fn new(keys: Rc<Keys<K>>) -> Types<K> {
        let checked = false;
        Types { keys, checked }
    }

    /// Records that a plain client wrote to one of the keys.
    pub fn invalidate(&mut self) {
        self.checked = false;
    }

    /// Checks the types of the keys that exist once, so that a command does not fail half-way.
    /// After the first check, checks again only when another client has written to these keys.
    ///
    /// # Errors
    /// `WRONGTYPE` for the first key that holds another type.
    pub fn check(&mut self, ks: &mut K) -> Result<()> {
        if self.checked {
            return Ok(());
        }
        for (name, row) in self.keys.once.all() {
            ks.check_type(name, row.kind)?;
        }
        self.checked = true;
        Ok(())
    }
}
