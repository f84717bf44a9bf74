use std::collections::BTreeMap;

use crawlspace_cdx::{Field, Format, Line, Read};
use redis_tests::{Rng, assert_starts, harvest, rows};

use super::*;
use crate::{cdx_line, crawl_log};

const JOB: JobId = JobId(7);

/// Rows as `(url, date, file offset)`, and the counts.
type Found = (Vec<(String, String, Option<(String, u64)>)>, Counts);

fn join(crawl_log: &[u8], cdx: Option<&[u8]>, flavour: Flavour) -> Result<Found, Error> {
    let mut found = Vec::new();
    let work = Work::default();
    let counts = rows(crawl_log, cdx, flavour, JOB, &work, &mut |row| {
        let origin = row.origin.as_ref();
        let origin = origin.map(|origin| (origin.file.to_string(), origin.offset));
        found.push((row.url.to_owned(), row.date.to_owned(), origin));
        Ok(())
    })?;
    Ok((found, counts))
}

fn fetched(url: &str, date: &str, notes: &str) -> String {
    format!(
        "2009-05-25T13:00:00.992Z 200 97 {url} - - image/png #016 {date}915+76 sha1:ABC - {notes}\n"
    )
}

fn stored(url: &str, date: &str, file: &str, offset: u64) -> String {
    format!("{url} 10.0.0.1 {date} image/png 97 {file} {offset}\n")
}

/// Returns the lines of each row, by URL and by digest.
fn lines_of(crawl_log: &str, cdx: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let work = Work::default();
    let cdx = Some(cdx.as_bytes());
    let take = &mut |row: Row<'_>| {
        let (mut by_url, mut by_digest) = (Vec::new(), Vec::new());
        row.push_by_url(&mut by_url);
        row.push_by_digest(&mut by_digest);
        let lines = [by_url, by_digest].map(|line| String::from_utf8(line).unwrap());
        found.push(lines.into());
        Ok(())
    };
    rows(crawl_log.as_bytes(), cdx, Flavour::Full, JOB, &work, take).unwrap();
    found
}

#[test]
fn row_becomes_a_line_by_url_and_one_by_digest() {
    let (url, date) = ("http://www.A.dk/x.png?b&a", "20090525130000");
    let log = fetched(url, date, "3t");
    let cdx = stored(url, date, "7-1.arc.gz", 345);
    let json = r#"{"url":"http://www.A.dk/x.png?b&a","mime":"image/png","status":"200","digest":"ABC","size":"97","offset":"345","filename":"7-1.arc.gz","job":"7"}"#;
    let expected = (
        format!("dk,a)/x.png?a&b 20090525130000 {json}"),
        format!("ABC 20090525130000 {json}"),
    );
    assert_eq!(lines_of(&log, &cdx), [expected]);
}

#[test]
fn unknown_fields_are_omitted() {
    let log = "t 1 - dns:a.dk P - - #1 20090525130000915+7 X - -\n";
    let json = r#"{"url":"dns:a.dk","status":"1","digest":"X","job":"7"}"#;
    let expected = (
        format!("dns:a.dk 20090525130000 {json}"),
        format!("X 20090525130000 {json}"),
    );
    assert_eq!(lines_of(log, ""), [expected]);
}

#[test]
fn captures_without_a_digest_are_only_in_full_indexes_by_url() {
    let url = "dns:a.dk";
    let log = fetched(url, "20050506114728", "-").replace(" 200 ", " 1 ");
    let log = log
        .replace("image/png", "text/dns")
        .replace("sha1:ABC", "-");
    let cdx = stored(url, "20050506114728", "7-1.arc", 345);
    let json = r#"{"url":"dns:a.dk","mime":"text/dns","status":"1","size":"97","offset":"345","filename":"7-1.arc","job":"7"}"#;
    let expected = (format!("dns:a.dk 20050506114728 {json}"), String::new());
    assert_eq!(lines_of(&log, &cdx), [expected]);
    for (flavour, rows) in [(Flavour::Full, 1), (Flavour::Dedup, 0)] {
        let log = log.replace("text/dns", "image/png");
        let (_, counts) = join(log.as_bytes(), Some(cdx.as_bytes()), flavour).unwrap();
        assert_eq!((counts.rows, counts.no_captures), (rows, 1 - rows));
    }
}

#[test]
fn keys_of_other_schemes_equal_those_of_indexers() {
    for (url, key) in [
        ("dns:www.a.dk", "dns:www.a.dk"),
        ("whois:a.dk", "whois:a.dk"),
        ("whois://whois.dk/a.dk", "dk,whois)/a.dk"),
        ("ftp://ftp.A.dk/B/", "dk,a,ftp)/b"),
        ("filedesc://7-1.arc", "filedesc://7-1.arc"),
        ("urn:x:Y", "urn:x:y"),
    ] {
        let lines = lines_of(&fetched(url, "20090525130000", "-"), "");
        assert_eq!(lines[0].0.split(' ').next(), Some(key), "{url}");
    }
}

#[test]
fn all_fields_of_a_row_read_back() {
    let notes = r#"etag:"a\b"c"#;
    let notes = [
        notes,
        r#"- {"etag":"a\\\"\n\u00e6","warcFilename":"a\\b.warc","warcFileOffset":18446744073709551615,"warcFileRecordLength":0}"#,
    ];
    for (notes, etag, file, offset, length) in rows![
        notes[0], r#""a\b"c"#, "", "", "";
        notes[1], "a\\\"\n\u{e6}", "a\\b.warc", "18446744073709551615", "0";
    ] {
        let url = "http://a.dk/\"\\\u{e6}\u{2028}";
        let log = fetched(url, "20090525130000", notes);
        for (line, _) in lines_of(&log, "") {
            let Ok(Read::Capture(line)) = Line::read(line.as_bytes(), Format::Cdxj) else {
                panic!("{line}")
            };
            let read = |name: &[u8]| line.field(&Field::named(name)).unwrap_or_default();
            assert_eq!(read(b"url"), url.as_bytes());
            assert_eq!(read(b"etag"), etag.as_bytes());
            assert_eq!(read(b"filename"), file.as_bytes());
            assert_eq!(read(b"offset"), offset.as_bytes());
            assert_eq!(read(b"length"), length.as_bytes());
            assert_eq!(read(b"job"), &b"7"[..]);
        }
    }
}

/// Returns the positions of lines about one URL, given as dates and annotations, and the counts.
fn places_in(lines: &[(&str, &str)], cdx: &[(&str, &str, u64)]) -> (Vec<Option<u64>>, Counts) {
    let url = "http://a.dk/";
    let log: String = lines
        .iter()
        .map(|(date, notes)| fetched(url, date, notes))
        .collect();
    let rows = cdx
        .iter()
        .map(|(date, file, offset)| stored(url, date, file, *offset));
    let cdx: String = rows.collect();
    let (found, counts) = join(log.as_bytes(), Some(cdx.as_bytes()), Flavour::Full).unwrap();
    let offset = |(_, _, origin): (_, _, Option<(String, u64)>)| origin.map(|(_, offset)| offset);
    (found.into_iter().map(offset).collect(), counts)
}

#[test]
fn origin_is_taken_from_the_first_place_that_has_one() {
    let url = "http://a.dk/";
    let json = r#"{"warcFilename":"w","warcFileOffset":9}"#;
    let revisit = format!("duplicate:digest {json}");
    let cdx = stored(url, "20090101000010", "early", 1) + &stored(url, "20090101000020", "late", 2);
    for (date, notes, cdx, expected) in rows![
        "20090101000010", r#"duplicate:"d,5""#, Some(&cdx), Some(("d", 5));
        "20090101000010", json, Some(&cdx), Some(("early", 1));
        "20090101000020", "-", Some(&cdx), Some(("late", 2));
        "20090101000009", "-", Some(&cdx), Some(("early", 1));
        "20090101000011", "-", Some(&cdx), Some(("early", 1));
        // A logged position takes precedence over a row with a near date.
        "20090101000011", json, Some(&cdx), Some(("w", 9));
        "20090101000012", "-", Some(&cdx), None;
        "20090101000018", "-", Some(&cdx), None;
        "20081231235959", "-", Some(&cdx), None;
        "20100101000000", "-", Some(&cdx), None;
        "20090101000010", &revisit, Some(&cdx), None;
        "20090101000010", "duplicate:server-not-modified", Some(&cdx), None;
        "20090101000010", "unwritten:status", Some(&cdx), None;
        "20090101000011", "warcRevisit:digest", Some(&cdx), None;
        "20090101000010", json, None, Some(("w", 9));
        "20090101000010", &revisit, None, None;
        "20090101000010", json, Some(&stored("http://b.dk/", "20090101000010", "b", 1)), Some(("w", 9));
        "20090101000010", "-", None, None;
    ] {
        let log = fetched(url, date, notes);
        let cdx = cdx.map(|cdx| cdx.as_bytes());
        let (found, _) = join(log.as_bytes(), cdx, Flavour::Full).unwrap();
        let expected = expected.map(|(file, offset)| (file.to_owned(), offset));
        assert_eq!(found[0].2, expected, "{date} {notes}");
    }
}

#[test]
fn invalid_second_is_refused() {
    for (row, line, is_near) in [
        ("20090131235959", "20090201000000", true),
        ("20090301000000", "20090228235959", true),
        ("20081231235959", "20090101000000", true),
        ("20090131235958", "20090201000000", false),
        ("20090131000000", "20090201000000", false),
    ] {
        let (places, counts) = places_in(&[(line, "-")], &[(row, "f", 3)]);
        assert_eq!(places, [is_near.then_some(3)], "{row} {line}");
        assert_eq!(counts.nearest, u64::from(is_near));
    }
}

/// Checks that a line whose record is missing does not get the row of another line.
#[test]
fn row_of_another_line_is_not_used() {
    let of = |digest: &str| format!("sha1:{digest}");
    let url = "http://a.dk/";
    let log = |lines: &[(&str, &str, &str)]| -> String {
        let line = |(date, digest, notes): &(&str, &str, &str)| {
            fetched(url, date, notes).replace("sha1:ABC", &of(digest))
        };
        lines.iter().map(line).collect()
    };
    for (lines, expected) in [
        (
            vec![("20090101000010", "A", "-"), ("20090101000011", "B", "-")],
            [Some(1), None],
        ),
        (
            vec![("20090101000009", "A", "-"), ("20090101000010", "B", "-")],
            [None, Some(1)],
        ),
        // A line does not use the row of another line, even if the other line has no position or is not in the index.
        (
            vec![
                ("20090101000009", "A", "-"),
                ("20090101000010", "B", "duplicate:digest"),
            ],
            [None, None],
        ),
        (
            vec![
                ("20090101000010", "A", "unwritten:size"),
                ("20090101000011", "B", "-"),
            ],
            [None, None],
        ),
        (
            vec![
                ("20090101000010", "A", "duplicate:\"d,7\""),
                ("20090101000011", "B", "-"),
            ],
            [Some(7), None],
        ),
        // The row may belong to either line.
        (
            vec![("20090101000009", "A", "-"), ("20090101000011", "B", "-")],
            [None, None],
        ),
        (
            vec![("20090101000010", "A", "-"), ("20090101000010", "B", "-")],
            [None, None],
        ),
        (
            vec![("20090101000010", "A", "-"), ("20090101000010", "A", "-")],
            [Some(1), Some(1)],
        ),
    ] {
        let cdx = stored(url, "20090101000010", "f", 1);
        let (found, _) = join(log(&lines).as_bytes(), Some(cdx.as_bytes()), Flavour::Full).unwrap();
        let places = found
            .into_iter()
            .map(|(_, _, origin)| origin.map(|(_, offset)| offset));
        assert_eq!(places.collect::<Vec<_>>(), expected, "{lines:?}");
    }
    let texts = log(&[("20090101000010", "A", "-"), ("20090101000011", "B", "-")]);
    let texts = texts.replacen("image/png", "text/html", 1);
    let cdx = stored(url, "20090101000010", "f", 1);
    let (found, _) = join(texts.as_bytes(), Some(cdx.as_bytes()), Flavour::Dedup).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].2, None);
}

#[test]
fn length_decides_between_rows_of_one_second() {
    let date = "20090101000010";
    let stored_of = |file: &str, offset: u64, length: u64| {
        stored("http://a.dk/", date, file, offset).replace(" 97 ", &format!(" {length} "))
    };
    let place = |notes: &str, rows: &[String]| {
        let log = fetched("http://a.dk/", date, notes);
        let cdx = rows.concat();
        let (found, _) = join(log.as_bytes(), Some(cdx.as_bytes()), Flavour::Full).unwrap();
        found[0].2.clone().map(|(_, offset)| offset)
    };
    // A 401 and the 200 that follows; "10…" sorts before "9…".
    let arc = [
        stored_of("7-1.arc", 1000, 300),
        stored_of("7-1.arc", 900, 200),
    ];
    assert_eq!(place("content-size:200", &arc), Some(900));
    assert_eq!(place("3t,content-size:300", &arc), Some(1000));
    assert_eq!(place("-", &arc), Some(1000));
    assert_eq!(place("content-size:5", &arc), None);
    assert_eq!(place("content-size:5", &arc[1..]), None);
    let packed = [
        stored_of("7-1.ARC.gz", 1000, 300),
        stored_of("7-1.ARC.gz", 900, 200),
    ];
    assert_eq!(place("content-size:200", &packed), Some(900));
    // In WARC files, the length in the CDX differs from `content-size`.
    let warc = [
        stored_of("7-1.warc.gz", 1000, 300),
        stored_of("7-1.warc.gz", 900, 200),
    ];
    assert_eq!(place("content-size:200", &warc), Some(1000));
    assert_eq!(
        place(
            "{\"warcFilename\":\"7-1.warc.gz\",\"warcFileOffset\":900}",
            &warc
        ),
        Some(900)
    );
    // The crawler began the second file between the two captures.
    let files = [stored_of("7-1.warc", 5000, 1), stored_of("7-2.warc", 0, 1)];
    assert_eq!(place("-", &files), Some(0));
    // The archive was compressed later, and the original metadata file is next to it.
    let generations = [
        stored_of("7-1.arc", 1000, 300),
        stored_of("7-1.arc.gz", 700, 300),
    ];
    assert_eq!(place("content-size:300", &generations), Some(700));
}

#[test]
fn lines_of_one_second_get_its_rows_in_order() {
    let log = ["200", "700", "900"].map(|ms| {
        let line = fetched("http://a.dk/", "20090101000010", "-");
        line.replace("10915+", &format!("10{ms}+"))
            .replace(":ABC", &format!(":A{ms}"))
    });
    let cdx: String = [30, 10, 20]
        .map(|offset| stored("http://a.dk/", "20090101000010", "f", offset))
        .concat();
    for order in [[0, 1, 2], [2, 0, 1]] {
        let log = order.map(|n: usize| &*log[n]).concat();
        let (found, _) = join(log.as_bytes(), Some(cdx.as_bytes()), Flavour::Full).unwrap();
        let places: Vec<_> = found
            .iter()
            .map(|(_, _, origin)| origin.clone().unwrap().1)
            .collect();
        assert_eq!(places, order.map(|n| [10, 20, 30][n]), "{order:?}");
    }
}

#[test]
fn every_line_is_counted_once() {
    let written = "- {\"warcFilename\":\"w\",\"warcFileOffset\":9}";
    let log = [
        "2009 -404 - http://a.dk/ - - no-type #1 - - - -\n".to_owned(),
        fetched("http://a.dk/", "20090101000000", "-"),
        fetched("http://a.dk/", "20090101000000", "-"),
        fetched("http://a.dk/", "20090101000002", "-"),
        fetched("http://b.dk/", "20090101000001", "-").replace("image/png", "TEXT/html"),
        fetched("http://c.dk/", "20090101000001", "duplicate:\"x,1\""),
        fetched("http://d.dk/", "20090101000001", written),
        fetched("http://e.dk/", "20090101000001", "-"),
        fetched("http://e.dk/", "20090101000001", "duplicate:digest"),
        fetched("http://f.dk:x/", "20090101000001", "-"),
        "none\n".to_owned(),
    ]
    .concat();
    let cdx = [
        " CDX N b\n".to_owned(),
        stored("http://a.dk/", "20090101000000", "a", 1),
        stored("http://a.dk/", "20090101000003", "a", 2),
        "bad\n".to_owned(),
        stored("http://z.dk/", "20090101000000", "a", 1),
    ]
    .concat();
    let (found, counts) = join(log.as_bytes(), Some(cdx.as_bytes()), Flavour::Dedup).unwrap();
    let bad = counts.bad.clone();
    let expected = Counts {
        lines: 10,
        no_captures: 1,
        text: 1,
        rows: 7,
        duplicates: 1,
        same_date: 2,
        nearest: 1,
        logged: 1,
        without_origin: 2,
        elsewhere: 1,
        cdx: 3,
        beyond: 0,
        bad: counts.bad.clone(),
    };
    assert_eq!(counts, expected);
    assert_eq!(found.len(), 7);
    let bad: Vec<_> = bad.counts().collect();
    assert_eq!(bad, [("URL", 1), ("wrong number of fields", 2)]);
    let (found, counts) = join(log.as_bytes(), None, Flavour::Full).unwrap();
    assert_eq!((found.len(), counts.text, counts.without_origin), (8, 0, 6));
}

#[test]
fn unsorted_lines_are_refused() {
    let (a, b) = ("http://a.dk/", "http://b.dk/");
    let log = |urls: &[&str]| -> String {
        let lines = urls.iter().map(|url| fetched(url, "20090101000000", "-"));
        lines.collect()
    };
    let cdx = |urls: &[&str]| -> String {
        let lines = urls.iter().map(|url| stored(url, "20090101000000", "f", 1));
        lines.collect()
    };
    let (sorted, not) = (log(&[a, a, b]), log(&[b, a]));
    let (cdx_sorted, cdx_not) = (cdx(&[a, b, b]), cdx(&[a, b, a]));
    let joined = |log: &str, cdx: &str| {
        let joined = join(log.as_bytes(), Some(cdx.as_bytes()), Flavour::Full);
        joined.map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(joined(&sorted, &cdx_sorted), Ok(()));
    let error = joined(&not, &cdx_sorted).unwrap_err();
    assert_starts(&error, "crawl.log of job 7: line 2 ");
    let error = joined(&sorted, &cdx_not).unwrap_err();
    assert_starts(&error, "CDX of job 7: line 3 ");
    // Blank lines count.
    let error = joined(&format!("\n\n{not}"), &cdx_sorted).unwrap_err();
    assert_starts(&error, "crawl.log of job 7: line 4 ");
    let error = joined(&sorted, &format!("\n{cdx_not}")).unwrap_err();
    assert_starts(&error, "CDX of job 7: line 4 ");
}

#[test]
fn consumer_errors_and_cancelling_stop_the_join() {
    let log = fetched("http://a.dk/", "20090101000000", "-").repeat(10_000);
    let none = None::<&[u8]>;
    let mut taken = 0;
    let work = Work::default();
    let stopped = rows(log.as_bytes(), none, Flavour::Full, JOB, &work, &mut |_| {
        taken += 1;
        Err(Error::Request("enough".to_owned()))
    });
    assert!(stopped.is_err() && taken == 1);
    let stopped = rows(log.as_bytes(), none, Flavour::Full, JOB, &work, &mut |_| {
        work.cancel();
        Ok(())
    });
    assert!(matches!(stopped, Err(Error::Cancelled)));
}

#[test]
fn lines_held_per_url_are_limited() {
    let url = "http://a.dk/";
    let file = "f".repeat(500_000);
    let date = |n: u64| format!("2009010100{:02}{:02}", n / 60, n % 60);
    let cdx = (0..100).map(|n| stored(url, &date(n), &format!("{file}{n}"), n));
    let cdx: String = cdx.collect();
    let log = fetched(url, "20090101000000", "-");
    let (found, counts) = join(log.as_bytes(), Some(cdx.as_bytes()), Flavour::Full).unwrap();
    assert_eq!(found[0].2, Some((format!("{file}0"), 0)));
    assert_eq!(counts.cdx, 100);
    assert!((20..60).contains(&counts.beyond), "{}", counts.beyond);

    // A file name counts only once, even if many consecutive rows have it.
    let cdx: String = (0..100).map(|n| stored(url, &date(n), &file, n)).collect();
    let (_, counts) = join(log.as_bytes(), Some(cdx.as_bytes()), Flavour::Full).unwrap();
    assert_eq!(counts.beyond, 0);
}

fn by_url(log: &[u8]) -> Vec<u8> {
    let mut lines: Vec<_> = log.split_inclusive(|byte| *byte == b'\n').collect();
    lines.sort_by_key(|line| crawl_log::Line::parse(line).unwrap().url);
    lines.concat()
}

/// Checks with random lines and rows that no row gives its position to two digests, and that a row is
/// at most one second away from its line.
#[test]
fn no_row_belongs_to_two_digests() {
    let mut rng = Rng::new("joins");
    let url = "http://a.dk/";
    for _ in 0..2_000 {
        let date = |rng: &mut Rng| format!("200901010000{:02}", rng.below(12));
        let mut log = Vec::new();
        for _ in 0..1 + rng.below(8) {
            let own = [
                "-",
                "-",
                "content-size:97",
                "content-size:5",
                "x {\"warcFilename\":\"f.arc\",\"warcFileOffset\":3}",
            ];
            let notes = *rng.pick(&[&own[..], &["duplicate:digest", "unwritten:x"]].concat());
            let digest = format!(":{}", rng.pick(&["A", "B", "C"]));
            let line = fetched(url, &date(&mut rng), notes).replace(":ABC", &digest);
            log.push(line.replace("915+", &format!("{:03}+", rng.below(1000))));
        }
        let log = log.concat();
        let cdx: Vec<String> = (0..rng.below(8))
            .map(|n| {
                let date = date(&mut rng);
                stored(url, &date, ["f.arc", "g.warc"][rng.below(2) as usize], n)
            })
            .collect();
        let mut cdx = cdx;
        cdx.sort();
        let mut digests = BTreeMap::new();
        let mut number = 0;
        let take = &mut |row: Row<'_>| {
            let line = log.lines().nth(number).unwrap();
            let notes = crawl_log::Line::parse(line.as_bytes())
                .unwrap()
                .read_notes();
            number += 1;
            let Some(origin) = row.origin else {
                return Ok(());
            };
            assert_eq!(notes.stored, Stored::Own, "{line}");
            let digest = row.digest.unwrap().to_owned();
            let place = (origin.file.to_string(), origin.offset);
            let is_logged = notes.written().is_some_and(|logged| logged == origin);
            let at = cdx
                .iter()
                .find(|row| row.contains(&format!(" {} {}\n", place.0, place.1)));
            let seconds = |date: &str| date[12..].parse::<i64>().unwrap();
            let distance = at.map(|at| seconds(at.split(' ').nth(2).unwrap()) - seconds(row.date));
            assert!(
                is_logged || distance.unwrap().abs() <= 1,
                "{line}\n{}",
                cdx.concat()
            );
            if !is_logged {
                let held = digests.entry(place).or_insert(digest.clone());
                assert_eq!(*held, digest, "{log}\n{}", cdx.concat());
            }
            Ok(())
        };
        let rows_of = cdx.concat();
        let counts = rows(
            log.as_bytes(),
            Some(rows_of.as_bytes()),
            Flavour::Full,
            JOB,
            &Work::default(),
            take,
        );
        let counts = counts.unwrap();
        let origins = counts.duplicates + counts.same_date + counts.nearest + counts.logged;
        assert_eq!(origins + counts.without_origin, counts.rows);
        assert_eq!(counts.cdx as usize, cdx.len());
    }
}

/// Checks jobs as in real archives, where each row has the second of its line, and in ARC files its
/// length.
#[test]
fn realistic_jobs_are_joined_exactly() {
    for writes_arc in [false, true] {
        let mut harvest = harvest::Harvest::new(7, 21);
        if writes_arc {
            harvest = harvest.writing_arc();
        }
        let (mut log, mut cdx, mut expected) = (Vec::new(), Vec::new(), Vec::new());
        while expected.len() < 2_500 {
            let fetch = harvest.fetch();
            let line = crawl_log::Line::parse(fetch.crawl_log.as_bytes()).unwrap();
            if line.is_capture() {
                let row = fetch
                    .cdx
                    .as_ref()
                    .map(|row| cdx_line::Line::parse(row.as_bytes()).unwrap());
                let place = row
                    .map(|row| (row.file.to_owned(), row.offset))
                    .or_else(|| {
                        let origin = line.duplicate()?;
                        Some((origin.file.to_string(), origin.offset))
                    });
                expected.push((line.url.to_owned(), line.date().unwrap().to_owned(), place));
            }
            log.push(fetch.crawl_log);
            if let Some(row) = fetch.cdx {
                // The URL was requested again with a password within the same second.
                if expected.len() % 10 == 0 {
                    let mut fields: Vec<&str> = row.split(' ').collect();
                    (fields[4], fields[6]) = ("401", "77");
                    cdx.push(fields.join(" "));
                }
                cdx.push(row);
            }
        }
        log.sort_by(|a, b| {
            let url = |line: &str| {
                crawl_log::Line::parse(line.as_bytes())
                    .unwrap()
                    .url
                    .to_owned()
            };
            (url(a), a).cmp(&(url(b), b))
        });
        cdx.sort();
        let (log, cdx) = (log.join("\n"), cdx.join("\n"));
        let (mut found, counts) =
            join(log.as_bytes(), Some(cdx.as_bytes()), Flavour::Full).unwrap();
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
        assert_eq!((counts.nearest, counts.without_origin), (0, 0));
    }
}

#[test]
fn whole_jobs_keep_every_capture() {
    for job in [3, 4] {
        let (log, cdx) = harvest::logs(job, 99, 3000);
        let mut cdx: Vec<_> = cdx.split_inclusive(|byte| *byte == b'\n').collect();
        cdx.sort();
        let cdx = cdx.concat();
        let log = by_url(&log);
        let mut wanted = BTreeMap::new();
        let lines = log.split(|byte| *byte == b'\n');
        for line in lines.filter(|line| !line.is_empty()) {
            let line = crawl_log::Line::parse(line).unwrap();
            let kind = (line.is_capture(), line.is_text());
            *wanted.entry(kind).or_insert(0_u64) += 1;
        }
        let count = |is_capture, is_text| wanted.get(&(is_capture, is_text)).copied().unwrap_or(0);
        let (full, counts) = join(&log, Some(&cdx), Flavour::Full).unwrap();
        assert_eq!(counts.bad.total(), 0, "{:?}", counts.bad.examples());
        assert_eq!(full.len() as u64, count(true, true) + count(true, false));
        assert!(counts.duplicates > 0 && counts.same_date > 0 && counts.no_captures > 0);
        let (dedup, _) = join(&log, Some(&cdx), Flavour::Dedup).unwrap();
        assert_eq!(dedup.len() as u64, count(true, false));
    }
}
