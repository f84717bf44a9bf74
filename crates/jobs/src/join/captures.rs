//! The rows of a CDX for one URL, and their assignment to lines of the `crawl.log`.
//!
//! A row belongs to a line of the same second. If a second has several rows (a 401 and the 200 that follows), the
//! position that Heritrix 3 logs identifies the row. In ARC files, the line's `content-size:` identifies it too,
//! because it equals the length in the CDX. Otherwise, the last lines get the last rows, with the highest offsets in
//! the last file. If there are fewer rows than lines, the assignment is ambiguous: none of these lines gets a position,
//! unless all of them have the same digest. Therefore, no row gives its position to two digests.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::io::BufRead;
use std::ops::Range;

use super::super::Error;
use super::super::cdx_line::{Line, is_header};
use super::super::crawl_log::{Line as LogLine, Notes, Origin, Stored};
use super::{Counts, read, unsorted};
use crawlspace_compact::calendar;
use crawlspace_index::lines::Reader;

/// Memory limit of the rows of one URL, in bytes.
const WINDOW: usize = 32 * 1024 * 1024;

/// Reads a CDX, one URL at a time.
pub(super) struct Captures<R> {
    lines: Reader<R>,
    /// The first row of the next URL.
    next: Held,
    more: bool,
    begun: bool,
    /// The rows of the current URL, sorted by date, file and offset.
    rows: Vec<Capture>,
    /// The names of the files of the rows.
    names: String,
}

struct Capture {
    /// 14 digits, as a number.
    date: u64,
    offset: u64,
    length: Option<u64>,
    /// Range of the file name in `names`.
    file: Range<u32>,
    is_arc: bool,
    /// Reserved for a line of the same second: no line of another second may use it.
    is_taken: bool,
}

/// A line of the `crawl.log` about a successful fetch.
pub(super) struct Captured<'a> {
    pub(super) number: u64,
    pub(super) raw: &'a [u8],
    pub(super) line: LogLine<'a>,
    pub(super) notes: Notes<'a>,
    /// 14 digits.
    pub(super) date: &'a str,
    /// True if the line is included in the index. Other lines only reserve their rows.
    pub(super) is_wanted: bool,
}

/// The row of a line, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Unknown,
    /// A row of the same second.
    Same(usize),
    /// A row at most one second away.
    Near(usize),
}

#[derive(Default)]
struct Held {
    url: String,
    date: u64,
    offset: u64,
    length: Option<u64>,
    file: String,
}

impl<R: BufRead> Captures<R> {
    pub(crate) fn new(cdx: R) -> Captures<R> {
        Captures {
            lines: Reader::new(cdx),
            next: Held::default(),
            more: true,
            begun: false,
            rows: Vec::new(),
            names: String::new(),
        }
    }

    /// Advances to the rows of a URL, which must not sort before the previous URL.
    pub(crate) fn go(&mut self, url: &str, job: &str, counts: &mut Counts) -> Result<(), Error> {
        self.rows.clear();
        self.names.clear();
        if !self.begun {
            self.begun = true;
            self.read(job, counts)?;
        }
        while self.more {
            match (*self.next.url).cmp(url) {
                Ordering::Less => {}
                Ordering::Equal => self.take(counts),
                Ordering::Greater => break,
            }
            self.read(job, counts)?;
        }
        self.tidy();
        Ok(())
    }

    /// Counts the remaining rows.
    pub(crate) fn rest(&mut self, job: &str, counts: &mut Counts) -> Result<(), Error> {
        self.begun = true;
        while self.more {
            self.read(job, counts)?;
        }
        Ok(())
    }

    /// Assigns rows to the lines of the current URL. `places` must be as long as `lines`.
    pub(crate) fn place(&mut self, lines: &[Captured<'_>], places: &mut [Place]) {
        // Fast path for the usual case.
        if let ([line], [row], [place]) = (lines, &mut self.rows[..], &mut *places)
            && row.date == number(line.date)
        {
            if line.is_own() && !row.is_taken && row.may_be(line) {
                *place = Place::Same(0);
            }
            row.is_taken = true;
            return;
        }
        if self.rows.is_empty() {
            return;
        }
        let mut order: Vec<usize> = (0..lines.len()).collect();
        order.sort_by_key(|n| lines[*n].line.start);
        for second in order.chunk_by(|a, b| lines[*a].date == lines[*b].date) {
            self.place_second(lines, second, places);
        }
        let mut near = Vec::new();
        for n in order {
            if let Some(row) = self.nearest(&lines[n]) {
                near.push((row, n));
            }
        }
        near.sort_unstable();
        for claims in near.chunk_by(|a, b| a.0 == b.0) {
            // If several lines claim the row, none of them gets it, because the assignment is ambiguous.
            if let [(row, n)] = *claims {
                self.rows[row].is_taken = true;
                places[n] = Place::Near(row);
            }
        }
    }

    /// Assigns rows to the lines of one second, which are sorted by their start.
    fn place_second(&mut self, lines: &[Captured<'_>], second: &[usize], places: &mut [Place]) {
        let Some(first) = second.first() else { return };
        let rows = self.second(number(lines[*first].date));
        let own = second.iter().copied().filter(|n| lines[*n].is_own());
        let mut left: Vec<usize> = own.collect();
        let free = rows.clone().filter(|row| !self.rows[*row].is_taken);
        let mut free: Vec<usize> = free.collect();
        // More than `MAX_PAIRS` combinations of lines and rows in one second cannot come from real fetches.
        if free.len().saturating_mul(left.len()) <= MAX_PAIRS {
            let digest = |n: usize| lines[n].line.digest;
            let mut of_digest = HashMap::new();
            let mut give = |left: &mut Vec<usize>, free: &mut Vec<usize>, is_it: &IsRow<'_>| {
                let mut without = Vec::new();
                while let Some(n) = left.pop() {
                    let at = free
                        .iter()
                        .rposition(|row| is_it(&self.rows[*row], &lines[n]));
                    let Some(at) = at else {
                        without.push(n);
                        continue;
                    };
                    places[n] = Place::Same(free.remove(at));
                    if let Some(digest) = digest(n) {
                        of_digest.insert(digest, places[n]);
                    }
                }
                without.reverse();
                *left = without;
            };
            let names = &self.names;
            give(&mut left, &mut free, &|row, line| {
                row.is_surely(line, names)
            });
            let is_same =
                |pair: &[usize]| digest(pair[0]).is_some() && digest(pair[0]) == digest(pair[1]);
            if left.len() <= free.len() || left.windows(2).all(is_same) {
                give(&mut left, &mut free, &|row, line| row.may_be(line));
            }
            for n in left {
                let same = digest(n).and_then(|digest| of_digest.get(digest));
                places[n] = same.copied().unwrap_or(Place::Unknown);
            }
        }
        for row in &mut self.rows[rows] {
            row.is_taken = true;
        }
    }

    /// Returns the rows of a second.
    fn second(&self, date: u64) -> Range<usize> {
        let begin = self.rows.partition_point(|row| row.date < date);
        let rows = self.rows[begin..].iter();
        begin..begin + rows.take_while(|row| row.date == date).count()
    }

    /// Returns the row nearest to a line if no row has the same second: a row of the previous second, or else of the
    /// next second.
    fn nearest(&self, line: &Captured<'_>) -> Option<usize> {
        let date = number(line.date);
        let at = self.rows.partition_point(|row| row.date < date);
        let has_own = self.rows.get(at).is_some_and(|row| row.date == date);
        if has_own || !line.is_own() {
            return None;
        }
        let here = seconds(date);
        let is_near = |row: usize| (seconds(self.rows[row].date) - here).abs() <= 1;
        let before = (0..at).rev().take_while(|row| is_near(*row));
        let behind = (at..self.rows.len()).take_while(|row| is_near(*row));
        let behind: Vec<usize> = behind.take(MAX_NEAR).collect();
        let mut near = before.take(MAX_NEAR).chain(behind.into_iter().rev());
        near.find(|row| !self.rows[*row].is_taken && self.rows[*row].may_be(line))
    }

    /// Returns the position that a row refers to.
    pub(crate) fn origin(&self, row: usize) -> Option<Origin<'_>> {
        let row = self.rows.get(row)?;
        Some(Origin {
            file: row.file(&self.names).into(),
            offset: row.offset,
            length: None,
        })
    }

    /// Moves the held row to the rows of the current URL.
    fn take(&mut self, counts: &mut Counts) {
        let last = self.rows.last().map(|row| row.file.clone());
        let last = last.filter(|last| name(&self.names, last) == self.next.file);
        let more = match last {
            Some(_) => 0,
            None => self.next.file.len(),
        };
        let size = |rows: usize| rows.saturating_mul(size_of::<Capture>());
        if self.names.len() + more + size(self.rows.len() + 1) > WINDOW {
            counts.beyond += 1;
            return;
        }
        let file = last.unwrap_or_else(|| {
            let begin = self.names.len() as u32;
            self.names.push_str(&self.next.file);
            begin..self.names.len() as u32
        });
        self.rows.push(Capture {
            date: self.next.date,
            offset: self.next.offset,
            length: self.next.length,
            is_arc: is_arc(&self.next.file),
            file,
            is_taken: false,
        });
    }

    fn tidy(&mut self) {
        if self.rows.len() < 2 {
            return;
        }
        let names = &self.names;
        self.rows
            .sort_by(|a, b| a.place(names).cmp(&b.place(names)));
        self.rows.dedup_by(|a, b| a.place(names) == b.place(names));
    }

    /// Reads the next row, and holds it.
    fn read(&mut self, job: &str, counts: &mut Counts) -> Result<(), Error> {
        let name = || format!("CDX of job {job}");
        loop {
            let next = self.lines.next().map_err(|error| read(&name(), &error))?;
            let Some((number_of_line, raw)) = next else {
                self.more = false;
                return Ok(());
            };
            let raw = match raw {
                Ok(raw) if is_header(raw) => continue,
                Ok(raw) => raw,
                Err(bad) => {
                    counts.bad.add(&name(), number_of_line, b"", bad);
                    continue;
                }
            };
            let line = match Line::parse(raw) {
                Ok(line) => line,
                Err(bad) => {
                    counts.bad.add(&name(), number_of_line, raw, bad);
                    continue;
                }
            };
            if *line.url < *self.next.url {
                return Err(unsorted(&name(), number_of_line));
            }
            counts.cdx += 1;
            let next = &mut self.next;
            for (place, text) in [(&mut next.url, line.url), (&mut next.file, line.file)] {
                place.clear();
                place.push_str(text);
            }
            (next.date, next.offset) = (number(line.date), line.offset);
            next.length = line.length;
            return Ok(());
        }
    }
}

/// Maximum number of rows times lines in one second that are compared.
const MAX_PAIRS: usize = 1_000_000;
/// Maximum number of rows of the second before and after that are examined.
const MAX_NEAR: usize = 100;

/// Decides whether a row belongs to a line.
type IsRow<'a> = dyn Fn(&Capture, &Captured<'_>) -> bool + 'a;

impl Capture {
    fn file<'n>(&self, names: &'n str) -> &'n str {
        name(names, &self.file)
    }

    fn place<'n>(&self, names: &'n str) -> (u64, &'n str, u64) {
        (self.date, self.file(names), self.offset)
    }

    /// Returns whether the row can belong to a line: in ARC files, both must have the same length.
    fn may_be(&self, line: &Captured<'_>) -> bool {
        !self.is_arc
            || self.length.is_none()
            || line.notes.content_size.is_none()
            || self.length == line.notes.content_size
    }

    /// Returns whether the row certainly belongs to a line: by its length in an ARC file, or by the logged position.
    fn is_surely(&self, line: &Captured<'_>, names: &str) -> bool {
        let is_of_length =
            self.is_arc && self.length.is_some() && self.length == line.notes.content_size;
        let is_logged = || {
            let logged = line.notes.written();
            logged.is_some_and(|logged| {
                logged.offset == self.offset && logged.file == self.file(names)
            })
        };
        is_of_length || is_logged()
    }
}

impl Captured<'_> {
    /// Returns whether the capture has its own record with the payload.
    fn is_own(&self) -> bool {
        self.notes.stored == Stored::Own
    }
}

fn name<'n>(names: &'n str, at: &Range<u32>) -> &'n str {
    names
        .get(at.start as usize..at.end as usize)
        .unwrap_or_default()
}

fn is_arc(file: &str) -> bool {
    let file = file.as_bytes();
    let file = match file.split_last_chunk::<3>() {
        Some((before, end)) if end.eq_ignore_ascii_case(b".gz") => before,
        _ => file,
    };
    file.last_chunk::<4>()
        .is_some_and(|end| end.eq_ignore_ascii_case(b".arc"))
}

/// Parses digits. The callers pass few enough digits for the type.
fn number(digits: &str) -> u64 {
    digits.bytes().fold(0_u64, |number, digit| {
        number
            .saturating_mul(10)
            .saturating_add(u64::from(digit.wrapping_sub(b'0')))
    })
}

/// Converts a date to seconds since a fixed day. Days and months beyond the valid range are accepted, so that
/// a later date almost always has more seconds.
fn seconds(date: u64) -> i64 {
    let date = i64::try_from(date).unwrap_or(i64::MAX);
    let (days, time) = (date / 1_000_000, date % 1_000_000);
    let (year, month, day) = (days / 10_000, days / 100 % 100, days % 100);
    let days = calendar::days(year, month, day);
    days * 86_400 + time / 10_000 * 3_600 + time / 100 % 100 * 60 + time % 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_follow_the_calendar() {
        let between = |a, b| seconds(b) - seconds(a);
        assert_eq!(between(19_700_101_000_000, 20_000_101_000_000), 946_684_800);
        assert_eq!(between(20_000_228_235_959, 20_000_301_000_000), 86_401);
        assert_eq!(between(19_000_228_235_959, 19_000_301_000_000), 1);
        assert_eq!(between(20_231_231_235_959, 20_240_101_000_000), 1);
        assert_eq!(between(20_240_531_120_000, 20_240_601_120_001), 86_401);
    }
}
