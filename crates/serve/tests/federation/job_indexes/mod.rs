//! Indexes of jobs over HTTP: a client with caches of its own, and the server.

#[path = "../../../../jobs/tests/jobs/stage.rs"]
#[allow(dead_code)] // these tests need some of it
mod archive;
mod builds;
mod guard;
mod layers;
#[path = "../../../../jobs/tests/jobs/client/parcels.rs"]
#[allow(dead_code)]
mod parcels;
mod server;
mod stalls;
