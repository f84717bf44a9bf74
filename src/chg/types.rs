//! The types of the keys that exist once.

use std::rc::Rc;

use super::error::Result;
use super::keys::Keys;
use super::store::Store;

/// Whether the keys are known to hold what they should.
pub struct Types<K: Store> {
    keys: Rc<Keys<K>>,
    checked: bool,
}

impl<K: Store> Types<K> {
    pub(super) fn new(keys: Rc<Keys<K>>) -> Types<K> {
        let checked = false;
        Types { keys, checked }
    }

    /// Takes note that a plain client wrote to one of them.
    pub fn invalidate(&mut self) {
        self.checked = false;
    }

    /// Looks whether the keys that exist once hold what they should, so that a command that began does
    /// not stop in the middle; once, until somebody else writes to them.
    ///
    /// # Errors
    /// `WRONGTYPE` for the first that does not.
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
