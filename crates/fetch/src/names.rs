//! Resolution of host names, with a cache.

use std::collections::HashMap;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, FutureExt, Shared};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use url::Host;

/// Maximum number of concurrent lookups. A lookup by the system's resolver blocks a thread and cannot be cancelled.
const MAX_LOOKUPS: usize = 64;
/// Time for which the addresses of a name are cached.
const CACHED_FOR: Duration = Duration::from_secs(30);
/// Time for which a failed lookup is cached.
const FAILURE_CACHED_FOR: Duration = Duration::from_secs(1);
/// Maximum number of names cached.
const MAX_NAMES: usize = 4096;

type Resolved = Result<Arc<[IpAddr]>, Arc<str>>;
type Lookup = Shared<BoxFuture<'static, Resolved>>;

/// The system's resolver. Concurrent lookups of the same name share one result, so that a slow name occupies only
/// one thread, however many tasks wait for it.
pub(super) struct Names {
    turns: Arc<Semaphore>,
    cache: Mutex<HashMap<String, (Instant, Lookup)>>,
}

impl Names {
    pub(crate) fn new() -> Names {
        Names {
            turns: Arc::new(Semaphore::new(MAX_LOOKUPS)),
            cache: Mutex::new(HashMap::new()),
        }
    }

    /// Returns all addresses of a host, private or not. Fails with the text of the system's error.
    pub(crate) async fn addresses(&self, host: &str) -> Resolved {
        let bare = host
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        if let Ok(address) = bare.unwrap_or(host).parse::<IpAddr>() {
            return Ok([address].into());
        }
        // `Host::parse` also accepts notations of addresses that only browsers and old resolvers accept, such as
        // `0x7f.1`.
        match Host::parse(host) {
            Ok(Host::Ipv4(address)) => return Ok([IpAddr::V4(address)].into()),
            Ok(Host::Ipv6(address)) => return Ok([IpAddr::V6(address)].into()),
            Ok(Host::Domain(_)) => {}
            Err(error) => return Err(error.to_string().into()),
        }
        if let Some(asked) = self.cached(host) {
            return asked.await;
        }
        let Ok(turn) = self.turns.clone().acquire_owned().await else {
            return Err("the look-up was cancelled".into());
        };
        // Another task may have started the lookup in the meantime.
        if let Some(asked) = self.cached(host) {
            drop(turn);
            return asked.await;
        }
        let name = host.to_owned();
        let asked = spawn_blocking(move || {
            let _turn = turn;
            look_up(&name)
        });
        let asked =
            asked.map(|found| found.unwrap_or_else(|_| Err("the look-up was abandoned".into())));
        let asked = asked.boxed().shared();
        self.keep(host, &asked);
        asked.await
    }

    /// Returns the lookup of a host that is cached or in progress.
    fn cached(&self, host: &str) -> Option<Lookup> {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, asked) = cache.get(host)?;
        is_good(*since, asked).then(|| asked.clone())
    }

    fn keep(&self, host: &str, asked: &Lookup) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.len() >= MAX_NAMES {
            cache.retain(|_, (since, asked)| is_good(*since, asked));
        }
        if cache.len() < MAX_NAMES {
            cache.insert(host.to_owned(), (Instant::now(), asked.clone()));
        }
    }
}

fn is_good(since: Instant, asked: &Lookup) -> bool {
    match asked.peek() {
        None => true,
        Some(Ok(_)) => since.elapsed() < CACHED_FOR,
        Some(Err(_)) => since.elapsed() < FAILURE_CACHED_FOR,
    }
}

fn look_up(name: &str) -> Resolved {
    match (name, 0).to_socket_addrs() {
        Ok(found) => {
            let found: Arc<[IpAddr]> = found.map(|address| address.ip()).collect();
            if found.is_empty() {
                Err("it has no address".into())
            } else {
                Ok(found)
            }
        }
        Err(error) => Err(error.to_string().into()),
    }
}
