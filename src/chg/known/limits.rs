//! Limits of groups by the number of their done URLs, and the counts of URLs by group on which these limits
//! are based.
//!
//! Records contain only a 32-bit hash of their group, so groups with the same hash share a count. A count is exact
//! from the time at which its limit is set. Later changes of counts are neither saved nor replicated, because each
//! server derives them from the same records.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Weak};

use smallvec::SmallVec;

use super::record::{Known, State};

/// Number of URLs in each state.
pub type Counts = [u64; 4];

/// Counts by execution and hash of the group.
pub type Tallies = BTreeMap<Box<[u8]>, BTreeMap<u32, Counts>>;

/// Maximum number of recorded groups that reached a limit, or fell below a limit again.
const MAX_TURNED: usize = 1024;

/// All limits of a frontier.
#[derive(Clone, Default)]
pub struct Limits {
    groups: BTreeMap<Box<[u8]>, Limited>,
    tallies: BTreeMap<Box<[u8]>, BTreeMap<u32, Tally>>,
    /// Groups that reached a limit or fell below it again since the last search.
    turned: Turned,
    /// Groups that reached a limit or fell below it again since the agendas were last updated.
    turned_for_agendas: Turned,
    recounts: Recounts,
}

/// The limits of one group.
#[derive(Clone, Debug)]
struct Limited {
    /// Hash of the id of the group.
    hash: u32,
    /// Maximum number of done URLs, by execution.
    most: BTreeMap<Box<[u8]>, u64>,
}

/// The URLs of an execution in groups with the same hash.
#[derive(Clone, Debug, Default)]
struct Tally {
    counts: Counts,
    /// Groups with a limit that needs this count.
    groups: SmallVec<[Box<[u8]>; 1]>,
}

/// Groups that reached a limit or fell below it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turned {
    /// These groups.
    Some(Vec<Box<[u8]>>),
    /// More groups than can be recorded individually.
    Many,
}

impl Default for Turned {
    fn default() -> Turned {
        Turned::Some(Vec::new())
    }
}

impl Turned {
    fn add(&mut self, id: &[u8]) {
        match self {
            Turned::Some(ids) if ids.len() < MAX_TURNED => ids.push(id.into()),
            _ => *self = Turned::Many,
        }
    }
}

/// Executions that have reached their limit in a group.
#[derive(Debug, Default)]
pub struct Reached(SmallVec<[Box<[u8]>; 1]>);

impl Reached {
    /// Returns true if no execution has reached a limit.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if an execution has reached its limit.
    pub fn has(&self, execution: &[u8]) -> bool {
        self.0.iter().any(|reached| **reached == *execution)
    }
}

/// Identifies a recount. The recount ends when this value is dropped.
pub struct Recounting(Arc<()>);

/// Recounts that are in progress.
#[derive(Default)]
struct Recounts(Vec<Recount>);

impl Clone for Recounts {
    /// Returns an empty list, because recounts belong to the jobs of the original.
    fn clone(&self) -> Recounts {
        Recounts::default()
    }
}

struct Recount {
    owner: Weak<()>,
    /// Name of the space.
    space: Box<[u8]>,
    /// Position of the walk over the space; `None` after its end. The walk has already counted URLs at
    /// earlier positions, so changes of these URLs change the counts.
    from: Option<u64>,
    tallies: Tallies,
}

impl Recount {
    fn change(&mut self, execution: &[u8], known: &Known, change: u64) {
        let tallies = self.tallies.get_mut(execution);
        if let Some(counts) = tallies.and_then(|tallies| tallies.get_mut(&known.group)) {
            let count = &mut counts[known.state as usize];
            *count = count.wrapping_add(change);
        }
    }
}

impl Limits {
    /// Returns true if no group has a limit.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns true if nothing is counted.
    pub(super) fn is_off(&self) -> bool {
        self.tallies.is_empty() && self.recounts.0.is_empty()
    }

    /// Returns the executions that have reached their limit in a group.
    pub fn reached(&self, id: &[u8]) -> Reached {
        if self.groups.is_empty() {
            return Reached::default();
        }
        let of = self.of(id);
        let reached = of.filter(|(_, most, counts)| counts[State::Done as usize] >= *most);
        Reached(reached.map(|(execution, ..)| execution.into()).collect())
    }

    /// Returns the limits of a group: execution, maximum number of done URLs, and counts.
    pub fn of(&self, id: &[u8]) -> impl Iterator<Item = (&[u8], u64, Counts)> {
        let limited = self.groups.get(id).into_iter();
        limited.flat_map(|limited| {
            let most = limited.most.iter();
            most.map(|(execution, most)| {
                let counts = self.counts(execution, limited.hash);
                (&**execution, *most, counts.unwrap_or_default())
            })
        })
    }

    /// Returns all limits: execution, group, and maximum number of done URLs.
    pub(in crate::chg) fn all(&self) -> impl Iterator<Item = (&[u8], &[u8], u64)> {
        self.groups.iter().flat_map(|(id, limited)| {
            let most = limited.most.iter();
            most.map(|(execution, most)| (&**execution, &**id, *most))
        })
    }

    /// Returns the counts of an execution in groups with a hash, if a limit needs them.
    pub fn counts(&self, execution: &[u8], hash: u32) -> Option<Counts> {
        let tally = self.tallies.get(execution)?.get(&hash)?;
        Some(tally.counts)
    }

    /// Returns the first execution with counts that sorts after the given execution.
    pub(in crate::chg) fn counted_after(&self, after: Option<&[u8]>) -> Option<&[u8]> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = self.tallies.range::<[u8], _>((from, Bound::Unbounded));
        rest.next().map(|(execution, _)| &**execution)
    }

    /// Returns up to `most` hashes of groups for which an execution has counts, starting at the
    /// hash `from`.
    pub(in crate::chg) fn hashes_of(&self, execution: &[u8], from: u32, most: usize) -> Vec<u32> {
        let tallies = self.tallies.get(execution);
        let rest = tallies.map(|tallies| tallies.range(from..));
        let rest = rest.into_iter().flatten();
        rest.take(most).map(|(hash, _)| *hash).collect()
    }

    /// Sets the limit of an execution in a group; 0 removes the limit. A count that no other limit uses starts at
    /// zero.
    pub(in crate::chg) fn set(&mut self, execution: &[u8], (id, hash): (&[u8], u32), most: u64) {
        if most > 0 {
            let new = || Limited {
                hash,
                most: BTreeMap::new(),
            };
            let limited = self.groups.entry(id.into()).or_insert_with(new);
            limited.most.insert(execution.into(), most);
            let tallies = self.tallies.entry(execution.into()).or_default();
            let tally = tallies.entry(hash).or_default();
            if !tally.groups.iter().any(|other| **other == *id) {
                tally.groups.push(id.into());
            }
        } else {
            self.remove(execution, id);
        }
        self.turned.add(id);
        self.turned_for_agendas.add(id);
    }

    fn remove(&mut self, execution: &[u8], id: &[u8]) {
        let Some(limited) = self.groups.get_mut(id) else {
            return;
        };
        if limited.most.remove(execution).is_none() {
            return;
        }
        let hash = limited.hash;
        if limited.most.is_empty() {
            self.groups.remove(id);
        }
        let Some(tallies) = self.tallies.get_mut(execution) else {
            return;
        };
        if let Some(tally) = tallies.get_mut(&hash) {
            tally.groups.retain(|other| **other != *id);
            if tally.groups.is_empty() {
                tallies.remove(&hash);
            }
        }
        if tallies.is_empty() {
            self.tallies.remove(execution);
        }
    }

    /// Replaces the counts of an execution in groups with a hash, if a limit needs them.
    pub(in crate::chg) fn set_counts(&mut self, execution: &[u8], hash: u32, counts: Counts) {
        let tallies = self.tallies.get_mut(execution);
        if let Some(tally) = tallies.and_then(|tallies| tallies.get_mut(&hash)) {
            let before = std::mem::replace(&mut tally.counts, counts);
            self.turn(execution, hash, (before, counts));
        }
    }

    /// Records the groups that reach their limit, or fall below it, because of a change of counts.
    fn turn(&mut self, execution: &[u8], hash: u32, (before, after): (Counts, Counts)) {
        let (before, after) = (before[State::Done as usize], after[State::Done as usize]);
        if before == after {
            return;
        }
        let tallies = self.tallies.get(execution);
        let tally = tallies.and_then(|tallies| tallies.get(&hash));
        for id in tally.into_iter().flat_map(|tally| &tally.groups) {
            let limited = self.groups.get(id);
            let most = limited.and_then(|limited| limited.most.get(execution));
            if most.is_some_and(|most| (before >= *most) != (after >= *most)) {
                self.turned.add(id);
                self.turned_for_agendas.add(id);
            }
        }
    }

    /// Records that the record of a URL changed. `position` is the position of the URL in a walk over its
    /// space. Both records contain the execution that discovered the URL.
    pub(super) fn change(
        &mut self,
        space: &[u8],
        position: u64,
        [before, after]: [Option<(&[u8], Known)>; 2],
    ) {
        for recount in &mut self.recounts.0 {
            let is_passed = recount.from.is_none_or(|from| position < from);
            if is_passed && *recount.space == *space {
                for (changed, change) in [(before, u64::MAX), (after, 1)] {
                    if let Some((execution, known)) = changed {
                        recount.change(execution, &known, change);
                    }
                }
            }
        }
        let place = |changed: Option<(&[u8], Known)>| {
            changed.map(|(execution, known)| (execution.as_ptr(), known.group, known.state))
        };
        if place(before) == place(after) {
            return;
        }
        for (changed, change) in [(before, u64::MAX), (after, 1)] {
            let Some((execution, known)) = changed else {
                continue;
            };
            if let Some(mut counts) = self.counts(execution, known.group) {
                let count = &mut counts[known.state as usize];
                *count = count.wrapping_add(change);
                self.set_counts(execution, known.group, counts);
            }
        }
    }

    /// Begins to count the URLs of a space. `tallies` contains the executions and the hashes of
    /// groups for which URLs are counted.
    pub(in crate::chg) fn begin_recount(&mut self, space: &[u8], tallies: Tallies) -> Recounting {
        self.recounts
            .0
            .retain(|recount| recount.owner.strong_count() > 0);
        let recounting = Recounting(Arc::new(()));
        self.recounts.0.push(Recount {
            owner: Arc::downgrade(&recounting.0),
            space: space.into(),
            from: Some(0),
            tallies,
        });
        recounting
    }

    fn recount(&self, of: &Recounting) -> Option<usize> {
        let owner = Arc::downgrade(&of.0);
        let mut recounts = self.recounts.0.iter();
        recounts.position(|recount| recount.owner.ptr_eq(&owner))
    }

    /// Returns the next position of the walk of a recount, or `None` after its end.
    pub(super) fn position(&self, of: &Recounting) -> Option<u64> {
        let at = self.recount(of)?;
        self.recounts.0[at].from
    }

    /// Adds some URLs of the walk, which continues at `next`.
    pub(super) fn recount_some<'a>(
        &mut self,
        of: &Recounting,
        urls: impl Iterator<Item = (&'a [u8], Known)>,
        next: Option<u64>,
    ) {
        if let Some(at) = self.recount(of) {
            let recount = &mut self.recounts.0[at];
            for (execution, known) in urls {
                recount.change(execution, &known, 1);
            }
            recount.from = next;
        }
    }

    /// Returns the current counts of a recount whose walk has ended.
    pub(in crate::chg) fn recounted(
        &self,
        of: &Recounting,
        execution: &[u8],
        hash: u32,
    ) -> Option<Counts> {
        let recount = &self.recounts.0[self.recount(of)?];
        recount.tallies.get(execution)?.get(&hash).copied()
    }

    /// Ends a recount, and returns the counts. Returns `None` if the frontier was replaced since
    /// the recount began.
    pub(in crate::chg) fn end_recount(&mut self, of: &Recounting) -> Option<Tallies> {
        let at = self.recount(of)?;
        Some(self.recounts.0.swap_remove(at).tallies)
    }

    /// Returns the groups that reached a limit or fell below it since the last call.
    pub(in crate::chg) fn take_turned(&mut self) -> Turned {
        std::mem::take(&mut self.turned)
    }

    /// Returns the groups that reached a limit or fell below it since the agendas were last
    /// updated.
    pub(in crate::chg) fn take_turned_for_agendas(&mut self) -> Turned {
        std::mem::take(&mut self.turned_for_agendas)
    }

    /// Returns the approximate memory use in bytes.
    pub(super) fn memory(&self) -> usize {
        self.pieces() * 64
    }

    /// Returns the approximate number of memory blocks.
    pub(super) fn pieces(&self) -> usize {
        let tallies = self.tallies.values().map(BTreeMap::len);
        4 * self.groups.len() + 2 * tallies.sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::space::{Shape, Spaces};
    use super::*;

    const EXECUTIONS: [&[u8]; 2] = [b"x", b"y"];
    const SPACE: &[u8] = b"sall";

    fn spaces() -> Spaces {
        let shape = Shape {
            is_shared: true,
            ..Shape::default()
        };
        let mut spaces = Spaces::default();
        for execution in EXECUTIONS {
            spaces.join(execution, SPACE, shape, [0; 16], None).unwrap();
        }
        spaces
    }

    /// A change of a URL: number of the URL, group, execution, and new state, if the URL becomes
    /// known.
    type Change = (u64, u32, u32, Option<usize>);

    fn change(spaces: &mut Spaces, (url, group, member, state): Change) {
        // The fingerprints of real URLs are distributed evenly.
        let print = url.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        let known = state.map(|state| Known {
            state: State::ALL[state],
            attempts: 0,
            status: None,
            changed: 0,
            group,
            member,
        });
        spaces.set(SPACE, &print, known);
    }

    fn counts_of(spaces: &Spaces, member: u32, group: u32) -> Counts {
        let space = spaces.space(SPACE).unwrap();
        let (mut counts, mut from) = (Counts::default(), Some(0));
        while let Some(at) = from {
            let (urls, next) = space.page(at);
            for (_, known) in urls {
                if (known.member, known.group) == (member, group) {
                    counts[known.state as usize] += 1;
                }
            }
            from = next;
        }
        counts
    }

    fn any_change() -> impl Strategy<Value = Change> {
        (
            0..300_u64,
            0..3_u32,
            0..2_u32,
            proptest::option::weighted(0.8, 0..4_usize),
        )
    }

    proptest! {
        #[test]
        fn counts_include_changes_during_the_walk(
            first in prop::collection::vec(any_change(), 0..400),
            meanwhile in prop::collection::vec(prop::collection::vec(any_change(), 0..30), 0..20),
            last in prop::collection::vec(any_change(), 0..40),
        ) {
            let mut spaces = spaces();
            first.into_iter().for_each(|url| change(&mut spaces, url));
            let one = BTreeMap::from([(1, Counts::default())]);
            let tallies = EXECUTIONS.map(|execution| (execution.into(), one.clone()));
            let recounting = spaces.limits.begin_recount(SPACE, Tallies::from(tallies));
            for changes in meanwhile {
                changes.into_iter().for_each(|url| change(&mut spaces, url));
                spaces.recount_some(&recounting, SPACE);
            }
            while spaces.recount_some(&recounting, SPACE) {}
            last.iter().for_each(|url| change(&mut spaces, *url));
            let counted = spaces.limits.end_recount(&recounting).unwrap();
            for (execution, member) in EXECUTIONS.iter().zip(0..) {
                let counts = counts_of(&spaces, member, 1);
                prop_assert_eq!(counted[*execution][&1], counts);
                // From now on, the limits must keep these counts up to date.
                spaces.limits.set(execution, (b"group", 1), 5);
                spaces.limits.set_counts(execution, 1, counts);
            }
            last.iter().rev().for_each(|url| change(&mut spaces, *url));
            for (execution, member) in EXECUTIONS.iter().zip(0..) {
                let counts = counts_of(&spaces, member, 1);
                prop_assert_eq!(spaces.limits.counts(execution, 1), Some(counts));
                let is_reached = counts[State::Done as usize] >= 5;
                prop_assert_eq!(spaces.limits.reached(b"group").has(execution), is_reached);
            }
        }
    }

    #[test]
    fn groups_turn_when_a_limit_is_reached_and_when_it_no_longer_is() {
        let mut spaces = spaces();
        spaces.limits.set(b"x", (b"group", 1), 2);
        spaces.limits.take_turned();
        let turned = |spaces: &mut Spaces, url, state| {
            change(spaces, (url, 1, 0, state));
            spaces.limits.take_turned() != Turned::default()
        };
        assert!(!turned(&mut spaces, 1, Some(2)));
        assert!(turned(&mut spaces, 2, Some(2)));
        assert!(!turned(&mut spaces, 3, Some(2)));
        assert!(!turned(&mut spaces, 2, Some(0)));
        assert!(turned(&mut spaces, 1, None));
        spaces.limits.set(b"x", (b"group", 1), 0);
        assert!(spaces.limits.is_empty() && spaces.limits.is_off());
    }
}
