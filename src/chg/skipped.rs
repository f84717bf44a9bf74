//! Paused groups at the head of the queues, which keep their place: a search continues behind them and never
//! reads them twice.

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
        // The server does not tell -0 from 0.
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

/// Where a group stands.
pub(super) enum Position {
    /// In `chg_wait`, with this score.
    Wait(f64),
    /// Not in `chg_wait`.
    Elsewhere,
}

/// How far a search has come in both queues.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// Hashes of the ids at the head of `chg_ready`, one for each entry that is skipped.
    ready: Vec<u64>,
    /// All hashes that were ever in `ready`.
    hashes: HashSet<u64>,
    /// Positions in `ready` of groups that changed.
    ready_again: BTreeSet<u64>,
    /// Number of groups in `chg_wait` up to and including `cursor`.
    wait: u64,
    /// The last group in `chg_wait` that is skipped.
    cursor: Option<Place>,
    /// Groups up to `cursor` that changed.
    wait_again: BTreeSet<Place>,
    /// When URIs of executions that are not paused come due in groups that are skipped.
    later: BTreeSet<(Millis, Id)>,
}

impl Walk {
    /// The first position in `chg_ready` to look at.
    pub(super) fn ready(&self) -> u64 {
        let changed = self.ready_again.first().copied();
        changed.unwrap_or_else(|| self.end_of_ready())
    }

    /// The first position in `chg_ready` behind all that are skipped.
    pub(super) fn end_of_ready(&self) -> u64 {
        self.ready.len() as u64
    }

    /// The first rank in `chg_wait` behind all that are skipped.
    pub(super) fn end_of_wait(&self) -> u64 {
        self.wait
    }

    /// The first group of `chg_wait` that changed since it was skipped.
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

    /// Skips a group of `chg_wait`: one that changed, or the first one behind those that are skipped.
    pub(super) fn skip_wait(&mut self, place: Place) {
        self.wait_again.remove(&place);
        if !self.covers(&place) {
            self.wait += 1;
            self.cursor = Some(place);
        }
    }

    /// Returns to a group of `chg_ready` that is skipped.
    pub(super) fn return_to_ready(&mut self, at: u64) {
        self.ready_again.insert(at);
    }

    /// Looks at a group again when a URI of it comes due.
    pub(super) fn look_at_times(&mut self, due: Option<Millis>, id: &[u8]) {
        let id = due.map(|due| (due, Id::from_slice(id)));
        self.later.extend(id);
    }

    /// The next group whose URI has come due.
    pub(super) fn come_due(&mut self, now: Millis) -> Option<Id> {
        if self.later.first()?.0 > now {
            return None;
        }
        self.later.pop_first().map(|(_, id)| id)
    }

    /// Looks again at a group that may be skipped.
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

    /// When the first URI comes due for which a skipped group is to be looked at again.
    pub(super) fn wake_at(&self) -> Option<Millis> {
        self.later.first().map(|(due, _)| *due)
    }

    /// Whether a place in `chg_wait` is not behind the cursor.
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

/// The walk of all searches, and that of a job which prepares the next one.
#[derive(Debug, Default)]
pub(super) struct Skipped {
    walk: Walk,
    ahead: Option<Walk>,
}

impl Skipped {
    /// The walk of searches.
    pub(super) fn walk(&mut self) -> &mut Walk {
        &mut self.walk
    }

    /// Takes out the walk that is prepared, unless others wrote to the queues since it began.
    pub(super) fn take_ahead(&mut self) -> Option<Walk> {
        self.ahead.take()
    }

    /// Puts back the walk that is prepared.
    pub(super) fn put_ahead(&mut self, ahead: Walk) {
        self.ahead = Some(ahead);
    }

    /// Whether a walk is prepared.
    pub(super) fn is_prepared(&self) -> bool {
        self.ahead.is_some()
    }

    /// Begins to prepare a walk.
    pub(super) fn begin(&mut self) {
        self.ahead = Some(Walk::default());
    }

    /// Searches continue with the walk that was prepared; from the heads of the queues where there is none.
    pub(super) fn install(&mut self) {
        self.walk = self.ahead.take().unwrap_or_default();
    }

    /// Forgets a walk that was prepared.
    pub(super) fn end(&mut self) {
        self.ahead = None;
    }

    /// Whether no group is skipped, so that changes need not be told.
    pub(super) fn is_empty(&self) -> bool {
        self.ahead.is_none() && self.walk.is_empty()
    }

    /// A group left this position of `chg_ready`.
    pub(super) fn left_ready(&mut self, at: u64) {
        self.walks().for_each(|walk| walk.left_ready(at));
    }

    /// A group left `chg_wait`.
    pub(super) fn left_wait(&mut self, place: &Place) {
        self.walks().for_each(|walk| walk.left_wait(place));
    }

    /// A group entered `chg_wait`.
    pub(super) fn entered_wait(&mut self, place: &Place) {
        self.walks().for_each(|walk| walk.entered_wait(place));
    }

    /// A group changed.
    pub(super) fn changed(&mut self, id: &[u8], position: &Position) {
        self.walks().for_each(|walk| walk.look_again(id, position));
    }

    /// A plain client changed a group.
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
