//! Claims: who is about to store a payload that nobody has stored yet.
//!
//! `claims` maps a hash to `token deadline crawl`. Deadlines are milliseconds since the epoch, so
//! a claim ends at the same moment after a restart or on a replica. Every claim that is made looks
//! at a few others and sweeps those that ran out, so the key does not grow for ever.

use crawlspace_host::keyspace::Batch;
use crawlspace_host::text::{Shown, parse_unsigned};

use super::digest::Digest;
use super::error::{Error, Result};
use super::index::Index;
use super::lookup::Original;
use super::store::Store;

/// Longest claim, in milliseconds: one day.
pub const CLAIM_MS: u64 = 86_400_000;

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
    pub(super) fn parse(value: &[u8]) -> Option<Claim> {
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

/// What a `CLAIM` came to.
pub enum Outcome<K: Store> {
    /// The payload is known: write a revisit.
    Dupe(Box<Original<K>>),
    /// The caller stores it and settles with this token.
    Claimed(u64),
    /// Another client is about to store it.
    Pending {
        /// The crawl that holds the claim.
        holder: Vec<u8>,
        /// When that claim ends.
        deadline: Millis,
    },
}

impl<K: Store> Index<K> {
    /// The claim on a hash that is in force at `now`.
    pub(super) fn claim_on(
        &mut self,
        ks: &mut K,
        digest: &Digest,
        now: Millis,
    ) -> Result<Option<Claim>> {
        let value = ks.hash_get(&self.names().claims, digest.canonical())?;
        Ok(value
            .and_then(|value| Claim::parse(value.as_ref()))
            .filter(|claim| claim.deadline > now))
    }

    /// Looks a hash up, or else reserves it until `now + ms`.
    ///
    /// # Errors
    /// `REMOVING` while the crawl is being removed. `WRONGTYPE` when a key holds another type; or when the server refuses.
    pub fn claim(
        &mut self,
        ks: &mut K,
        crawl: &[u8],
        digest: &Digest,
        ms: u64,
        now: Millis,
    ) -> Result<Outcome<K>> {
        if let Some(found) = self.find(ks, digest, Some(crawl))? {
            return Ok(Outcome::Dupe(Box::new(found)));
        }
        if let Some(held) = self.claim_on(ks, digest, now)? {
            return Ok(Outcome::Pending {
                holder: held.crawl,
                deadline: held.deadline,
            });
        }
        self.under_way.refuse_while_removing(ks, crawl)?;
        let token = self.next_token(ks)?;
        let claim = Claim {
            token,
            deadline: now + ms,
            crawl: crawl.to_vec(),
        };
        ks.hash_set(&self.names().claims, digest.canonical(), &claim.to_value())?;
        Ok(Outcome::Claimed(token))
    }

    /// Removes some claims that ran out, going on from `cursor`, which is at the start again when
    /// all were looked at.
    ///
    /// # Errors
    /// `WRONGTYPE` when a key holds another type; or when the server refuses.
    pub fn sweep_claims(
        &mut self,
        ks: &mut K,
        cursor: &mut Option<K::Cursor>,
        now: Millis,
    ) -> Result<()> {
        let mut batch = Batch::default();
        let mut at = cursor.take().unwrap_or_else(|| ks.cursor());
        if ks.hash_scan(&self.names().claims, &mut at, &mut batch)? {
            *cursor = Some(at);
        }
        for (hash, value) in batch.iter() {
            if Claim::parse(value).is_none_or(|claim| claim.deadline <= now) {
                ks.hash_del(&self.names().claims, hash)?;
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
        &mut self,
        ks: &mut K,
        digests: &[Digest],
        token: u64,
        now: Millis,
    ) -> Result<()> {
        let mut other = None;
        for digest in digests {
            match self.claim_on(ks, digest, now)? {
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
    pub fn settle(&mut self, ks: &mut K, digests: &[Digest], token: u64) -> Result<()> {
        for digest in digests {
            let held = ks
                .hash_get(&self.names().claims, digest.canonical())?
                .and_then(|value| Claim::parse(value.as_ref()));
            if held.is_some_and(|claim| claim.token == token) {
                ks.hash_del(&self.names().claims, digest.canonical())?;
            }
        }
        Ok(())
    }

    /// Gives a claim up; false when there was none.
    ///
    /// # Errors
    /// `STALE` when another token holds the claim.
    pub fn unclaim(
        &mut self,
        ks: &mut K,
        digest: &Digest,
        token: u64,
        now: Millis,
    ) -> Result<bool> {
        match self.claim_on(ks, digest, now)? {
            None => Ok(false),
            Some(claim) if claim.token == token => {
                ks.hash_del(&self.names().claims, digest.canonical())?;
                Ok(true)
            }
            Some(claim) => Err(Error::Stale(format!(
                "invalid token {token}: crawl '{}' holds the claim now; nothing was changed",
                Shown(&claim.crawl)
            ))),
        }
    }

    /// Gives up one claim if it is this crawl's, or unreadable.
    pub(super) fn drop_claim_of(
        &mut self,
        ks: &mut K,
        crawl: &[u8],
        hash: &[u8],
        value: &[u8],
    ) -> Result<()> {
        if Claim::parse(value).is_none_or(|claim| claim.crawl == crawl) {
            ks.hash_del(&self.names().claims, hash)?;
        }
        Ok(())
    }
}
