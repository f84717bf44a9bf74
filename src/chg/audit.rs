//! Records the changes that commands make during an audit of the frontier.

use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

/// The running audits.
#[derive(Debug, Default)]
pub(super) struct Audits(Vec<Audit>);

impl Audits {
    /// Begins an audit.
    pub(super) fn begin(&mut self, owner: &Rc<()>) {
        self.0.retain(Audit::is_wanted);
        self.0.push(Audit::new(owner));
    }

    /// Returns the audit of an owner.
    pub(super) fn of(&self, owner: &Rc<()>) -> Option<&Audit> {
        self.0.iter().find(|audit| audit.is_of(owner))
    }

    /// Ends the audit of an owner and returns it.
    pub(super) fn end(&mut self, owner: &Rc<()>) -> Option<Audit> {
        let at = self.0.iter().position(|audit| audit.is_of(owner))?;
        Some(self.0.swap_remove(at))
    }

    /// Watches a group that the owner of the audit is about to read in several steps.
    pub(super) fn watch(&mut self, owner: &Rc<()>, id: &[u8]) {
        if let Some(audit) = self.0.iter_mut().find(|audit| audit.is_of(owner)) {
            audit.watched = Some(id.into());
        }
    }

    /// Returns true if the owner of an audit still exists.
    pub(super) fn is_wanted(&self) -> bool {
        self.0.iter().any(Audit::is_wanted)
    }

    /// Records the count of a group before the count or another field of the group changes. `count`
    /// is the current count.
    pub(super) fn before(&mut self, id: &[u8], count: impl FnOnce() -> u64) {
        if self.0.is_empty() {
            return;
        }
        self.0.retain(Audit::is_wanted);
        let count = count();
        self.0.iter_mut().for_each(|audit| audit.before(id, count));
    }

    /// Records the number of queued URIs of an execution before the number changes.
    pub(super) fn before_execution(&mut self, execution: &[u8], count: u64) {
        for audit in &mut self.0 {
            if !audit.executions.contains_key(execution) {
                audit.executions.insert(execution.into(), count);
            }
        }
    }

    /// Counts a group that a command took from the head of `chg_ready`.
    pub(super) fn taken(&mut self) {
        self.0.iter_mut().for_each(|audit| audit.taken += 1);
    }

    /// Records that a plain client wrote to keys whose previous contents are therefore unknown.
    pub(super) fn disturb(&mut self) {
        self.0.iter_mut().for_each(|audit| audit.disturbed = true);
    }
}

/// The previous counts of all groups and executions that have changed since an audit began. An
/// audit takes many steps; from these counts, it reconstructs the state at the time when it began.
///
/// This type and the audit use ordered maps, which grow node by node and therefore never pause to
/// rehash, even with a million entries.
#[derive(Debug, Default)]
pub struct Audit {
    /// The owner of the audit. The audit ends when its owner is dropped.
    owner: Weak<()>,
    pub(super) groups: BTreeMap<Box<[u8]>, u64>,
    pub(super) executions: BTreeMap<Box<[u8]>, u64>,
    /// The group that the audit is reading in several steps; `None` once the group has changed.
    watched: Option<Box<[u8]>>,
    /// Number of groups taken from the head of `chg_ready`.
    pub(super) taken: u64,
    /// True if plain clients wrote to keys during the audit; its result is then unreliable.
    pub(super) disturbed: bool,
}

impl Audit {
    /// Creates an audit.
    fn new(owner: &Rc<()>) -> Audit {
        Audit {
            owner: Rc::downgrade(owner),
            ..Audit::default()
        }
    }

    /// Returns true if the audit belongs to this owner.
    fn is_of(&self, owner: &Rc<()>) -> bool {
        self.owner
            .upgrade()
            .is_some_and(|own| Rc::ptr_eq(&own, owner))
    }

    /// Returns true if the owner of the audit still exists.
    fn is_wanted(&self) -> bool {
        self.owner.strong_count() > 0
    }

    /// Returns true if no command of the module has changed the watched group.
    pub(super) fn is_unchanged(&self) -> bool {
        self.watched.is_some()
    }

    /// Records the count of a group before the group changes.
    fn before(&mut self, id: &[u8], count: u64) {
        if !self.groups.contains_key(id) {
            self.groups.insert(id.into(), count);
        }
        if self.watched.as_deref() == Some(id) {
            self.watched = None;
        }
    }
}
