//! Records as real tools and accidents left them: what is proven intact is served, what is not is never served as whole.

use std::io::{Read as _, Write as _};

use crawlspace_warc::Reader;
use redis_tests::archive::collection::sha1_base32;
use redis_tests::http::{Answer, ask};

use crate::federation::shelf::{Shelf, Slot, iso};
use crate::serving::Stage;

const TIME: &str = "20160102030405";
const PAGE: &[u8] = b"<p>a page, and its last line\n";
const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n";

/// Makes an unusual header of a usual one.
type Rewrite = fn(String) -> String;

/// A record in the making, with its right value.
struct Case {
    name: String,
    version: &'static str,
    date: String,
    fields: Vec<(&'static str, String)>,
    block: Vec<u8>,
    /// The number of bytes by which `Content-Length` is off.
    off: i64,
    end: &'static [u8],
    /// Says what of the header differs from the usual.
    rewrite: Rewrite,
    /// The body of the replay; `None` when there must be none.
    right: Option<Vec<u8>>,
    /// The digests that the record must still state.
    states: [bool; 2],
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
fn both() -> Vec<(&'static str, String)> {
    digests(sha1(&block()), sha1(PAGE))
}

fn digests(block: String, payload: String) -> Vec<(&'static str, String)> {
    vec![
        ("WARC-Block-Digest", block),
        ("WARC-Payload-Digest", payload),
    ]
}

fn cases() -> Vec<Case> {
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
    fn url(&self) -> String {
        format!(
            "http://example.com/{}",
            sha1_base32(self.name.as_bytes()).to_lowercase()
        )
    }

    fn bytes(&self) -> Vec<u8> {
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

/// Writes all records into a file, each in a gzip member of its own if `is_packed`, and their lines.
fn store(shelf: &mut Shelf, cases: &[Case], file: &str, is_packed: bool, has_length: bool) {
    let mut bytes = Vec::new();
    for case in cases {
        let offset = bytes.len() as u64;
        if is_packed {
            let mut member = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            member.write_all(&case.bytes()).unwrap();
            bytes.extend(member.finish().unwrap());
        } else {
            bytes.extend(case.bytes());
        }
        let length = if has_length {
            bytes.len() as u64 - offset
        } else {
            0
        };
        let slot = Slot {
            file: file.to_owned(),
            offset,
            length,
        };
        shelf.line(&case.url(), TIME, &slot, "");
    }
    std::fs::write(shelf.path().join("warcs").join(file), bytes).unwrap();
}

#[test]
fn what_is_proven_intact_is_served_from_every_container() {
    let cases = cases();
    let mut shelf = Shelf::new();
    let mut config = String::from("collections:\n");
    for (name, is_packed, has_length) in [
        ("packed", true, true),
        ("plain", false, true),
        ("open", false, false),
    ] {
        store(
            &mut shelf,
            &cases,
            &format!("{name}.warc"),
            is_packed,
            has_length,
        );
        let (index, warcs) = (shelf.write_index(&format!("{name}.cdxj")), shelf.warcs());
        config += &format!("  {name}: {{index: {index}, resource: {warcs}}}\n");
    }
    let files = Stage::start(&config);
    // Another server that reads all of it from the first one.
    let remote = format!(
        "collections:\n  packed: {{index: {{type: upstream, url: '{}/packed'}}, resource: $live}}\n",
        files.url()
    );
    let remote = Stage::start(&remote);
    let mut served = 0;
    for case in &cases {
        for (stage, collection) in [
            (&files, "packed"),
            (&files, "plain"),
            (&files, "open"),
            (&remote, "packed"),
        ] {
            let shown = format!("{}: {collection}", case.name);
            let answer = stage.get(format!("/{collection}/{TIME}id_/{}", case.url()));
            let Some(right) = &case.right else {
                assert_eq!(answer.status, 404, "{shown}");
                continue;
            };
            assert_eq!(answer.status, 200, "{shown}: {}", answer.text());
            assert!(answer.body == *right, "{shown}: {}", answer.text());
            assert_eq!(answer.field("content-encoding"), None, "{shown}");
            let answer = stage.get(format!("/{collection}/resource?url={}", case.url()));
            let mut reader = Reader::new(&*shown, &answer.body[..]);
            let mut stored = reader.next().unwrap().unwrap();
            let (mut block, head) = (Vec::new(), stored.header().clone());
            stored.read_to_end(&mut block).unwrap();
            assert!(stored.finish().unwrap().deviations.is_empty(), "{shown}");
            assert!(block == case.block, "{shown}");
            for ((name, _), states) in both().iter().zip(case.states) {
                assert_eq!(head.get(name).is_some(), states, "{shown}: {name}");
            }
            served += 1;
        }
    }
    assert!(served > 200, "{served}");
}

/// A response of HTTP in a plain file, and its line.
pub fn capture(shelf: &mut Shelf, url: &str, time: &str, http: &str, body: &[u8], status: &str) {
    let slot = shelf.record(
        "a.warc",
        &[
            ("WARC-Type", "response"),
            (
                "WARC-Record-ID",
                &format!(
                    "<urn:uuid:{}>",
                    sha1_base32(format!("{url}{time}{http}").as_bytes())
                ),
            ),
            ("WARC-Date", &iso(time)),
            ("WARC-Target-URI", url),
            ("Content-Type", "application/http; msgtype=response"),
        ],
        &[http.as_bytes(), body].concat(),
    );
    shelf.line(
        url,
        time,
        &slot,
        &format!(", \"status\": \"{status}\", \"mime\": \"video/mp4\""),
    );
}

fn part(stage: &Stage, url: &str, range: &str) -> Answer {
    let target = format!("/c/{TIME}id_/{url}");
    ask(stage.address(), "GET", &target, &[("Range", range)], b"").unwrap()
}

#[test]
fn parts_of_captures_are_replayed() {
    let mut shelf = Shelf::new();
    let body: Vec<u8> = (0..1000u32).map(|n| (n % 251) as u8).collect();
    let (whole, pieces, lone, cut) = (
        "http://a.example/v.mp4",
        "http://b.example/v.mp4",
        "http://c.example/v.mp4",
        "http://d.example/v.mp4",
    );
    capture(
        &mut shelf,
        whole,
        TIME,
        "HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\n\r\n",
        &body,
        "200",
    );
    let partial = |first: usize, last: usize| {
        format!(
            "HTTP/1.1 206 Partial Content\r\nContent-Type: video/mp4\r\nContent-Range: bytes {first}-{last}/1000\r\n\r\n"
        )
    };
    for (n, (first, last)) in [(0, 399), (400, 799), (800, 999)].into_iter().enumerate() {
        let time = format!("2016010203040{n}");
        capture(
            &mut shelf,
            pieces,
            &time,
            &partial(first, last),
            &body[first..=last],
            "206",
        );
    }
    capture(&mut shelf, lone, TIME, &partial(0, 999), &body, "206");
    // Parts that recorders did not wait for the end of: the closest one begins first.
    for (n, (first, end)) in [(700, 1000), (300, 800), (0, 400)].into_iter().enumerate() {
        let time = format!("2016010203040{n}");
        let http = partial(first, 999);
        capture(&mut shelf, cut, &time, &http, &body[first..end], "206");
    }
    let stage = shelf.serve();
    let all = stage.get(format!("/c/{TIME}id_/{whole}"));
    assert_eq!(
        (all.status, all.field("accept-ranges")),
        (200, Some("bytes"))
    );
    for (url, range, first, last) in [
        (whole, "bytes=0-", 0, 999),
        (whole, "bytes=10-19", 10, 19),
        (whole, "bytes=-5", 995, 999),
        (whole, "bytes=990-5000", 990, 999),
        (pieces, "bytes=0-", 0, 399),
        (pieces, "bytes=450-500", 450, 500),
        (pieces, "bytes=799-", 799, 799),
        (pieces, "bytes=-100", 900, 999),
        (lone, "bytes=5-6", 5, 6),
        (cut, "bytes=0-", 0, 399),
        (cut, "bytes=350-500", 350, 399),
        (cut, "bytes=400-", 400, 799),
        (cut, "bytes=-200", 800, 999),
    ] {
        let answer = part(&stage, url, range);
        assert_eq!(answer.status, 206, "{url} {range}: {}", answer.text());
        assert!(answer.body == body[first..=last], "{url} {range}");
        let expected = format!("bytes {first}-{last}/1000");
        assert_eq!(
            answer.field("content-range"),
            Some(&*expected),
            "{url} {range}"
        );
    }
    let beyond = part(&stage, whole, "bytes=1000-");
    assert_eq!(
        (beyond.status, beyond.field("content-range")),
        (416, Some("bytes */1000"))
    );
    assert!(beyond.body.is_empty());
    for ignored in ["bytes=0-1,5-6", "lines=0-1", "bytes=9-1"] {
        let answer = part(&stage, whole, ignored);
        assert!(answer.status == 200 && answer.body == body, "{ignored}");
    }
    let complete = stage.get(format!("/c/{TIME}id_/{lone}"));
    assert!(complete.status == 200 && complete.body == body);
    assert_eq!(complete.field("content-range"), None);
    let begin = stage.get(format!("/c/{TIME}id_/{cut}"));
    assert!(begin.status == 206 && begin.body == body[..400]);
    assert_eq!(begin.field("content-range"), Some("bytes 0-399/1000"));
}

#[test]
fn of_captures_of_one_second_the_one_that_was_asked_for_comes_first() {
    let mut shelf = Shelf::new();
    let ok = "HTTP/1.1 200 OK\r\n\r\n";
    let redirect = "HTTP/1.1 301 Moved\r\nLocation: https://other.example/\r\n\r\n";
    let partial = "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-0/9\r\n\r\n";
    for (url, http, body, status) in [
        ("http://a.example/Page", redirect, &b"moved"[..], "301"),
        ("http://a.example/Page", partial, b"p", "206"),
        ("http://a.example/Page", ok, b"Page", "200"),
        ("http://a.example/page", ok, b"page", "200"),
        ("https://a.example/page", ok, b"secure", "200"),
    ] {
        capture(&mut shelf, url, TIME, http, body, status);
    }
    let stage = shelf.serve();
    for (url, body) in [
        ("http://a.example/Page", "Page"),
        ("http://a.example/page", "page"),
        ("https://a.example/page", "secure"),
    ] {
        let answer = stage.get(format!("/c/{TIME}id_/{url}"));
        assert_eq!((answer.status, &*answer.text()), (200, body), "{url}");
    }
}
