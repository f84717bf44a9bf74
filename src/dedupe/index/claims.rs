//! Claims on payloads that are about to be stored.

pub use crawlspace_compact::limits::dedupe::CLAIM_MS;
use crawlspace_host::keyspace::Batch;
use crawlspace_host::text::{Shown, parse_unsigned};

use super::counters;
use crate::dedupe::digest::Digest;
use crate::dedupe::error::{Error, Result};
use crate::dedupe::keys::Names;
use crate::dedupe::store::Store;

/// Milliseconds since the epoch, by the server's clock.
pub type Millis = u64;

/// A claim that a crawl holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Unique id of this claim. Tokens only increase.
    pub token: u64,
    /// Time at which the claim expires, unless it is settled before that time.
    pub deadline: Millis,
    /// The crawl that holds the claim.
    pub crawl: Vec<u8>,
}

impl Claim {
    pub(in crate::dedupe) fn parse(value: &[u8]) -> Option<Claim> {
        let mut parts = value.splitn(3, |&b| b == b' ');
        Some(Claim {
            token: parse_unsigned(parts.next()?)?,
            deadline: parse_unsigned(parts.next()?)?,
            crawl: parts.next()?.to_vec(),
        })
    }

    fn to_value(&self) -> Vec<u8> {
        let mut value = format!("{} {} ", self.token, self.deadline).into_bytes();
        value.extend_from_slice(&self.crawl);
        value
    }
}

/// The claims of an index.
pub struct Claims<K: Store> {
    /// Name of the key `claims`.
    claims: K::Name,
    /// Name of the key that contains the token counter.
    meta: K::Name,
}

impl<K: Store> Claims<K> {
    pub(super) fn new(names: &Names<K::Name>) -> Claims<K> {
        Claims {
            claims: names.claims.clone(),
            meta: names.meta.clone(),
        }
    }

    /// Claims a hash for a crawl until `deadline`, and returns the token of the claim.
    pub(in crate::dedupe) fn take(
        &self,
        ks: &mut K,
        crawl: &[u8],
        digest: &Digest,
        deadline: Millis,
    ) -> Result<u64> {
        let token = counters::next(ks, &self.meta, counters::TOKENS)?;
        let claim = Claim {
            token,
            deadline,
            crawl: crawl.to_vec(),
        };
        ks.hash_set(&self.claims, digest.canonical(), &claim.to_value())?;
        Ok(token)
    }

    /// Returns the claim on a hash that is valid at `now`.
    pub(in crate::dedupe) fn on(
        &self,
        ks: &mut K,
        digest: &Digest,
        now: Millis,
    ) -> Result<Option<Claim>> {
        let value = ks.hash_get(&self.claims, digest.canonical())?;
        Ok(value
            .and_then(|value| Claim::parse(value.as_ref()))
            .filter(|claim| claim.deadline > now))
    }

    /// Deletes some expired claims, starting at `cursor`. Sets `cursor` to `None` when all claims
    /// were visited.
    /// # Errors
    /// `WRONGTYPE` if a key holds another type; errors of the server.
    pub fn sweep(&self, ks: &mut K, cursor: &mut Option<K::Cursor>, now: Millis) -> Result<()> {
        let mut batch = Batch::default();
        let mut at = cursor.take().unwrap_or_else(|| ks.cursor());
        if ks.hash_scan(&self.claims, &mut at, &mut batch)? {
            *cursor = Some(at);
        }
        for (hash, value) in batch.iter() {
            if Claim::parse(value).is_none_or(|claim| claim.deadline <= now) {
                ks.hash_del(&self.claims, hash)?;
            }
        }
        Ok(())
    }

    /// Refuses a stale token, that is, a token without a claim on any of the hashes while another
    /// token holds a claim on one of them. Accepts the token of an expired claim if no other client
    /// has claimed the hash since.
    ///
    /// # Errors
    /// `STALE` if another token holds the claim; `WRONGTYPE` if a key holds another type; errors of
    /// the server.
    pub fn check_token(
        &self,
        ks: &mut K,
        digests: &[Digest],
        token: u64,
        now: Millis,
    ) -> Result<()> {
        let mut other = None;
        for digest in digests {
            match self.on(ks, digest, now)? {
                Some(claim) if claim.token == token => return Ok(()),
                Some(claim) => other = Some(claim),
                None => {}
            }
        }
        match other {
            None => Ok(()),
            Some(claim) => Err(Error::Stale(format!(
                "invalid token {token}: crawl '{}' holds the claim now; nothing was changed",
                Shown(&claim.crawl)
            ))),
        }
    }

    /// Releases the claims with this token on any of the hashes.
    ///
    /// # Errors
    /// `WRONGTYPE` if a key holds another type; errors of the server.
    pub fn release(&self, ks: &mut K, digests: &[Digest], token: u64) -> Result<()> {
        for digest in digests {
            let held = ks
                .hash_get(&self.claims, digest.canonical())?
                .and_then(|value| Claim::parse(value.as_ref()));
            if held.is_some_and(|claim| claim.token == token) {
                ks.hash_del(&self.claims, digest.canonical())?;
            }
        }
        Ok(())
    }

    /// Releases one claim. Returns false if there is no claim.
    ///
    /// # Errors
    ///
    /// `STALE` if another token holds the claim.
    pub fn give_up(&self, ks: &mut K, digest: &Digest, token: u64, now: Millis) -> Result<bool> {
        self.check_token(ks, std::slice::from_ref(digest), token, now)?;
        let is_held = self.on(ks, digest, now)?.is_some();
        if is_held {
            ks.hash_del(&self.claims, digest.canonical())?;
        }
        Ok(is_held)
    }

    /// Deletes a claim if it belongs to this crawl or is unreadable.
    pub(in crate::dedupe) fn drop_of(
        &self,
        ks: &mut K,
        crawl: &[u8],
        hash: &[u8],
        value: &[u8],
    ) -> Result<()> {
        if Claim::parse(value).is_none_or(|claim| claim.crawl == crawl) {
            ks.hash_del(&self.claims, hash)?;
        }
        Ok(())
    }
}
