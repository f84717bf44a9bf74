//! Records of other servers of this kind.

use crawlspace_serve::resource::client_request::ClientRequest;
use crawlspace_serve::resource::record::{LoadError, Record};
use crawlspace_serve::resource::{live, request_message};
use crawlspace_warc::{Compression, Writer};
use futures_util::stream::{self, StreamExt};
use redis_tests::{assert_contains, assert_lacks, assert_starts, rows};
use url::Url;

use crate::live::{bytes_of, limits, load_live, net, row};
use redis_tests::stub::Stub;

const URL: &str = "http://example.com/a?b=c&d";

async fn load(stub: &Stub, request: &ClientRequest) -> Result<Record, LoadError> {
    let collection = Url::parse(&stub.url("/other")).unwrap();
    let row = row("upstream", "20160101000000", &[("url", URL)]);
    live::load_upstream(&net(), &limits(), &collection, &row, request).await
}

fn answer(warc: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/warc-record\r\nArchive-Source-Coll: theirs\r\n\
         Content-Length: {}\r\n\r\n",
        warc.len()
    );
    [head.as_bytes(), warc].concat()
}

/// A record of theirs, with one field more.
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
async fn what_we_make_is_what_we_take() {
    // The record of one server, of the live web; asked for by another one.
    let web = Stub::answering(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    );
    let made = load_live(&web.url("/"), &ClientRequest::default(), &limits())
        .await
        .unwrap();
    let made = bytes_of(made).await.unwrap();
    let theirs = Stub::answering(answer(&made));
    let collection = Url::parse(&theirs.url("/other/")).unwrap();
    let row = row("upstream", "20160101000000", &[("url", &web.url("/"))]);
    let record = live::load_upstream(
        &net(),
        &limits(),
        &collection,
        &row,
        &ClientRequest::default(),
    )
    .await
    .unwrap();
    assert_eq!(record.source.as_deref(), Some("theirs"));
    assert_eq!(record.target_uri, web.url("/"));
    assert_eq!(bytes_of(record).await.unwrap(), made);
    let target = theirs.asked()[0].target().to_owned();
    let (path, query) = target.split_once('?').unwrap();
    assert_eq!(path, "/other/resource");
    let pairs: Vec<(String, String)> = url::form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        pairs,
        [
            pair("url", &web.url("/")),
            pair("closest", "20160101000000")
        ]
    );
}

#[tokio::test]
async fn a_message_is_handed_on_as_one() {
    let block = b"HTTP/1.1 200 OK\r\n\r\nok";
    let uri: (&str, &[u8]) = ("WARC-Target-URI", URL.as_bytes());
    let stub = Stub::answering(answer(&record(&[uri], block)));
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
async fn only_one_whole_valid_record_of_that_url_is_passed_on() {
    let block = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let uri: (&str, &[u8]) = ("WARC-Target-URI", URL.as_bytes());
    // SHA-1 of the block above, and of its payload.
    let good = record(&[uri], block);
    let made = bytes_of(
        load(&Stub::answering(answer(&good)), &ClientRequest::default())
            .await
            .unwrap(),
    )
    .await
    .unwrap();
    assert_eq!(made, good);

    // pywb closes no record.
    let open = Stub::answering(answer(&good[..good.len() - 4]));
    let taken = load(&open, &ClientRequest::default()).await.unwrap();
    assert_eq!(bytes_of(taken).await.unwrap(), good);

    let mut packed = Vec::new();
    let fields: [(&str, &[u8]); 3] = [
        ("WARC-Type", b"response"),
        uri,
        ("WARC-Date", b"2016-01-01T00:00:00Z"),
    ];
    Writer::new(&mut packed, Compression::PerRecord)
        .write(&fields, block)
        .unwrap();
    let wrong_digest: (&str, &[u8]) = (
        "WARC-Block-Digest",
        b"sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ",
    );
    let wrong_payload: (&str, &[u8]) = (
        "WARC-Payload-Digest",
        b"sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ",
    );
    for (what, warc) in rows![
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
        "wrong digest", record(&[uri, wrong_digest], block);
        "wrong payload digest", record(&[uri, wrong_payload], block);
    ] {
        let error = load(&Stub::answering(answer(&warc)), &ClientRequest::default())
            .await
            .err();
        let error = error.unwrap_or_else(|| panic!("{what}: a record"));
        assert_eq!(error.word(), "record", "{what}: {error}");
    }
    let no_length = String::from_utf8(good.clone())
        .unwrap()
        .replace("Content-Length: 40", "X: y");
    let error = load(
        &Stub::answering(answer(no_length.as_bytes())),
        &ClientRequest::default(),
    )
    .await
    .err()
    .unwrap();
    assert_eq!(error.word(), "record", "{error}");
    for (status, word) in [
        ("404 Not Found", "missing"),
        ("500 Oops", "status"),
        ("302 Found", "status"),
    ] {
        let stub = Stub::answering(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"));
        let error = load(&stub, &ClientRequest::default()).await.err().unwrap();
        assert_eq!(error.word(), word, "{status}: {error}");
    }
}

/// pywb resolves a revisit with the header of one record and the digests of the other.
#[tokio::test]
async fn of_two_digests_that_of_the_payload_counts() {
    let block = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let fields: [(&str, &[u8]); 3] = rows![
        "WARC-Target-URI", URL.as_bytes();
        "WARC-Payload-Digest", b"sha1:PKC7I5SLXVW26HBVIXX3X4HSPGTNYC7L";
        "WARC-Block-Digest", b"sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ";
    ];
    let stub = Stub::answering(answer(&record(&fields, block)));
    let taken = load(&stub, &ClientRequest::default()).await.unwrap();
    let text = String::from_utf8(bytes_of(taken).await.unwrap()).unwrap();
    assert!(text.ends_with("\r\n\r\nok\r\n\r\n"), "{text}");
    assert_contains(&text, "WARC-Payload-Digest");
    assert_lacks(&text, "WARC-Block-Digest");
}

#[tokio::test]
async fn a_replay_that_is_a_record_is_passed_on_as_one() {
    let block = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let good = record(&[("WARC-Target-URI", URL.as_bytes())], block);
    let other = record(&[("WARC-Target-URI", b"http://elsewhere.example/")], block);
    let replay = |more: &str, body: &[u8]| {
        let head = format!(
            "HTTP/1.1 200 OK\r\nMemento-Datetime: Fri, 01 Jan 2016 00:00:00 GMT\r\n{more}Content-Length: {}\r\n\r\n",
            body.len()
        );
        Stub::answering([head.as_bytes(), body].concat())
    };
    for kind in ["cdx", "memento"] {
        let load = async |stub: &Stub| {
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
            let wrong = load(&replay(more, &other)).await.err().unwrap();
            assert_eq!(wrong.word(), "record", "{wrong}");
        }
        // What was captured is a record there, and nothing else.
        let captured = "Content-Type: application/warc-record\r\nX-Archive-Src: a.warc.gz\r\n";
        let record = load(&replay(captured, &other)).await.unwrap();
        let made = bytes_of(record).await.unwrap();
        assert!(
            made.len() > other.len() + 200,
            "it is in a record of its own"
        );
    }
}
