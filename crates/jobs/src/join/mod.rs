//! Merges a `crawl.log` with the CDX of the same job, which yields the captures and the positions of their records.
//!
//! Both files are sorted by URL, so one pass is enough. If a URL has several lines, each becomes
//! a row.
//!
//! The position of a capture is, in order of preference,
//!
//! 1. the position in the annotation `duplicate:"file,offset"` (or `deduplicate:`), which is that of the original capture,
//! 2. none, if other annotations say that no payload was stored: revisits (`duplicate:digest`, `warcRevisit:…`) and
//!    content that was not written (`unwritten:…`),
//! 3. the row of the CDX with the same URL and second (see [`captures`]),
//! 4. the position in the JSON that Heritrix 3 can log,
//! 5. the row of the CDX with the same URL at most one second away, in a second without any line of that URL,
//!
//! and otherwise unknown.

mod captures;
mod row;

use std::io::BufRead;

use crawlspace_cdx::surt::urlkey;

use self::captures::{Captured, Captures, Place};
pub(crate) use self::row::Row;
use super::crawl_log::{Line, Stored};
use super::{Error, JobId, Work, each_line};
use crawlspace_index::lines::fields::is_word;
use crawlspace_index::lines::{Bad, Tally};

/// The captures that an index includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Captures for deduplication: all media types except text.
    Dedup,
    /// Captures for replay, including those without a logged digest.
    Full,
}

/// Counts of lines and rows by outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Valid lines of the `crawl.log`.
    pub lines: u64,
    /// Lines about failed fetches or without a time; in a deduplication index, also lines without a digest.
    pub no_captures: u64,
    /// Lines of text captures, which a deduplication index leaves out.
    pub text: u64,
    /// Rows of the index, one for each other line.
    pub rows: u64,
    /// Rows with a position from an annotation.
    pub duplicates: u64,
    /// Rows with the position of a CDX row of the same date.
    pub same_date: u64,
    /// Rows with the position of a CDX row at most one second away.
    pub nearest: u64,
    /// Rows with a position from the JSON.
    pub logged: u64,
    /// Rows without a position.
    pub without_origin: u64,
    /// Rows without a position because they are revisits or were not written.
    pub elsewhere: u64,
    /// Valid rows of the CDX.
    pub cdx: u64,
    /// Rows of the CDX that were skipped because one URL has too many.
    pub beyond: u64,
    /// Bad lines of both files, including lines of the `crawl.log` whose URL has no key.
    pub bad: Tally,
}

/// Maximum total size of the lines of one URL that are assigned together, in bytes.
const MAX_GROUP: usize = 32 * 1024 * 1024;

/// Merges a `crawl.log`, sorted by URL, with a CDX, sorted by URL or by whole lines, and passes each row to `take` in
/// the order of the `crawl.log`. Memory use is bounded: at most 32 MiB of each file are kept per URL, and CDX rows
/// beyond that are counted and skipped.
///
/// # Errors
/// Fails if a file cannot be read or is not sorted, if the work was cancelled, or with an error of `take`.
pub(crate) fn rows(
    crawl_log: impl BufRead,
    cdx: Option<impl BufRead>,
    flavour: Flavour,
    job: JobId,
    work: &Work,
    take: &mut dyn FnMut(Row<'_>) -> Result<(), Error>,
) -> Result<Counts, Error> {
    let name = format!("crawl.log of job {job}");
    let mut join = Join {
        flavour,
        name: name.clone(),
        job: job.to_string(),
        captures: cdx.map(Captures::new),
        url: Url::default(),
        places: Vec::new(),
        json: Vec::with_capacity(1024),
        counts: Counts::default(),
    };
    let mut group = Group::default();
    let failed = |error: &std::io::Error| read(&name, error);
    each_line(crawl_log, work, failed, |number, raw| {
        match raw {
            Err(bad) => join.counts.bad.add(&name, number, b"", bad),
            Ok(raw) => {
                if !group.takes(raw) {
                    join.group(&group, take)?;
                    group.clear(raw);
                }
                group.push(number, raw);
            }
        }
        Ok(())
    })?;
    join.group(&group, take)?;
    work.check()?;
    if let Some(captures) = &mut join.captures {
        captures.rest(&join.job, &mut join.counts)?;
    }
    Ok(join.counts)
}

/// The lines of a `crawl.log` about one URL.
#[derive(Default)]
struct Group {
    url: Vec<u8>,
    text: Vec<u8>,
    /// The number of each line, and the offset of its end in the text.
    ends: Vec<(u64, usize)>,
}

impl Group {
    fn takes(&self, line: &[u8]) -> bool {
        let has_room = self.text.len() + line.len() <= MAX_GROUP || self.ends.is_empty();
        has_room && Line::url_of(line) == self.url
    }

    fn push(&mut self, number: u64, line: &[u8]) {
        self.text.extend_from_slice(line);
        self.ends.push((number, self.text.len()));
    }

    /// Clears the group, and begins a new group with the URL of a line.
    fn clear(&mut self, line: &[u8]) {
        self.text.clear();
        self.ends.clear();
        self.url.clear();
        self.url.extend_from_slice(Line::url_of(line));
    }

    fn lines(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let mut begin = 0;
        self.ends.iter().map(move |&(number, end)| {
            let line = self.text.get(begin..end).unwrap_or_default();
            begin = end;
            (number, line)
        })
    }
}

struct Join<R> {
    flavour: Flavour,
    /// The name of the `crawl.log` in messages.
    name: String,
    job: String,
    captures: Option<Captures<R>>,
    /// The URL of the last row.
    url: Url,
    /// The positions of the lines of the current URL.
    places: Vec<Place>,
    /// The JSON object of the last row.
    json: Vec<u8>,
    counts: Counts,
}

impl<R: BufRead> Join<R> {
    /// Joins a group of lines that have the same URL, and passes their rows to `take`.
    fn group(
        &mut self,
        group: &Group,
        take: &mut dyn FnMut(Row<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        // Fast path: almost every URL has a single line.
        if let [(number, _)] = group.ends[..] {
            return match self.capture(number, &group.text) {
                Some(line) => self.place(&[line], take),
                None => Ok(()),
            };
        }
        let lines = group.lines();
        let lines: Vec<_> = lines
            .filter_map(|(number, raw)| self.capture(number, raw))
            .collect();
        self.place(&lines, take)
    }

    /// Counts a line of the `crawl.log`, and returns it if the fetch succeeded.
    fn capture<'a>(&mut self, number: u64, raw: &'a [u8]) -> Option<Captured<'a>> {
        let line = match Line::parse(raw) {
            Ok(line) => line,
            Err(bad) => {
                self.counts.bad.add(&self.name, number, raw, bad);
                return None;
            }
        };
        self.counts.lines += 1;
        let is_full = self.flavour == Flavour::Full;
        let Some(date) = line.date().filter(|_| line.is_capture()) else {
            self.counts.no_captures += 1;
            return None;
        };
        let is_text = !is_full && line.is_text();
        let has_digest = is_full || line.digest.is_some();
        if !has_digest {
            self.counts.no_captures += 1;
        } else if is_text {
            self.counts.text += 1;
        }
        Some(Captured {
            number,
            raw,
            notes: line.read_notes(),
            date,
            line,
            is_wanted: has_digest && !is_text,
        })
    }

    fn place(
        &mut self,
        lines: &[Captured<'_>],
        take: &mut dyn FnMut(Row<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Some(first) = lines.iter().find(|line| line.is_wanted) else {
            return Ok(());
        };
        let url = first.line.url;
        if !self.url.is(url) {
            if !self.url.go(url) {
                return Err(unsorted(&self.name, first.number));
            }
            if let Some(captures) = &mut self.captures {
                captures.go(url, &self.job, &mut self.counts)?;
            }
        }
        self.places.clear();
        self.places.resize(lines.len(), Place::Unknown);
        if let Some(captures) = &mut self.captures {
            captures.place(lines, &mut self.places);
        }
        for (n, line) in lines.iter().enumerate().filter(|(_, line)| line.is_wanted) {
            let place = self.places.get(n).copied().unwrap_or(Place::Unknown);
            match self.row(line, place) {
                Some(row) => take(row)?,
                None => self
                    .counts
                    .bad
                    .add(&self.name, line.number, line.raw, Bad::Url),
            }
        }
        Ok(())
    }

    /// Creates the row of a line; `None` if its URL has no key.
    fn row<'a>(&'a mut self, captured: &'a Captured<'_>, place: Place) -> Option<Row<'a>> {
        let urlkey = self.url.key.as_deref()?;
        let Captured { line, notes, .. } = captured;
        let counts = &mut self.counts;
        counts.rows += 1;
        let of_cdx = |row| self.captures.as_ref()?.origin(row);
        let (origin, count) = match (&notes.stored, place) {
            (Stored::Duplicate(origin), _) => (Some(origin.clone()), &mut counts.duplicates),
            (Stored::Elsewhere, _) => {
                counts.elsewhere += 1;
                (None, &mut counts.without_origin)
            }
            (Stored::Own, Place::Same(row)) => (of_cdx(row), &mut counts.same_date),
            (Stored::Own, place) => match (notes.written(), place) {
                (Some(origin), _) => (Some(origin), &mut counts.logged),
                (None, Place::Near(row)) => (of_cdx(row), &mut counts.nearest),
                (None, _) => (None, &mut counts.without_origin),
            },
        };
        *count += 1;
        self.json.clear();
        row::push_json(line, notes, origin.as_ref(), &self.job, &mut self.json);
        Some(Row {
            urlkey,
            date: captured.date,
            digest: line.digest,
            url: line.url,
            origin,
            json: &self.json,
        })
    }
}

/// The current URL, and its key.
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

    /// Advances to another URL. Returns false if it sorts before the current URL.
    fn go(&mut self, url: &str) -> bool {
        if self.any && *url < *self.url {
            return false;
        }
        self.any = true;
        self.url.clear();
        self.url.push_str(url);
        // Records about the archive file itself are not captures, and their URLs have no key.
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
        what: format!(
            "line {number} is not sorted: its URL sorts before the URL of the previous line"
        ),
    }
}

#[cfg(test)]
mod tests;
