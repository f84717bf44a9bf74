//! Tests of `DEDUPE.*` against a real server.

mod begin;
mod beside_browsertrix;
mod both;
mod browsertrix;
mod claims_clock;
mod packed;
mod packed_access;
mod packed_beside;
mod packed_bookkeeping;
mod packed_corrupt;
mod packed_crash;
mod packed_keys;
mod packed_meanwhile;
mod packed_persistence;
mod packed_places;
mod packed_plain;
mod packed_replica;
mod plain_clients;
mod storages;
mod uris;
mod visible;
