//! Tests of job indexes over HTTP: the server, and a client with its own caches.

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
