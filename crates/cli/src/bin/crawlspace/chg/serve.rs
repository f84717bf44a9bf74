//! `crawlspace frontier serve`.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use crawlspace_client::AsyncServer;
use crawlspace_compact::token::Token;
use crawlspace_serve::host::Host;
use crawlspace_serve::server::serve_metrics;
use crawlspace_urlfrontier::server::{self, Options};
use crawlspace_urlfrontier::{Service, Store};
use futures_util::FutureExt;

use crate::{Server, open_files, service};

/// Timeout of the server, after which items are not acknowledged as added.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Number of retries. Including their pauses, they take six to twelve seconds, long enough for a restart of the server.
const RETRIES: u32 = 6;

/// Serve a frontier over gRPC to StormCrawler and other clients of URLFrontier.
///
/// Creates a packed frontier if the prefix has none. Prints the addresses as soon as it accepts requests. On SIGTERM and
/// Ctrl-C it acknowledges what it has read, ends all streams, and exits. `crawlspace frontier serve` is the same command.
/// See docs/guide/urlfrontier.md.
#[derive(Args)]
#[command(after_help = "Examples:
  crawlspace chg serve --prefix '{web}:'
  crawlspace chg serve --listen 0.0.0.0:7071 --tls-cert cert.pem --tls-key key.pem --token-file token")]
pub(crate) struct Serve {
    #[command(flatten)]
    server: Server,
    /// The address to listen on. Every client that reaches it can change the frontier, unless there is a token.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7071")]
    listen: SocketAddr,
    /// The address of /metrics, which is for the operator.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    status: SocketAddr,
    /// A host that requests to /metrics may name in Host, with or without a port; may be given several times. Without it, a
    /// loopback address accepts only addresses and localhost, and any other address accepts all hosts.
    #[arg(long = "host", value_name = "HOST")]
    hosts: Vec<Host>,
    /// Certificate chain of the server (PEM), for TLS.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// File with the token that requests must have in `authorization: Bearer TOKEN`: 16 or more ASCII characters without
    /// spaces.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Log level; the log is JSON lines on standard error.
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = ["error", "warn", "info", "debug", "trace"])]
    log: String,
}

impl Serve {
    pub(crate) fn run(&self) -> io::Result<bool> {
        service::log(&self.log)?;
        open_files::allow_more();
        let options = self.options()?;
        if !self.listen.ip().is_loopback() && options.token.is_none() {
            tracing::warn!(
                "every client that reaches the address can change the frontier: see --token-file"
            );
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        let served = runtime.block_on(async {
            let connection = AsyncServer::options(&self.server.redis)
                .timeout(TIMEOUT)
                .retries(RETRIES)
                .open_async()
                .await
                .map_err(io::Error::other)?;
            let store = Store::open(&connection, self.server.prefix.as_bytes()).await;
            let store = store.map_err(io::Error::other)?;
            let listener = service::listen(self.listen).await?;
            let for_operator = service::listen(self.status).await?;
            let stop = service::stopped()?.shared();
            let address = listener.local_addr()?;
            let service = Service::new(store, address);
            let scheme = match options.tls {
                Some(_) => "https",
                None => "http",
            };
            println!("{scheme}://{address}/");
            println!("http://{}/metrics", for_operator.local_addr()?);
            let shown = service.clone();
            let metrics = move || std::future::ready(shown.metrics());
            let (ended, ()) = tokio::join!(
                serve_metrics(for_operator, self.hosts.clone(), metrics, stop.clone()),
                server::serve(listener, service, options, stop),
            );
            ended
        });
        runtime.shutdown_background();
        served.map(|()| true)
    }

    fn options(&self) -> io::Result<Options> {
        let tls = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => Some(server::tls(certificate, key)?),
            _ => None,
        };
        let token = self.token_file.as_ref().map(|file| {
            let shown = file.display();
            let text = std::fs::read(file)
                .map_err(|error| io::Error::new(error.kind(), format!("{shown}: {error}")))?;
            Token::parse(&text).map_err(|error| io::Error::other(format!("{shown}: {error}")))
        });
        Ok(Options {
            tls,
            token: token.transpose()?,
        })
    }
}
