//! Records, each with the programs that write it and its expected result.

use crawlspace_warc::digest::is_of_nothing;
use redis_tests::archive::collection::sha1_base32;

use super::{TIME, arc, bodies, digests, headers, http, lengths};
use crate::shelf::iso;

pub const PAGE: &[u8] = b"<p>a page, and its last line\n";
pub const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n";

/// Turns a usual header into an unusual one.
pub type Rewrite = fn(String) -> String;

/// Result of `dedupe index` for a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Indexed {
    /// The payload is indexed under this digest.
    As(String),
    /// The record is read, but not indexed.
    Skipped,
    /// The file cannot be read beyond the previous record.
    Unread,
}

/// A record to be created, with its expected result.
pub struct Case {
    pub name: String,
    /// Programs that write such records, bug reports about them, standards that allow them, or "constructed".
    pub source: &'static str,
    pub kind: &'static str,
    pub version: &'static str,
    pub date: String,
    /// The URL, if it matters.
    pub uri: Option<&'static str>,
    pub media: Option<&'static str>,
    pub fields: Vec<(&'static str, String)>,
    pub block: Vec<u8>,
    /// Number of bytes by which `Content-Length` is off.
    pub off: i64,
    pub end: &'static [u8],
    /// Changes the usual header.
    pub rewrite: Rewrite,
    /// Creates the header line of an ARC record from its URL and the length of its block.
    pub arc: Option<fn(&str, i64) -> String>,
    /// Expected body of the replay; `None` if there must be no replay.
    pub right: Option<Vec<u8>>,
    pub status: u16,
    /// Expected fields of the replay.
    pub shows: &'static [(&'static str, &'static str)],
    /// Digests that the served record must still state (block, payload).
    pub states: [bool; 2],
    /// Expected result of `dedupe index`, unless it is the digest that the record states.
    pub indexed: Option<Indexed>,
}

pub fn sha1(bytes: &[u8]) -> String {
    format!("sha1:{}", sha1_base32(bytes))
}

pub fn block() -> Vec<u8> {
    [HEAD.as_bytes(), PAGE].concat()
}

pub fn case(name: impl Into<String>, source: &'static str) -> Case {
    Case {
        name: name.into(),
        source,
        kind: "response",
        version: "1.0",
        date: iso(TIME),
        uri: None,
        media: Some("application/http; msgtype=response"),
        fields: Vec::new(),
        block: block(),
        off: 0,
        end: b"\r\n\r\n",
        rewrite: |header| header,
        arc: None,
        right: Some(PAGE.to_vec()),
        status: 200,
        shows: &[],
        states: [false, false],
        indexed: None,
    }
}

/// Returns the digests of the correct block and its payload.
pub fn both() -> Vec<(&'static str, String)> {
    stating(sha1(&block()), sha1(PAGE))
}

pub fn stating(block: String, payload: String) -> Vec<(&'static str, String)> {
    vec![
        ("WARC-Block-Digest", block),
        ("WARC-Payload-Digest", payload),
    ]
}

/// Returns all records.
pub fn cases() -> Vec<Case> {
    let sets = [
        digests::cases,
        lengths::cases,
        headers::cases,
        http::cases,
        bodies::cases,
        arc::cases,
    ];
    sets.iter().flat_map(|cases| cases()).collect()
}

impl Case {
    /// Returns the URL to request.
    pub fn url(&self) -> String {
        let made = || {
            format!(
                "http://example.com/{}",
                sha1_base32(self.name.as_bytes()).to_lowercase()
            )
        };
        self.uri.map_or_else(made, str::to_owned)
    }

    /// Returns the payload digest that the record states.
    pub fn stated(&self) -> Option<&str> {
        let mut fields = self.fields.iter();
        let digest = fields.find(|(name, _)| *name == "WARC-Payload-Digest");
        digest.map(|(_, digest)| &**digest)
    }

    /// Returns the expected result of `dedupe index`.
    pub fn indexed(&self) -> Indexed {
        self.indexed.clone().unwrap_or_else(|| match self.stated() {
            Some(digest) if !is_of_nothing(digest.as_bytes()) => Indexed::As(digest.to_owned()),
            _ => Indexed::Skipped,
        })
    }

    pub fn bytes(&self) -> Vec<u8> {
        let length = self.block.len() as i64 + self.off;
        if let Some(line) = self.arc {
            return [line(&self.url(), length).as_bytes(), &self.block, self.end].concat();
        }
        let mut header = format!(
            "WARC/{}\r\nWARC-Type: {}\r\nWARC-Record-ID: <urn:uuid:{}>\r\nWARC-Target-URI: {}\r\nWARC-Date: {}\r\n",
            self.version,
            self.kind,
            sha1_base32(self.name.as_bytes()),
            self.url(),
            self.date,
        );
        let media = self.media.map(|media| ("Content-Type", media.to_owned()));
        for (name, value) in media.iter().chain(&self.fields) {
            header += &format!("{name}: {value}\r\n");
        }
        header += &format!("Content-Length: {length}\r\n\r\n");
        [(self.rewrite)(header).as_bytes(), &self.block, self.end].concat()
    }
}
