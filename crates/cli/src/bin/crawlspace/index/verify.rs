//! `crawlspace index verify`.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use crawlspace_jobs::Eviction;
use crawlspace_jobs::operations::{self, Damage, Verified};
use serde::Serialize;

use super::CacheDir;
use crate::progress::watched;
use crate::table::{Table, bytes, count, print_json};
use crate::terminal::complain;

/// Verify that the cached entries of a folder are undamaged.
///
/// Reads all bytes of all entries and compares them with their manifests. Other processes can use the entries
/// meanwhile. A damaged entry is built again when it is requested; --remove frees its space at once. Entries whose
/// parts have changed are reported as outdated: the next `get` rebuilds them.
///
/// Exit status: 0 when all entries are intact, 1 when an entry is damaged or the folder does not exist, 2 when the
/// command line is wrong.
#[derive(Args)]
#[command(after_help = "Example:
  crawlspace index verify --cache-dir /var/cache/crawlspace")]
pub(crate) struct Verify {
    #[command(flatten)]
    cache: CacheDir,
    /// Remove entries that are damaged, unless they are in use.
    #[arg(long)]
    remove: bool,
    /// Print the outcome as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VerifyReport<'a> {
    entries: u64,
    bytes: u64,
    damaged: Vec<Damaged<'a>>,
    foreign: Vec<&'a Path>,
    other_format: Vec<&'a Path>,
    outdated: Vec<&'a Path>,
}

#[derive(Serialize)]
struct Damaged<'a> {
    entry: &'a Path,
    file: &'a Path,
    why: &'a str,
    removed: bool,
}

impl Verify {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let dir = &self.cache.cache_dir;
        let verified = watched(|work| operations::verify(dir, self.remove, work))?;
        let verified = match verified {
            Ok(verified) => verified,
            Err(error) => {
                complain(error);
                return Ok(false);
            }
        };
        for one in &verified.damaged {
            complain(format_args!(
                "{}: {}{}",
                one.file.display(),
                one.what,
                fate(one)
            ));
        }
        for path in &verified.foreign {
            complain(format_args!(
                "{}: it has no manifest, so it cannot be verified",
                path.display()
            ));
        }
        for path in &verified.other_format {
            complain(format_args!(
                "{}: it was built by another version of crawlspace, in a format that this version cannot read",
                path.display()
            ));
        }
        for path in &verified.outdated {
            complain(format_args!(
                "{}: its source files are newer; crawlspace index get rebuilds it",
                path.display()
            ));
        }
        if self.json {
            print_json(&answer(&verified))?
        } else {
            print(&verified)?
        }
        Ok(verified.damaged.is_empty())
    }
}

fn fate(one: &Damage) -> &'static str {
    match one.removed {
        None => "",
        Some(Eviction::Gone | Eviction::Absent) => "; removed",
        Some(Eviction::InUse) => "; not removed, because it is in use",
        Some(Eviction::BeingBuilt) => "; not removed, because it is being built",
    }
}

fn answer<'v>(verified: &'v Verified) -> VerifyReport<'v> {
    let damaged = verified.damaged.iter().map(|one| Damaged {
        entry: &one.entry,
        file: &one.file,
        why: &one.what,
        removed: matches!(one.removed, Some(Eviction::Gone | Eviction::Absent)),
    });
    let paths = |paths: &'v [PathBuf]| paths.iter().map(|path| &**path).collect();
    VerifyReport {
        entries: verified.entries,
        bytes: verified.bytes,
        damaged: damaged.collect(),
        foreign: paths(&verified.foreign),
        other_format: paths(&verified.other_format),
        outdated: paths(&verified.outdated),
    }
}

fn print(verified: &Verified) -> io::Result<()> {
    let heading = if verified.damaged.is_empty() {
        "All entries are intact."
    } else {
        "Some entries are damaged."
    };
    let mut table = Table::new(heading, 10)?;
    table.row("entries", count(verified.entries), "read in full")?;
    table.row(
        "bytes",
        count(verified.bytes),
        &format!("intact, {}", bytes(verified.bytes)),
    )?;
    if !verified.damaged.is_empty() {
        let damaged = verified.damaged.len() as u64;
        table.row("damaged", count(damaged), "files, named above")?;
    }
    if !verified.outdated.is_empty() {
        let outdated = verified.outdated.len() as u64;
        table.row("outdated", count(outdated), "entries, named above")?;
    }
    table.end()
}
