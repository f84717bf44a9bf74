//! Tests of `TAGS.*` against a real server.

mod bad_input;
mod big_batches;
mod dialects;
mod edges;
mod explain;
mod expressions;
mod fail_closed;
mod formats;
mod load;
mod model;
mod persistence;
mod points;
mod rules;
mod scan;

use redis_tests::{Server, TagSpace};

/// Starts a server and creates a tag space with `space`.
fn stage(space: impl FnOnce(&Server) -> TagSpace) -> (Server, TagSpace) {
    let server = Server::start();
    let space = space(&server);
    (server, space)
}
