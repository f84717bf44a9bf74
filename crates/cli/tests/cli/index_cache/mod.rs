//! Tests `crawlspace index`: indexes of jobs for people and scripts.

mod copy;
mod get;
pub mod guide;
mod into;
mod lookup;
mod operations;
mod programs;
mod room;
mod server;
pub(crate) mod stage;
mod waiting;
