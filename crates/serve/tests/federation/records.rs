//! Tests of records that are large, or change while they are served.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;

use flate2::write::GzEncoder;
use redis_tests::http::get;
use redis_tests::{assert_contains, peak_memory_of};

use crate::resource::target;
use crate::serving::Stage;
use crate::shelf::{HTTP, Shelf, Slot, iso};

const URL: &str = "http://example.com/";
const TIME: &str = "20160102030405";

/// Writes a record with `size` bytes of payload, all equal.
fn write_large(out: &mut impl Write, size: u64) {
    let length = HTTP.len() as u64 + size;
    let head = format!(
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:large>\r\nWARC-Date: {}\r\n\
         WARC-Target-URI: {URL}\r\nContent-Type: application/http; msgtype=response\r\nContent-Length: {length}\r\n\r\n{HTTP}",
        iso(TIME)
    );
    out.write_all(head.as_bytes()).unwrap();
    let piece = vec![b'x'; 1 << 20];
    let mut left = size;
    while left > 0 {
        let now = left.min(piece.len() as u64) as usize;
        out.write_all(&piece[..now]).unwrap();
        left -= now as u64;
    }
    out.write_all(b"\r\n\r\n").unwrap();
}

/// Reads a response to its end. Returns its stated length, and the number of bytes after its head.
fn drain(stage: &Stage, target: &str) -> (u64, u64) {
    let mut stream = TcpStream::connect(stage.address()).unwrap();
    write!(
        stream,
        "GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut buffer = vec![0; 1 << 18];
    let mut head = Vec::new();
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        let n = stream.read(&mut buffer).unwrap();
        assert!(n > 0, "{}", String::from_utf8_lossy(&head));
        head.extend_from_slice(&buffer[..n]);
    }
    let at = head
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap()
        + 4;
    let text = String::from_utf8_lossy(&head[..at]).to_ascii_lowercase();
    let length = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .expect("a length");
    let length = length.parse().unwrap();
    let mut count = (head.len() - at) as u64;
    loop {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return (length, count),
            Ok(n) => count += n as u64,
        }
    }
}

#[test]
fn large_record_takes_no_more_memory_than_a_small_one() {
    const LARGE: u64 = 500 << 20;
    let mut shelf = Shelf::new();
    let slot = |name: &str, size: u64| {
        let path = shelf.path().join("warcs").join(name);
        let mut file = File::create(&path).unwrap();
        if name.ends_with(".gz") {
            let mut member = GzEncoder::new(&mut file, flate2::Compression::fast());
            write_large(&mut member, size);
            member.finish().unwrap();
        } else {
            write_large(&mut file, size)
        }
        drop(file);
        let length = std::fs::metadata(path).unwrap().len();
        Slot {
            file: name.to_owned(),
            offset: 0,
            length,
        }
    };
    let small = slot("small.warc.gz", 1000);
    let slots = [slot("large.warc.gz", LARGE), slot("plain.warc", 100 << 20)];
    shelf.line(URL, TIME, &small, "");
    let index = shelf.write_index("small.cdxj");
    let mut config = format!(
        "collections:\n  small:\n    index: {index}\n    resource: {}\n",
        shelf.warcs()
    );
    for (name, slot) in ["packed", "plain"].iter().zip(&slots) {
        shelf.line(URL, TIME, slot, "");
        let index = shelf.write_index(&format!("{name}.cdxj"));
        config.push_str(&format!(
            "  {name}:\n    index: {index}\n    resource: {}\n",
            shelf.warcs()
        ));
    }
    let stage = Stage::start_apart(&config);
    let (length, came) = drain(&stage, &target("small", URL, TIME));
    assert_eq!(length, came);
    let before = peak_memory_of(stage.pid());
    for (name, size) in [("packed", LARGE), ("plain", 100 << 20)] {
        let (length, came) = drain(&stage, &target(name, URL, TIME));
        assert!(length > size && length == came, "{came} of {length} bytes");
        let replay = drain(&stage, &format!("/{name}/{TIME}id_/{URL}"));
        assert_eq!(replay, (size, size));
    }
    let more = peak_memory_of(stage.pid()) - before;
    assert!(more < 16 << 20, "{more} bytes more");
}

#[test]
fn invalid_large_record_is_never_sent_as_a_whole() {
    // Too large to be read twice.
    const LARGE: u64 = 80 << 20;
    let mut shelf = Shelf::new();
    let path = shelf.path().join("warcs/large.warc.gz");
    let mut member = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    write_large(&mut member, LARGE);
    let mut bytes = member.finish().unwrap();
    // Damages the checksum at the end of the member.
    let at = bytes.len() - 8;
    bytes[at] ^= 1;
    std::fs::write(path, &bytes).unwrap();
    let slot = Slot {
        file: "large.warc.gz".to_owned(),
        offset: 0,
        length: bytes.len() as u64,
    };
    shelf.line(URL, TIME, &slot, "");
    let stage = shelf.serve();
    for target in [target("c", URL, TIME), format!("/c/{TIME}id_/{URL}")] {
        let (length, came) = drain(&stage, &target);
        assert!(came < length, "the whole record was sent: {target}");
    }
}

#[test]
fn damaged_records_are_skipped_if_they_can_be_read_twice() {
    let mut shelf = Shelf::new();
    let good = shelf.capture("good.warc.gz", URL, "20160102030404", b"good");
    let damaged = [
        ("WARC-Type", "response"),
        ("WARC-Record-ID", "<urn:uuid:large>"),
        ("WARC-Date", &*iso(TIME)),
        ("WARC-Target-URI", URL),
        ("WARC-Block-Digest", "sha1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
    ];
    let block = [HTTP.as_bytes(), &vec![b'x'; 2 << 20]].concat();
    let slot = shelf.record("large.warc.gz", &damaged, &block);
    shelf.line(URL, TIME, &slot, "");
    let stage = shelf.serve();
    let answer = stage.get(target("c", URL, TIME));
    assert!(answer.body.ends_with(b"good\r\n\r\n"), "{}", answer.text());
    // A record damaged later is not served, although its file is still open.
    let path = shelf.path().join("warcs/good.warc.gz");
    let mut bytes = std::fs::read(&path).unwrap();
    let at = good.offset as usize + good.length as usize - 6;
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(stage.get(target("c", URL, TIME)).status, 404);
}

#[test]
fn redirect_to_itself_is_no_answer() {
    let mut shelf = Shelf::new();
    for (timestamp, location) in [
        ("20160102030405", "https://www.example.com/"),
        ("20160102030404", "/"),
    ] {
        let http = format!("HTTP/1.1 301 Moved\r\nLocation: {location}\r\n\r\n");
        let fields = [
            ("WARC-Type", "response"),
            ("WARC-Record-ID", "<urn:uuid:redirect>"),
            ("WARC-Date", &*iso(timestamp)),
            ("WARC-Target-URI", URL),
        ];
        let slot = shelf.record("a.warc.gz", &fields, http.as_bytes());
        shelf.line(URL, timestamp, &slot, ", \"status\": \"301\"");
    }
    shelf.capture("a.warc.gz", URL, "20150101000000", b"a page");
    let stage = shelf.serve();
    let asked = target("c", URL, TIME);
    let answer = stage.get(&asked);
    assert!(
        answer.body.ends_with(b"a page\r\n\r\n"),
        "{}",
        answer.text()
    );
    let itself = stage.get(format!("{asked}&from={TIME}&to={TIME}"));
    assert_contains(itself.text(), "Location: https://www.example.com/");
    let only_redirects = asked + "&from=2016";
    let answer = stage.get(&only_redirects);
    assert_eq!(answer.status, 404);
    assert_contains(answer.text(), "redirect to its own URL");
    let replay = stage.get(format!("/c/{TIME}id_/{URL}"));
    assert_eq!((replay.status, &*replay.text()), (200, "a page"));
}

#[test]
fn record_with_an_extra_cr_per_line_is_loaded() {
    let mut shelf = Shelf::new();
    let http = "HTTP/1.0 302 \nLocation: http://www.example.com/other\nContent-Length: 0\n\n";
    let length = http.replace('\n', "\r\n").len();
    let head = format!(
        "WARC/1.0\nWARC-Type: response\nWARC-Record-ID: <urn:uuid:1>\nWARC-Date: {}\nContent-Length: {length}\n\
         Content-Type: application/http; msgtype=response\n\
         WARC-Payload-Digest: sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ\nWARC-Target-URI: {URL}\n\n",
        iso(TIME)
    );
    let text = format!("{head}{http}").replace('\n', "\r\r\n");
    std::fs::write(shelf.path().join("warcs/a.warc"), &text).unwrap();
    let slot = Slot {
        file: "a.warc".to_owned(),
        offset: 0,
        length: (head.replace('\n', "\r\r\n").len() + length) as u64,
    };
    shelf.line(URL, TIME, &slot, ", \"status\": \"302\"");
    let index = shelf.write_index("index.cdxj");
    let stage = Stage::start(&format!(
        "collections:\n  c: {{index: {index}, resource: {}}}\n",
        shelf.warcs()
    ));
    let answer = stage.get(target("c", URL, TIME));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let replay = stage.get(format!("/c/{TIME}id_/{URL}"));
    let location = format!("{}/c/{TIME}id_/http://www.example.com/other", stage.url());
    assert_eq!(replay.status, 302);
    assert_eq!(replay.field("location"), Some(&*location));
}

#[test]
fn timestamps_of_any_precision_are_used() {
    let mut shelf = Shelf::new();
    let other = "http://example.com/other";
    for (url, time, timestamp) in [
        (URL, "20240102030400", "202401020304Z"),
        (URL, "20240102030415", "20240102030415"),
        (other, "20240101000000", "20240"),
        (other, "20240210000000", "2024021"),
    ] {
        let slot = shelf.response("a.warc", url, time, timestamp.as_bytes());
        shelf.line(url, timestamp, &slot, "");
    }
    let stage = shelf.serve();
    let rows = |more: &str| {
        let answer = stage.get(format!("/c/index?url={URL}&fl=timestamp{more}"));
        assert_eq!(answer.field("source-errors"), None);
        answer.text().lines().count()
    };
    for (more, count) in [
        ("", 2),
        ("&sort=reverse", 2),
        ("&closest=20240102030410", 2),
        ("&to=20240102030410", 1),
        ("&from=20240102030401", 1),
        ("&from=20240102030500", 0),
    ] {
        assert_eq!(rows(more), count, "{more}");
    }
    for (url, time, payload) in [
        (URL, "20240102030459", "202401020304Z"),
        (URL, "20240102030415", "20240102030415"),
        (other, "20240101000000", "20240"),
        (other, "20240210000000", "2024021"),
    ] {
        let replay = stage.get(format!("/c/{time}id_/{url}"));
        assert_eq!((replay.status, &*replay.text()), (200, payload));
    }
    assert!(!stage.log().contains("not sorted"), "{}", stage.log());
}

#[test]
fn length_without_the_closing_is_no_deviation() {
    let mut shelf = Shelf::new();
    let slot = shelf.response("a.warc", URL, TIME, b"hello");
    let second = "http://example.com/second";
    let whole = shelf.response("a.warc", second, TIME, b"hello");
    let length = slot.length - 4;
    shelf.line(URL, TIME, &Slot { length, ..slot }, "");
    // One of the two line ends is missing.
    let length = whole.length - 2;
    shelf.line(second, TIME, &Slot { length, ..whole }, "");
    let stage = shelf.serve();
    let deviations = |url: &str| {
        assert_eq!(stage.get(target("c", url, TIME)).status, 200);
        let metrics = get(stage.operator(), "/_metrics").text().to_owned();
        metrics.contains(
            "crawlspace_record_deviations_total{collection=\"c\",deviation=\"closing\"} 1",
        )
    };
    assert!(!deviations(URL));
    assert!(deviations(second));
}
