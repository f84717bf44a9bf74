//! Indexes of jobs over HTTP: a client with caches of its own, and `crawlspace serve`.

#[path = "../../../../jobs/tests/jobs/stage.rs"]
#[allow(dead_code)] // these tests need some of it
mod archive;
mod builds;
mod guard;
mod hostile;
mod layers;
mod parcels;
mod programs;
mod requests;
mod server;
mod stalls;
