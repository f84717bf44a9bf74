//! Statistics of a crawl and of the whole index, with their documented names.

use crawlspace_host::keyspace::{Batch, Keyspace};
use crawlspace_host::text::{Shown, parse_signed};

use super::error::{Error, Result};

/// `totalCrawlSize`: bytes of all finished WACZ files.
pub const TOTAL_CRAWL_SIZE: &[u8] = b"totalCrawlSize";
/// `totalUrls`: `response` and `revisit` records written.
pub const TOTAL_URLS: &[u8] = b"totalUrls";
/// `dupeUrls`: `revisit` records written.
pub const DUPE_URLS: &[u8] = b"dupeUrls";
/// `conservedSize`: bytes that revisits saved.
pub const CONSERVED_SIZE: &[u8] = b"conservedSize";
/// `removedCrawls`: crawls that the last `RETAIN` did not list.
pub const REMOVED_CRAWLS: &[u8] = b"removedCrawls";
/// `removedCrawlSize`: sum of `totalCrawlSize` of the crawls that the last `RETAIN` did not list.
pub const REMOVED_CRAWL_SIZE: &[u8] = b"removedCrawlSize";
/// `updateProgress`: progress of an import, from 0 to 1.
pub const UPDATE_PROGRESS: &[u8] = b"updateProgress";

/// `estimatedRedundantSize`: bytes of records that an import found stored more than once.
pub const REDUNDANT_SIZE: &[u8] = b"estimatedRedundantSize";
/// `redundantUrls`: number of records that an import found stored more than once.
pub const REDUNDANT_URLS: &[u8] = b"redundantUrls";

/// Fields of `allcounts` that are not sums over crawls. These fields have no meaning in the counts of a single
/// crawl.
const OF_NO_CRAWL: [&[u8]; 5] = [
    REMOVED_CRAWLS,
    REMOVED_CRAWL_SIZE,
    UPDATE_PROGRESS,
    REDUNDANT_SIZE,
    REDUNDANT_URLS,
];

/// The counts in replies, in this order.
pub const SHOWN: [&[u8]; 4] = [TOTAL_URLS, DUPE_URLS, CONSERVED_SIZE, TOTAL_CRAWL_SIZE];

/// Reads a field of a hash of counts. Returns 0 if it does not exist.
///
/// # Errors
/// `ERR` if the field is not an integer.
pub fn read<K: Keyspace>(ks: &mut K, key: &K::Name, field: &[u8]) -> Result<i64> {
    let Some(value) = ks.hash_get(key, field)? else {
        return Ok(0);
    };
    parse_signed(value.as_ref()).ok_or_else(|| {
        Error::Argument(format!(
            "field '{}' of key '{}' does not hold an integer; DEDUPE.REPAIR repairs it",
            Shown(field),
            Shown(key.as_ref())
        ))
    })
}

/// Adds to a field, saturating at the ends of the integer range. Adding 0 changes nothing, and a
/// field that reaches 0 is deleted, so that equal sums are stored in the same way.
pub(super) fn add<K: Keyspace>(ks: &mut K, key: &K::Name, field: &[u8], by: i64) -> Result<()> {
    if by == 0 {
        return Ok(());
    }
    let sum = read(ks, key, field)?.saturating_add(by);
    set(ks, key, field, sum)
}

/// Sets a field; 0 deletes it.
pub(super) fn set<K: Keyspace>(ks: &mut K, key: &K::Name, field: &[u8], n: i64) -> Result<()> {
    if n == 0 {
        ks.hash_del(key, field)?;
    } else {
        ks.hash_set(key, field, n.to_string().as_bytes())?;
    }
    Ok(())
}

/// Returns the counts of a crawl or of an index: all integer fields whose name starts with `prefix`, except
/// [`OF_NO_CRAWL`]. The returned names do not contain the prefix, and are sorted.
pub(super) fn all<K: Keyspace>(
    ks: &mut K,
    key: &K::Name,
    prefix: &[u8],
) -> Result<Vec<(Vec<u8>, i64)>> {
    let mut counts: Vec<(Vec<u8>, i64)> = fields(ks, key)?
        .iter()
        .filter_map(|(field, value)| {
            let name = field.strip_prefix(prefix)?;
            let is_count = !OF_NO_CRAWL.contains(&name);
            is_count.then_some((name.to_vec(), parse_signed(value)?))
        })
        .collect();
    counts.sort();
    counts.dedup();
    Ok(counts)
}

/// Returns all fields of a small hash.
pub(super) fn fields<K: Keyspace>(ks: &mut K, key: &K::Name) -> Result<Batch> {
    let mut out = Batch::default();
    let mut cursor = ks.cursor();
    while ks.hash_scan(key, &mut cursor, &mut out)? {}
    Ok(out)
}

/// Returns all members of a set, sorted and without duplicates.
pub(super) fn members<K: Keyspace>(ks: &mut K, key: &K::Name) -> Result<Vec<Vec<u8>>> {
    let mut batch = Batch::default();
    let mut cursor = ks.cursor();
    while ks.set_scan(key, &mut cursor, &mut batch)? {}
    let mut members: Vec<Vec<u8>> = batch.iter().map(|(member, _)| member.to_vec()).collect();
    members.sort();
    members.dedup();
    Ok(members)
}
