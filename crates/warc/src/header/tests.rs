use super::*;

const PLAIN: &[u8] =
    b"WARC/1.0\r\nWARC-Type: response\r\nwarc-target-uri:  <http://a.example/> \r\nContent-Length: 3\r\n\r\n";
/// Mandatory fields of a header, with line ends of one byte.
const LEAST: &str = "WARC-Type: x\nContent-Length: 0\n";

fn parse(raw: &[u8]) -> Result<Header, Problem> {
    Header::parse(raw)
}

#[test]
fn dates_become_cdx_digits() {
    let of = |iso: &str| {
        let mut header = Header::new("WARC/1.0");
        header.set("WARC-Date", iso.as_bytes());
        header.timestamp().map(|t| String::from_utf8(t).unwrap())
    };
    assert_eq!(
        of("2026-03-19T10:20:15Z").as_deref(),
        Some("20260319102015")
    );
    assert_eq!(
        of("2026-03-19T10:20:15.5Z").as_deref(),
        Some("20260319102015500")
    );
    assert_eq!(
        of("2026-03-19T10:20:15.123456789Z").as_deref(),
        Some("20260319102015123")
    );
    assert_eq!(of("2026-03").as_deref(), Some("20260301000000"));
    for wrong in [
        "",
        "2026-03-19 10:20:15Z",
        "2026-03-19T10:20:15.Z",
        "2026-03-19T10:20:15+01:00",
        "2o26-03-19T10:20:15Z",
    ] {
        assert_eq!(of(wrong), None, "{wrong}");
    }
}

#[test]
fn angle_brackets_of_wget_are_removed_from_the_uri() {
    let of = |uri: &str| {
        let mut header = Header::new("WARC/1.0");
        header.set("warc-target-uri", uri.as_bytes());
        String::from_utf8(header.target_uri().unwrap().to_vec()).unwrap()
    };
    assert_eq!(of("<http://a.example/>"), "http://a.example/");
    assert_eq!(of("http://a.example/"), "http://a.example/");
    assert_eq!(of("<http://a.example/"), "<http://a.example/");
}

#[test]
fn non_numeric_length_is_refused() {
    for length in [
        "",
        "-1",
        "+1",
        "+5",
        "0x10",
        "1 2",
        "1, 1",
        "99999999999999999999",
    ] {
        let raw = format!("WARC/1.0\r\nWARC-Type: response\r\nContent-Length: {length}\r\n\r\n");
        let header = parse(raw.as_bytes());
        assert!(matches!(header, Err(Problem::Header(_))), "{length:?}");
    }
}

#[test]
fn valid_header_keeps_its_bytes() {
    let header = parse(PLAIN).unwrap();
    assert_eq!(header.raw(), PLAIN);
    assert!(!header.is_changed());
    assert_eq!(header.version(), b"WARC/1.0");
    assert_eq!(header.record_type(), RecordType::Response);
    assert_eq!(header.target_uri(), Some(&b"http://a.example/"[..]));
    assert_eq!(header.content_length(), 3);
    assert_eq!(end_of_header(PLAIN), Some(PLAIN.len()));
    assert_eq!(end_of_header(&PLAIN[..PLAIN.len() - 1]), None);
}

#[test]
fn line_ends_and_folds_are_normalized() {
    let raw = format!("WARC/0.18\nA: b\n  c\nD:\n{LEAST}\n");
    let header = parse(raw.as_bytes()).unwrap();
    assert!(header.is_changed());
    let expected = "WARC/0.18\r\nA: b c\r\nD:\r\nWARC-Type: x\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(header.raw(), expected.as_bytes());
    assert_eq!(header.get("a"), Some(&b"b c"[..]));
    assert_eq!(header.get("d"), Some(&b""[..]));
    let raw = format!("WARC/1.0\nA: b\n{LEAST}\n");
    let twice = raw.replace('\n', "\r\r\n");
    let twice = twice.as_bytes();
    assert_eq!(end_of_header(twice), Some(twice.len()));
    let header = parse(twice).unwrap();
    assert_eq!(header.raw(), raw.replace('\n', "\r\n").as_bytes());
    assert!(header.deviations().iter().eq([Deviation::Header]));
}

#[test]
fn fields_are_replaced_and_removed() {
    let mut header = parse(PLAIN).unwrap();
    header.set("warc-type", b"rev\nisit");
    header.remove("content-length");
    header.set("WARC-Date", b"2016-01-01T00:00:00Z");
    let expected = "WARC/1.0\r\nwarc-target-uri:  <http://a.example/> \r\nwarc-type: rev isit\r\n\
                    WARC-Date: 2016-01-01T00:00:00Z\r\n\r\n";
    assert_eq!(String::from_utf8_lossy(header.raw()), expected);
    assert_eq!(header.date(), Some(&b"2016-01-01T00:00:00Z"[..]));
    header.set_content_length(7);
    assert_eq!(header.content_length(), 7);
    let again = parse(header.raw()).unwrap();
    assert_eq!(again.raw(), header.raw());
    assert_eq!(again.get("WARC-Type"), header.get("WARC-Type"));
    assert_eq!(again.content_length(), 7);
}

#[test]
fn ambiguous_header_is_refused() {
    for (begin, allowed) in [
        ("WARC/2.0\r\n", false),
        ("WARC/0.17\r\n", true),
        ("\r\n", false),
        ("WARC/1.0\r\n a: b\r\n", false),
        ("WARC/1.0\r\nno field\r\n", false),
        ("WARC/1.0\r\n: b\r\n", false),
        ("WARC/1.0\r\n", true),
    ] {
        let parsed = parse(format!("{begin}{LEAST}\n").as_bytes());
        assert_eq!(parsed.is_ok(), allowed, "{begin:?}: {parsed:?}");
    }
    for (line, value) in [("a: b\0c", "b c"), ("a: b\rc: d", "b c: d")] {
        let header = parse(format!("WARC/1.0\r\n{line}\r\n{LEAST}\n").as_bytes()).unwrap();
        assert_eq!(header.get("a"), Some(value.as_bytes()));
        assert!(!header.raw().contains(&0));
        assert!(header.deviations().iter().eq([Deviation::Header]));
    }
    for missing in LEAST.lines() {
        let raw = format!("WARC/1.0\n{missing}\n\n");
        assert!(parse(raw.as_bytes()).is_err(), "{missing}");
    }
    let many = format!("WARC/1.0\n{LEAST}{}\n", "a: b\n".repeat(999));
    assert!(parse(many.as_bytes()).is_err());
}
