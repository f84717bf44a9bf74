//! Tests reading of WARC and ARC files, and writing of WARC files.

mod arc;
mod corpus;
mod warc;
