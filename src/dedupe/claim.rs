//! Claims: reservations of payloads that are about to be stored.
//!
//! `claims` maps a hash to `token deadline crawl`. Deadlines are stored as milliseconds since the
//! epoch, so that a restart or a failover does not change the time at which a claim expires. Each
//! new claim also checks a few existing claims and deletes the expired ones, so that the key does
//! not grow without bound.

use super::digest::Digest;
use super::error::Result;
use super::index::Index;
use super::index::claims::Millis;
use super::lookup::Original;
use super::store::Store;

/// The result of `CLAIM`.
pub enum Outcome<K: Store> {
    /// The payload is known: the caller writes a revisit.
    Dupe(Box<Original<K>>),
    /// The caller stores the payload and settles the claim with this token.
    Claimed(u64),
    /// Another client has claimed the payload and is about to store it.
    Pending {
        /// The crawl that holds the claim.
        holder: Vec<u8>,
        /// The time at which that client's claim expires.
        deadline: Millis,
    },
}

impl<K: Store> Index<K> {
    /// Looks a hash up, and claims it until `now + ms` if it is unknown.
    ///
    /// # Errors
    /// `REMOVING` while the crawl is being removed; `WRONGTYPE` if a key holds another type; errors of the server.
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
