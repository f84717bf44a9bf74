//! Writes an index as lines.
//!
//! A line is a CDXJ row of a record, or begins with `!` and describes the index, a crawl or another key.
//! Lines with `!` come before the rows, even after the lines are sorted. Only the number of lines comes last.

use std::io::{self, Write};

use crawlspace_cdx::surt::urlkey;
use crawlspace_index::Work;
use crawlspace_index::timestamp::Timestamp;
use serde::{Deserialize, Serialize};

use super::Error;
use super::source::{Content, Kept, Page, Source};
use crate::any_index::IndexName;

/// Version of the format.
pub(super) const FORMAT: u32 = 1;
/// First words of the lines that are not rows.
pub(super) const INDEX: &str = "!index";
pub(super) const CRAWL: &str = "!crawl";
pub(super) const KEY: &str = "!key";
/// First word of a record that does not have the documented form.
pub(super) const RECORD: &str = "!record";
/// First word of the last line.
pub(super) const END: &str = "!end";

/// Bytes as JSON: a string or, if they are not UTF-8, an array of numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Text {
    String(String),
    Bytes(Vec<u8>),
}

impl From<Vec<u8>> for Text {
    fn from(bytes: Vec<u8>) -> Text {
        match String::from_utf8(bytes) {
            Ok(text) => Text::String(text),
            Err(bytes) => Text::Bytes(bytes.into_bytes()),
        }
    }
}

impl From<&[u8]> for Text {
    fn from(bytes: &[u8]) -> Text {
        bytes.to_vec().into()
    }
}

impl From<Text> for Vec<u8> {
    fn from(text: Text) -> Vec<u8> {
        match text {
            Text::String(text) => text.into_bytes(),
            Text::Bytes(bytes) => bytes,
        }
    }
}

/// The content of a key as JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Value {
    Hash(Vec<(Text, Text)>),
    Set(Vec<Text>),
    List(Vec<Text>),
    String(Text),
}

impl Value {
    /// Converts a content; `None` for a key that does not exist or is empty.
    fn of(content: Content) -> Option<Value> {
        let texts = |members: Vec<Vec<u8>>| members.into_iter().map(Text::from).collect();
        Some(match content {
            Content::Hash(members) | Content::Set(members) | Content::List(members)
                if members.is_empty() =>
            {
                return None;
            }
            Content::Hash(mut members) => {
                let mut pairs = Vec::with_capacity(members.len() / 2);
                while let (Some(value), Some(field)) = (members.pop(), members.pop()) {
                    pairs.push((field.into(), value.into()));
                }
                pairs.sort();
                Value::Hash(pairs)
            }
            Content::Set(mut members) => {
                members.sort();
                Value::Set(texts(members))
            }
            Content::List(members) => Value::List(texts(members)),
            Content::String(value) => Value::String(value.into()),
            Content::Nothing => return None,
        })
    }

    pub(super) fn content(self) -> Content {
        let members = |texts: Vec<Text>| texts.into_iter().map(Vec::from).collect();
        match self {
            Value::Hash(pairs) => {
                let pairs = pairs.into_iter().flat_map(|(field, value)| [field, value]);
                Content::Hash(members(pairs.collect()))
            }
            Value::Set(set) => Content::Set(members(set)),
            Value::List(list) => Content::List(members(list)),
            Value::String(value) => Content::String(value.into()),
        }
    }
}

/// The line about the index.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct IndexLine {
    pub(super) format: u32,
    pub(super) profile: String,
}

/// The line about a crawl.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CrawlLine {
    pub(super) crawl: Text,
    pub(super) committed: bool,
    pub(super) uncommitted: bool,
    /// Position in the order of commits.
    pub(super) order: u64,
}

/// The line about another key.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct KeyLine {
    pub(super) name: Text,
    #[serde(flatten)]
    pub(super) value: Value,
}

/// A record that does not have the documented form.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RecordLine {
    pub(super) crawl: Text,
    pub(super) digest: Text,
    pub(super) record: Text,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) owned: bool,
}

/// The last line, by which an import notices that lines are missing.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EndLine {
    /// Number of lines before this one.
    pub(super) lines: u64,
}

/// The JSON of a CDXJ row.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    pub(super) url: String,
    pub(super) digest: String,
    /// Size of the record, as a string, as in other CDXJ rows.
    pub(super) length: String,
    pub(super) crawl: String,
    pub(super) wacz_index: String,
    /// The date as it is stored, if it is not the timestamp of the row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) date: Option<String>,
    /// True if the crawl owns the hash in the merged index.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) owned: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// An index to be written as lines.
#[derive(Clone, Debug)]
pub struct Export {
    /// URL of the server. In a cluster, the node that owns the slot of the prefix, or any node for a sharded index.
    pub from: String,
    /// Name of the index. A sharded index is written as one index.
    pub index: IndexName,
}

/// The result of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Exported {
    /// Number of crawls.
    pub crawls: u64,
    /// Number of records.
    pub records: u64,
}

impl Export {
    /// Writes the index to `out`.
    ///
    /// # Errors
    /// Fails if the server returns an error or breaks the connection, or if `out` fails.
    pub fn run(&self, out: &mut dyn Write, work: &Work) -> Result<Exported, Error> {
        work.begin("reading keys", 0);
        let mut source = Source::open(&self.from, &self.index)?;
        let mut crawls = source.crawls()?;
        source.find_profile(&crawls)?;
        let kept = source.scan_keys(&mut crawls, work)?;
        source.count_records(&mut crawls)?;
        let total = crawls.values().map(|standing| standing.records).sum();
        work.begin("exporting records", total);
        let mut lines = Lines { out, written: 0 };
        lines.write(
            INDEX,
            &IndexLine {
                format: FORMAT,
                profile: source.profile.word().to_owned(),
            },
        )?;
        for (order, crawl) in (1..).zip(source.in_order(&crawls)?) {
            let standing = crawls[&crawl];
            lines.write(
                CRAWL,
                &CrawlLine {
                    crawl: crawl[..].into(),
                    committed: standing.committed,
                    uncommitted: standing.uncommitted,
                    order,
                },
            )?;
            for (name, content) in source.details(&crawl)? {
                lines.key(&name, content)?;
            }
        }
        for Kept { name, value } in source.other_keys(kept) {
            lines.key(&name, value?)?;
        }
        let mut exported = Exported {
            crawls: crawls.len() as u64,
            records: 0,
        };
        for (crawl, standing) in &crawls {
            let mut written: Result<(), Error> = Ok(());
            source.read_records(crawl, standing.committed, |page| {
                exported.records += page.records() as u64;
                written = lines
                    .page(crawl, &page)
                    .and_then(|()| Ok(work.advance(page.records() as u64)?));
                written.is_ok()
            })?;
            written?;
        }
        let end = EndLine {
            lines: lines.written,
        };
        lines.write(END, &end)?;
        lines.out.flush()?;
        Ok(exported)
    }
}

/// The lines of an export.
struct Lines<'a> {
    out: &'a mut dyn Write,
    /// Number of lines so far.
    written: u64,
}

impl Lines<'_> {
    fn write(&mut self, word: &str, value: &impl Serialize) -> Result<(), Error> {
        write!(self.out, "{word} ")?;
        serde_json::to_writer(&mut *self.out, value).map_err(io::Error::from)?;
        self.written += 1;
        Ok(self.out.write_all(b"\n")?)
    }

    fn key(&mut self, name: &[u8], content: Content) -> Result<(), Error> {
        let name = name.into();
        match Value::of(content) {
            Some(value) => self.write(KEY, &KeyLine { name, value }),
            None => Ok(()),
        }
    }

    fn page(&mut self, crawl: &[u8], page: &Page) -> Result<(), Error> {
        let mut owned = page.owned.iter().peekable();
        for pair in page.pairs.chunks_exact(2) {
            // The owned hashes are in the order of the page.
            let is_owned = owned.next_if(|hash| **hash == pair[0]).is_some();
            match row(crawl, &pair[0], &pair[1], is_owned) {
                Some((key, row)) => self.write(&key, &row)?,
                None => self.write(
                    RECORD,
                    &RecordLine {
                        crawl: crawl.into(),
                        digest: pair[0][..].into(),
                        record: pair[1][..].into(),
                        owned: is_owned,
                    },
                )?,
            }
        }
        Ok(())
    }
}

/// Makes the urlkey, the timestamp and the JSON of a record; `None` if the record could not be restored from them.
fn row(crawl: &[u8], hash: &[u8], record: &[u8], owned: bool) -> Option<(String, Row)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    let record = text(record)?;
    let (wacz_index, rest) = record.split_once(' ')?;
    let (date, rest) = rest.split_once(' ')?;
    let (url, length) = rest.rsplit_once(' ')?;
    let digits: String = date.chars().filter(char::is_ascii_digit).take(14).collect();
    let timestamp = Timestamp::earliest(digits.as_bytes())?.to_string();
    let key = urlkey(url).ok().filter(|key| is_word(key))?;
    let row = Row {
        url: url.to_owned(),
        digest: text(hash)?,
        length: length.to_owned(),
        crawl: text(crawl)?,
        wacz_index: wacz_index.to_owned(),
        date: (date != timestamp).then(|| date.to_owned()),
        owned,
    };
    Some((format!("{key} {timestamp}"), row))
}

/// Returns true if a urlkey can begin a line.
fn is_word(key: &str) -> bool {
    !key.is_empty() && !key.starts_with('!') && !key.contains(char::is_whitespace)
}
