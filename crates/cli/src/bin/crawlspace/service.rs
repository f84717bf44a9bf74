//! The log, the sockets and the end of the commands that serve until they are stopped.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// Writes log lines of this level and above as JSON on standard error.
pub(crate) fn log(level: &str) -> io::Result<()> {
    let level: tracing::Level = level.parse().map_err(io::Error::other)?;
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_max_level(level)
        .with_writer(io::stderr)
        .init();
    Ok(())
}

/// Listens on an address, which errors name.
pub(crate) async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))
}

/// Returns a future that completes on SIGTERM and Ctrl-C. From now on, these signals do not end the process.
pub(crate) fn stopped() -> io::Result<impl Future<Output = ()>> {
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
    })
}
