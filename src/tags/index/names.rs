//! The names of tags and files that occur anywhere, in place or staged, and their numbers.
//!
//! A name goes when nothing has it any more. Changes note which names to look at again; what a whole copy
//! left behind when it was thrown away is found by a sweep that each change moves on a little.

use super::TagId;
use super::dictionary::{Dictionary, MAX_NUMBER};

/// All copies of all kinds have the same numbers, so that closures go from one to the other, and walks go
/// on when a staged copy is put in place.
#[derive(Clone, Default)]
pub struct Names {
    pub tags: List,
    /// Filenames of records.
    pub files: List,
}

impl Names {
    /// The number of a tag.
    pub fn tag(&self, name: &[u8]) -> Option<TagId> {
        self.tags.find(name).map(TagId)
    }

    /// The number of a tag, which gets one if it has none.
    pub fn number(&mut self, name: &[u8]) -> TagId {
        TagId(self.tags.number(name))
    }

    /// The name of a tag.
    pub fn get(&self, tag: TagId) -> &[u8] {
        self.tags.get(tag.0)
    }

    pub fn memory(&self) -> usize {
        self.tags.all.memory() + self.files.all.memory()
    }

    pub fn pieces(&self) -> usize {
        self.tags.all.pieces() + self.files.all.pieces()
    }
}

#[derive(Clone, Default)]
pub struct List {
    /// Those that occur in place are held once.
    all: Dictionary<u8>,
    in_place: u64,
    /// Numbers to look at when the change is done.
    again: Vec<u32>,
    /// Numbers that had no name before this change, or another one.
    new: Vec<u32>,
    /// The next number that the sweep looks at.
    sweep: Option<u32>,
}

/// Where a name occurs.
#[derive(Clone, Copy)]
pub enum Occurs {
    Nowhere,
    Staged,
    InPlace,
}

impl List {
    pub fn find(&self, name: &[u8]) -> Option<u32> {
        self.all.find(name)
    }

    pub fn get(&self, number: u32) -> &[u8] {
        self.all.get(number)
    }

    /// How many occur in place.
    pub fn in_place(&self) -> u64 {
        self.in_place
    }

    /// The highest number of a name.
    pub fn highest(&self) -> u32 {
        self.all.highest()
    }

    /// Whether that many more can be numbered.
    pub fn has_room_for(&self, more: usize) -> bool {
        more < (MAX_NUMBER - self.all.len()) as usize
    }

    /// The number of a name, which gets one if it has none.
    pub fn number(&mut self, name: &[u8]) -> u32 {
        if let Some(number) = self.find(name) {
            return number;
        }
        let number = self.all.insert(name);
        self.new.push(number);
        self.again.push(number);
        number
    }

    /// Asks to look where that name occurs when the change is done.
    pub fn look_again(&mut self, number: u32) {
        self.again.push(number);
    }

    /// Asks to look where each name occurs, in the course of time.
    pub fn look_at_all(&mut self) {
        self.sweep = Some(1);
    }

    /// Ends a change: drops names that do not occur any more. Gives the numbers that are new.
    pub fn settle(&mut self, steps: u32, occurs: impl Fn(u32) -> Occurs) -> Vec<u32> {
        for number in std::mem::take(&mut self.again) {
            self.look(number, occurs(number));
        }
        if let Some(from) = self.sweep {
            let end = from.saturating_add(steps);
            for number in from..end.min(self.all.highest().saturating_add(1)) {
                self.look(number, occurs(number));
            }
            self.sweep = (end <= self.all.highest()).then_some(end);
        }
        std::mem::take(&mut self.new)
    }

    fn look(&mut self, number: u32, occurs: Occurs) {
        if self.get(number).is_empty() {
            return;
        }
        let was = self.all.holders(number) > 0;
        let is = matches!(occurs, Occurs::InPlace);
        self.in_place += u64::from(is && !was);
        self.in_place -= u64::from(was && !is);
        if is != was {
            self.all.set_holders(number, is.into());
        }
        if matches!(occurs, Occurs::Nowhere) {
            self.all.remove(number);
        }
    }
    /// Every name occurs, and those in place are counted; as soon as a sweep is over.
    #[cfg(test)]
    pub fn verify(&self, occurs: impl Fn(u32) -> Occurs) {
        let mut in_place = 0;
        for number in self.all.verify() {
            assert!(!matches!(occurs(number), Occurs::Nowhere) || self.sweep.is_some());
            in_place += u64::from(matches!(occurs(number), Occurs::InPlace));
        }
        assert!(in_place == self.in_place || self.sweep.is_some());
        assert!(self.again.is_empty() && self.new.is_empty());
    }
}
