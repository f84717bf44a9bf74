//! Crawl executions that were dropped while leases of them were held. Whoever holds one may not know,
//! and would bring the crawl back with the links that it finds: until the last of these leases is over,
//! nothing more is taken in for the crawl. While an execution is being dropped nothing is taken in
//! either, because the job does not come back to groups that it has passed.
//!
//! `chg_dropped` has these executions by the deadline of the last lease.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use super::Token;
use super::error::Result;
use super::groups::{Groups, Loaded};
use super::store::Store;
use super::time::{Millis, of_score};
use crawlspace_host::keyspace::Batch;

/// Executions for which nothing is taken in.
pub(super) struct Drops<K: Store> {
    key: K::Name,
    /// Until when, for those that were dropped; `None` when that is not known.
    marks: Option<BTreeMap<Box<[u8]>, Millis>>,
    /// Those that are being dropped, for as long as these jobs live.
    jobs: Vec<Weak<[u8]>>,
}

impl<K: Store> Drops<K> {
    pub(super) fn new(key: K::Name) -> Drops<K> {
        Drops {
            key,
            marks: None,
            jobs: Vec::new(),
        }
    }

    /// Invalidates what was read of the key.
    pub(super) fn invalidate(&mut self) {
        self.marks = None;
    }

    /// Until when nothing is taken in for executions that were dropped.
    fn marks(&mut self, ks: &mut K) -> Result<&mut BTreeMap<Box<[u8]>, Millis>> {
        if self.marks.is_none() {
            let (mut batch, mut cursor) = (Batch::default(), ks.cursor());
            while ks.zset_scan(&self.key, &mut cursor, &mut batch)? {}
            let mut marks = BTreeMap::new();
            for (execution, _) in batch.iter() {
                if let Some(until) = ks.zset_score(&self.key, execution)? {
                    marks.insert(execution.into(), of_score(until));
                }
            }
            self.marks = Some(marks);
        }
        Ok(self.marks.as_mut().expect("read above"))
    }

    /// Whether an execution is being dropped, or was dropped and a lease of it may still be held.
    pub(super) fn has(&mut self, ks: &mut K, execution: &[u8], now: Millis) -> Result<bool> {
        self.jobs.retain(|other| other.strong_count() > 0);
        let mut names = self.jobs.iter().filter_map(Weak::upgrade);
        if names.any(|name| *name == *execution) {
            return Ok(true);
        }
        let marks = self.marks(ks)?;
        Ok(marks.get(execution).is_some_and(|&until| until > now))
    }

    /// Takes nothing in for an execution for as long as its name is held by the job that drops it.
    pub(super) fn begin(&mut self, execution: &Arc<[u8]>) {
        self.jobs.push(Arc::downgrade(execution));
    }

    /// Whether an execution is being dropped.
    pub(super) fn is_under_way(&self) -> bool {
        self.jobs.iter().any(|name| name.strong_count() > 0)
    }

    /// Takes nothing in for an execution up to a time, or longer if that was said before.
    pub(super) fn mark(&mut self, ks: &mut K, execution: &[u8], until: Millis) -> Result<()> {
        let marks = self.marks(ks)?;
        let before = marks.get(execution).copied().unwrap_or(0);
        if until > before {
            marks.insert(execution.into(), until);
            ks.zset_add(&self.key, execution, until as f64)?;
        }
        Ok(())
    }

    /// Takes in again what comes for an execution.
    pub(super) fn unmark(&mut self, ks: &mut K, execution: &[u8]) -> Result<()> {
        if self.marks(ks)?.remove(execution).is_some() {
            ks.zset_del(&self.key, execution)?;
        }
        Ok(())
    }

    /// Drops the mark of an execution whose last lease is over, if there is one.
    pub(super) fn unmark_over(&mut self, ks: &mut K, now: Millis) -> Result<()> {
        if self.marks(ks)?.is_empty() {
            return Ok(());
        }
        let first = ks.zset_at(&self.key, 0)?;
        if let Some((execution, _)) = first.filter(|(_, until)| of_score(*until) <= now) {
            self.unmark(ks, execution.as_ref())?;
        }
        Ok(())
    }

    /// A lease lasts longer: if its execution was dropped, nothing is taken in for that as long.
    pub(super) fn extend(
        &mut self,
        ks: &mut K,
        groups: &Groups<K>,
        loaded: &Loaded<K>,
        token: Token,
        deadline: Millis,
        now: Millis,
    ) -> Result<()> {
        if self.marks(ks)?.is_empty() {
            return Ok(());
        }
        let leased = groups.kept(ks, loaded, |uris| {
            let leased = uris.leased(token).filter(|leased| leased.dropped);
            leased.map(|leased| leased.execution.to_vec())
        })?;
        if let Some(execution) = leased.flatten()
            && self.has(ks, &execution, now)?
        {
            self.mark(ks, &execution, deadline)?;
        }
        Ok(())
    }
}
