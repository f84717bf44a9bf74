//! What an audit needs to know of changes behind its back.

use rustc_hash::FxHashMap;

/// Counts as they stood when an audit began, of everything that has changed since: an audit takes
/// many steps, and proves what held at one moment.
#[derive(Debug, Default)]
pub struct Audit {
    pub(super) groups: FxHashMap<Box<[u8]>, u64>,
    pub(super) executions: FxHashMap<Box<[u8]>, u64>,
    /// How many were taken from the head of `chg_ready`.
    pub(super) taken: u64,
    /// Whether plain clients wrote meanwhile, so that nothing is proved.
    pub(super) disturbed: bool,
}

impl Audit {
    /// The count of a group is about to change; what it is now.
    pub(super) fn before(&mut self, id: &[u8], count: u64) {
        if !self.groups.contains_key(id) {
            self.groups.insert(id.into(), count);
        }
    }

    /// The same for an execution.
    pub(super) fn before_execution(&mut self, execution: &[u8], count: u64) {
        if !self.executions.contains_key(execution) {
            self.executions.insert(execution.into(), count);
        }
    }

    /// Somebody wrote who does not say what was there before.
    pub(super) fn disturb(&mut self) {
        self.disturbed = true;
    }
}
