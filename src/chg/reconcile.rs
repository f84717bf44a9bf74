//! Determines which counts of a frontier are plausible. Plain clients may write any number to a
//! field, and the sum of such numbers may exceed the range of a key.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The execution to which queued URIs of unknown origin are attributed.
const UNKNOWN: &[u8] = b"unknown";

/// Maximum number of URIs that a group may count without storing them.
const IN_A_GROUP: u64 = 1 << 40;
/// Maximum number of such URIs over all groups. Below this limit, the total, including all stored
/// URIs, fits into its key.
const IN_ALL: u64 = 1 << 62;

/// Returns the number of URIs that a group may count without storing them, if other groups already
/// count `counted` such URIs.
pub(super) fn room(counted: u64) -> u64 {
    IN_ALL.saturating_sub(counted).min(IN_A_GROUP)
}

/// The URIs that a group counts without storing them, by execution.
#[derive(Debug, Default)]
pub(super) struct Counted {
    by_count: BTreeSet<(u64, Box<[u8]>)>,
    sum: u128,
}

impl Counted {
    /// Adds an execution, unless it was added before.
    pub(super) fn add(&mut self, execution: &[u8], n: u64) {
        if self.by_count.insert((n, execution.into())) {
            self.sum += u128::from(n);
        }
    }

    /// If the sum of the counts exceeds `room`, removes the largest count and returns it as
    /// implausible.
    pub(super) fn take_absurd(&mut self, room: u64) -> Option<(Box<[u8]>, u64)> {
        if self.sum <= u128::from(room) {
            return None;
        }
        let (n, execution) = self.by_count.pop_last()?;
        self.sum -= u128::from(n);
        Some((execution, n))
    }

    /// Returns the number of URIs. Must be called after all implausible counts were removed.
    pub(super) fn sum(&self) -> u64 {
        u64::try_from(self.sum).unwrap_or(u64::MAX)
    }

    /// Returns the remaining executions with their counts.
    pub(super) fn into_named(self) -> impl Iterator<Item = (Box<[u8]>, u64)> {
        let by_count = self.by_count.into_iter();
        by_count.map(|(n, execution)| (execution, n))
    }
}

/// Returns the correct value of `c` for a group. `uris` is the current value of `c`, `kept` is the
/// number of stored URIs, and `counted` is the number of URIs counted by execution. Also returns
/// true if the current value is plausible.
pub(super) fn right_count(uris: u64, kept: u64, counted: u64, room: u64) -> (u64, bool) {
    let reconcile = uris.saturating_sub(kept) <= room;
    let named = kept + counted;
    (if reconcile { uris.max(named) } else { named }, reconcile)
}

/// The number of queued URIs of an execution, from different sources.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Has {
    /// The value in `EIDC`.
    pub found: u64,
    /// The sum over all groups that count URIs of the execution.
    pub named: u64,
    /// The correct value for `EIDC`.
    right: u64,
}

impl Has {
    /// Returns the correct value for `EIDC` if it differs from the current value.
    pub(super) fn wrong(&self) -> Option<u64> {
        (self.right != self.found).then_some(self.right)
    }
}

/// Executions by name.
pub(super) type Table = BTreeMap<Box<[u8]>, Has>;

/// Sort key that determines from which executions a surplus is subtracted first. The criteria, in
/// order: impossible values, executions without URIs in any group, the excess over the URIs in
/// groups (largest first), and the name.
type Surplus = (bool, bool, Reverse<u64>, Box<[u8]>);

/// Determines the correct values of `EIDC` when groups have `sum` URIs, some of them attributed to
/// executions. If the sum of `EIDC` is higher, subtracts the surplus in this order: from executions
/// with more URIs than all groups together, from executions without URIs in any group, and from all
/// other executions, largest excess first. Pauses between executions.
pub(super) async fn share_out(table: &mut Table, sum: u64, mut pause: impl AsyncFnMut()) {
    let sum = u128::from(sum);
    let mut in_all = 0;
    for has in table.values_mut() {
        has.right = has.found.max(has.named);
        in_all += u128::from(has.right);
        pause().await;
    }
    if in_all <= sum {
        if in_all < sum {
            let unknown = table.entry(UNKNOWN.into()).or_default();
            unknown.right += u64::try_from(sum - in_all).expect("no more than the sum");
        }
        return;
    }
    let mut order: BTreeSet<Surplus> = BTreeSet::new();
    for (execution, has) in table.iter() {
        let can_be = u128::from(has.right) <= sum;
        let spare = Reverse(has.right - has.named);
        order.insert((can_be, has.named > 0, spare, execution.clone()));
        pause().await;
    }
    for (.., Reverse(spare), execution) in order {
        let taken = u64::try_from(in_all.saturating_sub(sum)).map_or(spare, |n| spare.min(n));
        let has = table.get_mut(&execution).expect("it is in the table");
        has.right -= taken;
        in_all -= u128::from(taken);
        pause().await;
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    const MAX: u64 = i64::MAX as u64;

    type Named = Vec<(Box<[u8]>, u64)>;

    fn counts(counts: &[(&str, u64)]) -> Named {
        let counts = counts.iter();
        counts.map(|(id, n)| (id.as_bytes().into(), *n)).collect()
    }

    /// Returns the correct count, true if the current count is plausible, the implausible counts,
    /// and the plausible counts.
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
        let left = counted.into_named().collect();
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
        let mut context = Context::from_waker(Waker::noop());
        let polled = pin!(share_out(&mut table, sum, async || ())).poll(&mut context);
        assert_eq!(polled, Poll::Ready(()));
        let table = table.into_iter();
        let shares = table.map(|(id, has)| (id, has.wrong().unwrap_or(has.found)));
        shares.collect()
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
        assert_eq!(of("a"), Some(10), "a plausible count is left alone");
        assert!(
            of("d") >= Some(2),
            "URIs that groups name are not subtracted"
        );
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
