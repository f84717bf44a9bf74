//! `crawlspace dedupe …`: commands for dedupe indexes.

mod check;
mod copy;
mod crawls;
mod end;
mod export;
mod index;
mod lookup;
mod pack;
mod profile;
mod requires;

use std::io;
use std::ops::Deref;

use crate::observe::Kind;
use crate::terminal::Bytes;
use crate::{Sharding, bar};
use clap::{Args, Subcommand};
use crawlspace_cli::any_index::AnyIndex;

#[derive(Subcommand)]
pub(crate) enum Dedupe {
    Stats(crawls::Stats),
    Crawls(crawls::Crawls),
    Lookup(lookup::Lookup),
    Requires(requires::Requires),
    #[command(name = "requiredby", visible_alias = "required-by")]
    RequiredBy(requires::RequiredBy),
    Commit(end::Commit),
    Cancel(end::Cancel),
    Remove(end::Remove),
    Retain(end::Retain),
    Check(check::Check),
    Repair(check::Repair),
    Profile(profile::SetProfile),
    Pack(pack::Pack),
    Unpack(pack::Unpack),
    Index(index::IndexFiles),
    Copy(copy::CopyIndex),
    Export(export::ExportLines),
    Import(export::ImportLines),
}

impl Dedupe {
    pub(crate) fn run(&self) -> io::Result<bool> {
        run_one!(self, Dedupe:
            Stats Crawls Lookup Requires RequiredBy Commit Cancel Remove Retain Check Repair Profile Pack Unpack
            Index Copy Export Import)
    }
}

/// The index to ask, and the form of the output.
#[derive(Args)]
#[group(skip)]
struct Asking {
    #[command(flatten)]
    plain: crate::Asking,
    #[command(flatten)]
    sharding: Sharding,
}

impl Deref for Asking {
    type Target = crate::Asking;

    fn deref(&self) -> &crate::Asking {
        &self.plain
    }
}

impl Asking {
    fn index(&self) -> io::Result<AnyIndex> {
        self.sharding.open(&self.server).map_err(io::Error::other)
    }

    /// Returns the name of a sharded index, or the prefix of an unsharded one.
    fn name(&self) -> &Bytes {
        let sharded = self.sharding.sharded.as_ref();
        sharded.unwrap_or(&self.server.prefix)
    }

    /// Returns the options that select the index in an example.
    fn selection(&self) -> String {
        let option = if self.sharding.sharded.is_some() {
            "--sharded"
        } else {
            "--prefix"
        };
        format!("{option} '{}'", self.name())
    }

    /// Waits for a job of the server, with a progress bar on a terminal. The shards of an index have a job each, which
    /// run at the same time, so their progress is not shown.
    fn waited<T>(&self, works: &[&str], long: impl FnOnce() -> T) -> T {
        match self.sharding.sharded {
            None => bar::waited(&self.server, works, long),
            Some(_) => long(),
        }
    }

    /// Fails with the names of the existing indexes if the index is empty (`holds` is false). A sharded index exists
    /// if its number of shards is stored.
    fn expect(&self, kind: Kind, holds: bool) -> io::Result<()> {
        self.plain
            .expect(kind, holds || self.sharding.sharded.is_some())
    }
}
