//! Lines that are taken out of the archive and sorted.

use std::fs::File;
use std::io::{BufRead, BufWriter, Write};
use std::ops::Range;

use super::super::read_ahead::read_ahead;
use super::super::{Draft, Error, JobId, Work, cdx_line, crawl_log, each_line};
use crate::metadata::{Kind, Record};
use crawlspace_archive::lines::{Bad, Tally};
use crawlspace_archive::sort::Sorter;

/// What is written at once, in bytes.
const BUFFER: usize = 256 * 1024;
/// Records from this size on, in bytes, are unpacked on a thread of their own.
const LARGE: u64 = 4 << 20;
/// The lines of one kind that a job has, while they are taken out of the archive.
pub(super) struct JobLines {
    pub kind: Kind,
    sorter: Sorter,
    seen: u64,
    bad: Tally,
}

impl JobLines {
    pub(crate) fn new(kind: Kind, sorter: Sorter) -> JobLines {
        JobLines {
            kind,
            sorter,
            seen: 0,
            bad: Tally::default(),
        }
    }

    /// Takes the lines of a record. What goes wrong with the sorter, and not with the record, goes to `ours`.
    pub(crate) fn take(
        &mut self,
        mut record: Record<'_>,
        work: &Work,
        ours: &mut Option<Error>,
    ) -> Result<(), Error> {
        // Without its folder: notes about lines are in manifests, which go to clients.
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
        let failed = |error: &std::io::Error| Error::Lines {
            file: file.clone(),
            what: error.to_string(),
        };
        each_line(input, work, failed, |number, line| {
            let (raw, key) = match line {
                Ok(raw) => (raw, key_of(self.kind, raw)),
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

    /// Why nothing can be made of them: there are some, and all of them are bad.
    pub(crate) fn are_worthless(&self, job: JobId) -> Option<String> {
        if self.seen == 0 || self.bad.total() < self.seen {
            return None;
        }
        let example = self.bad.examples().first().map_or("", String::as_str);
        Some(format!(
            "all {} lines of {} of job {job} are invalid: {example}",
            self.seen,
            match self.kind {
                Kind::CrawlLog => "the crawl.log",
                Kind::Cdx => "the CDX",
            },
        ))
    }

    pub(crate) fn write(self, draft: &mut Draft) -> Result<(), Error> {
        draft.count("lines", self.sorter.lines());
        draft.count("badLines", self.bad.total());
        for (reason, number) in self.bad.counts() {
            draft.count(&format!("badLines: {reason}"), number);
        }
        for example in self.bad.examples() {
            draft.note(example.clone());
        }
        let (path, file) = draft.create("lines")?;
        let mut out = BufWriter::with_capacity(BUFFER, file);
        let write = |out: &mut BufWriter<File>, line: &[u8]| {
            out.write_all(line)?;
            out.write_all(b"\n")
        };
        self.sorter
            .finish()?
            .for_each(|line| write(&mut out, line).map_err(Error::io(&path, "write")))?;
        out.flush().map_err(Error::io(&path, "write"))
    }
}

/// By what a line is sorted: its URL in a crawl.log, and all of it in a CDX, which begins with the URL. None for what
/// is no line but may be there.
fn key_of(kind: Kind, line: &[u8]) -> Result<Option<Range<usize>>, Bad> {
    match kind {
        Kind::CrawlLog => crawl_log::Line::parse(line).map(|parsed| Some(parsed.url_range())),
        Kind::Cdx if cdx_line::is_header(line) => Ok(None),
        Kind::Cdx => cdx_line::Line::parse(line).map(|_| Some(0..line.len())),
    }
}
