//! Storage formats of indexes and frontiers, as the tool prints them.

use std::io;

use crawlspace_client::dedupe::Storage;

use crate::table::Table;

/// Formats the storage of an index or a frontier as a sentence.
pub(crate) fn sentence(what: &str, storage: Storage) -> String {
    let state = match storage {
        Storage::Plain => "in plain keys",
        Storage::Packed => "packed",
        Storage::Packing => "being packed",
        Storage::Unpacking => "being unpacked",
    };
    format!("The {what} is {state}.")
}

/// Prints a row about the storage unless it is plain. `family` has the commands that convert it: `dedupe`.
pub(crate) fn row(table: &mut Table, family: &str, storage: Storage) -> io::Result<()> {
    let resumed_by = |command| format!("running or interrupted; {family} {command} resumes it");
    let note = match storage {
        Storage::Plain => return Ok(()),
        Storage::Packed => String::new(),
        Storage::Packing => resumed_by("pack"),
        Storage::Unpacking => resumed_by("unpack"),
    };
    table.row("storage", storage.word(), &note)
}
