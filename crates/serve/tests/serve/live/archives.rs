//! Tests of records of captures that archives replay.

use std::io::Write;

use crawlspace_fetch::Net;
use crawlspace_index::source::SourceError;
use crawlspace_serve::resource::capture::Capture;
use crawlspace_serve::resource::client_request::ClientRequest;
use crawlspace_serve::resource::live;
use crawlspace_serve::resource::record::{LoadError, Record};
use flate2::write::GzEncoder;
use redis_tests::archive::collection::sha1_base32;

use crate::live::warcio::{digest, verdicts};
use crate::live::{bytes_of, limits, net, refusal, row, taken_apart, text};
use redis_tests::{ScriptedHost, once, rows};

const URL: &str = "http://example.com/";

/// Returns a row of a capture that the stub replays.
fn replayed(stub: &ScriptedHost, source_type: &str, status: &str) -> Capture {
    let replay = stub.url(&format!("/web/20160101000000id_/{URL}"));
    let fields = [("url", URL), ("status", status), ("live_url", &replay)];
    row(source_type, "20160101000000", &fields)
}

async fn load(row: &Capture) -> Result<Record, LoadError> {
    live::load(&net(), &limits(), row, &ClientRequest::default()).await
}

#[tokio::test]
async fn captures_are_recorded_as_captured() {
    let memento = "Memento-Datetime: Sat, 02 Jan 2016 03:04:05 GMT\r\n";
    let folder = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    let cases = [
        (
            "plain",
            format!(
                "HTTP/1.1 200 OK\r\nServer: Apache\r\n{memento}Link: <{URL}>; rel=\"original\"\r\nContent-Length: 5\r\n\r\nhello"
            ),
            "HTTP/1.1 200 OK\r\nServer: Apache\r\nContent-Length: 5\r\n\r\n",
        ),
        (
            "chunked-on-the-way",
            format!(
                "HTTP/1.1 200 OK\r\n{memento}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n"
            ),
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
        ),
        (
            "until-close",
            format!("HTTP/1.0 404 Gone\r\n{memento}X-Archive-Orig-Content-Length: 5\r\n\r\nhello"),
            "HTTP/1.0 404 Gone\r\nContent-Length: 5\r\n\r\n",
        ),
        (
            "wrapped",
            format!(
                "HTTP/1.1 200 OK\r\nServer: nginx\r\nX-Archive-Src: a.warc.gz\r\n{memento}Content-Type: text/plain\r\n\
                 X-Archive-Orig-Server: Apache\r\nX-Archive-Orig-Transfer-Encoding: chunked\r\n\
                 X-Archive-Orig-Content-Length: 9\r\nContent-Length: 5\r\n\r\nhello"
            ),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nServer: Apache\r\nX-Archive-Orig-Transfer-Encoding: chunked\r\n\
             X-Archive-Orig-Content-Length: 9\r\nContent-Length: 5\r\n\r\n",
        ),
    ];
    for (name, answer, head) in &cases {
        let stub = ScriptedHost::answering(answer.as_str());
        let record = load(&replayed(&stub, "memento", "")).await.unwrap();
        assert_eq!(record.target_uri, URL);
        assert_eq!(record.date.to_string(), "20160102030405");
        let warc = bytes_of(record).await.unwrap();
        let file = folder.path().join(format!("{name}.warc"));
        std::fs::write(&file, &warc).unwrap();
        files.push(file);
        let (header, http, payload) = taken_apart(&warc);
        assert_eq!(String::from_utf8_lossy(&http), *head, "{name}");
        assert_eq!(payload, b"hello", "{name}");
        let target = format!("/web/20160101000000id_/{URL}");
        for (name, value) in [
            ("WARC-Target-URI", Some(URL)),
            ("WARC-Date", Some("2016-01-02T03:04:05Z")),
            ("WARC-Source-URI", Some(&*stub.url(&target))),
            // The only known address is the address of the archive, not of the recorded server.
            ("WARC-IP-Address", None),
        ] {
            assert_eq!(text(&header, name).as_deref(), value, "{name}");
        }
        let asked = &stub.asked()[0];
        assert_eq!(asked.target, target);
        let moment = asked.field("Accept-Datetime");
        assert_eq!(moment, Some("Fri, 01 Jan 2016 00:00:00 GMT"));
    }
    let Some(verdicts) = verdicts(&files) else {
        return;
    };
    for (verdict, (name, ..)) in verdicts.iter().zip(&cases) {
        verdict.must_be_valid(name);
        assert_eq!(verdict.raw, digest(b"hello"), "{name}");
    }
}

#[tokio::test]
async fn archive_may_redirect_to_another_time() {
    let stub = ScriptedHost::start(|asked| {
        once(match asked.target.split('/').nth(2) {
            Some("20160101000000id_") => {
                "HTTP/1.1 302 Found\r\nLocation: /web/20150101000000id_/http://www.example.com/\r\n\
                 Content-Length: 0\r\n\r\n"
            }
            _ => {
                "HTTP/1.1 301 Moved\r\nMemento-Datetime: Thu, 01 Jan 2015 00:00:00 GMT\r\n\
                 Location: /web/20150101000000id_/https://example.com/\r\nContent-Length: 0\r\n\r\n"
            }
        })
    });
    for source_type in ["memento", "cdx"] {
        let record = load(&replayed(&stub, source_type, "200")).await.unwrap();
        assert_eq!(record.date.to_string(), "20150101000000");
        // The target is a captured redirect, which becomes the record.
        let (_, http, _) = taken_apart(&bytes_of(record).await.unwrap());
        assert_eq!(
            String::from_utf8_lossy(&http),
            "HTTP/1.1 301 Moved\r\nLocation: https://example.com/\r\nContent-Length: 0\r\n\r\n"
        );
    }
    assert_eq!(stub.asked().len(), 4);
}

#[tokio::test]
async fn archive_may_not_redirect_forever() {
    let stub = ScriptedHost::start(|asked| {
        let moment = &asked.target.split('/').nth(2).unwrap()[..14];
        let next = moment.parse::<u64>().unwrap() + 1;
        let location = format!("Location: /web/{next}id_/{URL}");
        once(format!(
            "HTTP/1.1 302 Found\r\n{location}\r\nContent-Length: 0\r\n\r\n"
        ))
    });
    let error = refusal(load(&replayed(&stub, "cdx", "")).await);
    assert!(
        matches!(error, LoadError::Net(SourceError::Answer(_))),
        "{error}"
    );
    assert_eq!(stub.asked().len(), 6);
}

#[tokio::test]
async fn every_hop_is_checked() {
    // The redirect leads to another port of the same host, which is forbidden.
    let stub = ScriptedHost::answering(format!(
        "HTTP/1.1 302 Found\r\nLocation: http://localhost:1/web/20150101000000id_/{URL}\r\nContent-Length: 0\r\n\r\n"
    ));
    let replay = stub.url(&format!("/web/20160101000000id_/{URL}"));
    let fields = [("url", URL), ("live_url", &replay)];
    let row = row("cdx", "20160101000000", &fields);
    // Redirects to another host are never followed: the redirect itself becomes the record.
    let record = load(&row).await.unwrap();
    let (_, http, _) = taken_apart(&bytes_of(record).await.unwrap());
    assert!(http.starts_with(b"HTTP/1.1 302 Found\r\n"));
    assert_eq!(stub.asked().len(), 1);
    let strict = Net::new(&[]).unwrap();
    let error = refusal(live::load(&strict, &limits(), &row, &ClientRequest::default()).await);
    assert!(
        matches!(error, LoadError::Net(SourceError::Forbidden(_))),
        "{error}"
    );
}

#[tokio::test]
async fn headers_of_the_archive_are_not_captured() {
    let page = |status: &str| format!("HTTP/1.1 {status}\r\nContent-Length: 4\r\n\r\npage");
    for (source_type, in_row, answered, expected) in [
        ("memento", "", "200 OK", "answer"),
        ("memento", "200", "200 OK", "answer"),
        ("memento", "", "404 Not Found", "missing"),
        ("memento", "404", "404 Not Found", "missing"),
        ("memento", "", "503 Busy", "status"),
        ("cdx", "200", "404 Not Found", "missing"),
        ("cdx", "", "429 Slow Down", "status"),
        ("cdx", "-", "500 Oops", "status"),
        ("cdx", "200", "302 Found", "answer"),
        ("cdx", "301", "200 OK", "answer"),
    ] {
        let stub = ScriptedHost::answering(page(answered));
        let what = format!("{source_type} {in_row} {answered}");
        let error = refusal(load(&replayed(&stub, source_type, in_row)).await);
        assert_eq!(error.word(), expected, "{what}: {error}");
    }
    let not_found = ("404", "404 Not Found");
    for (in_row, answered) in [
        ("200", "200 OK"),
        ("", "200 OK"),
        ("-", "200 OK"),
        not_found,
    ] {
        let stub = ScriptedHost::answering(page(answered));
        let record = load(&replayed(&stub, "cdx", in_row)).await.unwrap();
        assert_eq!(record.date.to_string(), "20160101000000");
    }
}

#[tokio::test]
async fn rows_without_a_url_are_for_other_loaders() {
    for fields in [
        &[("url", URL)][..],
        &[("url", URL), ("live_url", "")],
        &[("url", URL), ("live_url", "file:///etc/passwd")],
        &[("url", URL), ("live_url", "data:,x")],
        &[("url", URL), ("live_url", "not a url")],
    ] {
        let error = refusal(load(&row("cdx", "20160101000000", fields)).await);
        assert_eq!(error.word(), "unfit", "{fields:?}: {error}");
    }
}

#[tokio::test]
async fn transfer_compression_of_an_archive_is_undone() {
    let text = b"hello hello hello hello";
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text).unwrap();
    let packed = encoder.finish().unwrap();
    let digest = |bytes: &[u8]| format!("sha1:{}", sha1_base32(bytes));
    let broken = [&packed[..packed.len() - 3], b"xyz"].concat();
    let folder = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for (what, digest, sent, expected) in rows![
        "packed on the way", digest(text), &packed, &text[..];
        "packed when captured", digest(&packed), &packed, &packed[..];
        "packed, and nobody knows when", digest(b"other"), &packed, &packed[..];
        "broken", digest(text), &broken, &broken[..];
    ] {
        let head = format!(
            "HTTP/1.1 200 OK\r\nMemento-Datetime: Sat, 02 Jan 2016 03:04:05 GMT\r\nContent-Encoding: gzip\r\n\
             Content-Length: {}\r\n\r\n",
            sent.len()
        );
        let stub = ScriptedHost::answering([head.as_bytes(), &sent[..]].concat());
        let replay = stub.url(&format!("/web/20160101000000id_/{URL}"));
        let fields = [("url", URL), ("digest", &digest), ("live_url", &replay)];
        let record = load(&row("cdx", "20160101000000", &fields)).await.unwrap();
        let warc = bytes_of(record).await.unwrap();
        let (_, http, payload) = taken_apart(&warc);
        let http = String::from_utf8(http).unwrap();
        assert_eq!(payload, expected, "{what}");
        let is_packed = http.contains("Content-Encoding: gzip\r\n");
        assert_eq!(is_packed, expected != text, "{what}: {http}");
        let length = format!("Content-Length: {}\r\n", expected.len());
        assert!(http.contains(&length), "{what}: {http}");
        assert_eq!(stub.asked()[0].field("Accept-Encoding"), Some("gzip"));
        files.push(folder.path().join(format!("{what}.warc")));
        std::fs::write(files.last().unwrap(), &warc).unwrap();
    }
    for verdict in verdicts(&files).iter().flatten() {
        verdict.must_be_valid("packed");
    }
}
