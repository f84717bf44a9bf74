//! `crawlspace chg …`: commands for frontiers, which decide when a worker may contact a host.

mod check;
mod figures;
mod hold;
mod limits;
mod listing;
mod queues;

use std::io;

use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum Chg {
    Info(figures::ShowInfo),
    Why(figures::ShowWhy),
    Groups(listing::Groups),
    Uris(listing::Uris),
    Expired(figures::ShowExpired),
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
}

impl Chg {
    pub(crate) fn run(&self) -> io::Result<bool> {
        run_one!(self, Chg:
            Info Why Groups Uris Expired Check Repair Pause Resume Block Limit Group Move Drop Sweep)
    }
}
