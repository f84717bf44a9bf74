//! Statistics of crawls and indexes.

use std::collections::BTreeMap;

use crawlspace_host::reply::Reply;
use crawlspace_host::slices::Completion;

use super::counts;
use super::error::{Error, Result};
use super::index::{CrawlState, Index};
use super::job::{Job, Lent, Walk, each_crawl};
use super::keys::{CrawlKey, Group, Pick};
use super::packed::Part;
use super::store::Store;
use super::stray::each_stray;

fn crawl_figures<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    state: CrawlState,
) -> Result<Vec<(&'static str, Reply)>> {
    let hashes = index.records_len(ks, crawl)?;
    let counts_key = index.crawls.key(ks, crawl, CrawlKey::Counts);
    let waczs = index.crawls.key(ks, crawl, CrawlKey::Waczs);
    let mut figures = vec![
        ("state", Reply::bulk(state.name())),
        ("hashes", Reply::count(hashes)),
    ];
    for name in counts::SHOWN {
        let shown = std::str::from_utf8(name).expect("count names are ASCII");
        figures.push((shown, Reply::Int(counts::read(ks, &counts_key, name)?)));
    }
    figures.push(("waczs", Reply::count(ks.list_len(&waczs)?)));
    Ok(figures)
}

/// Returns the statistics of a crawl.
///
/// # Errors
/// `NOCRAWL` if the index has no such crawl; `WRONGTYPE` if a key holds another type; errors of the server.
pub fn crawl_stats<K: Store>(index: &mut Index<K>, ks: &mut K, crawl: &[u8]) -> Result<Reply> {
    let state = index.require_known(ks, crawl)?;
    let mut figures = crawl_figures(index, ks, crawl, state)?;
    let requires = index.crawls.key(ks, crawl, CrawlKey::Requires);
    figures.push(("requires", Reply::count(ks.set_len(&requires)?)));
    let memory = crawl_memory(index, ks, crawl) + packed_memory(index, ks, crawl)?;
    figures.push(("memory", Reply::count(memory)));
    Ok(Reply::named(figures))
}

/// Returns a crawl's share of the memory of the packed index, in proportion to the number of its
/// records.
fn packed_memory<K: Store>(index: &mut Index<K>, ks: &mut K, crawl: &[u8]) -> Result<u64> {
    let Some(key) = index.places.packed_key().cloned() else {
        return Ok(0);
    };
    let share = ks.packed(&key, |packed| {
        let records = packed.len(Part::Records(crawl)) as u128;
        let all = packed.all_records().max(1) as u128;
        (packed.memory() as u128 * records / all) as u64
    })?;
    Ok(share.unwrap_or(0))
}

fn crawl_memory<K: Store>(index: &mut Index<K>, ks: &mut K, crawl: &[u8]) -> u64 {
    let keys = CrawlKey::ALL.iter();
    keys.map(|&which| {
        let key = index.crawls.key(ks, crawl, which);
        ks.memory(&key)
    })
    .sum()
}

/// Estimates the memory in bytes of the crawls in a set from the first `samples` crawls of a scan.
/// The estimate is proportional to the number of records if `committed` is true, and to the number
/// of crawls otherwise.
fn estimate<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    (set, committed): (Pick<K::Name>, bool),
    samples: u64,
) -> Result<u64> {
    let set = set(index.names()).clone();
    let crawls = ks.set_len(&set)?;
    let mut walk = Walk::set(ks, set);
    let (mut memory, mut looked_at, mut done) = (0_u64, 0_u64, samples == 0);
    let mut records = 0;
    while !done {
        let (batch, last) = walk.next(index, ks)?;
        let wanted = batch.iter().take((samples - looked_at) as usize);
        let found: Vec<Vec<u8>> = wanted.map(|(crawl, _)| crawl.to_vec()).collect();
        for crawl in &found {
            memory += crawl_memory(index, ks, crawl);
            let counts_key = index.crawls.key(ks, crawl, CrawlKey::Counts);
            records += responses(ks, &counts_key)?;
        }
        looked_at += found.len() as u64;
        done = last || looked_at >= samples;
    }
    let (mut part, mut whole) = (looked_at, crawls);
    if committed && looked_at < crawls && records > 0 {
        (part, whole) = (records, responses(ks, &index.names().allcounts)?);
    }
    let memory = u128::from(memory) * u128::from(whole) / u128::from(part.max(1));
    Ok(memory as u64)
}

/// Returns the statistics of the whole index. `memory` is the memory use of its crawls in bytes.
fn whole_stats<K: Store>(index: &mut Index<K>, ks: &mut K, mut memory: u64) -> Result<Reply> {
    let names = &index.names();
    for key in names.group(Group::Measured) {
        memory += ks.memory(key);
    }
    let progress = ks.hash_get(&names.allcounts, counts::UPDATE_PROGRESS)?;
    let mut figures = vec![
        ("profile", Reply::bulk(index.profile().name())),
        ("storage", Reply::bulk(index.places.shown())),
        (
            "crawls",
            Reply::count(ks.set_len(&index.names().allcrawls)?),
        ),
        (
            "uncommitted",
            Reply::count(ks.set_len(&index.names().uncommitted)?),
        ),
        ("hashes", Reply::count(index.places.merged().len(ks)?)),
    ];
    for name in counts::SHOWN
        .into_iter()
        .chain([counts::REMOVED_CRAWLS, counts::REMOVED_CRAWL_SIZE])
    {
        let shown = std::str::from_utf8(name).expect("count names are ASCII");
        let n = counts::read(ks, &index.names().allcounts, name)?;
        figures.push((shown, Reply::Int(n)));
    }
    figures.push((
        "updateProgress",
        progress.map_or(Reply::Nil, |p| Reply::bulk(p.as_ref())),
    ));
    figures.push(("memory", Reply::count(memory)));
    Ok(Reply::named(figures))
}

/// Returns the number of `response` records in a hash of counts.
fn responses<K: Store>(ks: &mut K, counts_key: &K::Name) -> Result<u64> {
    let all = counts::read(ks, counts_key, counts::TOTAL_URLS)?;
    let revisits = counts::read(ks, counts_key, counts::DUPE_URLS)?;
    Ok(all.saturating_sub(revisits).max(0) as u64)
}

/// Maximum number of crawls per set that are sampled for an estimate.
pub const MAX_SAMPLES: u64 = 64;

/// The subject of `STATS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figures<'a> {
    /// An index. Its memory is estimated from a sample of this number of crawls in progress and as many committed
    /// ones.
    Sampled(u64),
    /// A crawl.
    Crawl(&'a [u8]),
}

/// Returns the job for `STATS` of a whole index. The memory of the index is estimated from `samples` uncommitted
/// and `samples` committed crawls.
///
/// # Errors
/// The job fails with `WRONGTYPE` if a key holds another type.
pub fn sampled_stats<K: Store>(samples: u64) -> Job<K> {
    Job::new(async move |lent: Lent<K>| {
        let sets: [(Pick<K::Name>, bool); 2] = [
            (|names| &names.uncommitted, false),
            (|names| &names.allcrawls, true),
        ];
        let mut memory = 0;
        for set in sets {
            memory += lent.with(|index, ks| estimate(index, ks, set, samples))?;
            lent.pause().await;
        }
        lent.with(|index, ks| whole_stats(index, ks, memory))
    })
}

/// Returns the job for `STATS` of a whole index.
///
/// # Errors
/// The job fails with `WRONGTYPE` if a key holds another type.
pub fn stats<K: Store>() -> Job<K> {
    Job::new(async |lent: Lent<K>| {
        let mut memory = 0;
        let measure = |index: &mut Index<K>, ks: &mut K, crawl: &[u8]| {
            memory += crawl_memory(index, ks, crawl);
            Ok(())
        };
        let sets: [Pick<K::Name>; 2] = [|names| &names.uncommitted, |names| &names.allcrawls];
        each_crawl(&lent, &sets, measure).await?;
        lent.with(|index, ks| whole_stats(index, ks, memory))
    })
}

/// The crawls that `CRAWLS` lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Crawls in any set.
    All,
    /// Crawls in `uncommittedcrawls`.
    Uncommitted,
    /// Crawls in `allcrawls`.
    Committed,
    /// Crawls that have records but are in no set.
    Unlisted,
}

/// Progress of the running jobs, by crawl.
pub type UnderWay = BTreeMap<Vec<u8>, Completion>;

/// Returns the job for `CRAWLS`. Its reply is a map with the statistics of each crawl. For the
/// crawls in `under_way`, the statistics include a `progress`.
///
/// # Errors
/// The job fails with `WRONGTYPE` if a key holds another type.
pub fn crawls<K: Store>(which: Which, under_way: UnderWay) -> Job<K> {
    Job::new(async move |lent: Lent<K>| {
        let mut found = BTreeMap::new();
        let sets: &[Pick<K::Name>] = match which {
            Which::All => &[
                |names| &names.uncommitted,
                |names| &names.allcrawls,
                |names| &names.outgoing,
                |names| &names.canceled,
            ],
            Which::Uncommitted => &[|names| &names.uncommitted],
            Which::Committed => &[|names| &names.allcrawls],
            Which::Unlisted => &[],
        };
        let note = |index: &mut Index<K>, ks: &mut K, crawl: &[u8]| {
            note_crawl(index, ks, crawl, &under_way, &mut found)
        };
        each_crawl(&lent, sets, note).await?;
        if which == Which::Unlisted {
            let note = |index: &mut Index<K>, ks: &mut K, crawl: Vec<u8>, part: CrawlKey| {
                if part.is_ours() {
                    return Ok(());
                }
                note_crawl(index, ks, &crawl, &under_way, &mut found)
            };
            each_stray(&lent, note).await?;
        }
        Ok(Reply::named(found))
    })
}

fn note_crawl<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    under_way: &UnderWay,
    found: &mut BTreeMap<Vec<u8>, Reply>,
) -> Result<()> {
    if found.contains_key(crawl) {
        return Ok(());
    }
    if let Some(state) = index.standing(ks, crawl)? {
        let mut figures = crawl_figures(index, ks, crawl, state)?;
        if let Some(Completion { done, total }) = under_way.get(crawl) {
            let part = *done as f64 / (*total).max(1) as f64;
            figures.push(("progress", Reply::bulk(format!("{part:.3}"))));
        }
        found.insert(crawl.to_vec(), Reply::named(figures));
    }
    Ok(())
}

/// Checks that the index knows all these crawls.
///
/// # Errors
/// `NOCRAWL` for the first unknown crawl.
pub fn check_known<K: Store>(index: &mut Index<K>, ks: &mut K, crawls: &[&[u8]]) -> Result<()> {
    for &crawl in crawls {
        if index.standing(ks, crawl)?.is_none() {
            return Err(Error::NoCrawl(crawl.to_vec()));
        }
    }
    Ok(())
}
