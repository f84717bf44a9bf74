//! Reaching servers: blocking and not, one and a cluster of them, calls one by one and many at once.

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

/// Runs a future to its end on a runtime of its own.
pub fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// A command in one line.
fn command(line: &str) -> Cmd {
    let mut words = line.split(' ');
    let mut command = redis::cmd(words.next().unwrap());
    for word in words {
        command.arg(word);
    }
    command
}
