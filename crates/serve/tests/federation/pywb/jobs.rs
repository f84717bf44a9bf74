//! Tests of an index of harvest jobs that is served directly from its cache, here and in pywb.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use crawlspace_jobs::{Index, IndexCaches, IndexKind, Options, Work};
use redis_tests::archive::collection::{Capture, Collection, Shape};
use redis_tests::http::{Answer, get};
use redis_tests::metadata::{Form, write_metadata};
use redis_tests::pywb::App;
use redis_tests::{Rng, with};
use tempfile::TempDir;

use crate::pywb::answer::{Line, lines};
use crate::pywb::data::pywb;
use crate::pywb::record::{Checked, payload_of};
use crate::serving::Stage;

/// Captures of two jobs, and the metadata files of the jobs.
struct Jobs {
    dir: TempDir,
    captures: Vec<Capture>,
}

/// Fields of a row.
type Told = [String; 5];

impl Jobs {
    fn new(test: &str) -> Jobs {
        let dir = tempfile::tempdir().unwrap();
        let shape = with!(Shape, captures: 8_000);
        let mut collection = Collection::new(&mut Rng::new(test), shape);
        collection.store(&dir.path().join("warcs"));
        // A crawl.log covers neither revisits nor posted forms, and identifies captures by URL and date.
        let fetched = collection.captures.into_iter();
        let fetched = fetched.filter(|one| !one.is_revisit() && one.posted.is_none());
        let fetched = fetched.map(|one| ((one.url.clone(), one.timestamp.clone()), one));
        let fetched: BTreeMap<_, _> = fetched.collect();
        let captures: Vec<_> = fetched.into_values().collect();
        std::fs::create_dir(dir.path().join("metadata")).unwrap();
        for job in [1, 2] {
            let mut own: Vec<_> = captures.iter().skip(job as usize - 1).step_by(2).collect();
            own.sort_by_key(|one| &one.timestamp);
            let (crawl_log, cdx) = logs(&own);
            let path = dir
                .path()
                .join(format!("metadata/{job}-metadata-1.warc.gz"));
            let (crawl_log, cdx) = (crawl_log.as_bytes(), Some(cdx.as_bytes()));
            write_metadata(&path, job, 1, crawl_log, cdx, Form::WarcGz);
        }
        Jobs { dir, captures }
    }

    fn index(&self) -> Index {
        let options = Options {
            cache_dir: self.dir.path().join("cache"),
            metadata: vec![self.dir.path().join("metadata").display().to_string()],
            ..Options::default()
        };
        let caches = IndexCaches::open(options).unwrap();
        let jobs = "1,2".parse().unwrap();
        let index = caches.get_index(IndexKind::Full, &jobs, &Work::default());
        let index = index.unwrap();
        assert_eq!(index.found, jobs);
        index
    }

    /// Returns our configuration, and pywb's, which needs the location of parts and permission to read more
    /// than ten blocks per answer.
    fn configs(&self, entry: &Path) -> [String; 2] {
        let (warcs, entry) = (self.dir.path().join("warcs"), entry.display());
        let of = |index: &str| {
            format!(
                "collections:\n  jobs:\n    index: {{type: zipnum, path: {entry}/url.idx{index}}}\n    \
                 archive_paths: {}/\n",
                warcs.display()
            )
        };
        [
            of(""),
            of(&format!(
                ", max_blocks: 1000, shard_index_loc: {{match: '^.*$', replace: '{entry}/'}}"
            )),
        ]
    }
}

/// Returns the crawl.log and the CDX of these captures.
fn logs(captures: &[&Capture]) -> (String, String) {
    let (mut crawl_log, mut cdx) = (String::new(), String::new());
    for capture in captures {
        let Capture {
            url,
            timestamp,
            status,
            mime,
            digest,
            place,
            ..
        } = capture;
        let size = capture.payload.len();
        writeln!(
            crawl_log,
            "2026-01-01T00:00:00.000Z {status:>5} {size:>10} {url} L - {mime} #001 {timestamp}000+12 sha1:{digest} - -"
        )
        .unwrap();
        writeln!(
            cdx,
            "{url} 127.0.0.1 {timestamp} {mime} {size} {} {} 0123456789abcdef0123456789abcdef",
            place.file, place.offset
        )
        .unwrap();
    }
    (crawl_log, cdx)
}

fn expected(capture: &Capture) -> Told {
    let place = &capture.place;
    [
        capture.timestamp.clone(),
        capture.url.clone(),
        capture.digest.clone(),
        place.file.clone(),
        place.offset.to_string(),
    ]
}

fn told(answer: &Answer) -> Vec<Told> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let row = |line| match line {
        Line::Row(_, timestamp, members) => {
            let member = |name| members[name].as_str().unwrap().to_owned();
            let [url, digest, file, offset] = ["url", "digest", "filename", "offset"].map(member);
            [timestamp, url, digest, file, offset]
        }
        other => panic!("{other:?} is not a row"),
    };
    lines(answer).into_iter().map(row).collect()
}

fn encoded(url: &str) -> String {
    url::form_urlencoded::byte_serialize(url.as_bytes()).collect()
}

#[test]
fn job_index_is_served_unchanged() {
    let Some(pywb) = pywb() else { return };
    let jobs = Jobs::new("job_index_is_served_unchanged");
    let index = jobs.index();
    let [config, for_pywb] = jobs.configs(index.entry.path());
    let (ours, theirs) = (
        Stage::start(&config),
        pywb.start(App::WarcServer, &for_pywb, 1),
    );
    let addresses = [ours.address(), theirs.address()];
    let mut records = Checked::new(&pywb);
    let rarely = jobs.captures.len() / 40;
    for (n, capture) in jobs.captures.iter().enumerate() {
        if n % rarely > 0 {
            continue;
        }
        let same = jobs.captures.iter().filter(|one| one.key == capture.key);
        let mut same: Vec<_> = same.map(expected).collect();
        same.sort();
        let (url, time) = (encoded(&capture.url), &capture.timestamp);
        for address in addresses {
            let mut rows = told(&get(address, &format!("/jobs/index?url={url}")));
            rows.sort();
            assert_eq!(rows, same, "{url}");
            let path = format!("/jobs/index?url={url}&closest={time}&sort=closest&limit=1");
            assert_eq!(told(&get(address, &path))[0][0], *time);
        }
        let path = format!("/jobs/resource?url={url}&closest={time}");
        for (address, is_ours) in addresses.into_iter().zip([true, false]) {
            let answer = get(address, &path);
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
            if is_ours {
                let record = records.record(&answer);
                // A capture of another URL with the same key may have the same distance from the requested time.
                let found = jobs.captures.iter().any(|one| {
                    one.key == capture.key
                        && one.timestamp == *time
                        && payload_of(one) == record.payload
                });
                assert!(found, "{path}");
            }
        }
    }
    records.are_valid();

    // Query all rows, from all blocks.
    let mut all: Vec<_> = jobs.captures.iter().map(expected).collect();
    all.sort();
    let host = |one: &Capture| {
        let url = url::Url::parse(&one.url).unwrap();
        url[url::Position::BeforeHost..url::Position::AfterPort].to_owned()
    };
    let hosts: BTreeSet<_> = jobs.captures.iter().map(host).collect();
    for address in addresses {
        let mut rows: Vec<Told> = Vec::new();
        for host in &hosts {
            let path = format!("/jobs/index?url=http://{host}/&matchType=prefix");
            rows.extend(told(&get(address, &path)));
        }
        rows.sort();
        rows.dedup();
        let missing = all.iter().find(|one| !rows.contains(one));
        assert!(
            rows == all,
            "{} rows of {}: {missing:?}",
            rows.len(),
            all.len()
        );
    }
}
