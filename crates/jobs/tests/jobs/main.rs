//! Tests indexes of jobs: metadata files, indexes built from them, and durable caches.

mod client;
mod durability;
mod load;
mod metadata;
mod sets;
mod stage;
