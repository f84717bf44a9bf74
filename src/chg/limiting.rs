//! Limits of groups by the number of done URLs of an execution. A group whose limit is reached keeps its place in the
//! queues, but searches skip the URIs of the execution in this group, as if the execution were paused.

use std::collections::BTreeMap;

use crawlspace_host::reply::Reply;

use super::error::{Error, Result};
use super::hold::Limits;
use super::job::{Job, Lent};
use super::known::{Counts, Recounting, Tallies, Turned};
use super::queues::Queues;
use super::store::{Store, check_packed, with_packed};
use super::time::Millis;

/// Creates a job that sets limits of a group. A limit of done URLs is based on a count. Therefore, the job
/// first counts the URLs of the execution, unless the count already exists for another limit. A limit of 0
/// removes the limit.
pub fn limit_done<K: Store>(
    chg: &[u8],
    (execution, most): (&[u8], u64),
    limits: &Limits,
    now: Millis,
) -> Job<K> {
    let (chg, execution, limits) = (chg.to_vec(), execution.to_vec(), *limits);
    Job::new(async move |lent: Lent<K>| {
        let counts = match most {
            0 => {
                lent.with(|_, ks| check_packed(ks))?;
                Counts::default()
            }
            _ => count_exactly(&lent, &execution, &chg).await?,
        };
        lent.with(|frontier, ks| -> Result<()> {
            if limits != Limits::default() {
                frontier.limit(ks, &chg, &limits, now)?;
            }
            with_packed(ks, |packed| {
                packed.set_limit(&execution, &chg, most, counts)
            })
        })?;
        Ok(Reply::Ok)
    })
}

/// Counts the URLs of an execution that belong to a group. The counts are exact when this function
/// returns.
async fn count_exactly<K: Store>(lent: &Lent<K>, execution: &[u8], chg: &[u8]) -> Result<Counts> {
    loop {
        let found = lent.with(|_, ks| {
            with_packed(ks, |packed| {
                let hash = packed.group_hash(chg);
                if let Some(counts) = packed.limits().counts(execution, hash) {
                    return Err(counts);
                }
                let member = packed.spaces().member(execution);
                let member = member.ok_or(Counts::default())?;
                Ok((member.space.clone(), hash))
            })
        })?;
        let (space, hash) = match found {
            Ok(found) => found,
            Err(counts) => return Ok(counts),
        };
        let one = BTreeMap::from([(hash, Counts::default())]);
        let tallies = Tallies::from([(execution.into(), one)]);
        let recounting = recount(lent, &space, tallies).await?;
        let tallies = lent.with(|_, ks| {
            with_packed(ks, |packed| {
                let tallies = packed.end_recount(&recounting)?;
                // The execution may now belong to a different space.
                let member = packed.spaces().member(execution);
                let is_there = member.is_some_and(|member| member.space == space);
                is_there.then_some(tallies)
            })
        })?;
        if let Some(tallies) = tallies {
            return Ok(tallies[execution][&hash]);
        }
    }
}

/// Counts the URLs of a space for these executions and hashes of groups, in slices. The counts include
/// changes between the slices, and later changes until the recount ends.
pub(super) async fn recount<K: Store>(
    lent: &Lent<K>,
    space: &[u8],
    tallies: Tallies,
) -> Result<Recounting> {
    let recounting =
        lent.with(|_, ks| with_packed(ks, |packed| packed.begin_recount(space, tallies)))?;
    lent.slices(|_, ks, time| {
        while with_packed(ks, |packed| packed.recount_some(&recounting, space))? {
            if !time() {
                return Ok(false);
            }
        }
        Ok::<_, Error>(true)
    })
    .await?;
    Ok(recounting)
}

/// Copies the limits of a group to another group, except for executions that already have a limit
/// in the other group.
pub(super) async fn copy_limits<K: Store>(lent: &Lent<K>, from: &[u8], to: &[u8]) -> Result<()> {
    for (execution, most) in limits_of(lent, from)? {
        let counts = count_exactly(lent, &execution, to).await?;
        lent.with(|_, ks| {
            ks.packed(|packed| {
                let mut of = packed.limits().of(to);
                if !of.any(|(other, ..)| *other == *execution) {
                    drop(of);
                    packed.set_limit(&execution, to, most, counts);
                }
            })
        })?;
    }
    Ok(())
}

/// Removes the limits of a group.
pub(super) fn remove_limits<K: Store>(lent: &Lent<K>, id: &[u8]) -> Result<()> {
    for (execution, _) in limits_of(lent, id)? {
        lent.with(|_, ks| {
            ks.packed(|packed| packed.set_limit(&execution, id, 0, Counts::default()))
        })?;
    }
    Ok(())
}

/// Returns the limits of a group: executions and numbers of done URLs.
pub(super) fn limits_of<K: Store>(lent: &Lent<K>, id: &[u8]) -> Result<Vec<(Vec<u8>, u64)>> {
    let limits = lent.with(|_, ks| {
        ks.packed(|packed| {
            let of = packed.limits().of(id);
            of.map(|(execution, most, _)| (execution.to_vec(), most))
                .collect()
        })
    })?;
    Ok(limits.unwrap_or_default())
}

impl<K: Store> Queues<K> {
    /// Makes searches examine groups again that reached a limit or fell below it.
    pub(super) fn note_limits(&mut self, ks: &mut K) -> Result<()> {
        let turned = ks.packed(|packed| packed.take_turned())?;
        match turned.unwrap_or_default() {
            Turned::Some(ids) => {
                for id in ids {
                    self.note_change(ks, &id)?;
                }
            }
            Turned::Many => self.search_from_head(),
        }
        Ok(())
    }
}
