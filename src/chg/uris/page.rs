//! A page of queued URIs: up to about two kilobytes of records in one block of memory.

use smallvec::SmallVec;

use crawlspace_compact::number::{self, Malformed, Reader, put};
use crawlspace_host::defrag::Mover;

use super::encoding::Bytes;
use super::queue::Spell;
use super::record::{Heads, Position, Record, RecordHead, Records, append, append_rest, shared};
use crate::chg::time::{Millis, unzigzag, zigzag};

/// Maximum size of a page in bytes, except for a page with a single URI. With longer pages, each
/// URI takes less memory, but each change takes more time.
pub(super) const PAGE_BYTES: usize = 2048;

/// Maximum size of a record without its URI, in bytes.
const HEAD_BYTES: usize = 64;

/// Records in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Page(Vec<u8>);

/// The position of an inserted record in the page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stands {
    start: usize,
    end: usize,
    /// True if the next record has the same execution and depth.
    run_goes_on: bool,
}

/// Rounds a size up to the next size class of jemalloc, so that growing a page rarely needs a new
/// block.
fn rounded(bytes: usize) -> usize {
    let step = (bytes.next_power_of_two() / 8).max(16);
    bytes.next_multiple_of(step)
}

/// The bytes of records before a number, the number, and the bytes after the number.
type Around<'a> = (&'a [u8], u64, &'a [u8]);

/// Splits records at the number that follows the kind, the execution and the depth of the first
/// record.
fn split_first(bytes: &[u8]) -> Result<Option<Around<'_>>, Malformed> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut from = Reader::new(bytes);
    from.byte()?;
    from.number()?;
    from.number()?;
    let before = &bytes[..from.at()];
    let number = from.number()?;
    Ok(Some((before, number, from.rest())))
}

/// A reader of records that the module has written.
struct Walk<'a>(Records<'a>);

impl<'a> Walk<'a> {
    fn peek(&self) -> Option<RecordHead<'a>> {
        self.0.peek().expect("a page is whole")
    }

    fn step(&mut self) -> Option<Record<'_>> {
        if !self.0.next().expect("a page is whole") {
            return None;
        }
        self.0.record()
    }
}

/// Skips the records before a position, and returns the next record. `common` is the length of the common prefix
/// of `uri` and the URI of the last skipped record.
fn seek<'a>(
    heads: &mut Heads<'a>,
    place: Position,
    uri: &[u8],
    common: &mut usize,
) -> Option<RecordHead<'a>> {
    loop {
        heads.skip_run(place, uri, common);
        match heads.peek().expect("a page is whole") {
            Some(head) if head.place < place => {
                *common = head.common(*common, uri);
                heads.accept(&head);
            }
            head => return head,
        }
    }
}

impl Page {
    fn records(&self) -> Walk<'_> {
        Walk(Records::new(&self.0))
    }

    /// Visits the heads of records until `each` returns false. Returns the reader, positioned before the record for
    /// which `each` returned false.
    fn skip<'a>(
        &'a self,
        mut each: impl FnMut(&RecordHead<'a>) -> bool,
    ) -> (Heads<'a>, Option<RecordHead<'a>>) {
        let mut heads = Heads::new(&self.0);
        loop {
            let head = heads.peek().expect("a page is whole");
            match head {
                Some(head) if each(&head) => heads.accept(&head),
                _ => return (heads, head),
            }
        }
    }

    /// Skips the records before a position. Returns the reader, the next record, and the length of the common prefix of
    /// `uri` and the URI of the last skipped record.
    fn skip_to(&self, place: Position, uri: &[u8]) -> (Heads<'_>, Option<RecordHead<'_>>, usize) {
        let mut heads = Heads::new(&self.0);
        let mut common = 0;
        let next = seek(&mut heads, place, uri, &mut common);
        (heads, next, common)
    }

    /// Appends the records. The due time of the first record becomes relative to a base.
    pub(super) fn pack(&self, base: Millis, out: &mut Vec<u8>) {
        let split = split_first(&self.0).expect("a page is whole");
        if let Some((before, due, after)) = split {
            out.extend_from_slice(before);
            put(out, zigzag(due, base));
            out.extend_from_slice(after);
        }
    }

    /// Restores a page from the result of [`Page::pack`].
    pub(super) fn unpack(base: Millis, packed: &[u8]) -> Result<Page, Malformed> {
        let mut bytes = Vec::with_capacity(rounded(packed.len() + number::MAX_BYTES));
        if let Some((before, due, after)) = split_first(packed)? {
            bytes.extend_from_slice(before);
            put(&mut bytes, unzigzag(due, base));
            bytes.extend_from_slice(after);
        }
        Ok(Page(bytes))
    }

    /// Returns the length of the records in bytes.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the memory use in bytes.
    pub(super) fn memory(&self) -> usize {
        self.0.capacity()
    }

    /// Moves the memory, to reduce fragmentation.
    pub(super) fn defrag(&mut self, mover: &mut Mover<'_>) {
        mover.list(&mut self.0);
    }

    /// Returns the position of the first URI.
    pub(super) fn first(&self) -> Option<Position> {
        self.records().peek().map(|head| head.place)
    }

    /// Returns the first occupied position at or after a position.
    pub(super) fn first_from(&self, place: Position) -> Option<Position> {
        let (_, found, _) = self.skip_to(place, b"");
        found.map(|head| head.place)
    }

    /// Visits the first URI of each depth of an execution; see [`Queue::each_depth`](super::queue::Queue::each_depth).
    pub(super) fn each_depth(&self, execution: u64, mut each: impl FnMut(Position) -> bool) {
        let mut heads = Heads::new(&self.0);
        let mut from = Position::first_of(execution);
        while let Some(first) = seek(&mut heads, from, b"", &mut 0) {
            if first.place.execution != execution || !each(first.place) {
                return;
            }
            match first.place.depth.checked_add(1) {
                Some(depth) => from.depth = depth,
                None => return,
            }
            heads.accept(&first);
        }
    }

    /// Returns the position of a URI.
    pub(super) fn find(&self, execution: u64, uri: &[u8]) -> Option<Position> {
        let mut common = 0;
        let (_, found) = self.skip(|head| {
            common = head.common(common, uri);
            let is_it = common == uri.len() && head.uri_len() == uri.len();
            !(is_it && head.place.execution == execution)
        });
        found.map(|head| head.place)
    }

    /// Visits URIs, starting at a position, until `each` returns false. Returns false if `each` returned
    /// false.
    pub(super) fn walk(&self, from: Position, each: &mut dyn FnMut(Record<'_>) -> bool) -> bool {
        let mut records = self.records();
        while let Some(record) = records.step() {
            if record.place >= from && !each(record) {
                return false;
            }
        }
        true
    }

    /// Returns the same records with URIs in a different encoding. The resulting page may be too
    /// long.
    pub(super) fn respelled(&self, spell: Spell<'_>) -> Page {
        let mut bytes = Vec::with_capacity(self.len() + 64);
        let mut last: Option<(Position, Bytes)> = None;
        let mut records = self.records();
        while let Some(record) = records.step() {
            let uri = spell(record.uri);
            let before = last.as_ref().map(|(place, uri)| Record {
                place: *place,
                attempts: 0,
                uri,
            });
            append(
                &mut bytes,
                before,
                Record {
                    uri: &uri,
                    ..record
                },
            );
            last = Some((record.place, uri));
        }
        Page::of(&bytes)
    }

    /// Visits the URIs of a page from a file. Returns false if `each` returned false, or if the page is malformed.
    pub(super) fn read(&self, each: &mut dyn FnMut(Record<'_>) -> bool) -> bool {
        let mut records = Records::new(&self.0);
        while let Ok(is_there) = records.next() {
            match records.record() {
                _ if !is_there => return true,
                Some(record) if each(record) => {}
                _ => return false,
            }
        }
        false
    }

    /// Fills new pages with URIs, in order.
    pub(super) fn filled(records: &mut Records<'_>) -> Result<Vec<Page>, Malformed> {
        let mut pages = Vec::new();
        let mut bytes = Vec::with_capacity(PAGE_BYTES);
        let mut last: Option<(Position, SmallVec<[u8; 256]>)> = None;
        while records.next()? {
            let record = records.record().ok_or(Malformed::TRUNCATED)?;
            if !bytes.is_empty() && bytes.len() + HEAD_BYTES + record.uri.len() > PAGE_BYTES {
                pages.push(Page::of(&bytes));
                bytes.clear();
                last = None;
            }
            let before = last.as_ref().map(|(place, uri)| Record {
                place: *place,
                attempts: 0,
                uri,
            });
            append(&mut bytes, before, record);
            last = Some((record.place, SmallVec::from_slice(record.uri)));
        }
        if !bytes.is_empty() {
            pages.push(Page::of(&bytes));
        }
        Ok(pages)
    }

    fn of(records: &[u8]) -> Page {
        let mut bytes = Vec::with_capacity(rounded(records.len()));
        bytes.extend_from_slice(records);
        Page(bytes)
    }

    /// Inserts a URI. Returns `None` if its position is occupied.
    pub(super) fn insert(&mut self, record: Record<'_>) -> Option<Stands> {
        let (heads, after, common) = self.skip_to(record.place, record.uri);
        if after.is_some_and(|after| after.place == record.place) {
            return None;
        }
        let start = heads.at();
        let mut patch = Vec::with_capacity(record.uri.len() + 64);
        let uri = &record.uri[common..];
        append_rest(
            &mut patch,
            heads.place(),
            Record { uri, ..record },
            (common, b""),
        );
        let end = start + patch.len();
        let mut replaced = start;
        let mut run_goes_on = false;
        if let Some(after) = after {
            let shared = after.common(common, record.uri);
            let before;
            let more: &[u8] = if shared < after.shared {
                // The following URI shares fewer bytes with the new URI than with the URI before
                // it.
                before = self.uri_before(start);
                &before[shared..after.shared]
            } else {
                b""
            };
            let rest = Record {
                place: after.place,
                attempts: after.attempts,
                uri: &after.rest[shared.saturating_sub(after.shared)..],
            };
            append_rest(&mut patch, Some(record.place), rest, (shared, more));
            run_goes_on = (after.place.execution, after.place.depth)
                == (record.place.execution, record.place.depth);
            replaced = after.end;
        }
        self.replace(start, replaced, &patch);
        Some(Stands {
            start,
            end,
            run_goes_on,
        })
    }

    /// Returns the URI of the record that ends at an offset.
    fn uri_before(&self, end: usize) -> Bytes {
        let mut records = self.records();
        while records.0.at() < end && records.step().is_some() {}
        records
            .0
            .record()
            .map_or_else(Bytes::new, |record| record.uri.into())
    }

    /// Removes the URI at a position.
    pub(super) fn remove(&mut self, place: Position) -> Option<(u32, Box<[u8]>)> {
        let (mut heads, found, _) = self.skip_to(place, b"");
        let found = found.filter(|found| found.place == place)?;
        let (start, before) = (heads.at(), heads.place());
        let prior = before.map_or_else(Bytes::new, |_| self.uri_before(start));
        let mut uri = Vec::with_capacity(found.uri_len());
        uri.extend_from_slice(&prior[..found.shared]);
        uri.extend_from_slice(found.rest);
        heads.accept(&found);
        let mut patch = Vec::new();
        let mut replaced = found.end;
        if let Some(after) = heads.peek().expect("a page is whole") {
            // The following URI shares with the preceding URI the bytes that both share with the removed URI,
            // unless both differ from the removed URI at the same byte.
            let shared = if after.shared == found.shared {
                found.shared + shared(&prior[found.shared..], after.rest)
            } else {
                found.shared.min(after.shared)
            };
            let more = &uri[shared.min(after.shared)..after.shared];
            let rest = Record {
                place: after.place,
                attempts: after.attempts,
                uri: &after.rest[shared.saturating_sub(after.shared)..],
            };
            patch.reserve(HEAD_BYTES + more.len() + rest.uri.len());
            append_rest(&mut patch, before, rest, (shared, more));
            replaced = after.end;
        }
        let attempts = found.attempts;
        self.replace(start, replaced, &patch);
        Some((attempts, uri.into()))
    }

    /// Removes up to `most` of the first records.
    pub(super) fn take_first(&mut self, most: usize) -> Vec<(Position, u32, Bytes)> {
        let mut taken = Vec::with_capacity(most.min(64));
        let mut records = self.records();
        while taken.len() < most
            && let Some(record) = records.step()
        {
            taken.push((record.place, record.attempts, record.uri.into()));
        }
        let mut patch = Vec::new();
        if let Some(first) = records.step() {
            append(&mut patch, None, first);
        }
        let replaced = records.0.at();
        self.replace(0, replaced, &patch);
        taken
    }

    /// Replaces the bytes from `start` to `end`.
    fn replace(&mut self, start: usize, end: usize, patch: &[u8]) {
        let bytes = &mut self.0;
        let len = bytes.len() - (end - start) + patch.len();
        let wanted = rounded(len);
        // The buffer is too small, or so large that freeing memory is worth a copy.
        if len > bytes.capacity() || wanted < bytes.capacity() / 4 * 3 {
            let mut moved = Vec::with_capacity(wanted);
            moved.extend_from_slice(&bytes[..start]);
            moved.extend_from_slice(patch);
            moved.extend_from_slice(&bytes[end..]);
            *bytes = moved;
            return;
        }
        let tail = start + patch.len();
        if tail > end {
            let old = bytes.len();
            bytes.resize(len, 0);
            bytes.copy_within(end..old, tail);
        } else {
            bytes.copy_within(end.., tail);
            bytes.truncate(len);
        }
        bytes[start..tail].copy_from_slice(patch);
    }

    /// Returns the offset at which to split a page after an inserted URI made it too long:
    ///
    /// - before the URI if it is the last of all URIs, so that a page to which no more URIs are
    ///   added stays full
    /// - after the URI if it is the last of its execution and depth, because more URIs will be
    ///   added there
    /// - in the middle otherwise
    pub(super) fn cut(&self, stands: Stands) -> usize {
        if stands.end == self.len() {
            stands.start
        } else if !stands.run_goes_on {
            stands.end
        } else {
            self.len() / 2
        }
    }

    /// Moves the records that begin at or after `cut`, and at least the last record, to a new page.
    /// Returns `None` if there is only one record.
    pub(super) fn split(&mut self, cut: usize) -> Option<Page> {
        let mut records = self.records();
        let mut start = 0;
        loop {
            let at = records.0.at();
            if records.step().is_none() {
                break;
            }
            start = at;
            if start > 0 && start >= cut {
                break;
            }
        }
        if start == 0 {
            return None;
        }
        let mut first = Vec::new();
        append(&mut first, None, records.0.record()?);
        let rest = &self.0[records.0.at()..];
        let mut right = Vec::with_capacity(rounded(first.len() + rest.len()));
        right.extend_from_slice(&first);
        right.extend_from_slice(rest);
        self.0.truncate(start);
        // Most pages that are split do not grow any more.
        if rounded(start) < self.0.capacity() {
            let mut left = Vec::with_capacity(rounded(start));
            left.extend_from_slice(&self.0);
            self.0 = left;
        }
        Some(Page(right))
    }

    /// Appends a page whose URIs all sort after those of this page.
    pub(super) fn join(&mut self, right: &Page) {
        let mut records = self.records();
        while records.step().is_some() {}
        let mut others = right.records();
        let Some(first) = others.step() else {
            return;
        };
        let mut patch = Vec::with_capacity(right.len());
        append(&mut patch, records.0.record(), first);
        patch.extend_from_slice(&right.0[others.0.at()..]);
        self.replace(self.len(), self.len(), &patch);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn place() -> impl Strategy<Value = Position> {
        let due = prop_oneof![0..4_u64, 100..300_u64, Just(1_900_000_000_000)];
        (1..3_u64, 0..3_u32, due, 0..90_u64).prop_map(|(execution, depth, due, seq)| Position {
            execution,
            depth,
            due,
            seq,
        })
    }

    fn uri() -> impl Strategy<Value = Vec<u8>> {
        (0..150_usize, "[ab]{1,3}")
            .prop_map(|(len, end)| [&b"x".repeat(len), end.as_bytes()].concat())
    }

    proptest! {
        /// Checks that the bytes of a page do not depend on whether it was changed step by step or written
        /// as a whole.
        #[test]
        fn a_page_does_not_depend_on_its_history(
            steps in prop::collection::vec((place(), 0..2_u32, uri(), any::<bool>()), 1..80),
        ) {
            let mut page = Page::default();
            let mut all: BTreeMap<Position, (u32, Vec<u8>)> = BTreeMap::new();
            for (place, attempts, uri, removes) in steps {
                let first = all.range(place..).next().map(|(place, _)| *place);
                prop_assert_eq!(page.first_from(place), first);
                let found = all.iter().find(|(other, (_, known))| {
                    other.execution == place.execution && *known == uri
                });
                prop_assert_eq!(page.find(place.execution, &uri), found.map(|(place, _)| *place));
                if removes {
                    let place = first.unwrap_or(place);
                    let removed = all.remove(&place);
                    let removed = removed.map(|(attempts, uri)| (attempts, uri.into()));
                    prop_assert_eq!(page.remove(place), removed);
                } else {
                    let record = Record { place, attempts, uri: &uri };
                    let is_free = !all.contains_key(&place);
                    prop_assert_eq!(page.insert(record).is_some(), is_free);
                    all.entry(place).or_insert((attempts, uri));
                }
                let mut bytes = Vec::new();
                let mut before = None;
                for (place, (attempts, uri)) in &all {
                    let record = Record { place: *place, attempts: *attempts, uri };
                    append(&mut bytes, before, record);
                    before = Some(record);
                }
                prop_assert_eq!(&page.0, &bytes);
            }
        }
    }
}
