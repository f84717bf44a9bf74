//! Which counts can be believed. Plain clients may write any number that a field can hold, and sums of
//! such numbers fit into no key.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// The execution to which queued URIs are put down of which nobody knows whose they are.
const UNKNOWN: &[u8] = b"unknown";

/// How many URIs a group can count that the frontier does not keep.
const IN_A_GROUP: u64 = 1 << 40;
/// How many all groups can: so few that the total fits into its key with whatever is kept.
const IN_ALL: u64 = 1 << 62;

/// How many executions are looked at together.
const PAGE: usize = 64;

/// How many more URIs a group can count that are not kept, when others count so many.
pub(super) fn room(counted: u64) -> u64 {
    IN_ALL.saturating_sub(counted).min(IN_A_GROUP)
}

/// The URIs that a group counts for executions without keeping them.
#[derive(Debug, Default)]
pub(super) struct Counted {
    by_count: BTreeSet<(u64, Box<[u8]>)>,
    sum: u128,
}

impl Counted {
    /// Takes in an execution, unless it was met before.
    pub(super) fn add(&mut self, execution: &[u8], n: u64) {
        if self.by_count.insert((n, execution.into())) {
            self.sum += u128::from(n);
        }
    }

    /// Takes out a count that is absurd: of counts that together come to more than `room` the largest.
    pub(super) fn take_absurd(&mut self, room: u64) -> Option<(Box<[u8]>, u64)> {
        if self.sum <= u128::from(room) {
            return None;
        }
        let (n, execution) = self.by_count.pop_last()?;
        self.sum -= u128::from(n);
        Some((execution, n))
    }

    /// How many URIs, when nothing absurd is left.
    pub(super) fn sum(&self) -> u64 {
        u64::try_from(self.sum).unwrap_or(u64::MAX)
    }

    /// Takes out any execution.
    pub(super) fn take(&mut self) -> Option<(Box<[u8]>, u64)> {
        self.by_count
            .pop_first()
            .map(|(n, execution)| (execution, n))
    }
}

/// What `c` of a group has to be, that says `uris`, when `kept` are kept for it and `counted` are counted
/// by name; and whether what it says can be believed.
pub(super) fn right_count(uris: u64, kept: u64, counted: u64, room: u64) -> (u64, bool) {
    let reconcile = uris.saturating_sub(kept) <= room;
    let named = kept + counted;
    (if reconcile { uris.max(named) } else { named }, reconcile)
}

/// What is known of the queued URIs of an execution.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Has {
    /// What `EIDC` says.
    pub found: u64,
    /// What groups have by name.
    pub named: u64,
    /// What `EIDC` has to say.
    right: u64,
}

/// Executions by name.
pub(super) type Table = BTreeMap<Box<[u8]>, Has>;

/// Whether an execution can have what it says, whether groups name it, how much it has more than that,
/// and its name: what a surplus is taken from first comes first.
type Surplus = (bool, bool, Reverse<u64>, Box<[u8]>);

/// What `EIDC` has to say, when groups have `sum` URIs, some of them by name. A surplus is taken
/// from executions that have more than all groups, then from those that no group names, then from
/// others, and of these first from where it is most.
pub(super) struct Shares {
    stage: Stage,
    /// The execution that was looked at last.
    at: Option<Box<[u8]>>,
    sum: u128,
    in_all: u128,
    order: BTreeSet<Surplus>,
}

enum Stage {
    Adding,
    Ordering,
    Taking,
    Writing,
}

impl Shares {
    /// Of this many URIs.
    pub(super) fn of(sum: u64) -> Shares {
        Shares {
            stage: Stage::Adding,
            at: None,
            sum: sum.into(),
            in_all: 0,
            order: BTreeSet::new(),
        }
    }

    /// A little more of it; what came out for executions whose `EIDC` is not right goes to `wrong`.
    /// False at the end.
    pub(super) fn step(&mut self, table: &mut Table, wrong: &mut Vec<(Box<[u8]>, u64)>) -> bool {
        if let Stage::Taking = self.stage {
            self.take(table);
            return true;
        }
        let from = match &self.at {
            Some(at) => Bound::Excluded(&**at),
            None => Bound::Unbounded,
        };
        let mut last = None;
        for (execution, has) in table
            .range_mut::<[u8], _>((from, Bound::Unbounded))
            .take(PAGE)
        {
            match self.stage {
                Stage::Adding => {
                    has.right = has.found.max(has.named);
                    self.in_all += u128::from(has.right);
                }
                Stage::Ordering => {
                    let can_be = u128::from(has.right) <= self.sum;
                    let spare = Reverse(has.right - has.named);
                    let named = has.named > 0;
                    self.order.insert((can_be, named, spare, execution.clone()));
                }
                Stage::Writing if has.right != has.found => {
                    wrong.push((execution.clone(), has.right));
                }
                Stage::Taking | Stage::Writing => {}
            }
            last = Some(execution.clone());
        }
        if last.is_some() {
            self.at = last;
            return true;
        }
        self.at = None;
        self.stage = match self.stage {
            Stage::Adding if self.in_all > self.sum => Stage::Ordering,
            Stage::Adding => {
                let lacks = self.sum - self.in_all;
                if lacks > 0 {
                    let unknown = table.entry(UNKNOWN.into()).or_default();
                    unknown.right += u64::try_from(lacks).expect("no more than the sum");
                }
                Stage::Writing
            }
            Stage::Ordering => Stage::Taking,
            Stage::Taking | Stage::Writing => return false,
        };
        true
    }

    /// Takes the surplus from the executions in order, from some of them.
    fn take(&mut self, table: &mut Table) {
        for _ in 0..PAGE {
            let surplus = self.in_all.saturating_sub(self.sum);
            let next = (surplus > 0).then(|| self.order.pop_first()).flatten();
            let Some((.., Reverse(spare), execution)) = next else {
                self.stage = Stage::Writing;
                return;
            };
            let taken = u64::try_from(surplus).map_or(spare, |surplus| spare.min(surplus));
            if let Some(has) = table.get_mut(&execution) {
                has.right -= taken;
            }
            self.in_all -= u128::from(taken);
        }
    }

    /// Frees some of its memory; false when that is all.
    pub(super) fn free(&mut self) -> bool {
        self.order.pop_first().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = i64::MAX as u64;

    type Named = Vec<(Box<[u8]>, u64)>;

    fn counts(counts: &[(&str, u64)]) -> Named {
        let counts = counts.iter();
        counts.map(|(id, n)| (id.as_bytes().into(), *n)).collect()
    }

    /// What the count has to be, whether it is believed, absurd counts, and what is left.
    fn believed(
        uris: u64,
        kept: u64,
        each: &[(&str, u64)],
        room: u64,
    ) -> ((u64, bool), Named, Named) {
        let mut counted = Counted::default();
        for (id, n) in each {
            counted.add(id.as_bytes(), *n);
            counted.add(id.as_bytes(), *n);
        }
        let mut absurd: Named = std::iter::from_fn(|| counted.take_absurd(room)).collect();
        absurd.reverse();
        let right = right_count(uris, kept, counted.sum(), room);
        let left = std::iter::from_fn(|| counted.take()).collect();
        (right, absurd, left)
    }

    fn shared(found: &[(&str, u64)], named: &[(&str, u64)], sum: u64) -> Named {
        let mut table = Table::new();
        for (id, n) in found {
            table.entry(id.as_bytes().into()).or_default().found = *n;
        }
        for (id, n) in named {
            table.entry(id.as_bytes().into()).or_default().named = *n;
        }
        let mut shares = Shares::of(sum);
        let mut wrong = Vec::new();
        while shares.step(&mut table, &mut wrong) {}
        for (id, right) in wrong {
            table.get_mut(&id).expect("it is there").found = right;
        }
        table.into_iter().map(|(id, has)| (id, has.found)).collect()
    }

    #[test]
    fn what_can_be_is_believed() {
        let (right, absurd, left) = believed(9, 2, &[("a", 3), ("b", 4)], 7);
        assert_eq!(right, (9, true));
        assert!(absurd.is_empty());
        assert_eq!(left.len(), 2);
    }

    #[test]
    fn a_count_below_what_is_queued_by_name_is_raised() {
        assert_eq!(believed(1, 2, &[("a", 3)], 10).0, (5, true));
    }

    #[test]
    fn an_absurd_count_comes_to_what_is_queued_by_name() {
        assert_eq!(believed(MAX, 2, &[("a", 3)], 10).0, (5, false));
        assert_eq!(believed(12, 2, &[], 10).0, (12, true));
        assert_eq!(believed(13, 2, &[], 10).0, (2, false));
    }

    #[test]
    fn absurd_counts_of_executions_go_and_the_others_stay() {
        let many = [("a", MAX), ("b", 3), ("c", MAX), ("d", 7), ("e", MAX)];
        let (right, absurd, left) = believed(0, 2, &many, 10);
        assert_eq!(right, (12, true));
        assert_eq!(absurd, counts(&[("a", MAX), ("c", MAX), ("e", MAX)]));
        assert_eq!(left, counts(&[("b", 3), ("d", 7)]));
    }

    #[test]
    fn without_room_only_what_is_kept_is_believed() {
        let (right, absurd, left) = believed(5, 2, &[("a", 3), ("z", 0)], 0);
        assert_eq!(right, (2, false));
        assert_eq!((absurd, left), (counts(&[("a", 3)]), counts(&[("z", 0)])));
    }

    #[test]
    fn shares_come_to_the_sum_however_large_the_numbers_were() {
        let found = [("a", 10), ("b", MAX), ("c", MAX), ("d", MAX)];
        let right = shared(&found, &[("d", 2)], 20);
        let sum: u64 = right.iter().map(|(_, n)| n).sum();
        assert_eq!(sum, 20);
        let of = |id: &str| {
            right
                .iter()
                .find(|(e, _)| **e == *id.as_bytes())
                .map(|e| e.1)
        };
        assert_eq!(of("a"), Some(10), "what could be is left alone");
        assert!(of("d") >= Some(2), "what groups name is not taken");
    }

    #[test]
    fn a_surplus_is_taken_first_from_executions_that_no_group_names() {
        let right = shared(&[("a", 5), ("b", 4)], &[("a", 1)], 6);
        assert_eq!(right, counts(&[("a", 5), ("b", 1)]));
        let right = shared(&[("a", 5), ("b", 4)], &[("a", 1)], 2);
        assert_eq!(right, counts(&[("a", 2), ("b", 0)]));
        let names: Vec<String> = (0..1000).map(|n| format!("{n:04}")).collect();
        let found: Vec<(&str, u64)> = names.iter().map(|name| (&name[..], 2)).collect();
        let right = shared(&found, &found[..10], 400);
        let sum: u64 = right.iter().map(|(_, n)| n).sum();
        assert_eq!((sum, right.len()), (400, 1000), "more than one page");
        assert!(right[..10].iter().all(|(_, n)| *n == 2));
    }

    #[test]
    fn what_nobody_accounts_for_is_of_an_unknown_execution() {
        let right = shared(&[("a", 5)], &[("b", 1)], 9);
        assert_eq!(right, counts(&[("a", 5), ("b", 1), ("unknown", 3)]));
    }
}
