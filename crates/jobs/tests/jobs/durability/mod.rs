//! Index caches whatever happens: many who ask at once, builders that are killed, full and read-only disks, clocks that
//! are set, lines and files that are none.

mod bad_input;
mod clock;
mod eviction;
mod full_disk;
mod java;
mod kills;
mod processes;
mod races;
mod state;
