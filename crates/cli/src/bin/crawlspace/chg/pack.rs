//! `crawlspace chg pack` and `unpack`: storage formats of a frontier.

use std::io;

use clap::Args;
use crawlspace_client::Error;
use crawlspace_client::frontier::Storage;
use serde::Serialize;

use super::existing;
use crate::Asking;
use crate::storage::sentence;
use crate::table::{Table, count};

/// Store a frontier in one value, which takes a fraction of the memory.
///
/// CHG commands keep returning the same replies; plain clients can no longer read or write the frontier.
/// Workers can fetch meanwhile. The server continues if this command is interrupted; if the server is
/// interrupted, run the command again.
#[derive(Args)]
#[command(after_help = "Examples:
  crawlspace chg pack --prefix '{web}:'
  crawlspace chg pack --prefix '{new}:' --create")]
pub(crate) struct Pack {
    #[command(flatten)]
    asking: Asking,
    /// Create an empty packed frontier if there is none with this prefix.
    #[arg(long)]
    create: bool,
}

impl Pack {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let frontier = self.asking.frontier()?;
        if !self.create {
            existing(&self.asking, &frontier)?;
        }
        convert(&self.asking, "pack", Storage::Packed, || frontier.pack())
    }
}

/// Store a packed frontier in the documented keys again, which any client can read and write.
///
/// They take several times the memory of the packed frontier: make sure that the server has enough memory. Workers
/// can fetch meanwhile. The server continues if this command is interrupted; if the server is interrupted, run the
/// command again.
#[derive(Args)]
#[command(after_help = "Example:
  crawlspace chg unpack --prefix '{web}:'")]
pub(crate) struct Unpack {
    #[command(flatten)]
    asking: Asking,
}

impl Unpack {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let frontier = self.asking.frontier()?;
        existing(&self.asking, &frontier)?;
        convert(&self.asking, "unpack", Storage::Plain, || frontier.unpack())
    }
}

#[derive(Serialize)]
struct Moved {
    storage: Storage,
    groups: u64,
}

/// Converts the storage and prints the result.
fn convert(
    asking: &Asking,
    work: &str,
    storage: Storage,
    call: impl FnOnce() -> Result<u64, Error>,
) -> io::Result<bool> {
    let groups = asking.waited(&[work], call).map_err(io::Error::other)?;
    asking.tell(&Moved { storage, groups }, |_| {
        let mut table = Table::new(&sentence("frontier", storage), 14)?;
        table.row("groups", count(groups), "were moved")?;
        table.end()
    })?;
    Ok(true)
}
