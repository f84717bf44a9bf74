//! A `crawl.log` merged with the CDX of the same job: what was captured, and where it is.
//!
//! Both are sorted by URL, so one pass over both is enough. Every line of a repeated URL is kept.
//!
//! Where a capture is, says in this order
//!
//! 1. the annotation `duplicate:"file,offset"` (or `deduplicate:`) of the crawl.log: the capture that it is a copy of,
//! 2. the row of the CDX with the same URL and date, or else the nearest in time (the earlier one of two),
//! 3. the JSON that Heritrix 3 may log,
//!
//! and else nobody.

mod captures;
mod row;

use std::io::BufRead;

use crawlspace_cdx::surt::urlkey;

use self::captures::Captures;
pub(crate) use self::row::Row;
use super::crawl_log::Line;
use super::{Error, JobId, Work, each_line};
use crawlspace_archive::lines::fields::is_word;
use crawlspace_archive::lines::{Bad, Tally};

/// Which captures there are in an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// For deduplication: all but text.
    Dedup,
    /// For replay: all, also those of which no digest was logged.
    Full,
}

/// What became of the lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Lines of the crawl.log, without bad ones.
    pub lines: u64,
    /// Of these, those about what was not fetched or has no time, and in an index for deduplication those without a
    /// digest.
    pub no_captures: u64,
    /// Those that an index for deduplication leaves out.
    pub text: u64,
    /// Rows: all other lines.
    pub rows: u64,
    /// Rows whose origin an annotation says.
    pub duplicates: u64,
    /// Rows whose origin is a row of the CDX with the same date.
    pub same_date: u64,
    /// Rows whose origin is a row of the CDX with another date.
    pub nearest: u64,
    /// Rows whose origin the JSON says.
    pub logged: u64,
    /// Rows without an origin.
    pub without_origin: u64,
    /// Rows of the CDX, without bad ones.
    pub cdx: u64,
    /// Rows of the CDX that were not looked at, since there are too many of one URL.
    pub beyond: u64,
    /// Bad lines of both, and those of the crawl.log whose URL has no key.
    pub bad: Tally,
}

/// Merges a crawl.log, sorted by URL, with a CDX, sorted by URL or by whole lines, and gives each row to `take`, in
/// the order of the crawl.log. The memory that this takes depends on neither: of one URL, no more of the CDX is held
/// than fits into 32 MiB (about a million dates), and what is beyond is counted and not looked at.
///
/// # Errors
/// When one of them cannot be read or is not sorted, or the work was cancelled, and those of `take`.
pub(crate) fn rows(
    crawl_log: impl BufRead,
    cdx: Option<impl BufRead>,
    flavour: Flavour,
    job: JobId,
    work: &Work,
    take: &mut dyn FnMut(Row<'_>) -> Result<(), Error>,
) -> Result<Counts, Error> {
    let mut join = Join {
        flavour,
        job: job.to_string(),
        captures: cdx.map(Captures::new),
        url: Url::default(),
        json: Vec::with_capacity(1024),
        counts: Counts::default(),
    };
    let name = format!("crawl.log of job {job}");
    let failed = |error: &std::io::Error| read(&name, error);
    each_line(crawl_log, work, failed, |number, raw| {
        let bad = match raw.and_then(Line::parse) {
            Err(bad) => Some(bad),
            Ok(line) => match join.wanted(&line) {
                None => None,
                Some(_) if !join.go(line.url)? => return Err(unsorted(&name, number)),
                Some(date) => match join.row(&line, date) {
                    Some(row) => {
                        take(row)?;
                        None
                    }
                    None => Some(Bad::Url),
                },
            },
        };
        if let Some(bad) = bad {
            let line = raw.unwrap_or_default();
            join.counts.bad.add(&name, number, line, bad);
        }
        Ok(())
    })?;
    if let Some(captures) = &mut join.captures {
        captures.rest(&join.job, &mut join.counts)?;
    }
    Ok(join.counts)
}

struct Join<R> {
    flavour: Flavour,
    job: String,
    captures: Option<Captures<R>>,
    /// That of the last row.
    url: Url,
    /// The object of the last row.
    json: Vec<u8>,
    counts: Counts,
}

impl<R: BufRead> Join<R> {
    /// Counts a line of the crawl.log, and says of when it is if the index has it.
    fn wanted<'a>(&mut self, line: &Line<'a>) -> Option<&'a str> {
        self.counts.lines += 1;
        let is_full = self.flavour == Flavour::Full;
        let is_capture = line.is_capture() && (is_full || line.digest.is_some());
        let Some(date) = line.date().filter(|_| is_capture) else {
            self.counts.no_captures += 1;
            return None;
        };
        if !is_full && line.is_text() {
            self.counts.text += 1;
            return None;
        }
        Some(date)
    }

    /// Goes to a URL. False when it comes before the last one.
    fn go(&mut self, url: &str) -> Result<bool, Error> {
        if self.url.is(url) {
            return Ok(true);
        }
        if !self.url.go(url) {
            return Ok(false);
        }
        if let Some(captures) = &mut self.captures {
            captures.go(url, &self.job, &mut self.counts)?;
        }
        Ok(true)
    }

    /// The row of a line; `None` when its URL has no key.
    fn row<'a>(&'a mut self, line: &'a Line<'_>, date: &'a str) -> Option<Row<'a>> {
        let urlkey = self.url.key.as_deref()?;
        let counts = &mut self.counts;
        counts.rows += 1;
        let nearest = || self.captures.as_ref()?.nearest(date);
        let (origin, count) = if let Some(origin) = line.duplicate() {
            (Some(origin), &mut counts.duplicates)
        } else if let Some((origin, same_date)) = nearest() {
            let count = if same_date {
                &mut counts.same_date
            } else {
                &mut counts.nearest
            };
            (Some(origin), count)
        } else if let Some(origin) = line.written() {
            (Some(origin), &mut counts.logged)
        } else {
            (None, &mut counts.without_origin)
        };
        *count += 1;
        self.json.clear();
        row::push_json(line, origin.as_ref(), &self.job, &mut self.json);
        Some(Row {
            urlkey,
            date,
            digest: line.digest,
            url: line.url,
            origin,
            json: &self.json,
        })
    }
}

/// The URL that lines are about.
#[derive(Default)]
struct Url {
    url: String,
    key: Option<String>,
    any: bool,
}

impl Url {
    fn is(&self, url: &str) -> bool {
        self.any && self.url == url
    }

    /// Goes to the next one. False when it comes before this one.
    fn go(&mut self, url: &str) -> bool {
        if self.any && *url < *self.url {
            return false;
        }
        self.any = true;
        self.url.clear();
        self.url.push_str(url);
        // What an archive file begins with is no capture, and has no key to find it by.
        let key = urlkey(url).ok();
        self.key = key.filter(|key| is_word(key) && !key.is_empty());
        true
    }
}

fn read(file: &str, error: &std::io::Error) -> Error {
    Error::Lines {
        file: file.to_owned(),
        what: format!("cannot be read: {error}"),
    }
}

fn unsorted(file: &str, number: u64) -> Error {
    Error::Lines {
        file: file.to_owned(),
        what: format!("line {number} is not sorted: its URL comes before that of the line before"),
    }
}

#[cfg(test)]
mod tests;
