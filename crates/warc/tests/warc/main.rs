//! Reading WARC and ARC files, and writing WARC files.

mod arc;
mod corpus;
mod warc;
