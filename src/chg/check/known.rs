//! Compares the records of known URLs with the queues: each queued or leased URL has a record with this
//! state, and each such record belongs to a queued or leased URL.

use std::collections::{BTreeMap, BTreeSet};

use crawlspace_host::text::Shown;

use super::super::error::Result;
use super::super::frontier::Frontier;
use super::super::job::{Lent, Scan};
use super::super::known::{Known, Print, State};
use super::super::packed::Unknown;
use super::super::store::Store;
use super::super::time::Millis;
use super::super::uris::{Op, Position};
use super::{Check, PAGE};

/// Maximum number of attempts to read a group that changes during the read.
const MAX_TRIES: u32 = 8;

impl<K: Store> Frontier<K> {
    /// Corrects the records of the URLs on a page of a group. If a URL is queued twice, keeps only the entry to which
    /// its record belongs. Returns the number of corrections, and the position of the next page.
    fn record_urls(
        &mut self,
        ks: &mut K,
        id: &[u8],
        from: Position,
        now: Millis,
    ) -> Result<(u64, Option<Position>)> {
        let page = ks.packed(|packed| packed.unknown_urls(id, from, PAGE))?;
        let (unknown, next) = page.unwrap_or_default();
        let recorded = unknown.len() as u64;
        for url in unknown {
            let other = ks.packed(|packed| packed.other_entry(&url, id))?;
            match other.flatten() {
                Some(record) => self.remove_second(ks, id, &url, &record, now)?,
                None => drop(ks.packed(|packed| packed.record_url(&url))?),
            }
        }
        Ok((recorded, next))
    }

    /// Removes a queued or leased URL from a group, and keeps its record.
    fn remove_second(
        &mut self,
        ks: &mut K,
        id: &[u8],
        second: &Unknown,
        (print, known): &(Print, Known),
        now: Millis,
    ) -> Result<()> {
        let (execution, uri) = (&second.execution[..], &second.url[..]);
        let loaded = self.groups.load(ks, id)?;
        if second.state == State::Leased {
            let back = Op::Reschedule {
                execution,
                uri,
                due: now,
            };
            let key = self.groups.uris_of(ks, &loaded);
            ks.change_uris(key, &back)?;
        }
        let remove = Op::Remove { execution, uri };
        self.end_loaded(ks, loaded, (execution, &remove), now)?;
        ks.packed(|packed| {
            packed.forget_others(second, print);
            packed.put_record(second, print, *known);
        })?;
        Ok(())
    }
}

/// Fingerprints of URLs by the hash of their group.
type ByGroup = BTreeMap<u32, BTreeSet<Print>>;

impl Check {
    /// Compares the number of queued and leased URLs of each execution that has a space with the number of its records.
    pub(super) fn compare_records<K: Store>(
        &mut self,
        frontier: &mut Frontier<K>,
        ks: &mut K,
    ) -> Result<()> {
        let counts = ks.packed(|packed| {
            let members = packed.spaces().members();
            let counts = members.map(|(execution, member)| {
                let [queued, leased, ..] = member.counts;
                (execution.to_vec(), queued + leased)
            });
            counts.collect::<Vec<_>>()
        })?;
        for (execution, known) in counts.unwrap_or_default() {
            self.remembers = true;
            let queued = frontier.ledger.queued_of(ks, &execution)?;
            if known != queued {
                self.problem(|| {
                    format!(
                        "execution '{}': {queued} URIs are queued or leased, but {known} known URLs have one of these states",
                        Shown(&execution)
                    )
                });
                self.misrecorded.insert(execution.into());
            }
        }
        Ok(())
    }

    /// Compares the records of the URLs of a group with its queue.
    pub(super) async fn look_at_urls<K: Store>(&mut self, lent: &Lent<K>, id: &[u8]) -> Result<()> {
        let mut from = self.remembers.then(Position::default);
        while let Some(position) = from {
            let page =
                lent.with(|_, ks| ks.packed(|packed| packed.unknown_urls(id, position, PAGE)))?;
            let (unknown, next) = page.unwrap_or_default();
            for unknown in unknown {
                let found = unknown.found.map_or("nothing", |found| found.name());
                self.problem(|| {
                    format!(
                        "URL '{}' of execution '{}' is {} in group '{}', but its record says {found}",
                        Shown(&unknown.url),
                        Shown(&unknown.execution),
                        unknown.state.name(),
                        Shown(id),
                    )
                });
                self.misrecorded.insert(unknown.execution.into());
            }
            from = next;
            lent.pause().await;
        }
        Ok(())
    }

    /// Repairs the records of executions, so that they agree with the queues. First forgets records without
    /// a URL, because a record for another group counts as the record of a different URL.
    pub(super) async fn mend_records<K: Store>(&mut self, lent: &Lent<K>) -> Result<()> {
        if !self.repairs {
            return Ok(());
        }
        let executions = std::mem::take(&mut self.misrecorded);
        for execution in &executions {
            self.forget_lost(lent, execution).await?;
        }
        // A forgotten record may have occupied the fingerprint of a URL of another execution in the
        // same space.
        let executions = lent.with(|_, ks| ks.packed(|packed| packed.neighbours(&executions)))?;
        for execution in &executions.unwrap_or_default() {
            let groups = lent.with(|frontier, ks| frontier.keys.groups_of(ks, execution));
            let mut groups = Scan::hash(lent, groups);
            while let Some(batch) = groups.next().await? {
                for (id, _) in batch.iter() {
                    self.record_urls(lent, id).await?;
                }
            }
        }
        Ok(())
    }

    /// Corrects the records of the URLs of a group.
    async fn record_urls<K: Store>(&mut self, lent: &Lent<K>, id: &[u8]) -> Result<()> {
        let mut from = Some(Position::default());
        while let Some(position) = from {
            let (recorded, next) =
                lent.with(|frontier, ks| frontier.record_urls(ks, id, position, self.now))?;
            self.mended += recorded;
            from = next;
            lent.pause().await;
        }
        Ok(())
    }

    /// Forgets URLs whose records say that they are queued or leased although they are not.
    async fn forget_lost<K: Store>(&mut self, lent: &Lent<K>, execution: &[u8]) -> Result<()> {
        let mut records = ByGroup::new();
        let mut from = Some(0);
        while let Some(at) = from {
            let mut each = |group, print| {
                records.entry(group).or_default().insert(print);
            };
            let next = lent.with(|_, ks| {
                ks.packed(|packed| packed.records_with_text(execution, at, &mut each))
            })?;
            from = next.flatten();
            lent.pause().await;
        }
        while let Some((hash, prints)) = records.pop_first() {
            self.forget_lost_in(lent, execution, hash, prints).await?;
        }
        Ok(())
    }

    /// Forgets those of the given URLs that are not in the group with this hash. If several groups
    /// have this hash, or if the group keeps changing, leaves these URLs to the next repair.
    async fn forget_lost_in<K: Store>(
        &mut self,
        lent: &Lent<K>,
        execution: &[u8],
        hash: u32,
        prints: BTreeSet<Print>,
    ) -> Result<()> {
        for _ in 0..MAX_TRIES {
            let ids = lent.with(|_, ks| ks.packed(|packed| packed.ids_with_hash(hash)))?;
            let ids = ids.unwrap_or_default();
            if ids.len() > 1 {
                return Ok(());
            }
            let mut lost = prints.clone();
            if let Some(id) = ids.first() {
                lent.with(|frontier, _| frontier.ledger.audits.watch(&self.owner, id));
                let mut from = Some(Position::default());
                while let Some(position) = from {
                    let next = lent.with(|_, ks| {
                        ks.packed(|packed| {
                            packed.remove_prints(id, execution, position, PAGE, &mut lost)
                        })
                    })?;
                    from = next.flatten();
                    if from.is_some() {
                        lent.pause().await;
                    }
                }
            }
            let forgotten = lent.with(|frontier, ks| -> Result<Option<u64>> {
                let audit = self.audit(frontier);
                if !ids.is_empty() && audit.is_some_and(|audit| !audit.is_unchanged()) {
                    return Ok(None);
                }
                Ok(ks.packed(|packed| packed.forget_lost(execution, hash, &lost))?)
            })?;
            lent.pause().await;
            if let Some(forgotten) = forgotten {
                self.mended += forgotten;
                return Ok(());
            }
        }
        Ok(())
    }
}
