//! Which counts can be believed. Plain clients may write any number that a field can hold, and sums of
//! such numbers fit into no key.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

/// The execution to which queued URIs are put down of which nobody knows whose they are.
const UNKNOWN: &[u8] = b"unknown";

/// URIs of executions.
pub(super) type Counts = Vec<(Box<[u8]>, u64)>;

/// How many URIs a group can count that the frontier does not keep.
const IN_A_GROUP: u64 = 1 << 40;
/// How many all groups can: so few that the total fits into its key with whatever is kept.
const IN_ALL: u64 = 1 << 62;

/// How many more URIs a group can count that are not kept, when others count so many.
pub(super) fn room(counted: u64) -> u64 {
    IN_ALL.saturating_sub(counted).min(IN_A_GROUP)
}

/// What a group says of its URIs.
pub(super) struct Account {
    /// `c`.
    pub uris: u64,
    /// Those that are kept, by execution; they are there, so they are believed.
    pub kept: Counts,
    /// Those that are only counted.
    pub counted: Counts,
}

/// What of that can be believed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Believed {
    /// `c`, if it is not absurd; it may still be below what is queued by name.
    pub uris: Option<u64>,
    /// How many are queued by name.
    pub named: u64,
    /// Of these, how many are kept.
    pub kept: u64,
    /// Executions whose count is absurd.
    pub absurd: Counts,
}

impl Believed {
    /// What `c` has to be.
    pub(super) fn right(&self) -> u64 {
        self.uris.unwrap_or(0).max(self.named)
    }
}

impl Account {
    /// Takes out what is absurd: counts that together come to more than `room`, the largest first.
    pub(super) fn believe(&mut self, room: u64) -> Believed {
        let kept: u64 = self.kept.iter().map(|(_, n)| n).sum();
        self.counted
            .sort_unstable_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
        let mut left = room;
        let sound = self.counted.iter().take_while(|(_, n)| {
            let fits = left.checked_sub(*n);
            left = fits.unwrap_or(left);
            fits.is_some()
        });
        let sound = sound.count();
        let absurd = self.counted.split_off(sound);
        Believed {
            uris: (self.uris.saturating_sub(kept) <= room).then_some(self.uris),
            named: kept + (room - left),
            kept,
            absurd,
        }
    }
}

/// What `EIDC` has to say, when groups have `sum` URIs, so many of them `named`. A surplus is taken
/// from executions that have more than all groups, then from those that no group names, then from
/// others, and of these first from where it is most.
pub(super) fn shares(
    found: &[(Box<[u8]>, u64)],
    named: &FxHashMap<Box<[u8]>, u64>,
    sum: u64,
) -> Counts {
    let mut right: FxHashMap<Box<[u8]>, u64> = found.iter().cloned().collect();
    for (execution, named) in named {
        let count = right.entry(execution.clone()).or_default();
        *count = (*count).max(*named);
    }
    let in_all: u128 = right.values().map(|&n| u128::from(n)).sum();
    let sum = u128::from(sum);
    let lacks = sum.saturating_sub(in_all);
    if lacks > 0 {
        let unknown = right.entry(UNKNOWN.into()).or_default();
        *unknown += u64::try_from(lacks).expect("no more than the sum");
    }
    let mut right: Counts = right.into_iter().collect();
    let named = |execution: &[u8]| named.get(execution).copied().unwrap_or(0);
    right.sort_unstable_by_key(|(execution, count)| {
        let named = named(execution);
        let can_be = u128::from(*count) <= sum;
        (
            can_be,
            named > 0,
            Reverse(*count - named),
            execution.clone(),
        )
    });
    let mut surplus = in_all.saturating_sub(sum);
    for (execution, count) in &mut right {
        let spare = *count - named(execution);
        let taken = u64::try_from(surplus).map_or(spare, |surplus| spare.min(surplus));
        *count -= taken;
        surplus -= u128::from(taken);
    }
    right
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = i64::MAX as u64;

    fn counts(counts: &[(&str, u64)]) -> Counts {
        let counts = counts.iter();
        counts.map(|(id, n)| (id.as_bytes().into(), *n)).collect()
    }

    fn believed(uris: u64, kept: u64, counted: &[(&str, u64)], room: u64) -> (Believed, Counts) {
        let mut account = Account {
            uris,
            kept: counts(&[("k", kept)]),
            counted: counts(counted),
        };
        (account.believe(room), account.counted)
    }

    fn shared(found: &[(&str, u64)], named: &[(&str, u64)], sum: u64) -> Counts {
        let mut shares = shares(&counts(found), &counts(named).into_iter().collect(), sum);
        shares.sort();
        shares
    }

    #[test]
    fn what_can_be_is_believed() {
        let (is, counted) = believed(9, 2, &[("a", 3), ("b", 4)], 7);
        assert_eq!((is.uris, is.named, is.kept, is.right()), (Some(9), 9, 2, 9));
        assert!(is.absurd.is_empty());
        assert_eq!(counted.len(), 2);
    }

    #[test]
    fn a_count_below_what_is_queued_by_name_is_raised() {
        let (is, _) = believed(1, 2, &[("a", 3)], 10);
        assert_eq!((is.uris, is.right()), (Some(1), 5));
    }

    #[test]
    fn an_absurd_count_comes_to_what_is_queued_by_name() {
        let (is, _) = believed(MAX, 2, &[("a", 3)], 10);
        assert_eq!((is.uris, is.right()), (None, 5));
        assert_eq!(believed(12, 2, &[], 10).0.right(), 12);
        assert_eq!(believed(13, 2, &[], 10).0.right(), 2);
    }

    #[test]
    fn absurd_counts_of_executions_go_and_the_others_stay() {
        let many = [("a", MAX), ("b", 3), ("c", MAX), ("d", 7), ("e", MAX)];
        let (is, counted) = believed(0, 2, &many, 10);
        assert_eq!(is.named, 12);
        assert_eq!(is.absurd, counts(&[("a", MAX), ("c", MAX), ("e", MAX)]));
        assert_eq!(counted, counts(&[("b", 3), ("d", 7)]));
    }

    #[test]
    fn without_room_only_what_is_kept_is_believed() {
        let (is, counted) = believed(5, 2, &[("a", 3), ("z", 0)], 0);
        assert_eq!((is.uris, is.right()), (None, 2));
        assert_eq!(counted, counts(&[("z", 0)]));
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
    }

    #[test]
    fn what_nobody_accounts_for_is_of_an_unknown_execution() {
        let right = shared(&[("a", 5)], &[("b", 1)], 9);
        assert_eq!(right, counts(&[("a", 5), ("b", 1), ("unknown", 3)]));
    }
}
