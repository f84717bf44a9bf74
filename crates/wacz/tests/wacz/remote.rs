//! Tests packages on web servers: the amount of data downloaded, and servers that disconnect, lie, or stall.

use std::time::Duration;

use crawlspace_wacz::{Error, Location, Manifest, Options, Problem, Wacz};
use redis_tests::{
    FileHost, Manners, Rng, assert_contains, assert_lacks, assert_starts, but, rows, with,
};

use crate::all_lines;
use crate::zipped::{Part, gzip, zip};

const WACZ: &str = "/a.wacz";

/// A package with an index before the WARC file and another index after it, and the position of the WARC
/// file.
struct Package {
    bytes: Vec<u8>,
    lines: Vec<String>,
    warc: (u64, u64),
}

fn package() -> Package {
    let mut rng = Rng::seeded(7);
    let mut noise = |n: usize| -> Vec<u8> { (0..n).map(|_| rng.bits() as u8).collect() };
    let lines: Vec<String> = (0..4000)
        .map(|i| {
            let hash: String = noise(20).iter().map(|byte| format!("{byte:02x}")).collect();
            format!("com,example)/{i} 20260319102015 {{\"digest\": \"sha1:{hash}\"}}")
        })
        .collect();
    let text = |lines: &[String]| lines.join("\n") + "\n";
    let warc = noise(3_000_000);
    let first = Part::stored("indexes/a.cdx.gz", &gzip(text(&lines[..2000]).as_bytes()));
    let bytes = zip(&[
        first.clone(),
        Part::stored("archive/data.warc.gz", &warc),
        but!(Part::deflated("indexes/b.cdxj", text(&lines[2000..]).as_bytes()), descriptor: true),
        Part::stored("archive/more.warc.gz", &noise(100_000)),
        Part::stored("datapackage.json", b"{}"),
    ]);
    let mut places = bytes.windows(20);
    let at = places.position(|bytes| *bytes == warc[..20]).unwrap();
    let warc = (at as u64, warc.len() as u64);
    Package { bytes, lines, warc }
}

/// Returns options without pauses.
fn hasty() -> Options {
    with!(Options, pause: Duration::ZERO)
}

fn open_with(host: &FileHost, options: &Options) -> Result<Wacz, Error> {
    Wacz::open(&Location::parse(&host.url(WACZ)).unwrap(), options)
}

fn open(host: &FileHost) -> Result<Wacz, Error> {
    open_with(host, &hasty())
}

/// Serves a package with this server behaviour, and reads all of it.
fn lines_of(package: &Package, manners: Manners) -> (FileHost, Result<Vec<String>, Error>) {
    let host = FileHost::start();
    host.put(WACZ, &package.bytes, manners);
    let lines = open(&host).and_then(|wacz| all_lines(&wacz));
    (host, lines)
}

#[test]
fn no_warc_is_downloaded_and_no_index_twice() {
    let package = package();
    let host = FileHost::start();
    host.put(WACZ, &package.bytes, Manners::default());
    let wacz = open(&host).unwrap();
    assert_eq!(wacz.size(), package.bytes.len() as u64);
    assert_eq!(
        host.requests().len(),
        2,
        "the beginning, and the end with the directory"
    );
    assert_eq!(all_lines(&wacz).unwrap(), package.lines);
    let (requests, sent) = (host.requests().len(), host.sent());
    assert_eq!(requests, 4, "and one for each index");
    assert!(sent < package.bytes.len() as u64 / 5, "{sent} bytes");
    // The WARC file between the indexes is far from the directory, and none of it was requested.
    assert!(!host.has_sent(WACZ, package.warc.0, package.warc.1));

    assert_eq!(all_lines(&wacz).unwrap(), package.lines);
    assert_eq!(all_lines(&wacz).unwrap(), package.lines);
    assert_eq!((host.requests().len(), host.sent()), (requests, sent));
    assert_eq!(wacz.datapackage().unwrap(), "{}");
    assert_eq!(host.requests().len(), requests + 1);
}

#[test]
fn digest_of_a_remote_file_equals_that_of_its_copy() {
    let package = package();
    let folder = tempfile::tempdir().unwrap();
    let copy = crate::saved(folder.path(), "a.wacz", &package.bytes);
    let host = FileHost::start();
    host.put(
        WACZ,
        &package.bytes,
        with!(Manners, cut: Some((700_000, 2))),
    );
    let wacz = open(&host).unwrap();
    let digest = wacz.digest(|_| ()).unwrap();
    assert_eq!(digest, crate::open(&copy).unwrap().digest(|_| ()).unwrap());
}

#[test]
fn without_range_support_the_whole_file_is_fetched_once() {
    let package = package();
    for manners in [
        Manners::default(),
        with!(Manners, chunked: true),
        with!(Manners, until_closed: true),
        with!(Manners, cut: Some((1_000_000, 2))),
        with!(Manners, failing: Some((503, 3))),
    ] {
        let again = manners.cut.map_or(0, |(_, times)| times)
            + manners.failing.map_or(0, |(_, times)| times);
        let (host, lines) = lines_of(&package, but!(manners, ranges: false));
        assert_eq!(lines.unwrap(), package.lines);
        assert_eq!(host.requests().len() as u32, 1 + again);
    }
}

#[test]
fn broken_download_resumes() {
    let package = package();
    for (after, times) in [(0, 3), (1, 4), (1000, 4), (20_000, 5)] {
        let manners = with!(Manners, cut: Some((after, times)));
        let (host, lines) = lines_of(&package, manners);
        assert_eq!(lines.unwrap(), package.lines, "cut after {after}");
        // Data received earlier is not sent again, except for the four bytes of the first request.
        let undisturbed = lines_of(&package, Manners::default()).0.sent();
        let again = host.sent() - undisturbed;
        assert!(
            again < 4 * u64::from(times),
            "cut after {after}: {again} bytes"
        );
        assert_eq!(host.requests().len() as u32, 4 + times);
    }
    // Any number of failures is tolerated if there is progress in between.
    let manners = with!(Manners, cut: Some((1_500_000, u32::MAX)));
    let host = FileHost::start();
    let large = zip(&[
        Part::stored("x", &vec![1; 20 << 20]),
        Part::stored("indexes/a.cdx", b"a 2026 b"),
    ]);
    host.put(WACZ, &large, manners);
    assert_eq!(open(&host).unwrap().digest(|_| ()).unwrap().len(), 7 + 64);
    assert!(host.requests().len() > 13);
}

#[test]
fn server_that_always_disconnects_is_given_up() {
    let package = package();
    for ranges in [true, false] {
        let manners = with!(Manners, ranges, cut: Some((0, u32::MAX)));
        let (host, lines) = lines_of(&package, manners);
        let error = lines.unwrap_err();
        assert!(matches!(error.problem, Problem::Connection(_)), "{error}");
        assert_starts(&error, host.url(WACZ));
        assert_contains(&error, "6 times in a row; try again later");
        assert!(error.is_transient());
        assert_eq!(host.requests().len(), 6);
    }
}

#[test]
fn silent_server_is_given_up_and_a_recovering_one_is_not() {
    let package = package();
    let options = but!(hasty(), silence: Duration::from_millis(400), retries: 1);
    let host = FileHost::start();
    for (ranges, after) in [(true, 0), (true, 2), (false, 0), (false, 5000)] {
        host.put(
            WACZ,
            &package.bytes,
            with!(Manners, ranges, silent_after: Some(after)),
        );
        let error = open_with(&host, &options).unwrap_err();
        assert!(matches!(error.problem, Problem::Connection(_)), "{error}");
        assert!(error.is_transient());
    }
    let silent = with!(Manners, silent_after: Some(1));
    let manners = but!(silent, later: Some((3, Box::default())));
    host.put(WACZ, &package.bytes, manners);
    let options = but!(hasty(), silence: Duration::from_secs(2));
    let wacz = open_with(&host, &options).unwrap();
    assert_eq!(all_lines(&wacz).unwrap(), package.lines);
}

#[test]
fn server_errors_are_retried_and_client_errors_are_not() {
    let package = package();
    for (status, asked) in [
        (408, true),
        (425, true),
        (429, true),
        (500, true),
        (502, true),
        (503, true),
        (504, true),
        (404, false),
        (403, false),
        (410, false),
        (501, false),
    ] {
        let manners = with!(Manners, failing: Some((status, 5)));
        let (host, lines) = lines_of(&package, manners);
        if asked {
            assert_eq!(lines.unwrap(), package.lines, "{status}")
        } else {
            let error = lines.unwrap_err();
            assert!(
                matches!(error.problem, Problem::Status { status: s, .. } if s == status),
                "{error}"
            );
            assert_eq!(host.requests().len(), 1);
        }
        let (host, lines) = lines_of(&package, with!(Manners, failing: Some((status, u32::MAX))));
        let error = lines.unwrap_err();
        assert_contains(&error, format!("HTTP status {status}"));
        assert_eq!(error.is_transient(), asked || status >= 500, "{status}");
        assert_eq!(host.requests().len(), if asked { 6 } else { 1 });
    }
}

#[test]
fn shorter_ranges_than_requested_are_accepted() {
    let package = package();
    let (host, lines) = lines_of(&package, with!(Manners, shorter_ranges: Some(9000)));
    assert_eq!(lines.unwrap(), package.lines);
    assert!(host.requests().len() > 20);
    assert!(!host.has_sent(WACZ, package.warc.0, package.warc.1));
}

#[test]
fn chunked_ranges_are_accepted() {
    let package = package();
    let (_host, lines) = lines_of(&package, with!(Manners, chunked: true));
    assert_eq!(lines.unwrap(), package.lines);
    let (_host, lines) = lines_of(&package, with!(Manners, until_closed: true));
    assert_eq!(lines.unwrap(), package.lines);
}

#[test]
fn impossible_responses_are_refused() {
    let package = package();
    let honest = Manners::default;
    for (name, manners) in [
        ("another range", but!(honest(), range_lie: 1)),
        (
            "an earlier range",
            Manners {
                later: Some((2, Box::new(but!(honest(), range_lie: -1)))),
                ..honest()
            },
        ),
        ("no range", but!(honest(), no_content_range: true)),
        (
            "no range later",
            Manners {
                later: Some((3, Box::new(but!(honest(), no_content_range: true)))),
                ..honest()
            },
        ),
        (
            "a length that is not that of the range",
            but!(honest(), length_lie: 5),
        ),
        ("a shorter one", but!(honest(), length_lie: -1)),
        ("compressed", but!(honest(), encoding: Some("gzip".into()))),
        (
            "compressed as a whole",
            but!(honest(), encoding: Some("br".into()), ranges: false),
        ),
    ] {
        let (_host, lines) = lines_of(&package, manners);
        let error = lines.expect_err(name);
        assert!(
            matches!(error.problem, Problem::Answer(_)),
            "{name}: {error}"
        );
        assert!(
            error
                .to_string()
                .contains("download the file and use the copy"),
            "{name}: {error}"
        );
    }
    // If the total size is wrong in all responses, the directory is not at the expected offset.
    for total_lie in [-1, 1, 100_000, i64::MIN] {
        let (_host, lines) = lines_of(&package, but!(honest(), total_lie));
        lines.expect_err("a wrong total");
    }
    // The server sends the whole file, but the stated length is wrong.
    for length_lie in [-1, -50_000, 1, 50_000] {
        let (_host, lines) = lines_of(&package, but!(honest(), length_lie, ranges: false));
        lines.expect_err("a wrong length");
    }
}

#[test]
fn file_that_changes_meanwhile_is_noticed() {
    let package = package();
    let first = Manners {
        etag: Some("\"1\"".into()),
        last_modified: Some("Thu, 19 Mar 2026 10:20:15 GMT".into()),
        ..Manners::default()
    };
    for later in [
        but!(first.clone(), etag: Some("\"2\"".into())),
        but!(first.clone(), last_modified: Some("Thu, 19 Mar 2026 10:20:16 GMT".into())),
        but!(first.clone(), total_lie: 1),
        but!(first.clone(), ranges: false, etag: Some("\"2\"".into())),
    ] {
        for from in [2, 3, 4] {
            let manners = but!(first.clone(), later: Some((from, Box::new(later.clone()))));
            let (_host, lines) = lines_of(&package, manners);
            let error = lines.unwrap_err();
            assert!(
                matches!(error.problem, Problem::Changed(_)),
                "from request {from}: {error}"
            );
            assert!(error.is_transient());
        }
    }
    // Replace the file by a shorter file.
    let host = FileHost::start();
    host.put(WACZ, &package.bytes, Manners::default());
    let wacz = open(&host).unwrap();
    host.put(WACZ, &package.bytes[..50], Manners::default());
    let error = all_lines(&wacz).unwrap_err();
    assert!(matches!(error.problem, Problem::Changed(_)), "{error}");
    // The second request may reach another server with the same name, and succeeds.
    let manners = Manners {
        later: Some((
            2,
            Box::new(with!(Manners, ranges: false, later: Some((4, Box::default())))),
        )),
        ..Manners::default()
    };
    let (_host, lines) = lines_of(&package, manners);
    assert_eq!(lines.unwrap(), package.lines);
}

#[test]
fn redirects_are_followed_up_to_a_limit() {
    let package = package();
    let host = FileHost::start();
    let to = |path: &str| with!(Manners, redirect: Some(path.to_owned()));
    host.put(WACZ, b"", to("/b?key=1"));
    host.put("/b?key=1", b"", to(&host.url("/c")));
    host.put("/c", &package.bytes, Manners::default());
    assert_eq!(all_lines(&open(&host).unwrap()).unwrap(), package.lines);
    for target in [WACZ, "ftp://example.org/a.wacz", "file:///etc/passwd"] {
        host.put(WACZ, b"", to(target));
        let error = open(&host).unwrap_err();
        let told = error.to_string();
        assert_contains(&told, "it redirects");
    }
}

#[test]
fn endless_body_ends_at_the_limit() {
    let package = package();
    let options = but!(hasty(), download: 5 << 20);
    let host = FileHost::start();
    for ranges in [false, true] {
        host.put(WACZ, &package.bytes, with!(Manners, endless: true, ranges));
        let error = open_with(&host, &options).unwrap_err();
        let too_large = matches!(
            error.problem,
            Problem::TooLarge {
                option: "download",
                ..
            }
        );
        assert!(
            too_large || ranges && matches!(error.problem, Problem::Answer(_)),
            "{error}"
        );
    }
    // A download whose stated size is too large is not started.
    host.put(WACZ, &vec![0; 6 << 20], with!(Manners, ranges: false));
    let error = open_with(&host, &options).unwrap_err();
    assert!(matches!(error.problem, Problem::TooLarge { .. }), "{error}");
    // Reading a manifest stops at the limit, too.
    host.put("/m.json", b" ", with!(Manners, endless: true));
    let options = but!(hasty(), manifest: 1 << 20);
    let error =
        Manifest::open(&Location::parse(&host.url("/m.json")).unwrap(), &options).unwrap_err();
    assert!(
        matches!(
            error.problem,
            Problem::TooLarge {
                option: "manifest",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn invalid_package_is_described_by_its_apparent_type() {
    let host = FileHost::start();
    let texts: [(&[u8], &str); 6] = rows![
        b"<!DOCTYPE html>\n<title>Log in</title>", "it looks like HTML";
        b"{\"resources\": []}", "it looks like JSON";
        b"WARC/1.1\r\n", "it is a WARC file";
        b"\x1f\x8b\x08", "it is a gzip file";
        b"PK\x03\x04", "it begins as a zip file, but is truncated";
        b"", "the file is empty";
    ];
    for (text, told) in texts {
        for ranges in [true, false] {
            host.put(WACZ, text, with!(Manners, ranges));
            let error = open(&host).unwrap_err();
            assert!(matches!(error.problem, Problem::NotZip(_)), "{error}");
            assert_contains(&error, told);
        }
    }
}

#[test]
fn remote_list_is_read_with_the_same_timeouts() {
    let package = package();
    let host = FileHost::start();
    let list = br#"{"resources": [{"path": "a.wacz"}]}"#;
    host.put(WACZ, &package.bytes, Manners::default());
    let open_list =
        |path: &str| Manifest::open(&Location::parse(&host.url(path)).unwrap(), &hasty());
    for manners in [
        Manners::default(),
        with!(Manners, failing: Some((503, 2))),
        with!(Manners, cut: Some((10, 2))),
        with!(Manners, chunked: true),
    ] {
        host.put("/m.json", list, manners);
        let manifest = open_list("/m.json").unwrap();
        assert!(manifest.is_full);
        let location = manifest.entries[0].location.clone().unwrap();
        assert_eq!(
            all_lines(&Wacz::open(&location, &hasty()).unwrap()).unwrap(),
            package.lines
        );
    }
    host.put("/download?id=1", &package.bytes, Manners::default());
    host.take_requests();
    assert!(!open_list("/download?id=1").unwrap().is_full);
    assert_eq!(host.requests().len(), 1);
    assert!(!open_list("/a.wacz?id=1").unwrap().is_full);
    assert_eq!(
        host.requests().len(),
        1,
        "its name tells, and nothing is asked for"
    );
    let error = open_list("/none.json").unwrap_err();
    assert!(
        matches!(error.problem, Problem::Status { status: 404, .. }),
        "{error}"
    );
}

#[test]
fn unreachable_server_is_reported() {
    let host = FileHost::start();
    let url = host.url(WACZ);
    drop(host);
    let location = Location::parse(&url).unwrap();
    let error = Wacz::open(&location, &but!(hasty(), retries: 1)).unwrap_err();
    assert_contains(&error, "no connection to the server");
    assert!(error.is_transient());
}

#[test]
fn downloads_leave_nothing_behind() {
    let package = package();
    let folder = tempfile::tempdir().unwrap();
    let options = but!(hasty(), folder: Some(folder.path().to_owned()));
    let host = FileHost::start();
    for ranges in [true, false] {
        host.put(WACZ, &package.bytes, with!(Manners, ranges));
        let wacz = open_with(&host, &options).unwrap();
        assert_eq!(all_lines(&wacz).unwrap(), package.lines);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
    host.put(WACZ, &package.bytes, with!(Manners, ranges: false));
    let nowhere = but!(hasty(), folder: Some(folder.path().join("none")));
    let error = open_with(&host, &nowhere).unwrap_err();
    assert_contains(&error, "none (folder for downloads)");
}

#[test]
fn range_of_unknown_total_size_leads_to_a_full_download() {
    let package = package();
    let unknown = with!(Manners, unknown_total: true);
    let (host, lines) = lines_of(&package, unknown);
    assert_eq!(lines.unwrap(), package.lines);
    assert_eq!(host.requests().len(), 2);
    // Later responses contain less information than the first response.
    let later = Some((2, Box::new(with!(Manners, unknown_total: true))));
    let (_host, lines) = lines_of(&package, with!(Manners, later));
    assert_eq!(lines.unwrap(), package.lines);
}

#[test]
fn secrets_are_sent_only_to_their_server_and_shown_in_no_error() {
    let package = package();
    let (host, other) = (FileHost::start(), FileHost::start());
    let secret = |host: &FileHost| {
        host.url("/a.wacz?key=s3cret")
            .replace("http://", "http://user:passw0rd@")
    };
    let location = Location::parse(&secret(&host)).unwrap();
    let error = Wacz::open(&location, &hasty()).unwrap_err();
    let told = format!("{error} {error:?} {location}");
    assert_lacks(&told, "s3cret");
    assert_lacks(&told, "passw0rd");

    let sends_on = with!(Manners, redirect: Some(other.url("/b.wacz")));
    host.put("/a.wacz?key=s3cret", b"", sends_on);
    other.put("/b.wacz", &package.bytes, Manners::default());
    assert_eq!(
        all_lines(&Wacz::open(&location, &hasty()).unwrap()).unwrap(),
        package.lines
    );
    for request in host.requests() {
        let expected = "Basic dXNlcjpwYXNzdzByZA==";
        assert_eq!(request.fields["authorization"], expected);
        assert_eq!(request.fields["accept-encoding"], "identity");
        assert!(request.fields["user-agent"].starts_with("crawlspace/"));
    }
    for request in other.requests() {
        assert!(!request.fields.contains_key("authorization"), "{request:?}");
        assert!(!request.fields.contains_key("referer"), "{request:?}");
    }
}
