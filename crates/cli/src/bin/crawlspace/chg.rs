//! `crawlspace chg …`: which hosts may be fetched from now, and why the others may not.

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
        match self {
            Chg::Info(info) => info.run(),
            Chg::Why(why) => why.run(),
            Chg::Groups(groups) => groups.run(),
            Chg::Uris(uris) => uris.run(),
            Chg::Expired(expired) => expired.run(),
            Chg::Check(check) => check.run(),
            Chg::Repair(repair) => repair.run(),
            Chg::Pause(pause) => pause.run(),
            Chg::Resume(resume) => resume.run(),
            Chg::Block(block) => block.run(),
            Chg::Limit(limit) => limit.run(),
            Chg::Group(group) => group.run(),
            Chg::Move(moving) => moving.run(),
            Chg::Drop(drop) => drop.run(),
            Chg::Sweep(sweep) => sweep.run(),
        }
    }
}
