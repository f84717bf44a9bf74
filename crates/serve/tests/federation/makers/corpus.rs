//! Captures for the tests of makers.

use std::collections::BTreeMap;

use crawlspace_cdx::surt::urlkey;
use crawlspace_warc::{Compression, Writer};
use redis_tests::archive::collection::sha1_base32;

use super::maker::Row;
use crate::shelf::{HTTP, iso};

/// Returns unusual URLs, with the keys that warcio.js 2.4.11 and the Python package surt 0.3.1 wrote for them.
pub fn urls() -> Vec<[String; 3]> {
    serde_json::from_str(include_str!("urls.json")).unwrap()
}

/// Rows, and the WARC files that they refer to.
#[derive(Default)]
pub struct Corpus {
    pub rows: Vec<Row>,
    pub warcs: BTreeMap<String, Vec<u8>>,
}

impl Corpus {
    /// Appends a record to a WARC file. Returns its offset and length.
    pub fn record(&mut self, file: &str, fields: &[(&str, &str)], block: &[u8]) -> (u64, u64) {
        let bytes = self.warcs.entry(file.to_owned()).or_default();
        let offset = bytes.len() as u64;
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| (*name, value.as_bytes()))
            .collect();
        let length = Writer::new(bytes, Compression::PerRecord).write(&fields, block);
        (offset, length.unwrap())
    }

    /// Adds a response and its row.
    pub fn capture(&mut self, file: &str, [url, js, surt]: [&str; 3], time: &str, payload: &str) {
        let digest = sha1_base32(payload.as_bytes());
        let fields = [
            ("WARC-Type", "response"),
            ("WARC-Record-ID", &format!("<urn:uuid:{digest}>")),
            ("WARC-Date", &precise(time)),
            ("WARC-Target-URI", url),
            ("WARC-Payload-Digest", &format!("sha1:{digest}")),
            ("Content-Type", "application/http; msgtype=response"),
        ];
        let place = self.record(file, &fields, format!("{HTTP}{payload}").as_bytes());
        self.row(file, [url, js, surt], time, &digest, place);
    }

    /// Adds the row of a record.
    pub fn row(
        &mut self,
        file: &str,
        [url, js, surt]: [&str; 3],
        time: &str,
        digest: &str,
        (offset, length): (u64, u64),
    ) {
        self.rows.push(Row {
            url: url.to_owned(),
            keys: [js.to_owned(), surt.to_owned()],
            urlkey: urlkey(url).unwrap(),
            time: time.to_owned(),
            mime: "text/plain".to_owned(),
            digest: digest.to_owned(),
            file: file.to_owned(),
            offset,
            length,
            ..Row::default()
        });
    }

    /// Returns the WARC files with their names.
    pub fn files(&self) -> Vec<(&str, &[u8])> {
        let files = self.warcs.iter();
        files.map(|(name, bytes)| (&**name, &**bytes)).collect()
    }
}

/// Formats a timestamp with the milliseconds of [`Maker::precise`](super::maker::Maker), as recorders do.
fn precise(time: &str) -> String {
    iso(time).replace('Z', ".123Z")
}

/// Returns the payload of a capture created by [`odd`].
pub fn payload(url: &str, time: &str) -> String {
    format!("{url} at {time}")
}

/// Creates three captures of each unusual URL. No two captures have the same timestamp.
pub fn odd(file: &str) -> Corpus {
    let mut corpus = Corpus::default();
    for (n, [url, js, surt]) in urls().iter().enumerate() {
        for year in [2014, 2016, 2018] {
            let time = format!("{year}010100{:02}{:02}", n / 60, n % 60);
            let payload = payload(url, &time);
            corpus.capture(file, [url, js, surt], &time, &payload);
        }
    }
    corpus
}

/// Creates rows without records: URLs of four forms whose keys sort differently in each family, with one to five
/// captures each, and, if there is room, 600 captures of one URL in the middle.
pub fn many(lines: usize) -> Vec<Row> {
    let mut rows = Vec::with_capacity(lines);
    let mut number = 0;
    while rows.len() < lines {
        let page = format!("p/{number:05}");
        let (path, js, surt) = match number % 4 {
            0 => (format!("{page}/"), format!("{page}/"), page),
            1 => (
                format!("{page}/?a=1&a2=2"),
                format!("{page}/?a2=2&a=1"),
                format!("{page}?a=1&a2=2"),
            ),
            2 => (
                page.to_uppercase() + ".html",
                format!("{page}.html"),
                format!("{page}.html"),
            ),
            _ => (
                format!("{page}//x?q=%7E"),
                format!("{page}//x?q=%7e"),
                format!("{page}/x?q=~"),
            ),
        };
        let is_middle = lines > 1000 && number == lines / 9;
        let captures = if is_middle { 600 } else { 1 + number % 5 };
        let url = format!("http://example.com/{path}");
        let key = urlkey(&url).unwrap();
        for n in 0..captures.min(lines - rows.len()) {
            rows.push(Row {
                url: url.clone(),
                keys: [js.as_str(), surt.as_str()].map(|rest| format!("com,example)/{rest}")),
                urlkey: key.clone(),
                time: format!("20160101{:02}{:02}{:02}", n / 3600, n / 60 % 60, n % 60),
                mime: "text/html".to_owned(),
                file: "data.warc.gz".to_owned(),
                offset: rows.len() as u64,
                length: 10,
                ..Row::default()
            });
        }
        number += 1;
    }
    rows
}
