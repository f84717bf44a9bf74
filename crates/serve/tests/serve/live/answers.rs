//! Tests the records that are created from responses in every form.

use std::io::Write;

use crawlspace_serve::resource::client_request::ClientRequest;
use flate2::write::GzEncoder;
use http::Method;

use crate::live::warcio::{digest, verdicts};
use crate::live::{bytes_of, header_and_block, limits, load_live, load_page, text};
use redis_tests::{Part, ScriptedHost, but, rows, with};

/// A response, and the expected content of its record.
struct Case {
    name: &'static str,
    method: Method,
    /// Bytes sent by the server.
    sent: Vec<u8>,
    /// Expected HTTP header in the record.
    head: Vec<u8>,
    payload: Vec<u8>,
    /// Payload without content coding.
    content: Vec<u8>,
}

fn case(name: &'static str, sent: &[u8], head: &[u8], payload: &[u8]) -> Case {
    Case {
        name,
        method: Method::GET,
        sent: sent.to_vec(),
        head: head.to_vec(),
        payload: payload.to_vec(),
        content: payload.to_vec(),
    }
}

/// Returns a case whose record has the sent header unchanged, followed by the payload.
fn plain(name: &'static str, head: &[u8], payload: &[u8]) -> Case {
    case(name, &[head, payload].concat(), head, payload)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn chunks(payload: &[u8], size: usize) -> Vec<u8> {
    let mut coded = Vec::new();
    for chunk in payload.chunks(size) {
        coded.extend_from_slice(format!("{:X}\r\n", chunk.len()).as_bytes());
        coded.extend_from_slice(chunk);
        coded.extend_from_slice(b"\r\n");
    }
    coded.extend_from_slice(b"0\r\n\r\n");
    coded
}

fn cases() -> Vec<Case> {
    let large: Vec<u8> = (0..10u32 << 20)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let huge_header = format!(
        "HTTP/1.1 200 OK\r\n{}Content-Length: 2\r\n\r\n",
        (0..1000)
            .map(|i| format!("X-{i}: {}\r\n", "v".repeat(200)))
            .collect::<String>()
    );
    let packed = gzip(b"hello hello hello");
    let mut cases = vec![
        plain("length", b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\n", b"hello"),
        plain("empty", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b""),
        plain("no-length", b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n", b"until the end\r\n\r\n"),
        plain("no-length-empty", b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n", b""),
        plain("no-fields", b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
        plain("http-1.0", b"HTTP/1.0 200 OK\r\nServer: old\r\n\r\n", b"hello"),
        plain("not-found", b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\n", b"gone"),
        plain("server-error", b"HTTP/1.1 503 Busy\r\nRetry-After: 5\r\nContent-Length: 1\r\n\r\n", b"!"),
        plain("redirect", b"HTTP/1.1 301 Moved\r\nLocation: /elsewhere\r\nContent-Length: 3\r\n\r\n", b"go!"),
        plain("no-reason", b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\n", b"ok"),
        plain("empty-reason", b"HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\n", b"ok"),
        plain("binary-reason", b"HTTP/1.1 200 \xe9\xff\r\nContent-Length: 2\r\n\r\n", b"ok"),
        plain("lf-only", b"HTTP/1.1 200 OK\nContent-Type: text/plain\nContent-Length: 2\n\n", b"ok"),
        plain("mixed-line-ends", b"HTTP/1.1 200 OK\nA: b\r\nContent-Length: 2\n\r\n", b"ok"),
        plain("binary-values", b"HTTP/1.1 200 OK\r\nX: \xff\xfe\xe9\x01\r\nY: \xc3\xa9\r\nContent-Length: 2\r\n\r\n", b"ok"),
        plain("cr-in-value", b"HTTP/1.1 200 OK\r\nX: a\rb\r\nContent-Length: 2\r\n\r\n", b"ok"),
        plain("nul-in-value", b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 2\r\n\r\n", b"ok"),
        plain("folded", b"HTTP/1.1 200 OK\r\nX: a\r\n  b\r\n\tc\r\nContent-Length: 2\r\n\r\n", b"ok"),
        plain("no-field", b"HTTP/1.1 200 OK\r\nwhat is this\r\n: and this\r\nContent-Length: 2\r\n\r\n", b"ok"),
        plain("space-before-colon", b"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\n", b"ok"),
        plain("length-twice", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2, 2\r\n\r\n", b"ok"),
        plain("fields-twice", b"HTTP/1.1 200 OK\r\nSet-Cookie: a\r\nset-cookie: b\r\nContent-Length: 2\r\n\r\n", b"ok"),
        plain("identity", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 2\r\n\r\n", b"ok"),
        plain("204", b"HTTP/1.1 204 No Content\r\nA: b\r\n\r\n", b""),
        plain("304", b"HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 500\r\n\r\n", b""),
        plain("206", b"HTTP/1.1 206 Partial\r\nContent-Range: bytes 0-1/9\r\nContent-Length: 2\r\n\r\n", b"ok"),
        plain("looks-like-a-record", b"HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n", b"\r\n\r\nWARC/1.0\r\n"),
        plain("huge-header", huge_header.as_bytes(), b"ok"),
        plain(
            "large",
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", large.len()).as_bytes(),
            &large,
        ),
        plain("large-no-length", b"HTTP/1.1 200 OK\r\nContent-Type: image/x\r\n\r\n", &large),
        case(
            "keep-alive",
            b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n",
            b"ok",
        ),
        case(
            "204-with-body",
            b"HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\nlie",
            b"HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\n",
            b"",
        ),
        case(
            "interim",
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n\r\nok",
            b"HTTP/1.1 200 OK\r\n\r\n",
            b"ok",
        ),
        case(
            "line-end-before",
            b"\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n",
            b"ok",
        ),
        case(
            "blank-line-of-spaces",
            b"HTTP/1.1 200 OK\r\nX: a\r\n \t \r\nContent-Length: 2\r\n\r\nok",
            b"HTTP/1.1 200 OK\r\nX: a\r\nContent-Length: 2\r\n\r\n",
            b"ok",
        ),
        case(
            "blank-line-after-length",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\t\r\nX: a\r\n\r\nok",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: a\r\n\r\n",
            b"ok",
        ),
        case(
            "length-in-the-next-line",
            b"HTTP/1.1 200 OK\r\nContent-Length:\r\n 2\r\n\r\nok",
            b"HTTP/1.1 200 OK\r\nContent-Length:\r\n 2\r\n\r\n",
            b"ok",
        ),
        case(
            "blank-line-of-no-break-space",
            b"HTTP/1.1 200 OK\r\n\xa0\x85\r\n\xc2\xa0\xe3\x80\x80\r\nContent-Length: 2\r\n\r\nok",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n",
            b"ok",
        ),
        case(
            "chunked",
            &[&b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nA: b\r\n\r\n"[..], &chunks(b"hello world", 4)].concat(),
            b"HTTP/1.1 200 OK\r\nX-Archive-Orig-Transfer-Encoding: chunked\r\nA: b\r\nContent-Length: 11\r\n\r\n",
            b"hello world",
        ),
        case(
            "chunked-http-1.0",
            b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            b"HTTP/1.0 200 OK\r\nX-Archive-Orig-Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n",
            b"ok",
        ),
        case(
            "chunked-empty",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nX-Archive-Orig-transfer-encoding: Chunked\r\nContent-Length: 0\r\n\r\n",
            b"",
        ),
        case(
            "chunked-with-length",
            b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nX-Archive-Orig-Content-Length: 99\r\nX-Archive-Orig-Transfer-Encoding: chunked\r\n\
              Content-Length: 2\r\n\r\n",
            b"ok",
        ),
        case(
            "chunked-trailers-extensions",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Digest\r\n\r\n\
              2;name=value;other=\"a;b\"\r\nok\r\n00;last\r\nDigest: x=y\r\nServer-Timing: a\r\n\tb\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nX-Archive-Orig-Transfer-Encoding: chunked\r\nTrailer: Digest\r\nContent-Length: 2\r\n\
              X-Archive-Trailer-Digest: x=y\r\nX-Archive-Trailer-Server-Timing: a\r\n\tb\r\n\r\n",
            b"ok",
        ),
        case(
            "chunked-lf-only-header",
            b"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n2\r\nok\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\nX-Archive-Orig-Transfer-Encoding: chunked\nContent-Length: 2\r\n\r\n",
            b"ok",
        ),
        case(
            "chunked-large",
            &[&b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"[..], &chunks(&large, 70_001)].concat(),
            format!(
                "HTTP/1.1 200 OK\r\nX-Archive-Orig-Transfer-Encoding: chunked\r\nContent-Length: {}\r\n\r\n",
                large.len()
            )
            .as_bytes(),
            &large,
        ),
    ];
    for (name, sent, head) in rows![
        "head", "HTTP/1.1 200 OK\r\nContent-Length: 500\r\nContent-Encoding: gzip\r\n\r\n", None;
        "head-chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", None;
        "head-with-body", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nlie",
            Some("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n");
    ] {
        cases.push(Case {
            method: Method::HEAD,
            ..case(name, sent.as_bytes(), head.unwrap_or(sent).as_bytes(), b"")
        });
    }
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        packed.len()
    );
    cases.push(
        but!(plain("gzip", head.as_bytes(), &packed), content: b"hello hello hello".to_vec()),
    );
    let sent = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n";
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nX-Archive-Orig-Transfer-Encoding: chunked\r\n\
         Content-Length: {}\r\n\r\n",
        packed.len()
    );
    cases.push(Case {
        content: b"hello hello hello".to_vec(),
        ..case(
            "gzip-chunked",
            &[&sent[..], &chunks(&packed, 3)].concat(),
            head.as_bytes(),
            &packed,
        )
    });
    cases.push(plain(
        "gzip-nothing",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n",
        b"",
    ));
    cases
}

#[tokio::test]
async fn every_response_becomes_a_record_that_warcio_accepts() {
    let folder = tempfile::tempdir().unwrap();
    let cases = cases();
    let mut files = Vec::new();
    for case in &cases {
        // Sent as a whole, and in small pieces unless that takes too long.
        let steps = [
            case.sent.len(),
            if case.sent.len() < 5000 { 3 } else { 65_537 },
        ];
        for step in steps {
            let pieces = case
                .sent
                .chunks(step.max(1))
                .map(|piece| Part::Bytes(piece.to_vec()));
            let parts: Vec<Part> = pieces.chain([Part::Close]).collect();
            let stub = ScriptedHost::start(move |_| parts.clone());
            let request = with!(ClientRequest, method: case.method.clone());
            let url = stub.url("/a?b=c");
            let loaded = load_live(&url, &request, &limits()).await;
            let record = loaded.unwrap_or_else(|error| panic!("{}: {error}", case.name));
            assert_eq!(record.target_uri, url, "{}", case.name);
            let date = record.date.iso();
            let warc = bytes_of(record).await.unwrap();
            let file = folder.path().join(format!("{}-{step}.warc", case.name));
            std::fs::write(&file, &warc).unwrap();
            files.push(file);

            let (header, block) = header_and_block(&warc);
            let (http, payload) = block.split_at(case.head.len());
            // Compared as text first, for readable messages.
            let [is, expected] = [http, &case.head].map(String::from_utf8_lossy);
            assert_eq!(is, expected, "{}", case.name);
            assert!(http == case.head, "{}", case.name);
            assert!(payload == case.payload, "{}", case.name);
            for (name, value) in [
                ("WARC-Type", "response"),
                ("WARC-Target-URI", &url),
                ("WARC-Date", &date),
                ("WARC-IP-Address", "127.0.0.1"),
                ("Content-Type", "application/http; msgtype=response"),
            ] {
                assert_eq!(text(&header, name).as_deref(), Some(value), "{}", case.name);
            }
            let expected = (case.head.len() + case.payload.len()) as u64;
            assert_eq!(header.content_length(), expected);
        }
    }
    let Some(verdicts) = verdicts(&files) else {
        return;
    };
    assert_eq!(verdicts.len(), 2 * cases.len());
    for (i, verdict) in verdicts.iter().enumerate() {
        let case = &cases[i / 2];
        verdict.must_be_valid(case.name);
        assert_eq!(verdict.raw, digest(&case.payload), "{}", case.name);
        // warcio ignores that an empty payload is not chunked.
        if case.name != "head-chunked" {
            assert_eq!(verdict.content, digest(&case.content), "{}", case.name);
        }
    }
}

#[tokio::test]
async fn warcio_would_notice_invalid_records() {
    let stub = ScriptedHost::answering("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let record = load_page(&stub.url("/")).await.unwrap();
    let mut warc = bytes_of(record).await.unwrap();
    let at = warc.windows(5).position(|five| five == b"hello").unwrap();
    warc[at] = b'j';
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wrong.warc");
    std::fs::write(&file, &warc).unwrap();
    let Some(verdicts) = verdicts(&[file]) else {
        return;
    };
    assert!(std::panic::catch_unwind(|| verdicts[0].must_be_valid("wrong")).is_err());
}
