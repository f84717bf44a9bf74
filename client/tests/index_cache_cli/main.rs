//! `crawlspace index`: indexes of jobs, as people and scripts get at them.

mod get;
mod into;
mod load;
mod lookup;
mod operations;
mod stage;
