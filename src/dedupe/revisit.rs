//! `REVISIT`: adds `revisit` records as they are written, and records their dependencies on other
//! crawls.

use crawlspace_host::text::parse_unsigned;

use super::begin::start;
use super::counts;
use super::digest::Digest;
use super::error::{Error, Result};
use super::index::Index;
use super::keys::CrawlKey;
use super::sequence::Sequence;
use super::sequence::once;
use super::store::Store;
use super::undo::save_for_undo;

/// A `revisit` record that a crawler has written.
pub struct Revisit<'a> {
    /// Digest of the payload that was not stored again.
    pub digest: Digest,
    /// The hash as the client sent it, for error messages.
    pub given: &'a [u8],
    /// Size of the revisit record, in bytes.
    pub size: u64,
    /// The record to which the revisit refers, if the crawler specifies it. Otherwise, the module
    /// looks up the record.
    pub original: Option<Original<'a>>,
}

/// The record to which a `revisit` record refers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Original<'a> {
    /// The crawl that holds the record.
    pub crawl: &'a [u8],
    /// Index of the crawl's WACZ file that contains the record.
    pub wacz_index: u64,
    /// Size of the record, in bytes.
    pub size: u64,
}

/// The keys in which the dependency of a revisit is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependency<'a> {
    /// Recorded in `<crawl>:reqCrawls`.
    Crawl,
    /// Recorded in `<crawl>:reqCrawls`, and as `crawl waczIndex` in the set of references of this WACZ.
    Wacz(&'a [u8]),
    /// Not recorded: the revisit is only counted, because the crawler itself stores dependencies.
    Elsewhere,
}

/// The crawl that has the original, and the index of its WACZ file.
type Source = (Vec<u8>, u64);

/// The keys that record the dependencies of a crawl.
struct DependencyKeys<'a, N> {
    requires: N,
    deps: N,
    refs: N,
    /// The id of the dependent WACZ, and the key of its set of references.
    references: Option<(&'a [u8], N)>,
}

impl<K: Store> Index<K> {
    /// Adds `revisit` records. If one of the records has no original, adds none of them. Each
    /// revisit is also counted in `h:<crawl>:deps` for the crawl that holds its original,
    /// regardless of `dependency`.
    ///
    /// # Errors
    /// `NOHASH` for a hash that is not in the index and whose original is not given.
    pub fn revisit(
        &mut self,
        ks: &mut K,
        crawl: &[u8],
        revisits: &[Revisit<'_>],
        dependency: Dependency<'_>,
        seq: Option<Sequence<'_>>,
    ) -> Result<u64> {
        once(self, ks, crawl, seq, |index, ks| {
            revisit_once(index, ks, crawl, revisits, dependency)
        })
    }
}

fn revisit_once<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    revisits: &[Revisit<'_>],
    dependency: Dependency<'_>,
) -> Result<u64> {
    index.under_way.refuse_while_removing(ks, crawl)?;
    let counts_key = index.crawls.key(ks, crawl, CrawlKey::Counts);
    for count in [
        counts::TOTAL_URLS,
        counts::DUPE_URLS,
        counts::CONSERVED_SIZE,
    ] {
        counts::read(ks, &counts_key, count)?;
    }
    let keys = DependencyKeys {
        requires: index.crawls.key(ks, crawl, CrawlKey::Requires),
        deps: index.crawls.key(ks, crawl, CrawlKey::Deps),
        refs: index.crawls.key(ks, crawl, CrawlKey::Refs),
        references: match dependency {
            Dependency::Wacz(uuid) => Some((uuid, index.references_key(ks, uuid))),
            Dependency::Crawl | Dependency::Elsewhere => None,
        },
    };
    ks.set_len(&keys.requires)?;
    ks.hash_len(&keys.deps)?;
    if let Some((_, references)) = &keys.references {
        ks.set_len(references)?;
    }
    let (conserved, sources) = originals(index, ks, crawl, revisits)?;
    start(index, ks, crawl)?;
    for (source, wacz_index) in sources {
        let is_new = count_revisit(index, ks, crawl, &keys, &source)?;
        if dependency == Dependency::Elsewhere {
            continue;
        }
        if is_new {
            // An earlier call may have counted the revisit without recording the dependency.
            save_for_undo(index, ks, crawl, &[b"req.", &source[..]].concat(), b"")?;
            ks.set_add(&keys.requires, &source)?;
        }
        let reference = [&source[..], b" ", wacz_index.to_string().as_bytes()].concat();
        refer(index, ks, crawl, &keys, &reference)?;
    }
    let n = revisits.len() as i64;
    counts::add(ks, &counts_key, counts::TOTAL_URLS, n)?;
    counts::add(ks, &counts_key, counts::DUPE_URLS, n)?;
    counts::add(ks, &counts_key, counts::CONSERVED_SIZE, conserved)?;
    Ok(n as u64)
}

/// Returns the number of bytes that these revisits save, and the originals that belong to other
/// crawls.
fn originals<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    revisits: &[Revisit<'_>],
) -> Result<(i64, Vec<Source>)> {
    let mut conserved: i64 = 0;
    let mut sources = Vec::new();
    for revisit in revisits {
        let found;
        let original = match revisit.original {
            Some(original) => original,
            None => {
                found = index.find(ks, &revisit.digest, Some(crawl))?;
                let Some(found) = &found else {
                    return Err(Error::NoHash(revisit.given.to_vec()));
                };
                let record = found.record();
                Original {
                    crawl: found.crawl(),
                    wacz_index: record.wacz_index,
                    size: record.size,
                }
            }
        };
        conserved = conserved.saturating_add(original.size.saturating_sub(revisit.size) as i64);
        if original.crawl != crawl {
            sources.push((original.crawl.to_vec(), original.wacz_index));
        }
    }
    Ok((conserved, sources))
}

/// Counts a revisit of a record of `source`. Returns true if `source` is not recorded as a
/// requirement yet.
fn count_revisit<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    keys: &DependencyKeys<'_, K::Name>,
    source: &[u8],
) -> Result<bool> {
    let was = ks.hash_get(&keys.deps, source)?;
    let known = ks.set_has(&keys.requires, source)?;
    let undo = [b"dep.", source].concat();
    match &was {
        Some(was) => save_for_undo(index, ks, crawl, &undo, was.as_ref())?,
        None if known => save_for_undo(index, ks, crawl, &undo, b"0")?,
        None => save_for_undo(index, ks, crawl, &undo, b"")?,
    }
    let revisits = was.and_then(|n| parse_unsigned(n.as_ref())).unwrap_or(0) + 1;
    ks.hash_set(&keys.deps, source, revisits.to_string().as_bytes())?;
    Ok(!known)
}

/// Adds a reference to the set of the dependent WACZ, if there is one.
fn refer<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    keys: &DependencyKeys<'_, K::Name>,
    reference: &[u8],
) -> Result<()> {
    let Some((uuid, references)) = &keys.references else {
        return Ok(());
    };
    let is_new = !ks.exists(references);
    if is_new {
        save_for_undo(index, ks, crawl, &[b"ref.", *uuid].concat(), b"")?;
    }
    if !ks.set_has(references, reference)? {
        if !is_new {
            let what = format!("member.{}:", uuid.len()).into_bytes();
            let what = [&what[..], *uuid, reference].concat();
            save_for_undo(index, ks, crawl, &what, b"")?;
        }
        ks.set_add(references, reference)?;
    }
    ks.set_add(&keys.refs, uuid)?;
    Ok(())
}
