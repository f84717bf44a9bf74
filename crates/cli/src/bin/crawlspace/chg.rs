//! `crawlspace chg …`: commands for frontiers, which decide when a worker may contact a host.

mod add;
mod check;
mod dump;
mod figures;
mod hold;
mod limits;
mod listing;
mod pack;
mod queues;
mod serve;

use std::io;

use clap::Subcommand;
use crawlspace_client::frontier::{Frontier, Info};
use crawlspace_client::{Ask, Call};

use crate::Asking;
use crate::observe::{Kind, is_frontier};

#[derive(Subcommand)]
pub(crate) enum Chg {
    Info(figures::ShowInfo),
    Why(figures::ShowWhy),
    Groups(listing::Groups),
    Uris(listing::Uris),
    Expired(figures::ShowExpired),
    Add(add::Add),
    Dump(dump::Dump),
    Check(check::ShowCheck),
    Repair(check::Mend),
    Pause(hold::Pause),
    Resume(hold::Resume),
    Block(hold::Block),
    Limit(limits::Limit),
    Group(limits::Group),
    Move(queues::Move),
    Drop(queues::Drop),
    Sweep(queues::Sweep),
    Pack(pack::Pack),
    Unpack(pack::Unpack),
    Serve(serve::Serve),
}

impl Chg {
    pub(crate) fn run(&self) -> io::Result<bool> {
        run_one!(self, Chg:
            Info Why Groups Uris Expired Add Dump Check Repair Pause Resume Block Limit Group Move Drop Sweep
            Pack Unpack Serve)
    }
}

/// Returns the statistics of a frontier. Fails with the names of the existing frontiers if there is none with this
/// prefix.
fn existing(asking: &Asking, frontier: &Frontier) -> io::Result<Info> {
    let info = frontier.info().map_err(io::Error::other)?;
    let exists = is_frontier(&info) || has_keys(frontier)?;
    asking.expect(Kind::Frontier, exists)?;
    Ok(info)
}

/// Returns true if a frontier without contents has left keys: the packed value, the last token, or a total of 0.
fn has_keys(frontier: &Frontier) -> io::Result<bool> {
    let mut exists = redis::cmd("EXISTS");
    for name in ["chg_packed", "chg_token", "QCT"] {
        exists.arg([frontier.prefix(), name.as_bytes()].concat());
    }
    let call = Call::<u64>::new(exists).repeatable();
    match frontier.server().ask(call) {
        Ok(keys) => Ok(keys > 0),
        Err(error) if error.is_connection() => Err(io::Error::other(error)),
        // The user may lack the permission for this command.
        Err(_) => Ok(false),
    }
}
