//! Tests the client against real servers: a single server, a cluster, and many shards.

mod frontier;
mod guide;
mod server;
mod sharded;
mod tags;

use crawlspace_client::{Code, Error};

/// Returns the error of a call. Fails unless the error has this code.
#[track_caller]
fn refused<T>(outcome: Result<T, Error>, code: Code) -> Error {
    let error = outcome.err().expect("it is refused");
    assert_eq!(error.code(), Some(code), "{error}");
    error
}
