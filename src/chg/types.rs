//! Checks the types of the keys that exist once per frontier.

use std::rc::Rc;

use super::error::Result;
use super::keys::Keys;
use super::store::Store;

/// The keys that exist once per frontier, and a flag that is true if their types were checked.
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

    /// Returns true if no other client has written to the keys since they were checked.
    pub fn is_checked(&self) -> bool {
        self.checked
    }

    /// Checks the types of the keys that exist once per frontier. Without this check, a command
    /// could fail halfway. Checks the types again only if another client has written to the keys.
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
