//! `crawlspace dedupe …`: commands for dedupe indexes.

mod check;
mod crawls;
mod end;
mod index;
mod lookup;
mod pack;
mod profile;
mod requires;

use std::io;

use clap::Subcommand;

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
}

impl Dedupe {
    pub(crate) fn run(&self) -> io::Result<bool> {
        run_one!(self, Dedupe:
            Stats Crawls Lookup Requires RequiredBy Commit Cancel Remove Retain Check Repair Profile Pack Unpack
            Index)
    }
}
