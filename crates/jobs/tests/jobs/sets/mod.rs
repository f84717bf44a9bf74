//! Tests complete and incomplete sets of jobs.

mod later;
mod migration;

use redis_tests::but;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crawlspace_jobs::{IndexCaches, IndexKind, JobSet, Missing};
use redis_tests::metadata::Form;

use crate::stage::{Stage, entries, get, lines, members};

/// Counts the captures in these lines, regardless of their order.
fn captures(lines: &[String]) -> BTreeMap<(String, String, String), usize> {
    let mut captures = BTreeMap::new();
    for line in lines {
        let members = members(line);
        let of = |name: &str| members.get(name).cloned().unwrap_or_default();
        *captures
            .entry((of("job"), of("url"), of("digest")))
            .or_default() += 1;
    }
    captures
}

#[test]
fn index_has_the_captures_of_all_jobs_in_both_orders() {
    let stage = Stage::with_jobs("1-6", 500);
    let caches = stage.caches();
    for kind in [IndexKind::Dedup, IndexKind::Full] {
        let index = get(&caches, kind, "1-6");
        assert_eq!(index.found.to_string(), "1-6");
        assert_eq!(index.missing, []);
        let (by_url, by_digest) = (lines(&index.entry, "url"), lines(&index.entry, "digest"));
        assert!(by_url.is_sorted() && by_digest.is_sorted());
        let captured = captures(&by_url);
        assert_eq!(captured, captures(&by_digest));
        let mut expected = BTreeMap::new();
        for job in 1..=6 {
            let (crawl_log, _) = stage.logs(job, 500);
            for line in String::from_utf8(crawl_log).expect("text").lines() {
                let fields: Vec<_> = line.split_whitespace().collect();
                let is_text = fields[6].to_lowercase().starts_with("text/");
                let is_capture =
                    fields[9] != "-" && fields[8] != "-" && !fields[1].starts_with('-');
                if !is_capture || is_text && kind == IndexKind::Dedup {
                    continue;
                }
                let digest = fields[9].rsplit(':').next().unwrap_or_default();
                let key = (job.to_string(), fields[3].to_owned(), digest.to_owned());
                *expected.entry(key).or_default() += 1;
            }
        }
        assert_eq!(captured, expected);
        assert!(captured.len() > 500);
    }
}

#[test]
fn cdx_index_has_all_lines_sorted() {
    let stage = Stage::with_jobs("1-3", 300);
    let index = get(&stage.caches(), IndexKind::Cdx, "1-3");
    let text = std::fs::read_to_string(index.entry.path()).expect("a file");
    let mut expected: Vec<String> = Vec::new();
    for job in 1..=3 {
        let (_, cdx) = stage.logs(job, 300);
        expected.extend(
            String::from_utf8(cdx)
                .expect("text")
                .lines()
                .map(str::to_owned),
        );
    }
    expected.sort();
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn partial_index_is_never_stored_under_the_name_of_the_whole() {
    let stage = Stage::with_jobs("1,2,4", 50);
    let options = but!(stage.options(), retry_missing: Duration::ZERO);
    let caches = IndexCaches::open(options).expect("caches");
    for kind in IndexKind::ALL {
        let index = get(&caches, kind, "1-4");
        assert_eq!(index.found.to_string(), "1,2,4");
        assert_eq!(index.missing.len(), 1);
        assert_eq!(index.missing[0].job.0, 3);
        assert_eq!(index.missing[0].why, Missing::NoJob);
        let names = entries(&stage.cache_dir().join(kind.folder()));
        assert!(names.contains(&"1-2-4-cache".to_owned()), "{names:?}");
        assert!(!names.contains(&"1-2-3-4-cache".to_owned()), "{names:?}");
    }
    stage.add(3, 50, Form::WarcGz);
    // New caches read the archive again, like another process.
    let caches = stage.caches();
    for kind in IndexKind::ALL {
        let index = get(&caches, kind, "1-4");
        assert_eq!(index.found.to_string().as_str(), "1-4");
        assert_eq!(index.missing.len(), 0);
    }
}

#[test]
fn set_of_no_jobs_is_an_empty_index() {
    let stage = Stage::new();
    for kind in IndexKind::ALL {
        let index = get(&stage.caches(), kind, "5,6");
        assert!(index.found.is_empty());
        assert_eq!(index.missing.len(), 2);
        assert!(index.entry.path().ends_with("empty-cache"));
    }
}

/// Checks that the contents of a set do not depend on how it was built.
#[test]
fn set_built_from_larger_sets_equals_one_built_from_jobs() {
    let stage = Stage::with_jobs("1-9", 200);
    let caches = stage.caches();
    for jobs in ["1-4", "6,7", "1-8"] {
        get(&caches, IndexKind::Full, jobs);
    }
    let grown = get(&caches, IndexKind::Full, "1-9");
    let inputs = &grown.entry.manifest().inputs;
    let names: BTreeSet<_> = inputs.iter().map(|input| input.name.clone()).collect();
    // The inputs are the index, the raw data and the metadata file of each job, no matter from which
    // sets the index was merged.
    let of_job = |(job, form): (u64, &Form)| {
        let file = format!("{job}-metadata-1{}", form.ending());
        let made = ["", "crawllog-", "cdxdata-"].map(|of| format!("{of}{job}-cache"));
        made.into_iter().chain([file])
    };
    let expected: BTreeSet<_> = (1..=9)
        .zip(Form::ALL.iter().cycle())
        .flat_map(of_job)
        .collect();
    assert_eq!(names, expected);
    assert_eq!(inputs.len(), names.len());
    let (by_url, by_digest) = (lines(&grown.entry, "url"), lines(&grown.entry, "digest"));
    drop(grown);
    let fresh = caches
        .rebuild_index(
            IndexKind::Full,
            &"1-9".parse().expect("jobs"),
            &Default::default(),
        )
        .expect("an index");
    assert_eq!(lines(&fresh.entry, "url"), by_url);
    assert_eq!(lines(&fresh.entry, "digest"), by_digest);
}

/// Uses more jobs than can be merged at once, and more than the number of entries held in use.
#[test]
fn set_may_have_more_jobs_than_open_files() {
    let stage = Stage::new();
    let jobs = 1_100;
    for job in 1..=jobs {
        stage.add(job, 2, Form::Warc);
    }
    let caches = stage.caches();
    let set = format!("1-{jobs}");
    for kind in IndexKind::ALL {
        let index = get(&caches, kind, &set);
        assert_eq!(index.found.to_string(), set.clone());
        assert_eq!(index.missing.len(), 0);
        let mut files: Vec<_> = index
            .entry
            .files()
            .map(|(name, ..)| name.to_owned())
            .collect();
        files.sort();
        match kind {
            IndexKind::Cdx => {
                let text = std::fs::read_to_string(index.entry.path()).expect("a file");
                let mut expected: Vec<String> = Vec::new();
                for job in 1..=jobs {
                    let (_, cdx) = stage.logs(job, 2);
                    let cdx = String::from_utf8(cdx).expect("text");
                    expected.extend(cdx.lines().map(str::to_owned));
                }
                expected.sort();
                assert_eq!(text.lines().collect::<Vec<_>>(), expected);
            }
            _ => {
                let expected = ["digest.cdxj.gz", "digest.idx", "url.cdxj.gz", "url.idx"];
                assert_eq!(files, expected);
                let (by_url, by_digest) =
                    (lines(&index.entry, "url"), lines(&index.entry, "digest"));
                assert!(by_url.is_sorted() && by_digest.is_sorted());
                assert_eq!(captures(&by_url), captures(&by_digest));
                let rows = index.entry.manifest().counts["rows"];
                assert!(rows > 0);
                assert_eq!(by_url.len() as u64, rows);
            }
        }
    }
}

#[test]
fn missing_jobs_leave_nothing_in_the_caches() {
    let stage = Stage::with_jobs("7", 5);
    let caches = stage.caches();
    for kind in IndexKind::ALL {
        let index = get(&caches, kind, "1-2000");
        assert_eq!(index.found.to_string().as_str(), "7");
        assert_eq!(index.missing.len(), 1999);
    }
    for folder in [
        "crawllog",
        "cdxdata",
        "fullcrawllogindex",
        "dedupcrawllogindex",
        "cdxindex",
    ] {
        let files = std::fs::read_dir(stage.cache_dir().join(folder)).expect("a folder");
        for file in files {
            let name = file
                .expect("a file")
                .file_name()
                .into_string()
                .expect("text");
            assert!(name.contains("7-cache"), "{folder}/{name}");
        }
    }
}

/// Checks that a missing job or record is looked for again only after a while.
#[test]
fn recently_missing_jobs_are_not_searched_again() {
    let stage = Stage::with_jobs("1", 20);
    let (crawl_log, _) = stage.logs(2, 20);
    let path = stage.add_logs(2, &crawl_log, None, Form::WarcGz);
    let patient = stage.caches();
    let at_once = IndexCaches::open(but!(stage.options(), retry_missing: Duration::ZERO));
    let at_once = at_once.expect("caches");
    let why = |caches: &IndexCaches| {
        let index = get(caches, IndexKind::Cdx, "1,2");
        assert_eq!(index.found.to_string(), "1");
        index.missing[0].why.clone()
    };
    let files = vec!["2-metadata-1.warc.gz".to_owned()];
    let no_record = Missing::NoRecord {
        files,
        others: JobSet::default(),
    };
    let expected = [no_record.clone(), no_record.clone()];
    assert_eq!([why(&patient), why(&at_once)], expected);
    // From now on, reading the archive fails.
    let size = std::fs::metadata(&path).expect("a file").len();
    std::fs::write(&path, vec![b'x'; size as usize]).expect("a file");
    assert_eq!(why(&patient), no_record);
    assert!(matches!(why(&at_once), Missing::Unreadable { .. }));
}
