//! Getting an index, whole or in part.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use redis_tests::metadata::{Form, Metadata};

use redis_tests::{on_terminal, until, Program};
use serde_json::{json, Value};

use crate::stage::{ends, lock_as_another_process, program, Stage};

fn numbers(value: &Value) -> Vec<u64> {
    let numbers = value.as_array().expect("an array").iter();
    numbers.map(|n| n.as_u64().expect("a number")).collect()
}

fn path_of(answer: &Value) -> &Path {
    Path::new(answer["path"].as_str().expect("a path"))
}

#[test]
fn an_index_lies_where_the_answer_says_under_the_name_of_its_jobs() {
    let stage = Stage::of([1, 2, 3]);
    for (kind, folder, files) in [
        ("dedup", "dedupcrawllogindex", 5),
        ("full", "fullcrawllogindex", 5),
        ("cdx", "cdxindex", 0),
    ] {
        let got = ends(stage.get(kind, "3,1-2", &["--json"]), 0);
        let answer = got.object();
        assert_eq!(answer["kind"], kind);
        assert_eq!(numbers(&answer["jobs"]), [1, 2, 3]);
        assert_eq!(answer["missing"], json!([]));
        let path = path_of(&answer);
        assert_eq!(path, stage.entry(folder, "1-2-3-cache"));
        match files {
            0 => assert!(path.is_file()),
            files => assert_eq!(fs::read_dir(path).unwrap().count(), files),
        }
        assert!(answer["size"].as_u64().unwrap() > 1_000);
        assert!(answer["made"].as_str().unwrap().ends_with('Z'), "{answer}");

        // The text says the same, the path alone on the first line.
        let text = ends(stage.get(kind, "1-3", &[]), 0).out;
        assert_eq!(text.lines().next().unwrap(), path.to_str().unwrap());
        assert!(text.contains("jobs               3  1-3\n"), "{text}");
    }
}

#[test]
fn nothing_but_the_answer_is_said_when_all_is_well_and_nobody_watches() {
    let stage = Stage::of([]);
    // Lines without anything to complain about.
    let line = "2013-05-22T08:20:00.000Z   200        100 http://example.org/a.png LL http://example.org/ image/png \
                #001 20130522082000000+5 sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A - -\n";
    let cdx = "http://example.org/a.png 10.0.0.1 20130522082000 image/png 100 7-1.warc.gz 333\n";
    stage.add_of(7, line.as_bytes(), Some(cdx.as_bytes()));
    let got = ends(stage.get("full", "7", &["--json"]), 0);
    assert_eq!(got.errors, "");
    assert_eq!(got.object()["notes"], json!([]));
}

#[test]
fn jobs_may_come_from_a_file_or_from_standard_input() {
    let stage = Stage::of([1, 2, 7]);
    let list = stage.path().join("jobs.txt");
    fs::write(&list, "7\n1, 2\n").unwrap();
    let answer = ends(
        stage.get("full", &format!("@{}", list.display()), &["--json"]),
        0,
    );
    assert_eq!(numbers(&answer.object()["jobs"]), [1, 2, 7]);

    let mut child = stage
        .get("full", "-", &["--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"1-2\n7\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(numbers(&answer["jobs"]), [1, 2, 7]);
}

#[test]
fn missing_jobs_are_named_with_their_reason_and_the_rest_is_an_answer() {
    let stage = Stage::of([1, 2]);
    // Job 3 has a metadata file without a crawl.log, that of job 4 is broken, and job 5 has none.
    let mut file = Metadata::begin(Vec::new(), "3-metadata-1.warc.gz", Form::WarcGz).unwrap();
    file.record(
        "metadata://netarkivet.dk/crawl/reports/seeds-report.txt?jobid=3",
        "text/plain",
        b"x",
    )
    .unwrap();
    fs::write(stage.metadata_of(3), file.finish().unwrap()).unwrap();
    stage.add(4, 200);
    let mut broken = fs::read(stage.metadata_of(4)).unwrap();
    broken.truncate(broken.len() * 2 / 3);
    fs::write(stage.metadata_of(4), broken).unwrap();

    let got = ends(stage.get("full", "1-5", &["--json"]), 0);
    let answer = got.object();
    assert_eq!(numbers(&answer["jobs"]), [1, 2]);
    assert_eq!(
        path_of(&answer),
        stage.entry("fullcrawllogindex", "1-2-cache")
    );
    assert!(!stage.entry("fullcrawllogindex", "1-2-3-4-5-cache").exists());
    let reasons: Vec<_> = answer["missing"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            (
                one["job"].as_u64().unwrap(),
                one["reason"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        reasons,
        [(3, "no-record"), (4, "unreadable"), (5, "no-job")]
    );
    for (begin, what) in [
        (
            "crawlspace: job 3: no such record in ",
            "3-metadata-1.warc.gz",
        ),
        (
            "crawlspace: job 4: failed to read: ",
            "4-metadata-1.warc.gz",
        ),
        ("crawlspace: job 5: no such job", ""),
    ] {
        let is_told = |line: &str| line.starts_with(begin) && line.contains(what);
        assert!(got.errors.lines().any(is_told), "{begin}: {}", got.errors);
    }

    let text = ends(stage.get("full", "1-5", &[]), 0).out;
    assert!(text.contains("missing            3"), "{text}");

    // The answer is the same, but somebody wanted all.
    let strict = ends(stage.get("full", "1-5", &["--json", "--strict"]), 1);
    assert_eq!(numbers(&strict.object()["jobs"]), [1, 2]);
    ends(stage.get("full", "1-2", &["--strict"]), 0);
}

#[test]
fn a_job_that_comes_later_is_found() {
    let stage = Stage::of([1]);
    let before = ends(stage.get("full", "1,2", &["--json"]), 0).object();
    assert_eq!(numbers(&before["jobs"]), [1]);
    stage.add(2, 50);
    let after = ends(stage.get("full", "1,2", &["--json"]), 0).object();
    assert_eq!(numbers(&after["jobs"]), [1, 2]);
    assert_eq!(
        path_of(&after),
        stage.entry("fullcrawllogindex", "1-2-cache")
    );
}

#[test]
fn a_set_may_have_more_jobs_than_files_may_be_open_as_a_rule() {
    let stage = Stage::of([]);
    for job in 1..=100 {
        stage.add(job, 5);
    }
    let get = stage.get("full", "1-100", &["--strict", "--json"]);
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -Sn 64; exec \"$0\" \"$@\""]);
    limited.arg(get.get_program()).args(get.get_args());
    let answer = ends(limited, 0).object();
    assert_eq!(numbers(&answer["jobs"]).len(), 100);
}

#[test]
fn bad_lines_are_told() {
    let stage = Stage::of([]);
    let (mut crawl_log, cdx) = redis_tests::harvest::logs(7, 1, 50);
    crawl_log.extend_from_slice(b"nothing of the kind\n");
    stage.add_of(7, &crawl_log, Some(&cdx));
    let got = ends(stage.get("full", "7", &["--json"]), 0);
    let notes = got.object()["notes"].to_string();
    assert!(notes.contains("metadata-1.warc.gz"), "{notes}");
    assert!(
        got.errors.contains("7-metadata-1.warc.gz"),
        "{}",
        got.errors
    );
}

#[test]
fn a_wrong_command_line_is_status_2_and_builds_nothing() {
    let stage = Stage::of([1]);
    let metadata = stage.metadata();
    let metadata = metadata.to_str().unwrap();
    let wrong: &[&[&str]] = &[
        &["get", "--kind", "full", "--jobs", "1"],
        &[
            "get",
            "--kind",
            "some",
            "--jobs",
            "1",
            "--metadata",
            metadata,
        ],
        &[
            "get",
            "--kind",
            "full",
            "--jobs",
            "one",
            "--metadata",
            metadata,
        ],
        &[
            "get",
            "--kind",
            "full",
            "--jobs",
            "5-1",
            "--metadata",
            metadata,
        ],
        &[
            "get",
            "--kind",
            "full",
            "--jobs",
            "@/nowhere",
            "--metadata",
            metadata,
        ],
        &["get", "--kind", "full", "--metadata", metadata],
        &["get", "--jobs", "1", "--metadata", metadata],
        &[
            "get",
            "--kind",
            "full",
            "--jobs",
            "1",
            "--metadata",
            metadata,
            "--server",
            "http://a/",
        ],
        &[
            "get",
            "--kind",
            "full",
            "--jobs",
            "1",
            "--server",
            "http://a/",
            "--rebuild",
        ],
        &[
            "get",
            "--kind",
            "full",
            "--jobs",
            "1",
            "--metadata",
            metadata,
            "--memory",
            "lots",
        ],
        &[
            "get",
            "--kind",
            "full",
            "--jobs",
            "1",
            "--metadata",
            metadata,
            "--crawl-id",
            "x{job}",
        ],
        &[
            "get",
            "--kind",
            "full",
            "--jobs",
            "1",
            "--metadata",
            metadata,
            "--into",
            "redis://a/",
            "--crawl-id",
            "same",
        ],
        &[
            "get",
            "--kind",
            "cdx",
            "--jobs",
            "1",
            "--metadata",
            metadata,
            "--into",
            "redis://a/",
        ],
        &["lookup", "--kind", "full", "--jobs", "1"],
        &["lookup", "--kind", "full", "--url", "http://a/"],
        &[
            "lookup",
            "--kind",
            "full",
            "--jobs",
            "1",
            "--url",
            "http://a/",
            "--digest",
            "x",
        ],
        &[
            "lookup",
            "somewhere",
            "--kind",
            "full",
            "--jobs",
            "1",
            "--url",
            "http://a/",
        ],
        &["lookup", "somewhere", "--closest", "2020", "--digest", "x"],
        &["gc", "--max-size", "much"],
        &["gc", "--max-age", "90"],
        &["list", "--kind", "some"],
    ];
    for words in wrong {
        let refused = ends(stage.index(words), 2);
        assert_eq!(refused.out, "", "{words:?}");
        assert!(
            refused.errors.contains("error:") || refused.errors.starts_with("crawlspace: "),
            "{words:?}"
        );
    }
    assert!(!stage.cache().exists());
    let mut nowhere = program();
    nowhere.args([
        "index",
        "get",
        "--kind",
        "full",
        "--jobs",
        "1",
        "--metadata",
        metadata,
    ]);
    ends(nowhere, 2);
}

#[test]
fn the_folder_may_come_from_the_environment() {
    let stage = Stage::of([1]);
    let mut get = program();
    get.args([
        "index",
        "get",
        "--kind",
        "full",
        "--jobs",
        "1",
        "--json",
        "--metadata",
    ]);
    // What others need is no hindrance.
    get.arg(stage.metadata())
        .env("CRAWLSPACE_PREFIX", "{coll-42}:")
        .env("CRAWLSPACE_CACHE_DIR", stage.cache());
    let answer = ends(get, 0).object();
    assert_eq!(
        path_of(&answer),
        stage.entry("fullcrawllogindex", "1-cache")
    );
    let mut list = program();
    list.args(["index", "list"])
        .env("CRAWLSPACE_CACHE_DIR", stage.cache());
    assert!(ends(list, 0).out.contains("1-cache"));
}

#[test]
fn a_folder_that_cannot_be_one_is_named() {
    let stage = Stage::of([1]);
    fs::write(stage.cache(), "a file").unwrap();
    let failed = ends(stage.get("full", "1", &[]), 1);
    assert!(failed.errors.contains("/cache"), "{}", failed.errors);

    let stage = Stage::of([1]);
    let words = [
        "get",
        "--kind",
        "full",
        "--jobs",
        "1",
        "--metadata",
        "/nowhere/at/all",
    ];
    let failed = ends(stage.index(&words), 1);
    assert!(
        failed.errors.contains("/nowhere/at/all"),
        "{}",
        failed.errors
    );
}

#[test]
fn rebuilding_takes_what_the_archive_has_now() {
    let stage = Stage::of([1]);
    ends(stage.get("full", "1", &[]), 0);
    let lines = |words: &[&str]| {
        let answer = ends(stage.get("full", "1", &[words, &["--json"]].concat()), 0).object();
        answer["lines"].as_u64().unwrap()
    };
    let before = lines(&[]);
    stage.add(1, 20);
    assert_eq!(lines(&[]), before);
    assert!(lines(&["--rebuild"]) < before);
    assert!(lines(&[]) < before);
}

#[test]
fn a_copy_is_whole_and_of_its_own() {
    let stage = Stage::of([1, 2]);
    let out = stage.path().join("some/where/copy");
    let get = |kind: &str, status: i32| {
        ends(
            stage.get(kind, "1-2", &["--json", "--out", out.to_str().unwrap()]),
            status,
        )
    };
    let answer = get("full", 0).object();
    assert_eq!(answer["out"], out.to_str().unwrap());
    let entry = stage.entry("fullcrawllogindex", "1-2-cache");
    let names = |folder: &Path| {
        let names = fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&out), names(&entry));
    for name in names(&entry) {
        use std::os::unix::fs::MetadataExt;
        let (copy, own) = (out.join(&name), entry.join(&name));
        assert_eq!(fs::read(&copy).unwrap(), fs::read(&own).unwrap(), "{name}");
        assert_ne!(
            copy.metadata().unwrap().ino(),
            own.metadata().unwrap().ino(),
            "{name}"
        );
    }
    // What is written into the copy is not written into the cache.
    fs::write(out.join("url.idx"), "spoilt").unwrap();
    ends(stage.index(&["verify"]), 0);

    // A copy is replaced by the next one, also of another kind, and nothing is left of the former.
    get("full", 0);
    assert_eq!(
        fs::read(out.join("url.idx")).unwrap(),
        fs::read(entry.join("url.idx")).unwrap()
    );
    get("cdx", 0);
    assert_eq!(names(&out), ["1-2-cache", "manifest.json"]);
    assert_eq!(names(out.parent().unwrap()), ["copy"]);

    // What is no copy is not touched.
    fs::remove_file(out.join("manifest.json")).unwrap();
    let refused = get("full", 1);
    assert!(
        refused.errors.contains("no copy of an index"),
        "{}",
        refused.errors
    );
    assert_eq!(names(&out), ["1-2-cache"]);
}

#[test]
fn a_copy_for_which_there_is_no_room_is_not_there() {
    let stage = Stage::of([1]);
    fs::write(stage.path().join("file"), "").unwrap();
    let out = stage.path().join("file/copy");
    let failed = ends(stage.get("full", "1", &["--out", out.to_str().unwrap()]), 1);
    assert!(failed.errors.contains("/file"), "{}", failed.errors);
}

#[test]
fn somebody_who_builds_is_waited_for_and_named() {
    let stage = Stage::of([1]);
    let folder = stage.cache().join("crawllog");
    fs::create_dir_all(&folder).unwrap();
    let lock = folder.join("crawllog-1-cache.working");
    fs::write(&lock, "").unwrap();
    let held = lock_as_another_process(&lock);
    let late = ends(stage.get("full", "1", &["--wait", "0"]), 1);
    assert!(late.errors.contains("crawllog-1-cache"), "{}", late.errors);
    assert!(late.errors.contains("still being built"), "{}", late.errors);
    let waiting = Program::start(stage.get("full", "1", &[]));
    drop(held);
    assert!(waiting.end().status.success());
}

#[test]
fn ctrl_c_ends_it_and_the_same_command_goes_on() {
    let stage = Stage::of([1, 2]);
    ends(stage.get("full", "1", &[]), 0);
    // It has to wait, so that it cannot be done before it is interrupted.
    let lock = stage.entry("crawllog", "crawllog-2-cache.working");
    fs::write(&lock, "").unwrap();
    let held = lock_as_another_process(&lock);
    for interrupt in [Program::interrupt, |program: &mut Program| {
        program.signal(15)
    }] {
        let mut waiting = Program::start(stage.get("full", "1-2", &[]));
        until("it handles signals", || handles_signals(waiting.pid()));
        interrupt(&mut waiting);
        let ended = waiting.end();
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        assert_eq!(ended.out, "");
        assert_eq!(
            ended.errors,
            "crawlspace: stopped; the same request goes on from here\n"
        );
    }
    drop(held);
    ends(stage.get("full", "1-2", &["--strict"]), 0);
}

/// Whether a process has handlers for SIGINT and SIGTERM.
fn handles_signals(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask & (1 << 1) != 0 && mask & (1 << 14) != 0)
}

#[test]
fn on_a_terminal_nothing_is_left_of_the_bar() {
    let stage = Stage::of([1]);
    stage.add(2, 60_000);
    let (status, seen) = on_terminal(stage.get("full", "1-2", &[]), 100, "");
    assert_eq!(status, 0, "{seen}");
    let last: Vec<&str> = seen.lines().rev().take(4).collect();
    assert!(last[0].starts_with("  bytes"), "{seen:?}");
    assert!(seen.contains("1-2-cache"), "{seen:?}");
    // Longer than between two looks, it showed what was being done.
    assert!(seen.contains('\u{1b}'), "{seen:?}");
}
