//! Compares the sum of the URIs of all groups, the sum of the URIs of all executions, and the
//! total. Accounts for changes during the check.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::super::audit::Audit;
use super::super::error::Result;
use super::super::frontier::Frontier;
use super::super::job::{Lent, Scan};
use super::super::reconcile::share_out;
use super::super::store::Store;
use super::{Check, Counts, PAGE};

impl Check {
    /// Calls `each` with every name whose count changed since the check began, and with the count
    /// that the name had at that time.
    pub(super) async fn each_changed<K: Store>(
        &mut self,
        lent: &Lent<K>,
        changed: fn(&Audit) -> &BTreeMap<Box<[u8]>, u64>,
        each: fn(&mut Check, &[u8], u64),
    ) {
        let mut after: Option<Box<[u8]>> = None;
        loop {
            after = lent.with(|frontier, _| {
                let changed = changed(self.audit(frontier)?);
                let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
                let page = changed.range::<[u8], _>((from, Bound::Unbounded));
                let page = page.take(PAGE).inspect(|(name, n)| each(self, name, **n));
                page.last().map(|(name, _)| name.clone())
            });
            if after.is_none() {
                return;
            }
            lent.pause().await;
        }
    }

    /// Removes groups from the list of an execution if they have no URIs of that execution.
    pub(super) async fn mend_lists<K: Store>(&mut self, lent: &Lent<K>) -> Result<()> {
        while let Some(execution) = self.lists.pop_first() {
            let list = lent.with(|frontier, ks| frontier.keys.groups_of(ks, &execution));
            let mut list = Scan::hash(lent, list);
            while let Some(batch) = list.next().await? {
                for (id, _) in batch.iter() {
                    lent.with(|frontier, ks| {
                        let Some(mut loaded) = frontier.groups.load_sound(ks, id)? else {
                            return Ok(());
                        };
                        // Check the key of the URIs itself, because a plain client may have
                        // overwritten the state.
                        loaded.group.keeps = true;
                        frontier
                            .ledger
                            .delist_if_done(ks, &frontier.groups, &loaded, &execution)
                    })?;
                    lent.pause().await;
                }
            }
        }
        Ok(())
    }

    /// Compares the sums, and repairs them.
    pub(super) async fn compare_sums<K: Store>(&mut self, lent: &Lent<K>) -> Result<()> {
        lent.with(|frontier, ks| self.compare_total(frontier, ks))?;
        if !self.repairs {
            return Ok(());
        }
        let sum = self.counts.sum_groups.min(i64::MAX as u64);
        share_out(&mut self.executions, sum, async || lent.pause().await).await;
        let mut moved = false;
        for (execution, has) in std::mem::take(&mut self.executions) {
            if let Some(right) = has.wrong().filter(|_| !moved) {
                moved =
                    !lent.with(|frontier, ks| self.mend_count(frontier, ks, &execution, right))?;
            }
            lent.pause().await;
        }
        Ok(())
    }

    /// Compares the sums with the total, and repairs the total.
    fn compare_total<K: Store>(&mut self, frontier: &Frontier<K>, ks: &mut K) -> Result<()> {
        let Counts {
            total,
            sum_groups,
            sum_executions,
            ..
        } = self.counts;
        if sum_executions != sum_groups {
            self.problem(|| {
                format!(
                    "executions have {sum_executions} URIs in EIDC, but groups have {sum_groups}"
                )
            });
        }
        let off = i128::from(sum_groups) - i128::from(total);
        if off != 0 {
            self.problem(|| format!("QCT is {total}, but groups have {sum_groups} URIs"));
        }
        if off != 0 && self.repairs {
            // Commands may have changed the total since the check began.
            let now = ks.number(&frontier.keys.once.total)?;
            let right = (i128::from(now) + off).clamp(0, i128::from(i64::MAX));
            ks.number_set(&frontier.keys.once.total, right as i64)?;
            self.mended += 1;
        }
        Ok(())
    }

    /// Repairs the count of an execution in `EIDC`. Returns false if commands have changed a count
    /// since the check began. The source of the difference is then unknown, and the next repair
    /// handles it.
    fn mend_count<K: Store>(
        &mut self,
        frontier: &Frontier<K>,
        ks: &mut K,
        execution: &[u8],
        right: u64,
    ) -> Result<bool> {
        let audit = self.audit(frontier);
        if audit.is_none_or(|audit| !audit.executions.is_empty()) {
            return Ok(false);
        }
        let key = &frontier.keys.once.executions;
        if right == 0 {
            ks.hash_del(key, execution)?;
        } else {
            ks.hash_set(key, execution, right.to_string().as_bytes())?;
        }
        self.mended += 1;
        Ok(true)
    }
}
