//! `crawlspace index …`: a cache of the indexes of harvest jobs.

mod collect;
mod get;
mod jobs;
mod list;
mod load;
mod lookup;
mod verify;

use std::io;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueHint};
use crawlspace_jobs::IndexKind;

#[derive(Subcommand)]
pub(crate) enum Index {
    Get(get::Get),
    Lookup(lookup::Lookup),
    List(list::List),
    Verify(verify::Verify),
    #[command(name = "gc")]
    Collect(collect::Collect),
}

impl Index {
    pub(crate) fn run(&self) -> io::Result<bool> {
        run_one!(self, Index: Get Lookup List Verify Collect)
    }
}

/// The folder of the caches.
#[derive(Args)]
struct CacheDir {
    /// The folder of the caches.
    #[arg(
        long,
        value_name = "DIR",
        env = "CRAWLSPACE_CACHE_DIR",
        value_hint = ValueHint::DirPath
    )]
    cache_dir: PathBuf,
}

/// Returns the parser for the values of `--kind`.
fn kind() -> impl TypedValueParser<Value = IndexKind> {
    let names = IndexKind::ALL.map(IndexKind::name);
    PossibleValuesParser::new(names).try_map(|name| name.parse::<IndexKind>())
}
