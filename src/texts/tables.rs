//! The symbol tables of an index: all tables, the table that new chunks use, and the training of
//! the next table.

use std::sync::Arc;

use super::builtin;
use super::matcher::Matcher;
use super::table::{Classes, NUMBERS, Number, Table};
use super::training::{Sample, Training};

/// Number of the table that every store starts with.
pub const BUILTIN: u16 = 0;

/// Maximum number of tables of a store.
const MAX_TABLES: usize = 255;
/// Maximum number of cached matchers.
const MATCHERS: usize = 3;
/// Number of values before the first training. A smaller index would not benefit from another
/// table.
const FIRST: u32 = 1 << 11;
/// Number of values between the first and the second training. Each training increases this
/// interval, up to [`LATEST`].
const LATER: u32 = 1 << 14;
const LATEST: u32 = 1 << 20;
/// Size in bytes of the first sample and of later samples. The first is small, so that the first
/// table is ready soon.
const SAMPLES: [usize; 2] = [32 << 10, 128 << 10];
/// Sampling interval: one of this number of values is sampled.
const ONE_IN: u32 = 2;
/// Number of values per training step.
const STEP_EACH: u32 = 16;
/// A new table must encode the sample in less than this fraction of the bits that the current table
/// needs.
const BETTER: (u64, u64) = (19, 20);

/// All tables by number, and the state of the training of new ones.
pub struct Tables {
    tables: Vec<Option<Used>>,
    /// Number of the table for new owners.
    current: u16,
    /// Cached matchers, most recently used last.
    matchers: Vec<(u16, Matcher)>,
    /// Number of values until the next training step.
    wait: u32,
    /// Number of values between two trainings.
    pause: u32,
    state: Learning,
    /// Counts of the classes of numbers, allocated when needed.
    counts: Option<Box<Counts>>,
    memory: usize,
}

/// Number of classes of numbers that are counted.
const CLASSES: usize = 72;

type Counts = [[u32; CLASSES]; NUMBERS];

#[derive(Clone)]
struct Used {
    table: Arc<Table>,
    saved: Arc<[u8]>,
    /// Number of owners that refer to the table.
    owners: u32,
}

enum Learning {
    Waiting,
    Sampling(Sample),
    Training(Box<Training>),
    Comparing(Box<New>),
}

/// A trained table that is compared with the current one.
struct New {
    table: Table,
    sample: Sample,
    /// Size of the encoded sample with this table, in bits.
    bits: Option<u64>,
}

impl Learning {
    fn memory(&self) -> usize {
        match self {
            Learning::Waiting => 0,
            Learning::Sampling(sample) => sample.memory(),
            Learning::Training(training) => training.memory(),
            Learning::Comparing(new) => new.table.memory() + new.sample.memory(),
        }
    }
}

impl Default for Tables {
    fn default() -> Self {
        Tables {
            tables: Vec::new(),
            current: BUILTIN,
            matchers: Vec::new(),
            wait: FIRST,
            pause: LATER,
            state: Learning::Waiting,
            counts: None,
            memory: 0,
        }
    }
}

impl Clone for Tables {
    /// Clones the tables. The clone has empty caches and starts the training again.
    fn clone(&self) -> Self {
        Tables {
            tables: self.tables.clone(),
            current: self.current,
            pause: self.pause,
            memory: (self.tables.iter().flatten())
                .map(|used| used.table.memory() + used.saved.len())
                .sum(),
            ..Tables::default()
        }
    }
}

impl Tables {
    /// Returns the table with that number, if there is one.
    #[inline]
    pub fn get(&self, number: u16) -> Option<&Table> {
        let Some(at) = usize::from(number).checked_sub(1) else {
            return Some(builtin::table());
        };
        Some(&self.tables.get(at)?.as_ref()?.table)
    }

    /// Returns the number of the table for a new owner, and counts the owner.
    pub fn current(&mut self) -> u16 {
        self.adopt(self.current);
        self.current
    }

    /// Adds an owner that refers to the table.
    pub fn adopt(&mut self, number: u16) {
        if let Some(used) = self.used(number) {
            used.owners = used.owners.saturating_add(1);
        }
    }

    /// Removes an owner that refers to the table.
    pub fn retire(&mut self, number: u16) {
        if let Some(used) = self.used(number) {
            used.owners = used.owners.saturating_sub(1);
            if used.owners == 0 && number != self.current {
                self.remove(number);
            }
        }
    }

    /// Returns the matcher of a table.
    pub fn matcher(&mut self, number: u16) -> &Matcher {
        if self.used(number).is_none() {
            return builtin::matcher();
        }
        let at = self.matchers.iter().position(|of| of.0 == number);
        let of = match at {
            Some(at) if at + 1 == self.matchers.len() => return &self.matchers[at].1,
            Some(at) => self.matchers.remove(at),
            None => {
                if self.matchers.len() == MATCHERS {
                    let (_, old) = self.matchers.remove(0);
                    self.memory -= old.memory();
                }
                let table = self.get(number).unwrap_or(builtin::table());
                let matcher = Matcher::new(table);
                self.memory += matcher.memory();
                (number, matcher)
            }
        };
        self.matchers.push(of);
        &self.matchers[self.matchers.len() - 1].1
    }

    /// Counts the class of a number.
    #[inline]
    pub fn count(&mut self, number: Number, class: u8) {
        let counts = self
            .counts
            .get_or_insert_with(|| Box::new([[0; CLASSES]; NUMBERS]));
        if let Some(count) = counts[number as usize].get_mut(usize::from(class)) {
            *count = count.saturating_add(1);
        }
    }

    /// Adds a string to the sample, or performs a training step.
    #[inline]
    pub fn learn(&mut self, text: &[u8]) {
        self.wait = self.wait.saturating_sub(1);
        if self.wait == 0 {
            self.memory -= self.state.memory();
            self.learn_now(text);
            self.memory += self.state.memory();
            self.wait = match &self.state {
                Learning::Waiting => {
                    let later = (self.pause * 4).min(LATEST);
                    std::mem::replace(&mut self.pause, later)
                }
                Learning::Sampling(_) => ONE_IN,
                Learning::Training(_) | Learning::Comparing(_) => STEP_EACH,
            };
        }
    }

    fn learn_now(&mut self, text: &[u8]) {
        match &mut self.state {
            Learning::Waiting => {
                if self.free_number().is_some() {
                    self.state = Learning::Sampling(Sample::default());
                }
            }
            Learning::Sampling(sample) => {
                sample.push(text);
                let is_first = self.pause == LATER;
                if sample.len() >= SAMPLES[usize::from(!is_first)] {
                    let sample = std::mem::take(sample);
                    let counts = self.counts.as_deref_mut();
                    let classes = match &counts {
                        Some(counts) => counts.map(|of| Classes::new(&of)),
                        None => [(); NUMBERS].map(|()| Classes::new(&[])),
                    };
                    // Give more weight to recent values.
                    for count in counts.into_iter().flatten().flatten() {
                        *count /= 4;
                    }
                    self.state = Learning::Training(Box::new(Training::new(sample, classes)));
                }
            }
            Learning::Training(training) => {
                if let Some((table, sample)) = training.step() {
                    let bits = None;
                    self.state = Learning::Comparing(Box::new(New {
                        table,
                        sample,
                        bits,
                    }));
                }
            }
            Learning::Comparing(new) if new.bits.is_none() => {
                new.bits = Some(new.sample.bits(&Matcher::new(&new.table)));
            }
            Learning::Comparing(_) => {
                let state = std::mem::replace(&mut self.state, Learning::Waiting);
                if let Learning::Comparing(new) = state {
                    self.compare(*new);
                }
            }
        }
    }

    /// Makes a new table the current table if it is better.
    fn compare(
        &mut self,
        New {
            table,
            sample,
            bits,
        }: New,
    ) {
        let current = self.current;
        let before = sample.bits(self.matcher(current));
        if bits.is_none_or(|bits| bits * BETTER.1 > before * BETTER.0) {
            return;
        }
        let Some(number) = self.free_number() else {
            return;
        };
        let saved = table.save().into();
        self.insert(number, table, saved);
        self.current = number;
        // Remove the previous table unless chunks use it.
        self.adopt(current);
        self.retire(current);
    }

    fn free_number(&self) -> Option<u16> {
        let free = self.tables.iter().position(Option::is_none);
        let at = free.unwrap_or(self.tables.len());
        (at < MAX_TABLES).then_some(at as u16 + 1)
    }

    fn used(&mut self, number: u16) -> Option<&mut Used> {
        let at = usize::from(number).checked_sub(1)?;
        self.tables.get_mut(at)?.as_mut()
    }

    fn insert(&mut self, number: u16, table: Table, saved: Arc<[u8]>) {
        let at = usize::from(number) - 1;
        if at >= self.tables.len() {
            self.tables.resize_with(at + 1, || None);
        }
        self.memory += table.memory() + saved.len();
        self.tables[at] = Some(Used {
            table: Arc::new(table),
            saved,
            owners: 0,
        });
    }

    fn remove(&mut self, number: u16) {
        if let Some(at) = self.matchers.iter().position(|of| of.0 == number) {
            let (_, old) = self.matchers.remove(at);
            self.memory -= old.memory();
        }
        let at = usize::from(number) - 1;
        if let Some(used) = self.tables[at].take() {
            self.memory -= used.table.memory() + used.saved.len();
        }
    }

    /// Returns the number and the serialized form of each table, in ascending order of numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &[u8])> {
        let used = (1u16..).zip(&self.tables);
        used.filter_map(|(number, used)| Some((number, &*used.as_ref()?.saved)))
    }

    /// Calls `each` with the number and the serialized form of each table, the current table last.
    pub fn save(&self, each: &mut dyn FnMut(u16, &[u8])) {
        let others = self.iter().filter(|(number, _)| *number != self.current);
        let current = self.iter().filter(|(number, _)| *number == self.current);
        others
            .chain(current)
            .for_each(|(number, saved)| each(number, saved));
    }

    /// Restores a saved table. New chunks use the table that was restored last.
    ///
    /// # Errors
    /// The reason why the table is invalid.
    pub fn restore(&mut self, number: u16, saved: &[u8]) -> Result<(), String> {
        if number == BUILTIN || usize::from(number) > MAX_TABLES || self.get(number).is_some() {
            return Err(format!("table number {number} is out of range"));
        }
        let table = Table::load(saved).ok_or_else(|| format!("table {number} is malformed"))?;
        self.insert(number, table, saved.into());
        self.current = number;
        (self.wait, self.pause) = (LATER, LATER * 4);
        Ok(())
    }

    /// Ends loading: removes tables without owners, except the current one.
    pub fn settle(&mut self) {
        for number in 1..=self.tables.len() as u16 {
            self.adopt(number);
            self.retire(number);
        }
    }

    /// Returns the memory use in bytes.
    pub fn memory(&self) -> usize {
        let counts = self.counts.as_ref().map_or(0, |_| size_of::<Counts>());
        self.memory + counts + self.tables.capacity() * size_of::<Option<Used>>()
    }

    /// Checks that the incrementally maintained memory use equals the sum over the parts.
    #[cfg(test)]
    pub fn verify(&self) {
        let tables = self.tables.iter().flatten();
        let tables: usize = tables.map(|of| of.table.memory() + of.saved.len()).sum();
        let matchers: usize = self.matchers.iter().map(|of| of.1.memory()).sum();
        assert_eq!(self.memory, tables + matchers + self.state.memory());
    }
}
