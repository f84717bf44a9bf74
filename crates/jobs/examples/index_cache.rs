//! Gets an index of harvest jobs once and then repeatedly, and prints the time of the first request and of cache hits.
//!
//! ```text
//! cargo run --release --example index_cache -- ARCHIVE CACHE dedup 1-1000 100000
//! {"entry":"CACHE/dedupcrawllogindex/1-2-3-4-….-cache","jobs":"1-1000","missing":0,"seconds":1.93,"hit_us":[4.1,4.3]}
//! ```
//!
//! The last argument is the number of timed hits: `hit_us` is the median and the 99th percentile of the hits,
//! in microseconds.

use std::time::{Duration, Instant};

use crawlspace_jobs::{IndexCaches, IndexKind, JobSet, Options, Work};
use serde_json::json;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [archive, cache, kind, jobs, hits] = given.as_slice() else {
        return Err("arguments: ARCHIVE CACHE dedup|full|cdx JOBS HITS".into());
    };
    let (kind, jobs): (IndexKind, JobSet) = (kind.parse()?, jobs.parse()?);
    let work = Work::default();
    let begun = Instant::now();
    let caches = IndexCaches::open(Options {
        cache_dir: cache.into(),
        metadata: vec![archive.clone()],
        ..Options::default()
    })?;
    let index = caches.get_index(kind, &jobs, &work)?;
    let seconds = begun.elapsed().as_secs_f64();
    let (entry, found) = (index.entry.path().to_owned(), index.found.clone());
    let missing = index.missing.len();
    drop(index);
    // The cache reads all of an entry that was changed recently, because the file times could hide another change.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(200) {
        caches.get_index(kind, &found, &work)?;
    }
    let mut times = Vec::new();
    for _ in 0..hits.parse::<u64>()? {
        let begun = Instant::now();
        let index = caches.get_index(kind, &found, &work)?;
        times.push(begun.elapsed().as_secs_f64() * 1e6);
        drop(index);
    }
    times.sort_by(f64::total_cmp);
    let of = |part: f64| times.get((times.len() as f64 * part) as usize).copied();
    let told = json!({
        "entry": entry.display().to_string(),
        "jobs": found.to_string(),
        "missing": missing,
        "seconds": seconds,
        "hit_us": [of(0.5), of(0.99)],
    });
    println!("{told}");
    Ok(())
}
