//! The counts of queued URIs: `EIDC` and `QCT` of the frontier, and the fields of groups that count
//! URIs per execution. Also records which groups have URIs of each execution, so that `CHG.DROP`
//! only has to visit these groups.
//!
//! The fields of the hash `chg_of:<execution>` are the groups for which the module stores or counts
//! queued URIs of the execution. A field is written when the first URI of an execution is added to
//! a group, and removed with the last URI. Plain clients do not record the execution of a URI in
//! its group, so the hash does not include groups that only have such URIs.

use std::rc::Rc;

use crawlspace_host::keyspace::Batch;

use super::audit::Audits;
use super::error::Result;
use super::group::Id;
use super::groups::{Groups, Loaded};
use super::keys::{COUNTED, GROUP, Keys};
use super::store::{Store, field_number};

/// Maximum number of executions of one group for which a command restores the counts. `CHG.REPAIR`
/// restores the counts of the other executions.
const COUNTED_AGAIN: usize = 256;

/// Maximum number of groups over which the URIs of an execution are summed.
const MAX_ASKED: u64 = 64;

/// The counts of a frontier.
pub(super) struct Ledger<K: Store> {
    keys: Rc<Keys<K>>,
    pub audits: Audits,
}

impl<K: Store> Ledger<K> {
    pub(super) fn new(keys: Rc<Keys<K>>) -> Ledger<K> {
        Ledger {
            keys,
            audits: Audits::default(),
        }
    }

    /// Changes the number of queued URIs of an execution in the whole frontier. The caller changes
    /// the count of the group.
    pub(super) fn tally(&mut self, ks: &mut K, execution: &[u8], change: i64) -> Result<()> {
        if change == 0 {
            return Ok(());
        }
        let before = ks.hash_add(&self.keys.once.executions, execution, change)?;
        self.audits.before_execution(execution, before);
        ks.number_add(&self.keys.once.total, change)?;
        Ok(())
    }

    /// Returns the number of queued URIs of an execution, from `EIDC`.
    pub(super) fn queued_of(&mut self, ks: &mut K, execution: &[u8]) -> Result<u64> {
        Ok(field_number(ks, &self.keys.once.executions, execution)?)
    }

    /// Returns the number of URIs of an execution that a group counts without storing them.
    pub(super) fn counted(&self, ks: &mut K, key: &K::Name, execution: &[u8]) -> Result<u64> {
        Ok(field_number(ks, key, &counted_field(execution))?)
    }

    /// Changes the number that [`Ledger::counted`] returns, and returns its previous value.
    pub(super) fn count(
        &self,
        ks: &mut K,
        key: &K::Name,
        execution: &[u8],
        change: i64,
    ) -> Result<u64> {
        Ok(ks.hash_add(key, &counted_field(execution), change)?)
    }

    /// Returns the executions whose URIs a group counts without storing them.
    pub(super) fn counted_in(&self, ks: &mut K, key: &K::Name) -> Result<Vec<(Vec<u8>, u64)>> {
        self.some_counted_in(ks, key, usize::MAX)
    }

    /// Returns the executions whose URIs a group counts without storing them; if there are more
    /// than about `most` such executions, returns only some of them.
    pub(super) fn some_counted_in(
        &self,
        ks: &mut K,
        key: &K::Name,
        most: usize,
    ) -> Result<Vec<(Vec<u8>, u64)>> {
        let (mut batch, mut cursor) = (crawlspace_host::keyspace::Batch::default(), ks.cursor());
        while ks.hash_scan(key, &mut cursor, &mut batch)? && batch.len() / 2 <= most {}
        let mut counted: Vec<(Vec<u8>, u64)> = batch
            .iter()
            .filter_map(|(field, value)| {
                let execution = field.strip_prefix(COUNTED)?;
                Some((
                    execution.to_vec(),
                    crawlspace_host::text::parse_unsigned(value)?,
                ))
            })
            .collect();
        // A scan may return a field twice.
        counted.sort();
        counted.dedup_by(|a, b| a.0 == b.0);
        Ok(counted)
    }

    /// Records that a group has URIs of an execution.
    pub(super) fn enlist(&self, ks: &mut K, execution: &[u8], id: &[u8]) -> Result<()> {
        let key = self.keys.groups_of(ks, execution);
        ks.hash_set_new(&key, id, b"")?;
        Ok(())
    }

    /// Records that a group has no URIs of an execution any more.
    pub(super) fn delist(&self, ks: &mut K, execution: &[u8], id: &[u8]) -> Result<()> {
        let key = self.keys.groups_of(ks, execution);
        ks.hash_del(&key, id)?;
        Ok(())
    }

    /// Removes a group from the list of an execution if it neither stores nor counts URIs of the
    /// execution.
    pub(super) fn delist_if_done(
        &self,
        ks: &mut K,
        groups: &Groups<K>,
        loaded: &Loaded<K>,
        execution: &[u8],
    ) -> Result<()> {
        match groups.kept(ks, loaded, |uris| uris.count_of(execution))? {
            Some(1..) => Ok(()),
            _ => self.delist_unless_counted(ks, loaded, execution),
        }
    }

    /// Removes a group from the list of an execution, unless the group counts URIs of the
    /// execution. The group must not store URIs of the execution.
    pub(super) fn delist_unless_counted(
        &self,
        ks: &mut K,
        loaded: &Loaded<K>,
        execution: &[u8],
    ) -> Result<()> {
        if self.counted(ks, &loaded.key, execution)? == 0 {
            self.delist(ks, execution, &loaded.id)?;
        }
        Ok(())
    }

    /// Returns the number of URIs of an execution in all groups on its list, or `None` if the list has
    /// more than `most` groups.
    pub(super) fn queued_in_few(
        &self,
        ks: &mut K,
        execution: &[u8],
        most: u64,
    ) -> Result<Option<u64>> {
        let key = self.keys.groups_of(ks, execution);
        if ks.hash_len(&key)? > most {
            return Ok(None);
        }
        let (mut batch, mut cursor) = (Batch::default(), ks.cursor());
        while ks.hash_scan(&key, &mut cursor, &mut batch)? {}
        let mut groups: Vec<&[u8]> = batch.iter().map(|(id, _)| id).collect();
        // A scan may return a field twice.
        groups.sort_unstable();
        groups.dedup();
        let mut sum = 0_u64;
        for id in groups {
            let uris = self.keys.uris_key(ks, id);
            let group = self.keys.key(ks, GROUP, id);
            let kept = ks.uris(&uris, |uris| uris.count_of(execution))?;
            let counted = self.counted(ks, &group, execution)?;
            sum = sum.saturating_add(kept.unwrap_or(0).saturating_add(counted));
        }
        Ok(Some(sum))
    }

    /// Adds stored URIs, which a group counts again, to `EIDC` and `QCT`, because the plain client
    /// that emptied the group may have subtracted these URIs. If the execution has URIs in only a
    /// few groups, raises `EIDC` to at most the sum over these groups.
    pub(super) fn count_missing(
        &mut self,
        ks: &mut K,
        groups: &Groups<K>,
        loaded: &Loaded<K>,
    ) -> Result<()> {
        let mut missing = loaded.missing.take();
        if missing == 0 {
            return Ok(());
        }
        let key = groups.uris_of(ks, loaded);
        let kept = ks.uris(key, |uris| {
            let each = uris.executions().take(COUNTED_AGAIN);
            each.map(|e| (e.id.to_vec(), e.uris)).collect::<Vec<_>>()
        })?;
        let mut many = Vec::new();
        for (execution, kept) in kept.unwrap_or_default() {
            self.enlist(ks, &execution, &loaded.id)?;
            let Some(least) = self.queued_in_few(ks, &execution, MAX_ASKED)? else {
                many.push((execution, kept));
                continue;
            };
            let said = self.queued_of(ks, &execution)?;
            let change = least.saturating_sub(said).min(missing);
            missing -= change;
            self.tally(ks, &execution, change as i64)?;
        }
        for (execution, kept) in many {
            let change = kept.min(missing);
            missing -= change;
            self.tally(ks, &execution, change as i64)?;
        }
        Ok(())
    }
}

/// Returns the name of the field in which a group counts the URIs of an execution that it does not
/// store.
pub(super) fn counted_field(execution: &[u8]) -> Id {
    let mut field = Id::from_slice(COUNTED);
    field.extend_from_slice(execution);
    field
}
