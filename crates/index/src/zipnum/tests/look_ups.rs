//! Tests of look-ups.

use super::*;
use crate::index::{Lookup, Rows};
use crate::timestamp::Timestamp;
use redis_tests::assert_starts;

/// A row of an index: URL, date, and digest.
type Capture = (String, u64, String);

const DIGESTS: [&str; 6] = ["A", "AB", "B", "ABCD", "a", "-2"];

fn capture(rng: &mut Rng) -> Capture {
    let scheme = rng.pick(&["http", "https"]);
    let path = rng.pick(&["", "a", "A", "a/b", "a?b=c", "ab"]);
    let host = rng.below(5);
    let date = 20260101000000 + rng.below(4) * 1_000_000 + rng.below(20);
    let digest = rng.pick(&DIGESTS);
    (
        format!("{scheme}://www.h{host}.org/{path}"),
        date,
        (*digest).to_owned(),
    )
}

fn text(key: &str, capture: &Capture) -> Vec<u8> {
    let (url, date, digest) = capture;
    format!("{key} {date} {{\"url\":\"{url}\",\"digest\":\"{digest}\"}}").into_bytes()
}

fn by_url(captures: &[Capture]) -> Vec<Vec<u8>> {
    let key = |url: &str| crawlspace_cdx::surt::urlkey(url).unwrap();
    let lines = captures.iter().map(|one| text(&key(&one.0), one));
    let mut lines: Vec<_> = lines.collect();
    lines.sort();
    lines
}

fn by_digest(captures: &[Capture]) -> Vec<Vec<u8>> {
    let mut lines: Vec<_> = captures.iter().map(|one| text(&one.2, one)).collect();
    lines.sort();
    lines
}

/// Writes an index, compressed or plain.
fn index(folder: &Path, captures: &[Capture], plain: bool, options: Options) {
    for (stem, lines) in [("url", by_url(captures)), ("digest", by_digest(captures))] {
        if plain {
            let text: Vec<u8> = lines
                .iter()
                .flat_map(|line| [line, &b"\n"[..]].concat())
                .collect();
            fs::write(folder.join(format!("{stem}.cdxj")), text).unwrap();
        } else {
            write(folder, stem, &lines, options);
        }
    }
}

fn found(rows: Result<Rows<'_>, Error>) -> Vec<Vec<u8>> {
    let rows = rows.unwrap().map(|row| row.unwrap().line().to_vec());
    rows.collect()
}

fn of(captures: &[Capture], is_wanted: impl Fn(&Capture) -> bool) -> Vec<Capture> {
    let wanted = captures.iter().filter(|capture| is_wanted(capture));
    wanted.cloned().collect()
}

#[test]
fn look_ups_find_all_lines() {
    let mut rng = Rng::new("look_ups_find_all_lines");
    for round in 0..24 {
        let folder = tempfile::tempdir().unwrap();
        let most = [3, 40, 2000][round % 3];
        let captures: Vec<_> = (0..rng.below(most)).map(|_| capture(&mut rng)).collect();
        index(folder.path(), &captures, round % 2 == 0, options(&mut rng));
        let lookup = Lookup::open(folder.path()).unwrap();
        assert!(found(lookup.all()) == by_url(&captures));
        for _ in 0..30 {
            let (url, date, digest) = capture(&mut rng);
            let same = of(&captures, |one| one.0 == url);
            assert!(found(lookup.by_url(&url)) == by_url(&same), "{url}");
            let urlkey = crawlspace_cdx::surt::urlkey(&url).unwrap();
            let alike = of(&captures, |one| {
                crawlspace_cdx::surt::urlkey(&one.0).unwrap() == urlkey
            });
            assert!(found(lookup.by_urlkey(&urlkey)) == by_url(&alike), "{url}");
            let twins = of(&captures, |one| one.2 == digest);
            assert!(
                found(lookup.by_digest(&digest)) == by_digest(&twins),
                "{digest}"
            );

            let date = date + rng.below(2) * 120_000;
            let seconds = |date: u64| {
                let moment = Timestamp::earliest(date.to_string().as_bytes());
                moment.unwrap().seconds()
            };
            let away = |date: u64, other| seconds(date).abs_diff(seconds(other));
            let closest = same.iter().map(|one| (away(one.1, date), one.1)).min();
            let row = lookup.closest(&url, &date.to_string()).unwrap();
            let there = row.map(|row| {
                assert_eq!(row.field("url"), url);
                String::from_utf8(row.timestamp().to_vec()).unwrap()
            });
            let expected = closest.map(|(_, date)| date.to_string());
            assert_eq!(there, expected, "{url} {date}");
        }
    }
}

#[test]
fn row_says_where_its_record_is() {
    let folder = tempfile::tempdir().unwrap();
    let line = "org,example)/ 20260101000000 {\"url\":\"http://example.org/\",\"digest\":\"D\",\"filename\":\"a.warc.gz\",\"offset\":\"7\"}";
    write(folder.path(), "url", &[line.into()], Options::by_url());
    let by_digest = line.replace("org,example)/", "D").into_bytes();
    write(folder.path(), "digest", &[by_digest], Options::by_digest());
    let lookup = Lookup::open(folder.path()).unwrap();
    let row = lookup.by_digest("D").unwrap().next().unwrap().unwrap();
    assert_eq!(row.urlkey(), b"D");
    assert_eq!(row.field("filename"), "a.warc.gz");
    assert_eq!(row.field("offset"), "7");
}

#[test]
fn invalid_look_up_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let error = Lookup::open(folder.path()).err().unwrap();
    assert!(
        error
            .to_string()
            .ends_with("neither url.idx nor url.cdxj exists"),
        "{error}"
    );
    index(folder.path(), &[], true, Options::by_url());
    let lookup = Lookup::open(folder.path()).unwrap();
    let error = lookup.by_url("http://example.org:x/").err().unwrap();
    assert!(matches!(error, Error::Request(_)), "{error}");
    let error = lookup.closest("http://example.org/", "x").unwrap_err();
    assert!(matches!(error, Error::Request(_)), "{error}");
}

#[test]
fn damage_is_reported_with_its_position_and_ends_a_look_up() {
    let mut rng = Rng::new("damage_is_reported_with_its_position_and_ends_a_look_up");
    let captures: Vec<_> = (0..300).map(|_| capture(&mut rng)).collect();
    let folder = tempfile::tempdir().unwrap();
    index(folder.path(), &captures, false, Options::by_digest());
    let (gz, idx) = files(folder.path(), "url");
    let bytes = fs::read(&gz).unwrap();
    // Damage the second block.
    let text = fs::read_to_string(&idx).unwrap();
    let at: usize = text
        .lines()
        .nth(1)
        .unwrap()
        .split('\t')
        .nth(2)
        .unwrap()
        .parse()
        .unwrap();
    let mut changed = bytes.clone();
    changed[at + 20] ^= 1;
    fs::write(&gz, changed).unwrap();
    let lookup = Lookup::open(folder.path()).unwrap();
    let rows: Vec<_> = lookup.all().unwrap().collect();
    assert_eq!(rows.iter().filter(|row| row.is_err()).count(), 1);
    let error = rows.last().unwrap().as_ref().unwrap_err().to_string();
    let expected = format!(
        "{}: url.cdxj.gz: block at byte {at}: ",
        folder.path().display()
    );
    assert_starts(&error, &expected);

    // Damage a line of a plain index.
    let folder = tempfile::tempdir().unwrap();
    index(folder.path(), &captures, true, Options::by_url());
    let path = folder.path().join("url.cdxj");
    let text = fs::read_to_string(&path).unwrap();
    let middle = text.find("org,h2)/a ").unwrap();
    fs::write(
        &path,
        [&text[..middle], "nothing\n", &text[middle..]].concat(),
    )
    .unwrap();
    let lookup = Lookup::open(folder.path()).unwrap();
    let last = lookup.all().unwrap().last().unwrap().unwrap_err();
    assert!(
        last.to_string().ends_with("it has 1 invalid lines"),
        "{last}"
    );
}
