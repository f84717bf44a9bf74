//! Repairs groups whose hash a plain client deleted or emptied although the frontier stores URIs of
//! them. The stored URIs are authoritative, so the next command on such a group counts them again
//! and queues the group.

use super::error::Result;
use super::groups::Loaded;
use super::placing::Placing;
use super::store::Store;
use super::time::Millis;
use super::transition::{Event, Seen};

impl<K: Store> Placing<'_, K> {
    /// Counts the stored URIs that the hash of a group did not count, and queues the group. If a
    /// plain client is fetching from the group, the group is not queued, because that client will
    /// queue it.
    pub(super) fn reclaim(
        &mut self,
        ks: &mut K,
        loaded: &mut Loaded<K>,
        now: Millis,
    ) -> Result<()> {
        if loaded.missing.get() == 0 {
            return Ok(());
        }
        let busy = self.groups.restore_leases(ks, loaded, now)?;
        if !self.queues.stands_in_wait(ks, loaded)? {
            let mut seen = Seen::at(now, self.groups.stock(ks, loaded)?);
            seen.taken = busy && loaded.group.holds.is_empty();
            let step = loaded.group.on(Event::Reclaimed, &seen);
            self.place(ks, loaded, &step, now)?;
        }
        self.save(ks, loaded)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Token;
    use super::super::add::Kept;
    use super::super::error::Error;
    use super::super::frontier::Frontier;
    use super::super::lease::{Fate, ReleaseReply, When};
    use super::super::next::Ask;
    use crate::chg::store::MemoryKeyspace;
    use crawlspace_host::keyspace::Keyspace;

    /// Creates a group with a lease on a stored URI. A plain client has replaced the hash of the
    /// group.
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
            uris: 1,
            gate: None,
            count: 1,
            execution: None,
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
