//! Properties that all three families have, one a file.

mod acl;
mod cluster;
mod coverage;
mod databases;
mod restart;
mod roles;
mod stage;
mod transactions;
