//! Tests files and listings on web servers.

use std::fs;

use redis_tests::metadata::{Form, metadata};
use redis_tests::{FileHost, Manners, ScriptedHost, answer, assert_lacks, but, with};

use super::*;

fn page(links: &[&str]) -> String {
    let links: Vec<String> = links
        .iter()
        .map(|link| format!("<a href=\"{link}\">{link}</a> 22-May-2013 10:00 1M\n"))
        .collect();
    format!(
        "<html><head><title>Index of /</title></head><body><pre>{}</pre></body></html>",
        links.concat()
    )
}

fn put(host: &FileHost, path: &str, job: u64, manners: Manners) -> Vec<u8> {
    let bytes = metadata("x", job, 3, CRAWL_LOG, Some(CDX), Form::WarcGz);
    host.put(path, &bytes, manners);
    bytes
}

fn list(host: &FileHost, path: &str, text: impl AsRef<[u8]>) {
    host.put(path, text.as_ref(), Manners::default());
}

fn found(archive: &Archive, job: u64) -> bool {
    read(archive, job).unwrap().1 == both()
}

fn asked(host: &FileHost) -> Vec<String> {
    host.requests()
        .into_iter()
        .map(|request| request.path)
        .collect()
}

#[test]
fn listing_is_followed_only_below_itself() {
    let host = FileHost::start();
    let other = FileHost::start();
    list(
        &host,
        "/a/",
        page(&[
            "?C=N;O=D",
            "../",
            "/",
            "/a/",
            "/b/",
            "b%20c/",
            "7-metadata-1.warc.gz",
            "/a/8-metadata-1.warc.gz",
            "/elsewhere/11-metadata-1.warc.gz",
            &other.url("/a/12-metadata-1.warc.gz"),
            "notes.txt",
            "mailto:x@a.example",
        ]),
    );
    list(
        &host,
        "/a/b%20c/",
        page(&["../", "./", "/a/", "9-metadata-1.warc.gz", "gone/"]),
    );
    for job in 7..=12 {
        let folder = if job == 9 { "/a/b%20c" } else { "/a" };
        put(
            &host,
            &format!("{folder}/{job}-metadata-1.warc.gz"),
            job,
            Manners::default(),
        );
    }
    let archive = archive(&[&host.url("/a/")]);
    for job in [7, 8, 9] {
        assert!(found(&archive, job), "{job}");
    }
    for job in [10, 11, 12] {
        assert!(!found(&archive, job), "{job}");
    }
    let asked = asked(&host);
    for beyond in [
        "/",
        "/b/",
        "/a/notes.txt",
        "/elsewhere/11-metadata-1.warc.gz",
    ] {
        assert!(!asked.iter().any(|path| path == beyond), "{asked:?}");
    }
    assert!(other.requests().is_empty());
}

#[test]
fn lists_of_servers_may_be_lines_or_json() {
    let host = FileHost::start();
    let other = FileHost::start();
    put(&host, "/x/7-metadata-1.warc.gz", 7, Manners::default());
    put(&host, "/x/sub/8-metadata-1.warc.gz", 8, Manners::default());
    let elsewhere = "/9-metadata-1.warc.gz";
    put(&other, elsewhere, 9, Manners::default());
    list(
        &host,
        "/x/sub/",
        r#"[{"name":"8-metadata-1.warc.gz","type":"file","mtime":"x","size":3}]"#,
    );
    let elsewhere = other.url(elsewhere);
    for text in [
        format!("# list\n7-metadata-1.warc.gz\n\nsub/\n{elsewhere}\nnotes.txt\n"),
        format!(r#"["7-metadata-1.warc.gz", "sub/", "{elsewhere}"]"#),
        format!(
            r#"[{{"name":"sub","type":"directory"}},{{"name":"7-metadata-1.warc.gz","type":"file"}},"{elsewhere}"]"#
        ),
    ] {
        list(&host, "/x/list", &text);
        let archive = archive(&[&host.url("/x/list")]);
        for job in [7, 8, 9] {
            assert!(found(&archive, job), "{job} in {text}");
        }
    }
    list(&host, "/x/list", "file:///etc/7-metadata-1.warc.gz");
    let text = failure(&archive(&[&host.url("/x/list")]), 7);
    assert_says(&text, &["/x/list", "file:///etc"]);
}

#[test]
fn local_list_may_name_urls() {
    let host = FileHost::start();
    put(&host, "/7-metadata-1.warc.gz", 7, Manners::default());
    put(&host, "/a/8-metadata-1.warc.gz", 8, Manners::default());
    list(&host, "/a/", page(&["8-metadata-1.warc.gz"]));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("list");
    let text = format!(
        "{}\n{}\n",
        host.url("/7-metadata-1.warc.gz"),
        host.url("/a/")
    );
    fs::write(&file, text).unwrap();
    let archive = archive_at(&file);
    assert!(found(&archive, 7) && found(&archive, 8));
}

#[test]
fn folder_without_a_slash_is_redirected() {
    let host = FileHost::start();
    let sent_on = |to: &str| with!(Manners, redirect: Some(to.to_owned()));
    host.put("/a", b"", sent_on("/a/"));
    list(&host, "/a/", page(&["7-metadata-1.warc.gz"]));
    put(&host, "/a/7-metadata-1.warc.gz", 7, Manners::default());
    assert!(found(&archive(&[&host.url("/a")]), 7));

    // A login page would look like an empty folder.
    host.put("/b/", b"", sent_on("/login"));
    list(&host, "/login", "<html><a href=\"x\">log in</a></html>");
    assert_says(
        &failure(&archive(&[&host.url("/b/")]), 7),
        &["/b/", "it redirects to", "/login"],
    );
    // A login page would also look like an invalid metadata file.
    host.put("/8-metadata-1.warc.gz", b"", sent_on("/login"));
    let text = failure(&archive(&[&host.url("/8-metadata-1.warc.gz")]), 8);
    assert_says(
        &text,
        &[
            "/8-metadata-1.warc.gz",
            "redirected to",
            "/login",
            "no WARC record begins",
        ],
    );
    list(&host, "/c/", "<html>It works!</html>");
    assert_says(
        &failure(&archive(&[&host.url("/c/")]), 7),
        &["/c/", "not a listing"],
    );
    list(&host, "/c/", page(&[]));
    assert!(!found(&archive(&[&host.url("/c/")]), 7));
}

#[test]
fn failed_listing_removes_no_job() {
    let host = FileHost::start();
    list(&host, "/a/", page(&["7-metadata-1.warc.gz", "b/"]));
    put(&host, "/a/7-metadata-1.warc.gz", 7, Manners::default());
    for status in [403, 500, 503] {
        let manners = with!(Manners, failing: Some((status, u32::MAX)));
        host.put("/a/b/", b"", manners);
        let text = failure(&archive(&[&host.url("/a/")]), 7);
        assert_says(&text, &["/a/b/", &status.to_string()]);
    }
    assert_says(
        &failure(&archive(&[&host.url("/gone/")]), 7),
        &["/gone/", "404"],
    );
    let text = failure(&archive(&["http://127.0.0.1:1/"]), 7);
    assert_says(&text, &["http://127.0.0.1:1/", "no connection"]);
}

#[test]
fn transient_failures_are_retried() {
    let host = FileHost::start();
    let busy = with!(Manners, failing: Some((503, 1)));
    host.put(
        "/a/",
        page(&["7-metadata-1.warc.gz"]).as_bytes(),
        busy.clone(),
    );
    put(&host, "/a/7-metadata-1.warc.gz", 7, busy);
    assert!(found(&archive(&[&host.url("/a/")]), 7));
}

#[test]
fn unavailable_file_is_reported() {
    let host = FileHost::start();
    let path = "/7-metadata-1.warc.gz";
    let url = host.url(path);
    let archive = archive(&[&url]);
    assert_says(&failure(&archive, 7), &[&url, "404"]);
    let failing = |status| with!(Manners, failing: Some((status, u32::MAX)));
    for status in [401, 500, 503] {
        put(&host, path, 7, failing(status));
        assert_says(&failure(&archive, 7), &[&url, &status.to_string()]);
    }
    let cycle = with!(Manners, redirect: Some(path.to_owned()));
    put(&host, path, 7, cycle);
    assert_says(&failure(&archive, 7), &[&url, "redirects"]);
    host.put(path, b"", Manners::default());
    assert_says(&failure(&archive, 7), &[&url, "empty"]);
}

#[test]
fn broken_download_resumes() {
    let (crawl_log, cdx) = redis_tests::harvest::logs(7, 1, 5_000);
    let bytes = metadata("x", 7, 3, &crawl_log, Some(&cdx), Form::WarcGz);
    let host = FileHost::start();
    let expected = [(Kind::CrawlLog, crawl_log), (Kind::Cdx, cdx)];
    for ranges in [true, false] {
        let manners = with!(Manners, ranges, cut: Some((50_000, 1)));
        let path = "/7-metadata-1.warc.gz";
        host.put(path, &bytes, manners);
        let (found, records) = read(&archive(&[&host.url(path)]), 7).unwrap();
        assert_eq!(records, expected);
        assert_eq!(found.files[0].size, bytes.len() as u64);
    }
}

#[test]
fn partial_file_is_refused() {
    let host = FileHost::start();
    let path = "/7-metadata-1.warc.gz";
    let url = host.url(path);
    let often = |ranges, chunked| with!(Manners, ranges, chunked, cut: Some((300, u32::MAX)));
    let longer = with!(Manners, length_lie: 100);
    let another = Manners {
        cut: Some((300, 1)),
        etag: Some("\"1\"".to_owned()),
        later: Some((2, Box::new(with!(Manners, etag: Some("\"2\"".to_owned()))))),
        ..Manners::default()
    };
    for (manners, why) in [
        (often(false, false), "connection lost"),
        (often(false, true), "connection lost"),
        (longer, "shorter"),
        (another, "changed"),
    ] {
        put(&host, path, 7, manners);
        assert_says(&failure(&archive(&[&url]), 7), &[&url, "offset", why]);
    }
}

#[test]
fn passwords_in_urls_are_not_shown() {
    let host = FileHost::start();
    let url = host
        .url("/7-metadata-1.warc.gz?key=secret")
        .replace("http://", "http://user:secret@");
    let text = failure(&archive(&[&url]), 7);
    assert_says(&text, &["/7-metadata-1.warc.gz", "404"]);
    assert_lacks(&text, "secret");
}

#[test]
fn content_encoding_of_a_gzip_file_is_accepted() {
    let host = FileHost::start();
    let packed = with!(Manners, encoding: Some("x-gzip".to_owned()));
    put(&host, "/7-metadata-1.warc.gz", 7, packed.clone());
    let url = host.url("/7-metadata-1.warc.gz");
    assert!(found(&archive(&[&url]), 7));
    // The server compressed the file in transit, so storing the received bytes would give a
    // different file.
    put(&host, "/7-metadata-1.warc", 7, packed);
    let url = host.url("/7-metadata-1.warc");
    assert_says(&failure(&archive(&[&url]), 7), &[&url, "x-gzip"]);
}

#[test]
fn concurrent_requests_scan_once() {
    let host = FileHost::start();
    list(&host, "/a/", page(&["7-metadata-1.warc.gz"]));
    put(&host, "/a/7-metadata-1.warc.gz", 7, Manners::default());
    let seldom = but!(options(), rescan: Duration::from_secs(3600));
    let archive = Archive::open_with(&[host.url("/a/")], seldom).unwrap();
    std::thread::scope(|scope| {
        for job in 0..8 {
            let archive = &archive;
            scope.spawn(move || assert_eq!(found(archive, job), job == 7));
        }
    });
    let looks = asked(&host).iter().filter(|path| *path == "/a/").count();
    assert_eq!(looks, 1);
}

#[test]
fn endless_folders_are_an_error() {
    let host = ScriptedHost::start(|_| answer(200, &[], page(&["deeper/", "./"])));
    let text = failure(&archive(&[&host.url("/a/")]), 7);
    assert_says(&text, &["/a/", "64 levels deep"]);
    assert!(host.asked().len() < 100);
}
