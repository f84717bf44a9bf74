//! `crawlspace serve`.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use crawlspace_client::federation::config::Config;
use crawlspace_client::federation::{server, Federation};
use tokio::net::TcpListener;
use tokio::signal::unix::{signal, SignalKind};

/// Serve index and resource APIs over HTTP, over every collection of a configuration.
///
/// The address is printed as soon as requests are answered. SIGTERM and Ctrl-C end it: requests that are under way
/// are answered first, for some seconds.
#[derive(Args)]
pub struct Serve {
    /// The configuration: YAML, as `crawlspace config check` accepts it.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The address to listen on. Everybody who reaches it can read all collections.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    bind: SocketAddr,
}

impl Serve {
    pub fn run(self) -> io::Result<bool> {
        tracing_subscriber::fmt()
            .json()
            .with_writer(io::stderr)
            .init();
        let config = Config::load(&self.config).map_err(io::Error::other)?;
        let federation = Federation::open(&config).map_err(io::Error::other)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let listener = TcpListener::bind(self.bind).await.map_err(|error| {
                let text = format!("{}: {error}", self.bind);
                io::Error::new(error.kind(), text)
            })?;
            let mut terminated = signal(SignalKind::terminate())?;
            let mut interrupted = signal(SignalKind::interrupt())?;
            println!("http://{}/", listener.local_addr()?);
            let stop = async {
                tokio::select! {
                    _ = terminated.recv() => {}
                    _ = interrupted.recv() => {}
                }
            };
            server::serve(federation, listener, stop).await?;
            Ok(true)
        })
    }
}
