//! Translates the names of executions and the URIs of a group that moves from one storage to the other.
//!
//! A group with many URIs is translated in parts. Meanwhile, its URIs are *mixed*: some are *raw*, as clients use them,
//! and some are *compressed*, as a packed frontier stores them (identifiers call these URIs "spelled"). In a mixed
//! group, a raw URI begins with [`RAW`].

use super::Uris;
use super::encoding::Bytes;
use super::queue::{RAW, Spell, raw_form};
use super::record::Position;

impl Uris {
    /// Returns the number of queued URIs.
    pub(in crate::chg) fn queued(&self) -> u64 {
        self.queue.len()
    }

    /// Returns true if there are many executions, which a packed frontier stores by name.
    pub(in crate::chg) fn is_crowd(&self) -> bool {
        self.executions.few().is_none()
    }

    /// Returns the first queued URI or, without queued URIs, the first leased URI.
    pub(in crate::chg) fn first(&self) -> Option<Vec<u8>> {
        let mut first = None;
        self.queue.walk(Position::default(), &mut |record| {
            first = Some(record.uri.to_vec());
            false
        });
        first.or_else(|| Some(self.leases.first()?.uri.to_vec()))
    }

    /// Replaces the stored names of all executions.
    pub(in crate::chg) fn rename(&mut self, name: &mut dyn FnMut(&[u8]) -> Bytes) {
        self.executions.rename(name);
    }

    /// Replaces the stored form of every URI.
    pub(in crate::chg) fn respell(&mut self, spell: Spell<'_>) {
        self.queue = self.queue.respelled(&mut *spell);
        for lease in &mut self.leases {
            lease.uri = spell(&lease.uri)[..].into();
        }
    }

    /// Returns true if some URIs may be raw and other URIs compressed.
    pub(in crate::chg) fn is_mixed(&self) -> bool {
        self.queue.is_mixed()
    }

    /// Returns true if a URI is queued or leased for an execution, and is raw.
    pub(in crate::chg) fn has_raw(&self, execution: &[u8], uri: &[u8]) -> bool {
        self.is_mixed() && self.contains(execution, &raw_form(uri))
    }

    /// Begins a translation of raw URIs to compressed URIs, or of compressed URIs to raw URIs.
    pub(in crate::chg) fn mix(&mut self, are_raw: bool) {
        self.queue.mix(are_raw);
        for lease in self.leases.iter_mut().filter(|_| are_raw) {
            lease.uri = raw_form(&lease.uri)[..].into();
        }
    }

    /// Compresses up to `most` raw URIs of a mixed group. Returns true once all URIs are compressed, which
    /// ends the mixed state.
    pub(in crate::chg) fn spell(&mut self, most: usize, spell: Spell<'_>) -> bool {
        if !self.queue.translate(false, most, &mut *spell) {
            return false;
        }
        for lease in &mut self.leases {
            if let [RAW, uri @ ..] = &*lease.uri {
                lease.uri = spell(uri)[..].into();
            }
        }
        self.queue.unmix();
        true
    }

    /// Converts up to `most` compressed URIs of a mixed group to raw URIs. Returns true once all
    /// queued URIs are raw.
    pub(in crate::chg) fn unspell(&mut self, most: usize, expand: Spell<'_>) -> bool {
        self.queue.translate(true, most, expand)
    }

    /// Converts all compressed URIs of a mixed group to raw URIs, which ends the mixed state.
    pub(in crate::chg) fn end_unspelling(&mut self, expand: Spell<'_>) {
        self.queue.translate(true, usize::MAX, &mut *expand);
        for lease in &mut self.leases {
            lease.uri = match &*lease.uri {
                [RAW, uri @ ..] => uri.into(),
                uri => expand(uri)[..].into(),
            };
        }
        self.queue.unmix();
    }
}
