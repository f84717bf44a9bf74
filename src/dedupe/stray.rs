//! Stray keys: keys of crawls that are in no set. Either a client deleted the crawl but left these
//! keys behind, or a client wrote the keys without registering the crawl.

use crawlspace_host::keyspace::Batch;

use super::counts;
use super::digest::Digest;
use super::error::Result;
use super::index::{CrawlState, Index};
use super::job::Lent;
use super::keys::{CrawlKey, Group, ONCE, RECORDS};
use super::profile::Profile;
use super::record::Record;
use super::store::Store;
use super::wacz::WaczEntry;

/// Scans all keys. Calls `each` with the crawl and the kind of every key that belongs to a crawl that is in no set.
///
/// # Errors
/// The first error of `each`, or of a read.
pub(super) async fn each_stray<K: Store>(
    lent: &Lent<K>,
    mut each: impl FnMut(&mut Index<K>, &mut K, Vec<u8>, CrawlKey) -> Result<()>,
) -> Result<()> {
    let mut cursor = lent.with(|_, ks| ks.cursor());
    lent.slices(|index, ks, time| {
        loop {
            let mut batch = Batch::default();
            let more = ks.keys_scan(index.prefix(), &mut cursor, &mut batch);
            for (key, _) in batch.iter() {
                if let Some((crawl, which)) = stray_of(index, ks, key)? {
                    each(index, ks, crawl, which)?;
                }
            }
            if !more || !time() {
                return Ok(!more);
            }
        }
    })
    .await
}

/// Returns the crawl and the kind of a key, if it belongs to a crawl that is in no set.
pub(super) fn stray_of<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    key: &[u8],
) -> Result<Option<(Vec<u8>, CrawlKey)>> {
    let prefix_len = index.prefix().len();
    let name = &key[prefix_len..];
    let Some((crawl, which)) = CrawlKey::parse(name) else {
        return Ok(None);
    };
    let is_known = index.under_way.is_removing(ks, crawl)?
        || !matches!(
            index.standing(ks, crawl)?,
            None | Some(CrawlState::Unlisted)
        );
    if is_known || is_of_another_index(ks, key, prefix_len) || !looks_ours(ks, key, which) {
        return Ok(None);
    }
    // Plain clients can commit a crawl whose id ends like the name of another key. This key then
    // contains the records of that crawl.
    let is_records = match name.strip_prefix(RECORDS) {
        Some(crawl) => index.crawls.state(ks, crawl)?.is_some(),
        None => false,
    };
    Ok((!is_records).then(|| (crawl.to_vec(), which)))
}

/// Returns true if a key may belong to an index with a longer prefix that begins with this one. For
/// example, `h:h:c1` belongs to crawl `h:c1` in the index with an empty prefix, and to crawl `c1`
/// in the index with the prefix `h:`.
fn is_of_another_index<K: Store>(ks: &mut K, key: &[u8], prefix_len: usize) -> bool {
    // Keys of a crawl begin in this way, or have the crawl id directly after the prefix.
    let starts = [CrawlKey::Records, CrawlKey::Waczs]
        .into_iter()
        .flat_map(|which| memchr::memmem::find_iter(key, which.around().0));
    let ends: Vec<usize> = starts.filter(|&at| at > prefix_len).collect();
    if ends.len() > MAX_NESTED {
        return true; // if in doubt, the key must not be deleted
    }
    // `h:claims` may be the records of crawl `claims`, or the claims of the index with the prefix
    // `h:`.
    let once = ONCE.iter().filter_map(|row| row.prefix_of(key));
    let once = once.map(<[u8]>::len).filter(|&end| end > prefix_len);
    let of_crawls = ends
        .into_iter()
        .filter(|&end| CrawlKey::parse(&key[end..]).is_some());
    of_crawls.chain(once).any(|end| is_prefix(ks, &key[..end]))
}

/// Returns true if there is an index with this prefix.
fn is_prefix<K: Store>(ks: &mut K, prefix: &[u8]) -> bool {
    let mut marks = ONCE.iter().filter(|row| row.is_in(Group::Marks));
    marks.any(|row| {
        let name = ks.name(&[prefix, row.name(Profile::Document).as_bytes()]);
        ks.exists(&name)
    })
}

/// Maximum number of positions in a key's name that are examined for the end of a longer prefix.
const MAX_NESTED: usize = 64;

/// Returns true if a key of an unknown crawl has the content that such a key must have. Other
/// applications may use names such as `h:session` in the same database. A crawler may also store
/// its requirements in this database and its crawl in a different database.
fn looks_ours<K: Store>(ks: &mut K, key: &[u8], which: CrawlKey) -> bool {
    let key = ks.name(&[key]);
    let mut batch = Batch::default();
    let mut cursor = ks.cursor();
    match which {
        CrawlKey::Requires => false,
        CrawlKey::Records => {
            // A step of a scan may return no entries.
            while batch.is_empty() && ks.hash_scan(&key, &mut cursor, &mut batch) == Ok(true) {}
            let mut entries = batch.iter();
            entries.next().is_some_and(|(field, value)| {
                Digest::parse(field).is_ok() && Record::parse(value).is_some()
            })
        }
        CrawlKey::Counts => counts::SHOWN
            .iter()
            .any(|name| ks.hash_has(&key, name).unwrap_or(false)),
        CrawlKey::Waczs => ks
            .list_get(&key, 0)
            .is_ok_and(|first| first.is_some_and(|json| WaczEntry::parse(json.as_ref()).is_some())),
        _ => ks.check_type(&key, which.kind()).is_ok(),
    }
}
