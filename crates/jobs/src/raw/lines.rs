//! Extracts the lines of a job from the archive, and sorts them.

use std::cell::Cell;
use std::io::{self, BufRead, BufWriter, Read, Write};
use std::ops::Range;

use super::super::read_ahead::read_ahead;
use super::super::{Draft, Error, JobId, Work, cdx_line, crawl_log, each_line};
use crate::metadata::{Kind, Migrations, Record};
use crawlspace_index::lines::{Bad, Tally};
use crawlspace_index::sort::Sorter;

/// Size of the write buffer in bytes.
const BUFFER: usize = 256 * 1024;
/// Minimum size of a record, in bytes, that is decompressed on a separate thread.
const LARGE: u64 = 4 << 20;
/// The lines of one kind of a job, while they are extracted.
pub(super) struct JobLines {
    pub kind: Kind,
    sorter: Sorter,
    records: u64,
    seen: u64,
    bad: Tally,
}

impl JobLines {
    pub(crate) fn new(kind: Kind, sorter: Sorter) -> JobLines {
        JobLines {
            kind,
            sorter,
            records: 0,
            seen: 0,
            bad: Tally::default(),
        }
    }

    /// Adds the lines of a record. Stores errors of the sorter in `ours`, because they do not concern the
    /// record.
    pub(crate) fn take(
        &mut self,
        mut record: Record<'_>,
        work: &Work,
        ours: &mut Option<Error>,
    ) -> Result<(), Error> {
        self.records += 1;
        // Omit the folder, because notes about lines are stored in manifests, which are sent to
        // clients.
        let name = record.file.rsplit('/').next().unwrap_or_default();
        let file = format!("{name} ({})", record.url);
        match record.length {
            0..LARGE => self.take_lines(&mut record, file, work, ours),
            _ => read_ahead(&mut record, |lines| {
                self.take_lines(lines, file, work, ours)
            }),
        }
    }

    fn take_lines(
        &mut self,
        input: &mut dyn BufRead,
        file: String,
        work: &Work,
        ours: &mut Option<Error>,
    ) -> Result<(), Error> {
        let failed = |error: &io::Error| Error::Lines {
            file: file.clone(),
            what: error.to_string(),
        };
        let ends_line = Cell::new(true);
        let input = Watched {
            input,
            ends_line: &ends_line,
        };
        each_line(input, work, failed, |number, line| {
            let (raw, key) = match line {
                Ok(raw) => (raw, key_of(self.kind, raw, ends_line.get())),
                Err(bad) => (&b""[..], Err(bad)),
            };
            let pushed = match key {
                // The header of a CDX.
                Ok(None) => return Ok(()),
                Ok(Some(key)) => {
                    self.seen += 1;
                    self.sorter.push_by(raw, key)
                }
                Err(bad) => {
                    self.seen += 1;
                    self.bad.add(&file, number, raw, bad);
                    Ok(())
                }
            };
            pushed.map_err(|error| {
                *ours = Some(error);
                Error::Cancelled
            })
        })
    }

    /// Returns an error message if the job has lines, but no valid one.
    pub(crate) fn are_worthless(&self, job: JobId) -> Option<String> {
        if self.seen == 0 || self.bad.total() < self.seen {
            return None;
        }
        let example = self.bad.examples().first().map_or("", String::as_str);
        Some(format!(
            "all {} lines of {} of job {job} are invalid: {example}",
            self.seen,
            name_of(self.kind),
        ))
    }

    /// Writes the sorted lines of job `job`. A line that occurs in several records is written once: a job whose archive
    /// was compressed later has its `crawl.log` in two metadata files. Duplicates get their new positions from
    /// `migrations`.
    pub(crate) fn write(
        self,
        job: JobId,
        migrations: &Migrations,
        draft: &mut Draft,
    ) -> Result<(), Error> {
        draft.count("badLines", self.bad.total());
        for (reason, number) in self.bad.counts() {
            draft.count(&format!("badLines: {reason}"), number);
        }
        for example in self.bad.examples() {
            draft.note(example.clone());
        }
        let (path, file) = draft.create("lines")?;
        let mut out = BufWriter::with_capacity(BUFFER, file);
        let mut write = |line: &[u8]| {
            let written = out.write_all(line).and_then(|()| out.write_all(b"\n"));
            written.map_err(Error::io(&path, "write"))
        };
        let may_repeat = self.records > 1;
        let is_migrated = self.kind == Kind::CrawlLog && !migrations.is_empty();
        let (mut lines, mut repeated, mut moved) = (0, 0, 0);
        let (mut last, mut new) = (Vec::new(), Vec::new());
        self.sorter.finish()?.for_each(|line| {
            if may_repeat {
                if lines > 0 && last == line {
                    repeated += 1;
                    return Ok(());
                }
                last.clear();
                last.extend_from_slice(line);
            }
            lines += 1;
            new.clear();
            if is_migrated && push_migrated(line, migrations, &mut new) {
                moved += 1;
                write(&new)
            } else {
                write(line)
            }
        })?;
        out.flush().map_err(Error::io(&path, "write"))?;
        draft.count("lines", lines);
        if repeated > 0 {
            draft.count("repeatedLines", repeated);
            let what = name_of(self.kind);
            draft.note(format!(
                "job {job}: {repeated} lines of {what} occur in several metadata files; each is kept once"
            ));
        }
        if is_migrated {
            draft.count("migrated", moved);
            for example in migrations.bad().examples() {
                draft.note(example.clone());
            }
        }
        Ok(())
    }
}

fn name_of(kind: Kind) -> &'static str {
    match kind {
        Kind::CrawlLog => "the crawl.log",
        Kind::Cdx => "the CDX",
    }
}

/// Appends a line of a `crawl.log` in which the position of the duplicate refers to the compressed archive. Returns
/// false if the line is unchanged.
fn push_migrated(line: &[u8], migrations: &Migrations, into: &mut Vec<u8>) -> bool {
    let Ok(parsed) = crawl_log::Line::parse(line) else {
        return false;
    };
    let (before, notes) = line.split_at(line.trim_ascii_end().len() - parsed.notes.len());
    into.extend_from_slice(before);
    crawl_log::push_migrated(notes, |file, offset| migrations.find(file, offset), into)
}

/// Returns the sort key of a line: the URL of a line of a `crawl.log`, and the whole line of a CDX, which begins with
/// the URL. Returns `None` for a header. `is_whole` is false for a last line without a line feed.
fn key_of(kind: Kind, line: &[u8], is_whole: bool) -> Result<Option<Range<usize>>, Bad> {
    match kind {
        Kind::Cdx if cdx_line::is_header(line) => Ok(None),
        Kind::Cdx => cdx_line::Line::parse(line).map(|_| Some(0..line.len())),
        Kind::CrawlLog => {
            let parsed = crawl_log::Line::parse(line)?;
            if !is_whole && parsed.is_digest_cut_off(line) {
                return Err(Bad::Digest);
            }
            Ok(Some(parsed.url_range()))
        }
    }
}

/// An input that records whether the bytes consumed so far end with a line feed. The record is true after
/// each line, except after a last line without a line feed.
struct Watched<'a> {
    input: &'a mut dyn BufRead,
    ends_line: &'a Cell<bool>,
}

impl Read for Watched<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(into)?;
        if let Some(last) = read.checked_sub(1).and_then(|last| into.get(last)) {
            self.ends_line.set(*last == b'\n');
        }
        Ok(read)
    }
}

impl BufRead for Watched<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.input.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        if let Some(last) = bytes.checked_sub(1)
            && let Ok(here) = self.input.fill_buf()
        {
            self.ends_line.set(here.get(last) == Some(&b'\n'));
        }
        self.input.consume(bytes);
    }
}
