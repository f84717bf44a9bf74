//! Names of hosts to addresses.

use std::collections::HashMap;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, FutureExt, Shared};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use url::Host;

/// Limit of look-ups at a time. A look-up by the system's resolver cannot be cancelled, and takes a thread.
const MAX_LOOKUPS: usize = 64;
/// How long the addresses of a name are cached.
const KEPT: Duration = Duration::from_secs(30);
/// How long a failed look-up is cached.
const KEPT_FAILURE: Duration = Duration::from_secs(1);
/// Maximum number of names cached.
const MAX_NAMES: usize = 4096;

type Found = Result<Arc<[IpAddr]>, Arc<str>>;
type Asked = Shared<BoxFuture<'static, Found>>;

/// The system's resolver. Those who ask for the same name at the same time wait for the same answer, so that a name
/// which takes long takes one thread, however many ask for it.
pub(super) struct Names {
    turns: Arc<Semaphore>,
    known: Mutex<HashMap<String, (Instant, Asked)>>,
}

impl Names {
    pub(crate) fn new() -> Names {
        Names {
            turns: Arc::new(Semaphore::new(MAX_LOOKUPS)),
            known: Mutex::new(HashMap::new()),
        }
    }

    /// All addresses of a host, private or not. The error is what the system says.
    pub(crate) async fn addresses(&self, host: &str) -> Found {
        let bare = host
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        if let Ok(address) = bare.unwrap_or(host).parse::<IpAddr>() {
            return Ok([address].into());
        }
        // Also those ways to write an address that only browsers and old resolvers know.
        match Host::parse(host) {
            Ok(Host::Ipv4(address)) => return Ok([IpAddr::V4(address)].into()),
            Ok(Host::Ipv6(address)) => return Ok([IpAddr::V6(address)].into()),
            Ok(Host::Domain(_)) => {}
            Err(error) => return Err(error.to_string().into()),
        }
        if let Some(asked) = self.known(host) {
            return asked.await;
        }
        let Ok(turn) = self.turns.clone().acquire_owned().await else {
            return Err("the resolver is gone".into());
        };
        // Somebody else may have had a turn in the meantime.
        if let Some(asked) = self.known(host) {
            drop(turn);
            return asked.await;
        }
        let name = host.to_owned();
        let asked = spawn_blocking(move || {
            let _turn = turn;
            look_up(&name)
        });
        let asked =
            asked.map(|found| found.unwrap_or_else(|_| Err("the look-up was given up".into())));
        let asked = asked.boxed().shared();
        self.keep(host, &asked);
        asked.await
    }

    /// What is known of a host already, or under way.
    fn known(&self, host: &str) -> Option<Asked> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, asked) = known.get(host)?;
        is_good(*since, asked).then(|| asked.clone())
    }

    fn keep(&self, host: &str, asked: &Asked) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_NAMES {
            known.retain(|_, (since, asked)| is_good(*since, asked));
        }
        if known.len() < MAX_NAMES {
            known.insert(host.to_owned(), (Instant::now(), asked.clone()));
        }
    }
}

fn is_good(since: Instant, asked: &Asked) -> bool {
    match asked.peek() {
        None => true,
        Some(Ok(_)) => since.elapsed() < KEPT,
        Some(Err(_)) => since.elapsed() < KEPT_FAILURE,
    }
}

fn look_up(name: &str) -> Found {
    match (name, 0).to_socket_addrs() {
        Ok(found) => {
            let found: Arc<[IpAddr]> = found.map(|address| address.ip()).collect();
            match found.is_empty() {
                false => Ok(found),
                true => Err("it has no address".into()),
            }
        }
        Err(error) => Err(error.to_string().into()),
    }
}
