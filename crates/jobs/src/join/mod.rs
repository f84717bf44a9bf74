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
mod json;
mod row;

use std::io::BufRead;

use crawlspace_cdx::surt::urlkey;

use self::captures::Captures;
pub use self::row::Row;
use super::{Error, JobId, PROGRESS_INTERVAL, Work, crawl_log};
use crawlspace_archive::lines::fields::is_word;
use crawlspace_archive::lines::{Bad, Reader, Tally};

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
pub struct Counts {
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
    let mut counts = Counts::default();
    let mut lines = Reader::new(crawl_log);
    let mut captures = cdx.map(Captures::new);
    let mut last = Url::default();
    let mut json = Vec::with_capacity(1024);
    let job = job.to_string();
    let mut reported = 0;
    let name = format!("crawl.log of job {job}");
    loop {
        let number = lines.number() + 1;
        if number >= reported + PROGRESS_INTERVAL {
            work.advance(number - reported)?;
            reported = number;
        }
        let raw = match lines.next().map_err(|error| read(&name, &error))? {
            None => break,
            Some(Ok(raw)) => raw,
            Some(Err(bad)) => {
                counts.bad.add(&name, number, b"", bad);
                continue;
            }
        };
        let line = match crawl_log::Line::parse(raw) {
            Ok(line) => line,
            Err(bad) => {
                counts.bad.add(&name, number, raw, bad);
                continue;
            }
        };
        counts.lines += 1;
        let is_wanted = line.digest.is_some() || flavour == Flavour::Full;
        let (true, true, Some(date)) = (line.is_capture(), is_wanted, line.date()) else {
            counts.no_captures += 1;
            continue;
        };
        if flavour == Flavour::Dedup && line.is_text() {
            counts.text += 1;
            continue;
        }
        if !last.is(line.url) {
            if !last.go(line.url) {
                return Err(unsorted(&name, number));
            }
            if let Some(captures) = &mut captures {
                captures.go(line.url, &job, &mut counts)?;
            }
        }
        let Some(key) = &last.key else {
            counts.bad.add(&name, number, raw, Bad::Url);
            continue;
        };
        counts.rows += 1;
        let duplicate = line.duplicate();
        let logged;
        let found = captures
            .as_ref()
            .and_then(|captures| captures.nearest(date));
        let origin = match (duplicate, found) {
            (Some(origin), _) => {
                counts.duplicates += 1;
                Some(origin)
            }
            (None, Some((origin, same_date))) => {
                if same_date {
                    counts.same_date += 1
                } else {
                    counts.nearest += 1
                }
                Some(origin)
            }
            (None, None) => {
                logged = line.written();
                match &logged {
                    Some(_) => counts.logged += 1,
                    None => counts.without_origin += 1,
                }
                logged
            }
        };
        json.clear();
        row::push_json(&line, origin.as_ref(), &job, &mut json);
        take(Row {
            urlkey: key,
            date,
            digest: line.digest,
            url: line.url,
            origin,
            json: &json,
        })?;
    }
    if let Some(captures) = &mut captures {
        captures.rest(&job, &mut counts)?;
    }
    Ok(counts)
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
