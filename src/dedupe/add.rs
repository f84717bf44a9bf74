//! `ADD`: adds `response` records as they are written.

use super::adopt::restore_if_set_aside;
use super::begin::start;
use super::counts;
use super::digest::Digest;
use super::earliest::Earliest;
use super::error::Result;
use super::index::Index;
use super::index::claims::Millis;
use super::keys::CrawlKey;
use super::record::{Record, Room};
use super::sequence::Sequence;
use super::sequence::once;
use super::store::Store;

/// A `response` record that a crawler has written.
pub struct Response<'a> {
    /// Digest of the payload.
    pub digest: Digest,
    /// The record: its location, date, URL and size.
    pub record: Record<'a>,
}

/// Options of `ADD`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Adding<'a> {
    /// Releases the claims with this token.
    pub token: Option<u64>,
    /// Sequence number, which makes a retry safe.
    pub seq: Option<Sequence<'a>>,
    /// Keeps the earliest of several records of a hash, instead of the one that was added first.
    pub earliest: bool,
}

impl<K: Store> Index<K> {
    /// Adds `response` records to a crawl. Returns the number of hashes that are new to the crawl.
    ///
    /// An identical record is a retry and changes no count. A different record of a known hash
    /// counts as a URL. It replaces the stored record only if `earliest` is set and it is earlier.
    ///
    /// # Errors
    /// `STALE` for an old token or sequence number; `REMOVING` while the crawl is being removed;
    /// `WRONGTYPE` if a key holds another type; errors of the server.
    pub fn add(
        &mut self,
        ks: &mut K,
        crawl: &[u8],
        responses: &[Response<'_>],
        how: Adding<'_>,
        now: Millis,
    ) -> Result<u64> {
        once(self, ks, crawl, how.seq, |index, ks| {
            add_once(index, ks, crawl, responses, how, now)
        })
    }
}

/// Checks the claim token, and returns the hashes whose claims this call settles. Returns an empty
/// list if the call has no token.
fn check_claimed<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    responses: &[Response<'_>],
    token: Option<u64>,
    now: Millis,
) -> Result<Vec<Digest>> {
    let Some(token) = token else {
        return Ok(Vec::new());
    };
    let digests: Vec<Digest> = responses.iter().map(|r| r.digest.clone()).collect();
    index.claims.check_token(ks, &digests, token, now)?;
    Ok(digests)
}

fn add_once<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    responses: &[Response<'_>],
    how: Adding<'_>,
    now: Millis,
) -> Result<u64> {
    index.under_way.refuse_while_removing(ks, crawl)?;
    let records = index.crawls.key(ks, crawl, CrawlKey::Records);
    let counts_key = index.crawls.key(ks, crawl, CrawlKey::Counts);
    let added = index.crawls.key(ks, crawl, CrawlKey::Added);
    // Check everything that can fail before the first write.
    counts::read(ks, &counts_key, counts::TOTAL_URLS)?;
    ks.hash_len(&records)?;
    ks.hash_len(&added)?;
    index.urls.check_key(ks, &mut index.crawls, crawl)?;
    let claimed = check_claimed(index, ks, responses, how.token, now)?;
    restore_if_set_aside(index, ks, crawl)?;
    let mut earliest = how
        .earliest
        .then(|| Earliest::of(index, ks, crawl))
        .transpose()?;
    let continuing = index.is_continuing(ks, crawl)?;

    let (mut new, mut urls) = (0, 0);
    let (mut value, mut room) = (Vec::new(), Room::default());
    let profile = index.profile();
    // Packed records are not in the plain hash, so a lookup in the plain hash alone is not enough.
    let one_place = !index.may_be_packed(ks, crawl)?;
    let one_step = one_place && index.has_written_records(ks, crawl);
    for Response { digest, record } in responses {
        let field = digest.written(profile);
        let record = &record.as_stored(profile, &mut room);
        record.write(&mut value);
        // If an earlier hash of this call was new, this hash is most likely new, too. `HSETNX`
        // checks and stores it in one step.
        let at_once = new > 0 && one_step && ks.hash_set_new(&records, field, &value)?;
        let stored = if at_once {
            None
        } else {
            index.record_of(ks, crawl, digest)?
        };
        match stored {
            None => {
                if !at_once {
                    start(index, ks, crawl)?;
                    ks.hash_set(&records, field, &value)?;
                }
                index
                    .urls
                    .note(ks, &mut index.crawls, crawl, digest, record)?;
                if continuing {
                    ks.hash_set(&added, digest.canonical(), b"")?;
                }
                new += 1;
                urls += 1;
            }
            Some(stored) => {
                let both = (stored.as_ref(), record);
                let counts = counts_again(index, ks, crawl, digest, both, earliest.as_mut())?;
                urls += i64::from(counts);
            }
        }
    }
    if urls > 0 {
        // Start the crawl only if a record is counted: a retry must not turn a committed crawl into
        // a continued one.
        start(index, ks, crawl)?;
        counts::add(ks, &counts_key, counts::TOTAL_URLS, urls)?;
    }
    if let Some(earliest) = earliest {
        earliest.write_marks(ks)?;
    }
    if let Some(token) = how.token {
        index.claims.release(ks, &claimed, token)?;
    }
    Ok(new)
}

/// Returns true if a record of an already stored hash counts as another URL, that is, if the record
/// is not a retry.
fn counts_again<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    digest: &Digest,
    (stored, record): (&[u8], &Record<'_>),
    earliest: Option<&mut Earliest<K::Name>>,
) -> Result<bool> {
    if let Some(earliest) = earliest {
        return earliest.meet(index, ks, crawl, digest, (stored, record));
    }
    let stored = Record::parse(stored);
    Ok(!stored.is_some_and(|stored| stored.is_same(record, index.profile())))
}
