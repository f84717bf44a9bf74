//! Checks the counts on which limits of done URLs are based, by counting all URLs again.

use std::collections::BTreeMap;

use crawlspace_host::text::Shown;

use super::super::error::Result;
use super::super::job::Lent;
use super::super::known::{Counts, Limits, Tallies};
use super::super::limiting::recount;
use super::super::packed::Packed;
use super::super::store::Store;
use super::{Check, PAGE, free};

/// A name.
type Name = Box<[u8]>;

/// Returns the first execution with counts that sorts after the given execution, and the name of
/// its space.
fn next_counted(packed: &Packed, after: Option<&[u8]>) -> Option<(Name, Option<Name>)> {
    let execution = packed.limits().counted_after(after)?;
    let member = packed.spaces().member(execution);
    Some((execution.into(), member.map(|member| member.space.clone())))
}

impl Check {
    /// Compares the counts on which limits are based with the URLs.
    pub(super) async fn look_at_limits<K: Store>(&mut self, lent: &Lent<K>) -> Result<()> {
        let mut after: Option<Name> = None;
        loop {
            let after_last = after.as_deref();
            let next = lent.with(|_, ks| ks.packed(|packed| next_counted(packed, after_last)))?;
            let Some((execution, space)) = next.flatten() else {
                return Ok(());
            };
            let mut hashes = BTreeMap::new();
            let mut from = Some(0);
            while let Some(at) = from {
                let page = |limits: &Limits| limits.hashes_of(&execution, at, PAGE);
                let page = lent.with(|_, ks| ks.packed(|packed| page(packed.limits())))?;
                let page = page.unwrap_or_default();
                from = page.last().and_then(|last| last.checked_add(1));
                from = from.filter(|_| page.len() == PAGE);
                hashes.extend(page.into_iter().map(|hash| (hash, Counts::default())));
                lent.pause().await;
            }
            self.compare(lent, &execution, space, hashes).await?;
            after = Some(execution);
        }
    }

    /// Compares the counts of an execution with its URLs.
    async fn compare<K: Store>(
        &mut self,
        lent: &Lent<K>,
        execution: &[u8],
        space: Option<Name>,
        hashes: BTreeMap<u32, Counts>,
    ) -> Result<()> {
        let Some(space) = space else {
            return Ok(());
        };
        let all: Vec<u32> = hashes.keys().copied().collect();
        let tallies = Tallies::from([(execution.into(), hashes)]);
        let recounting = recount(lent, &space, tallies).await?;
        for hash in all {
            lent.with(|_, ks| {
                ks.packed(|packed| {
                    let member = packed.spaces().member(execution);
                    if member.is_none_or(|member| member.space != space) {
                        return;
                    }
                    let kept = packed.limits().counts(execution, hash);
                    let counted = packed.limits().recounted(&recounting, execution, hash);
                    let (Some(kept), Some(counted)) = (kept, counted) else {
                        return;
                    };
                    if kept == counted {
                        return;
                    }
                    self.problem(|| {
                        format!(
                            "execution '{}': {counted:?} URLs of a group with a limit are known, but the stored count is {kept:?}",
                            Shown(execution)
                        )
                    });
                    if self.repairs {
                        packed.set_tally(execution, hash, counted);
                        self.mended += 1;
                    }
                })
            })?;
            lent.pause().await;
        }
        let tallies = lent.with(|_, ks| ks.packed(|packed| packed.end_recount(&recounting)))?;
        let tallies = tallies.flatten().unwrap_or_default();
        free(lent, tallies.into_values().flatten()).await;
        Ok(())
    }
}
