//! Reading WARC and ARC files, and writing WARC files.

mod arc;
mod before;
mod corpus;
mod same;
mod warc;
