//! Tests loading job indexes into a dedupe index.

use std::cell::Cell;

use crawlspace_client::dedupe::{CrawlState, Index, Located, Profile};
use crawlspace_jobs::load::{CrawlName, Error, Loaded, Outcome, load};
use crawlspace_jobs::{JobId, Work};
use redis_tests::{
    Rng, Server, Snapshot, assert_consistent, assert_contains, assert_starts, sha256_of,
};

const PREFIX: &str = "{coll-42}:";

/// A capture as in the index of a job.
#[derive(Clone)]
struct Capture {
    url: String,
    date: String,
    digest: String,
    place: Option<(String, u64)>,
}

impl Capture {
    fn line(&self, job: u64) -> Vec<u8> {
        let Capture {
            url, date, digest, ..
        } = self;
        let place = match &self.place {
            Some((file, length)) => {
                format!(r#","length":"{length}","offset":"333","filename":"{file}""#)
            }
            None => String::new(),
        };
        format!(
            r#"org,example)/ {date} {{"url":"{url}","mime":"image/png","status":"200","digest":"{digest}"{place},"job":"{job}"}}"#
        )
        .into_bytes()
    }
}

/// Returns `many` captures of a job in a few files; payloads occur repeatedly.
fn captures(rng: &mut Rng, job: u64, many: u64) -> Vec<Capture> {
    (0..many)
        .map(|n| Capture {
            url: format!("http://example.org/{job}/{n}"),
            date: format!(
                "20260102{:02}{:02}{:02}",
                n / 3600 % 24,
                n / 60 % 60,
                n % 60
            ),
            digest: sha256_of(job * 1_000_000 + rng.below(many.div_ceil(2))).replace("sha256:", ""),
            place: Some((format!("{job}-{}.warc.gz", rng.below(4)), 100 + n)),
        })
        .collect()
}

fn lines(job: u64, captures: &[Capture]) -> Vec<Vec<u8>> {
    captures.iter().map(|capture| capture.line(job)).collect()
}

fn load_lines(index: &Index, job: u64, lines: &[Vec<u8>]) -> Result<Loaded, Error> {
    let all = |each: &mut dyn FnMut(&[u8]) -> Result<(), Error>| {
        lines.iter().try_for_each(|line| each(line))
    };
    load(
        index,
        &CrawlName::default(),
        JobId(job),
        &all,
        &Work::default(),
    )
}

/// Loads with an error after this number of lines, counted over both readings.
fn load_some(index: &Index, job: u64, lines: &[Vec<u8>], until: usize) -> Error {
    let read = Cell::new(0);
    let some = |each: &mut dyn FnMut(&[u8]) -> Result<(), Error>| {
        lines.iter().try_for_each(|line| {
            read.set(read.get() + 1);
            if read.get() > until {
                Err(crawlspace_jobs::Error::Cancelled.into())
            } else {
                each(line)
            }
        })
    };
    load(
        index,
        &CrawlName::default(),
        JobId(job),
        &some,
        &Work::default(),
    )
    .expect_err("it breaks off")
}

fn open(server: &Server, prefix: &str) -> Index {
    Index::open(&server.url(), prefix).expect("it answers")
}

fn outcome(server: &Server, prefix: &str) -> Snapshot {
    let mut c = server.wire();
    assert_consistent(&mut c, prefix);
    let snapshot = Snapshot::of_keys(&mut c, |key| key.starts_with(prefix.as_bytes()));
    // Without the sequences of calls, the snapshot contains only the results.
    snapshot.under(prefix).without(|key| key.ends_with(b":seq"))
}

#[test]
fn job_becomes_a_crawl_with_its_files() {
    let server = Server::start();
    let index = open(&server, PREFIX);
    let mut rng = Rng::new("job_becomes_a_crawl_with_its_files");
    let captures = captures(&mut rng, 7, 1_000);
    let loaded = load_lines(&index, 7, &lines(7, &captures)).unwrap();
    assert_eq!((&loaded.crawl[..], loaded.job), ("job-7", 7));
    assert_eq!(loaded.outcome, Outcome::Committed);
    assert_eq!((loaded.records, loaded.files), (1_000, 4));
    let stats = index.crawl_stats(b"job-7").unwrap();
    assert_eq!(stats.state, CrawlState::Committed);
    assert_eq!((stats.total_urls, stats.waczs), (1_000, 4));
    assert_eq!(stats.hashes, loaded.hashes.new);
    let files = index.wacz_list(b"job-7").unwrap();
    let files: Vec<_> = files.iter().map(|file| &file.filename[..]).collect();
    let expected = ["7-0.warc.gz", "7-1.warc.gz", "7-2.warc.gz", "7-3.warc.gz"];
    assert_eq!(files, expected.map(str::as_bytes));

    for capture in &captures {
        let hash = format!("sha256:{}", capture.digest);
        let found = index.lookup_with_wacz(None, &[hash.as_bytes()]).unwrap();
        let [Some(Located { original, filename })] = &found[..] else {
            panic!("{hash} is not known");
        };
        // This capture is the earliest capture of its payload.
        let same = captures.iter().filter(|one| one.digest == capture.digest);
        let first = same.min_by_key(|one| (&one.date, &one.url)).unwrap();
        let (file, length) = first.place.as_ref().unwrap();
        assert_eq!(original.crawl, b"job-7");
        assert_eq!(original.date, first.date.as_bytes());
        assert_eq!(original.url, first.url.as_bytes());
        assert_eq!(original.size, *length);
        assert_eq!(filename.as_deref(), Some(file.as_bytes()));
        assert_eq!(files[original.wacz_index as usize], file.as_bytes());
    }
    assert_consistent(&mut server.wire(), PREFIX);
}

#[test]
fn loading_twice_equals_loading_once() {
    let server = Server::start();
    let index = open(&server, PREFIX);
    let mut rng = Rng::new("loading_twice_equals_loading_once");
    let lines = lines(7, &captures(&mut rng, 7, 3_000));
    let first = load_lines(&index, 7, &lines).unwrap();
    let once = server.snapshot();
    let second = load_lines(&index, 7, &lines).unwrap();
    assert_eq!(first.outcome, Outcome::Committed);
    assert_eq!(second.outcome, Outcome::Known);
    assert_eq!(second.records, first.records);
    server.snapshot().assert_same(&once, "loaded a second time");
}

#[test]
fn loaded_job_is_recognized_in_every_profile_and_storage() {
    let server = Server::start();
    let mut rng = Rng::new("loaded_job_is_recognized_in_every_profile_and_storage");
    let lines = lines(7, &captures(&mut rng, 7, 1_000));
    for (prefix, profile) in [
        ("{document}:", Profile::Document),
        ("{browsertrix}:", Profile::Browsertrix),
    ] {
        let index = open(&server, prefix);
        index.set_profile(profile).unwrap();
        load_some(&index, 7, &lines, 1_600);
        let outcome = |index| load_lines(index, 7, &lines).unwrap().outcome;
        assert_eq!(outcome(&index), Outcome::Committed);
        index.pack().unwrap();
        assert_eq!(outcome(&index), Outcome::Known);
        index.unpack().unwrap();
        assert_eq!(outcome(&index), Outcome::Known);
        assert_eq!(index.crawl_stats(b"job-7").unwrap().total_urls, 1_000);
        assert_consistent(&mut server.wire(), prefix);
        // A removed crawl is loaded again.
        index.remove(&[b"job-7"]).unwrap();
        assert_eq!(outcome(&index), Outcome::Committed);
    }
}

#[test]
fn load_interrupted_at_any_step_resumes() {
    let server = Server::start();
    let mut rng = Rng::new("load_interrupted_at_any_step_resumes");
    let lines = lines(7, &captures(&mut rng, 7, 6_000));
    load_lines(&open(&server, "{whole}:"), 7, &lines).unwrap();
    let whole = outcome(&server, "{whole}:");
    for round in 0..6 {
        let prefix = format!("{{cut-{round}}}:");
        let index = open(&server, &prefix);
        for _ in 0..3 {
            // The load reads the lines twice. A number in the first half interrupts the first pass, a number
            // in the second half the second pass.
            let until = rng.below(2 * lines.len() as u64) as usize;
            let error = load_some(&index, 7, &lines, until);
            assert!(matches!(error, Error::Cache(_)), "{error}");
            if let Ok(stats) = index.crawl_stats(b"job-7") {
                assert_eq!(stats.state, CrawlState::Uncommitted);
            }
        }
        let loaded = load_lines(&index, 7, &lines).unwrap();
        assert_eq!(loaded.outcome, Outcome::Committed);
        outcome(&server, &prefix).assert_same(&whole, &prefix);
    }
}

#[test]
fn partly_committed_load_is_completed_and_counts_once() {
    let server = Server::start();
    let mut rng = Rng::new("half_a_load_that_somebody_committed");
    let lines = lines(7, &captures(&mut rng, 7, 12_000));
    let whole = load_lines(&open(&server, "{whole}:"), 7, &lines).unwrap();
    let index = open(&server, PREFIX);
    load_some(&index, 7, &lines, 12_000 + 9_000);
    let committed = index.commit(b"job-7").unwrap();
    assert!(committed.new > 0, "nothing was loaded before it broke off");
    assert!(committed.new < whole.hashes.new);
    let rest = load_lines(&index, 7, &lines).unwrap();
    assert_eq!(rest.outcome, Outcome::Committed);
    assert_eq!(committed.new + rest.hashes.new, whole.hashes.new);
    let stats = index.crawl_stats(b"job-7").unwrap();
    assert_eq!(stats.total_urls, 12_000);
    assert_consistent(&mut server.wire(), PREFIX);
    let expected = Outcome::Known;
    assert_eq!(load_lines(&index, 7, &lines).unwrap().outcome, expected);
}

#[test]
fn concurrent_loaders_load_once() {
    let server = Server::start();
    let mut rng = Rng::new("concurrent_loaders_load_once");
    let lines = lines(7, &captures(&mut rng, 7, 8_000));
    load_lines(&open(&server, "{whole}:"), 7, &lines).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| load_lines(&open(&server, PREFIX), 7, &lines).unwrap());
        }
    });
    let whole = outcome(&server, "{whole}:");
    outcome(&server, PREFIX).assert_same(&whole, "four loads at once");
}

#[test]
fn crawl_with_other_records_is_refused_and_unchanged() {
    let server = Server::start();
    let index = open(&server, PREFIX);
    let mut rng = Rng::new("a_crawl_with_other_records_is_refused");
    let mut captures = captures(&mut rng, 7, 300);
    load_lines(&index, 7, &lines(7, &captures)).unwrap();
    captures.pop();
    let before = server.snapshot();
    let error = load_lines(&index, 7, &lines(7, &captures)).unwrap_err();
    assert_contains(&error, "crawlspace dedupe remove job-7");
    server.snapshot().assert_same(&before, "refused");

    // A crawl that a crawler is writing is refused as well.
    let hash = sha256_of(3);
    server.wire().ok_line(format!(
        "DEDUPE.ADD {PREFIX} job-8 {hash} 0 20260101000000 http://a/ 9"
    ));
    let error = load_lines(&index, 8, &lines(8, &captures)).unwrap_err();
    assert_contains(&error, "crawlspace dedupe cancel job-8");
}

#[test]
fn records_added_after_a_load_are_kept() {
    let server = Server::start();
    let index = open(&server, PREFIX);
    let mut rng = Rng::new("what_comes_to_a_crawl_after_it_was_loaded");
    let lines = lines(7, &captures(&mut rng, 7, 300));
    load_lines(&index, 7, &lines).unwrap();
    let hash = sha256_of(3);
    server.wire().ok_line(format!(
        "DEDUPE.ADD {PREFIX} job-7 {hash} 0 20260101000000 http://a/ 9"
    ));
    let before = server.snapshot();
    let expected = Outcome::Known;
    assert_eq!(load_lines(&index, 7, &lines).unwrap().outcome, expected);
    server.snapshot().assert_same(&before, "a repeated load");
}

#[test]
fn first_loaded_job_owns_shared_payloads() {
    let server = Server::start();
    let index = open(&server, PREFIX);
    let mut rng = Rng::new("the_job_that_is_loaded_first_owns");
    let one = captures(&mut rng, 1, 50);
    let mut two = one.clone();
    for capture in &mut two {
        capture.url.push_str("?again");
        capture.place = Some(("2-0.warc.gz".to_owned(), 1));
    }
    load_lines(&index, 1, &lines(1, &one)).unwrap();
    let loaded = load_lines(&index, 2, &lines(2, &two)).unwrap();
    assert_eq!(loaded.hashes.new, 0);
    for capture in &one {
        let hash = format!("sha256:{}", capture.digest);
        let found = index.lookup(None, &[hash.as_bytes()]).unwrap();
        assert_eq!(found[0].as_ref().unwrap().crawl, b"job-1");
    }
}

#[test]
fn unloadable_lines_are_counted_by_reason() {
    let server = Server::start();
    let index = open(&server, PREFIX);
    let mut rng = Rng::new("lines_that_cannot_be_loaded");
    let mut captures = captures(&mut rng, 7, 6);
    captures[0].place = None;
    captures[1].url = "dns:example.org".to_owned();
    captures[2].digest = "short".to_owned();
    captures[3].digest = "B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A".to_owned();
    captures[4].digest = "098f6bcd4621d373cade4e832627b4f6".to_owned();
    let mut lines = lines(7, &captures);
    lines.push(b"nothing of the kind".to_vec());
    let loaded = load_lines(&index, 7, &lines).unwrap();
    let skipped = &loaded.skipped;
    assert_eq!(
        (loaded.records, skipped.nowhere, skipped.other, skipped.bad),
        (3, 1, 1, 2)
    );
    assert_eq!(skipped.examples.len(), 2);
    assert_starts(&skipped.examples[0], "line 3: ");
    for hash in [
        "sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A",
        "md5:098f6bcd4621d373cade4e832627b4f6",
    ] {
        assert!(
            index.lookup(None, &[hash.as_bytes()]).unwrap()[0].is_some(),
            "{hash}"
        );
    }

    // A job without remaining lines creates no crawl.
    let loaded = load_lines(&index, 9, &lines[..2]).unwrap();
    assert_eq!((loaded.outcome, loaded.records), (Outcome::Nothing, 0));
    assert!(index.crawl_stats(b"job-9").is_err());
}

#[test]
fn full_index_reports_the_reason() {
    let server = Server::start();
    let index = open(&server, PREFIX);
    let name: CrawlName = "{job}:counts".parse().unwrap();
    let line = lines(
        7,
        &captures(&mut Rng::new("an_index_that_takes_nothing"), 7, 1),
    );
    let all = |each: &mut dyn FnMut(&[u8]) -> Result<(), Error>| each(&line[0]);
    let error = load(&index, &name, JobId(7), &all, &Work::default()).unwrap_err();
    assert!(matches!(error, Error::Index(_)), "{error}");
    assert_contains(&error, "BADCRAWL");
}
