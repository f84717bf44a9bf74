//! Revisits that Browsertrix's importer counted before it found their originals.
//!
//! The importer stores these revisits in two Redis hashes per payload hash: `rev:<hash>:c` maps a
//! crawl to its number of revisits, and `rev:<hash>:s` maps a crawl to their bytes. A commit that
//! adds the original adds the saved bytes to the counts of these crawls.

use crawlspace_host::keyspace::{Batch, KeyType};
use crawlspace_host::text::parse_signed;

use super::counts::{self, CONSERVED_SIZE};
use super::digest::Digest;
use super::error::{Error, Result};
use super::index::{CrawlState, Index};
use super::job::Lent;
use super::keys::CrawlKey;
use super::profile::Profile;
use super::record::Record;
use super::store::Store;

/// Prefix of the hash in both key names.
const WAITING: &[u8] = b"rev:";

/// Number of records in a commit for each step that a scan over all key names may take. Looking up
/// the revisits of this number of records takes longer than one step.
const RECORDS_A_STEP: u64 = 16;

/// Returns true if such revisits may exist for a commit of `records` hashes. If the server has few
/// keys compared with `records`, scans the key names. Otherwise, one lookup per hash is faster.
pub(super) async fn may_have_waiting<K: Store>(lent: &Lent<K>, records: u64) -> Result<bool> {
    if !lent.with(|index, ks| was_imported_to(index, ks))? {
        return Ok(false);
    }
    let mut steps = records / RECORDS_A_STEP;
    let mut may_wait = true;
    let mut cursor = lent.with(|_, ks| ks.cursor());
    lent.slices(|index, ks, time| {
        let start = [index.prefix(), WAITING].concat();
        while steps > 0 {
            let mut found = Batch::default();
            let more = ks.keys_scan(&start, &mut cursor, &mut found);
            may_wait = more || !found.is_empty();
            if !more || !found.is_empty() {
                return Ok(true);
            }
            steps -= 1;
            if !time() {
                return Ok(false);
            }
        }
        Ok::<_, Error>(true)
    })
    .await?;
    Ok(may_wait)
}

/// Returns true if an importer has written to the index. An importer stores its progress from the
/// first package on, and stores the time at which it ends.
pub(super) fn was_imported_to<K: Store>(index: &mut Index<K>, ks: &mut K) -> Result<bool> {
    let names = index.names();
    Ok(index.profile() == Profile::Browsertrix
        && (ks.exists(&names.last_update)
            || ks.hash_has(&names.allcounts, counts::UPDATE_PROGRESS)?))
}

/// Adds the bytes that waiting revisits of a record save, when a crawl with the record is
/// committed.
pub(super) fn count_waiting<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    digest: &Digest,
) -> Result<()> {
    // The importer writes a hash as in the package, with or without the label of its algorithm.
    for hash in [digest.canonical(), digest.written(index.profile())] {
        let numbers = ks.name(&[index.prefix(), WAITING, hash, b":c"]);
        if !ks.exists(&numbers) {
            continue;
        }
        let sizes = ks.name(&[index.prefix(), WAITING, hash, b":s"]);
        let mut keys = [&numbers, &sizes].into_iter();
        if keys.any(|key| ks.check_type(key, KeyType::Hash).is_err()) {
            continue;
        }
        let record = index.record_of(ks, crawl, digest)?;
        let record = record.as_ref().map(AsRef::as_ref).and_then(Record::parse);
        let Some(size) = record.map(|record| record.size) else {
            return Ok(());
        };
        for (waiting, number) in counts::fields(ks, &numbers)?.iter() {
            let bytes = counts::read(ks, &sizes, waiting).unwrap_or(0);
            let number = parse_signed(number).unwrap_or(0);
            let saved = number
                .saturating_mul(size as i64)
                .saturating_sub(bytes.max(0));
            if saved > 0 {
                add_saved(index, ks, crawl, waiting, saved)?;
            }
        }
        ks.delete(&numbers)?;
        ks.delete(&sizes)?;
    }
    Ok(())
}

/// Adds to the number of bytes that the crawl `waiting` saved. `crawl` is the crawl that is being
/// committed.
fn add_saved<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    waiting: &[u8],
    saved: i64,
) -> Result<()> {
    let Some(standing) = index.standing(ks, waiting)? else {
        return Ok(()); // the crawl has been removed since
    };
    let [counts_key, baseline] =
        [CrawlKey::Counts, CrawlKey::Baseline].map(|key| index.crawls.key(ks, waiting, key));
    if counts::read(ks, &counts_key, CONSERVED_SIZE).is_err() {
        return Ok(()); // a repair resets this count
    }
    counts::add(ks, &counts_key, CONSERVED_SIZE, saved)?;
    match standing {
        // The running purge recomputes the sums.
        CrawlState::Outgoing => return Ok(()),
        CrawlState::Uncommitted if waiting == crawl => {
            let field = [b"merging.", CONSERVED_SIZE].concat();
            return counts::add(ks, &baseline, &field, saved);
        }
        CrawlState::Uncommitted => return Ok(()),
        CrawlState::Continued => {
            let field = [b"baseline.", CONSERVED_SIZE].concat();
            counts::add(ks, &baseline, &field, saved)?;
            if index.under_way.is_committing(ks, waiting)? {
                let field = [b"merging.", CONSERVED_SIZE].concat();
                counts::add(ks, &baseline, &field, saved)?;
            }
        }
        // The importer adds to both keys, starting with the first record.
        CrawlState::Committed | CrawlState::Canceled | CrawlState::Unlisted => {}
    }
    counts::add(ks, &index.names().allcounts, CONSERVED_SIZE, saved)
}
