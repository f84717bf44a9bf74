//! Tests against a naive reader that ignores order.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crawlspace_cdx::surt::MatchType;
use futures_util::StreamExt;
use redis_tests::Rng;
use tokio::runtime::Runtime;

use super::super::Identity;
use super::FileSource;
use crate::query::Query;
use crate::source::{Lookup, Source};
use crawlspace_index::row::Row;
use crawlspace_index::sorted::Order;
use crawlspace_index::sorted::line::{Shape, Writer, trimmed};
use crawlspace_index::source::{Limits, SourceError};
use crawlspace_index::timestamp::{Timestamp, compare};

const MEMBERS: &str = r#""source": "a", "source_type": "file""#;

pub(crate) fn identity() -> Identity {
    Identity {
        name: "a".into(),
        kind: "file",
        members: MEMBERS.into(),
        limits: Limits::default(),
        live: false,
    }
}

pub(crate) fn query(url: &str, match_type: MatchType) -> Query {
    let mut query = Query::of_url("http://x/").unwrap();
    query.aim(url.to_owned(), match_type).unwrap();
    query
}

pub(crate) fn lookup(query: Query, order: Order) -> Arc<Lookup> {
    Arc::new(Lookup {
        query: Arc::new(query),
        order,
        at_most: None,
        collection: "coll".into(),
    })
}

/// Returns the runtime shared by all tests, since connections live as long as their runtime.
pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().unwrap())
}

/// Returns all rows, and whether the source reports that they are in order.
pub(crate) fn ask(source: &dyn Source, lookup: &Arc<Lookup>) -> (Vec<Row>, bool) {
    runtime().block_on(async {
        let rows = source.rows(Arc::clone(lookup)).await.unwrap();
        let batches: Vec<_> = rows.batches.collect().await;
        let all = batches.into_iter().flat_map(|batch| batch.unwrap());
        (all.collect(), rows.ordered)
    })
}

/// Returns the error of a failing lookup.
pub(crate) fn failure(source: &dyn Source, lookup: &Arc<Lookup>) -> Option<SourceError> {
    runtime().block_on(async {
        let mut rows = match source.rows(Arc::clone(lookup)).await {
            Ok(rows) => rows,
            Err(error) => return Some(error),
        };
        while let Some(batch) = rows.batches.next().await {
            if let Err(error) = batch {
                return Some(error);
            }
        }
        None
    })
}

/// Returns the rows that a lookup should find in files with these contents.
pub(crate) fn naive(texts: &[Vec<u8>], lookup: &Lookup) -> Vec<Row> {
    let mut rows = Vec::new();
    let query = &lookup.query;
    for (number, text) in texts.iter().enumerate() {
        for line in text.split(|&byte| byte == b'\n') {
            if line.len() > 1 << 20 {
                continue;
            }
            let line = trimmed(line);
            let Some(shape) = Shape::of(line) else {
                continue;
            };
            let mut writer = Writer::new(MEMBERS.into());
            if !writer.push(line, shape, 0) {
                continue;
            }
            let row = writer.take().remove(0);
            let within = line >= &query.keys.from[..]
                && (query.keys.to.is_empty() || line < &query.keys.to[..]);
            let digits = &row.timestamp()[..row.timestamp().len().min(14)];
            let moment = |moment: Timestamp| moment.to_string().into_bytes();
            let after = query
                .from
                .is_none_or(|from| compare(digits, &moment(from)).is_ge());
            let before = query
                .to
                .is_none_or(|to| compare(digits, &moment(to)).is_le());
            let both = shape.both(line).to_vec();
            // A minute with a `Z` sorts after its seconds.
            let own = match both.last() {
                Some(b'Z') => Timestamp::latest(row.timestamp()),
                _ => Timestamp::earliest(row.timestamp()),
            };
            if within && after && before {
                rows.push((both, number, row, own.unwrap()));
            }
        }
    }
    rows.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    match lookup.order {
        Order::Ascending => {}
        Order::Descending => rows.reverse(),
        Order::Closest(moment) => {
            rows.sort_by_key(|(.., own)| own.seconds().abs_diff(moment.seconds()));
        }
    }
    rows.into_iter().map(|(_, _, row, _)| row).collect()
}

fn moment(rng: &mut Rng) -> Timestamp {
    // Use few values, so that some are equal.
    Timestamp::from_seconds(1_400_000_000 + rng.below(40) as i64 * 40_000_000 / 7).unwrap()
}

/// Returns sorted lines, with everything that may occur between them.
pub(crate) fn text(rng: &mut Rng) -> Vec<u8> {
    let hosts = ["com,a", "com,a,www", "com,ab", "com,b", "org,example"];
    let count = *rng.pick(&[0, 1, 3, 30, 300, 300, 2000]);
    let mut lines: Vec<Vec<u8>> = Vec::new();
    let one = *rng.pick(&[10, 90]);
    let long = *rng.pick(&[0, 0, 1]);
    for _ in 0..count {
        let host = if rng.chance(one) {
            "com,a"
        } else {
            *rng.pick(&hosts)
        };
        let path = if rng.chance(one) { 0 } else { rng.below(20) };
        let path = ["", "x", "x/y", "~z", "a b"][(path % 5) as usize].replace(' ', "%20");
        let digits = moment(rng).to_string();
        let digits = match rng.below(10) {
            0 => format!("{digits}{:03}", rng.below(1000)),
            1 => digits[..4 + rng.below(11) as usize].to_owned(),
            2 => format!("{}Z", &digits[..12 + 2 * rng.below(2) as usize]),
            _ => digits,
        };
        let mut more = "é".repeat(rng.below(100) as usize);
        if long > 0 && rng.below(1000) == 0 {
            more = "x".repeat(*rng.pick(&[10_000, 100_000, 1_048_450, 1_048_577, 1_500_000]));
        }
        lines.push(
            match rng.below(11) {
                10 => format!("{host})/{path} {digits} {{"),
                0 => {
                    format!("{host})/{path} {digits} http://a/ text/html 200 D - - 12 34 a.warc.gz")
                }
                1 => format!(
                    "{host})/{path} {digits} {{\"source\": \"b\", \"n\": {}}}",
                    rng.below(9)
                ),
                _ => format!(
                    "{host})/{path} {digits} {{\"url\": \"http://a/{more}\", \"n\": {}}}",
                    rng.bits()
                ),
            }
            .into_bytes(),
        );
    }
    lines.sort();
    let mut text = Vec::new();
    let broken = *rng.pick(&[0, 10]);
    if rng.chance(30) {
        text.extend_from_slice(b" CDX N b a m s k r M S V g\n");
    }
    for line in lines {
        if rng.chance(broken) {
            let junk: &[&[u8]] = &[
                b"",
                b"\0\0 \0",
                b"zzz",
                b"com,a)/ x {}",
                b"\xff\xfe",
                b"   ",
            ];
            let junk: &[u8] = rng.pick::<&[u8]>(junk);
            text.extend_from_slice(junk);
            text.push(b'\n');
        }
        text.extend_from_slice(&line);
        text.extend_from_slice(if rng.chance(10) { b"\r\n" } else { b"\n" });
    }
    if rng.chance(50) {
        text.pop();
    }
    text
}

pub(crate) fn random_lookup(rng: &mut Rng) -> Arc<Lookup> {
    let url = *rng.pick(&[
        "http://a.com/",
        "http://a.com/x",
        "http://b.com/~z",
        "http://none.com/",
        "http://example.org/",
    ]);
    let kinds = [
        MatchType::Exact,
        MatchType::Exact,
        MatchType::Prefix,
        MatchType::Host,
        MatchType::Domain,
    ];
    let mut query = query(url, *rng.pick(&kinds));
    query.from = rng.chance(30).then(|| moment(rng));
    query.to = rng.chance(30).then(|| moment(rng));
    let order = match rng.below(3) {
        0 => Order::Ascending,
        1 => Order::Descending,
        _ => Order::Closest(moment(rng)),
    };
    lookup(query, order)
}

fn write(path: &Path, text: &[u8]) {
    // Replaces the file atomically, as tools do with an index in use.
    let other = path.with_extension("new");
    fs::write(&other, text).unwrap();
    fs::rename(other, path).unwrap();
}

/// Asserts that a source returns the rows of a naive lookup in the same order; rows of a URL range in order of distance
/// from a timestamp may be in ascending order.
pub(crate) fn assert_same(source: &dyn Source, texts: &[Vec<u8>], lookup: &Arc<Lookup>) {
    let (rows, ordered) = ask(source, lookup);
    let exact = lookup.query.match_type == MatchType::Exact;
    assert_eq!(ordered, exact || !matches!(lookup.order, Order::Closest(_)));
    let expected = if ordered {
        naive(texts, lookup)
    } else {
        let mut ascending = (**lookup).clone();
        ascending.order = Order::Ascending;
        naive(texts, &ascending)
    };
    let differ = (0..rows.len().max(expected.len())).find(|&at| rows.get(at) != expected.get(at));
    if let Some(at) = differ {
        let (count, wanted) = (rows.len(), expected.len());
        let (row, other) = (rows.get(at), expected.get(at));
        panic!(
            "{lookup:?}: of {count} rows, which should be {wanted}, row {at}: {row:?}, not {other:?}"
        );
    }
    for row in &rows {
        assert_eq!(Row::new(row.line().clone()).as_ref(), Some(row));
    }
}

#[test]
fn file_sources_equal_a_naive_reader() {
    let mut rng = Rng::new("file_sources_equal_a_naive_reader");
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let count = *rng.pick(&[1, 1, 2, 5]);
        let mut texts: Vec<Vec<u8>> = (0..count).map(|_| text(&mut rng)).collect();
        let path = |number: usize| -> PathBuf {
            let name = ["a.cdxj", "b.cdx", "c/d.cdxj", "c/e/f.cdxj", "g.cdxj"][number];
            folder.path().join(name)
        };
        fs::create_dir_all(folder.path().join("c/e")).unwrap();
        for (number, text) in texts.iter().enumerate() {
            write(&path(number), text);
        }
        let place = if count == 1 {
            path(0)
        } else {
            folder.path().to_owned()
        };
        let source = FileSource::new(place, identity());
        for _ in 0..40 {
            if rng.chance(10) {
                let number = rng.below(count as u64) as usize;
                if rng.chance(50) {
                    texts[number] = text(&mut rng);
                    write(&path(number), &texts[number]);
                } else {
                    let more: &[u8] = b"\nzz)/ 2016 {}\n";
                    texts[number].extend_from_slice(more);
                    let mut file = fs::File::options().append(true).open(path(number)).unwrap();
                    file.write_all(more).unwrap();
                }
            }
            assert_same(&source, &texts, &random_lookup(&mut rng));
        }
    }
}
