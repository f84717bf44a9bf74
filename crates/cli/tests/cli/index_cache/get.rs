//! Tests getting an index, of all requested jobs or of some.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use redis_tests::metadata::{Form, Metadata};
use redis_tests::{assert_contains, assert_lacks, ends, program, rows};
use serde_json::{Value, json};

use crate::index_cache::stage::Stage;
use crate::tool::tool;

fn numbers(value: &Value) -> Vec<u64> {
    let numbers = value.as_array().expect("an array").iter();
    numbers.map(|n| n.as_u64().expect("a number")).collect()
}

fn path_of(answer: &Value) -> &Path {
    Path::new(answer["path"].as_str().expect("a path"))
}

#[test]
fn get_prints_the_location_of_the_index() {
    let stage = Stage::of([1, 2, 3]);
    for (kind, folder, files) in [
        ("dedup", "dedupcrawllogindex", 5),
        ("full", "fullcrawllogindex", 5),
        ("cdx", "cdxindex", 0),
    ] {
        let got = ends(stage.get(kind, "3,1-2", "--json"), 0);
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

        // The text output says the same, with only the path on the first line.
        let text = ends(stage.get(kind, "1-3", ""), 0).out;
        assert_eq!(text.lines().next().unwrap(), path.to_str().unwrap());
        assert_contains(&text, "jobs               3  1-3\n");
    }
}

#[test]
fn get_is_silent_on_success_without_a_terminal() {
    let stage = Stage::of([]);
    // Use lines without any deviation, so that the command has nothing to report.
    let line = "2013-05-22T08:20:00.000Z   200        100 http://example.org/a.png LL http://example.org/ image/png \
                #001 20130522082000000+5 sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A - -\n";
    let cdx = "http://example.org/a.png 10.0.0.1 20130522082000 image/png 100 7-1.warc.gz 333\n";
    stage.add_of(7, line.as_bytes(), Some(cdx.as_bytes()));
    let got = ends(stage.get("full", "7", "--json"), 0);
    assert_eq!(got.errors, "");
    assert_eq!(got.object()["notes"], json!([]));
}

#[test]
fn jobs_are_read_from_a_file_or_standard_input() {
    let stage = Stage::of([1, 2, 7]);
    let list = stage.path().join("jobs.txt");
    fs::write(&list, "7\n1, 2\n").unwrap();
    let answer = ends(
        stage.get("full", &format!("@{}", list.display()), "--json"),
        0,
    );
    assert_eq!(numbers(&answer.object()["jobs"]), [1, 2, 7]);

    let mut child = stage
        .get("full", "-", "--json")
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
fn missing_jobs_are_reported_with_their_reason() {
    let stage = Stage::of([1, 2]);
    // Job 3 has a metadata file without a crawl.log, the file of job 4 is broken, and job 5 has none.
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

    let got = ends(stage.get("full", "1-5", "--json"), 0);
    let answer = got.object();
    assert_eq!(numbers(&answer["jobs"]), [1, 2]);
    let expected = stage.entry("fullcrawllogindex", "1-2-cache");
    assert_eq!(path_of(&answer), expected);
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
    for (begin, what) in rows![
        "crawlspace: job 3: no such record in ", "3-metadata-1.warc.gz";
        "crawlspace: job 4: failed to read: ", "4-metadata-1.warc.gz";
        "crawlspace: job 5: no such job", "";
    ] {
        let is_told = |line: &str| line.starts_with(begin) && line.contains(what);
        assert!(got.errors.lines().any(is_told), "{begin}: {}", got.errors);
    }

    let text = ends(stage.get("full", "1-5", ""), 0).out;
    assert_contains(&text, "missing            3");

    // With --strict, the result is the same, but the missing jobs are an error.
    let strict = ends(stage.get("full", "1-5", "--json --strict"), 1);
    assert_eq!(numbers(&strict.object()["jobs"]), [1, 2]);
    ends(stage.get("full", "1-2", "--strict"), 0);
}

#[test]
fn consecutive_missing_jobs_are_reported_in_one_line() {
    let stage = Stage::of([2, 7]);
    let got = ends(stage.get("full", "1-300,302", "--json"), 0);
    assert_eq!(got.object()["missing"].as_array().unwrap().len(), 299);
    let why = "no such job: no metadata file has its number";
    let lines = ["job 1", "jobs 3-6", "jobs 8-300", "job 302"];
    let lines = lines.map(|jobs| format!("crawlspace: {jobs}: {why}\n"));
    assert_eq!(got.errors, lines.concat());
}

#[test]
fn later_job_is_found() {
    let stage = Stage::of([1]);
    let before = ends(stage.get("full", "1,2", "--json"), 0).object();
    assert_eq!(numbers(&before["jobs"]), [1]);
    stage.add(2, 50);
    let after = ends(stage.get("full", "1,2", "--json"), 0).object();
    assert_eq!(numbers(&after["jobs"]), [1, 2]);
    let expected = stage.entry("fullcrawllogindex", "1-2-cache");
    assert_eq!(path_of(&after), expected);
}

#[test]
fn set_may_have_more_jobs_than_open_files() {
    let stage = Stage::of([]);
    for job in 1..=100 {
        stage.add(job, 5);
    }
    let get = stage.get("full", "1-100", "--strict --json");
    let mut limited = program("sh -c 'ulimit -Sn 64; exec \"$0\" \"$@\"'");
    limited.arg(get.get_program()).args(get.get_args());
    let answer = ends(limited, 0).object();
    assert_eq!(numbers(&answer["jobs"]).len(), 100);
}

#[test]
fn bad_lines_are_reported() {
    let stage = Stage::of([]);
    let (mut crawl_log, cdx) = redis_tests::harvest::logs(7, 1, 50);
    crawl_log.extend_from_slice(b"nothing of the kind\n");
    stage.add_of(7, &crawl_log, Some(&cdx));
    let got = ends(stage.get("full", "7", "--json"), 0);
    let notes = got.object()["notes"].to_string();
    assert_contains(&notes, "metadata-1.warc.gz");
    assert_contains(&got.errors, "7-metadata-1.warc.gz");
}

#[test]
fn invalid_command_line_gives_status_2_and_builds_nothing() {
    let stage = Stage::of([1]);
    let metadata = stage.metadata();
    let metadata = metadata.to_str().unwrap();
    let wrong = [
        "get --kind full --jobs 1",
        "get --kind some --jobs 1 --metadata METADATA",
        "get --kind full --jobs one --metadata METADATA",
        "get --kind full --jobs 5-1 --metadata METADATA",
        "get --kind full --jobs @/nowhere --metadata METADATA",
        "get --kind full --metadata METADATA",
        "get --jobs 1 --metadata METADATA",
        "get --kind full --jobs 1 --metadata METADATA --server http://a/",
        "get --kind full --jobs 1 --server http://a/ --rebuild",
        "get --kind full --jobs 1 --metadata METADATA --memory lots",
        "get --kind full --jobs 1 --metadata METADATA --crawl-id x{job}",
        "get --kind full --jobs 1 --metadata METADATA --into redis://a/ --crawl-id same",
        "get --kind cdx --jobs 1 --metadata METADATA --into redis://a/",
        "lookup --kind full --jobs 1",
        "lookup --kind full --url http://a/",
        "lookup --kind full --jobs 1 --url http://a/ --digest x",
        "lookup somewhere --kind full --jobs 1 --url http://a/",
        "lookup somewhere --closest 2020 --digest x",
        "gc --max-size much",
        "gc --max-age 90",
        "list --kind some",
    ];
    for words in wrong {
        let refused = ends(stage.index(&words.replace("METADATA", metadata)), 2);
        assert_eq!(refused.out, "", "{words:?}");
        assert!(
            refused.errors.contains("error:") || refused.errors.starts_with("crawlspace: "),
            "{words:?}"
        );
    }
    let get = format!("get --kind full --jobs 1 --metadata {metadata}");
    for (words, what) in [
        ("--into=http://x", "redis://host:port/"),
        ("--into=nonsense", "redis://host:port/"),
        ("--wait=x", "a number of seconds, such as 3600"),
        ("--wait=-1", "a number of seconds, such as 3600"),
        ("--memory=lots", "500MB"),
    ] {
        let refused = ends(stage.index(&format!("{get} {words}")), 2);
        assert_contains(&refused.errors, what);
    }
    let secret = format!("{get} --into http://:hidden@x");
    let refused = ends(stage.index(&secret), 2);
    assert_lacks(&refused.errors, "hidden");
    assert!(!stage.cache().exists());
    ends(tool(format!("index {get}")), 2);
}

#[test]
fn folder_is_taken_from_the_environment() {
    let stage = Stage::of([1]);
    let metadata = stage.metadata();
    let mut get = tool(format!(
        "index get --kind full --jobs 1 --json --metadata {}",
        metadata.display()
    ));
    // Variables for other commands have no effect.
    get.env("CRAWLSPACE_PREFIX", "{coll-42}:")
        .env("CRAWLSPACE_CACHE_DIR", stage.cache());
    let answer = ends(get, 0).object();
    let expected = stage.entry("fullcrawllogindex", "1-cache");
    assert_eq!(path_of(&answer), expected);
    let mut list = tool("index list");
    list.env("CRAWLSPACE_CACHE_DIR", stage.cache());
    assert!(ends(list, 0).out.contains("1-cache"));
}

#[test]
fn unusable_folder_is_reported() {
    let stage = Stage::of([1]);
    fs::write(stage.cache(), "a file").unwrap();
    let failed = ends(stage.get("full", "1", ""), 1);
    assert_contains(&failed.errors, "/cache");

    let stage = Stage::of([1]);
    let words = "get --kind full --jobs 1 --metadata /nowhere/at/all";
    let failed = ends(stage.index(words), 1);
    assert_contains(&failed.errors, "/nowhere/at/all");
}

/// A metadata file with another size is detected; a change that only a reader can detect is found by
/// `--rebuild` only.
#[test]
fn index_is_as_new_as_the_archive() {
    let stage = Stage::of([1, 2]);
    let get = |kind: &str, jobs: &str, words: &str| {
        ends(stage.get(kind, jobs, &format!("{words} --json")), 0).object()
    };
    let lines = |answer: Value| answer["lines"].as_u64().unwrap();
    let outdated = || ends(stage.index("verify --json"), 0).object()["outdated"].clone();
    for kind in ["full", "dedup", "cdx"] {
        let before = lines(get(kind, "1,2", ""));
        stage.add(1, 20);
        assert!(lines(get(kind, "1,2", "")) < before, "{kind}");
        stage.add(1, crate::index_cache::stage::LINES);
        assert_eq!(lines(get(kind, "1,2", "")), before, "{kind}");
    }
    assert_eq!(outdated(), json!([]));

    // In uncompressed WARC files of other types, the size does not reveal a change.
    let (crawl_log, cdx) = redis_tests::harvest::logs(7, 1, 50);
    let name = stage.metadata().join("7-metadata-1.warc");
    let write = |log: &[u8]| {
        redis_tests::metadata::write_metadata(&name, 7, 1, log, Some(&cdx), Form::Warc);
    };
    write(&crawl_log);
    let made = get("full", "1,7", "")["made"].clone();
    get("dedup", "7", "");
    let other = String::from_utf8(crawl_log)
        .unwrap()
        .replace("image/png", "image/gif");
    write(other.as_bytes());
    assert_eq!(get("full", "1,7", "")["made"], made);
    get("full", "7", "--rebuild");
    let path = |cache: &str, name: &str| json!(stage.entry(cache, name));
    let expected = json!([
        path("dedupcrawllogindex", "7-cache"),
        path("fullcrawllogindex", "1-7-cache")
    ]);
    assert_eq!(outdated(), expected);
    let told = ends(stage.index("verify"), 0);
    assert_contains(&told.out, "outdated             2");
    assert_contains(&told.errors, "1-7-cache: its source files are newer");
    get("full", "1,7", "");
    get("dedup", "7", "");
    assert_eq!(outdated(), json!([]));
}

#[test]
fn outdated_index_is_reported_when_a_file_cannot_be_read() {
    let stage = Stage::of([1, 2]);
    let made = ends(stage.get("full", "1,2", "--json"), 0).object()["made"].clone();
    let later = stage.metadata().join("1-metadata-2.warc.gz");
    fs::write(&later, "half of a copy").unwrap();
    for kind in ["full", "dedup", "cdx"] {
        let got = ends(stage.get(kind, "1,2", "--json"), 0);
        // The other kind of index did not exist yet.
        let jobs = if kind == "dedup" { vec![2] } else { vec![1, 2] };
        let answer = got.object();
        assert_eq!(numbers(&answer["jobs"]), jobs, "{kind}");
        if kind == "dedup" {
            assert_eq!(answer["missing"][0]["reason"], "unreadable");
            continue;
        }
        assert_eq!(answer["outdated"][0]["job"], 1);
        let begin =
            "crawlspace: job 1: the index is older than a metadata file that cannot be read: ";
        assert_contains(&got.errors, begin);
        assert_contains(&got.errors, "1-metadata-2.warc.gz");
        if kind == "full" {
            assert_eq!(answer["made"], made);
        }
    }
    fs::remove_file(&later).unwrap();
    let got = ends(stage.get("dedup", "1,2", "--json --strict"), 0).object();
    assert_eq!(
        (numbers(&got["jobs"]), &got["outdated"]),
        (vec![1, 2], &Value::Null)
    );
}

/// One capture in the CDX is a second away from its line, the other one is two seconds away.
#[test]
fn approximate_and_revisit_locations_are_counted() {
    let stage = Stage::of([]);
    let line = |name: &str, second: u32, notes: &str| {
        format!(
            "2013-05-22T08:20:30.000Z   200        100 http://example.org/{name}.png LL http://example.org/ image/png \
             #001 201305220820{second:02}000+5 sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A - {notes}\n"
        )
    };
    let json = r#"{"warcFilename":"7-2.warc.gz","warcFileOffset":5}"#;
    let crawl_log = [
        line("a", 1, "-"),
        line("b", 1, "-"),
        line("c", 1, &format!("duplicate:digest {json}")),
        line("d", 1, "duplicate:server-not-modified"),
    ]
    .concat();
    let cdx = "http://example.org/a.png 10.0.0.1 20130522082002 image/png 100 7-1.warc.gz 333\n\
               http://example.org/b.png 10.0.0.1 20130522082003 image/png 100 7-1.warc.gz 444\n";
    stage.add_of(7, crawl_log.as_bytes(), Some(cdx.as_bytes()));
    let got = ends(stage.get("full", "7", "--json"), 0);
    let counts = &got.object()["counts"];
    let count = |name: &str| counts[name].as_u64().unwrap();
    assert_eq!((count("originNearest"), count("originCdx")), (1, 0));
    assert_eq!((count("revisits"), count("withoutOrigin")), (2, 3));
    assert_contains(
        &got.errors,
        "job 7: 1 captures have the position of a CDX row whose timestamp differs by a second, because no row has the same second",
    );
    let text = ends(stage.get("full", "7", ""), 0).out;
    assert_contains(&text, "nearest            1  ");
    assert_contains(&text, "revisits           2  ");
    let look = stage.index("lookup --kind full --jobs 7 --url http://example.org/c.png --json");
    assert_eq!(ends(look, 0).object()["filename"], Value::Null);
}
