//! Names of tags and files that occur in an active or staged copy, with numbers.
//!
//! Each change records the names that may have become unused, checks them, and drops the unused
//! ones. After a whole copy was discarded, an incremental sweep finds the unused names. Each change
//! advances the sweep.

use super::TagId;
use super::dictionary::{Dictionary, MAX_NUMBER};

/// The names of tags and files. All copies of all kinds use the same numbers. Therefore a closure
/// can include tags of all kinds, and a scan can continue after a staged copy becomes active.
#[derive(Clone, Default)]
pub struct Names {
    pub tags: List,
    /// Filenames of records.
    pub files: List,
}

impl Names {
    /// Returns the number of a tag.
    pub fn tag(&self, name: &[u8]) -> Option<TagId> {
        self.tags.find(name).map(TagId)
    }

    /// Returns the number of a tag. Assigns a number if the tag has none.
    pub fn number(&mut self, name: &[u8]) -> TagId {
        TagId(self.tags.number(name))
    }

    /// Returns the name of a tag.
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
    /// All names. Each name that occurs in an active copy has one holder.
    all: Dictionary<u8>,
    in_place: u64,
    /// Numbers to check at the end of the change.
    again: Vec<u32>,
    /// Numbers that had no name, or a different name, before this change.
    new: Vec<u32>,
    /// The next number that the sweep checks.
    sweep: Option<u32>,
}

/// The copies in which a name occurs.
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

    /// Returns the number of names that occur in active copies.
    pub fn in_place(&self) -> u64 {
        self.in_place
    }

    /// Returns the highest number that is assigned to a name.
    pub fn highest(&self) -> u32 {
        self.all.highest()
    }

    /// Returns true if enough numbers are free for `more` names.
    pub fn has_room_for(&self, more: usize) -> bool {
        more < (MAX_NUMBER - self.all.len()) as usize
    }

    /// Returns the number of a name. Assigns a number if the name has none.
    pub fn number(&mut self, name: &[u8]) -> u32 {
        if let Some(number) = self.find(name) {
            return number;
        }
        let number = self.all.insert(name);
        self.new.push(number);
        self.again.push(number);
        number
    }

    /// Schedules a check of a name at the end of the change.
    pub fn look_again(&mut self, number: u32) {
        self.again.push(number);
    }

    /// Schedules an incremental check of all names.
    pub fn look_at_all(&mut self) {
        self.sweep = Some(1);
    }

    /// Ends a change: drops unused names. Returns the new numbers.
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
    /// Checks that every name is used, and that the count of names in active copies is correct.
    /// Both conditions hold only after a sweep has ended.
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
