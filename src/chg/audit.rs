//! What an audit needs to know of changes behind its back.

use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

/// The audit under way, if any.
#[derive(Debug, Default)]
pub(super) struct Audits(Option<Audit>);

impl Audits {
    /// Begins one, in place of any other.
    pub(super) fn begin(&mut self, owner: &Rc<()>) {
        self.0 = Some(Audit::new(owner));
    }

    /// That of an owner, unless another one took its place.
    pub(super) fn of(&self, owner: &Rc<()>) -> Option<&Audit> {
        self.0.as_ref().filter(|audit| audit.is_of(owner))
    }

    /// Ends that of an owner.
    pub(super) fn end(&mut self, owner: &Rc<()>) -> Option<Audit> {
        self.0.take_if(|audit| audit.is_of(owner))
    }

    /// Watches a group that its owner is about to read in several steps.
    pub(super) fn watch(&mut self, owner: &Rc<()>, id: &[u8]) {
        if let Some(audit) = self.0.as_mut().filter(|audit| audit.is_of(owner)) {
            audit.watched = Some(id.into());
        }
    }

    /// Whether anybody still wants it.
    pub(super) fn is_wanted(&self) -> bool {
        self.0.as_ref().is_some_and(Audit::is_wanted)
    }

    /// The count of a group is about to change, or something else in it; `count` is what it is now.
    pub(super) fn before(&mut self, id: &[u8], count: impl FnOnce() -> u64) {
        self.0.take_if(|audit| !audit.is_wanted());
        if let Some(audit) = &mut self.0 {
            audit.before(id, count());
        }
    }

    /// The queued URIs of an execution are about to change; how many there are now.
    pub(super) fn before_execution(&mut self, execution: &[u8], count: u64) {
        if let Some(audit) = &mut self.0
            && !audit.executions.contains_key(execution)
        {
            audit.executions.insert(execution.into(), count);
        }
    }

    /// A group was taken from the head of `chg_ready`.
    pub(super) fn taken(&mut self) {
        if let Some(audit) = &mut self.0 {
            audit.taken += 1;
        }
    }

    /// A plain client wrote, who does not say what was there before.
    pub(super) fn disturb(&mut self) {
        if let Some(audit) = &mut self.0 {
            audit.disturbed = true;
        }
    }
}

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
    fn new(owner: &Rc<()>) -> Audit {
        Audit {
            owner: Rc::downgrade(owner),
            ..Audit::default()
        }
    }

    /// Whether it is still that of its owner.
    fn is_of(&self, owner: &Rc<()>) -> bool {
        self.owner
            .upgrade()
            .is_some_and(|own| Rc::ptr_eq(&own, owner))
    }

    /// Whether anybody still wants it.
    fn is_wanted(&self) -> bool {
        self.owner.strong_count() > 0
    }

    /// Whether nothing has changed in the watched group, by commands of this module.
    pub(super) fn is_unchanged(&self) -> bool {
        self.watched.is_some()
    }

    /// The count of a group is about to change, or something else in it; what it is now.
    fn before(&mut self, id: &[u8], count: u64) {
        if !self.groups.contains_key(id) {
            self.groups.insert(id.into(), count);
        }
        if self.watched.as_deref() == Some(id) {
            self.watched = None;
        }
    }
}
