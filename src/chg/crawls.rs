//! Which groups have URIs of a crawl execution: the way from a crawl to its groups, so that
//! `CHG.DROP` need not look at all others.
//!
//! The fields of the hash `chg_of:<execution>` are the groups that URIs of the execution are queued for,
//! kept or counted by this module. (Plain clients do not say in a group whose URIs it counts, so there
//! is nothing of theirs to find.) It is written when the first URI of an execution comes to a group and
//! when the last one leaves it, and not in between.

use super::error::Result;
use super::frontier::{Frontier, Loaded};
use super::keys::OF;
use super::store::Store;
use crawlspace_host::keyspace::Batch;

impl<K: Store> Frontier<K> {
    /// The key of the groups that have URIs of an execution.
    pub(super) fn groups_of(&self, ks: &mut K, execution: &[u8]) -> K::Name {
        self.key(ks, OF, execution)
    }

    /// A group has URIs of an execution.
    pub(super) fn enlist(&self, ks: &mut K, execution: &[u8], id: &[u8]) -> Result<()> {
        let key = self.groups_of(ks, execution);
        ks.hash_set_new(&key, id, b"")?;
        Ok(())
    }

    /// A group has no URIs of an execution any more.
    pub(super) fn delist(&self, ks: &mut K, execution: &[u8], id: &[u8]) -> Result<()> {
        let key = self.groups_of(ks, execution);
        ks.hash_del(&key, id)?;
        Ok(())
    }

    /// Takes a group off the list of an execution if nothing of that is left in it, neither kept nor
    /// counted.
    pub(super) fn delist_if_done(
        &self,
        ks: &mut K,
        loaded: &Loaded<K>,
        execution: &[u8],
    ) -> Result<()> {
        match self.kept(ks, loaded, |uris| uris.count_of(execution))? {
            Some(1..) => Ok(()),
            _ => self.delist_unless_counted(ks, loaded, execution),
        }
    }

    /// Takes a group off the list of an execution of which nothing is kept, unless some is counted.
    pub(super) fn delist_unless_counted(
        &self,
        ks: &mut K,
        loaded: &Loaded<K>,
        execution: &[u8],
    ) -> Result<()> {
        if self.counted(ks, &loaded.key, execution)? == 0 {
            self.delist(ks, execution, &loaded.id)?;
        }
        Ok(())
    }

    /// How many URIs of an execution groups have by name; `None` when more than `most` groups have any.
    pub(super) fn queued_in_few(
        &self,
        ks: &mut K,
        execution: &[u8],
        most: u64,
    ) -> Result<Option<u64>> {
        let key = self.groups_of(ks, execution);
        if ks.hash_len(&key)? > most {
            return Ok(None);
        }
        let (mut batch, mut cursor) = (Batch::default(), ks.cursor());
        while ks.hash_scan(&key, &mut cursor, &mut batch)? {}
        let mut groups: Vec<&[u8]> = batch.iter().map(|(id, _)| id).collect();
        // A scan may give a field twice.
        groups.sort_unstable();
        groups.dedup();
        let mut sum = 0_u64;
        for id in groups {
            let uris = self.uris_key(ks, id);
            let group = self.key(ks, super::keys::GROUP, id);
            let kept = ks.uris(&uris, |uris| uris.count_of(execution))?;
            let counted = self.counted(ks, &group, execution)?;
            sum = sum.saturating_add(kept.unwrap_or(0).saturating_add(counted));
        }
        Ok(Some(sum))
    }
}
