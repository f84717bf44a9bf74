//! Indexes of jobs: metadata files, the indexes that are made of them, and caches that last.

mod client;
mod durability;
mod load;
mod metadata;
mod sets;
mod stage;
