//! Parses `deduplicationmigration` records, which have the new positions of records in an archive that was compressed
//! later. The compression tools of NetarchiveSuite store them next to a `crawl.log`.

use std::collections::HashMap;
use std::io::{self, BufRead};

use crawlspace_index::lines::fields::{Fields, number};
use crawlspace_index::lines::{Bad, Reader, Tally};

/// New offsets of records in archive files whose names now end in `.gz`. Lines are `<file> <old offset> <new offset>`;
/// further fields are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Migrations {
    files: HashMap<String, HashMap<u64, u64>>,
    bad: Tally,
}

impl Migrations {
    /// Returns true if there are no migrations.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns the new offset of the record that was at an offset of a file.
    pub(crate) fn find(&self, file: &str, offset: u64) -> Option<u64> {
        self.files.get(file)?.get(&offset).copied()
    }

    /// Returns the tally of invalid lines.
    pub(crate) fn bad(&self) -> &Tally {
        &self.bad
    }

    /// Parses the lines of a record in `file`.
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
