//! A dedupe index in Redis, for crawlers that ask over HTTP.
//!
//! It knows captures by the digests of their payloads, and not by their URLs.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::Identity;
use crate::source::{Lookup, Rows, Source};
use crawlspace_archive::source::SourceError;
use crawlspace_client::dedupe::{Added, Adding, Index, Original};
use crawlspace_client::server::without_password;
use crawlspace_client::{AsyncServer, Code, Error};

/// Retries after a connection broke.
const RETRIES: u32 = 1;

/// What is said of a query by URL.
pub(crate) const NO_URLS: &str =
    "a dedupe index has no captures by URL: ask it by digest, at api/records/<digest>";

/// A dedupe index, whose connections are made when they are needed.
pub struct DedupeSource {
    /// Where the server is, and which database of it is meant.
    url: String,
    prefix: Vec<u8>,
    /// For which crawl records are added where a request names none.
    pub(crate) crawl: Option<String>,
    timeout: Duration,
    index: OnceCell<Index<AsyncServer>>,
    problem: Mutex<Option<String>>,
}

/// Why an index did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DedupeError {
    /// What was sent is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The crawl takes no records any more, or not now.
    #[error("{0}")]
    Closed(String),
    /// The index cannot be asked at the moment. The text is for the operator.
    #[error("{0}")]
    Unavailable(String),
}

impl DedupeSource {
    /// The index of that prefix at `redis://host:port/db`. Nothing is connected to yet.
    pub(crate) fn new(
        url: &str,
        prefix: &str,
        crawl: Option<String>,
        identity: &Identity,
    ) -> DedupeSource {
        DedupeSource {
            url: url.to_owned(),
            prefix: prefix.as_bytes().to_vec(),
            crawl,
            timeout: identity.limits.first,
            index: OnceCell::new(),
            problem: Mutex::default(),
        }
    }

    /// The original of a payload, of committed crawls and of one that is still running.
    ///
    /// # Errors
    /// When the digest or the crawl is invalid, or the index cannot be asked.
    pub(crate) async fn look_up(
        &self,
        crawl: Option<&[u8]>,
        digest: &[u8],
    ) -> Result<Option<Original>, DedupeError> {
        let asking = async { self.index().await?.lookup(crawl, &[digest]).await };
        let mut found = self.answered(asking).await?;
        Ok(found.pop().flatten())
    }

    /// Adds records of a crawl; of those of one payload the earliest stays. Sent twice they count once.
    ///
    /// # Errors
    /// When one is invalid, of which the text names the reason, or the index cannot be asked. Nothing is added then,
    /// as far as is known.
    pub(crate) async fn add(&self, crawl: &[u8], added: &[Added<'_>]) -> Result<(), DedupeError> {
        let adding = Adding {
            earliest: true,
            ..Adding::default()
        };
        let asking = async { self.index().await?.add(crawl, &adding, added).await };
        self.answered(asking).await.map(drop)
    }

    async fn index(&self) -> Result<&Index<AsyncServer>, Error> {
        let connect = || async {
            let options = AsyncServer::options(&self.url)
                .timeout(self.timeout)
                .retries(RETRIES);
            let server = options.open_async().await?;
            Ok(Index::on(&server, self.prefix.clone()))
        };
        self.index.get_or_try_init(connect).await
    }

    /// Waits for the answer of the server, and notes whether there was one.
    async fn answered<T>(
        &self,
        asking: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, DedupeError> {
        let answer = match timeout(self.timeout, asking).await {
            Ok(answer) => answer.map_err(|error| self.failed(&error)),
            Err(_) => Err(DedupeError::Unavailable(format!(
                "{}: no answer within {} seconds",
                without_password(&self.url),
                self.timeout.as_secs_f64()
            ))),
        };
        let problem = match &answer {
            Err(DedupeError::Unavailable(why)) => Some(why.clone()),
            _ => None,
        };
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
        answer
    }

    fn failed(&self, error: &Error) -> DedupeError {
        match error.code() {
            Some(Code::BadHash | Code::BadCrawl) => DedupeError::Invalid(error.to_string()),
            Some(Code::Canceled | Code::Committed | Code::Removing | Code::Purging) => {
                DedupeError::Closed(error.to_string())
            }
            _ => DedupeError::Unavailable(format!("{}: {error}", without_password(&self.url))),
        }
    }
}

impl Source for DedupeSource {
    fn rows(&self, _: Arc<Lookup>) -> BoxFuture<'_, Result<Rows, SourceError>> {
        async { Err(SourceError::Unsupported(NO_URLS.to_owned())) }.boxed()
    }

    fn health(&self) -> Result<(), String> {
        let problem = self.problem.lock();
        let problem = problem.unwrap_or_else(PoisonError::into_inner);
        problem.clone().map_or(Ok(()), Err)
    }

    fn dedupe(&self) -> Option<&DedupeSource> {
        Some(self)
    }
}
