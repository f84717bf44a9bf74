//! Tests of durability: concurrent requests, killed builders, full and read-only disks, clock changes, invalid lines
//! and files.

mod bad_input;
mod clock;
mod eviction;
mod full_disk;
mod java;
mod kills;
mod processes;
mod races;
mod state;
