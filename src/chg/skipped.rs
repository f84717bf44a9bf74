//! Paused groups at the heads of the queues, which searches skip. A skipped group keeps its
//! position. Searches read each of these groups only once, and continue after them.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::group::Id;
use super::time::Millis;

/// A position in `chg_wait`, in the order of the server: by score, then by id.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub score: f64,
    pub id: Id,
}

impl Place {
    pub(super) fn new(score: f64, id: &[u8]) -> Place {
        // The server treats -0 and 0 as equal.
        let (score, id) = (score + 0.0, Id::from_slice(id));
        Place { score, id }
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Place) -> Ordering {
        let scores = self.score.total_cmp(&other.score);
        scores.then_with(|| self.id.cmp(&other.id))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Place) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Place) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Place {}

/// The position of a group, with the data that searches need.
pub(super) enum Position {
    /// Score in `chg_wait`.
    Wait(f64),
    /// Not in `chg_wait`.
    Elsewhere,
}

/// The progress of searches in both queues.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// Hashes of the ids at the head of `chg_ready`, one per skipped entry.
    ready: Vec<u64>,
    /// All hashes that `ready` contains or has contained.
    hashes: HashSet<u64>,
    /// Positions in `ready` whose groups have changed.
    ready_again: BTreeSet<u64>,
    /// Number of groups in `chg_wait` up to and including `cursor`.
    wait: u64,
    /// The last skipped group in `chg_wait`.
    cursor: Option<Place>,
    /// Groups up to `cursor` that have changed.
    wait_again: BTreeSet<Place>,
    /// Due times of those URIs in skipped groups whose executions are not paused.
    later: BTreeSet<(Millis, Id)>,
}

impl Walk {
    /// Returns the first position in `chg_ready` that a search must examine.
    pub(super) fn ready(&self) -> u64 {
        let changed = self.ready_again.first().copied();
        changed.unwrap_or_else(|| self.end_of_ready())
    }

    /// Returns the first position in `chg_ready` after all skipped groups.
    pub(super) fn end_of_ready(&self) -> u64 {
        self.ready.len() as u64
    }

    /// Returns the rank of the first group in `chg_wait` after all skipped groups.
    pub(super) fn end_of_wait(&self) -> u64 {
        self.wait
    }

    /// Returns the positions in `chg_ready` of groups that have changed since they were skipped.
    pub(super) fn changed_in_ready(&self) -> impl Iterator<Item = u64> {
        self.ready_again.iter().copied()
    }

    /// Returns the groups in `chg_wait` that have changed since they were skipped.
    pub(super) fn all_changed_in_wait(&self) -> impl Iterator<Item = &Place> {
        self.wait_again.iter()
    }

    /// Returns the first group in `chg_wait` that has changed since it was skipped.
    pub(super) fn changed_in_wait(&self) -> Option<&Place> {
        self.wait_again.first()
    }

    /// Skips the group at a position of `chg_ready`.
    pub(super) fn skip_ready(&mut self, at: u64, id: &[u8]) {
        self.ready_again.remove(&at);
        if at == self.end_of_ready() {
            let hash = hash(id);
            self.hashes.insert(hash);
            self.ready.push(hash);
        }
    }

    /// Skips a group of `chg_wait`, which must have changed or be the first group after the skipped
    /// groups.
    pub(super) fn skip_wait(&mut self, place: Place) {
        self.wait_again.remove(&place);
        if !self.covers(&place) {
            self.wait += 1;
            self.cursor = Some(place);
        }
    }

    /// Makes searches examine a skipped group of `chg_ready` again.
    pub(super) fn return_to_ready(&mut self, at: u64) {
        self.ready_again.insert(at);
    }

    /// Makes searches examine a group again when one of its URIs becomes due.
    pub(super) fn look_at_times(&mut self, due: Option<Millis>, id: &[u8]) {
        let id = due.map(|due| (due, Id::from_slice(id)));
        self.later.extend(id);
    }

    /// Returns the next group with a URI that has become due.
    pub(super) fn come_due(&mut self, now: Millis) -> Option<Id> {
        if self.later.first()?.0 > now {
            return None;
        }
        self.later.pop_first().map(|(_, id)| id)
    }

    /// Makes searches examine a group again, if it is skipped.
    pub(super) fn look_again(&mut self, id: &[u8], position: &Position) {
        match position {
            Position::Wait(score) => {
                let place = Place::new(*score, id);
                if self.covers(&place) {
                    self.wait_again.insert(place);
                }
            }
            Position::Elsewhere if self.ready.is_empty() => {}
            Position::Elsewhere => {
                let hash = hash(id);
                if self.hashes.contains(&hash) {
                    let here = (0..).zip(&self.ready).filter(|(_, other)| **other == hash);
                    self.ready_again.extend(here.map(|(at, _)| at));
                }
            }
        }
    }

    /// Returns the times at which URIs of skipped groups become due, with the groups.
    pub(super) fn times(&self) -> impl Iterator<Item = &(Millis, Id)> {
        self.later.iter()
    }

    /// Returns the time at which the next URI of a skipped group becomes due.
    pub(super) fn wake_at(&self) -> Option<Millis> {
        self.later.first().map(|(due, _)| *due)
    }

    /// Returns true if a position in `chg_wait` is at or before the cursor.
    fn covers(&self, place: &Place) -> bool {
        self.cursor.as_ref().is_some_and(|cursor| place <= cursor)
    }

    fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.cursor.is_none() && self.later.is_empty()
    }

    fn left_ready(&mut self, at: u64) {
        if at >= self.end_of_ready() {
            return;
        }
        self.ready.remove(at as usize);
        let moved = self.ready_again.split_off(&at);
        let behind = moved.into_iter().filter(|&other| other > at);
        self.ready_again.extend(behind.map(|other| other - 1));
    }

    fn left_wait(&mut self, place: &Place) {
        if self.covers(place) {
            self.wait_again.remove(place);
            self.wait = self.wait.saturating_sub(1);
            if self.wait == 0 {
                self.cursor = None;
            }
        }
    }

    fn entered_wait(&mut self, place: &Place) {
        if self.covers(place) {
            self.wait += 1;
            self.wait_again.insert(place.clone());
        }
    }
}

fn hash(id: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

/// The walk that all searches share, and a second walk that a job prepares and that replaces the
/// first walk.
#[derive(Debug, Default)]
pub(super) struct Skipped {
    walk: Walk,
    ahead: Option<Walk>,
}

impl Skipped {
    /// Returns the walk of searches.
    pub(super) fn walk(&mut self) -> &mut Walk {
        &mut self.walk
    }

    /// Returns the groups that searches have skipped.
    pub(super) fn seen(&self) -> &Walk {
        &self.walk
    }

    /// Removes the walk in preparation from this value and returns it. Returns `None` if other
    /// clients have written to the queues since the walk began.
    pub(super) fn take_ahead(&mut self) -> Option<Walk> {
        self.ahead.take()
    }

    /// Puts back the walk in preparation.
    pub(super) fn put_ahead(&mut self, ahead: Walk) {
        self.ahead = Some(ahead);
    }

    /// Returns true if a walk is being prepared.
    pub(super) fn is_prepared(&self) -> bool {
        self.ahead.is_some()
    }

    /// Begins to prepare a walk.
    pub(super) fn begin(&mut self) {
        self.ahead = Some(Walk::default());
    }

    /// Makes searches use the prepared walk, or start from the heads of the queues if there is
    /// none.
    pub(super) fn install(&mut self) {
        self.walk = self.ahead.take().unwrap_or_default();
    }

    /// Discards the walk in preparation.
    pub(super) fn end(&mut self) {
        self.ahead = None;
    }

    /// Returns true if no group is skipped. Changes then need not be recorded.
    pub(super) fn is_empty(&self) -> bool {
        self.ahead.is_none() && self.walk.is_empty()
    }

    /// Records that a group has left this position of `chg_ready`.
    pub(super) fn left_ready(&mut self, at: u64) {
        self.walks().for_each(|walk| walk.left_ready(at));
    }

    /// Records that a group has left `chg_wait`.
    pub(super) fn left_wait(&mut self, place: &Place) {
        self.walks().for_each(|walk| walk.left_wait(place));
    }

    /// Records that a group has entered `chg_wait`.
    pub(super) fn entered_wait(&mut self, place: &Place) {
        self.walks().for_each(|walk| walk.entered_wait(place));
    }

    /// Records that a group has changed.
    pub(super) fn changed(&mut self, id: &[u8], position: &Position) {
        self.walks().for_each(|walk| walk.look_again(id, position));
    }

    /// Records that a plain client has changed a group.
    pub(super) fn changed_by_others(&mut self, id: &[u8]) {
        if !self.is_empty() {
            self.walks()
                .for_each(|walk| walk.look_at_times(Some(0), id));
        }
    }

    fn walks(&mut self) -> impl Iterator<Item = &mut Walk> {
        [&mut self.walk].into_iter().chain(&mut self.ahead)
    }
}
