use std::collections::BTreeMap;

use crawlspace_cdx::{Field, Format, Line, Read};
use redis_tests::{Rng, assert_starts, harvest, rows};

use super::*;
use crate::{cdx_line, crawl_log};

const JOB: JobId = JobId(7);

/// Rows as `(url, date, file offset)`, and what was counted.
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

/// The lines of both kinds of rows.
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
fn a_row_is_a_line_by_url_and_one_by_digest() {
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
fn what_is_not_known_is_left_out() {
    let log = "t 1 - dns:a.dk P - - #1 20090525130000915+7 X - -\n";
    let json = r#"{"url":"dns:a.dk","status":"1","digest":"X","job":"7"}"#;
    let expected = (
        format!("dns:a.dk 20090525130000 {json}"),
        format!("X 20090525130000 {json}"),
    );
    assert_eq!(lines_of(log, ""), [expected]);
}

#[test]
fn what_was_fetched_without_a_digest_is_in_full_indexes_by_url_alone() {
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
fn keys_of_what_is_not_of_the_web_are_those_of_other_indexers() {
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
fn all_that_a_row_knows_can_be_read_again() {
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

#[test]
fn origins_come_from_the_first_place_that_has_one() {
    let url = "http://a.dk/";
    let json = r#"{"warcFilename":"w","warcFileOffset":9}"#;
    let cdx = stored(url, "20090101000010", "early", 1) + &stored(url, "20090101000020", "late", 2);
    for (date, notes, cdx, expected) in rows![
        "20090101000010", r#"duplicate:"d,5""#, Some(&cdx), Some(("d", 5));
        "20090101000010", json, Some(&cdx), Some(("early", 1));
        "20090101000020", "-", Some(&cdx), Some(("late", 2));
        "20090101000014", "-", Some(&cdx), Some(("early", 1));
        // As far from both.
        "20090101000015", "-", Some(&cdx), Some(("early", 1));
        "20090101000016", "-", Some(&cdx), Some(("late", 2));
        "20081231235959", "-", Some(&cdx), Some(("early", 1));
        "20100101000000", "duplicate:digest", Some(&cdx), Some(("late", 2));
        "20090101000010", json, None, Some(("w", 9));
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
fn time_is_not_the_distance_of_the_digits() {
    let url = "http://a.dk/";
    let cdx =
        stored(url, "20090101000000", "before", 1) + &stored(url, "20090131235959", "after", 2);
    // By their digits, the day before is further from all of the day after than its last hour is.
    let cdx_of_days = stored(url, "20090228235959", "day-before", 3)
        + &stored(url, "20090301020000", "hours-after", 4);
    for (cdx, date, expected) in [
        (&cdx, "20090116115959", "before"),
        (&cdx, "20090116120001", "after"),
        (&cdx_of_days, "20090301005959", "day-before"),
        (&cdx_of_days, "20090301010000", "hours-after"),
    ] {
        let log = fetched(url, date, "-");
        let (found, _) = join(log.as_bytes(), Some(cdx.as_bytes()), Flavour::Full).unwrap();
        assert_eq!(found[0].2.as_ref().unwrap().0, expected, "{date}");
    }
}

#[test]
fn every_line_is_in_one_count() {
    let written = "- {\"warcFilename\":\"w\",\"warcFileOffset\":9}";
    let log = [
        "2009 -404 - http://a.dk/ - - no-type #1 - - - -\n".to_owned(),
        fetched("http://a.dk/", "20090101000000", "-"),
        fetched("http://a.dk/", "20090101000000", "-"),
        fetched("http://a.dk/", "20090101000001", "-"),
        fetched("http://b.dk/", "20090101000001", "-").replace("image/png", "TEXT/html"),
        fetched("http://c.dk/", "20090101000001", "duplicate:\"x,1\""),
        fetched("http://d.dk/", "20090101000001", written),
        fetched("http://e.dk/", "20090101000001", "-"),
        fetched("http://f.dk:x/", "20090101000001", "-"),
        "none\n".to_owned(),
    ]
    .concat();
    let cdx = [
        " CDX N b\n".to_owned(),
        stored("http://a.dk/", "20090101000000", "a", 1),
        "bad\n".to_owned(),
        stored("http://z.dk/", "20090101000000", "a", 1),
    ]
    .concat();
    let (found, counts) = join(log.as_bytes(), Some(cdx.as_bytes()), Flavour::Dedup).unwrap();
    let bad = counts.bad.clone();
    let expected = Counts {
        lines: 9,
        no_captures: 1,
        text: 1,
        rows: 6,
        duplicates: 1,
        same_date: 2,
        nearest: 1,
        logged: 1,
        without_origin: 1,
        cdx: 2,
        beyond: 0,
        bad: counts.bad.clone(),
    };
    assert_eq!(counts, expected);
    assert_eq!(found.len(), 6);
    let bad: Vec<_> = bad.counts().collect();
    assert_eq!(bad, [("URL", 1), ("wrong number of fields", 2)]);
    let (found, counts) = join(log.as_bytes(), None, Flavour::Full).unwrap();
    assert_eq!((found.len(), counts.text, counts.without_origin), (7, 0, 5));
}

#[test]
fn lines_in_the_wrong_order_are_refused() {
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
fn errors_of_the_taker_and_cancelling_stop_it() {
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
fn of_one_url_no_more_is_held_than_there_is_room_for() {
    let url = "http://a.dk/";
    let file = "f".repeat(500_000);
    let date = |n: u64| format!("200901010000{:02}", n % 60);
    let cdx = (0..100).map(|n| stored(url, &date(n), &format!("{file}{n}"), n));
    let cdx: String = cdx.collect();
    let log = fetched(url, "20090101000000", "-");
    let (found, counts) = join(log.as_bytes(), Some(cdx.as_bytes()), Flavour::Full).unwrap();
    assert_eq!(found[0].2, Some((format!("{file}0"), 0)));
    assert_eq!(counts.cdx, 100);
    assert!((20..60).contains(&counts.beyond), "{}", counts.beyond);

    // The name of a file counts once, however many rows in a row have it.
    let cdx: String = (0..100).map(|n| stored(url, &date(n), &file, n)).collect();
    let (_, counts) = join(log.as_bytes(), Some(cdx.as_bytes()), Flavour::Full).unwrap();
    assert_eq!(counts.beyond, 0);
}

/// Where a capture is, by looking at all that there is.
fn naive(line: &crawl_log::Line<'_>, cdx: &[u8]) -> Option<(String, u64)> {
    if let Some(origin) = line.duplicate() {
        return Some((origin.file.into_owned(), origin.offset));
    }
    let seconds = |date: &str| -> i64 {
        let number = |range: std::ops::Range<usize>| date[range].parse::<i64>().unwrap();
        let days_before = |month: i64| {
            [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334][month as usize - 1]
        };
        let year = number(0..4);
        let mut days =
            (year - 2001) * 365 + (year - 2001) / 4 + days_before(number(4..6)) + number(6..8);
        if year % 4 == 0 && number(4..6) > 2 {
            days += 1;
        }
        days * 86_400 + number(8..10) * 3600 + number(10..12) * 60 + number(12..14)
    };
    let date = line.date().unwrap();
    let rows = cdx.split(|byte| *byte == b'\n');
    let rows = rows.filter_map(|raw| cdx_line::Line::parse(raw).ok());
    let distance = |row: &cdx_line::Line| (seconds(row.date) - seconds(date)).abs();
    let same = rows.filter(|row| row.url == line.url);
    let nearest = same.min_by_key(|row| (distance(row), row.date.to_owned()));
    let nearest = nearest.map(|row| (row.file.to_owned(), row.offset));
    let written = || {
        line.written()
            .map(|origin| (origin.file.into_owned(), origin.offset))
    };
    nearest.or_else(written)
}

fn by_url(log: &[u8]) -> Vec<u8> {
    let mut lines: Vec<_> = log.split_inclusive(|byte| *byte == b'\n').collect();
    lines.sort_by_key(|line| crawl_log::Line::parse(line).unwrap().url);
    lines.concat()
}

#[test]
fn it_is_what_looking_at_all_of_the_cdx_gives() {
    let mut rng = Rng::new("joins");
    let date = |rng: &mut Rng| {
        format!(
            "20{:02}{:02}{:02}{:02}0000",
            7 + rng.below(3),
            1 + rng.below(12),
            1 + rng.below(28),
            rng.below(24)
        )
    };
    for _ in 0..400 {
        let urls: Vec<String> = (0..=rng.below(6))
            .map(|n| format!("http://a.dk/{}", "x!~".repeat(n as usize)))
            .collect();
        let mut log = Vec::new();
        for _ in 0..rng.below(30) {
            let written = "x {\"warcFilename\":\"w\",\"warcFileOffset\":9}";
            let notes = *rng.pick(&["-", "-", "duplicate:\"d,5\"", written]);
            let (url, date) = (rng.pick(&urls).clone(), date(&mut rng));
            log.push((url.clone(), fetched(&url, &date, notes)));
        }
        log.sort();
        let log: String = log.into_iter().map(|(_, line)| line).collect();
        let cdx = (0..rng.below(30)).map(|n| {
            let url = rng.pick(&urls).clone();
            stored(&url, &date(&mut rng), &format!("f{}", n % 3), n)
        });
        let mut cdx: Vec<String> = cdx.collect();
        cdx.sort();
        let cdx = cdx.concat();
        let (found, counts) = join(log.as_bytes(), Some(cdx.as_bytes()), Flavour::Full).unwrap();
        let expected = log.lines().map(|line| {
            let line = crawl_log::Line::parse(line.as_bytes()).unwrap();
            let origin = naive(&line, cdx.as_bytes());
            (line.url.to_owned(), line.date().unwrap().to_owned(), origin)
        });
        let expected: Vec<_> = expected.collect();
        assert_eq!(found, expected, "{log}\n{cdx}");
        let origins = counts.duplicates + counts.same_date + counts.nearest + counts.logged;
        assert_eq!(origins + counts.without_origin, counts.rows);
        assert_eq!(counts.cdx as usize, cdx.lines().count());
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
