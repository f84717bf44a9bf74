//! `crawlspace index`: indexes of jobs, as people and scripts get at them.

mod copy;
mod get;
mod guide;
mod into;
mod lookup;
mod operations;
mod programs;
mod room;
mod server;
pub(crate) mod stage;
mod waiting;
