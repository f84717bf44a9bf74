use redis_tests::{Rng, rows};

use super::*;

/// A line of Heritrix 1.14, with the annotations of a deduplicator.
const OLD: &str = "2009-05-25T13:00:00.992Z   200       9717 https://wiki.example.dk/img/draft.png LLEE \
    https://wiki.example.dk/css/screen.css image/png #016 20090525130000915+76 \
    sha1:AXH2IFNXC4MUT26SRHRJZHGR3FDAJDNR - duplicate:\"1-1-20090513141823-00008-har-001.arc,22962264\",\
    content-size:9969";

/// A line of Heritrix 3, with the fields that a WARC writer adds.
const NEW: &str = "2017-08-03T21:45:23.984Z   200       2495 https://council.example.org/robots.txt P \
    https://council.example.org/ text/plain #001 20170803214523617+365 sha1:PBS2CEF7B4OSEXZZF3QE2XN2VHYCPNPX \
    https://council.example.org/ launchTimestamp:20170803,ip:10.1.2.3 \
    {\"warcFileOffset\":942,\"contentSize\":2495,\"warcFilename\":\"JOB3-00000.warc.gz\",\"warcFileRecordLength\":811}";

fn parse(line: &str) -> Line<'_> {
    Line::parse(line.as_bytes()).unwrap_or_else(|bad| panic!("{line}: {bad}"))
}

fn with_notes(notes: &str) -> String {
    format!(
        "2009-05-25T13:00:00.992Z 200 97 http://a.dk/ - - text/html #016 20090525130000915+76 sha1:ABC - {notes}"
    )
}

fn origin(file: &str, offset: u64) -> Option<Origin<'_>> {
    Some(Origin {
        file: file.into(),
        offset,
        length: None,
    })
}

#[test]
fn lines_of_both_generations_are_parsed() {
    let old = parse(OLD);
    assert_eq!((old.status, old.size), (200, Some(9717)));
    assert_eq!(old.url, "https://wiki.example.dk/img/draft.png");
    assert_eq!(OLD.get(old.url_range()), Some(old.url));
    assert_eq!(old.mime, "image/png");
    assert_eq!(old.start, Some("20090525130000915"));
    assert_eq!(old.date(), Some("20090525130000"));
    assert_eq!(old.digest, Some("AXH2IFNXC4MUT26SRHRJZHGR3FDAJDNR"));
    let file = "1-1-20090513141823-00008-har-001.arc";
    assert_eq!(old.duplicate(), origin(file, 22_962_264));
    assert_eq!((old.written(), old.read_notes().etag()), (None, None));
    assert_eq!(old.read_notes().content_size, Some(9969));
    assert!(old.is_capture() && !old.is_text());

    let new = parse(NEW);
    assert_eq!(new.duplicate(), None);
    let written = Origin {
        file: "JOB3-00000.warc.gz".into(),
        offset: 942,
        length: Some(811),
    };
    assert_eq!(new.written(), Some(written));
    assert!(new.is_capture() && new.is_text());
}

#[test]
fn trailing_columns_may_be_missing() {
    let whole = "2006-10-17T14:22:29.343Z 200 291 http://a.is/ - - text/html #041 20061017142229087+180 OHCVML7NJ4";
    for end in ["", " ", " -", " - ", " - 3t"] {
        let line = format!("{whole}{end}");
        let line = parse(&line);
        assert_eq!(line.digest, Some("OHCVML7NJ4"));
        assert_eq!(
            line.notes,
            if end.ends_with('t') { &b"3t"[..] } else { b"" }
        );
    }
}

#[test]
fn line_without_a_fetch_is_neither_capture_nor_bad() {
    for line in [
        "2013-01-22T12:04:33.231Z  -404          - dns:a.dk XP http://a.dk/ no-type #005 - - - -",
        "2013-01-22T12:04:33.231Z -9998          - http://a.dk/x L http://a.dk/ unknown #005 - - - -",
        "2013-01-22T12:04:33.231Z     0          - http://a.dk/x L - unknown #005 20130122120433231+0 sha1:A - -",
        "2013-01-22T12:04:33.231Z   200          5 http://a.dk/x L - unknown #005 - sha1:A - -",
    ] {
        assert!(!parse(line).is_capture(), "{line}");
    }
    let name = parse(
        "2015-07-17T22:32:23.672Z 1 58 dns:a.dk P http://a.dk/ text/dns #045 20150717223214881+316 sha1:A - -",
    );
    assert!(name.is_capture());
    let without_digest = "2005-05-06T11:47:28.550Z 1 53 dns:a.dk P http://a.dk/ text/dns #002 20050506114728471+31 - - -";
    let name = parse(without_digest);
    assert!(name.is_capture() && name.digest.is_none());
}

#[test]
fn bad_line_reports_the_reason() {
    let line = |field: usize, text: &str| {
        let mut fields: Vec<&str> = OLD.split_ascii_whitespace().collect();
        fields[field] = text;
        fields.join(" ")
    };
    for (line, bad) in [
        ("", Bad::Fields(0, "10 or more")),
        ("one", Bad::Fields(1, "10 or more")),
        ("1 2 3 4 5 6 7 8 9", Bad::Fields(9, "10 or more")),
        (&line(1, "ok"), Bad::Number("status")),
        (&line(1, "99999999999"), Bad::Number("status")),
        (&line(2, "big"), Bad::Number("size")),
        (&line(2, "99999999999999999999"), Bad::Number("size")),
        (&line(3, "http://a.dk/\x01"), Bad::Url),
        (&line(8, "2009052513000091"), Bad::Date),
        (&line(8, "20090525130000915+x"), Bad::Date),
        (&line(8, "20090525130000915+"), Bad::Date),
        (&line(8, "+76"), Bad::Date),
        (&line(9, "sha1:"), Bad::Digest),
        (&line(9, "sha1:A\x7f"), Bad::Digest),
        (&line(9, "sha1:\u{e6}"), Bad::Digest),
    ] {
        assert_eq!(Line::parse(line.as_bytes()), Err(bad), "{line}");
    }
    let long = with_notes(&"x".repeat(MAX_LINE));
    assert_eq!(Line::parse(long.as_bytes()), Err(Bad::TooLong));
}

#[test]
fn any_white_space_separates() {
    let tabs = OLD.replace(' ', "\t");
    let of_tabs = parse(&tabs);
    assert_eq!(tabs.get(of_tabs.url_range()), Some(of_tabs.url));
    let of_spaces = parse(OLD);
    let expected = (of_spaces.url, of_spaces.digest, of_spaces.duplicate());
    assert_eq!((of_tabs.url, of_tabs.digest, of_tabs.duplicate()), expected);
}

#[test]
fn annotations_name_the_first_capture() {
    for (notes, expected) in rows![
        "duplicate:\"a.arc,5\"", origin("a.arc", 5);
        "duplicate:\"a.arc,5\",3t", origin("a.arc", 5);
        "3t,duplicate:\"a.arc,5\",content-size:9", origin("a.arc", 5);
        "duplicate:\"a.arc,5,20090525130000\"", origin("a.arc", 5);
        "duplicate:\"a.arc,5,20090525130000915\"", origin("a.arc", 5);
        "duplicate:\"a,b.arc,5\"", origin("a,b.arc", 5);
        // 77 is not a date, so it is the offset, and 5 is part of the file name.
        "duplicate:\"a.arc,5,77\"", origin("a.arc,5", 77);
        // The closing quote is missing, so the number may have had more digits.
        "duplicate:\"a.arc,5", None;
        "duplicate:\"a.arc,5\" {\"warcFilename\":\"b\",\"warcFileOffset\":1}", origin("a.arc", 5);
        "x:\"duplicate:\",duplicate:\"a.arc,5\"", origin("a.arc", 5);
        "deduplicate:\"a.arc,5\"", origin("a.arc", 5);
        "deduplicate:\"a.arc, 5\"", origin("a.arc", 5);
        "3t, deduplicate:\"a.arc,5\"", origin("a.arc", 5);
        "3t, duplicate:\"a.arc, 5, 20090525130000\", x", origin("a.arc", 5);
        "redduplicate:\"a.arc,5\"", None;
        "reduplicate:\"a.arc,5\"", None;
        "dedeuplicate:\"a.arc,5\"", None;
        "x:\"a,duplicate:\\\"b\"", None;
        "duplicate:digest", None;
        "duplicate:\"ORIGIN\"", None;
        "duplicate:\"a.arc\"", None;
        "duplicate:\"a.arc,\"", None;
        "duplicate:\",5\"", None;
        "duplicate:\"a.arc,-5\"", None;
        "duplicate:\"a.arc,99999999999999999999\"", None;
        "duplicate:\"a b.arc,5\"", origin("a b.arc", 5);
        "-", None;
    ] {
        let line = with_notes(notes);
        assert_eq!(parse(&line).duplicate(), expected, "{notes}");
    }
}

#[test]
fn json_names_the_location_of_the_capture() {
    for (notes, expected) in rows![
        "{\"warcFilename\":\"a.warc\",\"warcFileOffset\":7}", origin("a.warc", 7);
        "- {\"warcFileOffset\":7,\"warcFilename\":\"a.warc\"}", origin("a.warc", 7);
        "3t,x {\"n\":{\"a\":[1]},\"warcFileOffset\":7,\"warcFilename\":\"a.warc\"}",
            origin("a.warc", 7);
        "- {\"warcFileOffset\":7,\"warcFilename\":\"\\u0061.warc\"}", origin("a.warc", 7);
        "- {\"warcFileOffset\":7,\"warcFilename\":\"a\\nb\"}", None;
        "- {\"warcFileOffset\":7,\"warcFilename\":\"\"}", None;
        "- {\"warcFileOffset\":7,\"warcFilename\":8}", None;
        "- {\"warcFileOffset\":-7,\"warcFilename\":\"a.warc\"}", None;
        "- {\"warcFileOffset\":\"7\",\"warcFilename\":\"a.warc\"}", None;
        "- {\"warcFilename\":\"a.warc\"}", None;
        "- {\"warcFileOffset\":7}", None;
        "- {\"warcFileOffset\":7,\"warcFilename\":\"a.warc\"", None;
        "- {warcFilename}", None;
        "x{\"warcFileOffset\":7,\"warcFilename\":\"a.warc\"}", None;
    ] {
        let line = with_notes(notes);
        assert_eq!(parse(&line).written(), expected, "{notes}");
    }
}

/// Heritrix annotates content that it did not store in full; the JSON then refers to the revisit
/// record.
#[test]
fn revisits_and_unwritten_captures_have_no_location() {
    let json = "{\"warcFilename\":\"a.warc\",\"warcFileOffset\":7}";
    for (annotations, is_own) in [
        ("-", true),
        ("3t,duplicates:digest,unwrittens:status", true),
        ("x:\"a,duplicate:digest\"", true),
        ("duplicate:digest", false),
        ("3t,duplicate:server-not-modified,2t", false),
        ("duplicate:uriAgnosticDigest", false),
        ("warcRevisit:digest", false),
        ("warcRevisit:notModified,3t", false),
        ("3t, unwritten:status", false),
        ("unwritten", false),
        // The position of the earlier capture is invalid, and the capture itself was not stored.
        ("duplicate:\"a.arc\"", false),
        ("duplicate:\"a.arc,5", false),
    ] {
        let line = with_notes(&format!("{annotations} {json}"));
        let line = parse(&line);
        let stored = line.read_notes().stored;
        let expected = if is_own {
            Stored::Own
        } else {
            Stored::Elsewhere
        };
        assert_eq!(stored, expected, "{annotations}");
        assert_eq!(line.written().is_some(), is_own, "{annotations}");
        assert_eq!(line.duplicate(), None, "{annotations}");
    }
    let both = with_notes("warcRevisit:digest,duplicate:\"a.arc,5\",unwritten:x");
    assert_eq!(parse(&both).duplicate(), origin("a.arc", 5));
}

#[test]
fn invalid_utf8_affects_only_its_field() {
    let fields: Vec<&[u8]> = OLD.split_ascii_whitespace().map(str::as_bytes).collect();
    let odd = |n: usize| -> Vec<u8> {
        let mut fields: Vec<Vec<u8>> = fields.iter().map(|field| field.to_vec()).collect();
        fields[n].push(b'\xe6');
        fields.join(&b' ')
    };
    let whole = parse(OLD);
    // Log time, hop path, referrer, thread, source tag.
    for n in [0, 4, 5, 7, 10] {
        let line = odd(n);
        let found = Line::parse(&line).expect("a line");
        assert_eq!((found.url, found.digest), (whole.url, whole.digest), "{n}");
        assert_eq!(found.duplicate(), whole.duplicate(), "{n}");
    }
    let line = odd(6);
    assert_eq!(Line::parse(&line).map(|line| line.mime), Ok("image/png"));
    let line = [OLD.as_bytes(), b",x:\xe6,etag:5"].concat();
    let found = Line::parse(&line).expect("a line");
    assert_eq!(found.duplicate(), whole.duplicate());
    assert_eq!(found.read_notes().etag().as_deref(), Some("5"));
    // Invalid UTF-8 in fields that are used is an error.
    let line = odd(3);
    let at = line
        .iter()
        .position(|byte| *byte == b'\xe6')
        .expect("the byte");
    assert_eq!(Line::parse(&line), Err(Bad::NotUtf8(at)));
    for (n, bad) in [
        (1, Bad::Number("status")),
        (2, Bad::Number("size")),
        (8, Bad::Date),
        (9, Bad::Digest),
    ] {
        assert_eq!(Line::parse(&odd(n)), Err(bad), "{n}");
    }
}

#[test]
fn digest_at_the_end_of_a_log_is_whole_or_ignored() {
    let before =
        "2006-10-17T14:22:29.343Z 200 291 http://a.is/ - - text/html #041 20061017142229087+180 ";
    let (base32, hex) = (
        "AXH2IFNXC4MUT26SRHRJZHGR3FDAJDNR",
        "da39a3ee5e6b4b0d3255bfef95601890afd80709",
    );
    let md5 = "d41d8cd98f00b204e9800998ecf8427e";
    let sha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    for (name, digest) in [
        ("sha1:", base32),
        ("SHA1:", hex),
        ("", base32),
        ("", hex),
        ("md5:", md5),
        ("sha256:", sha256),
        ("sha-256:", sha256),
    ] {
        for end in 1..=digest.len() {
            let line = format!("{before}{name}{}", &digest[..end]);
            let is_cut_off = parse(&line).is_digest_cut_off(line.as_bytes());
            assert_eq!(is_cut_off, end < digest.len(), "{line}");
        }
    }
    // Digests of unknown length, and digests that are followed by another field, count as complete.
    for line in ["xxh3:abc", "sha1:ABC -", "sha1:ABC - 3t", "-"] {
        let line = format!("{before}{line}");
        assert!(!parse(&line).is_digest_cut_off(line.as_bytes()), "{line}");
    }
}

#[test]
fn duplicates_are_migrated_to_the_compressed_archive() {
    let find = |file: &str, offset: u64| (file == "a,b.arc" && offset == 5).then_some(77);
    for (notes, expected) in rows![
        "duplicate:\"a,b.arc,5\"", Some("duplicate:\"a,b.arc.gz,77\"");
        "3t,deduplicate:\"a,b.arc, 5, 20090525130000\",x {\"a\":5}",
            Some("3t,deduplicate:\"a,b.arc.gz, 77, 20090525130000\",x {\"a\":5}");
        "duplicate:\"a,b.arc,6\"", None;
        "duplicate:\"b.arc,5\"", None;
        "duplicate:digest", None;
        "-", None;
    ] {
        let mut into = Vec::new();
        let moved = push_migrated(notes.as_bytes(), find, &mut into);
        assert_eq!(
            moved.then_some(into),
            expected.map(|text: &str| text.as_bytes().to_vec()),
            "{notes}"
        );
    }
}

#[test]
fn etags_are_found_in_both_places() {
    for (notes, expected) in [
        ("etag:\"5-a\"", Some("\"5-a\"")),
        ("3t,ETag:W/\"5,a\",x", Some("W/\"5,a\"")),
        ("- {\"etag\":\"5-a\"}", Some("5-a")),
        ("- {\"ETag\":\"\\\"5-a\\\"\"}", Some("\"5-a\"")),
        ("etag:", None),
        ("- {\"etag\":\"\"}", None),
        ("- {\"etag\":5}", None),
        ("getag:5,etags:6", None),
        ("-", None),
    ] {
        let line = with_notes(notes);
        assert_eq!(
            parse(&line).read_notes().etag().as_deref(),
            expected,
            "{notes}"
        );
    }
}

#[test]
fn text_types_ignore_case() {
    for (mime, is_text) in [
        ("text/html", true),
        ("TEXT/plain", true),
        ("text/", true),
        ("text", false),
        ("application/text/html", false),
        ("image/png", false),
        ("no-type", false),
    ] {
        let line = OLD.replace("image/png", mime);
        assert_eq!(parse(&line).is_text(), is_text, "{mime}");
    }
}

#[test]
fn truncated_or_garbled_line_is_at_worst_bad() {
    let mut rng = Rng::new("garbled crawl.log lines");
    let all = |line: &[u8]| {
        if let Ok(found) = Line::parse(line) {
            let _ = (
                found.duplicate(),
                found.written(),
                found.read_notes().etag(),
                found.date(),
            );
            assert_eq!(line.get(found.url_range()), Some(found.url.as_bytes()));
            assert!(
                found
                    .digest
                    .is_none_or(|digest| digest.bytes().all(|b| b.is_ascii_graphic()))
            );
        }
    };
    for line in [OLD, NEW] {
        // Any prefix of a digest is valid; the end of a log is tested below.
        let digest = line.find("sha1:").unwrap();
        for end in 0..line.len() {
            let cut = &line.as_bytes()[..end];
            all(cut);
            let has_digest = end > digest && end != digest + 5;
            assert_eq!(Line::parse(cut).is_ok(), has_digest, "{end}");
        }
        for _ in 0..20_000 {
            let mut garbled = line.as_bytes().to_vec();
            for _ in 0..=rng.below(4) {
                let at = rng.below(garbled.len() as u64) as usize;
                match rng.below(3) {
                    0 => garbled[at] = *rng.pick(b" \t\"\\{},:-\x00\x0b\xff0"),
                    1 => garbled[at] = rng.bits() as u8,
                    _ => drop(garbled.remove(at)),
                }
            }
            all(&garbled);
        }
    }
    for _ in 0..20_000 {
        let length = rng.below(120);
        let random: Vec<u8> = (0..length).map(|_| rng.bits() as u8).collect();
        all(&random);
    }
}
