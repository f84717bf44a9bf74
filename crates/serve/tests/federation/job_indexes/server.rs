//! Tests of the server's responses to requests for an index.

use std::io::Read;

use crawlspace_jobs::{IndexKind, Manifest, Work};
use redis_tests::http::{Answer, ask, get};
use redis_tests::metadata::Form;
use redis_tests::{assert_contains, assert_lacks, rows, until};

use crate::job_indexes::archive::Stage as Archive;
use crate::serving::Stage;

/// Starts a server that only offers the job indexes of an archive.
pub fn start(archive: &Archive) -> Stage {
    start_with(archive, "")
}

/// Starts a server with the job indexes of an archive, and with further lines of configuration.
pub fn start_with(archive: &Archive, more: &str) -> Stage {
    Stage::start(&config(archive, more))
}

pub fn config(archive: &Archive, more: &str) -> String {
    format!(
        "indexes:\n  cache_dir: {}\n  metadata: {}\n{more}",
        archive.cache_dir().display(),
        archive.archive().display()
    )
}

/// Returns a value of `/_metrics`.
pub fn figure(server: &Stage, name: &str) -> u64 {
    let metrics = get(server.operator(), "/_metrics").text();
    let begin = format!("crawlspace_index_{name}");
    let line = metrics.lines().find(|line| line.starts_with(&begin));
    let value = line.and_then(|line| line.rsplit(' ').next());
    value.and_then(|value| value.parse().ok()).expect(&metrics)
}

pub fn json(answer: &Answer) -> serde_json::Value {
    let value = serde_json::from_slice(&answer.body);
    value.unwrap_or_else(|error| panic!("{error}: {}", answer.text()))
}

#[test]
fn index_is_a_tar_of_its_entry() {
    let archive = Archive::with_jobs("1,2", 300);
    let server = start(&archive);
    for (kind, files) in rows![
        "dedup", &["digest.cdxj.gz", "digest.idx", "url.cdxj.gz", "url.idx"][..];
        "full", &["digest.cdxj.gz", "digest.idx", "url.cdxj.gz", "url.idx"];
        "cdx", &["index.cdx"];
    ] {
        let answer = get(server.address(), &format!("/_indexes/{kind}?jobs=1-2"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.media_type(), "application/x-tar");
        assert_eq!(answer.field("jobs-found"), Some("1,2"));
        assert_eq!(answer.field("jobs-missing"), None);
        let name = "attachment; filename=\"1-2-cache.tar\"";
        assert_eq!(answer.field("content-disposition"), Some(name));
        let length = answer.body.len().to_string();
        assert_eq!(answer.field("content-length"), Some(&*length));

        let mut tar = tar::Archive::new(&answer.body[..]);
        let mut members = tar.entries().unwrap().map(Result::unwrap);
        let mut first = members.next().unwrap();
        assert_eq!(first.path().unwrap().to_str(), Some("manifest.json"));
        let mut bytes = Vec::new();
        first.read_to_end(&mut bytes).unwrap();
        let manifest = Manifest::parse(&bytes).unwrap();
        let tag = format!("\"{}\"", manifest.checksum);
        assert_eq!(answer.field("etag"), Some(&*tag));
        let mut names = Vec::new();
        for (mut member, file) in members.zip(&manifest.files) {
            names.push(member.path().unwrap().display().to_string());
            let mut bytes = Vec::new();
            member.read_to_end(&mut bytes).unwrap();
            assert_eq!(bytes.len() as u64, file.size);
        }
        assert_eq!(names, files);
    }
}

#[test]
fn foreign_page_cannot_start_a_build() {
    let archive = Archive::with_jobs("1", 50);
    let server = start(&archive);
    let target = "/_indexes/full?jobs=1";
    let status = |fields: &[(&str, &str)]| {
        let answer = ask(server.address(), "GET", target, fields, b"");
        answer.unwrap().status
    };
    assert_eq!(status(&[("Sec-Fetch-Site", "cross-site")]), 403);
    assert_eq!(status(&[("Origin", "http://evil.example")]), 403);
    assert_eq!(figure(&server, "builds_total"), 0);
    assert_eq!(status(&[("Sec-Fetch-Site", "same-origin")]), 200);
    assert_eq!(status(&[]), 200);
}

#[test]
fn known_version_is_not_sent_again() {
    let archive = Archive::with_jobs("1", 50);
    let server = start(&archive);
    let target = "/_indexes/full?jobs=1,7";
    let first = get(server.address(), target);
    let tag = first.field("etag").unwrap();
    let fields = [("If-None-Match", tag)];
    let again = ask(server.address(), "GET", target, &fields, b"").unwrap();
    assert_eq!((again.status, again.body.len()), (304, 0));
    assert_eq!(again.field("etag"), Some(tag));
    assert_eq!(again.field("jobs-missing"), Some("7"));
    let fields = [("If-None-Match", "\"other\"")];
    let again = ask(server.address(), "GET", target, &fields, b"").unwrap();
    assert_eq!(again.status, 200);
    assert!(again.body == first.body);

    let head = ask(server.address(), "HEAD", target, &[], b"").unwrap();
    assert_eq!(head.status, 200);
    let without_date = |answer: &Answer| {
        let mut fields = answer.fields.clone();
        fields.retain(|(name, _)| !matches!(&name[..], "date" | "x-request-id"));
        fields
    };
    assert_eq!(without_date(&head), without_date(&first));
}

#[test]
fn missing_jobs_are_reported_with_the_reason() {
    let archive = Archive::with_jobs("1,2", 50);
    let server = start(&archive);
    let answer = get(server.address(), "/_indexes/dedup?jobs=2,1,7");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.field("jobs-found"), Some("1,2"));
    assert_eq!(answer.field("jobs-missing"), Some("7"));
    let expected = Some(r#"{"7":"no-job"}"#);
    assert_eq!(answer.field("jobs-missing-reasons"), expected);
    let name = "attachment; filename=\"1-2-cache.tar\"";
    assert_eq!(answer.field("content-disposition"), Some(name));
    // The reasons are reported even if no job is found.
    let answer = get(server.address(), "/_indexes/dedup?jobs=7");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.field("jobs-found"), Some(""));
    let name = "attachment; filename=\"empty-cache.tar\"";
    assert_eq!(answer.field("content-disposition"), Some(name));
}

#[test]
fn unreadable_files_disclose_no_paths() {
    let archive = Archive::with_jobs("1,2", 50);
    let folder = archive.archive().display().to_string();
    let file = std::fs::read_dir(archive.archive()).unwrap().flatten();
    let file = file.map(|file| file.path()).find(|path| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with("2-metadata")
    });
    let file = file.unwrap();
    let mut broken = std::fs::read(&file).unwrap();
    broken.truncate(broken.len() * 2 / 3);
    std::fs::write(&file, broken).unwrap();
    let server = start(&archive);
    let answer = get(server.address(), "/_indexes/full?jobs=1,2");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let expected = Some(r#"{"2":{"unreadable":"its metadata cannot be read"}}"#);
    assert_eq!(answer.field("jobs-missing-reasons"), expected);
    until("the log contains the error", || {
        let log = server.log();
        log.lines()
            .any(|line| line.contains("cannot be read") && line.contains("2-metadata"))
    });
    assert!(!format!("{:?}", answer.fields).contains(&folder));
}

#[test]
fn notes_in_manifests_name_no_folder() {
    let archive = Archive::new();
    let (mut crawl_log, cdx) = archive.logs(1, 50);
    crawl_log.extend_from_slice(b"no line\n");
    // Adds the same job uncompressed and compressed.
    for form in [Form::Warc, Form::WarcGz] {
        archive.add_logs(1, &crawl_log, Some(&cdx), form);
    }
    let server = start(&archive);
    let answer = get(server.address(), "/_indexes/full?jobs=1");
    assert_eq!(answer.field("jobs-found"), Some("1"));
    let mut tar = tar::Archive::new(&answer.body[..]);
    let mut first = tar.entries().unwrap().next().unwrap().unwrap();
    let mut manifest = String::new();
    first.read_to_string(&mut manifest).unwrap();
    assert_contains(&manifest, "is skipped");
    assert_contains(&manifest, "1-metadata-1.warc.gz (metadata://");
    let folder = archive.archive().display().to_string();
    assert_lacks(&manifest, &folder);
}

#[test]
fn long_lists_are_omitted_from_headers() {
    let archive = Archive::with_jobs("2", 50);
    let server = start(&archive);
    let jobs: Vec<String> = (1..20_000).step_by(2).map(|job| job.to_string()).collect();
    let jobs = format!("2,{}", jobs.join(","));
    let answer = get(server.address(), &format!("/_indexes/full?jobs={jobs}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.field("jobs-found"), Some("2"));
    assert_eq!(answer.field("jobs-missing"), None);
    let reasons = answer.field("jobs-missing-reasons").unwrap();
    assert!(reasons.len() <= 8192, "{}", reasons.len());
    let desk = crate::job_indexes::parcels::Desk::new();
    let index = desk.strict(&server.url()).get_index(
        IndexKind::Full,
        &crate::job_indexes::parcels::set(&jobs),
        &Work::default(),
    );
    let index = index.unwrap();
    assert_eq!((index.found.len(), index.missing.len()), (1, 10_000));
}

#[test]
fn job_list_too_long_for_a_url_is_refused_with_advice() {
    let archive = Archive::with_jobs("1", 10);
    let server = start(&archive);
    let jobs: Vec<String> = (1..40_000).step_by(2).map(|job| job.to_string()).collect();
    let desk = crate::job_indexes::parcels::Desk::new();
    let client = desk.strict(&server.url());
    let jobs = crate::job_indexes::parcels::set(&jobs.join(","));
    let refused = client.get_index(IndexKind::Full, &jobs, &Work::default());
    let error = refused.unwrap_err().to_string();
    assert_contains(&error, "too long for a URL");
    assert_eq!(desk.files(), [""; 0]);
}

#[test]
fn invalid_request_is_refused() {
    let archive = Archive::with_jobs("1", 10);
    let server = start(&archive);
    for (target, status, what) in rows![
        "/_indexes/x?jobs=1", 404, "use dedup, full or cdx";
        "/_indexes/dedup/x?jobs=1", 404, "use dedup, full or cdx";
        "/_indexes/dedup", 400, "jobs is missing";
        "/_indexes/dedup?jobs=1,x3", 400, "x3";
        "/_indexes/dedup?jobs=1-200000", 400, "more than 100000";
        "/_indexes/dedup?jobs=1&wait=301", 400, "from 0 to 300";
    ] {
        let answer = get(server.address(), target);
        assert_eq!(answer.status, status, "{target}: {}", answer.text());
        let message = json(&answer)["message"].as_str().unwrap().to_owned();
        assert!(message.contains(what), "{target}: {message}");
    }
    let posted = ask(server.address(), "POST", "/_indexes/dedup?jobs=1", &[], b"").unwrap();
    assert_eq!(posted.status, 405);
    let other = Stage::start("collections: {a: $live}");
    let answer = get(other.address(), "/_indexes/dedup?jobs=1");
    assert_eq!(answer.status, 404);
    assert!(answer.text().contains("add indexes to its configuration"));
    assert_eq!(
        json(&get(other.operator(), "/_status"))["indexes"],
        serde_json::Value::Null
    );
}

#[test]
fn available_indexes_are_listed() {
    let archive = Archive::with_jobs("1-3", 50);
    let server = start(&archive);
    let nothing = json(&get(server.address(), "/_indexes"));
    assert_eq!(nothing["kinds"]["dedup"], serde_json::json!([]));
    assert_eq!(nothing["building"], serde_json::json!([]));
    for jobs in ["1,2", "1,2", "3"] {
        let answer = get(server.address(), &format!("/_indexes/full?jobs={jobs}"));
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let listed = json(&get(server.address(), "/_indexes"));
    let entries = listed["kinds"]["full"].as_array().unwrap();
    let names: Vec<_> = entries
        .iter()
        .map(|one| one["entry"].as_str().unwrap())
        .collect();
    // Indexes of single jobs are the parts of larger ones.
    assert_eq!(names, ["1-2-cache", "1-cache", "2-cache", "3-cache"]);
    assert_eq!(entries[0]["jobs"], "1,2");
    assert!(entries[0]["size"].as_u64().unwrap() > 1000);
    for time in ["made", "used"] {
        assert!(
            entries[0][time].as_str().unwrap().ends_with('Z'),
            "{listed}"
        );
    }

    let status = json(&get(server.operator(), "/_status"));
    assert_eq!(status["collections"], serde_json::json!([]));
    assert_eq!(status["indexes"]["full"]["entries"], 4);
    assert_eq!(status["indexes"]["health"], "ok");
    let metrics = get(server.operator(), "/_metrics").text();
    assert_contains(&metrics, "crawlspace_index_entries{kind=\"full\"} 4\n");
    assert_contains(&metrics, "crawlspace_index_entries{kind=\"cdx\"} 0\n");
    // Expected: two files of lines for each of three jobs, an index for each job, and the index of two jobs.
    assert_eq!(figure(&server, "builds_total"), 10);
    assert!(figure(&server, "hits_total") >= 1);
    assert_eq!(figure(&server, "failures_total"), 0);
}

#[test]
fn limits_are_respected() {
    let archive = Archive::with_jobs("1-9", 50);
    let server = start_with(&archive, "  limits: {max_size: 1, grace: 0}\n");
    let mut job = 0;
    until("an index is evicted", || {
        job = job % 9 + 1;
        let answer = get(server.address(), &format!("/_indexes/full?jobs={job}"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        figure(&server, "evicted_total") > 0
    });
}
