//! The hashes of shared gates.

use std::rc::Rc;

use crawlspace_host::keyspace::Batch;
use crawlspace_host::text::{parse_unsigned, push_number};

use super::error::Result;
use super::group::Text;
use super::groups::Loaded;
use super::keys::{GATE, Keys};
use super::store::{Store, field_number};
use super::time::Millis;

/// Field with the time when a gate opens.
pub(super) const OPENS: &[u8] = b"n";
/// Field with the end of the longest pause.
pub(super) const PAUSES: &[u8] = b"p";
/// Prefix of the names of fields with lease deadlines. The id of the leased group follows.
pub(super) const LEASED: &[u8] = b"l:";
/// Field with the group that represents the gate in `chg_wait`.
pub(super) const FIRST: &[u8] = b"w";
/// The hashes of gates.
pub(super) struct Gates<K: Store> {
    keys: Rc<Keys<K>>,
}

impl<K: Store> Gates<K> {
    pub(super) fn new(keys: Rc<Keys<K>>) -> Gates<K> {
        Gates { keys }
    }

    /// Returns the time when a gate opens. The time of an open gate is in the past.
    pub(super) fn closed_until(&self, ks: &mut K, gate: &[u8]) -> Result<Millis> {
        let key = self.keys.key(ks, GATE, gate);
        Ok(field_number(ks, &key, OPENS)?)
    }

    /// Returns the time at which the shared gate of a group opens, or 0 if the group has no shared
    /// gate.
    pub(super) fn opens(&self, ks: &mut K, loaded: &Loaded<K>) -> Result<Millis> {
        match &loaded.group.options.gate[..] {
            [] => Ok(0),
            gate => self.closed_until(ks, gate),
        }
    }

    /// Returns the group that represents the gate in `chg_wait`, if it is still in `chg_wait`.
    pub(super) fn representative(&self, ks: &mut K, key: &K::Name) -> Result<Option<K::Value>> {
        let Some(first) = ks.hash_get(key, FIRST)? else {
            return Ok(None);
        };
        let waits = ks
            .zset_score(&self.keys.once.wait, first.as_ref())?
            .is_some();
        Ok(waits.then_some(first))
    }

    /// Returns the latest deadline of the leases on groups of a gate.
    pub(super) fn deadlines(&self, ks: &mut K, key: &K::Name) -> Result<Millis> {
        let (mut batch, mut cursor) = (Batch::default(), ks.cursor());
        while ks.hash_scan(key, &mut cursor, &mut batch)? {}
        let leases = batch.iter().filter(|(field, _)| field.starts_with(LEASED));
        let deadlines = leases.filter_map(|(_, deadline)| parse_unsigned(deadline));
        Ok(deadlines.max().unwrap_or(0))
    }
}

pub(super) fn put_number<K: Store>(
    ks: &mut K,
    key: &K::Name,
    field: &[u8],
    n: Millis,
) -> Result<()> {
    let mut text = Text::new();
    push_number(&mut text, n);
    ks.hash_set(key, field, &text)?;
    Ok(())
}
