//! `crawlspace wacz …`: dependencies between WACZ files.

mod check;
mod requires;

use std::io;

use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum Wacz {
    Check(check::Check),
    Requires(requires::Requires),
}

impl Wacz {
    pub(crate) fn run(&self) -> io::Result<bool> {
        match self {
            Wacz::Check(check) => check.run(),
            Wacz::Requires(requires) => requires.run(),
        }
    }
}
