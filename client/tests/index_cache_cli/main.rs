//! `crawlspace index`: indexes of jobs, as people and scripts get at them.

mod get;
mod guide;
mod into;
mod load;
mod lookup;
mod operations;
mod server;
mod stage;
