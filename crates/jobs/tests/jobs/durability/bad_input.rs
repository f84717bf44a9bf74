//! Tests invalid files and lines in all layers.

use std::fs;
use std::path::Path;

use crawlspace_jobs::{Index, IndexCaches, IndexKind, Missing, MissingJob, Work};
use redis_tests::harvest;
use redis_tests::metadata::Form;
use redis_tests::{Rng, assert_contains, but};

use crate::durability::state::{State, assert_clean, state};
use crate::stage::{Ask, Stage, lines, set};

/// A line as Heritrix writes it.
const LINE: &str = "2013-05-22T08:29:58.007Z   200       1234 http://www.example.dk/a.png LE \
    http://www.example.dk/ image/png #012 20130522082957456+512 \
    sha1:2SB2HOZ6X7PL5SMUWCJSUXWJYHXPWVR3 - content-size:1700,3t";
/// A line as NetarchiveSuite writes it.
const CDX: &str = "http://www.example.dk/a.png 10.0.0.1 20130522082957 image/png 1234 \
    1-3-20130522082957-00000-host.warc.gz 4711 0123456789abcdef0123456789abcdef";
/// Maximum length of a line, in bytes.
const MAX_LINE: usize = 1 << 20;

fn get(caches: &IndexCaches, kind: IndexKind, jobs: &str) -> Index {
    let jobs = set(jobs);
    Ask { kind, jobs }.get(caches)
}

/// Returns a count of an index, which may be missing.
fn count(index: &Index, what: &str) -> u64 {
    let counts = &index.entry.manifest().counts;
    *counts
        .get(what)
        .unwrap_or_else(|| panic!("{what} in {counts:?}"))
}

/// Returns the expected state of the indexes of the other jobs, which does not depend on job 2.
fn of_others(stage: &Stage) -> State {
    let cache_dir = stage.path().join("others");
    let caches = stage.caches_in(&cache_dir);
    for kind in IndexKind::ALL {
        assert!(get(&caches, kind, "1,3").missing.is_empty());
    }
    state(&cache_dir)
}

/// Requests jobs 1 to 3, of which the second may be missing, in separate caches. Checks that the other two jobs have
/// the expected state, and returns the index, or the reason why the second job is missing.
fn second(stage: &Stage, others: &State) -> Result<Index, Missing> {
    let cache_dir = stage.path().join("cache");
    let _ = fs::remove_dir_all(&cache_dir);
    let options = but!(stage.options_in(&cache_dir), retry_missing: std::time::Duration::ZERO);
    let caches = IndexCaches::open(options).expect("caches");
    let index = get(&caches, IndexKind::Full, "1-3");
    let there = state(&cache_dir);
    for (entry, sum) in others
        .iter()
        .filter(|(entry, _)| there.contains_key(*entry))
    {
        assert_eq!(there.get(entry), Some(sum), "{entry}");
    }
    assert_clean(&cache_dir);
    let mut missing = index.missing.iter();
    match missing.next() {
        Some(MissingJob { job, why }) => {
            assert_eq!((job.0, missing.next()), (2, None));
            assert_eq!(index.found, set("1,3"));
            assert!(there.contains_key("fullcrawllogindex/1-3-cache"));
            Err(why.clone())
        }
        None => {
            assert_eq!(index.found, set("1-3"));
            Ok(get(&caches, IndexKind::Full, "2"))
        }
    }
}

fn only_others() -> (Stage, State) {
    let stage = Stage::with_jobs("1,3", 40);
    let others = of_others(&stage);
    (stage, others)
}

/// Asserts that the file was unreadable, and that the message names the file, and the position if it is known.
fn assert_unreadable(missing: Missing, name: &str) -> String {
    match missing {
        Missing::Unreadable { why } => {
            assert_contains(&why, name);
            why
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn truncated_file_is_reported_and_affects_only_its_job() {
    let mut rng = Rng::new("cut files");
    let (stage, others) = only_others();
    let lines = 60;
    let (crawl_log, cdx) = harvest::logs(2, 11, lines);
    for form in Form::ALL {
        let path = stage.add_logs(2, &crawl_log, Some(&cdx), form);
        let bytes = fs::read(&path).expect("a file");
        let whole = second(&stage, &others).expect("an index");
        let rows = count(&whole, "rows");
        drop(whole);
        let size = bytes.len() as u64;
        let mut cuts = vec![0, 1, size - 1, size - 2, size - 9];
        cuts.extend((0..16).map(|_| rng.below(size)));
        let mut unreadable = 0;
        for cut in cuts {
            fs::write(&path, &bytes[..cut as usize]).expect("a file");
            match second(&stage, &others) {
                Err(Missing::NoRecord { files, .. }) => {
                    assert_eq!(files.len(), 1, "{form:?} {cut}");
                }
                Err(missing) => {
                    let why = assert_unreadable(missing, "2-metadata-1");
                    assert!(why.contains("offset"), "{form:?} {cut}: {why}");
                    unreadable += 1;
                }
                // The file was cut between two records: the crawl.log is complete, and the message says that the CDX is
                // missing.
                Ok(index) => {
                    assert_eq!(count(&index, "rows"), rows, "{form:?} {cut} of {size}");
                    let notes = &index.entry.manifest().notes;
                    let told = notes.iter().any(|note| note.contains("no CDX"));
                    assert!(
                        told || cut + 9 >= size,
                        "{form:?} {cut} of {size}: {notes:?}"
                    );
                }
            }
        }
        assert!(unreadable > 3, "{form:?}");
        fs::remove_file(&path).expect("removed");
    }
}

#[test]
fn damaged_byte_of_a_compressed_file_is_always_noticed() {
    let mut rng = Rng::new("damaged files");
    let (stage, others) = only_others();
    let (crawl_log, cdx) = harvest::logs(2, 11, 60);
    for form in [Form::WarcGz, Form::ArcGz] {
        let path = stage.add_logs(2, &crawl_log, Some(&cdx), form);
        let bytes = fs::read(&path).expect("a file");
        second(&stage, &others).expect("an index");
        let whole = state(&stage.path().join("cache"));
        for _ in 0..20 {
            let mut damaged = bytes.clone();
            let at = rng.below(bytes.len() as u64) as usize;
            damaged[at] ^= 1 << rng.below(8);
            fs::write(&path, damaged).expect("a file");
            match second(&stage, &others) {
                Err(missing) => {
                    assert_unreadable(missing, "2-metadata-1");
                }
                // Some bytes have no effect, such as the time in the header of a gzip member.
                Ok(_) => assert_eq!(state(&stage.path().join("cache")), whole, "{form:?} {at}"),
            }
        }
        fs::remove_file(&path).expect("removed");
    }
}

#[test]
fn invalid_archive_is_reported() {
    let mut rng = Rng::new("no archives");
    let (stage, others) = only_others();
    let random: Vec<u8> = (0..5_000).map(|_| rng.bits() as u8).collect();
    let contents: [&[u8]; 6] = [
        b"this is a text\n",
        &[0; 3_000],
        &random,
        b"<html><body>404</body></html>",
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03",
        b"PK\x03\x04",
    ];
    for form in Form::ALL {
        let path = stage
            .archive()
            .join(format!("2-metadata-1{}", form.ending()));
        for content in contents {
            fs::write(&path, content).expect("a file");
            let missing = second(&stage, &others).expect_err("it is not an archive");
            assert_unreadable(missing, "2-metadata-1");
        }
        fs::write(&path, "").expect("a file");
        second(&stage, &others).expect_err("there is nothing in it");
        fs::remove_file(&path).expect("removed");
        fs::create_dir(&path).expect("a folder");
        let missing = second(&stage, &others).expect_err("it is a folder");
        assert!(
            matches!(missing, Missing::Unreadable { .. } | Missing::NoJob),
            "{missing:?}"
        );
        fs::remove_dir(&path).expect("removed");
    }
}

/// Returns variants of a line, including invalid ones, of which there must be at least `least`.
fn instead(line: &str, least: usize) -> Vec<Vec<u8>> {
    let mut bad: Vec<Vec<u8>> = Vec::new();
    let words: Vec<&str> = line.split_whitespace().collect();
    bad.extend((1..least).map(|fields| words[..fields].join(" ").into_bytes()));
    bad.push(vec![b'x'; MAX_LINE + 1]);
    bad.push([line.as_bytes(), b" ", &vec![b'x'; MAX_LINE][..]].concat());
    bad.push(vec![0xff; 100]);
    bad.push(vec![0; 100]);
    bad
}

#[test]
fn bad_lines_are_counted_and_reported_and_the_others_kept() {
    let (stage, others) = only_others();
    let bad = instead(LINE, 10);
    let bad_cdx = instead(CDX, 7);
    let mut crawl_log = format!("{LINE}\n").into_bytes();
    for line in &bad {
        crawl_log.extend_from_slice(line);
        crawl_log.push(b'\n');
    }
    // Add a line without a line end.
    crawl_log.extend_from_slice(LINE.replace("a.png", "b.png").as_bytes());
    let mut cdx = format!("{CDX}\n").into_bytes();
    for line in &bad_cdx {
        cdx.extend_from_slice(line);
        cdx.push(b'\n');
    }
    stage.add_logs(2, &crawl_log, Some(&cdx), Form::WarcGz);
    let index = second(&stage, &others).expect("an index");
    assert_eq!(count(&index, "rows"), 2);
    assert_eq!(count(&index, "lines"), 2);
    let expected = (bad.len() + bad_cdx.len()) as u64;
    assert_eq!(count(&index, "badLines"), expected);
    let notes = &index.entry.manifest().notes;
    let is_named = |what: &str| {
        notes
            .iter()
            .any(|note| note.contains("2-metadata-1.warc.gz") && note.contains(what))
    };
    assert!(is_named("crawl.log") && is_named("cdx"), "{notes:?}");
    // Notes on a part also appear in the whole index.
    let caches = stage.caches_in(&stage.path().join("cache"));
    let whole = get(&caches, IndexKind::Full, "1-3");
    assert_eq!(
        count(&whole, "badLines"),
        (bad.len() + bad_cdx.len()) as u64
    );
    let index = get(&caches, IndexKind::Cdx, "2");
    assert_eq!(count(&index, "lines"), 1);
    assert_eq!(
        fs::read_to_string(index.entry.path()).expect("a file"),
        format!("{CDX}\n")
    );
}

#[test]
fn lines_cut_at_any_offset_are_rows_or_counted() {
    let (stage, others) = only_others();
    let mut crawl_log = String::new();
    for end in 1..=LINE.len() {
        crawl_log.push_str(&LINE[..end]);
        crawl_log.push('\n');
    }
    let blank = (1..=LINE.len()).filter(|end| LINE[..*end].trim().is_empty());
    let mut cdx = String::new();
    for end in 1..=CDX.len() {
        cdx.push_str(&CDX[..end]);
        cdx.push('\n');
    }
    stage.add_logs(2, crawl_log.as_bytes(), Some(cdx.as_bytes()), Form::Warc);
    let index = second(&stage, &others).expect("an index");
    let cache_dir = stage.path().join("cache");
    let raw = |path: &str| {
        let bytes = fs::read(cache_dir.join(path)).expect("a manifest");
        crawlspace_jobs::Manifest::parse(&bytes).expect("a manifest")
    };
    let of_crawl_log = raw("crawllog/crawllog-2-cache.manifest.json").counts;
    let of_cdx = raw("cdxdata/cdxdata-2-cache.manifest.json").counts;
    let expected = (LINE.len() - blank.count()) as u64;
    assert_eq!(of_crawl_log["lines"] + of_crawl_log["badLines"], expected);
    assert_eq!(of_cdx["lines"] + of_cdx["badLines"], CDX.len() as u64);
    let lines = count(&index, "lines");
    assert_eq!(lines, of_crawl_log["lines"]);
    assert_eq!(
        lines,
        count(&index, "rows") + count(&index, "noCaptures") + count(&index, "text")
    );
    assert!(lines > 0 && of_crawl_log["badLines"] > 100);
}

#[test]
fn job_without_a_good_line_is_missing_instead_of_empty() {
    let (stage, others) = only_others();
    let (_, cdx) = harvest::logs(2, 11, 20);
    for (crawl_log, cdx) in [(&b"none\nof\nthese\n"[..], &cdx[..]), (&cdx[..], &cdx[..])] {
        stage.add_logs(2, crawl_log, Some(cdx), Form::Warc);
        let missing = second(&stage, &others).expect_err("there is no line");
        let why = assert_unreadable(missing, "2-metadata-1.warc");
        assert_contains(&why, "the crawl.log");
    }
    // Without a `crawl.log` record, the message has a different reason.
    let path = stage.archive().join("2-metadata-1.warc");
    let mut other =
        redis_tests::metadata::Metadata::begin(Vec::new(), "2-metadata-1.warc", Form::Warc)
            .expect("memory");
    let added = other.record(
        "metadata://example.dk/crawl/setup/order.xml?jobid=2",
        "text/xml",
        b"<order/>",
    );
    added.expect("memory");
    fs::write(&path, other.finish().expect("memory")).expect("a file");
    match second(&stage, &others) {
        Err(Missing::NoRecord { files, .. }) => assert_eq!(files, ["2-metadata-1.warc"]),
        other => panic!("{other:?}"),
    }
    fs::remove_file(&path).expect("removed");
    assert_eq!(second(&stage, &others).err(), Some(Missing::NoJob));
    assert!(!Path::new(&path).exists());
}

/// Checks that a CDX in another format counts as missing and is reported, and that an unreadable crawl.log does not
/// affect the lines of the CDX.
#[test]
fn unsupported_cdx_leaves_the_data_of_the_crawl_log() {
    let stage = Stage::new();
    let (crawl_log, cdx) = harvest::logs(2, 11, 200);
    let eleven = b" CDX N b a m s k r M S V g\n\
        dk,example)/ 20130522082957 http://example.dk/ text/html 200 A - - 9 5 7-1.warc.gz\n";
    stage.add_logs(1, &crawl_log, None, Form::Warc);
    stage.add_logs(2, &crawl_log, Some(eleven), Form::Warc);
    stage.add_logs(3, b"not\na\nlog\n", Some(&cdx), Form::Warc);
    let caches = stage.caches();
    let lines_of = |jobs: &str| lines(&get(&caches, IndexKind::Full, jobs).entry, "url");
    let of_other_format = lines_of("2").join("\n");
    assert_eq!(
        of_other_format.replace("\"job\":\"2\"", "\"job\":\"1\""),
        lines_of("1").join("\n")
    );
    let notes = get(&caches, IndexKind::Full, "2")
        .entry
        .manifest()
        .notes
        .join("\n");
    for part in [
        "job 2: its CDX is not used",
        "2-metadata-1.warc",
        "it has 11 fields",
    ] {
        assert_contains(&notes, part);
    }
    let of_cdx = get(&caches, IndexKind::Cdx, "2,3");
    assert_eq!(of_cdx.found, set("3"));
    assert!(matches!(of_cdx.missing[0].why, Missing::Unreadable { .. }));
    let of_log = get(&caches, IndexKind::Full, "2,3");
    assert_eq!(of_log.found, set("2"));
}

/// Checks that an unreadable file is tried again, and used once it is readable.
#[test]
fn repaired_job_is_found_the_next_time() {
    let (stage, others) = only_others();
    let (crawl_log, cdx) = harvest::logs(2, 11, 20);
    let path = stage.add_logs(2, &crawl_log, Some(&cdx), Form::WarcGz);
    let bytes = fs::read(&path).expect("a file");
    let cache_dir = stage.path().join("repaired");
    let options = but!(stage.options_in(&cache_dir), retry_missing: std::time::Duration::ZERO);
    let caches = IndexCaches::open(options).expect("caches");
    fs::write(&path, &bytes[..bytes.len() / 2]).expect("a file");
    assert_eq!(get(&caches, IndexKind::Full, "1-3").found, set("1,3"));
    fs::write(&path, &bytes).expect("a file");
    for kind in IndexKind::ALL {
        let index = caches.get_index(kind, &set("1-3"), &Work::default());
        let index = index.expect("an index");
        assert_eq!((index.found, index.missing), (set("1-3"), Vec::new()));
    }
    let there = state(&cache_dir);
    let expected = others.get("fullcrawllogindex/1-3-cache");
    assert_eq!(there.get("fullcrawllogindex/1-3-cache"), expected);
}
