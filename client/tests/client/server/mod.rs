//! Tests connections: blocking and async, to a server and to a cluster, for single calls and batches.

mod asynchronous;
mod batches;
mod clusters;
mod pools;
mod protocols;
mod redis_rs;
mod refusals;
mod retries;
mod tls;
pub mod vandal;

use std::future::Future;

use redis::Cmd;

/// Runs a future to completion on its own runtime.
pub fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// Parses a command line.
fn command(line: &str) -> Cmd {
    let mut words = line.split(' ');
    let mut command = redis::cmd(words.next().unwrap());
    for word in words {
        command.arg(word);
    }
    command
}
