//! Tests of job indexes over HTTP: the server, and a client with its own caches.

#[path = "../../../../jobs/tests/jobs/stage.rs"]
#[allow(dead_code)] // these tests use only some functions of the module
mod archive;
mod builds;
mod guard;
mod layers;
#[path = "../../../../jobs/tests/jobs/client/parcels.rs"]
#[allow(dead_code)]
mod parcels;
mod server;
mod stalls;
