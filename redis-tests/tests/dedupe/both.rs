//! What is true of plain and of packed indexes alike. `make test` runs it once with each.

mod acl;
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
mod persistence;
mod records;
mod removal;
mod roles;
mod transactions;
mod visibility;
mod wacz;
