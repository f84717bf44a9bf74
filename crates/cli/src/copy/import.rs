//! Reads an index from lines, as [`Export`](super::Export) writes them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;

use crawlspace_client::dedupe::{Profile, Storage};
use crawlspace_index::Work;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::export::{
    CRAWL, CrawlLine, END, EndLine, FORMAT, INDEX, IndexLine, KEY, KeyLine, RECORD, RecordLine, Row,
};
use super::source::{Content, Page};
use super::target::Target;
use super::{Crawls, Error, PAGE, Standing};
use crate::any_index::IndexName;

/// Maximum length of a line in bytes.
const MAX_LINE: u64 = 64 << 20;
/// Maximum number of bad lines in a report.
const EXAMPLES: usize = 20;

/// Lines to be imported into an index.
#[derive(Clone, Debug)]
pub struct Import {
    /// URL of the server with the module.
    pub to: String,
    /// Name of the index.
    pub index: IndexName,
    /// Packs the index.
    pub packed: bool,
}

/// A line that was skipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BadLine {
    /// Number of the line, from 1.
    pub line: u64,
    /// The reason.
    pub why: String,
}

/// The result of an import.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Imported {
    /// Key names of the index.
    pub profile: Profile,
    /// Storage of the index.
    pub storage: Storage,
    /// Number of crawls.
    pub crawls: u64,
    /// Number of records.
    pub records: u64,
    /// Number of lines that were skipped.
    pub bad_lines: u64,
    /// The first skipped lines, at most 20.
    pub examples: Vec<BadLine>,
}

/// A line, parsed.
enum Line {
    Index(IndexLine),
    Crawl(CrawlLine),
    Key(KeyLine),
    Record {
        crawl: Vec<u8>,
        hash: Vec<u8>,
        record: Vec<u8>,
        owned: bool,
    },
    End(EndLine),
}

/// State of an import.
struct Importing {
    target: Target,
    crawls: Crawls,
    /// Crawls by their position in the order of commits.
    order: BTreeSet<(u64, Vec<u8>)>,
    /// Keys to be written once the target has been checked.
    keys: Vec<(Vec<u8>, Content)>,
    /// True once the target has been checked, which happens before the first record or key.
    is_prepared: bool,
    profile: Profile,
    pages: BTreeMap<Vec<u8>, Page>,
    buffered: usize,
    /// Number of lines that were read, without the last lines of exports.
    read: u64,
    /// Number of lines that the exports wrote, according to their last lines.
    written: Option<u64>,
    imported: Imported,
}

impl Import {
    /// Imports the lines. Bad lines are skipped and reported. Importing the same lines again changes nothing.
    ///
    /// # Errors
    /// Fails if the server returns an error or cannot be reached, if the target has other crawls, or if lines are
    /// missing or cannot be read. The crawls become visible at the end; until then, importing again continues.
    pub fn run(&self, lines: &mut dyn BufRead, work: &Work) -> Result<Imported, Error> {
        work.begin("importing lines", 0);
        let mut importing = Importing {
            target: Target::open(&self.to, &self.index, self.packed)?,
            crawls: Crawls::new(),
            order: BTreeSet::new(),
            keys: Vec::new(),
            is_prepared: false,
            profile: Profile::Document,
            pages: BTreeMap::new(),
            buffered: 0,
            read: 0,
            written: None,
            imported: Imported {
                profile: Profile::Document,
                storage: Storage::Plain,
                crawls: 0,
                records: 0,
                bad_lines: 0,
                examples: Vec::new(),
            },
        };
        let mut raw = Vec::new();
        for number in 1.. {
            raw.clear();
            let mut limited = std::io::Read::take(&mut *lines, MAX_LINE);
            if limited.read_until(b'\n', &mut raw)? == 0 {
                break;
            }
            let line = raw.strip_suffix(b"\n").unwrap_or(&raw);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                continue;
            }
            let line = Line::read(line);
            // A line that is too long is read in parts.
            let is_last_part = raw.ends_with(b"\n") || (raw.len() as u64) < MAX_LINE;
            importing.read += u64::from(is_last_part && !matches!(line, Ok(Line::End(_))));
            match line {
                Ok(line) => importing.take(number, line)?,
                Err(why) => importing.bad(number, why),
            }
            work.advance(1)?;
        }
        importing.end(work)
    }
}

impl Line {
    fn read(line: &[u8]) -> Result<Line, String> {
        let text = std::str::from_utf8(line).map_err(|_| "not UTF-8".to_owned())?;
        let (word, rest) = text
            .split_once(' ')
            .ok_or("neither a CDXJ row nor a line of an export")?;
        Ok(match word {
            INDEX => Line::Index(json(rest)?),
            CRAWL => Line::Crawl(json(rest)?),
            KEY => Line::Key(json(rest)?),
            END => Line::End(json(rest)?),
            RECORD => {
                let record: RecordLine = json(rest)?;
                Line::Record {
                    crawl: record.crawl.into(),
                    hash: record.digest.into(),
                    record: record.record.into(),
                    owned: record.owned,
                }
            }
            _ if word.starts_with('!') => return Err(format!("unknown line {word}")),
            _ => {
                let (timestamp, rest) = rest.split_once(' ').ok_or("a row without JSON")?;
                let row: Row = json(rest)?;
                let date = row.date.as_deref().unwrap_or(timestamp);
                let is_number =
                    |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty();
                for (name, number) in [("length", &row.length), ("waczIndex", &row.wacz_index)] {
                    if !is_number(number) {
                        return Err(format!("{name} is not a number: {number:?}"));
                    }
                }
                if date.len() < 14 || date.contains(' ') {
                    return Err(format!("invalid date {date:?}"));
                }
                if row.digest.len() < 16 {
                    return Err(format!("invalid digest {:?}", row.digest));
                }
                let record = format!("{} {date} {} {}", row.wacz_index, row.url, row.length);
                Line::Record {
                    crawl: row.crawl.into_bytes(),
                    hash: row.digest.into_bytes(),
                    record: record.into_bytes(),
                    owned: row.owned,
                }
            }
        })
    }
}

fn json<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

impl Importing {
    fn bad(&mut self, line: u64, why: impl Into<String>) {
        self.imported.bad_lines += 1;
        if self.imported.examples.len() < EXAMPLES {
            let why = why.into();
            self.imported.examples.push(BadLine { line, why });
        }
    }

    /// Handles a line; `number` is its line number.
    fn take(&mut self, number: u64, line: Line) -> Result<(), Error> {
        match line {
            Line::Index(index) if index.format != FORMAT => {
                return Err(Error::Refused(format!(
                    "the lines have format {}, but this version reads format {FORMAT}",
                    index.format
                )));
            }
            Line::Index(index) => match &index.profile[..] {
                "document" => self.profile = Profile::Document,
                "browsertrix" => self.profile = Profile::Browsertrix,
                other => self.bad(number, format!("unknown profile {other:?}")),
            },
            Line::Crawl(_) if self.is_prepared => {
                self.bad(number, "the line of a crawl must come before all records");
            }
            Line::Crawl(crawl) => {
                let standing = Standing {
                    committed: crawl.committed,
                    uncommitted: crawl.uncommitted,
                    records: 0,
                };
                let id: Vec<u8> = crawl.crawl.into();
                self.order.insert((crawl.order, id.clone()));
                self.crawls.insert(id, standing);
            }
            Line::Key(key) => {
                let (name, content): (Vec<u8>, _) = (key.name.into(), key.value.content());
                if self.is_prepared {
                    self.target.write_key(&name, &content)?;
                } else {
                    self.keys.push((name, content));
                }
            }
            Line::Record {
                crawl,
                hash,
                record,
                owned,
            } => {
                self.prepare()?;
                let Some(standing) = self.crawls.get_mut(&crawl) else {
                    let crawl = crawl.escape_ascii().to_string();
                    self.bad(
                        number,
                        format!("no line {CRAWL} describes the crawl '{crawl}'"),
                    );
                    return Ok(());
                };
                standing.records += 1;
                self.imported.records += 1;
                let page = self.pages.entry(crawl).or_insert_with(|| Page {
                    pairs: Vec::new(),
                    owned: Vec::new(),
                });
                if owned {
                    page.owned.push(hash.clone());
                }
                page.pairs.extend([hash, record]);
                self.buffered += 1;
                if self.buffered == PAGE {
                    self.flush()?;
                }
            }
            Line::End(end) => {
                let written = self.written.unwrap_or(0);
                self.written = Some(written.saturating_add(end.lines));
            }
        }
        Ok(())
    }

    fn prepare(&mut self) -> Result<(), Error> {
        if !self.is_prepared {
            self.target.prepare(self.profile, &self.crawls)?;
            self.is_prepared = true;
            for (name, content) in self.keys.drain(..) {
                self.target.write_key(&name, &content)?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        for (crawl, page) in std::mem::take(&mut self.pages) {
            self.target.write_page(&crawl, &page)?;
        }
        self.buffered = 0;
        Ok(())
    }

    /// Refuses an export of which lines are missing.
    fn check(&self) -> Result<(), Error> {
        let missing = match self.written {
            None => format!("its last line, {END}, is missing"),
            Some(written) if self.read < written => {
                format!("{} of its {written} lines are missing", written - self.read)
            }
            Some(_) => return Ok(()),
        };
        Err(Error::Refused(format!(
            "the export is incomplete: {missing}; the crawls were not made visible: run the import again with the \
             complete export"
        )))
    }

    fn end(mut self, work: &Work) -> Result<Imported, Error> {
        self.check()?;
        self.prepare()?;
        self.flush()?;
        for (_, crawl) in &self.order {
            self.target.list(crawl, self.crawls[crawl])?;
            work.check()?;
        }
        for (_, crawl) in &self.order {
            self.target.number(crawl, self.crawls[crawl])?;
            work.check()?;
        }
        let storage = self.target.finish(&self.crawls, work)?;
        Ok(Imported {
            profile: self.profile,
            storage,
            crawls: self.crawls.len() as u64,
            ..self.imported
        })
    }
}
