//! Spaces: the URLs that one execution, or several executions that share a space, have discovered.

use std::collections::BTreeMap;

use siphasher::sip128::{Hash128, SipHasher13};

use super::extra::Extra;
use super::limits::{Limits, Recounting};
use super::record::Known;
use super::short::Short;
use super::table::{Place, Table, position};
use super::text::Texts;

/// A fingerprint of a URL.
pub type Print = Short<12>;

/// Number of different fingerprints that are tried for a URL.
const TRIES: u64 = 4;

/// Difference between the fingerprints that are tried: the golden ratio as a 64-bit fraction,
/// rounded to an odd number.
const STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;

/// The fingerprints of a URL, in the order in which they are tried.
#[derive(Clone, Copy, Debug)]
pub struct Prints {
    hash: Hash128,
    len: usize,
    tried: u64,
}

impl Iterator for Prints {
    type Item = Print;

    fn next(&mut self) -> Option<Print> {
        if self.tried == TRIES {
            return None;
        }
        let first = self.hash.h1.wrapping_add(self.tried.wrapping_mul(STRIDE));
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&first.to_le_bytes());
        bytes[8..].copy_from_slice(&self.hash.h2.to_le_bytes()[..4]);
        self.tried += 1;
        Some(Print::new(bytes, self.len))
    }
}

/// The layout of the records of a space. It never changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// True if fingerprints have 96 bits instead of 64.
    pub is_wide: bool,
    /// True if several executions can share the space.
    pub is_shared: bool,
    /// True if the texts of URLs are kept after the URLs are done or given up.
    pub keeps_text: bool,
}

impl Shape {
    /// Returns the length of a fingerprint in bytes.
    pub(in crate::chg) fn print_bytes(self) -> usize {
        if self.is_wide { 12 } else { 8 }
    }

    /// Returns the width of a record in bytes.
    pub(in crate::chg) fn width(self) -> usize {
        Known::width(self.print_bytes(), self.is_shared)
    }
}

/// The records of a space, by their width.
#[derive(Clone)]
enum Records {
    Narrow(Table<16>),
    Middle(Table<20>),
    Wide(Table<24>),
}

/// Calls a method of the records of a space.
macro_rules! records {
    ($records:expr, $table:ident => $call:expr) => {
        match $records {
            Records::Narrow($table) => $call,
            Records::Middle($table) => $call,
            Records::Wide($table) => $call,
        }
    };
}

impl Records {
    fn new(width: usize) -> Records {
        match width {
            17 => Records::Narrow(Table::default()),
            21 => Records::Middle(Table::default()),
            _ => Records::Wide(Table::default()),
        }
    }
}

/// The URLs that one or more executions know.
#[derive(Clone)]
pub struct Space {
    shape: Shape,
    /// Secret key of the fingerprints.
    secret: [u8; 16],
    records: Records,
    /// Texts of URLs that are neither queued nor leased.
    texts: Texts,
    /// Additions to the records of queued and leased URLs, by fingerprint.
    extras: BTreeMap<Print, Box<[u8]>>,
    /// Size of the additions, in bytes.
    extra_bytes: usize,
    /// The executions that use the space, by number.
    members: BTreeMap<u32, Box<[u8]>>,
}

impl Space {
    fn new(shape: Shape, secret: [u8; 16]) -> Space {
        Space {
            shape,
            secret,
            records: Records::new(shape.width()),
            texts: Texts::new(shape.print_bytes()),
            extras: BTreeMap::new(),
            extra_bytes: 0,
            members: BTreeMap::new(),
        }
    }

    /// Returns the layout of the records.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the secret key of the fingerprints.
    pub fn secret(&self) -> &[u8; 16] {
        &self.secret
    }

    /// Returns the number of known URLs.
    pub fn len(&self) -> u64 {
        records!(&self.records, table => table.len())
    }

    /// Returns true if no URL is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the fingerprints of a URL.
    pub fn prints(&self, url: &[u8]) -> Prints {
        Prints {
            hash: SipHasher13::new_with_key(&self.secret).hash(url),
            len: self.shape.print_bytes(),
            tried: 0,
        }
    }

    /// Prefetches the memory in which the records of URLs with these fingerprints are searched.
    pub(in crate::chg) fn prefetch(&self, prints: &[Prints]) {
        let hashes = prints.iter().map(|prints| prints.hash.h1);
        records!(&self.records, table => table.prefetch(hashes));
    }

    /// Returns the place of a fingerprint, and the record of its URL.
    pub(in crate::chg) fn find(&self, print: &[u8]) -> (Place, Option<Known>) {
        let (place, record) = records!(&self.records, table => table.find(print));
        (
            place,
            record.and_then(|record| Known::read(&record, print.len())),
        )
    }

    /// Returns the record of the URL with a fingerprint. Accepts any fingerprint of at least 8 bytes, because logs
    /// may contain any bytes.
    pub fn get(&self, print: &[u8]) -> Option<Known> {
        if print.len() != self.shape.print_bytes() {
            return None;
        }
        self.find(print).1
    }

    /// Returns true if the record of any URL has additions.
    pub fn has_extras(&self) -> bool {
        !self.extras.is_empty()
    }

    /// Returns the additions to the record of the queued or leased URL with a fingerprint.
    pub fn extra(&self, print: &[u8]) -> Extra<'_> {
        let bytes = self.extras.get(print);
        bytes.map_or(Extra::default(), |bytes| Extra::read(bytes))
    }

    /// Returns the additions to the records of all URLs, in their stored form.
    pub(in crate::chg) fn extras(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let extras = self.extras.iter();
        extras.map(|(print, bytes)| (&print[..], &bytes[..]))
    }

    /// Returns the stored text of a URL that is neither queued nor leased, if the space keeps texts.
    pub(in crate::chg) fn text(&self, print: &[u8]) -> Option<&[u8]> {
        self.texts.get(print)
    }

    /// Visits the fingerprints of some stored texts, as a step of a walk that starts at 0. Returns the position of the
    /// next step.
    pub(in crate::chg) fn prints_with_text(
        &self,
        from: u64,
        each: &mut dyn FnMut(&[u8]),
    ) -> Option<u64> {
        self.texts.page(from, each)
    }

    /// Returns the number of stored texts.
    pub(in crate::chg) fn texts(&self) -> u64 {
        self.texts.len()
    }

    fn set_extra(&mut self, print: &[u8], bytes: &[u8]) {
        let before = if bytes.is_empty() {
            self.extras.remove(print)
        } else {
            self.extras.insert(Print::of(print), bytes.into())
        };
        self.extra_bytes += bytes.len();
        self.extra_bytes -= before.map_or(0, |before| before.len());
    }

    /// Returns the expected number of new URLs that are mistaken for known URLs: n²/2⁶⁵, or n²/2⁹⁷ with wide
    /// fingerprints.
    pub fn expected_lost(&self) -> f64 {
        let n = self.len() as f64;
        let bits = if self.shape.is_wide { 97 } else { 65 };
        n * n / f64::exp2(f64::from(bits))
    }

    /// Returns the execution that discovered a URL.
    fn discoverer(&self, known: &Known) -> Option<&[u8]> {
        let execution = if self.shape.is_shared {
            self.members.get(&known.member)
        } else {
            self.members.values().next()
        };
        execution.map(|execution| &**execution)
    }

    /// Returns some records, as a step of a walk that starts at 0.
    pub(in crate::chg) fn page(&self, from: u64) -> (Vec<(Print, Known)>, Option<u64>) {
        let len = self.shape.print_bytes();
        let mut urls = Vec::new();
        let next = records!(&self.records, table => table.page(from, &mut |record| {
            let known = Known::read(record, len);
            urls.extend(known.map(|known| (Print::of(&record[..len]), known)));
        }));
        (urls, next)
    }

    /// Returns some records with their positions, in order, as a step of a walk.
    pub(in crate::chg) fn ordered(&self, from: u64) -> (Vec<(u64, Print, Known)>, Option<u64>) {
        let (urls, next) = self.page(from);
        let urls = urls.into_iter();
        let mut urls: Vec<_> = urls
            .map(|(print, known)| (position(&print), print, known))
            .collect();
        urls.sort_unstable_by_key(|(position, ..)| *position);
        (urls, next)
    }

    /// Returns some records in their stored form, as a step of a walk.
    pub(in crate::chg) fn stored(&self, from: u64) -> (Vec<u8>, Option<u64>) {
        let mut bytes = Vec::new();
        let each = &mut |record: &[u8]| bytes.extend_from_slice(record);
        let next = records!(&self.records, table => table.page(from, each));
        (bytes, next)
    }
}

/// An execution with a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Name of its space.
    pub space: Box<[u8]>,
    /// Number of the execution within the space.
    pub number: u32,
    /// Number of URLs in each state.
    pub counts: [u64; 4],
}

/// All spaces of a frontier.
#[derive(Clone, Default)]
pub struct Spaces {
    members: BTreeMap<Box<[u8]>, Member>,
    spaces: BTreeMap<Box<[u8]>, Space>,
    /// Limits of groups by the number of done URLs.
    pub limits: Limits,
    /// Stored texts that were removed, but whose symbol tables were not released yet.
    pub(in crate::chg) removed: Vec<Vec<u8>>,
    /// Time of the last change, in units of ten minutes.
    pub clock: u32,
}

/// A reason why a space cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// The execution has a different space.
    Other,
    /// The space exists, but has a different layout.
    Shape,
}

/// Returns the name of the space of one execution, or of a shared space.
pub fn name_of(execution: &[u8], share: Option<&[u8]>) -> Box<[u8]> {
    match share {
        Some(share) => [b"s", share].concat().into(),
        None => [b"e", execution].concat().into(),
    }
}

impl Spaces {
    /// Returns true if no execution has a space.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns an execution that has a space.
    pub fn member(&self, execution: &[u8]) -> Option<&Member> {
        self.members.get(execution)
    }

    /// Returns all executions that have a space.
    pub fn members(&self) -> impl Iterator<Item = (&[u8], &Member)> {
        let members = self.members.iter();
        members.map(|(execution, member)| (&**execution, member))
    }

    /// Returns a space.
    pub fn space(&self, name: &[u8]) -> Option<&Space> {
        self.spaces.get(name)
    }

    /// Returns all spaces, by name.
    pub fn spaces(&self) -> impl Iterator<Item = (&[u8], &Space)> {
        self.spaces.iter().map(|(name, space)| (&**name, space))
    }

    /// Returns the space of an execution.
    pub fn of(&self, execution: &[u8]) -> Option<(&Member, &Space)> {
        let member = self.member(execution)?;
        Some((member, self.spaces.get(&member.space)?))
    }

    /// Returns the name of the execution with a number in a space.
    pub fn execution(&self, space: &[u8], number: u32) -> Option<&[u8]> {
        let execution = self.spaces.get(space)?.members.get(&number)?;
        Some(execution)
    }

    /// Assigns an execution to a space, which is created if it does not exist. The execution gets the given number in
    /// the space or, without one, the next number.
    ///
    /// # Errors
    /// Fails if the execution has another space, if the space has another layout, or if the number belongs to another
    /// execution.
    pub fn join(
        &mut self,
        execution: &[u8],
        name: &[u8],
        shape: Shape,
        secret: [u8; 16],
        number: Option<u32>,
    ) -> Result<(), Misfit> {
        if let Some(member) = self.members.get(execution)
            && *member.space != *name
        {
            return Err(Misfit::Other);
        }
        let new = || Space::new(shape, secret);
        let space = match self.spaces.get_mut(name) {
            Some(space) if space.shape != shape => return Err(Misfit::Shape),
            Some(space) => space,
            None => self.spaces.entry(name.into()).or_insert_with(new),
        };
        if self.members.contains_key(execution) {
            return Ok(());
        }
        let last = space.members.last_key_value();
        let next = last.map_or(0, |(number, _)| number.saturating_add(1));
        let number = number.unwrap_or(next);
        if space.members.contains_key(&number) {
            return Err(Misfit::Other);
        }
        space.members.insert(number, execution.into());
        let member = Member {
            space: name.into(),
            number,
            counts: [0; 4],
        };
        self.members.insert(execution.into(), member);
        Ok(())
    }

    /// Removes an execution without known URLs from its space. The space is deleted with its last execution.
    pub fn leave(&mut self, execution: &[u8]) {
        let Some(member) = self.members.remove(execution) else {
            return;
        };
        if let Some(space) = self.spaces.get_mut(&member.space) {
            space.members.remove(&member.number);
            if space.members.is_empty() {
                self.spaces.remove(&member.space);
            }
        }
    }

    /// Stores the record of a URL; `None` forgets the URL. Returns the previous record.
    pub fn set(&mut self, name: &[u8], print: &[u8], known: Option<Known>) -> Option<Known> {
        self.set_at(name, print, None, known)
    }

    /// Works like [`Spaces::set`], but searches for the place of the record only if no place is
    /// given.
    pub(in crate::chg) fn set_at(
        &mut self,
        name: &[u8],
        print: &[u8],
        place: Option<Place>,
        known: Option<Known>,
    ) -> Option<Known> {
        let space = self.spaces.get_mut(name)?;
        if print.len() != space.shape.print_bytes() {
            return None;
        }
        let before = match known {
            Some(known) => {
                let record = known.write(print, space.shape.width());
                records!(&mut space.records, table => table.put(place, print.len(), &record))
            }
            None => records!(&mut space.records, table => table.remove(print)),
        };
        let before = before.and_then(|record| Known::read(&record, print.len()));
        if space.texts.len() > 0 && known.is_none_or(|known| known.state.has_text()) {
            self.removed.extend(space.texts.take(print));
        }
        if !space.extras.is_empty() && known.is_none_or(|known| !known.state.has_text()) {
            space.set_extra(print, b"");
        }
        if before.is_none() && known.is_none() {
            return None;
        }
        let space = &*space;
        for (known, change) in [(before, u64::MAX), (known, 1)] {
            let execution = known.and_then(|known| space.discoverer(&known));
            let member = execution.and_then(|id| self.members.get_mut(id));
            if let (Some(known), Some(member)) = (known, member) {
                let count = &mut member.counts[known.state as usize];
                *count = count.wrapping_add(change);
            }
        }
        if !self.limits.is_off() {
            let whose = |known: Option<Known>| {
                let known = known?;
                Some((space.discoverer(&known)?, known))
            };
            let changed = [whose(before), whose(known)];
            self.limits.change(name, position(print), changed);
        }
        before
    }

    /// Stores the additions to the record of a queued or leased URL, in the form of [`Extra::write`].
    pub(in crate::chg) fn set_extra(&mut self, name: &[u8], print: &[u8], bytes: &[u8]) {
        let Some(space) = self.spaces.get_mut(name) else {
            return;
        };
        if space.get(print).is_some_and(|known| known.state.has_text()) {
            space.set_extra(print, bytes);
        }
    }

    /// Stores the text of a URL that is neither queued nor leased, in a space that keeps texts.
    pub(in crate::chg) fn set_text(&mut self, name: &[u8], print: &[u8], text: Vec<u8>) {
        let space = self.spaces.get_mut(name);
        let Some(space) = space.filter(|space| space.shape.keeps_text) else {
            self.removed.push(text);
            return;
        };
        if space.get(print).is_none_or(|known| known.state.has_text()) {
            self.removed.push(text);
            return;
        }
        self.removed.extend(space.texts.take(print));
        space.texts.put(print, &text);
    }

    /// Replaces a stored text; `None` removes it. The record of the URL does not change.
    #[cfg(test)]
    pub(in crate::chg) fn damage_text(&mut self, name: &[u8], print: &[u8], text: Option<&[u8]>) {
        let space = self.spaces.get_mut(name).expect("a space");
        self.removed.extend(space.texts.take(print));
        if let Some(text) = text {
            space.texts.put(print, text);
        }
    }

    /// Counts the next URLs of a recount. Returns false at the end of the recount.
    pub(in crate::chg) fn recount_some(&mut self, recounting: &Recounting, name: &[u8]) -> bool {
        let Some(from) = self.limits.position(recounting) else {
            return false;
        };
        let Some(space) = self.spaces.get(name) else {
            self.limits
                .recount_some(recounting, std::iter::empty(), None);
            return false;
        };
        let (urls, next) = space.page(from);
        let urls = urls.iter().filter_map(|(_, known)| {
            let execution = space.discoverer(known)?;
            Some((execution, *known))
        });
        self.limits.recount_some(recounting, urls, next);
        next.is_some()
    }

    /// Adds records as they are stored.
    ///
    /// # Errors
    /// Returns a description of the error in the records.
    pub fn load(&mut self, name: &[u8], records: &[u8]) -> Result<(), &'static str> {
        let space = self
            .spaces
            .get(name)
            .ok_or("has URLs of an unknown space")?;
        let (width, len) = (space.shape.width(), space.shape.print_bytes());
        if !records.len().is_multiple_of(width) {
            return Err("has an incomplete URL");
        }
        for record in records.chunks_exact(width) {
            let known = Known::read(record, len).ok_or("has a URL with an invalid status")?;
            self.set(name, &record[..len], Some(known));
        }
        Ok(())
    }

    /// Returns the memory use in bytes.
    pub fn memory(&self) -> usize {
        let spaces = self.spaces.values();
        let each = spaces.map(|space| {
            let texts = space.texts.memory();
            records!(&space.records, table => table.memory())
                + texts
                + space.extras.len() * 96
                + space.extra_bytes
        });
        each.sum::<usize>() + (self.members.len() + self.spaces.len()) * 240 + self.limits.memory()
    }

    /// Returns the number of memory blocks.
    pub fn pieces(&self) -> usize {
        let spaces = self.spaces.values();
        let each = spaces.map(|space| {
            records!(&space.records, table => table.pieces())
                + space.texts.pieces()
                + space.extras.len()
        });
        each.sum::<usize>() + self.limits.pieces()
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::State;
    use super::*;

    #[test]
    fn fingerprint_of_another_length_is_unknown() {
        let mut spaces = Spaces::default();
        let joined = spaces.join(b"a", b"ea", Shape::default(), [0; 16], None);
        assert_eq!(joined, Ok(()));
        let known = Known {
            state: State::Queued,
            attempts: 0,
            status: None,
            changed: 1,
            group: 2,
            member: 0,
        };
        let record = known.write(&[7; 8], 17);
        spaces.set(b"ea", &[7; 8], Some(known));
        spaces.set_extra(b"ea", &record, b"extra");
        spaces.set_extra(b"ea", &[7; 12], b"extra");
        let space = spaces.space(b"ea").unwrap();
        assert!(!space.has_extras());
        assert_eq!(space.get(&[7; 8]), Some(known));
        assert_eq!(space.get(&record), None);
    }

    #[test]
    fn executions_of_a_shared_space_have_numbers_of_their_own() {
        let shape = Shape {
            is_shared: true,
            ..Shape::default()
        };
        let mut spaces = Spaces::default();
        let mut join = |execution: &[u8], number| {
            let joined = spaces.join(execution, b"sall", shape, [0; 16], number);
            joined.map(|()| spaces.member(execution).map(|member| member.number))
        };
        assert_eq!(join(b"a", None), Ok(Some(0)));
        assert_eq!(join(b"b", Some(7)), Ok(Some(7)));
        assert_eq!(join(b"c", None), Ok(Some(8)));
        assert_eq!(join(b"c", Some(9)), Ok(Some(8)));
        assert_eq!(join(b"d", Some(7)), Err(Misfit::Other));
        assert_eq!(spaces.execution(b"sall", 7), Some(&b"b"[..]));
        spaces.leave(b"b");
        assert_eq!(spaces.execution(b"sall", 7), None);
        spaces.leave(b"a");
        spaces.leave(b"c");
        assert!(spaces.is_empty() && spaces.space(b"sall").is_none());
    }
}
