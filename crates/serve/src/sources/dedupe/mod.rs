//! A dedupe index in Redis, queried by crawlers over HTTP: by digest, and by URL if it has an index by URL.

mod captures;
mod questions;

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use self::captures::Asking;
use self::questions::Questions;
use crate::source::{Lookup, Rows, Source};
use crawlspace_client::dedupe::{
    Added, Adding, Capture, Captures, Index, Located, Original, Sharded,
};
use crawlspace_client::server::without_password;
use crawlspace_client::{AsyncServer, Code, Error};
use crawlspace_index::source::SourceError;

/// Number of retries after a broken connection.
const RETRIES: u32 = 1;

/// A dedupe index, which connects on first use.
#[derive(Clone)]
pub struct DedupeSource(Arc<Inner>);

struct Inner {
    /// URL of the server, with the number of the database.
    url: String,
    place: Place,
    crawl: Option<String>,
    /// JSON members of its rows: `"source": …, "source_type": …`.
    members: Arc<str>,
    timeout: Duration,
    index: OnceCell<Connected>,
    questions: Questions,
    problem: Mutex<Option<String>>,
}

/// The keys of an index on its server.
pub(crate) enum Place {
    /// All keys have this prefix.
    Prefix(String),
    /// A sharded index of this name.
    Sharded(String),
}

/// A connected index.
enum Connected {
    One(Index<AsyncServer>),
    Sharded(Sharded<AsyncServer>),
}

impl Connected {
    async fn lookup(
        &self,
        crawl: Option<&[u8]>,
        hashes: &[&[u8]],
    ) -> Result<Vec<Option<Original>>, Error> {
        match self {
            Connected::One(index) => index.lookup(crawl, hashes).await,
            Connected::Sharded(index) => index.lookup(crawl, hashes).await,
        }
    }

    async fn lookup_with_wacz(&self, hashes: &[&[u8]]) -> Result<Vec<Option<Located>>, Error> {
        match self {
            Connected::One(index) => index.lookup_with_wacz(None, hashes).await,
            Connected::Sharded(index) => index.lookup_with_wacz(None, hashes).await,
        }
    }

    async fn lookup_urls(
        &self,
        captures: Captures<'_>,
        urls: &[&[u8]],
    ) -> Result<Vec<Vec<Capture>>, Error> {
        match self {
            Connected::One(index) => index.lookup_urls(captures, urls).await,
            Connected::Sharded(index) => index.lookup_urls(captures, urls).await,
        }
    }

    async fn add(
        &self,
        crawl: &[u8],
        adding: &Adding<'_>,
        added: &[Added<'_>],
    ) -> Result<u64, Error> {
        match self {
            Connected::One(index) => index.add(crawl, adding, added).await,
            Connected::Sharded(index) => index.add(crawl, adding, added).await,
        }
    }
}

/// The reason why a request to the index failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DedupeError {
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The crawl accepts no records, either permanently or at the moment.
    #[error("{0}")]
    Closed(String),
    /// The index is unavailable. The text is for the operator.
    #[error("{0}")]
    Unavailable(String),
}

impl DedupeSource {
    /// Creates a client of that index on the server `redis://host:port/db`. It connects on first use.
    pub(crate) fn new(
        url: &str,
        place: Place,
        crawl: Option<String>,
        members: &Arc<str>,
        timeout: Duration,
    ) -> DedupeSource {
        DedupeSource(Arc::new(Inner {
            url: url.to_owned(),
            place,
            crawl,
            members: Arc::clone(members),
            timeout,
            index: OnceCell::new(),
            questions: Questions::default(),
            problem: Mutex::default(),
        }))
    }

    /// Returns the default crawl of added records.
    pub(crate) fn crawl(&self) -> Option<&str> {
        self.0.crawl.as_deref()
    }

    /// Returns the original of a payload, from committed crawls and optionally a running one.
    ///
    /// # Errors
    /// Fails if the digest or the crawl is invalid, or the index is unavailable.
    pub(crate) async fn look_up(
        &self,
        crawl: Option<&[u8]>,
        digest: &[u8],
    ) -> Result<Option<Original>, DedupeError> {
        let asking = async { self.0.index().await?.lookup(crawl, &[digest]).await };
        let mut found = self.answered(asking).await?;
        Ok(found.pop().flatten())
    }

    /// Returns the original of a payload from committed crawls, with the name of its WACZ file.
    ///
    /// # Errors
    /// Fails if the digest is invalid, or the index is unavailable.
    pub(crate) async fn locate(&self, digest: &[u8]) -> Result<Option<Located>, DedupeError> {
        let asking = async { self.0.index().await?.lookup_with_wacz(&[digest]).await };
        let mut found = self.answered(asking).await?;
        Ok(found.pop().flatten())
    }

    /// Adds records to a crawl; of several records of one payload the earliest is kept. Adding is idempotent.
    ///
    /// # Errors
    /// Fails if a record is invalid, with the reason, or if the index is unavailable. In these cases, no records are
    /// known to have been added.
    pub(crate) async fn add(&self, crawl: &[u8], added: &[Added<'_>]) -> Result<(), DedupeError> {
        let adding = Adding {
            earliest: true,
            ..Adding::default()
        };
        let asking = async { self.0.index().await?.add(crawl, &adding, added).await };
        self.answered(asking).await.map(drop)
    }

    /// Waits for the server's answer, and records whether there was one.
    async fn answered<T>(
        &self,
        asking: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, DedupeError> {
        let answer = match timeout(self.0.timeout, asking).await {
            Ok(answer) => answer.map_err(|error| self.failed(&error)),
            Err(_) => Err(DedupeError::Unavailable(format!(
                "{}: no answer within {} seconds",
                self.0.shown(),
                self.0.timeout.as_secs_f64()
            ))),
        };
        self.0.note(match &answer {
            Err(DedupeError::Unavailable(why)) => Some(why.clone()),
            _ => None,
        });
        answer
    }

    fn failed(&self, error: &Error) -> DedupeError {
        match error.code() {
            Some(Code::BadHash | Code::BadCrawl) => DedupeError::Invalid(error.to_string()),
            Some(Code::Canceled | Code::Committed | Code::Removing | Code::Purging) => {
                DedupeError::Closed(error.to_string())
            }
            _ => DedupeError::Unavailable(format!("{}: {error}", self.0.shown())),
        }
    }
}

impl Inner {
    fn shown(&self) -> String {
        without_password(&self.url)
    }

    async fn index(&self) -> Result<&Connected, Error> {
        let connect = || async {
            let options = AsyncServer::options(&self.url)
                .timeout(self.timeout)
                .job_timeout(self.timeout)
                .retries(RETRIES);
            let server = options.open_async().await?;
            match &self.place {
                Place::Prefix(prefix) => Ok(Connected::One(Index::on(&server, &prefix[..]))),
                Place::Sharded(name) => match Sharded::find(&server, &name[..]).await? {
                    Some(index) => Ok(Connected::Sharded(index)),
                    None => {
                        let nothing = format!("no sharded index has the name {name:?}");
                        Err(Error::new("opening the index", io::Error::other(nothing)))
                    }
                },
            }
        };
        self.index.get_or_try_init(connect).await
    }

    /// Records the last problem of the index, for the status page.
    fn note(&self, problem: Option<String>) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }
}

impl Source for DedupeSource {
    fn rows(&self, lookup: Arc<Lookup>) -> BoxFuture<'_, Result<Rows, SourceError>> {
        async move { Ok(Asking::new(Arc::clone(&self.0), &lookup)?.rows(lookup.order)) }.boxed()
    }

    fn health(&self) -> Result<(), String> {
        let problem = self.0.problem.lock();
        let problem = problem.unwrap_or_else(PoisonError::into_inner);
        problem.clone().map_or(Ok(()), Err)
    }
}
