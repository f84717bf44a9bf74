//! Tests metadata that arrive after an index was built.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crawlspace_jobs::operations::verify;
use crawlspace_jobs::{IndexCaches, IndexKind, Missing, Work};
use redis_tests::metadata::{Form, cdx_url, write_metadata};
use redis_tests::{assert_contains, but};

use crate::stage::{Stage, count, get, lines, set, write_records};

fn write_cdx(path: &Path, job: u64, cdx: &[u8]) {
    write_records(path, &[(&cdx_url(job, 1), "application/x-cdx", cdx)]);
}

/// Opens caches that look for new files at every request.
fn watchful(stage: &Stage) -> IndexCaches {
    IndexCaches::open(but!(stage.options(), retry_missing: Duration::ZERO)).expect("caches")
}

fn builds(caches: &IndexCaches, kind: IndexKind, jobs: &str) -> u64 {
    let before = caches.figures().builds;
    get(caches, kind, jobs);
    caches.figures().builds - before
}

fn outdated(stage: &Stage) -> Vec<String> {
    let verified = verify(&stage.cache_dir(), false, &Work::default()).expect("a look");
    assert_eq!(verified.damaged, []);
    let cache_dir = stage.cache_dir();
    let name = |path: &PathBuf| {
        path.strip_prefix(&cache_dir)
            .expect("an entry")
            .display()
            .to_string()
    };
    verified.outdated.iter().map(name).collect()
}

/// Checks that both the same process and another one find the file.
#[test]
fn later_metadata_file_is_read_by_the_next_request() {
    for is_same_process in [true, false] {
        let stage = Stage::with_jobs("8", 20);
        let (crawl_log, cdx) = stage.logs(7, 200);
        stage.add_logs(7, &crawl_log, None, Form::WarcGz);
        let mut caches = watchful(&stage);
        let index = get(&caches, IndexKind::Full, "7,8");
        assert_contains(index.entry.manifest().notes.join("\n"), "job 7 has no CDX");
        assert_eq!(builds(&caches, IndexKind::Full, "7,8"), 0);
        drop(index);

        write_cdx(&stage.archive().join("7-metadata-2.warc.gz"), 7, &cdx);
        if !is_same_process {
            caches = watchful(&stage);
        }
        for (kind, jobs) in [
            (IndexKind::Full, "7,8"),
            (IndexKind::Full, "7"),
            (IndexKind::Dedup, "7"),
            (IndexKind::Cdx, "7"),
        ] {
            let index = get(&caches, kind, jobs);
            assert_eq!(index.entry.manifest().notes, [""; 0], "{kind} {jobs}");
            let stored = match kind {
                IndexKind::Cdx => count(&index, "lines"),
                _ => count(&index, "originCdx"),
            };
            assert!(stored > 10, "{kind} {jobs}");
            drop(index);
            assert_eq!(builds(&caches, kind, jobs), 0, "{kind} {jobs}");
        }
        // A file that changes nothing is read once, because it is recorded as an input.
        let url = "metadata://a.example/crawl/reports/x?jobid=7";
        write_records(
            &stage.archive().join("7-metadata-3.warc.gz"),
            &[(url, "text/plain", b"x")],
        );
        assert_eq!(builds(&caches, IndexKind::Full, "7,8"), 4);
        assert_eq!(builds(&caches, IndexKind::Full, "7,8"), 0);
    }
}

/// Checks that a hit is cheap: by default, the archive is checked at most every minute.
#[test]
fn current_index_is_not_compared_again_at_once() {
    let stage = Stage::with_jobs("7,8", 20);
    let caches = stage.caches();
    get(&caches, IndexKind::Full, "7,8");
    let (crawl_log, cdx) = stage.logs(7, 50);
    let later = stage.archive().join("7-metadata-2.warc");
    write_metadata(&later, 7, 1, &crawl_log, Some(&cdx), Form::Warc);
    assert_eq!(builds(&caches, IndexKind::Full, "7,8"), 0);
    assert_eq!(builds(&stage.caches(), IndexKind::Full, "7,8"), 4);
}

/// Checks a metadata file that was read while it was being copied, and grew.
#[test]
fn grown_metadata_file_is_read_again() {
    let stage = Stage::new();
    let (crawl_log, cdx) = stage.logs(7, 200);
    let path = stage.add_logs(7, &crawl_log, Some(&cdx), Form::Warc);
    let whole = fs::read(&path).expect("a file");
    let cdx_begins = whole
        .windows(cdx.len())
        .position(|at| at == cdx)
        .expect("the CDX");
    let head = b"WARC/1.0\r\n";
    let cut = whole[..cdx_begins]
        .windows(head.len())
        .rposition(|at| at == head);
    fs::write(&path, &whole[..cut.expect("its head")]).expect("a file");
    let caches = watchful(&stage);
    assert_eq!(count(&get(&caches, IndexKind::Full, "7"), "originCdx"), 0);
    fs::write(&path, &whole).expect("a file");
    assert!(count(&get(&caches, IndexKind::Full, "7"), "originCdx") > 10);
    // Compressing the file does not change the index.
    let packed = stage.archive().join("7-metadata-1.warc.gz");
    write_metadata(&packed, 7, 1, &crawl_log, Some(&cdx), Form::WarcGz);
    fs::remove_file(&path).expect("removed");
    assert_eq!(builds(&caches, IndexKind::Full, "7"), 0);
}

/// Checks that `dedup` finds a CDX that arrived after `full` was built: a missing CDX is not cached forever.
#[test]
fn outdated_index_is_rebuilt_from_raw_data_without_the_archive() {
    let stage = Stage::new();
    let (crawl_log, cdx) = stage.logs(7, 200);
    stage.add_logs(7, &crawl_log, None, Form::WarcGz);
    get(&watchful(&stage), IndexKind::Full, "7");
    write_cdx(&stage.archive().join("7-metadata-2.warc.gz"), 7, &cdx);
    get(&watchful(&stage), IndexKind::Dedup, "7");
    assert_eq!(outdated(&stage), ["fullcrawllogindex/7-cache"]);
    fs::rename(stage.archive(), stage.path().join("away")).expect("moved");
    let caches = watchful(&stage);
    assert!(count(&get(&caches, IndexKind::Full, "7"), "originCdx") > 10);
    assert_eq!(caches.figures().builds, 1);
    assert_eq!(outdated(&stage), [""; 0]);
    // Without the archive, the existing index is the result.
    assert_eq!(builds(&caches, IndexKind::Full, "7"), 0);
}

#[test]
fn rebuilding_a_job_refreshes_sets_and_other_kinds() {
    let stage = Stage::with_jobs("7-9", 100);
    let caches = stage.caches();
    for kind in IndexKind::ALL {
        get(&caches, kind, "7,8");
        get(&caches, kind, "7-9");
    }
    get(&caches, IndexKind::Full, "8,9");
    let images = |kind: &str| {
        let rows = lines(&get(&caches, IndexKind::Full, "7-9").entry, "url").into_iter();
        rows.filter(|row| row.contains(kind) && row.contains("\"job\":\"7\""))
            .count()
    };
    let before = images("image/png");
    assert!(before > 1);
    // The size stays the same, so only reading the file reveals the change.
    let path = stage.archive().join("7-metadata-1.warc");
    let (crawl_log, cdx) = stage.logs(7, 100);
    let text = String::from_utf8(crawl_log)
        .expect("text")
        .replace("image/png", "image/gif");
    write_metadata(&path, 7, 1, text.as_bytes(), Some(&cdx), Form::Warc);
    assert_eq!(builds(&caches, IndexKind::Full, "7-9"), 0);

    let built = caches.figures().builds;
    caches
        .rebuild_index(IndexKind::Full, &set("7"), &Work::default())
        .expect("an index");
    // Expected: its crawl.log, its CDX, and its index, once each.
    assert_eq!(caches.figures().builds - built, 3);
    let expected = [
        "dedupcrawllogindex/7-8-9-cache",
        "dedupcrawllogindex/7-8-cache",
        "dedupcrawllogindex/7-cache",
        "fullcrawllogindex/7-8-9-cache",
        "fullcrawllogindex/7-8-cache",
    ];
    assert_eq!(outdated(&stage), expected);
    for kind in IndexKind::ALL {
        for jobs in ["7,8", "7-9", "8,9", "7"] {
            get(&caches, kind, jobs);
        }
    }
    assert_eq!(outdated(&stage), [""; 0]);
    assert_eq!((images("image/png"), images("image/gif")), (0, before));
}

/// Checks that an unreadable new file does not remove existing data.
#[test]
fn damaged_later_file_keeps_the_older_index() {
    let stage = Stage::with_jobs("7,8", 50);
    let caches = watchful(&stage);
    let mut before = Vec::new();
    for kind in IndexKind::ALL {
        get(&caches, kind, "7,8");
        before.push(fs::read(get(&caches, kind, "7").entry.manifest_path()).expect("a manifest"));
    }
    let later = stage.archive().join("7-metadata-2.warc.gz");
    let (crawl_log, cdx) = stage.logs(7, 60);
    write_metadata(&later, 7, 1, &crawl_log, Some(&cdx), Form::WarcGz);
    let whole = fs::read(&later).expect("a file");
    fs::write(&later, &whole[..whole.len() / 2]).expect("a file");
    for (kind, before) in IndexKind::ALL.into_iter().zip(&before) {
        for jobs in ["7,8", "7"] {
            let index = get(&caches, kind, jobs);
            assert_eq!((index.missing.len(), index.found), (0, set(jobs)), "{kind}");
        }
        let now = fs::read(get(&caches, kind, "7").entry.manifest_path()).expect("a manifest");
        assert!(now == *before, "{kind}");
        // A request for the current state gets an error.
        let rebuilt = caches.rebuild_index(kind, &set("7"), &Work::default());
        let rebuilt = rebuilt.expect("an index");
        assert!(matches!(rebuilt.missing[0].why, Missing::Unreadable { .. }));
    }
    fs::write(&later, &whole).expect("a file");
    for kind in IndexKind::ALL {
        assert!(builds(&caches, kind, "7,8") > 0);
        assert_eq!(builds(&caches, kind, "7,8"), 0);
    }
}

/// Checks that a file with the job's number in its name that belongs to another job is read only once.
#[test]
fn file_of_another_job_triggers_no_rebuild() {
    let stage = Stage::with_jobs("7", 50);
    let caches = watchful(&stage);
    get(&caches, IndexKind::Full, "7");
    let (crawl_log, cdx) = stage.logs(12, 50);
    let other = stage.archive().join("12-7-metadata-1.warc.gz");
    write_metadata(&other, 12, 7, &crawl_log, Some(&cdx), Form::WarcGz);
    assert_eq!(builds(&caches, IndexKind::Full, "7"), 3);
    for _ in 0..2 {
        assert_eq!(builds(&watchful(&stage), IndexKind::Full, "7"), 0);
    }
    assert_eq!(get(&caches, IndexKind::Full, "7,12").found, set("7,12"));
}
