//! Long work in slices, as for the dedupe family: between steps anything may happen, so every step
//! leaves the frontier whole.

use crate::keyspace::Batch;
pub use crate::slices::{Step, Time};

use super::error::Result;
use super::frontier::Frontier;
use super::keys::GROUP;
use super::store::Store;

/// Work on one frontier, done in slices.
pub trait Job<K: Store> {
    /// Works until done or out of time. At least a little is done at each step.
    fn step(&mut self, frontier: &mut Frontier<K>, ks: &mut K, time: Time<'_>) -> Result<Step>;
}

/// A walk over all groups of a frontier: each that is there from the beginning to the end is given,
/// and may be given again.
pub(super) struct Groups<K: Store> {
    prefix: Vec<u8>,
    cursor: K::Cursor,
    batch: Batch,
    next: usize,
    done: bool,
}

impl<K: Store> Groups<K> {
    pub(super) fn new(frontier: &Frontier<K>, ks: &mut K) -> Groups<K> {
        Groups {
            prefix: [&frontier.prefix[..], GROUP].concat(),
            cursor: ks.cursor(),
            batch: Batch::default(),
            next: 0,
            done: false,
        }
    }

    /// The id of the next group; `None` at the end. Looks at some keys of the database at a time,
    /// and asks `time` in between.
    pub(super) fn next(&mut self, ks: &mut K, time: Time<'_>) -> Walked {
        while self.next >= self.batch.len() {
            if self.done {
                return Walked::End;
            }
            self.batch.clear();
            self.next = 0;
            self.done = !ks.keys_scan(&self.prefix, &mut self.cursor, &mut self.batch);
            if self.batch.is_empty() && !time() {
                return Walked::Later;
            }
        }
        let id = self.batch.get(self.next).0[self.prefix.len()..].to_vec();
        self.next += 1;
        Walked::Group(id)
    }
}

/// What a walk came to.
pub(super) enum Walked {
    /// A group.
    Group(Vec<u8>),
    /// Time is up.
    Later,
    /// There are no more.
    End,
}
