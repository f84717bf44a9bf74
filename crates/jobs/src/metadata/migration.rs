//! Records that say where records of an archive are that was compressed later: `deduplicationmigration`, which the
//! compression tools of NetarchiveSuite put beside a `crawl.log`.

use std::collections::HashMap;
use std::io::{self, BufRead};

use crawlspace_index::lines::fields::{Fields, number};
use crawlspace_index::lines::{Bad, Reader, Tally};

/// New offsets of records in archive files that have `.gz` behind their names by now. Lines are
/// `<file> <old offset> <new offset>`; what else they have is not needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Migrations {
    files: HashMap<String, HashMap<u64, u64>>,
    bad: Tally,
}

impl Migrations {
    /// Returns whether there are no migrations.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The new offset of the record at an offset of a file.
    pub(crate) fn find(&self, file: &str, offset: u64) -> Option<u64> {
        self.files.get(file)?.get(&offset).copied()
    }

    /// Invalid lines.
    pub(crate) fn bad(&self) -> &Tally {
        &self.bad
    }

    /// Adds the lines of a record in `file`.
    pub(super) fn read(&mut self, file: &str, record: &mut dyn BufRead) -> io::Result<()> {
        let mut lines = Reader::new(record);
        while let Some((number, line)) = lines.next()? {
            if let Err(bad) = line.and_then(|line| self.add(line)) {
                self.bad.add(file, number, line.unwrap_or_default(), bad);
            }
        }
        Ok(())
    }

    fn add(&mut self, line: &[u8]) -> Result<(), Bad> {
        let mut fields = Fields::of(line);
        let file = fields.next_field();
        let offsets = [fields.next_field(), fields.next_field()];
        let [Some(old), Some(new)] = offsets.map(number) else {
            return Err(Bad::Number("offset"));
        };
        let file = std::str::from_utf8(file).map_err(|error| Bad::NotUtf8(error.valid_up_to()))?;
        match self.files.get_mut(file) {
            Some(offsets) => offsets.insert(old, new),
            None => self
                .files
                .entry(file.to_owned())
                .or_default()
                .insert(old, new),
        };
        Ok(())
    }
}
