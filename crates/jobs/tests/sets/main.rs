//! Indexes of jobs, from metadata files to rows, as a library makes them.

mod sets;
mod stage;
