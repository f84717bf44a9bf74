//! `crawlspace index list`.

use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use crawlspace_jobs::IndexKind;
use crawlspace_jobs::operations::{self, EntryState, Listed};
use serde::Serialize;

use super::{CacheDir, kind};
use crate::columns::Columns;
use crate::table::{bytes, count, print_json};
use crate::terminal::{complain, say};
use crate::time;

/// List the entries of the caches of a folder.
///
/// Shows which entries are in use or being built, and by which process; which entries differ from
/// their manifests, if that can be detected without reading all bytes (`verify` reads them); and
/// the leftovers of builders that died, which `gc` removes.
#[derive(Args)]
#[command(after_help = "Example:
  crawlspace index list --cache-dir /var/cache/crawlspace --kind full")]
pub(crate) struct List {
    #[command(flatten)]
    cache: CacheDir,
    /// List only indexes of this kind.
    #[arg(long, value_name = "KIND", value_parser = kind())]
    kind: Option<IndexKind>,
    /// Print entries as JSON, one per line.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    cache: &'static str,
    kind: Option<&'static str>,
    entry: &'a str,
    path: &'a Path,
    jobs: Option<Vec<u64>>,
    lines: Option<u64>,
    size: u64,
    made: Option<&'a str>,
    last_used: Option<String>,
    state: &'static str,
    why: Option<&'a str>,
}

impl List {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let dir = &self.cache.cache_dir;
        let listed = operations::list(dir).map_err(io::Error::other)?;
        let listed: Vec<Listed> = listed
            .into_iter()
            .filter(|one| self.kind.is_none_or(|kind| one.layer.kind == Some(kind)))
            .collect();
        if self.json {
            listed
                .iter()
                .try_for_each(|one| print_json(&Row::of(one)))?;
            return Ok(true);
        }
        if listed.is_empty() {
            say(format_args!("{}: the caches are empty", dir.display()));
            return Ok(true);
        }
        print(&listed)?;
        for one in &listed {
            if let EntryState::Damaged(why) = &one.state {
                complain(format_args!("{}: {why}", one.path.display()));
            }
        }
        Ok(true)
    }
}

impl Row<'_> {
    fn of(one: &Listed) -> Row<'_> {
        let jobs = one.jobs.as_ref();
        Row {
            cache: one.layer.folder,
            kind: one.layer.kind.map(IndexKind::name),
            entry: &one.entry,
            path: &one.path,
            jobs: jobs.map(|jobs| jobs.iter().map(|job| job.0).collect()),
            lines: one.lines,
            size: one.size,
            made: one.made.as_deref(),
            last_used: one.used.map(utc),
            state: one.state.name(),
            why: one.state.why(),
        }
    }
}

fn print(listed: &[Listed]) -> io::Result<()> {
    let mut table =
        Columns::new("cache | entry | jobs> | lines> | size> | made | last used | state");
    for one in listed {
        let state = match &one.state {
            EntryState::BeingBuilt(owner) => format!("being built by {owner}"),
            state => state.name().to_owned(),
        };
        let jobs = one.jobs.as_ref().map(|jobs| count(jobs.len() as u64));
        table.row([
            one.layer.folder.to_owned(),
            one.entry.clone(),
            jobs.unwrap_or_default(),
            one.lines.map(count).unwrap_or_default(),
            bytes(one.size),
            one.made.clone().unwrap_or_default(),
            one.used.map(utc).unwrap_or_default(),
            state,
        ]);
    }
    table.print()
}

fn utc(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    time::utc(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
