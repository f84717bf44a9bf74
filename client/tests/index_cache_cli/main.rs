//! `crawlspace index`: indexes of jobs, as people and scripts get at them.

mod load;
