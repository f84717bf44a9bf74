//! Replaces the contents of some members of a package, and preserves everything else.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::replacement::Replacement;
use crate::zip::record::Record;
use crate::zip::write::{MemberWriter, write_directory};
use crate::{Location, Options, Problem, Wacz};

/// Replaces the file by a copy in which the members with these names have new contents.
pub(super) fn rewrite(
    wacz: &Wacz,
    path: &Path,
    changes: &[(&'static str, Vec<u8>)],
) -> Result<(), Problem> {
    let before = Identity::of(path)?;
    let replacement = Replacement::of(path)?;
    let mut out = replacement.writer()?;
    let directory = wacz.directory();
    let entries = directory.entries();
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_unstable_by_key(|&i| entries[i].header);
    let mut records: Vec<Option<Record>> = entries.iter().map(|_| None).collect();
    // Copy the data before the first member, if there is any.
    let start = order
        .first()
        .map_or(directory.start(), |&i| entries[i].header);
    let mut at = io::copy(&mut wacz.section(0, start), &mut out)?;
    for i in order {
        let entry = &entries[i];
        let mut record = directory.record(entry);
        match changes
            .iter()
            .find(|(name, _)| *name == directory.name(entry))
        {
            None => {
                record.header = at;
                // Also copy the bytes after the data of the member, for example a data descriptor.
                at += io::copy(
                    &mut wacz.section(entry.header, entry.end - entry.header),
                    &mut out,
                )?;
            }
            Some((_, text)) => {
                let size = text.len() as u64;
                let mut member = MemberWriter::new(&mut out, record.emptied(), Some(size))?;
                member.write_all(text)?;
                (at, record) = member.finish()?;
            }
        }
        records[i] = Some(record);
    }
    let records: Vec<Record> = records.into_iter().flatten().collect();
    write_directory(&mut out, &records, directory.comment())?;
    out.flush()?;
    proved(replacement.path(), changes)?;
    if Identity::of(path)? != before {
        return Err(Problem::Changed("another program wrote to it".to_owned()));
    }
    Ok(replacement.commit()?)
}

/// Checks that the new file can be read, and contains the new contents.
fn proved(path: &Path, changes: &[(&'static str, Vec<u8>)]) -> Result<(), Problem> {
    let failed =
        |what: String| Problem::Damaged(format!("the written file cannot be read back: {what}"));
    let written = Wacz::open(&Location::from(path), &Options::unlimited())
        .map_err(|error| failed(error.to_string()))?;
    for (name, text) in changes {
        let found = written
            .text(name)
            .map_err(|error| failed(error.to_string()))?;
        if found.as_bytes() != text {
            return Err(failed(format!("{name} differs")));
        }
    }
    Ok(())
}

/// File attributes for detecting changes: a write to the file changes at least one of them.
#[derive(PartialEq, Eq)]
struct Identity {
    place: (u64, u64),
    size: u64,
    changed: (i64, i64),
}

impl Identity {
    fn of(path: &Path) -> io::Result<Identity> {
        let about = fs::metadata(path)?;
        Ok(Identity {
            place: (about.dev(), about.ino()),
            size: about.size(),
            changed: (about.mtime(), about.mtime_nsec()),
        })
    }
}
