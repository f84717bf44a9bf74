//! The frontier behind the service, and the data that the service stores in addition.
//!
//! The default delay and the crawl ids are in a hash at the key `urlfrontier` of the frontier's prefix: `delay` has the
//! milliseconds, and a field `crawl:<id>` marks a crawl.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crawlspace_client::frontier::{Frontier, Millis, Storage};
use crawlspace_client::{Ask, AsyncServer, Call};
use tonic::Status;

/// Pause between two deliveries from a queue, unless a client sets another default.
const DELAY: Millis = 1000;
/// Time after which the default delay and the crawls are read again, because another process may have changed them.
const FRESH: Duration = Duration::from_secs(1);

/// The reason why a frontier cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server failed.
    #[error(transparent)]
    Server(#[from] crawlspace_client::Error),
    /// The frontier is in plain storage.
    #[error("the frontier is in plain storage: run CHG.PACK, or choose another prefix")]
    Plain,
}

/// A packed frontier, shared by all calls.
#[derive(Debug)]
pub struct Store {
    pub(crate) frontier: Frontier<AsyncServer>,
    /// The default delay, and when it was read.
    delay: Mutex<Option<(Instant, Millis)>>,
    /// Crawls known to be in the hash, and the time at which this set was started.
    crawls: Mutex<(Instant, HashSet<String>)>,
}

impl Store {
    /// Connects to a frontier, and creates a packed one if the prefix has none.
    ///
    /// # Errors
    /// Fails if the server cannot be reached, or the frontier is in plain storage.
    pub async fn open(server: &AsyncServer, prefix: impl Into<Vec<u8>>) -> Result<Store, Error> {
        let store = Store {
            frontier: Frontier::on(server, prefix),
            delay: Mutex::default(),
            crawls: Mutex::new((Instant::now(), HashSet::new())),
        };
        store.prepare().await?;
        Ok(store)
    }

    /// Creates a packed frontier if the prefix has none.
    pub(crate) async fn prepare(&self) -> Result<(), Error> {
        let info = self.frontier.info().await?;
        let groups = info.groups_waiting + info.groups_ready + info.groups_busy;
        match info.storage {
            Storage::Packed => Ok(()),
            Storage::Plain if groups + info.groups_idle + info.uris + info.token == 0 => {
                self.frontier.pack().await?;
                Ok(())
            }
            _ => Err(Error::Plain),
        }
    }

    fn key(&self) -> Vec<u8> {
        [self.frontier.prefix(), b"urlfrontier"].concat()
    }

    fn hash<T: redis::FromRedisValue + Send + 'static>(
        &self,
        command: &str,
        words: &[&[u8]],
    ) -> crawlspace_client::server::Answer<T> {
        let mut command = redis::cmd(command);
        command.arg(self.key()).arg(words);
        self.frontier.server().ask(Call::new(command).repeatable())
    }

    /// Returns the default pause between two deliveries from a queue.
    pub(crate) async fn delay(&self) -> Result<Millis, crawlspace_client::Error> {
        let read = *self.delay.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, delay)) = read.filter(|(at, _)| at.elapsed() < FRESH) {
            return Ok(delay);
        }
        let delay: Option<Millis> = self.hash("HGET", &[b"delay"]).await?;
        let delay = delay.unwrap_or(DELAY);
        *self.delay.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), delay));
        Ok(delay)
    }

    /// Sets the default pause between two deliveries from a queue.
    pub(crate) async fn set_delay(&self, delay: Millis) -> Result<(), crawlspace_client::Error> {
        let text = delay.to_string();
        self.hash::<()>("HSET", &[b"delay", text.as_bytes()])
            .await?;
        *self.delay.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), delay));
        Ok(())
    }

    /// Records a crawl before its first URL is added.
    pub(crate) async fn note_crawl(&self, crawl: &str) -> Result<(), crawlspace_client::Error> {
        {
            let mut crawls = self.crawls.lock().unwrap_or_else(PoisonError::into_inner);
            if crawls.0.elapsed() >= FRESH {
                *crawls = (Instant::now(), HashSet::new());
            }
            if crawls.1.contains(crawl) {
                return Ok(());
            }
        }
        self.hash::<()>("HSET", &[&field(crawl), b""]).await?;
        let mut crawls = self.crawls.lock().unwrap_or_else(PoisonError::into_inner);
        crawls.1.insert(crawl.to_owned());
        Ok(())
    }

    /// Returns the crawls that have had URLs.
    pub(crate) async fn crawls(&self) -> Result<Vec<String>, crawlspace_client::Error> {
        let fields: Vec<Vec<u8>> = self.hash("HKEYS", &[]).await?;
        let crawls = fields
            .iter()
            .filter_map(|field| field.strip_prefix(b"crawl:"));
        let mut crawls: Vec<String> = crawls
            .filter_map(|crawl| String::from_utf8(crawl.to_vec()).ok())
            .collect();
        crawls.sort_unstable();
        Ok(crawls)
    }

    /// Removes a crawl from the list.
    pub(crate) async fn drop_crawl(&self, crawl: &str) -> Result<(), crawlspace_client::Error> {
        self.forget_crawl(crawl);
        self.hash::<()>("HDEL", &[&field(crawl)]).await
    }

    fn forget_crawl(&self, crawl: &str) {
        let mut crawls = self.crawls.lock().unwrap_or_else(PoisonError::into_inner);
        crawls.1.remove(crawl);
    }
}

fn field(crawl: &str) -> Vec<u8> {
    [b"crawl:", crawl.as_bytes()].concat()
}

/// Converts an error of the server.
pub(crate) fn status_of(error: &crawlspace_client::Error) -> Status {
    let message = error.to_string();
    if error.is_transient() {
        return Status::unavailable(message);
    }
    match error.word() {
        Some("OOM") => Status::resource_exhausted(message),
        Some("PLAIN" | "KNOWN") => Status::failed_precondition(message),
        _ => Status::internal(message),
    }
}
