//! How long look-ups in local indexes take: `cargo run --release --example index_speed`.
//!
//! One thread, files in the page cache, rows made but not written anywhere.

use std::error::Error;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use crawlspace_archive::sorted::Order;
use crawlspace_archive::source::Limits;
use crawlspace_archive::timestamp::Timestamp;
use crawlspace_cdx::surt::{MatchType, range};
use crawlspace_serve::query::Query;
use crawlspace_serve::source::{Lookup, Source};
use crawlspace_serve::sources::{FileSource, Identity};
use futures_util::StreamExt;

/// Lines of the large file, and captures of the URL that has many.
const LINES: u64 = 1_000_000;
const CAPTURES: u64 = 300_000;
/// URLs of a folder that is asked for by its prefix.
const PAGES: u64 = 171;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let large = folder.path().join("large.cdxj");
    write(
        &large,
        (0..LINES).map(|n| (n / PAGES, n % PAGES, 20_200_101_000_000 + n % 28)),
    )?;
    let many = folder.path().join("many.cdxj");
    let seconds =
        (0..CAPTURES).filter_map(|n| Timestamp::from_seconds(1_300_000_000 + 1000 * n as i64));
    write(
        &many,
        seconds.map(|at| (0, 0, at.to_string().parse().unwrap_or(0))),
    )?;
    let parts = folder.path().join("parts");
    fs::create_dir(&parts)?;
    for part in 0..100 {
        let lines = (0..LINES / 100).map(|n| (n, part, 20_200_101_000_000 + n % 28));
        write(&parts.join(format!("{part:03}.cdxj")), lines)?;
    }

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let source = open(&large);
    let random = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let one = |i: u64| {
        let n = random(i) % LINES;
        lookup(
            &url(n / PAGES, n % PAGES),
            MatchType::Exact,
            Order::Ascending,
        )
    };
    let several = |i: u64| {
        let host = format!("http://example-{:07}.org/", random(i) % (LINES / PAGES));
        lookup(&host, MatchType::Prefix, Order::Ascending)
    };
    let spread = |i: u64| {
        let host = format!("http://example-{:07}.org/", random(i) % (LINES / 100));
        lookup(&host, MatchType::Prefix, Order::Ascending)
    };
    let all = |order| move |_| lookup(&url(0, 0), MatchType::Exact, order);
    let middle = Order::Closest(Timestamp::earliest(b"2015").ok_or("no moment")?);
    runtime.block_on(async {
        measure(
            "one row of a large file, nothing known yet",
            &source,
            one,
            2_000,
        )
        .await?;
        measure("one row of a large file", &source, one, 500_000).await?;
        measure("one row of a large file, warm", &source, one, 500_000).await?;
        measure("171 rows of it", &source, several, 20_000).await?;
        measure("100 rows of 100 files", &open(&parts), spread, 3_000).await?;
        measure("100 rows of 100 files, warm", &open(&parts), spread, 3_000).await?;
        let many = open(&many);
        measure("300 000 rows, ascending", &many, all(Order::Ascending), 10).await?;
        measure(
            "300 000 rows, descending",
            &many,
            all(Order::Descending),
            10,
        )
        .await?;
        measure("300 000 rows, closest", &many, all(middle), 10).await?;
        Ok(())
    })
}

fn url(host: u64, page: u64) -> String {
    format!("http://example-{host:07}.org/page-{page:03}.html")
}

fn write(path: &Path, lines: impl Iterator<Item = (u64, u64, u64)>) -> Result<(), Box<dyn Error>> {
    let mut file = BufWriter::new(fs::File::create(path)?);
    for (host, page, timestamp) in lines {
        let url = url(host, page);
        writeln!(
            file,
            "org,example-{host:07})/page-{page:03}.html {timestamp} {{\"url\": \"{url}\", \"mime\": \"text/html\", \
             \"status\": \"200\", \"digest\": \"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A\", \"length\": \"6600\", \
             \"offset\": \"{}\", \"filename\": \"crawl-20200101000000-00042.warc.gz\"}}",
            page * 6600
        )?;
    }
    file.flush()?;
    Ok(())
}

fn open(path: &Path) -> FileSource {
    let identity = Identity {
        name: "local".into(),
        kind: "file",
        members: r#""source": "local", "source_type": "file""#.into(),
        limits: Limits::default(),
        live: false,
    };
    FileSource::new(path.to_owned(), identity)
}

fn lookup(url: &str, match_type: MatchType, order: Order) -> Arc<Lookup> {
    let mut query = Query::of_url(url).expect("a URL");
    query.match_type = match_type;
    query.keys = range(url, match_type).expect("a URL");
    Arc::new(Lookup {
        query: Arc::new(query),
        order,
        at_most: None,
        collection: "local".into(),
    })
}

async fn measure(
    name: &str,
    source: &FileSource,
    lookup: impl Fn(u64) -> Arc<Lookup>,
    times: u64,
) -> Result<(), Box<dyn Error>> {
    // The queries are not what is measured.
    let lookups: Vec<_> = (0..times.min(50_000)).map(lookup).collect();
    let mut rows = 0;
    let mut first = 0.0;
    let (begin, busy) = (Instant::now(), busy());
    for lookup in lookups.iter().cycle().take(times as usize) {
        let asked = Instant::now();
        let mut answer = source.rows(Arc::clone(lookup)).await?;
        let mut before = 0;
        while let Some(batch) = answer.batches.next().await {
            let batch = batch?.len();
            if before == 0 {
                first += asked.elapsed().as_secs_f64();
            }
            before += batch;
        }
        rows += before;
    }
    let busy = (self::busy() - busy) * 1e6 / times as f64;
    let each = begin.elapsed().as_secs_f64() * 1e6 / times as f64;
    let first = first * 1e6 / times as f64;
    println!(
        "{name:45} {each:10.1} µs, of them {busy:9.1} busy, {:8.1} rows, the first after {first:8.1} µs",
        rows as f64 / times as f64
    );
    Ok(())
}

/// For how many seconds the process has kept processors busy, to a hundredth.
fn busy() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = text.rsplit(')').next().unwrap_or_default().split(' ');
    let ticks = fields
        .skip(12)
        .take(2)
        .filter_map(|ticks| ticks.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}
