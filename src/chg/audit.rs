//! What an audit needs to know of changes behind its back.

use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

/// Counts as they stood when an audit began, of everything that has changed since: an audit takes
/// many steps, and proves what held at one moment.
///
/// Ordered maps, here and in the audit itself: the names come from strangers, and a map that grows by a
/// node takes no longer for the millionth.
#[derive(Debug, Default)]
pub struct Audit {
    /// Whose audit this is; whoever asks for another one takes it over.
    owner: Weak<()>,
    pub(super) groups: BTreeMap<Box<[u8]>, u64>,
    pub(super) executions: BTreeMap<Box<[u8]>, u64>,
    /// The group that is read in several steps, until something changes in it.
    watched: Option<Box<[u8]>>,
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

    /// Watches a group that is about to be read in several steps.
    pub(super) fn watch(&mut self, id: &[u8]) {
        self.watched = Some(id.into());
    }

    /// Whether nothing has changed in the watched group, by commands of this module.
    pub(super) fn is_unchanged(&self) -> bool {
        self.watched.is_some()
    }

    /// The count of a group is about to change, or something else in it; what it is now.
    pub(super) fn before(&mut self, id: &[u8], count: u64) {
        if !self.groups.contains_key(id) {
            self.groups.insert(id.into(), count);
        }
        if self.watched.as_deref() == Some(id) {
            self.watched = None;
        }
    }

    /// The queued URIs of an execution are about to change; how many there are now.
    pub(super) fn before_execution(&mut self, execution: &[u8], count: u64) {
        if !self.executions.contains_key(execution) {
            self.executions.insert(execution.into(), count);
        }
    }

    /// A plain client wrote, who does not say what was there before.
    pub(super) fn disturb(&mut self) {
        self.disturbed = true;
    }
}
