//! State that lets an audit account for changes made while it runs.

use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

/// The running audit, if any.
#[derive(Debug, Default)]
pub(super) struct Audits(Option<Audit>);

impl Audits {
    /// Begins an audit, which replaces a running one.
    pub(super) fn begin(&mut self, owner: &Rc<()>) {
        self.0 = Some(Audit::new(owner));
    }

    /// Returns the audit of an owner, unless another audit has replaced it.
    pub(super) fn of(&self, owner: &Rc<()>) -> Option<&Audit> {
        self.0.as_ref().filter(|audit| audit.is_of(owner))
    }

    /// Ends the audit of an owner and returns it.
    pub(super) fn end(&mut self, owner: &Rc<()>) -> Option<Audit> {
        self.0.take_if(|audit| audit.is_of(owner))
    }

    /// Watches a group that its owner is about to read in several steps.
    pub(super) fn watch(&mut self, owner: &Rc<()>, id: &[u8]) {
        if let Some(audit) = self.0.as_mut().filter(|audit| audit.is_of(owner)) {
            audit.watched = Some(id.into());
        }
    }

    /// Returns true if the owner of the audit still exists.
    pub(super) fn is_wanted(&self) -> bool {
        self.0.as_ref().is_some_and(Audit::is_wanted)
    }

    /// Records the count of a group before the count, or other fields of the group, change; `count` returns
    /// the current count.
    pub(super) fn before(&mut self, id: &[u8], count: impl FnOnce() -> u64) {
        self.0.take_if(|audit| !audit.is_wanted());
        if let Some(audit) = &mut self.0 {
            audit.before(id, count());
        }
    }

    /// Records the number of queued URIs of an execution before it changes.
    pub(super) fn before_execution(&mut self, execution: &[u8], count: u64) {
        if let Some(audit) = &mut self.0
            && !audit.executions.contains_key(execution)
        {
            audit.executions.insert(execution.into(), count);
        }
    }

    /// Counts a group that was taken from the head of `chg_ready`.
    pub(super) fn taken(&mut self) {
        if let Some(audit) = &mut self.0 {
            audit.taken += 1;
        }
    }

    /// Records that a plain client wrote to keys, so that their previous state is unknown.
    pub(super) fn disturb(&mut self) {
        if let Some(audit) = &mut self.0 {
            audit.disturbed = true;
        }
    }
}

/// The previous counts of everything that has changed since an audit began. An audit takes many
/// steps, but with these counts it can prove the state at one moment.
///
/// The maps are ordered, here and in the audit itself. Clients choose the names, and a map that
/// grows node by node never pauses to rehash, even at the millionth entry.
#[derive(Debug, Default)]
pub struct Audit {
    /// The owner of the audit; a new audit replaces it.
    owner: Weak<()>,
    pub(super) groups: BTreeMap<Box<[u8]>, u64>,
    pub(super) executions: BTreeMap<Box<[u8]>, u64>,
    /// The group that is being read in several steps, until something in it changes.
    watched: Option<Box<[u8]>>,
    /// Number of groups taken from the head of `chg_ready`.
    pub(super) taken: u64,
    /// Plain clients wrote during the audit, so it proves nothing.
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

    /// Returns true if no command of this module has changed the watched group.
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
