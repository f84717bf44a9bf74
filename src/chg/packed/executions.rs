//! The crawl executions of a packed frontier. Each name is stored once, with the number of its queued
//! URIs (`EIDC`), and with a number by which groups refer to the execution.

use std::collections::BTreeMap;

use crawlspace_compact::blocks::{Link, Slab};

#[derive(Clone, Debug, Default)]
struct Execution {
    name: Box<[u8]>,
    queued: u64,
    /// Reference count: the number of places that refer to the execution.
    users: u64,
    /// Link of the free list, while the number is free.
    free: u32,
}

impl Link for Execution {
    fn link(&mut self) -> &mut u32 {
        &mut self.free
    }
}

/// All executions.
#[derive(Clone, Default)]
pub(super) struct Executions {
    by_name: BTreeMap<Box<[u8]>, u32>,
    all: Slab<Execution>,
    /// Executions with queued URIs.
    counted: u64,
    /// Sum of the queued URIs of all executions (`QCT`).
    total: u64,
}

impl Executions {
    /// Returns the number of queued URIs of all executions.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the number of executions with queued URIs.
    pub fn counted(&self) -> u64 {
        self.counted
    }

    /// Returns the number of an execution.
    pub fn find(&self, name: &[u8]) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    fn enter(&mut self, name: &[u8]) -> u32 {
        if let Some(number) = self.find(name) {
            return number;
        }
        let execution = Execution {
            name: name.into(),
            ..Execution::default()
        };
        let number = self.all.insert(execution, u32::MAX);
        self.by_name.insert(name.into(), number);
        number
    }

    /// Returns the name of an execution.
    pub fn name(&self, number: u32) -> &[u8] {
        self.all
            .peek(number)
            .map_or(b"", |execution| &execution.name)
    }

    /// Returns the number of an execution, and increments its reference count.
    pub fn hold(&mut self, name: &[u8]) -> u32 {
        let number = self.enter(name);
        self.all.get_mut(number).users += 1;
        number
    }

    /// Increments the reference count of an execution.
    pub fn hold_number(&mut self, number: u32) {
        if let Some(execution) = self.all.peek_mut(number) {
            execution.users += 1;
        }
    }

    /// Decrements the reference count of an execution.
    pub fn release(&mut self, number: u32) {
        if let Some(execution) = self.all.peek_mut(number) {
            execution.users -= 1;
            self.tidy(number);
        }
    }

    fn tidy(&mut self, number: u32) {
        let Some(execution) = self.all.peek_mut(number) else {
            return;
        };
        if execution.users == 0 && execution.queued == 0 {
            let name = std::mem::take(&mut execution.name);
            self.by_name.remove(&name);
            self.all.remove(number);
        }
    }

    /// Returns the number of queued URIs of an execution, or `None` if it has no queued URIs.
    pub fn queued(&self, name: &[u8]) -> Option<u64> {
        let number = self.find(name)?;
        let queued = self.all.peek(number)?.queued;
        (queued > 0).then_some(queued)
    }

    /// Sets the number of queued URIs of an execution.
    pub fn set_queued(&mut self, name: &[u8], queued: u64) {
        self.change_queued(name, |_| queued);
    }

    /// Adds to the number of queued URIs of an execution. The number does not fall below zero. Returns the numbers
    /// before and after the change.
    pub fn add_queued(&mut self, name: &[u8], change: i64) -> (u64, u64) {
        self.change_queued(name, |before| before.saturating_add_signed(change))
    }

    fn change_queued(&mut self, name: &[u8], change: impl FnOnce(u64) -> u64) -> (u64, u64) {
        let number = self.enter(name);
        let execution = self.all.get_mut(number);
        let before = execution.queued;
        let after = change(before);
        execution.queued = after;
        self.total = self.total - before + after;
        self.counted += u64::from(after > 0);
        self.counted -= u64::from(before > 0);
        self.tidy(number);
        (before, after)
    }

    /// Returns some executions with queued URIs, starting at this number, and the number at which
    /// to continue.
    pub fn page(&self, from: u32, count: u32) -> (Vec<(&[u8], u64)>, Option<u32>) {
        let end = self.all.end();
        let until = from.saturating_add(count).min(end);
        let some = (from..until).filter_map(|number| self.all.peek(number));
        let some = some.filter(|execution| execution.queued > 0);
        let page = some
            .map(|execution| (&*execution.name, execution.queued))
            .collect();
        (page, (until < end).then_some(until))
    }

    /// Returns true if an execution has this number.
    pub fn knows(&self, number: u32) -> bool {
        !self.name(number).is_empty()
    }

    /// Calls `each` with every number in ascending order, the name of the execution, and its count of
    /// queued URIs. The name is empty for unused numbers.
    pub fn each(&self, mut each: impl FnMut(u32, &[u8], u64)) {
        for number in 0..self.all.end() {
            if let Some(execution) = self.all.peek(number) {
                each(number, &execution.name, execution.queued);
            }
        }
    }

    /// Restores an execution or, with an empty name, an unused number. Numbers must be restored in ascending
    /// order without gaps. Returns false if the number is not the next number, if the name already exists, or
    /// if the total would overflow.
    pub fn restore(&mut self, number: u32, name: &[u8], queued: u64) -> bool {
        let follows = number == self.all.end() && self.all.len() == self.all.end() as usize;
        let is_new = !self.by_name.contains_key(name);
        if !follows || !is_new || queued > i64::MAX as u64 - self.total {
            return false;
        }
        let execution = Execution {
            name: name.into(),
            ..Execution::default()
        };
        self.all.insert(execution, u32::MAX);
        if !name.is_empty() {
            self.by_name.insert(name.into(), number);
            // Hold a reference during `set_queued`, so that the execution is not removed.
            self.all.get_mut(number).users = 1;
            self.set_queued(name, queued);
            self.all.get_mut(number).users = 0;
        }
        true
    }

    /// Ends the restoration of executions, and frees the numbers that are not in use.
    pub fn restored(&mut self) {
        if self.by_name.is_empty() {
            self.all = Slab::default();
        } else if self.all.len() == self.all.end() as usize {
            for number in 0..self.all.end() {
                if !self.knows(number) {
                    self.all.remove(number);
                }
            }
        }
    }

    /// Returns the reference counts of all executions.
    #[cfg(test)]
    pub fn users(&self) -> Vec<u64> {
        let all = (0..self.all.end()).map(|number| self.all.peek(number));
        all.map(|execution| execution.map_or(0, |execution| execution.users))
            .collect()
    }

    /// Returns the number of memory blocks.
    pub fn pieces(&self) -> usize {
        2 * self.by_name.len()
    }

    /// Returns the memory use in bytes.
    pub fn memory(&self) -> usize {
        self.all.memory() + self.by_name.len() * 96
    }
}
