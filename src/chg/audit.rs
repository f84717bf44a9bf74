//! What an audit needs to know of changes behind its back.

use std::rc::{Rc, Weak};

use rustc_hash::FxHashMap;

/// Counts as they stood when an audit began, of everything that has changed since: an audit takes
/// many steps, and proves what held at one moment.
#[derive(Debug, Default)]
pub struct Audit {
    /// Whose audit this is; whoever asks for another one takes it over.
    owner: Weak<()>,
    pub(super) groups: FxHashMap<Box<[u8]>, u64>,
    pub(super) executions: FxHashMap<Box<[u8]>, u64>,
    /// How many were taken from the head of `chg_ready`.
    pub(super) taken: u64,
    /// Whether plain clients wrote meanwhile, so that nothing is proved.
    pub(super) disturbed: bool,
}

impl Audit {
    /// Begins one.
    pub(super) fn new(owner: &Rc<()>) -> Audit {
        Audit {
            owner: Rc::downgrade(owner),
            ..Audit::default()
        }
    }

    /// Whether it is still that of its owner.
    pub(super) fn is_of(&self, owner: &Rc<()>) -> bool {
        self.owner
            .upgrade()
            .is_some_and(|own| Rc::ptr_eq(&own, owner))
    }

    /// Whether anybody still wants it.
    pub(super) fn is_wanted(&self) -> bool {
        self.owner.strong_count() > 0
    }

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
