//! Claims on payloads, which prevent two workers from storing the same payload.

use std::time::Duration;

use redis::{FromRedisValue, ParsingError, Value};

use super::{Added, Adding, Index, Located, Original};
use crate::reply::shown;
use crate::server::{Ask, Call};

/// Outcome of a claim.
#[derive(Clone, PartialEq, Eq)]
pub enum Claim<T = Original> {
    /// The payload is known: write a `revisit` record.
    Known(T),
    /// The claim succeeded: store the record, then settle the claim with this token.
    Yours(Vec<u8>),
    /// Another worker holds the claim and is about to store the payload.
    Pending {
        /// The crawl of the other worker.
        holder: Vec<u8>,
        /// Time until the other worker's claim expires.
        left: Duration,
    },
}

impl<T: std::fmt::Debug> std::fmt::Debug for Claim<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Known(original) => f.debug_tuple("Known").field(original).finish(),
            Self::Yours(bytes) => f.debug_tuple("Yours").field(&shown::text(bytes)).finish(),
            Self::Pending { holder, left } => f
                .debug_struct("Pending")
                .field("holder", &shown::text(holder))
                .field("left", left)
                .finish(),
        }
    }
}

impl<T: FromRedisValue> FromRedisValue for Claim<T> {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let mut parts = Vec::<Value>::from_redis_value(value)?.into_iter();
        let mut next = || parts.next().unwrap_or(Value::Nil);
        let state = Vec::<u8>::from_redis_value(next())?;
        match &state[..] {
            b"DUPE" => Ok(Claim::Known(T::from_redis_value(next())?)),
            b"CLAIMED" => Ok(Claim::Yours(FromRedisValue::from_redis_value(next())?)),
            _ => Ok(Claim::Pending {
                holder: FromRedisValue::from_redis_value(next())?,
                left: Duration::from_millis(u64::from_redis_value(next())?),
            }),
        }
    }
}

impl<S: Ask> Index<S> {
    /// Looks up a payload and, if it is unknown, reserves it for the caller for `lasting`
    /// (`DEDUPE.CLAIM`). If another worker holds the claim, waits up to `wait` for its outcome, but
    /// at most half of the [job timeout](crate::Options::job_timeout).
    ///
    /// The client retries the call if the connection breaks. A claim whose reply was lost expires
    /// at its deadline.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// use std::time::Duration;
    /// let (lasting, wait) = (Duration::from_secs(60), Duration::from_secs(5));
    /// match index.claim(b"crawl-1", b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A", lasting, wait)? {
    ///     Claim::Known(original) => println!("write a revisit of {original:?}"),
    ///     Claim::Yours(token) => println!("store it, and settle with {token:?}"),
    ///     Claim::Pending { left, .. } => println!("another worker stores it, for {left:?} at most"),
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `BADHASH`, `BADCRAWL`, `REMOVING`; `CANCELED` when the crawl was cancelled while the call
    /// waited; `UNBLOCKED` when the server became a replica; or a connection error.
    pub fn claim(
        &self,
        crawl: impl AsRef<[u8]>,
        hash: impl AsRef<[u8]>,
        lasting: Duration,
        wait: Duration,
    ) -> S::Answer<Claim> {
        let (crawl, hash) = (crawl.as_ref(), hash.as_ref());
        self.claims(crawl, hash, lasting, wait, &[])
    }

    /// Claims a payload as [`claim`](Index::claim) does, and adds the name of the WACZ file that
    /// contains a known payload (`DEDUPE.CLAIM … WITHWACZ`).
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// use std::time::Duration;
    /// let (lasting, wait) = (Duration::from_secs(60), Duration::from_secs(5));
    /// let hash = b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A";
    /// if let Claim::Known(located) = index.claim_with_wacz(b"crawl-1", hash, lasting, wait)? {
    ///     println!("a revisit of a record in {:?}", located.filename);
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`claim`](Index::claim).
    pub fn claim_with_wacz(
        &self,
        crawl: impl AsRef<[u8]>,
        hash: impl AsRef<[u8]>,
        lasting: Duration,
        wait: Duration,
    ) -> S::Answer<Claim<Located>> {
        let (crawl, hash) = (crawl.as_ref(), hash.as_ref());
        self.claims(crawl, hash, lasting, wait, &["WITHWACZ"])
    }

    /// Claims a payload as [`claim`](Index::claim) does, and returns the original of a known payload as
    /// a single string, as [`lookup_text`](Index::lookup_text) does (`DEDUPE.CLAIM … FORMAT RECORD`).
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// use std::time::Duration;
    /// let (lasting, wait) = (Duration::from_secs(60), Duration::from_secs(5));
    /// let hash = b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A";
    /// if let Claim::Known(text) = index.claim_text(b"crawl-1", hash, lasting, wait)? {
    ///     println!("a revisit of {}", String::from_utf8_lossy(&text));
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`claim`](Index::claim).
    pub fn claim_text(
        &self,
        crawl: impl AsRef<[u8]>,
        hash: impl AsRef<[u8]>,
        lasting: Duration,
        wait: Duration,
    ) -> S::Answer<Claim<Vec<u8>>> {
        let (crawl, hash) = (crawl.as_ref(), hash.as_ref());
        self.claims(crawl, hash, lasting, wait, &["FORMAT", "RECORD"])
    }

    fn claims<T: FromRedisValue + Send + 'static>(
        &self,
        crawl: &[u8],
        hash: &[u8],
        lasting: Duration,
        wait: Duration,
        options: &[&str],
    ) -> S::Answer<Claim<T>> {
        let mut claim = self.command("DEDUPE.CLAIM");
        claim.arg(crawl).arg(hash);
        claim.arg("PX").arg(lasting.as_millis() as u64);
        claim.arg(options);
        if wait.is_zero() {
            return self.repeat(claim);
        }
        // `BLOCK 0` would wait without limit. With half of the job timeout, the wait ends before
        // the client's own timeout.
        let wait = wait.min(self.server.job_timeout() / 2);
        claim.arg("BLOCK").arg((wait.as_millis() as u64).max(1));
        self.server.ask(Call::new(claim).repeatable().waits())
    }

    /// Reports the record of a claimed payload as stored (`DEDUPE.ADD` with the token of the
    /// claim). The server counts the call once, even if it is sent twice.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// let hash = b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A";
    /// let record = Added::new(hash, 0, b"20240501120000", b"https://example.com/", 5120);
    /// # let token = b"1";
    /// index.settle(b"crawl-1", token, &record)?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `STALE` if another worker has claimed the payload in the meantime (the server counts
    /// nothing; claim the payload again), or another server or connection error.
    pub fn settle(
        &self,
        crawl: impl AsRef<[u8]>,
        token: impl AsRef<[u8]>,
        added: &Added<'_>,
    ) -> S::Answer<()> {
        let (crawl, token) = (crawl.as_ref(), token.as_ref());
        let mut add = self.command("DEDUPE.ADD");
        add.arg(crawl);
        let adding = Adding {
            token: Some(token),
            ..Adding::default()
        };
        adding.write_to(&mut add);
        added.write_to(&mut add);
        self.repeat(add)
    }

    /// Releases a claim whose record could not be stored, so that another worker can store it
    /// (`DEDUPE.UNCLAIM`). Returns false if the claim no longer existed.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// # let token = b"1";
    /// if !index.unclaim(b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A", token)? {
    ///     println!("it had ended by itself");
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `STALE` if another worker holds the claim now (nothing changes), or another server or
    /// connection error.
    pub fn unclaim(&self, hash: impl AsRef<[u8]>, token: impl AsRef<[u8]>) -> S::Answer<bool> {
        let (hash, token) = (hash.as_ref(), token.as_ref());
        let mut unclaim = self.command("DEDUPE.UNCLAIM");
        unclaim.arg(hash).arg(token);
        self.repeat(unclaim)
    }
}
