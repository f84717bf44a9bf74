//! The executions of a group, found by number and by name. Most groups have only one or a few
//! executions, which are stored in a short list. A group with many executions has an index for each
//! order, so that no operation on all executions takes quadratic time.

use std::collections::{BTreeMap, BTreeSet};

use crawlspace_compact::keyed;

use super::encoding::Bytes;
use super::execution::{Execution, mark};

/// Maximum length of such a list. The length is smaller in tests, so that tests cover both forms.
const FEW: usize = if cfg!(test) { 2 } else { 64 };

/// A function that is called with the name of each execution that is removed from a group.
pub(super) type Gone<'a> = &'a mut dyn FnMut(&[u8]);

/// Executions in order of their numbers.
#[derive(Clone, Debug)]
pub(super) enum All {
    Few(Vec<Execution>),
    Many(Box<Many>),
}

/// A set of many executions, with indexes.
#[derive(Clone, Debug, Default)]
pub(super) struct Many {
    by_number: BTreeMap<u64, Execution>,
    /// Hash of the name, and the number of the execution. The key of the hash function differs
    /// between processes.
    by_name: BTreeSet<(u64, u64)>,
    /// Pass and number of each idle execution. Also includes some executions that are not idle any
    /// more.
    idle: BTreeSet<(u128, u64)>,
}

impl Default for All {
    fn default() -> Self {
        All::Few(Vec::new())
    }
}

impl All {
    /// Iterates over the executions, starting with a number.
    pub(super) fn from(&self, number: u64) -> impl Iterator<Item = &Execution> {
        let (few, many) = match self {
            All::Few(few) => (&few[few.partition_point(|e| e.number < number)..], None),
            All::Many(many) => (&[][..], Some(many.by_number.range(number..))),
        };
        few.iter()
            .chain(many.into_iter().flatten().map(|(_, execution)| execution))
    }

    pub(super) fn find(&self, id: &[u8]) -> Option<&Execution> {
        match self {
            All::Few(few) => {
                let mark = mark(id);
                few.iter().find(|e| e.mark == mark && *e.id == *id)
            }
            All::Many(many) => {
                let hash = keyed::hash(id);
                let same = many.by_name.range((hash, 0)..=(hash, u64::MAX));
                let mut found = same.filter_map(|(_, number)| many.by_number.get(number));
                found.find(|e| *e.id == *id)
            }
        }
    }

    pub(super) fn get(&self, number: u64) -> Option<&Execution> {
        match self {
            All::Few(few) => Some(&few[at(few, number)?]),
            All::Many(many) => many.by_number.get(&number),
        }
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Execution> {
        match self {
            All::Few(few) => {
                let at = at(few, number)?;
                Some(&mut few[at])
            }
            All::Many(many) => many.by_number.get_mut(&number),
        }
    }

    /// Adds an execution. The group must not contain an execution with the same number or name.
    pub(super) fn insert(&mut self, execution: Execution) {
        match self {
            All::Few(few) => {
                if few.is_empty() {
                    // Most groups have one execution.
                    few.reserve_exact(1);
                }
                let at = few.partition_point(|e| e.number < execution.number);
                few.insert(at, execution);
                if few.len() > FEW {
                    let mut many = Box::<Many>::default();
                    for execution in std::mem::take(few) {
                        many.insert(execution);
                    }
                    *self = All::Many(many);
                }
            }
            All::Many(many) => many.insert(execution),
        }
    }

    /// Replaces the names of all executions.
    pub(super) fn rename(&mut self, name: &mut dyn FnMut(&[u8]) -> Bytes) {
        let mut rename = |execution: &mut Execution| {
            execution.id = name(&execution.id)[..].into();
            execution.mark = mark(&execution.id);
        };
        match self {
            All::Few(few) => few.iter_mut().for_each(rename),
            All::Many(many) => {
                many.by_name.clear();
                for (number, execution) in &mut many.by_number {
                    rename(execution);
                    many.by_name.insert((keyed::hash(&execution.id), *number));
                }
            }
        }
    }

    /// Records that an execution may have become idle, or that its pass may have changed.
    pub(super) fn note(&mut self, number: u64) {
        let All::Many(many) = self else { return };
        if let Some(execution) = many.by_number.get(&number).filter(|e| e.is_idle()) {
            many.idle.insert((execution.pass, number));
        }
    }

    /// Removes idle executions that are not ahead of the clock, and calls `gone` with their names.
    pub(super) fn drop_idle(&mut self, clock: u128, gone: Gone<'_>) {
        match self {
            All::Few(few) => few.retain(|e| {
                let stays = !e.is_idle() || e.pass > clock;
                if !stays {
                    gone(&e.id);
                }
                stays
            }),
            All::Many(many) => {
                many.drop_idle(clock, gone);
                if many.by_number.len() <= FEW / 2 {
                    let few = std::mem::take(&mut many.by_number);
                    *self = All::Few(few.into_values().collect());
                }
            }
        }
    }

    /// Returns the approximate number of memory blocks of the names and of the nodes of the
    /// indexes.
    pub(super) fn pieces(&self) -> usize {
        match self {
            All::Few(few) => few.len(),
            All::Many(many) => many.by_number.len() + many.idle.len() / 4,
        }
    }

    /// Returns the memory use in bytes, without the value itself.
    pub(super) fn memory(&self) -> usize {
        let ids: usize = self.from(0).map(|e| e.id.len().next_multiple_of(16)).sum();
        ids + match self {
            All::Few(few) => few.capacity() * size_of::<Execution>(),
            // The nodes of a B-tree are two thirds full on average.
            All::Many(many) => {
                let each = size_of::<Execution>() + 8 + 16;
                (many.by_number.len() * each + many.idle.len() * 32) * 3 / 2
            }
        }
    }
}

fn at(few: &[Execution], number: u64) -> Option<usize> {
    few.binary_search_by_key(&number, |e| e.number).ok()
}

impl Many {
    fn insert(&mut self, execution: Execution) {
        let number = execution.number;
        let hash = keyed::hash(&execution.id);
        self.by_name.insert((hash, number));
        if execution.is_idle() {
            self.idle.insert((execution.pass, number));
        }
        self.by_number.insert(number, execution);
    }

    fn drop_idle(&mut self, clock: u128, gone: Gone<'_>) {
        while let Some(&(pass, number)) = self.idle.first().filter(|(pass, _)| *pass <= clock) {
            self.idle.remove(&(pass, number));
            let execution = self.by_number.get(&number);
            // Skip an execution that has URIs again, or whose pass has changed.
            let Some(execution) = execution.filter(|e| e.is_idle() && e.pass == pass) else {
                continue;
            };
            gone(&execution.id);
            let hash = keyed::hash(&execution.id);
            self.by_name.remove(&(hash, number));
            self.by_number.remove(&number);
        }
    }
}
