//! Groups whose hash a plain client deleted or emptied while URIs are kept for them. The kept URIs are
//! the truth of what is queued: the next command on the group counts them again and queues it.

use super::Token;
use super::error::Result;
use super::frontier::Frontier;
use super::group::Hold;
use super::groups::Loaded;
use super::store::Store;
use super::time::{Millis, of_score};
use super::transition::Event;
use super::uris::Op;

/// How many executions of one group are counted again by a command; more are left to `CHG.REPAIR`.
const COUNTED_AGAIN: usize = 256;

/// Maximum number of groups that are asked what they have of an execution.
const MAX_ASKED: u64 = 64;

impl<K: Store> Frontier<K> {
    /// Queues a group whose kept URIs its hash did not count, and counts them again. What a plain client
    /// is fetching from, it queues itself when it is done.
    pub(super) fn reclaim(
        &mut self,
        ks: &mut K,
        loaded: &mut Loaded<K>,
        now: Millis,
    ) -> Result<()> {
        if loaded.missing.get() == 0 {
            return Ok(());
        }
        let busy = self.restore_leases(ks, loaded, now)?;
        if !self.queues.stands_in_wait(ks, loaded)? {
            let mut seen = self.seen(ks, loaded, now)?;
            seen.taken = busy && loaded.group.holds.is_empty();
            let step = loaded.group.on(Event::Reclaimed, &seen);
            self.place(ks, loaded, &step, now)?;
        }
        self.save(ks, loaded)
    }

    /// Gives a group the leases again that went with its hash, until the deadline in `chg_busy`; where
    /// that went too, their URIs are put back. True when the group is in `chg_busy`.
    pub(super) fn restore_leases(
        &mut self,
        ks: &mut K,
        loaded: &mut Loaded<K>,
        now: Millis,
    ) -> Result<bool> {
        let (busy, lost) = self.see_leases(ks, loaded, now)?;
        let key = self.groups.uris_of(ks, loaded);
        for token in lost {
            let back = Op::Return {
                token,
                due: None,
                failed: false,
            };
            ks.change_uris(&key, &back)?;
        }
        Ok(busy)
    }

    /// Shows a group with the leases that went with its hash, and writes nothing. Whether it is in
    /// `chg_busy`, and the leases whose deadline went, too.
    pub(super) fn see_leases(
        &self,
        ks: &mut K,
        loaded: &mut Loaded<K>,
        now: Millis,
    ) -> Result<(bool, Vec<Token>)> {
        let busy = ks.zset_score(&self.keys.once.busy, &loaded.id)?;
        let key = self.groups.uris_of(ks, loaded);
        let holds = &mut loaded.group.holds;
        let held = |token| holds.iter().any(|hold: &Hold| hold.token == token);
        let lost = ks.uris(&key, |uris| {
            let tokens = uris.leases().map(|lease| lease.token);
            tokens.filter(|&token| !held(token)).collect::<Vec<_>>()
        })?;
        let lost = lost.unwrap_or_default();
        let Some(deadline) = busy else {
            return Ok((false, lost));
        };
        holds.extend(lost.into_iter().map(|token| Hold {
            token,
            // Tokens are minted from the clock in microseconds.
            granted: (token / 1000).min(now),
            deadline: of_score(deadline),
        }));
        Ok((true, Vec::new()))
    }

    /// Counts kept URIs in `EIDC` and `QCT` that a group counts again. A plain client that takes a URI
    /// off a group takes it off these two as well; but where few groups have an execution, what they have
    /// is the least that `EIDC` can say, and more is not made of it.
    pub(super) fn count_missing(&mut self, ks: &mut K, loaded: &Loaded<K>) -> Result<()> {
        let mut missing = loaded.missing.take();
        if missing == 0 {
            return Ok(());
        }
        let key = self.groups.uris_of(ks, loaded);
        let kept = ks.uris(&key, |uris| {
            let each = uris.executions().take(COUNTED_AGAIN);
            each.map(|e| (e.id.to_vec(), e.uris)).collect::<Vec<_>>()
        })?;
        let mut many = Vec::new();
        for (execution, kept) in kept.unwrap_or_default() {
            self.ledger.enlist(ks, &execution, &loaded.id)?;
            let Some(least) = self.ledger.queued_in_few(ks, &execution, MAX_ASKED)? else {
                many.push((execution, kept));
                continue;
            };
            let said = self.ledger.queued_of(ks, &execution)?;
            let change = least.saturating_sub(said).min(missing);
            missing -= change;
            self.ledger.tally(ks, &execution, change as i64)?;
        }
        for (execution, kept) in many {
            let change = kept.min(missing);
            missing -= change;
            self.ledger.tally(ks, &execution, change as i64)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::add::Kept;
    use super::super::error::Error;
    use super::super::lease::{Fate, ReleaseReply, When};
    use super::super::next::Ask;
    use super::*;
    use crate::chg::store::MemoryKeyspace;
    use crawlspace_host::keyspace::Keyspace;

    /// A group with a lease of a kept URI, whose hash a plain client replaced.
    fn replaced() -> (MemoryKeyspace, Frontier<MemoryKeyspace>, Token) {
        let mut ks = MemoryKeyspace::default();
        let mut frontier = Frontier::open(&mut ks, b"");
        let kept = [&b"u1"[..], b"u2"].map(|uri| Kept {
            chg: b"host",
            at: 1,
            depth: 0,
            uri,
        });
        frontier
            .add_kept(&mut ks, b"crawl", None, &kept, 1)
            .unwrap();
        let ask = Ask {
            lease: 1000,
            count: 1,
            after: None,
        };
        let lease = frontier.next_of(&mut ks, b"host", &ask, 2).unwrap();
        let token = lease.expect("it is due").token;
        let key = b"CHG:host".to_vec();
        ks.delete(&key).unwrap();
        ks.hash_set(&key, b"x", b"1").unwrap();
        (ks, frontier, token)
    }

    fn fields(ks: &mut MemoryKeyspace) -> u64 {
        ks.hash_len(&b"CHG:host".to_vec()).unwrap()
    }

    #[test]
    fn release_with_arguments_that_do_not_fit_writes_nothing_to_a_replaced_hash() {
        let (mut ks, mut frontier, token) = replaced();
        let wrong = Fate::Done {
            execution: b"other",
            count: None,
        };
        for (when, fate) in [(When::Stored, Fate::Unchanged), (When::At(0), wrong)] {
            let refused = frontier.release(&mut ks, b"host", token, &when, &fate, 5);
            assert!(matches!(refused, Err(Error::Argument(_))), "{when:?}");
            assert_eq!(fields(&mut ks), 1, "{when:?}");
        }
    }

    #[test]
    fn release_of_a_replaced_hash_counts_what_is_left() {
        let (mut ks, mut frontier, token) = replaced();
        let done = Fate::Done {
            execution: b"crawl",
            count: None,
        };
        let (ks, when) = (&mut ks, When::At(0));
        let released = frontier.release(ks, b"host", token, &when, &done, 5);
        assert!(matches!(released, Ok(ReleaseReply::Released(5))));
        assert_eq!(frontier.groups.load(ks, b"host").unwrap().group.uris, 1);
    }
}
