//! Sorts lines in memory.
//!
//! The cost of comparing lines is dominated by cache misses. Therefore, lines are sorted through
//! small entries that contain the next seven bytes of the key. Entries with the same seven bytes
//! are then sorted by the following seven, and so on. A prefix that thousands of URLs share, such
//! as a host or a folder, is read once per line instead of once per comparison.

use std::cmp::Ordering;
use std::ops::Range;

/// A line, and the range of its key.
pub(super) type Line<'a> = (&'a [u8], Range<usize>);

/// The position of a line, and a piece of its key.
#[derive(Clone, Copy)]
struct SortEntry {
    /// Seven bytes of the key in big-endian order; the lowest byte is the number of key bytes in it.
    piece: u64,
    /// Offset of the head of the line.
    at: u32,
    length: u32,
}

/// Size of the head of a line in bytes: start and end of its key.
const HEAD: usize = 8;
/// Number of key bytes in an entry.
const PIECE: usize = 7;
/// Maximum number of entries that are sorted by comparison.
const MAX_COMPARED: usize = 24;
/// Keys with a common prefix of at least this many bytes are compared instead of sorted by pieces, because each piece
/// is a level of recursion.
const MAX_RADIX_DEPTH: usize = 64 * PIECE;
/// Minimum number of entries for which a second thread is used.
const TWO_THREADS_FROM: usize = 50_000;
/// Number of entries sampled to choose where the entries are split between the threads.
const SAMPLE: usize = 255;

/// Lines gathered in memory, stored one after the other.
#[derive(Default)]
pub(super) struct Gathered {
    bytes: Vec<u8>,
    entries: Vec<SortEntry>,
}

impl Gathered {
    /// Returns whether one more line fits into the budget. The first line always fits.
    pub(crate) fn has_room(&self, length: usize, memory: usize) -> bool {
        let bytes = self.bytes.len().saturating_add(length).saturating_add(HEAD);
        let entries = (self.entries.len() + 1).saturating_mul(size_of::<SortEntry>());
        let fits = bytes <= u32::MAX as usize && bytes.saturating_add(entries) <= memory;
        fits || self.entries.is_empty()
    }

    /// Adds a line.
    pub(crate) fn push(&mut self, line: &[u8], key: Range<usize>) {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let at = number(self.bytes.len());
        let end = key.end.min(line.len());
        for n in [key.start.min(end), end] {
            self.bytes.extend_from_slice(&number(n).to_le_bytes());
        }
        self.bytes.extend_from_slice(line);
        self.entries.push(SortEntry {
            piece: 0,
            at,
            length: number(line.len()),
        });
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Removes the lines, and keeps the allocated memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }

    /// Returns a line and the range of its key.
    pub(crate) fn line(&self, i: usize) -> Line<'_> {
        match self.entries.get(i) {
            Some(entry) => LineBuffer(&self.bytes).line(*entry),
            None => (&[], 0..0),
        }
    }

    /// Sorts the lines, with a second thread if there are many and `threads` allows it.
    pub(crate) fn sort(&mut self, threads: usize) {
        let lines = LineBuffer(&self.bytes);
        let entries = &mut self.entries[..];
        if threads < 2 || entries.len() < TWO_THREADS_FROM {
            return lines.sort(entries, 0, Part::Key);
        }
        let middle = lines.part(entries);
        let (low, high) = entries.split_at_mut(middle);
        std::thread::scope(|scope| {
            scope.spawn(move || lines.sort(low, 0, Part::Key));
            lines.sort(high, 0, Part::Key);
        });
    }
}

/// The part of a line that is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Key,
    Whole,
}

#[derive(Clone, Copy)]
struct LineBuffer<'a>(&'a [u8]);

impl<'a> LineBuffer<'a> {
    #[inline]
    fn line(self, entry: SortEntry) -> Line<'a> {
        let at = entry.at as usize;
        let (head, rest) = self.0[at..].split_at(HEAD);
        let [a, b, c, d, e, f, g, h] = *head else {
            unreachable!("a head of {HEAD} bytes");
        };
        let [from, to] = [[a, b, c, d], [e, f, g, h]].map(|n| u32::from_le_bytes(n) as usize);
        (&rest[..entry.length as usize], from..to)
    }

    #[inline]
    fn text(self, entry: SortEntry, part: Part) -> &'a [u8] {
        let (line, key) = self.line(entry);
        match part {
            Part::Key => &line[key],
            Part::Whole => line,
        }
    }

    fn compare(self, a: SortEntry, b: SortEntry) -> Ordering {
        let ((a, a_key), (b, b_key)) = (self.line(a), self.line(b));
        order(a, a_key, b, b_key)
    }

    /// Moves entries below an approximate median to the front, and returns their number.
    fn part(self, entries: &mut [SortEntry]) -> usize {
        let step = (entries.len() / SAMPLE).max(1);
        let mut sample: Vec<SortEntry> = entries.iter().step_by(step).copied().collect();
        sample.sort_unstable_by(|a, b| self.compare(*a, *b));
        let Some(pivot) = sample.get(sample.len() / 2).copied() else {
            return 0;
        };
        let mut low = 0;
        for i in 0..entries.len() {
            let is_low = entries
                .get(i)
                .is_some_and(|entry| self.compare(*entry, pivot) == Ordering::Less);
            if is_low {
                entries.swap(i, low);
                low += 1;
            }
        }
        low
    }

    /// Sorts entries that share the first `depth` bytes of this part.
    fn sort(self, entries: &mut [SortEntry], depth: usize, part: Part) {
        if entries.len() <= MAX_COMPARED || depth >= MAX_RADIX_DEPTH {
            return entries.sort_unstable_by(|a, b| self.compare(*a, *b));
        }
        for entry in entries.iter_mut() {
            entry.piece = piece(self.text(*entry, part), depth);
        }
        entries.sort_unstable_by_key(|entry| entry.piece);
        for same in entries.chunk_by_mut(|a, b| a.piece == b.piece) {
            let (Some(first), 2..) = (same.first(), same.len()) else {
                continue;
            };
            let ended = (first.piece & 0xff) < PIECE as u64;
            match (ended, part) {
                (false, _) => self.sort(same, depth + PIECE, part),
                (true, Part::Key) => self.sort(same, 0, Part::Whole),
                // Both lines are equal.
                (true, Part::Whole) => {}
            }
        }
    }
}

/// Returns the bytes from `depth` on as a number with the same sort order. The lowest byte is the number of
/// these bytes, so that a shorter key sorts before a key that continues with zero bytes.
#[inline]
fn piece(text: &[u8], depth: usize) -> u64 {
    let rest = text.get(depth..).unwrap_or_default();
    if let Some(eight) = rest.first_chunk::<8>() {
        return u64::from_be_bytes(*eight) & !0xff | PIECE as u64;
    }
    let mut bytes = [0; 8];
    for (place, byte) in bytes.iter_mut().zip(rest) {
        *place = *byte;
    }
    u64::from_be_bytes(bytes) & !0xff | rest.len().min(PIECE) as u64
}

/// Compares two lines by their keys, then by all of their bytes.
pub(super) fn order(a: &[u8], a_key: Range<usize>, b: &[u8], b_key: Range<usize>) -> Ordering {
    let keys = (a.get(a_key), b.get(b_key));
    keys.0.cmp(&keys.1).then_with(|| a.cmp(b))
}
