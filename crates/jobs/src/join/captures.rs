//! The rows of a CDX that are about one URL.

use std::cmp::Ordering;
use std::io::BufRead;
use std::ops::Range;

use super::super::Error;
use super::super::cdx_line::{Line, is_header};
use super::super::crawl_log::Origin;
use super::{Counts, read, unsorted};
use crawlspace_archive::lines::Reader;
use crawlspace_compact::calendar;

/// What the rows of one URL may take, in bytes.
const WINDOW: usize = 32 * 1024 * 1024;

/// Goes along a CDX, from URL to URL.
pub(super) struct Captures<R> {
    lines: Reader<R>,
    /// The first row of the URL after this one.
    next: Held,
    more: bool,
    begun: bool,
    /// Those of this URL, by date; of those with the same date, the first.
    rows: Vec<Capture>,
    /// The names of their files.
    names: String,
}

struct Capture {
    /// 14 digits as a number.
    date: u64,
    offset: u64,
    /// Where in the names.
    file: Range<u32>,
}

#[derive(Default)]
struct Held {
    url: String,
    date: u64,
    offset: u64,
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

    /// Goes to the rows of a URL, which is not before the last one.
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

    /// Counts those that are left.
    pub(crate) fn rest(&mut self, job: &str, counts: &mut Counts) -> Result<(), Error> {
        self.begun = true;
        while self.more {
            self.read(job, counts)?;
        }
        Ok(())
    }

    /// The capture of that date (14 digits), or the nearest one, and whether it is of that date.
    pub(crate) fn nearest(&self, date: &str) -> Option<(Origin<'_>, bool)> {
        let date = number(date);
        let at = self.rows.partition_point(|row| row.date < date);
        let after = self.rows.get(at);
        let before = at.checked_sub(1).and_then(|at| self.rows.get(at));
        let row = match (before, after) {
            (_, Some(row)) if row.date == date => row,
            (Some(before), Some(after)) => {
                let [from, here, to] = [before.date, date, after.date].map(seconds);
                if here - from <= to - here {
                    before
                } else {
                    after
                }
            }
            (before, after) => before.or(after)?,
        };
        let file = row.file.start as usize..row.file.end as usize;
        let origin = Origin {
            file: self.names.get(file)?.into(),
            offset: row.offset,
            length: None,
        };
        Some((origin, row.date == date))
    }

    /// Takes the held row to those of this URL.
    fn take(&mut self, counts: &mut Counts) {
        let last = self.rows.last().map(|row| row.file.clone());
        let last = last.filter(|last| {
            let last = last.start as usize..last.end as usize;
            self.names.get(last) == Some(&self.next.file)
        });
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
            file,
        });
    }

    fn tidy(&mut self) {
        // Stable, so that the first of a date is the first in the file.
        if !self.rows.is_sorted_by_key(|row| row.date) {
            self.rows.sort_by_key(|row| row.date);
        }
        self.rows.dedup_by_key(|row| row.date);
    }

    /// Holds the next row.
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
            return Ok(());
        }
    }
}

/// Digits as a number; there are not so many that they would not fit.
fn number(digits: &str) -> u64 {
    digits.bytes().fold(0_u64, |number, digit| {
        number
            .saturating_mul(10)
            .saturating_add(u64::from(digit.wrapping_sub(b'0')))
    })
}

/// Seconds since some day long ago. Days and months that there are not are counted on from those that there are, so
/// that a later date has more of them nearly always.
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
    fn seconds_are_those_of_the_calendar() {
        let between = |a, b| seconds(b) - seconds(a);
        assert_eq!(between(19_700_101_000_000, 20_000_101_000_000), 946_684_800);
        assert_eq!(between(20_000_228_235_959, 20_000_301_000_000), 86_401);
        assert_eq!(between(19_000_228_235_959, 19_000_301_000_000), 1);
        assert_eq!(between(20_231_231_235_959, 20_240_101_000_000), 1);
        assert_eq!(between(20_240_531_120_000, 20_240_601_120_001), 86_401);
    }
}
