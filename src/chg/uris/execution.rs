//! A crawl execution with URIs in a group.

use super::super::time::Millis;

/// A crawl execution of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Execution {
    pub(super) id: Box<[u8]>,
    /// Short hash of the id, which is compared before the id.
    pub(super) mark: u32,
    /// Number of the execution in the queue. Numbers increase in order of appearance.
    pub(super) number: u64,
    pub(super) weight: u32,
    pub(super) pass: u128,
    /// Number of queued URIs.
    pub(super) queued: u64,
    /// Number of leased URIs that are counted.
    pub(super) leased: u32,
    /// Number of leases, including those of dropped URIs.
    pub(super) held: u32,
    /// Due time of the first queued URI; `Millis::MAX` if there is none.
    pub(super) earliest: Millis,
}

impl Execution {
    /// Creates an execution without URIs.
    pub(super) fn new(id: &[u8], number: u64, weight: u32, pass: u128) -> Execution {
        Execution {
            id: id.into(),
            mark: mark(id),
            number,
            weight,
            pass,
            queued: 0,
            leased: 0,
            held: 0,
            earliest: Millis::MAX,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.queued == 0 && self.held == 0
    }
}

/// Returns a short hash of an execution id, which is the same on every machine.
pub(super) fn mark(id: &[u8]) -> u32 {
    // FNV-1a is the same on all machines, and fast for short inputs. If an attacker finds two ids
    // with the same hash, the only effect is an additional comparison of bytes.
    id.iter().fold(0x811c_9dc5, |hash, &byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}
