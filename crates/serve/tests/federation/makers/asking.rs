//! Queries for the captures of an index, and their expected answers.

use std::collections::BTreeMap;

use crawlspace_cdx::surt;
pub use crawlspace_cdx::surt::MatchType;
use redis_tests::http::{Answer, Connection};
use serde_json::Value;

use super::maker::{Family, Row};
use crate::serving::Stage;

/// A row of an answer: urlkey, timestamp with a resolution of one second, and URL.
pub type Found = (String, String, String);

/// A connection to a server, for one of its collections.
pub struct Client {
    connection: Connection,
    pub collection: String,
}

impl Client {
    pub fn new(stage: &Stage, collection: &str) -> Client {
        Client {
            connection: Connection::open(stage.address()).unwrap(),
            collection: collection.to_owned(),
        }
    }

    /// Queries the collection. The answer must be complete.
    #[track_caller]
    pub fn ask(&mut self, target: &str) -> Answer {
        let target = format!("/{}/{target}", self.collection);
        let answer = self.connection.ask("GET", &target, &[], b"").unwrap();
        assert_eq!(answer.status, 200, "{target}: {}", answer.text());
        assert_eq!(answer.field("source-errors"), None, "{target}");
        answer
    }

    /// Sends a request with a body.
    pub fn send(&mut self, method: &str, target: &str, media: &str, body: &str) -> Answer {
        let target = format!("/{}/{target}", self.collection);
        let fields = [("Content-Type", media)];
        let answer = self
            .connection
            .ask(method, &target, &fields, body.as_bytes());
        answer.unwrap()
    }

    /// Returns the rows of an index query.
    #[track_caller]
    pub fn rows(&mut self, query: &str) -> Vec<Found> {
        found(&self.ask(&format!("index?output=json&{query}")).text())
    }

    /// Returns columns of a CDX query: urlkey, and timestamp with a resolution of one second.
    #[track_caller]
    pub fn columns(&mut self, query: &str) -> Vec<(String, String)> {
        let text = self.ask(&format!("cdx?fl=urlkey,timestamp&{query}")).text();
        text.lines().map(columns).collect()
    }
}

fn columns(line: &str) -> (String, String) {
    let (key, time) = line.split_once(' ').unwrap();
    (key.to_owned(), time[..14].to_owned())
}

/// Parses rows from lines of JSON.
pub fn found(text: &str) -> Vec<Found> {
    let row = |line: &str| -> Found {
        let row: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| row[name].as_str().unwrap().to_owned();
        (
            text("urlkey"),
            text("timestamp")[..14].to_owned(),
            text("url"),
        )
    };
    text.lines().map(row).collect()
}

pub fn encoded(url: &str) -> String {
    url::form_urlencoded::byte_serialize(url.as_bytes()).collect()
}

/// Returns whether a URL can be part of a request target without escaping.
pub fn is_target(url: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_graphic() && !b"#\"<>\\^`{|}".contains(&byte);
    url.bytes().all(fits)
}

fn of(row: &Row) -> Found {
    (row.urlkey.clone(), row.time.clone(), row.url.clone())
}

/// Returns all rows in the server's order: by urlkey and timestamp.
pub fn scanned(rows: &[Row]) -> Vec<Found> {
    let mut all: Vec<Found> = rows.iter().map(of).collect();
    all.sort_unstable();
    all
}

/// Groups rows by urlkey, earliest first.
pub fn by_urlkey(rows: &[Row]) -> BTreeMap<&str, Vec<&Row>> {
    let mut all: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        all.entry(&row.urlkey).or_default().push(row);
    }
    for rows in all.values_mut() {
        rows.sort_by(|a, b| a.time.cmp(&b.time));
    }
    all
}

/// Returns whether two URLs are equal except for a trailing slash of the path.
fn is_same(one: &str, other: &str) -> bool {
    let trimmed = |url: &str| {
        let end = url.find('?').unwrap_or(url.len());
        let path = url[..end].strip_suffix('/').unwrap_or(&url[..end]);
        format!("{path}{}", &url[end..])
    };
    trimmed(one) == trimmed(other)
}

/// Expected captures of a URL in an index.
pub struct Expected<'a> {
    /// Rows with the urlkey, earliest first.
    may: Vec<&'a Row>,
    /// Rows that must be found. In an index with keys of the other family, only the rows of the URL
    /// itself must be found, because other forms of the URL have other keys there.
    must: Vec<&'a Row>,
}

impl<'a> Expected<'a> {
    pub fn new(all: &BTreeMap<&str, Vec<&'a Row>>, row: &Row, family: Family) -> Expected<'a> {
        let may = all[&*row.urlkey].clone();
        let is_found = |one: &&&Row| family == Family::Python || is_same(&one.url, &row.url);
        let must = may.iter().filter(is_found).copied().collect();
        Expected { may, must }
    }

    /// Returns the expectation for a subset of the rows.
    fn only(&self, is_wanted: impl Fn(&Row) -> bool) -> Expected<'a> {
        let only = |rows: &[&'a Row]| {
            let rows = rows.iter().copied();
            rows.filter(|row| is_wanted(row)).collect()
        };
        Expected {
            may: only(&self.may),
            must: only(&self.must),
        }
    }

    /// Asserts that these rows were found, in order and once each.
    #[track_caller]
    fn are<T: PartialEq + std::fmt::Debug>(
        &self,
        found: &[T],
        like: impl Fn(&Row) -> T,
        what: &str,
    ) {
        // Long answers are shortened in messages.
        let shown = &found[..found.len().min(20)];
        let mut left = found.iter().peekable();
        for row in &self.may {
            let is_there = left.next_if_eq(&&like(row)).is_some();
            let must = self.must.iter().any(|one| std::ptr::eq(*one, *row));
            assert!(
                is_there || !must,
                "{what}: no {:?} among {} rows: {shown:?}",
                like(row),
                found.len()
            );
        }
        assert_eq!(left.next(), None, "{what}: one too many of {shown:?}");
    }
}

fn columns_of(row: &Row) -> (String, String) {
    (row.urlkey.clone(), row.time.clone())
}

/// Number of ways in which [`asked`] queries the captures of a URL.
pub const WAYS: usize = 6;

/// Queries the captures of a URL in one way, and compares them with the expectation.
pub fn asked(client: &mut Client, way: usize, row: &Row, expected: &Expected<'_>, who: &str) {
    let url = encoded(&row.url);
    let what = format!("{who}: {} in way {way}", row.url);
    let all = format!("url={url}");
    match way {
        0 => expected.are(&client.rows(&all), of, &what),
        1 => {
            let mut rows = client.rows(&format!("{all}&closest={}", row.time));
            assert_eq!(rows.first(), Some(&of(row)), "{what}");
            rows.sort_unstable_by(|a, b| a.1.cmp(&b.1));
            expected.are(&rows, of, &what);
        }
        2 => {
            let mut rows = client.rows(&format!("{all}&sort=reverse"));
            rows.reverse();
            expected.are(&rows, of, &what);
        }
        3 => {
            let (first, last) = (&row.time, &expected.must[expected.must.len() - 1].time);
            let rows = client.rows(&format!("{all}&from={first}&to={last}"));
            let expected = expected.only(|one| one.time >= *first && one.time <= *last);
            expected.are(&rows, of, &what);
        }
        4 => expected.are(&client.columns(&all), columns_of, &what),
        _ => {
            if is_target(&row.url) {
                let text = client.ask(&format!("timemap/json/{}", row.url)).text();
                expected.are(&found(&text), of, &what);
            }
        }
    }
}

/// Queries many URLs, at once and by pages, and compares the rows with all those of the index.
pub fn scan(
    client: &mut Client,
    url: &str,
    match_type: MatchType,
    rows: &[Row],
    page: usize,
    who: &str,
) {
    let keys = surt::range(url, match_type).unwrap();
    let mut all = scanned(rows);
    all.retain(|(key, ..)| {
        let line = format!("{key} ").into_bytes();
        line >= keys.from && (keys.to.is_empty() || line < keys.to)
    });
    let name = match match_type {
        MatchType::Prefix => "prefix",
        MatchType::Host => "host",
        _ => "domain",
    };
    let query = format!("url={}&matchType={name}", encoded(url));
    let who = format!("{who}: {query}");
    same(&client.rows(&query), &all, &who);
    let mut reversed = client.rows(&format!("{query}&sort=reverse"));
    reversed.reverse();
    same(&reversed, &all, &who);
    let pages = client.ask(&format!("cdx?{query}&showNumPages=true&pageSize={page}"));
    let pages: usize = pages.text().trim().parse().unwrap();
    assert_eq!(pages, all.len().div_ceil(page), "{who}");
    let mut paged = Vec::new();
    for number in 0..pages {
        let rows = client.rows(&format!("{query}&page={number}&pageSize={page}"));
        paged.extend(rows);
    }
    same(&paged, &all, &format!("{who} by pages of {page}"));
    let expected: Vec<_> = all.iter().map(|(key, time, _)| (key, time)).collect();
    let (mut resumed, mut key) = (Vec::new(), String::new());
    loop {
        let more = format!("{query}&fl=urlkey,timestamp&limit={page}&showResumeKey=true{key}");
        let text = client.ask(&format!("cdx?{more}")).text();
        let (lines, next) = match text.split_once("\n\n") {
            Some((lines, next)) => (lines, Some(next.trim())),
            None => (&*text, None),
        };
        resumed.extend(lines.lines().map(columns));
        match next {
            // The resume key needs no escaping in a query string.
            Some(next) => key = format!("&resumeKey={next}"),
            None => break,
        }
    }
    let resumed: Vec<_> = resumed.iter().map(|(key, time)| (key, time)).collect();
    assert!(
        resumed == expected,
        "{who} by resume keys: {} rows, not {}",
        resumed.len(),
        expected.len()
    );
}

/// Asserts that rows are equal, and shows the first difference.
#[track_caller]
fn same(found: &[Found], expected: &[Found], who: &str) {
    let differ = (0..found.len().max(expected.len())).find(|&n| found.get(n) != expected.get(n));
    if let Some(n) = differ {
        panic!(
            "{who}: {} rows, not {}; row {n} is {:?}, not {:?}",
            found.len(),
            expected.len(),
            found.get(n),
            expected.get(n)
        );
    }
}
