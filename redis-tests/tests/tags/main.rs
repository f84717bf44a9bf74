//! `TAGS.*` against a real server.

mod bad_input;
mod big_batches;
mod dialects;
mod edges;
mod explain;
mod expressions;
mod fail_closed;
mod formats;
mod load;
mod model;
mod persistence;
mod points;
mod rules;
mod scan;
