//! Crawl executions that were dropped while some of their leases were held. A worker with such a
//! lease may not know about the drop, and could continue the crawl with the links that it finds.
//! Therefore, the frontier refuses new URIs of the execution until the last of these leases ends.
//! It also refuses them while the job that drops the execution is running, because the job does not
//! return to groups that it has already processed.
//!
//! `chg_dropped` contains these executions, sorted by the deadline of their last lease.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use super::Token;
use super::error::Result;
use super::groups::{Groups, Loaded};
use super::store::Store;
use super::time::{Millis, of_score};
use crawlspace_host::keyspace::Batch;

/// Executions whose new URIs are refused.
pub(super) struct Drops<K: Store> {
    key: K::Name,
    /// The dropped executions, each with the time until which the frontier refuses its URIs. `None`
    /// if they are not loaded yet.
    marks: Option<BTreeMap<Box<[u8]>, Millis>>,
    /// Executions that are being dropped. An entry is removed when its job ends.
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

    /// Copies the running jobs from another instance for the same frontier.
    pub(super) fn take_over(&mut self, other: &mut Drops<K>) {
        self.jobs = std::mem::take(&mut other.jobs);
    }

    /// Invalidates the cached contents of the key.
    pub(super) fn invalidate(&mut self) {
        self.marks = None;
    }

    /// Returns the dropped executions with the time until which their URIs are refused.
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

    /// Returns true if an execution is being dropped, or was dropped and a worker may still hold
    /// one of its leases.
    pub(super) fn has(&mut self, ks: &mut K, execution: &[u8], now: Millis) -> Result<bool> {
        self.jobs.retain(|other| other.strong_count() > 0);
        let mut names = self.jobs.iter().filter_map(Weak::upgrade);
        if names.any(|name| *name == *execution) {
            return Ok(true);
        }
        let marks = self.marks(ks)?;
        Ok(marks.get(execution).is_some_and(|&until| until > now))
    }

    /// Refuses URIs of an execution for as long as the job that drops the execution holds the
    /// returned name.
    pub(super) fn begin(&mut self, execution: &Arc<[u8]>) {
        self.jobs.push(Arc::downgrade(execution));
    }

    /// Returns true if any execution is being dropped.
    pub(super) fn is_under_way(&self) -> bool {
        self.jobs.iter().any(|name| name.strong_count() > 0)
    }

    /// Refuses URIs of an execution until the given time. If an earlier call set a later time, keeps that
    /// time.
    pub(super) fn mark(&mut self, ks: &mut K, execution: &[u8], until: Millis) -> Result<()> {
        let marks = self.marks(ks)?;
        let before = marks.get(execution).copied().unwrap_or(0);
        if until > before {
            marks.insert(execution.into(), until);
            ks.zset_add(&self.key, execution, until as f64)?;
        }
        Ok(())
    }

    /// Accepts URIs of an execution again.
    pub(super) fn unmark(&mut self, ks: &mut K, execution: &[u8]) -> Result<()> {
        if self.marks(ks)?.remove(execution).is_some() {
            ks.zset_del(&self.key, execution)?;
        }
        Ok(())
    }

    /// Removes the mark of one execution whose last lease has ended, if there is such an execution.
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

    /// Handles an extended lease: if its execution was dropped, refuses the execution's URIs until
    /// the new deadline.
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
