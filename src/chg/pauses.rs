//! Paused executions, and the pause of the whole frontier: `chg_paused`.

use std::collections::BTreeSet;
use std::rc::Rc;

use crawlspace_host::keyspace::Batch;

use super::error::Result;
use super::keys::COUNTED;
use super::store::Store;

/// Pauses of executions and of the whole frontier. Pauses of single groups are stored in the
/// groups.
#[derive(Clone, Debug, Default)]
pub(super) struct Paused {
    pub all: bool,
    pub executions: BTreeSet<Vec<u8>>,
}

impl Paused {
    /// Returns true if an execution, or the whole frontier, is paused.
    pub fn holds_back(&self, execution: &[u8]) -> bool {
        self.all || self.has(execution)
    }

    pub(super) fn has(&self, execution: &[u8]) -> bool {
        self.executions.contains(execution)
    }
}

/// The contents of `chg_paused`, cached until another client changes the key.
pub(super) struct Pauses<K: Store> {
    key: K::Name,
    paused: Option<Rc<Paused>>,
}

impl<K: Store> Pauses<K> {
    pub(super) fn new(key: K::Name) -> Pauses<K> {
        Pauses { key, paused: None }
    }

    /// Invalidates the cached contents of the key.
    pub(super) fn invalidate(&mut self) {
        self.paused = None;
    }

    pub(super) fn read(&mut self, ks: &mut K) -> Result<Rc<Paused>> {
        if let Some(paused) = &self.paused {
            return Ok(paused.clone());
        }
        let mut paused = Paused::default();
        let (mut batch, mut cursor) = (Batch::default(), ks.cursor());
        while ks.hash_scan(&self.key, &mut cursor, &mut batch)? {}
        for (field, _) in batch.iter() {
            match field.strip_prefix(COUNTED) {
                Some(execution) => drop(paused.executions.insert(execution.to_vec())),
                None => paused.all |= field == b"all",
            }
        }
        Ok(self.paused.insert(Rc::new(paused)).clone())
    }

    /// Pauses or resumes an execution or, without an execution, the whole frontier. Returns false
    /// if nothing changed.
    pub(super) fn set(
        &mut self,
        ks: &mut K,
        execution: Option<&[u8]>,
        pause: bool,
    ) -> Result<bool> {
        let field = execution.map_or(b"all".to_vec(), |id| [COUNTED, id].concat());
        if pause == ks.hash_has(&self.key, &field)? {
            return Ok(false);
        }
        if pause {
            ks.hash_set(&self.key, &field, b"1")?;
        } else {
            ks.hash_del(&self.key, &field)?;
        }
        self.paused = None;
        Ok(true)
    }
}
