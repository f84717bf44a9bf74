//! Surveys the lines of a job before they are loaded.

use std::collections::BTreeMap;

use serde::Serialize;
use xxhash_rust::xxh3::Xxh3;

use super::row::Row;
use super::{Error, LineSource};
use crate::{PROGRESS_INTERVAL, Work};

/// Maximum number of files of a job. A dedupe index keeps the files in a list that is read as a
/// whole.
const MAX_FILES: usize = 100_000;
/// Maximum number of bad lines that are kept as examples.
const MAX_EXAMPLES: usize = 5;

/// Counts of the lines that are not loaded, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Skipped {
    /// Captures whose file is unknown: a revisit could not refer to their payload.
    pub nowhere: u64,
    /// Captures that were not fetched by HTTP: DNS, for example.
    pub other: u64,
    /// Lines that a dedupe index does not accept.
    pub bad: u64,
    /// Reasons of the first few bad lines.
    pub examples: Vec<String>,
}

/// The result of the survey.
#[derive(Default)]
pub(super) struct Survey {
    /// The names of the files, and their indexes in the file list.
    pub files: BTreeMap<Vec<u8>, u64>,
    pub lines: u64,
    pub records: u64,
    pub skipped: Skipped,
    /// The checksum of the records in order, which identifies the content.
    pub checksum: String,
}

impl Survey {
    pub(crate) fn of(lines: &LineSource<'_>, work: &Work) -> Result<Survey, Error> {
        let mut survey = Survey::default();
        let mut checksum = Xxh3::new();
        lines(&mut |line| {
            survey.lines += 1;
            if survey.lines % PROGRESS_INTERVAL == 0 {
                work.check()?;
            }
            match Row::of(line) {
                Row::Record {
                    hash,
                    date,
                    url,
                    size,
                    file,
                } => {
                    survey.records += 1;
                    for part in [&hash, &date, &url, &file] {
                        checksum.update(&(part.len() as u64).to_le_bytes());
                        checksum.update(part);
                    }
                    checksum.update(&size.to_le_bytes());
                    survey.file(&file)?;
                }
                Row::Nowhere => survey.skipped.nowhere += 1,
                Row::Other => survey.skipped.other += 1,
                Row::Bad(reason) => survey.bad(reason),
            }
            Ok(())
        })?;
        survey.checksum = format!("{:032x}", checksum.digest128());
        Ok(survey)
    }

    fn file(&mut self, name: &[u8]) -> Result<(), Error> {
        if self.files.contains_key(name) {
            return Ok(());
        }
        if self.files.len() == MAX_FILES {
            let text = format!("its captures are in more than {MAX_FILES} files, the maximum");
            return Err(Error::Crawl(text));
        }
        self.files.insert(name.to_owned(), 0);
        Ok(())
    }

    fn bad(&mut self, reason: String) {
        self.skipped.bad += 1;
        if self.skipped.examples.len() < MAX_EXAMPLES {
            let line = self.lines;
            self.skipped.examples.push(format!("line {line}: {reason}"));
        }
    }
}
