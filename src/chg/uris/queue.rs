//! The queued URIs of a group, in order, and how one is found by its bytes.
//!
//! A few URIs are one [`Page`] and nothing else; one is found by looking at all. More are many pages
//! in order, and an index: a hash of each URI leads to its page. The hash is keyed, because URIs come
//! from the web, and so it differs from process to process; nothing that is written depends on it.

use std::collections::BTreeMap;

use crawlspace_compact::keyed;

use super::page::{PAGE_BYTES, Page};
pub(super) use super::record::{Position, Record};

/// Tests have many URIs with the same hash.
const HASHES: u32 = if cfg!(test) { 0x3ff } else { u32::MAX };

/// Queued URIs.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    len: u64,
    pages: Pages,
}

#[derive(Clone, Debug)]
enum Pages {
    One(Page),
    Many(Box<Tree>),
}

impl Default for Pages {
    fn default() -> Self {
        Pages::One(Page::default())
    }
}

impl Queue {
    /// How many there are.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Where a URI stands.
    pub(super) fn find(&self, execution: u64, uri: &[u8]) -> Option<Position> {
        match &self.pages {
            Pages::One(page) => page.find(execution, uri),
            Pages::Many(tree) => tree.find(execution, uri),
        }
    }

    /// Puts a URI in that is not there. False when its place is taken.
    pub(super) fn insert(&mut self, record: Record<'_>) -> bool {
        let inserted = match &mut self.pages {
            Pages::One(page) => page.insert(record).is_some(),
            Pages::Many(tree) => tree.insert(record),
        };
        self.len += u64::from(inserted);
        if let Pages::One(page) = &mut self.pages
            && page.len() > PAGE_BYTES
            && self.len > 1
        {
            self.pages = Pages::Many(Box::new(Tree::new(std::mem::take(page))));
        }
        inserted
    }

    /// Takes out the URI at a place, with how often it was tried.
    pub(super) fn remove(&mut self, place: Position) -> Option<(u32, Box<[u8]>)> {
        let removed = match &mut self.pages {
            Pages::One(page) => page.remove(place)?,
            Pages::Many(tree) => tree.remove(place)?,
        };
        self.len -= 1;
        if let Pages::Many(tree) = &mut self.pages
            && let Some(page) = tree.single()
        {
            self.pages = Pages::One(page);
        }
        Some(removed)
    }

    /// The first place that is taken, from this one on.
    pub(super) fn first_from(&self, place: Position) -> Option<Position> {
        match &self.pages {
            Pages::One(page) => page.first_from(place),
            Pages::Many(tree) => tree
                .pages_from(place)
                .find_map(|page| page.first_from(place)),
        }
    }

    /// Goes through URIs in order, from the first one at or after a place, until told to stop by
    /// `false`.
    pub(super) fn walk(&self, from: Position, each: &mut dyn FnMut(Record<'_>) -> bool) {
        match &self.pages {
            Pages::One(page) => {
                page.walk(from, each);
            }
            Pages::Many(tree) => {
                tree.pages_from(from).all(|page| page.walk(from, each));
            }
        }
    }

    /// Bytes of memory, besides the value itself.
    pub(super) fn memory(&self) -> usize {
        match &self.pages {
            Pages::One(page) => page.memory(),
            Pages::Many(tree) => size_of::<Tree>() + tree.memory(),
        }
    }

    /// How many pieces of memory there are to free.
    pub(super) fn pieces(&self) -> usize {
        match &self.pages {
            Pages::One(_) => 1,
            // Each node of the index holds six or more.
            Pages::Many(tree) => tree.pages.len() + tree.known.len() / 6,
        }
    }

    #[cfg(test)]
    pub(super) fn assert_sound(&self) {
        let mut records = 0;
        let mut last = None;
        self.walk(Position::first_of(0), &mut |record| {
            assert!(last.is_none_or(|last| last < record.place), "in order");
            last = Some(record.place);
            records += 1;
            assert_eq!(
                self.find(record.place.execution, record.uri),
                Some(record.place)
            );
            true
        });
        assert_eq!(records, self.len);
        if let Pages::Many(tree) = &self.pages {
            tree.assert_sound(records);
        }
    }
}

/// Many pages.
#[derive(Clone, Debug)]
struct Tree {
    pages: BTreeMap<u32, Page>,
    /// Pages by a place that all of their URIs are at or behind, and all URIs of the pages before
    /// are not.
    order: BTreeMap<Position, u32>,
    /// How many URIs of one hash are in a page: the hash in the upper half, the page in the lower.
    /// A count that has reached its highest stays there, which costs a look in vain.
    known: BTreeMap<u64, u8>,
    /// The next number for a page, unless it is in use.
    next: u32,
    /// Bytes of memory of all pages.
    bytes: usize,
}

impl Tree {
    /// What one page has become too small for.
    fn new(page: Page) -> Tree {
        let mut tree = Tree {
            pages: BTreeMap::new(),
            order: BTreeMap::new(),
            known: BTreeMap::new(),
            next: 0,
            bytes: 0,
        };
        let middle = page.len() / 2;
        let first = tree.enter(page);
        tree.split(first, middle);
        tree
    }

    fn hash(execution: u64, uri: &[u8]) -> u32 {
        keyed::hash_of(execution.wrapping_mul(0x9e37_79b9_7f4a_7c15), uri) as u32 & HASHES
    }

    fn entry(hash: u32, page: u32) -> u64 {
        u64::from(hash) << 32 | u64::from(page)
    }

    /// Makes a page part of the tree.
    fn enter(&mut self, page: Page) -> u32 {
        while self.pages.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        let first = page.first().expect("a page holds something");
        self.order.insert(first, number);
        page.walk(Position::first_of(0), &mut |record| {
            self.note(record.place.execution, record.uri, number);
            true
        });
        self.bytes += page.memory();
        self.pages.insert(number, page);
        number
    }

    /// Takes note of where a URI is.
    fn note(&mut self, execution: u64, uri: &[u8], page: u32) {
        let hash = Self::hash(execution, uri);
        let count = self.known.entry(Self::entry(hash, page)).or_insert(0);
        *count = count.saturating_add(1);
    }

    /// Removes a URI from the index of pages.
    fn unnote(&mut self, execution: u64, uri: &[u8], page: u32) {
        let hash = Self::hash(execution, uri);
        let entry = Self::entry(hash, page);
        match self.known.get_mut(&entry) {
            Some(&mut u8::MAX) | None => {}
            Some(count) if *count > 1 => *count -= 1,
            Some(_) => {
                self.known.remove(&entry);
            }
        }
    }

    fn page(&self, number: u32) -> &Page {
        self.pages.get(&number).expect("an ordered page is there")
    }

    /// Changes a page.
    fn change<T>(&mut self, number: u32, change: impl FnOnce(&mut Page) -> T) -> T {
        let page = self.pages.get_mut(&number);
        let page = page.expect("an ordered page is there");
        self.bytes -= page.memory();
        let changed = change(page);
        self.bytes += page.memory();
        changed
    }

    /// The page that a place belongs to, with its bound.
    fn page_of(&self, place: Position) -> (Position, u32) {
        let before = self.order.range(..=place).next_back();
        let page = before.or_else(|| self.order.first_key_value());
        let (&bound, &number) = page.expect("a tree has pages");
        (bound, number)
    }

    /// Pages in order, from the one on that a place belongs to.
    fn pages_from(&self, place: Position) -> impl Iterator<Item = &Page> {
        let (bound, _) = self.page_of(place);
        let numbers = self.order.range(bound..).map(|(_, &number)| number);
        numbers.map(|number| self.page(number))
    }

    fn find(&self, execution: u64, uri: &[u8]) -> Option<Position> {
        let hash = Self::hash(execution, uri);
        let entries = Self::entry(hash, 0)..=Self::entry(hash, u32::MAX);
        self.known
            .range(entries)
            .find_map(|(&entry, _)| self.page(entry as u32).find(execution, uri))
    }

    fn insert(&mut self, record: Record<'_>) -> bool {
        let (bound, number) = self.page_of(record.place);
        let Some(stands) = self.change(number, |page| page.insert(record)) else {
            return false;
        };
        if record.place < bound {
            self.order.remove(&bound);
            self.order.insert(record.place, number);
        }
        self.note(record.place.execution, record.uri, number);
        let page = self.page(number);
        if page.len() > PAGE_BYTES {
            let cut = page.cut(stands);
            self.split(number, cut);
        }
        true
    }

    /// Splits a page at a byte, and the halves in turn while they are too long.
    fn split(&mut self, number: u32, cut: usize) {
        let mut work = vec![(number, cut)];
        while let Some((number, cut)) = work.pop() {
            if self.page(number).len() <= PAGE_BYTES {
                continue;
            }
            let Some(right) = self.change(number, |page| page.split(cut)) else {
                continue;
            };
            right.walk(Position::first_of(0), &mut |record| {
                self.unnote(record.place.execution, record.uri, number);
                true
            });
            let other = self.enter(right);
            work.push((number, self.page(number).len() / 2));
            work.push((other, self.page(other).len() / 2));
        }
    }

    fn remove(&mut self, place: Position) -> Option<(u32, Box<[u8]>)> {
        let (bound, number) = self.page_of(place);
        let removed = self.change(number, |page| page.remove(place))?;
        self.unnote(place.execution, &removed.1, number);
        let len = self.page(number).len();
        if len == 0 {
            self.order.remove(&bound);
            self.pages.remove(&number);
        } else if len < PAGE_BYTES / 4 {
            self.join(bound, number);
        }
        Some(removed)
    }

    /// Joins a page that has become short with the next one or the one before, if both fit into one
    /// and leave some room.
    fn join(&mut self, bound: Position, number: u32) {
        let len = self.page(number).len();
        let fits = |tree: &Tree, other: u32| len + tree.page(other).len() <= PAGE_BYTES / 4 * 3;
        let mut behind = self.order.range(bound..).skip(1);
        let next = behind.next().map(|(&bound, &number)| (bound, number));
        let before = self.order.range(..bound).next_back();
        let before = before.map(|(&bound, &number)| (bound, number));
        if let Some(next) = next.filter(|&(_, next)| fits(self, next)) {
            self.append(number, next);
        } else if let Some((_, before)) = before.filter(|&(_, before)| fits(self, before)) {
            self.append(before, (bound, number));
        }
    }

    /// Moves all of a page to the end of the one before it.
    fn append(&mut self, left: u32, (bound, number): (Position, u32)) {
        self.order.remove(&bound);
        let right = self.pages.remove(&number);
        let right = right.expect("an ordered page is there");
        self.bytes -= right.memory();
        right.walk(Position::first_of(0), &mut |record| {
            self.unnote(record.place.execution, record.uri, number);
            self.note(record.place.execution, record.uri, left);
            true
        });
        self.change(left, |page| page.join(&right));
    }

    /// All of it as one page, when it has become so little that it may grow again.
    fn single(&mut self) -> Option<Page> {
        match self.pages.len() {
            0 => Some(Page::default()),
            1 if self.bytes <= PAGE_BYTES / 2 => self.pages.pop_first().map(|(_, page)| page),
            _ => None,
        }
    }

    /// Nodes of B-trees are two thirds full on average.
    fn memory(&self) -> usize {
        self.bytes + self.known.len() * 15 + self.pages.len() * 120
    }

    #[cfg(test)]
    fn assert_sound(&self, records: u64) {
        assert_eq!(self.pages.len(), self.order.len());
        let mut counted = 0;
        for (&bound, &number) in &self.order {
            let page = self.page(number);
            assert!(page.first().is_some_and(|first| bound <= first));
            let mut inside = 0;
            page.walk(Position::first_of(0), &mut |record| {
                assert_eq!(self.page_of(record.place).1, number);
                inside += 1;
                true
            });
            assert!(inside == 1 || page.len() <= PAGE_BYTES, "{}", page.len());
            counted += inside;
        }
        assert_eq!(counted, records);
        let noted: u64 = self.known.values().map(|&count| u64::from(count)).sum();
        if self.known.values().all(|&count| count < u8::MAX) {
            assert_eq!(noted, records);
        }
        assert_eq!(
            self.bytes,
            self.pages.values().map(Page::memory).sum::<usize>()
        );
    }
}
