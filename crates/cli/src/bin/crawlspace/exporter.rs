//! `crawlspace exporter`: metrics of servers for Prometheus.

mod text;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use crawlspace_client::dedupe::Stats;
use crawlspace_client::server::without_password;
use crawlspace_serve::host::Host;
use crawlspace_serve::server::serve_metrics;
use futures_util::future::{join, join_all};

use crate::observe::{Name, Observation, Observed, ShardedIndexes, Wanted};
use crate::service;
use crate::terminal::{Bytes, plain, say};
use crate::url::redis_url;

/// Export the metrics of servers to Prometheus.
///
/// For each scrape, a server runs INFO, and one command of a few microseconds per index, frontier and tag space,
/// regardless of their size; a sharded index takes two commands per shard. The exporter finds the data sets that were
/// used since the server started, and exports up to --limit of each kind; it only counts the others. Ends on SIGTERM
/// and Ctrl-C. docs/guide/metrics.md lists the metrics, and docs/guide/operations.md the alerts.
#[derive(Args)]
#[command(after_help = "Examples:
  crawlspace exporter --redis redis://10.0.0.5:6379 --redis redis://10.0.0.6:6379
  crawlspace exporter --redis redis://10.0.0.5:6379 --sharded coll-42
  crawlspace exporter --once | grep frontier_due")]
pub(crate) struct Exporter {
    /// A server with the Crawlspace module loaded; may be given several times. For a cluster, give
    /// each node.
    #[arg(
        long = "redis",
        value_name = "URL",
        env = "CRAWLSPACE_REDIS",
        value_parser = redis_url,
        hide_env_values = true,
        default_value = "redis://127.0.0.1:6379/0"
    )]
    servers: Vec<String>,
    /// The address to listen on; the metrics are at /metrics.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9921")]
    listen: SocketAddr,
    /// A host that requests may name in Host, with or without a port; may be given several times. Without it, a loopback
    /// address accepts only addresses and localhost, and any other address accepts all hosts.
    #[arg(long = "host", value_name = "HOST")]
    hosts: Vec<Host>,
    /// Maximum number of indexes per server, and likewise of frontiers and of tag spaces.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(0..=1000))]
    limit: u16,
    /// The prefix of an index to export even if it was not used; may be given several times.
    #[arg(long = "index", value_name = "PREFIX", value_parser = Bytes::parser())]
    indexes: Vec<Bytes>,
    /// The name of a sharded index, whose shards are exported as one index with their sums; may be given several times.
    #[arg(long, value_name = "NAME", value_parser = Bytes::parser())]
    sharded: Vec<Bytes>,
    /// The prefix of a frontier to export even if it was not used; may be given several times.
    #[arg(long = "frontier", value_name = "PREFIX", value_parser = Bytes::parser())]
    frontiers: Vec<Bytes>,
    /// The key of a tag space to export even if it was not used; may be given several times.
    #[arg(long = "space", value_name = "KEY", value_parser = Bytes::parser())]
    spaces: Vec<Bytes>,
    /// Print the metrics and exit. Exit status 1 if a server or a sharded index cannot be reached, or if a server has
    /// not loaded the module.
    #[arg(long)]
    once: bool,
}

/// Everything that a scrape queries.
struct Targets {
    servers: Vec<Arc<Target>>,
    sharded: Vec<Arc<ShardedTarget>>,
}

/// A server and its name in the metrics.
struct Target {
    name: String,
    observed: Mutex<Observed>,
    wanted: Wanted,
    complaint: Complaint,
}

/// Result of querying a server, with its duration.
struct Look {
    server: String,
    outcome: io::Result<Observation>,
    took: Duration,
}

/// A sharded index, and the servers that may have it.
struct ShardedTarget {
    name: Bytes,
    servers: Mutex<ShardedIndexes>,
    complaint: Complaint,
}

/// Result of querying a sharded index.
struct ShardedLook {
    name: String,
    outcome: io::Result<(Name, Stats)>,
}

/// Results of a scrape.
struct Looks {
    servers: Vec<Look>,
    sharded: Vec<ShardedLook>,
}

/// Error of the last query, so that it is logged once.
#[derive(Default)]
struct Complaint(Mutex<Option<String>>);

impl Complaint {
    /// Logs the outcome of a query if it differs from the previous one.
    fn log<T>(&self, name: &str, outcome: &io::Result<T>) {
        let complaint = outcome.as_ref().err().map(io::Error::to_string);
        let mut before = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *before != complaint {
            match &complaint {
                Some(error) => say(format_args!("{name}: {error}")),
                None => say(format_args!("{name}: available again")),
            }
            *before = complaint;
        }
    }
}

impl Target {
    fn look(&self) -> Look {
        let begun = Instant::now();
        let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = observed.look(&self.wanted);
        self.complaint.log(&self.name, &outcome);
        Look {
            server: self.name.clone(),
            outcome,
            took: begun.elapsed(),
        }
    }
}

impl ShardedTarget {
    fn look(&self) -> ShardedLook {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = servers.stats(&self.name);
        let name = plain(self.name.as_bytes());
        self.complaint.log(&name, &outcome);
        ShardedLook { name, outcome }
    }
}

impl Exporter {
    pub(crate) fn run(self) -> io::Result<bool> {
        let wanted = Wanted {
            indexes: self.indexes,
            frontiers: self.frontiers,
            spaces: self.spaces,
            sharded: self.sharded.clone(),
            limit: usize::from(self.limit),
            busy: 0,
        };
        let targets = self.servers.iter().map(|url| Target {
            name: host(url),
            observed: Mutex::new(Observed::new(url)),
            wanted: wanted.clone(),
            complaint: Complaint::default(),
        });
        let sharded = self.sharded.iter().map(|name| ShardedTarget {
            name: name.clone(),
            servers: Mutex::new(ShardedIndexes::new(&self.servers)),
            complaint: Complaint::default(),
        });
        let targets = Arc::new(Targets {
            servers: targets.map(Arc::new).collect(),
            sharded: sharded.map(Arc::new).collect(),
        });
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        let done = runtime.block_on(async {
            if self.once {
                let looks = look_at(&targets).await;
                io::stdout().write_all(text::of(&looks).as_bytes())?;
                let are_up = looks.servers.iter().all(|look| look.outcome.is_ok());
                return Ok(are_up && looks.sharded.iter().all(|look| look.outcome.is_ok()));
            }
            let listener = service::listen(self.listen).await?;
            let stop = service::stopped()?;
            writeln!(io::stdout(), "http://{}/metrics", listener.local_addr()?)?;
            let metrics = move || {
                let targets = Arc::clone(&targets);
                async move { text::of(&look_at(&targets).await) }
            };
            serve_metrics(listener, self.hosts, metrics, stop).await?;
            Ok(true)
        });
        runtime.shutdown_background();
        done
    }
}

/// Queries all servers and sharded indexes concurrently.
async fn look_at(targets: &Targets) -> Looks {
    let servers = targets.servers.iter().map(|target| {
        let target = Arc::clone(target);
        tokio::task::spawn_blocking(move || target.look())
    });
    let sharded = targets.sharded.iter().map(|target| {
        let target = Arc::clone(target);
        tokio::task::spawn_blocking(move || target.look())
    });
    let (servers, sharded) = join(join_all(servers), join_all(sharded)).await;
    Looks {
        servers: servers.into_iter().flatten().collect(),
        sharded: sharded.into_iter().flatten().collect(),
    }
}

/// Returns the name of a server: its host and port, or its socket.
fn host(url: &str) -> String {
    // A password with an unescaped slash would become part of the host.
    let Ok(url) = ::url::Url::parse(&without_password(url)) else {
        return "?".to_owned(); // connecting fails with an error that explains what is wrong
    };
    match (url.host_str(), url.port()) {
        (Some(host), port) if !host.is_empty() => format!("{host}:{}", port.unwrap_or(6379)),
        _ => url.path().to_owned(),
    }
}
