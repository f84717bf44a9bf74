//! Fair scheduling: crawl executions share a group in proportion to their weights.
//!
//! Stride scheduling (Waldspurger and Weihl 1995): every URI that is leased advances the pass of
//! its execution by `STRIDE / weight`, and the execution with the lowest pass is next. In the long
//! run, each execution gets its exact share: the rounding error of a stride is below 2^-64 of the
//! stride.
//!
//! The clock of the group is the pass of the last leased URI. An execution that was paused or had
//! no due URI in the meantime continues at the clock. Therefore, such an execution neither catches
//! up on missed fetches nor has to wait. A new execution starts one stride after the clock, so that
//! a stream of new executions cannot starve the existing executions.

use super::super::time::Millis;
use super::bounds::{MAX_NUMBER, MAX_PASS, MAX_WEIGHT};
use super::encoding::Bytes;
use super::execution::Execution;
use super::executions::{All, Gone};

/// Amount by which a URI advances the pass of an execution with weight 1. Passes have 44 more bits.
pub(super) const STRIDE: u128 = 1 << 84;

fn later(pass: u128, by: u128) -> u128 {
    pass.saturating_add(by).min(MAX_PASS)
}

fn stride(weight: u32) -> u128 {
    STRIDE / u128::from(weight.max(1))
}

/// The executions of a group, in order of appearance.
#[derive(Clone, Debug, Default)]
pub(super) struct Executions {
    all: All,
    pub(super) clock: u128,
    /// Number of the next new execution.
    pub(super) next: u64,
}

impl Executions {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Execution> {
        self.from(0)
    }

    /// Iterates over the executions, starting with a number.
    pub(super) fn from(&self, number: u64) -> impl Iterator<Item = &Execution> {
        self.all.from(number)
    }

    pub(super) fn find(&self, id: &[u8]) -> Option<&Execution> {
        self.all.find(id)
    }

    pub(super) fn by_number(&self, number: u64) -> Option<&Execution> {
        self.all.get(number)
    }

    pub(super) fn by_number_mut(&mut self, number: u64) -> Option<&mut Execution> {
        self.all.get_mut(number)
    }

    /// Returns the number of an execution. Adds the execution if it is unknown. Returns `None` if
    /// all numbers are used up.
    pub(super) fn enter(&mut self, id: &[u8], weight: Option<u64>) -> Option<u64> {
        if let Some(known) = self.find(id) {
            return Some(known.number);
        }
        if self.next >= MAX_NUMBER {
            return None;
        }
        let weight = weight.map_or(1, |w| w.clamp(1, MAX_WEIGHT)) as u32;
        let number = self.next;
        self.next += 1;
        let pass = later(self.clock, stride(weight));
        self.insert(Execution::new(id, number, weight, pass));
        Some(number)
    }

    /// Adds an execution. No execution with the same number or name may exist.
    pub(super) fn insert(&mut self, execution: Execution) {
        self.all.insert(execution);
    }

    /// Returns the executions if there are few.
    pub(super) fn few(&self) -> Option<&[Execution]> {
        match &self.all {
            All::Few(few) => Some(few),
            All::Many(_) => None,
        }
    }

    /// Replaces the names of all executions.
    pub(super) fn rename(&mut self, name: &mut dyn FnMut(&[u8]) -> Bytes) {
        self.all.rename(name);
    }

    /// Restores an execution from a file or a call. The number must not belong to another
    /// execution.
    pub(super) fn restore(&mut self, id: &[u8], number: u64, weight: u32, pass: u128) {
        let known = self.find(id).map(|e| e.number);
        let number = known.unwrap_or(number);
        match known.and_then(|number| self.by_number_mut(number)) {
            Some(known) => {
                known.weight = weight;
                known.pass = pass;
            }
            None => {
                self.next = self.next.max(number + 1);
                self.insert(Execution::new(id, number, weight, pass));
            }
        }
        self.all.note(number);
    }

    /// Sets the weight of an execution, and scales the distance of its pass from the clock in
    /// proportion. Returns true if the weight changed.
    pub(super) fn weigh(&mut self, number: u64, weight: u64) -> bool {
        let weight = weight.clamp(1, MAX_WEIGHT) as u32;
        let clock = self.clock;
        let Some(execution) = self.by_number_mut(number) else {
            return false;
        };
        if execution.weight == weight {
            return false;
        }
        let ahead = execution.pass.saturating_sub(clock);
        if ahead > 0 {
            let ahead = ahead.saturating_mul(u128::from(execution.weight)) / u128::from(weight);
            execution.pass = later(clock, ahead);
        }
        execution.weight = weight;
        true
    }

    /// Returns the execution whose URI is leased next. Skips executions that are paused or have no
    /// due URI.
    pub(super) fn pick(&self, now: Millis, paused: &dyn Fn(&[u8]) -> bool) -> Option<&Execution> {
        let mut best: Option<(&Execution, u128)> = None;
        for execution in self.iter() {
            let pass = execution.pass.max(self.clock);
            if execution.queued > 0
                && execution.earliest <= now
                && best.is_none_or(|(_, lowest)| pass < lowest)
                && !paused(&execution.id)
            {
                best = Some((execution, pass));
            }
        }
        best.map(|(execution, _)| execution)
    }

    /// Advances the pass of an execution after one of its URIs was leased.
    pub(super) fn advance(&mut self, number: u64, gone: Gone<'_>) {
        let clock = self.clock;
        let Some(execution) = self.by_number_mut(number) else {
            return;
        };
        let at = execution.pass.max(clock);
        execution.pass = later(at, stride(execution.weight));
        self.clock = at;
        self.drop_idle(number, gone);
    }

    /// Drops idle executions that are not ahead of the clock. Called after a change that may have
    /// removed the last URI of `number`. An execution ahead of the clock is kept. Otherwise, it
    /// could get more than its share by leaving and returning.
    pub(super) fn drop_idle(&mut self, number: u64, gone: Gone<'_>) {
        self.all.note(number);
        self.all.drop_idle(self.clock, gone);
    }

    /// Returns the memory use in bytes.
    pub(super) fn memory(&self) -> usize {
        self.all.memory()
    }

    /// Returns the number of memory blocks.
    pub(super) fn pieces(&self) -> usize {
        self.all.pieces()
    }
}

impl PartialEq for Executions {
    fn eq(&self, other: &Executions) -> bool {
        (self.clock, self.next) == (other.clock, other.next) && self.iter().eq(other.iter())
    }
}
