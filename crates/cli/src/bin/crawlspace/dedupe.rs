//! `crawlspace dedupe …`: which payloads have been seen.

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
        match self {
            Dedupe::Stats(stats) => stats.run(),
            Dedupe::Crawls(crawls) => crawls.run(),
            Dedupe::Lookup(lookup) => lookup.run(),
            Dedupe::Requires(requires) => requires.run(),
            Dedupe::RequiredBy(required) => required.run(),
            Dedupe::Commit(commit) => commit.run(),
            Dedupe::Cancel(cancel) => cancel.run(),
            Dedupe::Remove(remove) => remove.run(),
            Dedupe::Retain(retain) => retain.run(),
            Dedupe::Check(check) => check.run(),
            Dedupe::Repair(repair) => repair.run(),
            Dedupe::Profile(profile) => profile.run(),
            Dedupe::Pack(pack) => pack.run(),
            Dedupe::Unpack(unpack) => unpack.run(),
            Dedupe::Index(files) => files.run(),
        }
    }
}
