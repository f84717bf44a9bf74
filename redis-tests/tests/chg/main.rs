//! `CHG.*` against a real server.

mod bad_input;
mod clock;
mod cluster;
mod counts;
mod crash;
mod databases;
mod dropped;
mod gates;
mod holds;
mod kept_uris;
mod leases;
mod limits;
mod listing;
mod model;
mod moving;
mod pauses;
mod persistence;
mod plain_clients;
mod roles;
mod shared_gates;
mod simulation;
mod stage;
mod stranded;
mod sweep;
mod waiting;
mod why;
