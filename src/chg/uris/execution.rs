//! A crawl execution that shares a group.

use super::super::time::Millis;

/// A crawl execution of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Execution {
    pub(super) id: Box<[u8]>,
    /// A short hash of the id, to compare first.
    pub(super) mark: u32,
    /// Stands for it in the queue; grows in order of appearance.
    pub(super) number: u64,
    pub(super) weight: u32,
    pub(super) pass: u128,
    /// How many URIs are queued.
    pub(super) queued: u64,
    /// How many are leased and count.
    pub(super) leased: u32,
    /// How many leases there are, of dropped URIs too.
    pub(super) held: u32,
    /// When the first queued one is due; the end of time without any.
    pub(super) earliest: Millis,
}

impl Execution {
    pub(super) fn is_idle(&self) -> bool {
        self.queued == 0 && self.held == 0
    }
}

/// Returns a short hash of an execution id, which is the same on every machine.
pub(super) fn mark(id: &[u8]) -> u32 {
    // FNV-1a: the same everywhere, and quick for what is this short. Who finds two ids with the same
    // one has gained a comparison of their bytes.
    id.iter().fold(0x811c_9dc5, |hash, &byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}
