//! Tests of records from upstream servers.

use crawlspace_serve::resource::client_request::ClientRequest;
use crawlspace_serve::resource::record::{LoadError, Record};
use crawlspace_serve::resource::{live, request_message};
use crawlspace_warc::{Compression, Writer};
use futures_util::stream::{self, StreamExt};
use redis_tests::{ScriptedHost, assert_contains, assert_lacks, assert_starts, rows};

use crate::live::{bytes_of, limits, load_page, net, refusal, row};

const URL: &str = "http://example.com/a?b=c&d";

async fn load(stub: &ScriptedHost, request: &ClientRequest) -> Result<Record, LoadError> {
    let fields = [("url", URL), ("upstream_url", &*stub.url("/other"))];
    let row = row("upstream", "20160101000000", &fields);
    live::load(&net(), &limits(), &row, request).await
}

/// Loads a record that is the response to an ordinary request.
async fn taken(warc: &[u8]) -> Result<Record, LoadError> {
    load(
        &ScriptedHost::answering(answer(warc)),
        &ClientRequest::default(),
    )
    .await
}

fn answer(warc: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/warc-record\r\nArchive-Source-Coll: theirs\r\n\
         Content-Length: {}\r\n\r\n",
        warc.len()
    );
    [head.as_bytes(), warc].concat()
}

/// Returns an upstream's record, with further fields.
fn record(more: &[(&str, &[u8])], block: &[u8]) -> Vec<u8> {
    let mut warc = Vec::new();
    let mut fields: Vec<(&str, &[u8])> = vec![
        ("WARC-Type", b"response"),
        (
            "WARC-Record-ID",
            b"<urn:uuid:12345678-1234-4234-8234-123456789012>",
        ),
        ("WARC-Date", b"2016-01-01T00:00:00Z"),
        ("Content-Type", b"application/http; msgtype=response"),
    ];
    fields.extend_from_slice(more);
    Writer::new(&mut warc, Compression::None)
        .write(&fields, block)
        .unwrap();
    warc
}

#[tokio::test]
async fn our_own_answers_are_accepted() {
    // A record from the live web, created by one server and requested by another.
    let web = ScriptedHost::answering(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    );
    let made = load_page(&web.url("/")).await.unwrap();
    let made = bytes_of(made).await.unwrap();
    let theirs = ScriptedHost::answering(answer(&made));
    let (url, collection) = (web.url("/"), theirs.url("/other/"));
    let fields = [("url", &*url), ("upstream_url", &*collection)];
    let row = row("upstream", "20160101000000", &fields);
    let request = ClientRequest::default();
    let record = live::load(&net(), &limits(), &row, &request).await;
    let record = record.unwrap();
    assert_eq!(record.source.as_deref(), Some("theirs"));
    assert_eq!(record.target_uri, web.url("/"));
    assert_eq!(bytes_of(record).await.unwrap(), made);
    let asked = &theirs.asked()[0];
    let (path, query) = asked.target.split_once('?').unwrap();
    assert_eq!(path, "/other/resource");
    let names = query.split('&').map(|pair| pair.split('=').next().unwrap());
    assert_eq!(names.collect::<Vec<_>>(), ["url", "closest"]);
    assert_eq!(asked.parameter("url"), web.url("/"));
    assert_eq!(asked.parameter("closest"), "20160101000000");
}

#[tokio::test]
async fn message_is_forwarded_as_one() {
    let block = b"HTTP/1.1 200 OK\r\n\r\nok";
    let uri: (&str, &[u8]) = ("WARC-Target-URI", URL.as_bytes());
    let stub = ScriptedHost::answering(answer(&record(&[uri], block)));
    for size in [5, 1_000_000] {
        let body = "x".repeat(size);
        let message =
            format!("PUT / HTTP/1.1\r\nCookie: a=b\r\nContent-Length: {size}\r\n\r\n{body}");
        let request = request_message::read(stream::iter([Ok(message.into())]).boxed(), 1 << 30)
            .await
            .unwrap();
        load(&stub, &request).await.unwrap();
        let asked = stub.asked().pop().unwrap();
        assert_starts(asked.line(), "POST /other/resource/postreq?url=");
        assert_eq!(asked.field("Cookie"), None);
        let expected =
            format!("PUT /a?b=c&d HTTP/1.1\r\nCookie: a=b\r\nContent-Length: {size}\r\n\r\n{body}");
        assert!(asked.body == expected.as_bytes());
    }
}

#[tokio::test]
async fn only_a_single_valid_record_of_the_url_is_passed_on() {
    let block = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let uri: (&str, &[u8]) = ("WARC-Target-URI", URL.as_bytes());
    // The digests above are SHA-1 of the block and of its payload.
    let good = record(&[uri], block);
    // pywb omits the line breaks at the end of a record.
    for sent in [&good[..], &good[..good.len() - 4]] {
        let made = taken(sent).await.unwrap();
        assert_eq!(bytes_of(made).await.unwrap(), good);
    }

    let mut packed = Vec::new();
    let date = ("WARC-Date", &b"2016-01-01T00:00:00Z"[..]);
    let fields = [("WARC-Type", &b"response"[..]), uri, date];
    let mut writer = Writer::new(&mut packed, Compression::PerRecord);
    writer.write(&fields, block).unwrap();
    let wrong: &[u8] = b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A";
    let no_length = String::from_utf8(good.clone()).unwrap();
    let no_length = no_length.replace("Content-Length: 40", "X: y");
    for (what, warc) in rows![
        "no length", no_length.into_bytes();
        "nothing", Vec::new();
        "no record", b"<html>".to_vec();
        "cut off", good[..good.len() - 1].to_vec();
        "cut off in the block", good[..good.len() - 5].to_vec();
        "cut off in the header", good[..40].to_vec();
        "more", [&good[..], b"x"].concat();
        "two", [&good[..], &good[..]].concat();
        "packed", packed;
        "no target", record(&[], block);
        "another target", record(&[("WARC-Target-URI", b"http://elsewhere.example/")], block);
        "space in target", record(&[("WARC-Target-URI", b"http://example.com/a b")], block);
        "wrong digest", record(&[uri, ("WARC-Block-Digest", wrong)], block);
        "wrong payload digest", record(&[uri, ("WARC-Payload-Digest", wrong)], block);
    ] {
        let error = taken(&warc).await.err();
        let error = error.unwrap_or_else(|| panic!("{what}: a record"));
        assert_eq!(error.word(), "record", "{what}: {error}");
    }
    for (status, word) in [
        ("404 Not Found", "missing"),
        ("500 Oops", "status"),
        ("302 Found", "status"),
    ] {
        let stub =
            ScriptedHost::answering(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"));
        let error = refusal(load(&stub, &ClientRequest::default()).await);
        assert_eq!(error.word(), word, "{status}: {error}");
    }
}

/// Tests records of pywb, which resolves a revisit with the header of one record and the digests of
/// the other.
#[tokio::test]
async fn payload_digest_takes_precedence() {
    let block = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let fields: [(&str, &[u8]); 3] = rows![
        "WARC-Target-URI", URL.as_bytes();
        "WARC-Payload-Digest", b"sha1:PKC7I5SLXVW26HBVIXX3X4HSPGTNYC7L";
        "WARC-Block-Digest", b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A";
    ];
    let record = taken(&record(&fields, block)).await.unwrap();
    let text = String::from_utf8(bytes_of(record).await.unwrap()).unwrap();
    assert!(text.ends_with("\r\n\r\nok\r\n\r\n"), "{text}");
    assert_contains(&text, "WARC-Payload-Digest");
    assert_lacks(&text, "WARC-Block-Digest");
}

#[tokio::test]
async fn replay_that_is_a_record_is_passed_on() {
    let block = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let good = record(&[("WARC-Target-URI", URL.as_bytes())], block);
    let other = record(&[("WARC-Target-URI", b"http://elsewhere.example/")], block);
    let replay = |more: &str, body: &[u8]| {
        let head = format!(
            "HTTP/1.1 200 OK\r\nMemento-Datetime: Fri, 01 Jan 2016 00:00:00 GMT\r\n{more}Content-Length: {}\r\n\r\n",
            body.len()
        );
        ScriptedHost::answering([head.as_bytes(), body].concat())
    };
    for kind in ["cdx", "memento"] {
        let load = async |stub: &ScriptedHost| {
            let at = stub.url("/web/20160101000000id_/x");
            let members = [("url", URL), ("live_url", &*at)];
            let row = row(kind, "20160101000000", &members);
            live::load(&net(), &limits(), &row, &ClientRequest::default()).await
        };
        for more in [
            "Warcserver-Type: warc\r\n",
            "Content-Type: application/warc-record\r\n",
        ] {
            let record = load(&replay(more, &good)).await.unwrap();
            assert_eq!(bytes_of(record).await.unwrap(), good, "{kind} {more}");
            let wrong = refusal(load(&replay(more, &other)).await);
            assert_eq!(wrong.word(), "record", "{wrong}");
        }
        // A captured WARC record is a payload like any other.
        let captured = "Content-Type: application/warc-record\r\nX-Archive-Src: a.warc.gz\r\n";
        let record = load(&replay(captured, &other)).await.unwrap();
        let length = bytes_of(record).await.unwrap().len();
        assert!(length > other.len() + 200, "it is in a record of its own");
    }
}
