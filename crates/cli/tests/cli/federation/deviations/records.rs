//! The records, each with its right value.

use redis_tests::archive::collection::sha1_base32;

use super::TIME;
use crate::federation::shelf::iso;

const PAGE: &[u8] = b"<p>a page, and its last line\n";
const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n";

/// Makes an unusual header of a usual one.
type Rewrite = fn(String) -> String;

/// A record in the making, with its right value.
pub(super) struct Case {
    pub(super) name: String,
    version: &'static str,
    date: String,
    fields: Vec<(&'static str, String)>,
    pub(super) block: Vec<u8>,
    /// The number of bytes by which `Content-Length` is off.
    off: i64,
    end: &'static [u8],
    /// Says what of the header differs from the usual.
    rewrite: Rewrite,
    /// The body of the replay; `None` when there must be none.
    pub(super) right: Option<Vec<u8>>,
    /// The digests that the record must still state.
    pub(super) states: [bool; 2],
}

fn sha1(bytes: &[u8]) -> String {
    format!("sha1:{}", sha1_base32(bytes))
}

fn block() -> Vec<u8> {
    [HEAD.as_bytes(), PAGE].concat()
}

fn case(name: impl Into<String>) -> Case {
    Case {
        name: name.into(),
        version: "1.0",
        date: iso(TIME),
        fields: Vec::new(),
        block: block(),
        off: 0,
        end: b"\r\n\r\n",
        rewrite: |header| header,
        right: Some(PAGE.to_vec()),
        states: [false, false],
    }
}

/// The digests of the right block and its payload.
pub(super) fn both() -> Vec<(&'static str, String)> {
    digests(sha1(&block()), sha1(PAGE))
}

fn digests(block: String, payload: String) -> Vec<(&'static str, String)> {
    vec![
        ("WARC-Block-Digest", block),
        ("WARC-Payload-Digest", payload),
    ]
}

pub(super) fn cases() -> Vec<Case> {
    let (of_block, of_page, of_other) = (sha1(&block()), sha1(PAGE), sha1(b"something else"));
    let nothing = sha1(b"");
    let mut cases = Vec::new();
    // Digests: warcio recompress keeps that of a block whose header it rewrites; others swap the two.
    for (name, block, payload, states, is_right) in [
        ("both right", &of_block, &of_page, [true, true], true),
        ("block wrong", &of_other, &of_page, [false, true], true),
        ("payload wrong", &of_block, &of_other, [true, false], true),
        ("swapped", &of_page, &of_block, [false, false], true),
        (
            "both of the payload",
            &of_page,
            &of_page,
            [false, true],
            true,
        ),
        (
            "both of the block",
            &of_block,
            &of_block,
            [true, false],
            true,
        ),
        ("both wrong", &of_other, &of_other, [false, false], false),
        (
            "payload of nothing",
            &of_block,
            &nothing,
            [true, false],
            true,
        ),
        ("both of nothing", &nothing, &nothing, [false, false], true),
    ] {
        cases.push(Case {
            fields: digests(block.clone(), payload.clone()),
            states,
            right: is_right.then(|| PAGE.to_vec()),
            ..case(format!("digests: {name}"))
        });
    }
    // Lengths that are off, as Heritrix and old versions of wget and warctools wrote them.
    for off in [-16, -4, -3, -2, -1, 1, 2, 3, 4] {
        for (proof, fields, states) in [
            ("digests", both(), [true, true]),
            ("nothing", Vec::new(), [false, false]),
        ] {
            cases.push(Case {
                off,
                fields,
                states,
                ..case(format!("length off by {off}, proven by {proof}"))
            });
        }
    }
    for off in [-20, 200] {
        cases.push(Case {
            off,
            right: None,
            ..case(format!("length off by {off}"))
        });
    }
    for (name, end) in [
        ("CR LF", &b"\r\n"[..]),
        ("LF LF", b"\n\n"),
        ("nothing", b""),
        ("three line ends", b"\r\n\r\n\r\n"),
        (
            "zeros",
            b"\r\n\r\n\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        ),
    ] {
        cases.push(Case {
            end,
            ..case(format!("closed by {name}"))
        });
    }
    for version in ["0.17", "0.18", "1.1"] {
        cases.push(Case {
            version,
            ..case(format!("WARC/{version}"))
        });
    }
    // ISO 28500:2017, section 5.4, and isoformat() of Python.
    for date in [
        "2016-01-02T03:04:05.123456Z",
        "2016-01-02T03:04:05+00:00",
        "2016-01-02T05:04:05+02:00",
        "2016-01-02T03:04:05",
    ] {
        cases.push(Case {
            date: date.to_owned(),
            ..case(format!("date {date}"))
        });
    }
    let rewrites: [(&str, Rewrite); 7] = [
        ("LF alone", |header| header.replace("\r\n", "\n")),
        ("CR CR LF", |header| header.replace("\r\n", "\r\r\n")),
        ("small letters", |header| {
            header
                .replace("WARC-", "warc-")
                .replace("warc-1.0", "WARC/1.0")
        }),
        ("no blank after the colon", |header| {
            header.replace(": ", ":")
        }),
        ("blanks around", |header| header.replace(": ", ":  \t")),
        ("brackets", |header| {
            header
                .replace("URI: ", "URI: <")
                .replace("\r\nWARC-Date", ">\r\nWARC-Date")
        }),
        ("a control character", |header| {
            header.replace("\r\nWARC-Date", "\r\nX-Note: a\u{1}b\r\nWARC-Date")
        }),
    ];
    for (name, rewrite) in rewrites {
        cases.push(Case {
            rewrite,
            fields: both(),
            states: [true, true],
            ..case(format!("header: {name}"))
        });
    }
    // HTTP as servers write it and recorders keep it.
    for (name, http, payload, right) in [
        (
            "1xx before",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
            "page",
            "page",
        ),
        ("no reason", "HTTP/1.1 200\r\n\r\n", "page", "page"),
        ("LF alone", "HTTP/1.0 200 OK\nA: b\n\n", "page", "page"),
        (
            "folded",
            "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
            "page",
            "page",
        ),
        (
            "blank before the colon",
            "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
            "page",
            "page",
        ),
        (
            "chunks",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "4\r\npage\r\n0\r\n\r\n",
            "page",
        ),
        (
            "chunks undone",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "page",
            "page",
        ),
        (
            "gzip undone",
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n",
            "page",
            "page",
        ),
        (
            "br undone",
            "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\n",
            "page",
            "page",
        ),
        (
            "zstd undone",
            "HTTP/1.1 200 OK\r\nContent-Encoding: zstd\r\n\r\n",
            "page",
            "page",
        ),
        (
            "deflate undone",
            "HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\n\r\n",
            "page",
            "page",
        ),
        (
            "empty",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            "",
            "",
        ),
    ] {
        let block = [http, payload].concat().into_bytes();
        cases.push(Case {
            fields: vec![("WARC-Block-Digest", sha1(&block))],
            states: [true, false],
            block,
            right: Some(right.into()),
            ..case(format!("HTTP: {name}"))
        });
    }
    // Payload digests in all spellings, also of the payload without its chunks.
    let hex: String = "f572d396fae9206628714fb2ce00f72e94f2258f".into();
    for (name, digest) in [
        ("small letters", sha1(b"hello\n").to_lowercase()),
        ("hexadecimal", format!("sha1:{hex}")),
        ("without a name", sha1_base32(b"hello\n")),
        ("SHA-1", sha1(b"hello\n").replace("sha1", "SHA-1")),
        ("unknown algorithm", "blake3:00".to_owned()),
    ] {
        cases.push(Case {
            fields: vec![("WARC-Payload-Digest", digest.clone())],
            states: [false, !digest.starts_with("blake3")],
            block: [HEAD, "hello\n"].concat().into_bytes(),
            right: Some(b"hello\n".to_vec()),
            ..case(format!("digest: {name}"))
        });
    }
    cases
}

impl Case {
    pub(super) fn url(&self) -> String {
        format!(
            "http://example.com/{}",
            sha1_base32(self.name.as_bytes()).to_lowercase()
        )
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let fields = self
            .fields
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"));
        let header = format!(
            "WARC/{}\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:{}>\r\nWARC-Target-URI: {}\r\nWARC-Date: {}\r\n\
             Content-Type: application/http; msgtype=response\r\n{}Content-Length: {}\r\n\r\n",
            self.version,
            sha1_base32(self.name.as_bytes()),
            self.url(),
            self.date,
            fields.collect::<String>(),
            self.block.len() as i64 + self.off
        );
        [(self.rewrite)(header).as_bytes(), &self.block, self.end].concat()
    }
}
