//! The URL index: its state, and its entries, which map a score to each hash of a crawl.

use std::ops::RangeInclusive;

use xxhash_rust::xxh3::xxh3_64;

use super::crawls::Crawls;
use crate::dedupe::digest::Digest;
use crate::dedupe::error::{Error, Result};
use crate::dedupe::keys::CrawlKey;
use crate::dedupe::record::Record;
use crate::dedupe::store::Store;
use crawlspace_compact::date::Moment;

/// Field of `crawlspace` that contains the state of the URL index.
const FIELD: &[u8] = b"urls";

const BUILDING: &[u8] = b"building";
const ON: &[u8] = b"dated";
/// The value that version 0.1.0 wrote.
const UNDATED: &[u8] = b"on";

/// Number of low bits of a score that encode the minute. The next 25 bits encode the URL.
const MINUTE_BITS: u32 = 28;

/// The state of the URL index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Disabled: no entries are written.
    #[default]
    Off,
    /// New records are added, and a job is adding the existing records.
    Building,
    /// Complete except for recent records of plain clients. Some entries are in the format of
    /// version 0.1.0, which does not contain the date.
    Undated,
    /// Complete except for recent records of plain clients.
    On,
}

/// Returns the score of a capture: an integer from -2^53 to -1, which a double represents exactly.
/// Newer captures of a URL have lower scores.
pub(in crate::dedupe) fn score(url: &[u8], moment: Option<Moment>) -> f64 {
    let latest = (1 << MINUTE_BITS) - 1;
    let minute = moment.map_or(0, |moment| moment.minute().clamp(1, latest));
    let url = xxh3_64(url) >> (64 - 53 + MINUTE_BITS);
    -((url << MINUTE_BITS | minute as u64) as f64) - 1.0
}

/// Returns the range of scores of a URL's captures, newest first. With `before`, the range contains
/// only captures before that date.
pub(in crate::dedupe) fn scores(url: &[u8], before: Option<Moment>) -> RangeInclusive<f64> {
    let newest = score(url, None) - ((1_u64 << MINUTE_BITS) - 1) as f64;
    before.map_or(newest, |before| score(url, Some(before)))..=score(url, None)
}

/// Returns the range of scores of a URL's captures in the format of version 0.1.0.
pub(in crate::dedupe) fn undated(url: &[u8]) -> RangeInclusive<f64> {
    let score = (xxh3_64(url) >> 12) as f64;
    score..=score
}

/// The URL index.
pub struct Urls<K: Store> {
    /// Name of the key that stores the state.
    meta: K::Name,
    state: State,
}

impl<K: Store> Urls<K> {
    /// Reads the state of an index.
    pub(super) fn read(ks: &mut K, meta: &K::Name) -> Result<Urls<K>> {
        let value = ks.hash_get(meta, FIELD)?;
        let state = match value.as_ref().map(AsRef::as_ref) {
            Some(ON) => State::On,
            Some(UNDATED) => State::Undated,
            Some(_) => State::Building,
            None => State::Off,
        };
        let meta = meta.clone();
        Ok(Urls { meta, state })
    }

    /// Returns the state of the URL index.
    pub(in crate::dedupe) fn state(&self) -> State {
        self.state
    }

    /// Returns true if new records are added to the URL index.
    pub(in crate::dedupe) fn are_kept(&self) -> bool {
        self.state != State::Off
    }

    /// Returns an error if the key of a crawl's URL index holds another type.
    pub(in crate::dedupe) fn check_key(
        &self,
        ks: &mut K,
        crawls: &mut Crawls<K>,
        crawl: &[u8],
    ) -> Result<()> {
        if self.are_kept() {
            let key = crawls.key(ks, crawl, CrawlKey::Urls);
            ks.zset_len(&key)?;
        }
        Ok(())
    }

    /// Adds the record of a hash to the URL index of a crawl.
    pub(in crate::dedupe) fn note(
        &self,
        ks: &mut K,
        crawls: &mut Crawls<K>,
        crawl: &[u8],
        digest: &Digest,
        record: &Record<'_>,
    ) -> Result<()> {
        if self.are_kept() {
            let key = crawls.key(ks, crawl, CrawlKey::Urls);
            let score = score(record.url, Moment::of(record.date));
            ks.zset_add(&key, digest.canonical(), score)?;
        }
        Ok(())
    }

    /// Deletes a hash from the URL index of a crawl.
    pub(in crate::dedupe) fn drop(
        &self,
        ks: &mut K,
        crawls: &mut Crawls<K>,
        crawl: &[u8],
        digest: &Digest,
    ) -> Result<()> {
        if self.are_kept() {
            let key = crawls.key(ks, crawl, CrawlKey::Urls);
            ks.zset_del(&key, digest.canonical())?;
        }
        Ok(())
    }

    /// Stores the state of the URL index.
    pub(in crate::dedupe) fn set_state(&mut self, ks: &mut K, state: State) -> Result<()> {
        match state {
            State::Off => ks.hash_del(&self.meta, FIELD)?,
            State::Building => ks.hash_set(&self.meta, FIELD, BUILDING)?,
            State::Undated => ks.hash_set(&self.meta, FIELD, UNDATED)?,
            State::On => ks.hash_set(&self.meta, FIELD, ON)?,
        };
        self.state = state;
        Ok(())
    }

    /// Returns an error unless the URL index is complete.
    pub(in crate::dedupe) fn require(&self) -> Result<()> {
        match self.state {
            State::On | State::Undated => Ok(()),
            State::Building => Err(Error::NoUrls(
                "is being built, or its build was interrupted",
            )),
            State::Off => Err(Error::NoUrls("is off")),
        }
    }
}
