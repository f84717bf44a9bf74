use redis_tests::{Rng, rows};

use super::*;

const LINE: &str =
    "http://a.dk/img.png 10.0.0.1 20090525130000 image/png 9969 7-1-00008.arc.gz 22962264";

#[test]
fn lines_with_and_without_a_checksum_are_parsed() {
    let line = Line::parse(LINE.as_bytes()).unwrap();
    let expected = Line {
        url: "http://a.dk/img.png",
        ip: b"10.0.0.1",
        date: "20090525130000",
        mime: b"image/png",
        length: Some(9969),
        file: "7-1-00008.arc.gz",
        offset: 22_962_264,
        md5: None,
    };
    assert_eq!(line, expected);
    for (end, md5) in rows![
        " 0cc175b9c0f1b6a831c399e269772661", Some(&b"0cc175b9c0f1b6a831c399e269772661"[..]);
        " -", None;
        " ", None;
    ] {
        let line = format!("{LINE}{end}");
        assert_eq!(
            Line::parse(line.as_bytes()).unwrap(),
            Line { md5, ..expected }
        );
        let tabs = line.replace(' ', "\t");
        assert_eq!(
            Line::parse(tabs.as_bytes()).unwrap(),
            Line { md5, ..expected }
        );
    }
    let unknown = LINE.replace("9969", "-");
    let unknown = Line::parse(unknown.as_bytes()).unwrap();
    assert_eq!(unknown.length, None);
    let precise = LINE.replace("130000 ", "130000915 ");
    assert_eq!(
        Line::parse(precise.as_bytes()).unwrap().date,
        "20090525130000"
    );
}

#[test]
fn bad_line_reports_the_reason() {
    let line = |field: usize, text: &str| {
        let mut fields: Vec<&str> = LINE.split(' ').collect();
        fields[field] = text;
        fields.join(" ")
    };
    for (line, bad) in [
        ("", Bad::Fields(0, "7 or 8")),
        ("http://a.dk/", Bad::Fields(1, "7 or 8")),
        (&format!("{LINE} a b"), Bad::Fields(9, "7 or 8")),
        (&line(0, "http://a.dk/\x1f"), Bad::Url),
        (&format!(" {LINE}"), Bad::Url),
        (&line(2, "2009"), Bad::Date),
        (&line(2, "2009052513000x"), Bad::Date),
        (&line(4, "x"), Bad::Number("length")),
        (&line(4, "-1"), Bad::Number("length")),
        (&line(6, "-"), Bad::Number("offset")),
        (&line(6, "99999999999999999999"), Bad::Number("offset")),
    ] {
        assert_eq!(Line::parse(line.as_bytes()), Err(bad), "{line}");
    }
    let odd = |n: usize| -> Vec<u8> {
        let mut fields: Vec<Vec<u8>> = LINE.split(' ').map(Into::into).collect();
        fields[n].push(b'\xff');
        fields.join(&b' ')
    };
    // Only the URL and the file name are used as text.
    assert_eq!(
        Line::parse(&odd(0)),
        Err(Bad::NotUtf8("http://a.dk/img.png".len()))
    );
    let file_ends = LINE.len() - " 22962264".len();
    assert_eq!(Line::parse(&odd(5)), Err(Bad::NotUtf8(file_ends)));
    for n in [1, 3] {
        assert!(Line::parse(&odd(n)).is_ok(), "{n}");
    }
    let long = line(5, &"x".repeat(crawlspace_index::lines::MAX_LINE));
    assert_eq!(Line::parse(long.as_bytes()), Err(Bad::TooLong));
}

#[test]
fn header_is_recognized() {
    assert!(is_header(b" CDX N b a m s k r M S V g"));
    assert!(is_header(b" CDX"));
    assert!(!is_header(LINE.as_bytes()));
    assert!(!is_header(b"CDX N b"));
}

#[test]
fn truncated_or_garbled_line_is_at_worst_bad() {
    let mut rng = Rng::new("garbled CDX lines");
    for end in 0..LINE.len() {
        // A number that was cut off still parses as a number.
        let whole = end > LINE.len() - "22962264".len();
        assert_eq!(Line::parse(&LINE.as_bytes()[..end]).is_ok(), whole, "{end}");
    }
    for _ in 0..20_000 {
        let mut line = LINE.as_bytes().to_vec();
        for _ in 0..=rng.below(4) {
            let at = rng.below(line.len() as u64) as usize;
            line[at] = rng.bits() as u8;
        }
        if let Ok(found) = Line::parse(&line) {
            assert_eq!(found.date.len(), 14);
            assert!(found.url.bytes().all(|byte| byte > b' '));
        }
    }
}
