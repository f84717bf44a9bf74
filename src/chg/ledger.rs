//! The counts of queued URIs: `EIDC` and `QCT` of the frontier, the fields of groups that count URIs of an
//! execution, and which groups have URIs of which execution, so that `CHG.DROP` need not look at all others.
//!
//! The fields of the hash `chg_of:<execution>` are the groups that URIs of the execution are queued for,
//! kept or counted by this module. (Plain clients do not say in a group whose URIs it counts, so there
//! is nothing of theirs to find.) It is written when the first URI of an execution comes to a group and
//! when the last one leaves it, and not in between.

use std::rc::Rc;

use crawlspace_host::keyspace::Batch;

use super::audit::Audits;
use super::error::Result;
use super::group::Id;
use super::groups::{Groups, Loaded};
use super::keys::{COUNTED, GROUP, Keys};
use super::store::{Store, field_number};

/// How many executions of one group are counted again by a command; more are left to `CHG.REPAIR`.
const COUNTED_AGAIN: usize = 256;

/// Maximum number of groups that are asked what they have of an execution.
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

    /// Counts queued URIs of an execution up or down, in the whole frontier; the group's own count is
    /// the caller's.
    pub(super) fn tally(&mut self, ks: &mut K, execution: &[u8], change: i64) -> Result<()> {
        if change == 0 {
            return Ok(());
        }
        let before = ks.hash_add(&self.keys.once.executions, execution, change)?;
        self.audits.before_execution(execution, before);
        ks.number_add(&self.keys.once.total, change)?;
        Ok(())
    }

    /// `EIDC` of an execution.
    pub(super) fn queued_of(&mut self, ks: &mut K, execution: &[u8]) -> Result<u64> {
        Ok(field_number(ks, &self.keys.once.executions, execution)?)
    }

    /// How many URIs of an execution a group counts without keeping them.
    pub(super) fn counted(&self, ks: &mut K, key: &K::Name, execution: &[u8]) -> Result<u64> {
        Ok(field_number(ks, key, &counted_field(execution))?)
    }

    /// Changes that number; what it was before.
    pub(super) fn count(
        &self,
        ks: &mut K,
        key: &K::Name,
        execution: &[u8],
        change: i64,
    ) -> Result<u64> {
        Ok(ks.hash_add(key, &counted_field(execution), change)?)
    }

    /// The executions that a group counts URIs of without keeping them.
    pub(super) fn counted_in(&self, ks: &mut K, key: &K::Name) -> Result<Vec<(Vec<u8>, u64)>> {
        self.some_counted_in(ks, key, usize::MAX)
    }

    /// Executions that a group counts URIs of without keeping them: all, or some when there are more
    /// than about `most`.
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
        // A scan may give a field twice.
        counted.sort();
        counted.dedup_by(|a, b| a.0 == b.0);
        Ok(counted)
    }

    /// A group has URIs of an execution.
    pub(super) fn enlist(&self, ks: &mut K, execution: &[u8], id: &[u8]) -> Result<()> {
        let key = self.keys.groups_of(ks, execution);
        ks.hash_set_new(&key, id, b"")?;
        Ok(())
    }

    /// A group has no URIs of an execution any more.
    pub(super) fn delist(&self, ks: &mut K, execution: &[u8], id: &[u8]) -> Result<()> {
        let key = self.keys.groups_of(ks, execution);
        ks.hash_del(&key, id)?;
        Ok(())
    }

    /// Takes a group off the list of an execution if nothing of that is left in it, neither kept nor
    /// counted.
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

    /// Takes a group off the list of an execution of which nothing is kept, unless some is counted.
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

    /// How many URIs of an execution groups have by name; `None` when more than `most` groups have any.
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
        // A scan may give a field twice.
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

    /// Counts kept URIs in `EIDC` and `QCT` that a group counts again. A plain client that takes a URI
    /// off a group takes it off these two as well; but where few groups have an execution, what they have
    /// is the least that `EIDC` can say, and more is not made of it.
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
        let kept = ks.uris(&key, |uris| {
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

/// The field in which a group counts the URIs of an execution that are not kept here.
pub(super) fn counted_field(execution: &[u8]) -> Id {
    let mut field = Id::from_slice(COUNTED);
    field.extend_from_slice(execution);
    field
}
