//! Claims: who is about to store a payload.

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

/// A claim that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Names this one claim; only grows.
    pub token: u64,
    /// When it ends unless settled before.
    pub deadline: Millis,
    /// The crawl that holds it.
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
    /// Name of `claims`.
    claims: K::Name,
    /// Name of the key with the counter.
    meta: K::Name,
}

impl<K: Store> Claims<K> {
    pub(super) fn new(names: &Names<K::Name>) -> Claims<K> {
        Claims {
            claims: names.claims.clone(),
            meta: names.meta.clone(),
        }
    }

    /// Reserves a hash for a crawl until `deadline`, and returns the token of the claim.
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

    /// The claim on a hash that is in force at `now`.
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

    /// Removes some claims that ran out, going on from `cursor`, which is at the start again when
    /// all were looked at.
    ///
    /// # Errors
    /// `WRONGTYPE` when a key holds another type; or when the server refuses.
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

    /// Refuses a token that no longer counts: one of the hashes is claimed by somebody else, and
    /// none by this token. A claim that ran out without being taken by another is as good as held.
    ///
    /// # Errors
    /// `STALE` when another token holds the claim. `WRONGTYPE` when a key holds another type; or when the server refuses.
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

    /// Ends the claim with this token, if it is on one of the hashes.
    ///
    /// # Errors
    /// `WRONGTYPE` when a key holds another type; or when the server refuses.
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

    /// Gives a claim up; false when there was none.
    ///
    /// # Errors
    /// `STALE` when another token holds the claim.
    pub fn give_up(&self, ks: &mut K, digest: &Digest, token: u64, now: Millis) -> Result<bool> {
        self.check_token(ks, std::slice::from_ref(digest), token, now)?;
        let is_held = self.on(ks, digest, now)?.is_some();
        if is_held {
            ks.hash_del(&self.claims, digest.canonical())?;
        }
        Ok(is_held)
    }

    /// Gives up one claim if it is this crawl's, or unreadable.
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
