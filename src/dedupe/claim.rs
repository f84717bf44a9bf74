//! Claims: who is about to store a payload that nobody has stored yet.
//!
//! `claims` maps a hash to `token deadline crawl`. Deadlines are milliseconds since the epoch, so
//! a claim ends at the same moment after a restart or on a replica. Every claim that is made looks
//! at a few others and sweeps those that ran out, so the key does not grow for ever.

use super::digest::Digest;
use super::error::Result;
use super::index::Index;
use super::index::claims::Millis;
use super::lookup::Original;
use super::store::Store;

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
        if let Some(held) = self.claims.on(ks, digest, now)? {
            return Ok(Outcome::Pending {
                holder: held.crawl,
                deadline: held.deadline,
            });
        }
        self.under_way.refuse_while_removing(ks, crawl)?;
        self.register(ks)?;
        let token = self.claims.take(ks, crawl, digest, now + ms)?;
        Ok(Outcome::Claimed(token))
    }
}
