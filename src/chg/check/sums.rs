//! The sums: what groups have, what executions have, and the total; and who went since.

use std::collections::BTreeMap;
use std::ops::Bound;

use crawlspace_host::keyspace::Batch;

use super::super::error::Result;
use super::super::frontier::Frontier;
use super::super::reconcile::Shares;
use super::super::store::Store;
use super::{Check, Counts, List};

/// How many names are looked at together.
const NAMES: usize = 64;

/// Hands out the next names behind one with what is known of each: the last of them, if any.
fn page<T: Copy>(
    names: &BTreeMap<Box<[u8]>, T>,
    after: Option<&[u8]>,
    mut each: impl FnMut(&[u8], T),
) -> Option<Box<[u8]>> {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let range = names.range::<[u8], _>((from, Bound::Unbounded));
    let next = range
        .take(NAMES)
        .inspect(|(name, known)| each(name, **known));
    next.last().map(|(name, _)| name.clone())
}

impl<K: Store> Check<K> {
    /// Takes in executions that came to nothing since this began, some at a time: the last one.
    pub(super) fn executions_gone(
        &mut self,
        frontier: &Frontier<K>,
        after: Option<Box<[u8]>>,
    ) -> Option<Box<[u8]>> {
        let audit = self.audit(frontier)?;
        page(&audit.executions, after.as_deref(), |execution, count| {
            self.found(execution, count);
        })
    }

    /// Counts what groups had when this began that have gone since, some at a time: the last one.
    pub(super) fn groups_gone(
        &mut self,
        frontier: &Frontier<K>,
        after: Option<Box<[u8]>>,
    ) -> Option<Box<[u8]>> {
        let audit = self.audit(frontier)?;
        page(&audit.groups, after.as_deref(), |id, count| {
            if self.is_new(id) {
                self.counts.sum_groups = self.counts.sum_groups.saturating_add(count);
            }
        })
    }

    /// Takes groups off the lists of executions that have nothing of them, some at a time: the list
    /// that is worked on.
    pub(super) fn mend_lists(
        &mut self,
        frontier: &Frontier<K>,
        ks: &mut K,
        list: Option<List<K>>,
    ) -> Result<Option<List<K>>> {
        let list = list.or_else(|| self.lists.pop_first().map(|list| (list, ks.cursor())));
        let Some((execution, mut cursor)) = list else {
            return Ok(None);
        };
        let key = frontier.groups_of(ks, &execution);
        let mut batch = Batch::default();
        let more = ks.hash_scan(&key, &mut cursor, &mut batch)?;
        for (id, _) in batch.iter() {
            if let Some(mut loaded) = frontier.load_sound(ks, id)? {
                // Whatever a plain client wrote into the state, the key itself is looked at.
                loaded.group.keeps = true;
                frontier.delist_if_done(ks, &loaded, &execution)?;
            }
        }
        if more {
            return Ok(Some((execution, cursor)));
        }
        Ok(self.lists.pop_first().map(|list| (list, ks.cursor())))
    }

    /// Compares the sums, and mends the total; how the executions are to be mended, if they are.
    pub(super) fn sums(
        &mut self,
        frontier: &mut Frontier<K>,
        ks: &mut K,
    ) -> Result<Option<Shares>> {
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
        if !self.repairs {
            return Ok(None);
        }
        if off != 0 {
            // Commands may have moved it since this began.
            let now = ks.number(&frontier.names.total)?;
            let right = (i128::from(now) + off).clamp(0, i128::from(i64::MAX));
            ks.number_set(&frontier.names.total, right as i64)?;
            self.mended += 1;
        }
        Ok(Some(Shares::of(sum_groups.min(i64::MAX as u64))))
    }

    /// Mends what `EIDC` says of some executions; false when all is done. Where commands have moved it
    /// since this began it is not known whose URIs came: the next repair tells.
    pub(super) fn mend_shares(
        &mut self,
        frontier: &Frontier<K>,
        ks: &mut K,
        shares: &mut Shares,
    ) -> Result<bool> {
        let moved = self
            .audit(frontier)
            .is_none_or(|audit| !audit.executions.is_empty());
        if moved {
            return Ok(false);
        }
        let mut wrong = Vec::new();
        let more = shares.step(&mut self.executions, &mut wrong);
        for (execution, count) in wrong {
            self.mended += 1;
            if count == 0 {
                ks.hash_del(&frontier.names.executions, &execution)?;
            } else {
                let text = count.to_string();
                ks.hash_set(&frontier.names.executions, &execution, text.as_bytes())?;
            }
        }
        Ok(more)
    }
}
