//! The queued URIs of a group in order, with a look-up by their bytes.
//!
//! A few URIs are in a single [`Page`], which is searched linearly. Larger numbers of URIs are
//! split across several ordered pages, with an index from a hash of each URI to its page. The hash
//! function has a random key, because URIs come from the web. The key differs between processes;
//! saved and replicated data does not depend on it.

use std::collections::BTreeMap;

use crawlspace_compact::index::Index;
use crawlspace_compact::keyed;
use crawlspace_compact::number::Malformed;
use crawlspace_host::defrag::Mover;

use super::encoding::Bytes;
use super::page::{PAGE_BYTES, Page};
use super::record::Records;
pub(super) use super::record::{Position, Record};
use crate::chg::time::Millis;

/// Mask for the hashes. In tests, many URIs have the same hash.
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
    Mixed(Box<Mixed>),
}

impl Default for Pages {
    fn default() -> Self {
        Pages::One(Page::default())
    }
}

impl Queue {
    /// Returns the number of URIs.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the page of a queue that has only one page.
    pub(super) fn only_page(&self) -> Option<&Page> {
        match &self.pages {
            Pages::One(page) => Some(page),
            Pages::Many(_) | Pages::Mixed(_) => None,
        }
    }

    /// Restores a queue of `len` URIs from the result of [`Page::pack`].
    pub(super) fn restore(
        &mut self,
        len: u64,
        base: Millis,
        bytes: &[u8],
    ) -> Result<(), Malformed> {
        self.len = len;
        self.pages = Pages::One(Page::unpack(base, bytes)?);
        Ok(())
    }

    /// Restores the only page of a queue from a file, and visits its URIs; see [`Page::read`].
    pub(super) fn read(&self, each: &mut dyn FnMut(Record<'_>) -> bool) -> bool {
        self.only_page().is_some_and(|page| page.read(each))
    }

    /// Appends URIs, which must be in order, after all queued URIs, and calls `each` with their positions. If they do
    /// not sort after the queued URIs, appends nothing and returns false. Also returns false if one of the URIs is
    /// already queued.
    pub(super) fn extend(
        &mut self,
        records: &mut Records<'_>,
        each: &mut dyn FnMut(Position),
    ) -> Result<bool, Malformed> {
        let mut pages = Page::filled(records)?;
        let Some(first) = pages.first().and_then(Page::first) else {
            return Ok(true);
        };
        if self.first_from(first).is_some() {
            return Ok(false);
        }
        let before = match &mut self.pages {
            Pages::One(page) => std::mem::take(page),
            Pages::Many(_) => Page::default(),
            Pages::Mixed(mixed) => {
                for page in pages {
                    let mut is_new = true;
                    page.walk(Position::default(), &mut |record| {
                        let found = mixed.find(record.place.execution, record.uri);
                        is_new = found.is_none() && *record.uri != [RAW] && mixed.insert(record);
                        if is_new {
                            each(record.place);
                            self.len += 1;
                        }
                        is_new
                    });
                    if !is_new {
                        return Ok(false);
                    }
                }
                return Ok(true);
            }
        };
        if self.len == 0 && pages.len() == 1 {
            let page = pages.remove(0);
            page.walk(Position::default(), &mut |record| {
                each(record.place);
                self.len += 1;
                true
            });
            self.pages = Pages::One(page);
            return Ok(true);
        }
        if let Pages::One(_) = self.pages {
            self.pages = Pages::Many(Box::default());
        }
        let Pages::Many(tree) = &mut self.pages else {
            unreachable!("made above");
        };
        if before.len() > 0 {
            tree.enter(before);
        }
        let mut is_new = true;
        for page in pages {
            page.walk(Position::default(), &mut |record| {
                is_new = is_new && tree.find(record.place.execution, record.uri).is_none();
                each(record.place);
                self.len += 1;
                true
            });
            tree.enter(page);
        }
        Ok(is_new)
    }

    /// Returns the position of a URI.
    pub(super) fn find(&self, execution: u64, uri: &[u8]) -> Option<Position> {
        match &self.pages {
            Pages::One(page) => page.find(execution, uri),
            Pages::Many(tree) => tree.find(execution, uri),
            Pages::Mixed(mixed) => mixed.find(execution, uri),
        }
    }

    /// Inserts a URI that is not queued yet. Returns false if the position of the URI is occupied.
    pub(super) fn insert(&mut self, record: Record<'_>) -> bool {
        let inserted = match &mut self.pages {
            Pages::One(page) => page.insert(record).is_some(),
            Pages::Many(tree) => tree.insert(record),
            Pages::Mixed(mixed) => mixed.insert(record),
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

    /// Removes the URI at a position. Returns the URI and its number of attempts.
    pub(super) fn remove(&mut self, place: Position) -> Option<(u32, Box<[u8]>)> {
        let removed = match &mut self.pages {
            Pages::One(page) => page.remove(place)?,
            Pages::Many(tree) => tree.remove(place)?,
            Pages::Mixed(mixed) => mixed.remove(place)?,
        };
        self.len -= 1;
        if let Pages::Many(tree) = &mut self.pages
            && let Some(page) = tree.single()
        {
            self.pages = Pages::One(page);
        }
        Some(removed)
    }

    /// Returns the first occupied position at or after a position.
    pub(super) fn first_from(&self, place: Position) -> Option<Position> {
        match &self.pages {
            Pages::One(page) => page.first_from(place),
            Pages::Many(tree) => tree
                .pages_from(place)
                .find_map(|page| page.first_from(place)),
            Pages::Mixed(mixed) => match mixed.firsts_from(place) {
                (Some(raw), Some(spelled)) => Some(raw.min(spelled)),
                (raw, spelled) => raw.or(spelled),
            },
        }
    }

    /// Visits the first URI of each depth of an execution, lowest depth first, until `each` returns
    /// false. A crawl proceeds breadth first, so there are few depths at any time.
    pub(super) fn each_depth(&self, execution: u64, mut each: impl FnMut(Position) -> bool) {
        if let Pages::One(page) = &self.pages {
            return page.each_depth(execution, each);
        }
        let mut from = Position::first_of(execution);
        while let Some(first) = self.first_from(from) {
            if first.execution != execution || !each(first) {
                return;
            }
            match first.depth.checked_add(1) {
                Some(depth) => from.depth = depth,
                None => return,
            }
        }
    }

    /// Visits URIs in order, starting with the first URI at or after a position, until `each`
    /// returns false.
    pub(super) fn walk(&self, from: Position, each: &mut dyn FnMut(Record<'_>) -> bool) {
        match &self.pages {
            Pages::One(page) => {
                page.walk(from, each);
            }
            Pages::Many(tree) => {
                tree.pages_from(from).all(|page| page.walk(from, each));
            }
            Pages::Mixed(mixed) => mixed.walk(from, each),
        }
    }

    /// Returns a queue of the same URIs in a different encoding.
    pub(super) fn respelled(&self, spell: Spell<'_>) -> Queue {
        if let Pages::One(page) = &self.pages {
            let page = page.respelled(&mut *spell);
            if page.len() <= PAGE_BYTES || self.len == 1 {
                let pages = Pages::One(page);
                return Queue {
                    len: self.len,
                    pages,
                };
            }
        }
        let mut queue = Queue::default();
        self.walk(Position::default(), &mut |record| {
            let uri = &spell(record.uri);
            queue.insert(Record { uri, ..record })
        });
        queue
    }

    /// Returns true if the queue is mixed, that is, if it may have both raw and compressed URIs.
    pub(super) fn is_mixed(&self) -> bool {
        matches!(self.pages, Pages::Mixed(_))
    }

    /// Converts the queue to a mixed queue. The existing URIs are raw if `are_raw` is true, and
    /// compressed otherwise.
    pub(super) fn mix(&mut self, are_raw: bool) {
        let all = std::mem::take(self);
        self.len = all.len;
        let rest = Queue::default();
        let (raw, spelled) = if are_raw { (all, rest) } else { (rest, all) };
        self.pages = Pages::Mixed(Box::new(Mixed { raw, spelled }));
    }

    /// Translates up to `most` URIs of a mixed queue: compressed URIs to raw URIs if `to_raw` is true,
    /// and raw URIs to compressed URIs otherwise. Returns true once no such URIs are left.
    pub(super) fn translate(&mut self, to_raw: bool, most: usize, spell: Spell<'_>) -> bool {
        let Pages::Mixed(mixed) = &mut self.pages else {
            return true;
        };
        let Mixed { raw, spelled } = &mut **mixed;
        let (from, to) = if to_raw {
            (spelled, raw)
        } else {
            (raw, spelled)
        };
        let mut left = most;
        while left > 0 && from.len > 0 {
            for (place, attempts, uri) in from.take_first(left) {
                left -= 1;
                let uri = &spell(&uri);
                to.insert(Record {
                    place,
                    attempts,
                    uri,
                });
            }
        }
        from.len == 0
    }

    /// Removes and returns some of the first URIs: at least one unless the queue is empty, and at
    /// most `most`.
    fn take_first(&mut self, most: usize) -> Vec<(Position, u32, Bytes)> {
        let taken = match &mut self.pages {
            Pages::One(page) => page.take_first(most),
            Pages::Many(tree) => tree.take_first(most),
            Pages::Mixed(_) => unreachable!("parts are not mixed"),
        };
        self.len -= taken.len() as u64;
        if let Pages::Many(tree) = &mut self.pages
            && let Some(page) = tree.single()
        {
            self.pages = Pages::One(page);
        }
        taken
    }

    /// Converts a mixed queue in which all URIs are raw, or all are compressed, to an ordinary
    /// queue.
    pub(super) fn unmix(&mut self) {
        let Pages::Mixed(mixed) = &mut self.pages else {
            return;
        };
        let Mixed { raw, spelled } = &mut **mixed;
        let all = if spelled.len == 0 { raw } else { spelled };
        self.pages = std::mem::take(&mut all.pages);
    }

    /// Returns the memory use in bytes, without the value itself.
    pub(super) fn memory(&self) -> usize {
        match &self.pages {
            Pages::One(page) => page.memory(),
            Pages::Many(tree) => size_of::<Tree>() + tree.memory(),
            Pages::Mixed(mixed) => size_of::<Mixed>() + mixed.raw.memory() + mixed.spelled.memory(),
        }
    }

    /// Moves a part of the memory to reduce fragmentation, starting at a cursor. Returns the next cursor; 0
    /// at the end.
    pub(super) fn defrag(&mut self, cursor: u64, mover: &mut Mover<'_>) -> u64 {
        /// First cursor of the index of pages; lower cursors are numbers of pages.
        const INDEX: u64 = 1 << 32;
        /// First cursor of the compressed URIs of a mixed queue.
        const SPELLED: u64 = 1 << 40;
        let tree = match &mut self.pages {
            Pages::One(page) => {
                page.defrag(mover);
                return 0;
            }
            Pages::Many(tree) => tree,
            Pages::Mixed(mixed) => {
                return match cursor.checked_sub(SPELLED) {
                    None => match mixed.raw.defrag(cursor, mover) {
                        0 => SPELLED,
                        next => next,
                    },
                    Some(cursor) => match mixed.spelled.defrag(cursor, mover) {
                        0 => 0,
                        next => SPELLED + next,
                    },
                };
            }
        };
        if let Some(number) = cursor.checked_sub(INDEX) {
            let piece = tree.known.piece(number as usize);
            return piece.map_or(0, |piece| {
                mover.list(piece);
                cursor + 1
            });
        }
        let next = tree.pages.range_mut(cursor as u32..).next();
        next.map_or(INDEX, |(number, page)| {
            page.defrag(mover);
            u64::from(*number) + 1
        })
    }

    /// Returns the number of memory blocks to free.
    pub(super) fn pieces(&self) -> usize {
        match &self.pages {
            Pages::One(_) => 1,
            Pages::Many(tree) => tree.pages.len() + tree.known.pieces(),
            Pages::Mixed(mixed) => mixed.raw.pieces() + mixed.spelled.pieces(),
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
        match &self.pages {
            Pages::One(_) => {}
            Pages::Many(tree) => tree.assert_sound(records),
            Pages::Mixed(mixed) => {
                mixed.raw.assert_sound();
                mixed.spelled.assert_sound();
                assert_eq!(mixed.raw.len + mixed.spelled.len, records);
            }
        }
    }
}

/// Translates a URI from one encoding to another.
pub(super) type Spell<'a> = &'a mut dyn FnMut(&[u8]) -> Bytes;

/// First byte of a raw URI in a mixed queue. No compressed URI begins with this byte.
pub(in crate::chg) const RAW: u8 = 0x0b;

/// Returns a raw URI in the form that a mixed queue accepts and returns.
pub(in crate::chg) fn raw_form(uri: &[u8]) -> Bytes {
    let mut form = Bytes::with_capacity(uri.len() + 1);
    form.push(RAW);
    form.extend_from_slice(uri);
    form
}

/// URIs in two encodings, while they are translated from one to the other: as clients use them (raw), and as a packed
/// frontier stores them (compressed). Callers see a raw URI with [`RAW`] before it. Each position is in exactly one
/// of the two queues.
#[derive(Clone, Debug)]
struct Mixed {
    raw: Queue,
    spelled: Queue,
}

impl Mixed {
    fn find(&self, execution: u64, uri: &[u8]) -> Option<Position> {
        match uri {
            [RAW, uri @ ..] => self.raw.find(execution, uri),
            uri => self.spelled.find(execution, uri),
        }
    }

    fn insert(&mut self, record: Record<'_>) -> bool {
        let (queue, other, uri) = match record.uri {
            [RAW, uri @ ..] => (&mut self.raw, &self.spelled, uri),
            uri => (&mut self.spelled, &self.raw, uri),
        };
        other.first_from(record.place) != Some(record.place)
            && queue.insert(Record { uri, ..record })
    }

    fn remove(&mut self, place: Position) -> Option<(u32, Box<[u8]>)> {
        if let Some(removed) = self.spelled.remove(place) {
            return Some(removed);
        }
        let (attempts, uri) = self.raw.remove(place)?;
        Some((attempts, raw_form(&uri)[..].into()))
    }

    /// Returns the first occupied positions of raw and of compressed URIs at or after a position.
    fn firsts_from(&self, place: Position) -> (Option<Position>, Option<Position>) {
        (self.raw.first_from(place), self.spelled.first_from(place))
    }

    fn walk(&self, mut from: Position, each: &mut dyn FnMut(Record<'_>) -> bool) {
        let mut goes_on = true;
        while goes_on {
            let (raw, spelled) = self.firsts_from(from);
            let is_raw = match (raw, spelled) {
                (None, None) => return,
                (Some(raw), Some(spelled)) => raw < spelled,
                (raw, _) => raw.is_some(),
            };
            let (queue, until) = if is_raw {
                (&self.raw, spelled)
            } else {
                (&self.spelled, raw)
            };
            queue.walk(from, &mut |record| {
                if until.is_some_and(|until| until < record.place) {
                    return false;
                }
                from = record.place.next();
                goes_on = if is_raw {
                    let uri = &raw_form(record.uri);
                    each(Record { uri, ..record })
                } else {
                    each(record)
                };
                goes_on
            });
        }
    }
}

/// Several pages.
#[derive(Clone, Debug, Default)]
struct Tree {
    pages: BTreeMap<u32, Page>,
    /// Pages by lower bound: the URIs of a page are at or after its bound, and the URIs of the
    /// previous pages are before this bound.
    order: BTreeMap<Position, u32>,
    /// The number of the page of each URI, by the hash of the URI.
    known: Index,
    /// The number for the next page. If this number is in use, the next free number is taken.
    next: u32,
    /// Memory of all pages in bytes.
    bytes: usize,
}

impl Tree {
    /// Creates a tree from a page that has become too long.
    fn new(page: Page) -> Tree {
        let mut tree = Tree::default();
        let middle = page.len() / 2;
        let first = tree.enter(page);
        tree.split(first, middle);
        tree
    }

    fn hash(execution: u64, uri: &[u8]) -> u32 {
        keyed::hash_of(execution.wrapping_mul(0x9e37_79b9_7f4a_7c15), uri) as u32 & HASHES
    }

    /// Adds a page to the tree.
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

    /// Adds a URI to the index of pages.
    fn note(&mut self, execution: u64, uri: &[u8], page: u32) {
        self.known.add(Self::hash(execution, uri), page);
    }

    /// Removes a URI from the index of pages.
    fn unnote(&mut self, execution: u64, uri: &[u8], page: u32) {
        self.known.remove(Self::hash(execution, uri), page);
    }

    fn page(&self, number: u32) -> &Page {
        self.pages
            .get(&number)
            .expect("every page in the list of pages exists")
    }

    /// Changes a page, and updates the memory use.
    fn change<T>(&mut self, number: u32, change: impl FnOnce(&mut Page) -> T) -> T {
        let page = self.pages.get_mut(&number);
        let page = page.expect("every page in the list of pages exists");
        self.bytes -= page.memory();
        let changed = change(page);
        self.bytes += page.memory();
        changed
    }

    /// Returns the page to which a position belongs, and the bound of the page.
    fn page_of(&self, place: Position) -> (Position, u32) {
        let before = self.order.range(..=place).next_back();
        let page = before.or_else(|| self.order.first_key_value());
        let (&bound, &number) = page.expect("a tree has pages");
        (bound, number)
    }

    /// Returns the pages in order, starting with the page to which a position belongs.
    fn pages_from(&self, place: Position) -> impl Iterator<Item = &Page> {
        let (bound, _) = self.page_of(place);
        let numbers = self.order.range(bound..).map(|(_, &number)| number);
        numbers.map(|number| self.page(number))
    }

    fn find(&self, execution: u64, uri: &[u8]) -> Option<Position> {
        let mut pages = self.known.numbers(Self::hash(execution, uri));
        pages.find_map(|page| self.page(page).find(execution, uri))
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

    /// Splits a page at a byte offset, and splits the resulting pages again while they are too
    /// long.
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

    fn take_first(&mut self, most: usize) -> Vec<(Position, u32, Bytes)> {
        let Some((&bound, &number)) = self.order.first_key_value() else {
            return Vec::new();
        };
        let taken = self.change(number, |page| page.take_first(most));
        for (place, _, uri) in &taken {
            self.unnote(place.execution, uri, number);
        }
        if self.page(number).len() == 0 {
            self.order.remove(&bound);
            self.pages.remove(&number);
        }
        taken
    }

    /// Joins a short page with the next or the previous page if both fit into one page with some
    /// space left.
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

    /// Moves all URIs of a page to the end of the previous page.
    fn append(&mut self, left: u32, (bound, number): (Position, u32)) {
        self.order.remove(&bound);
        let right = self.pages.remove(&number);
        let right = right.expect("every page in the list of pages exists");
        self.bytes -= right.memory();
        right.walk(Position::first_of(0), &mut |record| {
            self.unnote(record.place.execution, record.uri, number);
            self.note(record.place.execution, record.uri, left);
            true
        });
        self.change(left, |page| page.join(&right));
    }

    /// Returns all URIs as a single page, if they are so few that the page has space to grow.
    fn single(&mut self) -> Option<Page> {
        match self.pages.len() {
            0 => Some(Page::default()),
            1 if self.bytes <= PAGE_BYTES / 2 => self.pages.pop_first().map(|(_, page)| page),
            _ => None,
        }
    }

    /// Returns the memory use in bytes. The nodes of a B-tree are two thirds full on average.
    fn memory(&self) -> usize {
        self.bytes + self.known.memory() + self.pages.len() * 120
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
        assert_eq!(self.known.len() as u64, records);
        assert_eq!(
            self.bytes,
            self.pages.values().map(Page::memory).sum::<usize>()
        );
    }
}
