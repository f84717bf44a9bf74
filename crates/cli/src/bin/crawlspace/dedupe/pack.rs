//! `crawlspace dedupe pack` and `unpack`: storage formats of an index.

use std::io;

use clap::Args;
use crawlspace_cli::any_index::AnyIndex;
use crawlspace_client::Error;
use crawlspace_client::dedupe::{Moved, Storage};

use super::Asking;
use crate::storage::sentence;
use crate::table::{Table, count, size};

/// Store the committed part of an index in one value, which takes a fraction of the memory.
///
/// DEDUPE commands keep returning the same replies; plain clients can no longer read committed hashes.
/// Clients can work on the index meanwhile. The server continues if this command is interrupted; if the
/// server is interrupted, run the command again. Crawls that are committed later are packed as well.
#[derive(Args)]
#[command(after_help = "Example:
  crawlspace dedupe pack --prefix '{coll-42}:'")]
pub(crate) struct Pack {
    #[command(flatten)]
    asking: Asking,
}

impl Pack {
    pub(crate) fn run(&self) -> io::Result<bool> {
        convert(&self.asking, "pack", AnyIndex::pack)
    }
}

/// Store a packed index in the documented keys again, which any client can read.
///
/// They take several times the memory of the packed index: make sure that the server has enough memory. Clients can
/// work on the index meanwhile. The server continues if this command is interrupted; if the server is interrupted,
/// run the command again.
#[derive(Args)]
#[command(after_help = "Example:
  crawlspace dedupe unpack --prefix '{coll-42}:'")]
pub(crate) struct Unpack {
    #[command(flatten)]
    asking: Asking,
}

impl Unpack {
    pub(crate) fn run(&self) -> io::Result<bool> {
        convert(&self.asking, "unpack", AnyIndex::unpack)
    }
}

/// Converts the storage and prints the result.
fn convert(
    asking: &Asking,
    work: &str,
    call: fn(&AnyIndex) -> Result<Moved, Error>,
) -> io::Result<bool> {
    let index = asking.index()?;
    let moved = asking.waited(&[work], || call(&index));
    asking.tell(&moved.map_err(io::Error::other)?, print)?;
    Ok(true)
}

fn print(moved: &Moved) -> io::Result<()> {
    let mut table = Table::new(&sentence("index", moved.storage), 14)?;
    table.row(
        "hashes",
        count(moved.hashes),
        "of the merged index were moved",
    )?;
    table.row(
        "records",
        count(moved.records),
        "of committed crawls were moved",
    )?;
    let of = match moved.storage {
        Storage::Packed => "for all of them",
        _ => "for the merged index alone",
    };
    let note = match size(moved.memory) {
        none if none.is_empty() => of.to_owned(),
        size => format!("{size} {of}"),
    };
    table.row("memory", count(moved.memory), &note)?;
    table.end()
}
