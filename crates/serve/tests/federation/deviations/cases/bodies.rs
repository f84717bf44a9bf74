//! Cases of bodies with correct and incorrect lengths, chunks and codings in their HTTP header.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

use super::http::{Row, made, row};
use super::records::{Case, case, sha1, stating};

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Bodies with their HTTP headers.
const BODIES: &[Row] = &[
    (
        "empty",
        "RFC 9110, 8.6",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "",
        "",
    ),
    (
        "many blanks before the length",
        "reported to SolrWayback",
        "HTTP/1.1 200 OK\r\nContent-Length:        4\r\n\r\n",
        "page",
        "page",
    ),
    (
        "a length that is too small",
        "Nutch of Common Crawl unpacks bodies, reported to warctools",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n",
        "page",
        "page",
    ),
    (
        "a length that is too large",
        "constructed: a connection that was closed",
        "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n",
        "page",
        "page",
    ),
    (
        "two lengths",
        "RFC 9112, 6.3",
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n",
        "page",
        "page",
    ),
    (
        "a length that is not a number",
        "constructed: a wrong format",
        "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n",
        "page",
        "page",
    ),
    (
        "a negative length",
        "constructed: a server that counts with 32 bits",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "page",
        "page",
    ),
    (
        "chunks",
        "RFC 9112, 7.1",
        CHUNKED,
        "4\r\npage\r\n0\r\n\r\n",
        "page",
    ),
    (
        "chunks undone",
        "pywb when it records, reported to it",
        CHUNKED,
        "page",
        "page",
    ),
    (
        "chunks undone, of digits",
        "pywb when it records, with text that begins with a number",
        CHUNKED,
        "4\n2 is no size\n",
        "4\n2 is no size\n",
    ),
    (
        "chunks with extensions",
        "reported to ipwb",
        CHUNKED,
        "4;a=b\r\npage\r\n0\r\n\r\n",
        "page",
    ),
    (
        "chunks with blanks after the size",
        "servers that fill up the field, as this reader has known them",
        CHUNKED,
        "4   \r\npage\r\n0   \r\n\r\n",
        "page",
    ),
    (
        "chunks with zeros before the size",
        "servers that fill up the field, as this reader has known them",
        CHUNKED,
        "0004\r\npage\r\n0000\r\n\r\n",
        "page",
    ),
    (
        "chunks and a trailer",
        "RFC 9112, 7.1.2",
        CHUNKED,
        "4\r\npage\r\n0\r\nA: b\r\n\r\n",
        "page",
    ),
    (
        "chunks with LF alone",
        "constructed: a server on Unix",
        CHUNKED,
        "4\npage\n0\n\n",
        "page",
    ),
    (
        "chunks that break off",
        "constructed: a connection that was closed",
        CHUNKED,
        "4\r\npage\r\n9\r\nand",
        "pageand",
    ),
    (
        "no last chunk",
        "constructed: a connection that was closed",
        CHUNKED,
        "4\r\npage\r\n",
        "page",
    ),
    (
        "more after the last chunk",
        "constructed: a server that goes on",
        CHUNKED,
        "4\r\npage\r\n0\r\n\r\nmore",
        "page",
    ),
    (
        "chunks and a length",
        "RFC 9112, 6.3",
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
        "4\r\npage\r\n0\r\n\r\n",
        "page",
    ),
    (
        "chunks in capitals",
        "RFC 9112, 7: names in either case",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n",
        "4\r\npage\r\n0\r\n\r\n",
        "page",
    ),
    (
        "chunks of HTTP/1.0",
        "constructed: a server that does not look at the version",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "4\r\npage\r\n0\r\n\r\n",
        "page",
    ),
    (
        "chunks said twice",
        "constructed: a proxy that adds a field",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        "4\r\npage\r\n0\r\n\r\n",
        "page",
    ),
    (
        "chunks after another coding",
        "constructed: a proxy that adds a field",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n",
        "4\r\npage\r\n0\r\n\r\n",
        "page",
    ),
    (
        "no chunks, as it says",
        "RFC 2616, 3.6",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n",
        "4\r\npage\r\n0\r\n\r\n",
        "4\r\npage\r\n0\r\n\r\n",
    ),
    (
        "gzip undone",
        "Nutch of Common Crawl, reported to warctools",
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n",
        "page",
        "page",
    ),
    (
        "br undone",
        "found in use",
        "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\n",
        "page",
        "page",
    ),
    (
        "zstd undone",
        "found in use",
        "HTTP/1.1 200 OK\r\nContent-Encoding: zstd\r\n\r\n",
        "page",
        "page",
    ),
    (
        "deflate undone",
        "found in use",
        "HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\n\r\n",
        "page",
        "page",
    ),
    (
        "gzip in chunks, both undone",
        "found in use",
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n",
        "page",
        "page",
    ),
    (
        "the coding identity",
        "reported to jwarc",
        "HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\n\r\n",
        "page",
        "page",
    ),
    (
        "the coding none",
        "reported to jwarc and curl",
        "HTTP/1.1 200 OK\r\nContent-Encoding: none\r\n\r\n",
        "page",
        "page",
    ),
    (
        "the coding UTF-8",
        "pages that mean their characters, reported to SolrWayback",
        "HTTP/1.1 200 OK\r\nContent-Encoding: UTF-8\r\n\r\n",
        "page",
        "page",
    ),
    (
        "the coding is empty",
        "constructed: a CGI program with an unset variable",
        "HTTP/1.1 200 OK\r\nContent-Encoding:\r\n\r\n",
        "page",
        "page",
    ),
];

pub fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = BODIES.iter().map(row).collect();
    cases.extend(packed());
    // The payload starts after the last of several headers, or excludes the chunk framing.
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n\r\n";
    for (name, source, head, payload) in [
        ("1xx before", "found in use", interim, "page"),
        (
            "chunks that do not count",
            "warcio and wget-lua, ISO 28500:2017, 6.3.2",
            CHUNKED,
            "4\r\npage\r\n0\r\n\r\n",
        ),
    ] {
        let block = [head, payload].concat();
        cases.push(Case {
            fields: stating(sha1(block.as_bytes()), sha1(b"page")),
            states: [true, false],
            block: block.into_bytes(),
            right: Some(b"page".to_vec()),
            ..case(format!("HTTP: {name}"), source)
        });
        cases.push(Case {
            fields: vec![("WARC-Payload-Digest", sha1(b"page"))],
            block: [head, payload].concat().into_bytes(),
            right: Some(b"page".to_vec()),
            ..case(format!("HTTP: {name}, by the payload alone"), source)
        });
    }
    cases
}

/// Returns cases of bodies that are encoded as their headers say.
fn packed() -> Vec<Case> {
    let level = Compression::fast();
    let page = b"<p>a page, and a page, and a page";
    let mut gzip = GzEncoder::new(Vec::new(), level);
    let mut zlib = ZlibEncoder::new(Vec::new(), level);
    let mut bare = DeflateEncoder::new(Vec::new(), level);
    gzip.write_all(page).unwrap();
    zlib.write_all(page).unwrap();
    bare.write_all(page).unwrap();
    let gzip = gzip.finish().unwrap();
    let head = |coding: &str, more: &str| {
        format!("HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\n{more}\r\n")
    };
    let in_chunks = [
        format!("{:x}\r\n", gzip.len()).as_bytes(),
        &gzip,
        b"\r\n0\r\n\r\n",
    ]
    .concat();
    let chunked = "Transfer-Encoding: chunked\r\n";
    vec![
        Case {
            shows: &[("content-encoding", "gzip")],
            ..made(
                "gzip",
                "RFC 9110, 8.4.1",
                head("gzip", "").as_bytes(),
                &gzip,
                &gzip,
            )
        },
        Case {
            shows: &[("content-encoding", "x-gzip")],
            ..made(
                "x-gzip",
                "RFC 9110, 8.4.1.3",
                head("x-gzip", "").as_bytes(),
                &gzip,
                &gzip,
            )
        },
        Case {
            shows: &[("content-encoding", "GZIP")],
            ..made(
                "GZIP in capitals",
                "RFC 9110, 8.4.1: in either case",
                head("GZIP", "").as_bytes(),
                &gzip,
                &gzip,
            )
        },
        Case {
            shows: &[("content-encoding", "gzip")],
            ..made(
                "gzip in chunks",
                "reported to pywb",
                head("gzip", chunked).as_bytes(),
                &in_chunks,
                &gzip,
            )
        },
        Case {
            shows: &[("content-encoding", "deflate")],
            ..made(
                "deflate",
                "RFC 9110, 8.4.1.2",
                head("deflate", "").as_bytes(),
                &zlib.finish().unwrap(),
                b"",
            )
        },
        Case {
            shows: &[("content-encoding", "deflate")],
            ..made(
                "deflate without zlib",
                "RFC 9110, 8.4.1.2: some send it bare",
                head("deflate", "").as_bytes(),
                &bare.finish().unwrap(),
                b"",
            )
        },
    ]
    .into_iter()
    .map(|case| match &case.right {
        // The body is replayed as stored.
        Some(right) if right.is_empty() => {
            let payload = memchr::memmem::find(&case.block, b"\r\n\r\n").map(|at| at + 4);
            let payload = payload
                .and_then(|at| case.block.get(at..))
                .map(<[u8]>::to_vec);
            Case {
                right: payload,
                ..case
            }
        }
        _ => case,
    })
    .collect()
}
