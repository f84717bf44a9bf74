//! Restores a continued crawl to the state of its last commit.
//!
//! `h:<crawl>:baseline` stores that state: `baseline.<count>`, `hashes`, `wacz` (length of the WACZ
//! list), and `commits`. If a later change cannot be derived from the counts, the baseline also
//! stores the value before the first change:
//!
//! - `undo.wacz.<i>`: the old list element
//! - `undo.dep.<crawl>`: the old number of revisits (empty: no dependency yet, `0`: a dependency
//!   that a plain client wrote)
//! - `undo.req.<crawl>`: a new member of `reqCrawls`
//! - `undo.ref.<uuid>`: a new set of references
//! - `undo.member.<length of uuid>:<uuid><reference>`: a new member of an existing set
//!
//! A commit renames the `undo.` fields to `merging-undo.`, and saves its own counts in `merging.`
//! fields. When the commit ends, it deletes both groups of fields.

use crawlspace_host::text::{parse_signed, parse_unsigned};

use super::counts;
use super::error::Result;
use super::index::Index;
use super::keys::CrawlKey;
use super::store::Store;
use super::wacz::{WaczEntry, file};

/// Parses `member.<length of uuid>:<uuid><reference>`.
fn parse_member(what: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = what.strip_prefix(b"member.")?;
    let colon = memchr::memchr(b':', rest)?;
    let len = parse_unsigned(&rest[..colon])?;
    rest[colon + 1..].split_at_checked(usize::try_from(len).ok()?)
}

/// Saves the value of `what` before its first change since the last commit, or since the start of a
/// running commit. Saves nothing for crawls that cannot be restored to a commit.
pub fn save_for_undo<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    what: &[u8],
    was: &[u8],
) -> Result<()> {
    if !index.is_continuing(ks, crawl)? {
        return Ok(());
    }
    let baseline = index.crawls.key(ks, crawl, CrawlKey::Baseline);
    let field = [b"undo.", what].concat();
    if !ks.hash_has(&baseline, &field)? {
        ks.hash_set(&baseline, &field, was)?;
    }
    Ok(())
}

/// Starts a commit. All earlier changes belong to this commit, and all later changes to the next.
pub fn begin_baseline<K: Store>(index: &mut Index<K>, ks: &mut K, crawl: &[u8]) -> Result<()> {
    let baseline = index.crawls.key(ks, crawl, CrawlKey::Baseline);
    let counts_key = index.crawls.key(ks, crawl, CrawlKey::Counts);
    let waczs = index.crawls.key(ks, crawl, CrawlKey::Waczs);
    for (name, n) in counts::all(ks, &counts_key, b"")? {
        let field = [b"merging.", &name[..]].concat();
        ks.hash_set(&baseline, &field, n.to_string().as_bytes())?;
    }
    let files = ks.list_len(&waczs)?;
    ks.hash_set(&baseline, b"merging-wacz", files.to_string().as_bytes())?;
    let unstored = index.crawls.key(ks, crawl, CrawlKey::Unstored);
    ks.delete(&unstored)?;
    for (field, value) in counts::fields(ks, &baseline)?.iter() {
        if let Some(what) = field.strip_prefix(b"undo.") {
            let merging = [b"merging-undo.", what].concat();
            if !ks.hash_has(&baseline, &merging)? {
                ks.hash_set(&baseline, &merging, value)?;
            }
            ks.hash_del(&baseline, field)?;
        }
    }
    Ok(())
}

/// Makes the current state of a crawl its baseline, at the end of a commit that did not pause.
pub fn replace_baseline<K: Store>(index: &mut Index<K>, ks: &mut K, crawl: &[u8]) -> Result<()> {
    let [baseline, counts_key, waczs, unstored] = [
        CrawlKey::Baseline,
        CrawlKey::Counts,
        CrawlKey::Waczs,
        CrawlKey::Unstored,
    ]
    .map(|key| index.crawls.key(ks, crawl, key));
    let counts = counts::all(ks, &counts_key, b"")?;
    let mut old: Vec<(Vec<u8>, i64)> = Vec::new();
    for (field, value) in counts::fields(ks, &baseline)?.iter() {
        let name = field.strip_prefix(b"baseline.");
        match name.zip(parse_signed(value)) {
            Some((name, n)) if counts.iter().any(|(count, _)| count == name) => {
                old.push((name.to_vec(), n));
            }
            _ if name.is_some() || field.starts_with(b"undo.") || field.starts_with(b"merging") => {
                ks.hash_del(&baseline, field)?;
            }
            _ => {}
        }
    }
    for count in counts {
        if !old.contains(&count) {
            let field = [b"baseline.", &count.0[..]].concat();
            ks.hash_set(&baseline, &field, count.1.to_string().as_bytes())?;
        }
    }
    ks.delete(&unstored)?;
    let files = ks.list_len(&waczs)?;
    index.crawls.baseline(ks, crawl).set_files(ks, files)
}

/// Ends a commit. If it `paused`, the counts that it copied become the baseline.
pub fn end_baseline<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    number: u64,
    paused: bool,
) -> Result<()> {
    if paused {
        end_copies(index, ks, crawl)?;
    }
    let mut numbers = index.crawls.baseline(ks, crawl).numbers(ks)?;
    if !numbers.contains(&number) {
        numbers.push(number);
    }
    let added = index.crawls.key(ks, crawl, CrawlKey::Added);
    let hashes = index.records_len(ks, crawl)?;
    let hashes = hashes.saturating_sub(ks.hash_len(&added)?);
    let baseline = index.crawls.baseline(ks, crawl);
    baseline.set_seen(ks, hashes)?;
    baseline.drop_more(ks)?;
    baseline.set_numbers(ks, &numbers)
}

/// Makes the counts that a commit copied the baseline.
fn end_copies<K: Store>(index: &mut Index<K>, ks: &mut K, crawl: &[u8]) -> Result<()> {
    let baseline = index.crawls.key(ks, crawl, CrawlKey::Baseline);
    let fields = counts::fields(ks, &baseline)?;
    for (field, _) in fields.iter() {
        if [&b"merging-undo."[..], b"baseline.", b"merging."]
            .iter()
            .any(|p| field.starts_with(p))
        {
            ks.hash_del(&baseline, field)?;
        }
    }
    for (field, value) in fields.iter() {
        if let Some(name) = field.strip_prefix(b"merging.") {
            ks.hash_set(&baseline, &[b"baseline.", name].concat(), value)?;
        }
    }
    if let Some(files) = ks.hash_get(&baseline, b"merging-wacz")? {
        ks.hash_set(&baseline, b"wacz", files.as_ref())?;
        ks.hash_del(&baseline, b"merging-wacz")?;
    }
    Ok(())
}

/// Stores the number of WACZ files of a committed crawl that is not continued.
pub fn note_files<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    files: u64,
) -> Result<()> {
    let baseline = index.crawls.baseline(ks, crawl);
    let is_finished = !index.crawls.is_uncommitted(ks, crawl)?;
    if is_finished && baseline.files(ks) != Ok(files as i64) {
        baseline.set_files(ks, files)?;
    }
    Ok(())
}

/// Restores the counts, the WACZ list and the dependencies of a continued crawl to the state of its last commit.
/// The hashes of the crawl must already have been restored.
pub fn restore_baseline<K: Store>(index: &mut Index<K>, ks: &mut K, crawl: &[u8]) -> Result<()> {
    let baseline = index.crawls.key(ks, crawl, CrawlKey::Baseline);
    let counts_key = index.crawls.key(ks, crawl, CrawlKey::Counts);
    let waczs = index.crawls.key(ks, crawl, CrawlKey::Waczs);
    let deps = index.crawls.key(ks, crawl, CrawlKey::Deps);
    let requires = index.crawls.key(ks, crawl, CrawlKey::Requires);
    let refs = index.crawls.key(ks, crawl, CrawlKey::Refs);
    let fields = counts::fields(ks, &baseline)?;

    for (name, _) in counts::all(ks, &counts_key, b"")? {
        if !ks.hash_has(&baseline, &[b"baseline.", &name[..]].concat())? {
            ks.hash_del(&counts_key, &name)?;
        }
    }
    let mut closed_since = Vec::new();
    if let Some(files) = ks.hash_get(&baseline, b"wacz")?
        && let Some(files) = parse_unsigned(files.as_ref())
        && ks.list_len(&waczs)? > files
    {
        for i in files..ks.list_len(&waczs)? {
            closed_since.extend(file_name(ks, &waczs, i)?);
        }
        ks.list_trim(&waczs, files)?;
    }
    // `merging-undo.` has older values than `undo.`, so restore it last.
    for generation in [&b"undo."[..], b"merging-undo."] {
        for (field, was) in fields.iter() {
            let Some(what) = field.strip_prefix(generation) else {
                continue;
            };
            if let Some(i) = what.strip_prefix(b"wacz.") {
                let i = parse_unsigned(i).unwrap_or(u64::MAX);
                if ks.list_get(&waczs, i)?.is_some() {
                    if !WaczEntry::parse(was).is_some_and(|entry| entry.is_closed()) {
                        closed_since.extend(file_name(ks, &waczs, i)?);
                    }
                    ks.list_set(&waczs, i, was)?;
                }
            } else if let Some(source) = what.strip_prefix(b"dep.") {
                if was.is_empty() {
                    ks.hash_del(&deps, source)?;
                    ks.set_del(&requires, source)?;
                } else if was == b"0" {
                    ks.hash_del(&deps, source)?;
                } else {
                    ks.hash_set(&deps, source, was)?;
                }
            } else if let Some(source) = what.strip_prefix(b"req.") {
                ks.set_del(&requires, source)?;
            } else if let Some((uuid, reference)) = parse_member(what) {
                let references = index.references_key(ks, uuid);
                ks.set_del(&references, reference)?;
            } else if let Some(uuid) = what.strip_prefix(b"ref.") {
                let references = index.references_key(ks, uuid);
                ks.delete(&references)?;
                ks.set_del(&refs, uuid)?;
            }
        }
    }
    for name in closed_since {
        drop_finished(index, ks, &name, false)?;
    }
    for (field, value) in fields.iter() {
        if let Some(name) = field.strip_prefix(b"baseline.") {
            ks.hash_set(&counts_key, name, value)?;
        } else if field.starts_with(b"undo.") || field.starts_with(b"merging") {
            ks.hash_del(&baseline, field)?;
        }
    }
    Ok(())
}

/// Returns true if a committed crawl has a finished file with that name in its last commit.
fn has_committed_file<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    name: &[u8],
) -> Result<bool> {
    let baseline = index.crawls.key(ks, crawl, CrawlKey::Baseline);
    let waczs = index.crawls.key(ks, crawl, CrawlKey::Waczs);
    let mut files = ks.list_len(&waczs)?;
    let continued = index.crawls.is_uncommitted(ks, crawl)?;
    if let (true, Some(committed)) = (continued, ks.hash_get(&baseline, b"wacz")?) {
        files = parse_unsigned(committed.as_ref()).map_or(files, |n| n.min(files));
    }
    for i in 0..files {
        let entry = ks.list_get(&waczs, i)?;
        let entry = entry.and_then(|json| WaczEntry::parse(json.as_ref()));
        if !entry.is_some_and(|e| e.is_closed() && e.filename == name) {
            continue;
        }
        let was = if continued {
            file_before(ks, &baseline, i)?
        } else {
            None
        };
        let was = was.map(|json| WaczEntry::parse(json.as_ref()));
        if was.is_none_or(|was| was.is_some_and(|was| was.is_closed())) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes the name of a deleted file from `src:d`, unless another committed crawl has a finished
/// file with that name, which may be the same file. Searches the files of other crawls only if
/// several crawls share the name (which is rare), or if no commit of this crawl can have added the
/// name (`is_ours` is false).
pub fn drop_finished<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    name: &[u8],
    is_ours: bool,
) -> Result<()> {
    if !ks.set_has(&index.names().finished, name)? {
        return Ok(());
    }
    if !is_ours || ks.set_has(&index.names().shared, name)? {
        let mut holders = 0;
        for other in index.crawls.committed(ks)? {
            if !index.under_way.is_leaving(ks, &other)? {
                holders += u32::from(has_committed_file(index, ks, &other, name)?);
            }
        }
        if holders < 2 {
            ks.set_del(&index.names().shared, name)?;
        }
        if holders > 0 {
            return Ok(());
        }
    }
    ks.set_del(&index.names().finished, name)?;
    Ok(())
}

/// Returns list element `i` of a crawl's files as of the last commit, if it has changed since.
pub fn file_before<K: Store>(ks: &mut K, baseline: &K::Name, i: u64) -> Result<Option<K::Value>> {
    let i = i.to_string();
    for generation in [&b"merging-undo.wacz."[..], b"undo.wacz."] {
        let was = ks.hash_get(baseline, &[generation, i.as_bytes()].concat())?;
        if was.is_some() {
            return Ok(was);
        }
    }
    Ok(None)
}

/// Makes the current state of a committed crawl its baseline, before it is continued. `allcounts`
/// already includes counts that plain clients added since the last commit, and a cancel must keep
/// them.
pub fn rebase<K: Store>(index: &mut Index<K>, ks: &mut K, crawl: &[u8]) -> Result<()> {
    let [baseline, counts_key, waczs] = [CrawlKey::Baseline, CrawlKey::Counts, CrawlKey::Waczs]
        .map(|key| index.crawls.key(ks, crawl, key));
    let is_committing = index.under_way.is_committing(ks, crawl)?;
    let mut names = counts::all(ks, &counts_key, b"")?;
    names.extend(counts::all(ks, &baseline, b"baseline.")?);
    for (name, _) in names {
        let n = counts::read(ks, &counts_key, &name).unwrap_or(0);
        let field = [b"baseline.", &name[..]].concat();
        let was = counts::read(ks, &baseline, &field).unwrap_or(0);
        if was != n {
            index
                .crawls
                .baseline(ks, crawl)
                .note_uncertain(ks, &name, n.saturating_sub(was))?;
            counts::set(ks, &baseline, &field, n)?;
        }
        if is_committing {
            let field = [b"merging.", &name[..]].concat();
            counts::set(ks, &baseline, &field, n)?;
        }
    }
    let committed = index.crawls.baseline(ks, crawl).files(ks).unwrap_or(0);
    let files = ks.list_len(&waczs)?;
    for at in committed.max(0) as u64..files {
        // Another crawl may have the same file.
        if let Some(entry) = file(ks, &waczs, at)?
            && ks.set_has(&index.names().finished, &entry.filename)?
        {
            ks.set_add(&index.names().shared, &entry.filename)?;
        }
    }
    note_files(index, ks, crawl, files)?;
    let more = index.unseen_fields(ks, crawl)?.unwrap_or(0).max(0);
    if more > 0 {
        index.mark_unrecorded(ks, crawl)?;
    }
    index.crawls.baseline(ks, crawl).set_more(ks, more)
}

/// Returns the name in list element `i` of a crawl's files.
fn file_name<K: Store>(ks: &mut K, waczs: &K::Name, i: u64) -> Result<Option<Vec<u8>>> {
    Ok(file(ks, waczs, i)?.map(|entry| entry.filename))
}
