//! `WACZOPEN`, `WACZCLOSE` and `WACZLIST`: the WACZ files of a crawl while they are written.

use crawlspace_host::text::Shown;

use super::begin::start;
use super::counts;
use super::error::{Error, Result};
use super::index::Index;
use super::keys::CrawlKey;
use super::store::Store;
use super::undo::save_for_undo;
use super::wacz::WaczEntry;

/// A finished WACZ file.
#[derive(Clone, Copy, Debug)]
pub struct Finished<'a> {
    /// The name under which the file was opened or, with `renames`, a different name.
    pub filename: &'a [u8],
    /// The hash of the file; empty if unknown.
    pub hash: &'a [u8],
    /// The size in bytes.
    pub size: u64,
    /// Permits the file to replace a placeholder that has a different name.
    pub renames: bool,
}

/// Appends a placeholder for a WACZ file to the crawl's list, or finds the existing one. Returns its index.
///
/// # Errors
/// `REMOVING` while the crawl is being removed; `WRONGTYPE` if a key holds another type; errors of the server.
pub fn open_wacz<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    filename: &[u8],
) -> Result<u64> {
    index.under_way.refuse_while_removing(ks, crawl)?;
    let waczs = index.crawls.key(ks, crawl, CrawlKey::Waczs);
    let len = ks.list_len(&waczs)?;
    for i in (0..len).rev() {
        let same = ks
            .list_get(&waczs, i)?
            .and_then(|entry| WaczEntry::parse(entry.as_ref()))
            .is_some_and(|entry| entry.filename == filename);
        if same {
            return Ok(i);
        }
    }
    start(index, ks, crawl)?;
    let placeholder = WaczEntry {
        filename: filename.to_vec(),
        hash: None,
        size: None,
    };
    Ok(ks.list_push(&waczs, &placeholder.to_json())? - 1)
}

/// Fills in the hash and size of a finished WACZ file and adds its size to the counts once. If the
/// file is closed again with a different size, adds the difference.
///
/// # Errors
/// `NOCRAWL`; `ERR` if the list has no entry at that index, or the entry describes another file.
/// With `renames`, a file may replace a placeholder with a different name, but never another
/// finished file.
pub fn close_wacz<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    i: u64,
    file: Finished<'_>,
) -> Result<()> {
    let Finished {
        filename,
        hash,
        size,
        renames,
    } = file;
    if index.crawls.state(ks, crawl)?.is_none() {
        return Err(Error::NoCrawl(crawl.to_vec()));
    }
    let waczs = index.crawls.key(ks, crawl, CrawlKey::Waczs);
    let len = ks.list_len(&waczs)?;
    let Some(stored) = ks.list_get(&waczs, i)? else {
        return Err(Error::Argument(format!(
            "index {i} is not in the WACZ list of crawl '{}', which has {len} entries; DEDUPE.WACZOPEN adds one",
            Shown(crawl)
        )));
    };
    let old = WaczEntry::parse(stored.as_ref());
    let old_size = old.as_ref().and_then(|entry| entry.size).unwrap_or(0);
    if let Some(old) = old.as_ref().filter(|old| old.filename != filename) {
        let rule = match renames {
            true if !old.is_closed() => None,
            true => Some("closed; a finished file cannot be renamed"),
            false => Some("opened; RENAME gives it another name"),
        };
        if let Some(rule) = rule {
            return Err(Error::Argument(format!(
                "filename '{}' differs from '{}', under which entry {i} was {rule}",
                Shown(filename),
                Shown(&old.filename)
            )));
        }
    }
    let closed = WaczEntry {
        filename: filename.to_vec(),
        hash: (!hash.is_empty()).then(|| hash.to_vec()),
        size: Some(size),
    };
    if old.as_ref() == Some(&closed) {
        return Ok(());
    }
    let counts_key = index.crawls.key(ks, crawl, CrawlKey::Counts);
    counts::read(ks, &counts_key, counts::TOTAL_CRAWL_SIZE)?;
    start(index, ks, crawl)?;
    save_for_undo(
        index,
        ks,
        crawl,
        &[b"wacz.", i.to_string().as_bytes()].concat(),
        stored.as_ref(),
    )?;
    ks.list_set(&waczs, i, &closed.to_json())?;
    counts::add(
        ks,
        &counts_key,
        counts::TOTAL_CRAWL_SIZE,
        size as i64 - old_size as i64,
    )
}

/// Returns the WACZ files of a crawl in order. For an element that is not a valid JSON entry, the name is the raw
/// element.
pub(super) fn list_waczs<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
) -> Result<Vec<WaczEntry>> {
    let waczs = index.crawls.key(ks, crawl, CrawlKey::Waczs);
    let len = ks.list_len(&waczs)?;
    let mut entries = Vec::with_capacity(len as usize);
    for i in 0..len {
        let Some(json) = ks.list_get(&waczs, i)? else {
            break;
        };
        entries.push(
            WaczEntry::parse(json.as_ref()).unwrap_or_else(|| WaczEntry {
                filename: json.as_ref().to_vec(),
                hash: None,
                size: None,
            }),
        );
    }
    Ok(entries)
}
