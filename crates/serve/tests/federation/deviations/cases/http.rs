//! Cases of HTTP responses as servers send and recorders store them.

use super::records::{Case, Indexed, case, sha1, stating};

/// A name, the programs that write such responses, the header, the payload, and the expected replay
/// body.
pub type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

/// Status lines and header fields.
const HEADERS: &[Row] = &[
    (
        "no reason",
        "mitmproxy, reported to it",
        "HTTP/1.1 200\r\n\r\n",
        "page",
        "page",
    ),
    (
        "an empty reason",
        "StormCrawler, of HTTP/2",
        "HTTP/1.1 200 \r\n\r\n",
        "page",
        "page",
    ),
    (
        "HTTP/2",
        "curl, reported to the IIPC",
        "HTTP/2 200 \r\nserver: a\r\n\r\n",
        "page",
        "page",
    ),
    (
        "HTTP/1.2",
        "constructed: an old server",
        "HTTP/1.2 200 OK\r\n\r\n",
        "page",
        "page",
    ),
    (
        "two blanks before the status",
        "constructed: an old server",
        "HTTP/1.0  200 OK\r\n\r\n",
        "page",
        "page",
    ),
    (
        "LF alone",
        "assoc-amazon.com, reported to warcat",
        "HTTP/1.0 200 OK\nA: b\n\n",
        "page",
        "page",
    ),
    (
        "LF and CRLF mixed",
        "protocol plugins of Nutch",
        "HTTP/1.0 200 OK\r\nA: b\n\r\n",
        "page",
        "page",
    ),
    (
        "CR CR LF",
        "constructed: a CGI program on Windows",
        "HTTP/1.0 200 OK\r\r\nA: b\r\r\n\r\r\n",
        "page",
        "page",
    ),
    (
        "a line of blanks at the end",
        "warcio takes it for the end",
        "HTTP/1.0 200 OK\r\nA: b\r\n \r\n",
        "page",
        "page",
    ),
    (
        "folded",
        "RFC 2616, 2.2; reported to ipwb",
        "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
        "page",
        "page",
    ),
    (
        "folded with nothing before",
        "constructed: a value without a name",
        "HTTP/1.1 200 OK\r\n b\r\nA: b\r\n\r\n",
        "page",
        "page",
    ),
    (
        "blank before the colon",
        "Common Crawl, reported to jwarc",
        "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
        "page",
        "page",
    ),
    (
        "a blank in a name",
        "Common Crawl, reported to jwarc",
        "HTTP/1.1 200 OK\r\nPower by: Capri\r\n\r\n",
        "page",
        "page",
    ),
    (
        "a line without a colon",
        "constructed: a warning that was printed too early",
        "HTTP/1.1 200 OK\r\nWarning\r\nA: b\r\n\r\n",
        "page",
        "page",
    ),
    (
        "no name",
        "constructed: a CGI program with an unset variable",
        "HTTP/1.1 200 OK\r\n: b\r\n\r\n",
        "page",
        "page",
    ),
    (
        "no value",
        "RFC 9110, 5.5",
        "HTTP/1.1 200 OK\r\nA:\r\nContent-Type:\r\n\r\n",
        "page",
        "page",
    ),
    (
        "a control character",
        "wget 1.17, reported to jwarc",
        "HTTP/1.1 200 OK\r\nA: b\u{1}c\r\n\r\n",
        "page",
        "page",
    ),
    (
        "a zero",
        "constructed: a server in C with a buffer too long",
        "HTTP/1.1 200 OK\r\nA: b\0c\r\n\r\n",
        "page",
        "page",
    ),
    (
        "a trade mark",
        "arquivo.pt, reported to pywb",
        "HTTP/1.1 200 OK\r\nServer: a\u{2122}\r\n\r\n",
        "page",
        "page",
    ),
    (
        "no field",
        "small devices, reported to httpful",
        "HTTP/1.1 200 OK\r\n\r\n",
        "page",
        "page",
    ),
    (
        "no end",
        "constructed: a connection that was closed",
        "HTTP/1.1 200 OK\r\nA: b\r\n",
        "",
        "",
    ),
    (
        "an empty line too many",
        "Common Crawl of August 2018, reported to Nutch",
        "HTTP/1.1 200 OK\r\n\r\n",
        "\r\npage",
        "\r\npage",
    ),
    (
        "the type of ISO-8859-1",
        "reported to jwarc",
        "HTTP/1.1 200 OK\r\nContent-Type: text/html;ISO-8859-1\r\n\r\n",
        "page",
        "page",
    ),
    (
        "a type in quotes",
        "Common Crawl, reported to jwarc",
        "HTTP/1.1 200 OK\r\nContent-Type: \"text/html\"\r\n\r\n",
        "page",
        "page",
    ),
    (
        "a cookie folded",
        "several joined, reported to warcio",
        "HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\n\tc=d\r\n\r\n",
        "page",
        "page",
    ),
];

pub fn row((name, source, head, payload, right): &Row) -> Case {
    made(
        name,
        source,
        head.as_bytes(),
        payload.as_bytes(),
        right.as_bytes(),
    )
}

pub fn made(name: &str, source: &'static str, head: &[u8], payload: &[u8], right: &[u8]) -> Case {
    let block = [head, payload].concat();
    Case {
        fields: stating(sha1(&block), sha1(payload)),
        states: [true, true],
        block,
        right: Some(right.to_vec()),
        ..case(format!("HTTP: {name}"), source)
    }
}

pub fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = HEADERS.iter().map(row).collect();
    cases.extend(not_of_http());
    cases.extend(statuses());
    cases.extend(bytes());
    cases
}

/// Returns cases of responses that are not HTTP/1, or not HTTP at all.
fn not_of_http() -> Vec<Case> {
    let old = "HTTP 200 Document follows\r\nServer: NCSA/1.5.1\r\nContent-type: text/html\r\n\r\n";
    let radio = "ICY 200 OK\r\nicy-name: a\r\nContent-Type: audio/mpeg\r\n\r\n";
    let page = "<html><p>one\n\n<p>two\n";
    vec![
        Case {
            shows: &[("content-type", "text/html")],
            ..made(
                "NCSA 1.5",
                "an ARC file of 1997, reported to warcio",
                old.as_bytes(),
                b"page",
                b"page",
            )
        },
        Case {
            shows: &[("content-type", "audio/mpeg")],
            ..made(
                "SHOUTcast",
                "constructed: the protocol of radio stations",
                radio.as_bytes(),
                b"page",
                b"page",
            )
        },
        Case {
            fields: stating(sha1(page.as_bytes()), sha1(page.as_bytes())),
            states: [true, true],
            indexed: Some(Indexed::As(sha1(page.as_bytes()))),
            ..made(
                "HTTP/0.9",
                "wget, reported to wpull",
                b"",
                page.as_bytes(),
                page.as_bytes(),
            )
        },
    ]
}

/// Returns cases of statuses other than 200.
fn statuses() -> Vec<Case> {
    let to = "HTTP/1.1 302 \nContent-Type: text/html\nLocation: //other.example/a\n\n";
    let far = "HTTP/1.1 301 Moved\r\nLocation: /AUR_\u{30e1}\u{30bf}\r\n\r\n";
    let mut cases = Vec::new();
    for (name, source, status, head, payload) in [
        (
            "a redirect with LF alone",
            "assoc-amazon.com, reported to warcat",
            302,
            to,
            "",
        ),
        (
            "a redirect to a URL in UTF-8",
            "wget, reported to warcio for JavaScript",
            301,
            far,
            "moved",
        ),
        (
            "999",
            "linkedin.com, to crawlers",
            999,
            "HTTP/1.1 999 Request denied\r\n\r\n",
            "no",
        ),
        (
            "a reason in UTF-8",
            "the Internet Archive, reported to warcio",
            404,
            "HTTP/1.1 404 Art\u{ed}culo no encontrado\r\n\r\n",
            "no",
        ),
        (
            "204",
            "RFC 9110, 15.3.5",
            204,
            "HTTP/1.1 204 No Content\r\n\r\n",
            "",
        ),
    ] {
        cases.push(Case {
            status,
            ..made(
                name,
                source,
                head.as_bytes(),
                payload.as_bytes(),
                payload.as_bytes(),
            )
        });
    }
    cases
}

/// Returns cases of bytes that are not UTF-8.
fn bytes() -> Vec<Case> {
    let cookie = b"HTTP/1.1 200 OK\r\nSet-Cookie: \xb3\xd2\xda\xcd\xd7=1\r\n\r\n";
    let name =
        b"HTTP/1.1 200 OK\r\nContent-Disposition: attachment; filename=\"\xc9change.pdf\"\r\n\r\n";
    let reason = b"HTTP/1.1 200 Gefunden f\xfcr Sie\r\n\r\n";
    let strange = b"HTTP/1.1 200 OK\r\nX-\xfc: a\r\nA: b\r\n\r\n";
    let mut cases = Vec::new();
    for (what, source, head) in [
        (
            "a cookie in no UTF-8",
            "a WARC file of 2012, reported to warcio",
            &cookie[..],
        ),
        ("a file name in Latin-1", "reported to warcio", name),
        (
            "a reason in Latin-1",
            "constructed: a server with a language of its own",
            reason,
        ),
        ("a name in Latin-1", "constructed: a CGI program", strange),
    ] {
        cases.push(made(what, source, head, b"page", b"page"));
    }
    cases
}
