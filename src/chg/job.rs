//! Long work in slices, as for the dedupe family: between steps anything may happen, so every step
//! leaves the frontier whole.

use crawlspace_host::keyspace::Batch;
pub use crawlspace_host::slices::{Step, Time};

use super::error::Result;
use super::frontier::Frontier;
use super::keys::{GROUP, OF, URIS};
use super::store::Store;

/// Work on one frontier, done in slices.
pub trait Job<K: Store> {
    /// Works until done or out of time. At least a little is done at each step.
    ///
    /// # Errors
    /// What ends the job; what was done stays.
    fn step(&mut self, frontier: &mut Frontier<K>, ks: &mut K, time: Time<'_>) -> Result<Step>;
}

/// A walk over the keys of a frontier that exist for many things: each that is there from the beginning
/// to the end is given, and may be given again. Groups are given for their hash and for their kept URIs.
pub(super) struct Walk<K: Store> {
    prefix: Box<[u8]>,
    cursor: K::Cursor,
    batch: Batch,
    next: usize,
    done: bool,
}

impl<K: Store> Walk<K> {
    pub(super) fn new(frontier: &Frontier<K>, ks: &mut K) -> Walk<K> {
        Walk {
            prefix: frontier.prefix.clone(),
            cursor: ks.cursor(),
            batch: Batch::default(),
            next: 0,
            done: false,
        }
    }

    /// What comes next. Looks at some keys of the database at a time, and asks `time` in between.
    pub(super) fn next(&mut self, ks: &mut K, time: Time<'_>) -> WalkStep {
        loop {
            while self.next < self.batch.len() {
                let name = &self.batch.get(self.next).0[self.prefix.len()..];
                self.next += 1;
                let group = name.strip_prefix(GROUP).or(name.strip_prefix(URIS));
                if let Some(id) = group.filter(|id| !id.is_empty()) {
                    return WalkStep::Group(id.to_vec());
                }
                if let Some(execution) = name.strip_prefix(OF) {
                    return WalkStep::List(execution.to_vec());
                }
            }
            if self.done {
                return WalkStep::End;
            }
            self.batch.clear();
            self.next = 0;
            self.done = !ks.keys_scan(&self.prefix, &mut self.cursor, &mut self.batch);
            if !time() {
                return WalkStep::Later;
            }
        }
    }
}

/// What a walk came to.
pub(super) enum WalkStep {
    /// A group.
    Group(Vec<u8>),
    /// The list of the groups of an execution.
    List(Vec<u8>),
    /// Time is up.
    Later,
    /// There are no more.
    End,
}
