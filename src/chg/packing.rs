//! `CHG.PACK` and `CHG.UNPACK`: convert a frontier from one storage to the other.
//!
//! Other commands run between the slices, and look up each element in the storage that contains it
//! ([`super::packed::both`]). After a crash, the same command continues the conversion, and the
//! opposite command reverts it.

use crawlspace_host::reply::Reply;
use crawlspace_host::text::Shown;

use super::check::check_in;
use super::discover::knows_urls;
use super::error::{Error, Result};
use super::frontier::Frontier;
use super::job::{Job, Lent};
use super::packed::moving::{Begun, Movable};
use super::time::Millis;
use crate::storage::Storage;

/// Creates a job that converts a frontier to a storage. The reply is the number of moved groups.
pub fn move_to<K: Movable>(to: Storage, now: Millis) -> Job<K> {
    Job::new(async move |lent: Lent<K>| {
        loop {
            let begun = lent.with(|frontier, ks| -> Result<Begun> {
                if to == Storage::Plain && knows_urls(ks)? {
                    return Err(Error::Known(
                        "plain keys cannot hold the URLs that the frontier knows; CHG.FORGET removes them"
                            .to_owned(),
                    ));
                }
                let limit = ks.packed(|packed| {
                    let (execution, id, _) = packed.limits().all().next()?;
                    Some((execution.to_vec(), id.to_vec()))
                })?;
                if to == Storage::Plain
                    && let Some((execution, id)) = limit.flatten()
                {
                    return Err(Error::Known(format!(
                        "group '{}' limits the done URLs of execution '{}', and plain keys cannot store this limit; CHG.LIMIT ... DONE 0 removes it",
                        Shown(&id),
                        Shown(&execution)
                    )));
                }
                let is_wide = ks.packed(|packed| packed.has_wide_leases())?;
                if to == Storage::Plain && is_wide == Some(true) {
                    return Err(Error::Known(
                        "plain keys cannot hold leases that use LATER or GATE, or that have several URIs; send CHG.UNPACK again when CHG.RELEASE has ended these leases"
                            .to_owned(),
                    ));
                }
                let begun = ks.begin(&frontier.keys.prefix, to)?;
                if begun == Begun::Now {
                    frontier.reopen(ks);
                }
                Ok(begun)
            })?;
            match begun {
                Begun::There => return Ok(Reply::count(0)),
                Begun::Joining => lent.pause().await,
                Begun::Now | Begun::Before => break,
            }
        }
        let all = lent.with(|frontier, ks| left(frontier, ks, to))?;
        let (mut progress, mut groups) = (K::Progress::default(), 0);
        lent.slices(|_, ks, time| {
            lent.report(groups, all);
            let mut is_done = false;
            while !is_done {
                is_done = ks.step(&mut progress, &mut groups)?;
                if !time() {
                    break;
                }
            }
            lent.report(groups, all);
            ks.flush()?;
            Ok::<_, Error>(is_done)
        })
        .await?;
        let damaged = lent.with(|frontier, ks| -> Result<bool> {
            let damaged = ks.finish()?;
            frontier.reopen(ks);
            Ok(damaged)
        })?;
        if damaged {
            check_in(&lent, true, now).await?;
        }
        Ok(Reply::count(groups))
    })
}

/// Returns the approximate number of groups to move: a group that is in two queues counts twice.
fn left<K: Movable>(frontier: &Frontier<K>, ks: &mut K, to: Storage) -> Result<u64> {
    let once = &frontier.keys.once;
    let mut ordered = 0;
    for set in [&once.wait, &once.busy, &once.idle] {
        ordered += ks.zset_len(set)?;
    }
    let packed = ks.packed_places()?;
    let moving = match to {
        Storage::Packed => ordered.saturating_sub(packed),
        Storage::Plain => packed,
    };
    let gated = ks.number(&once.gated)?.max(0) as u64;
    Ok(moving + ks.list_len(&once.ready)? + gated)
}

impl<K: Movable> Frontier<K> {
    /// Reads the names of all keys again after the storage has changed. Preserves the state that
    /// the keys do not contain.
    pub fn reopen(&mut self, ks: &mut K) {
        let prefix = self.keys.prefix.clone();
        let mut old = std::mem::replace(self, Frontier::open(ks, &prefix));
        self.attempts = old.attempts;
        self.rounding = old.rounding;
        self.figures = std::mem::take(&mut old.figures);
        self.tokens.take_over(&old.tokens);
        self.queues.take_over(&mut old.queues);
        self.ledger.audits = std::mem::take(&mut old.ledger.audits);
        self.drops.take_over(&mut old.drops);
    }
}
