//! Tests that must pass in plain and in packed storage. `make test` runs them once in each.

mod access;
mod bad_input;
mod check;
mod claims;
mod cluster;
mod commit;
mod crash;
mod databases;
mod jobs;
mod memory;
mod model;
mod records;
mod removal;
mod roles;
mod urls;
mod visibility;
mod wacz;
