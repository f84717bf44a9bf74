//! `crawlspace serve`.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use crawlspace_serve::Federation;
use crawlspace_serve::memory::{self, MEMORY};
use crawlspace_serve::reload::{ConfigFiles, Current};
use crawlspace_serve::server::{self, CONNECTIONS};
use futures_util::FutureExt;
use http::HeaderValue;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{config, open_files, service};

/// Maximum wait for builds of indexes when the program exits.
const GRACE: Duration = Duration::from_secs(2);

/// Serve index and resource APIs over HTTP for every collection of a configuration, and job indexes.
///
/// Prints the address as soon as it accepts requests. On SIGTERM and Ctrl-C it finishes the current
/// requests, for at most a few seconds, and exits.
///
/// The configuration is read again when its file changes, and on SIGHUP. Current requests are finished with the
/// previous one. An invalid configuration changes nothing, and the log says why. Options and environment variables
/// are only read at the start.
#[derive(Args)]
#[command(after_help = "Examples:
  crawlspace serve --config config.yaml
  crawlspace serve --config config.yaml --bind 0.0.0.0:8080 --public-url https://archive.example")]
pub(crate) struct Serve {
    /// The configuration in YAML; `crawlspace config check` checks it.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The address to listen on. Every client that reaches it can read all collections.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    bind: SocketAddr,
    /// The address of /_status and /_metrics, which are for the operator; reverse proxies must not
    /// forward requests to it. The log shows it at the start.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    status: SocketAddr,
    /// Read the configuration again only on SIGHUP, not when its file changes.
    #[arg(long)]
    no_watch: bool,
    /// Log each request.
    #[arg(long)]
    access_log: bool,
    /// Log level; the log is JSON lines on standard error.
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = ["error", "warn", "info", "debug", "trace"])]
    log: String,
    /// Maximum number of connections; further connections wait.
    #[arg(long, value_name = "N", default_value_t = CONNECTIONS)]
    connections: usize,
    /// Memory in MiB that all requests together may use, for sorting rows and similar work. Above
    /// it, requests are refused (503) until memory is free.
    #[arg(long, value_name = "MIB", default_value_t = MEMORY >> 20)]
    memory: u64,
    /// Public URL of this server behind a reverse proxy: https://archive.example. TimeMaps and TimeGates link to it;
    /// by default they link to the host that the request names.
    #[arg(long, value_name = "URL", value_parser = web_url)]
    public_url: Option<String>,
    /// Allow pages of this origin to read responses in a browser (CORS): https://replay.example, or * for all.
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Option<HeaderValue>,
}

impl Serve {
    pub(crate) fn run(self) -> io::Result<bool> {
        service::log(&self.log)?;
        let descriptors = open_files::allow_more();
        memory::limit(self.memory.saturating_mul(1 << 20));
        let warn = |warning| tracing::warn!(%warning, "the configuration");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        // From here on SIGHUP does not end the process, even before the configuration is read.
        let hangup = runtime.block_on(async { signal(SignalKind::hangup()) })?;
        let mut files = ConfigFiles::of(self.config.clone());
        let Some(config) = config::read(&self.config, warn) else {
            return Ok(false);
        };
        files.look(&config);
        let federation = Federation::open_at(&config, self.public_url).map_err(io::Error::other)?;
        let current = Current::new(federation);
        let served = runtime.block_on(async {
            let listener = service::listen(self.bind).await?;
            let for_operator = service::listen(self.status).await?;
            let stop = service::stopped()?.shared();
            let status = format!("http://{}/_status", for_operator.local_addr()?);
            tracing::info!(status, "serving the status for the operator");
            println!("http://{}/", listener.local_addr()?);
            let operator = server::Options {
                operator: true,
                ..server::Options::default()
            };
            let options = server::Options {
                connections: self.connections,
                access_log: self.access_log,
                allow_origin: self.allow_origin,
                ..server::Options::default()
            };
            if let Some(allowed) = descriptors.filter(|allowed| *allowed < options.descriptors()) {
                let needed = options.descriptors();
                tracing::warn!(
                    allowed,
                    needed,
                    "the limit of open files is too low for this number of connections: raise it (ulimit -n, LimitNOFILE=) \
                     or lower --connections"
                );
            }
            // Set the address before the first reload: a reloaded configuration takes it over from
            // the current one.
            let address = for_operator.local_addr()?;
            current.federation().net.refuse_operators(address);
            let reloads = reload(Arc::clone(&current), files, hangup, !self.no_watch);
            tokio::spawn(reloads);
            tokio::try_join!(
                server::serve(Arc::clone(&current), for_operator, operator, stop.clone()),
                server::serve(current, listener, options, stop),
            )?;
            Ok(true)
        });
        // Builds may be interrupted, because unfinished indexes are never used.
        runtime.shutdown_timeout(GRACE);
        served
    }
}

/// Reloads the configuration at each SIGHUP, and when its files change. Several signals during one reload cause a
/// single further reload.
async fn reload(current: Arc<Current>, mut files: ConfigFiles, mut hangup: Signal, watch: bool) {
    loop {
        tokio::select! {
            _ = hangup.recv() => {}
            () = files.changed(), if watch => {}
        }
        files = current.reload(files).await;
    }
}

fn web_url(text: &str) -> Result<String, String> {
    let url = url::Url::parse(text).map_err(|error| error.to_string())?;
    let is_place = matches!(url.scheme(), "http" | "https")
        && url.query().is_none()
        && url.fragment().is_none();
    if is_place {
        Ok(text.to_owned())
    } else {
        Err("write http://host or https://host, if necessary with a path".to_owned())
    }
}
