//! The peer: an importer that sends the documented plain commands one after the other.

use std::io::{BufRead, BufReader};

use flate2::read::MultiGzDecoder;
use redis_tests::Server;
use redis_tests::archive::{Entry, Folder, member};

use crate::dedupe::{commit_hashes, sum};
use crate::load::{Client, Connection, Watch};

/// The results of an import.
pub struct Imported {
    pub seconds: f64,
    /// Processor use of the server, as a fraction of a core.
    pub busy: f64,
    pub round_trips: u64,
}

/// Imports all files: first the responses and the commit of each crawl, then the revisits, because
/// these need all originals.
pub fn import(server: &Server, folder: &Folder) -> Imported {
    let watch = Watch::start(server);
    let mut client = Importer(Client::over(Connection::tcp(server)));
    let of_one_crawl = |a: &Entry, b: &Entry| a.crawl == b.crawl;
    for files in folder.entries.chunk_by(of_one_crawl) {
        client.line(format!("SADD uncommittedcrawls {}", files[0].crawl));
        for (place, file) in files.iter().enumerate() {
            client.responses(folder, file, place);
        }
        commit_hashes(&mut client.0, &files[0].crawl);
    }
    for file in &folder.entries {
        client.revisits(folder, file);
    }
    for files in folder.entries.chunk_by(of_one_crawl) {
        sum(&mut client.0, &files[0].crawl);
    }
    let seconds = watch.elapsed().as_secs_f64();
    Imported {
        seconds,
        busy: watch.stop(1, 0).busy,
        round_trips: client.0.trips,
    }
}

/// The needed fields of an index line.
struct Line<'a> {
    is_revisit: bool,
    date: &'a str,
    url: &'a str,
    hash: &'a str,
    size: &'a str,
}

impl<'a> Line<'a> {
    /// Parses a line of a response or a revisit. Returns `None` for other records. Reads only the
    /// needed fields, and is faster than a JSON parser.
    fn read(line: &'a str) -> Option<Line<'a>> {
        let (_, rest) = line.split_once(' ')?;
        let (date, json) = rest.split_once(' ')?;
        let url = value(json, "\"url\": ")?;
        url.starts_with("http").then_some(Line {
            is_revisit: value(json, "\"mime\": ")? == "warc/revisit",
            date,
            url,
            hash: value(json, "\"digest\": ")?,
            size: value(json, "\"length\": ")?,
        })
    }
}

fn value<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = json.split_once(name)?;
    match rest.strip_prefix('"') {
        Some(text) => Some(text.split_once('"')?.0),
        None => Some(rest.split_once([',', '}'])?.0),
    }
}

fn for_each_line(folder: &Folder, file: &Entry, mut each: impl FnMut(Line<'_>)) {
    let packed = member(&folder.file(&file.path), "indexes/index.cdxj.gz");
    let mut text = BufReader::new(MultiGzDecoder::new(&packed[..]));
    let mut line = String::new();
    while text.read_line(&mut line).expect("it is gzip") > 0 {
        if let Some(line) = Line::read(&line) {
            each(line);
        }
        line.clear();
    }
}

struct Importer(Client);

impl Importer {
    /// Sends one command and returns the first string of its reply.
    fn line(&mut self, line: String) -> Option<String> {
        self.0.line(&line).texts.into_iter().next()
    }

    fn responses(&mut self, folder: &Folder, file: &Entry, place: usize) {
        let Entry {
            crawl,
            name,
            hash,
            size,
            ..
        } = file;
        let key = format!("h:{crawl}");
        for_each_line(folder, file, |line| {
            if !line.is_revisit {
                let record = format!("{place} {} {} {}", line.date, line.url, line.size);
                self.0.ask(["HSETNX", &key, line.hash, &record]);
                self.line(format!("HINCRBY {key}:counts totalUrls 1"));
            }
        });
        let entry = format!(r#"{{"filename":"{name}","hash":"{hash}","size":{size}}}"#);
        self.line(format!("RPUSH c:{crawl}:wacz {entry}"));
        self.line(format!("HINCRBY {key}:counts totalCrawlSize {size}"));
    }

    fn revisits(&mut self, folder: &Folder, file: &Entry) {
        let Entry { crawl, name, .. } = file;
        for_each_line(folder, file, |line| {
            if !line.is_revisit {
                return;
            }
            let owner = self.line(format!("HGET allhashes {}", line.hash));
            let owner = owner.expect("every original is there");
            let record = self.line(format!("HGET h:{owner} {}", line.hash));
            let record = record.expect("every owner has the record");
            let number = |text: &str| text.parse::<i64>().expect("a number of bytes");
            let (place, rest) = record
                .split_once(' ')
                .expect("a record begins with its place");
            let (_, size) = rest.rsplit_once(' ').expect("a record ends with its size");
            self.line(format!("HINCRBY h:{crawl}:counts totalUrls 1"));
            self.line(format!("HINCRBY h:{crawl}:counts dupeUrls 1"));
            let saved = number(size) - number(line.size);
            if saved > 0 {
                self.line(format!("HINCRBY h:{crawl}:counts conservedSize {saved}"));
            }
            if owner != *crawl {
                self.line(format!("SADD {crawl}:reqCrawls {owner}"));
                self.0.ask([
                    "SADD",
                    &format!("{name}:duperefs"),
                    &format!("{owner} {place}"),
                ]);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_is_written() {
        let line = r#"org,example)/ 20240102030405 {"url": "http://example.org/", "mime": "warc/revisit", "status": 200, "digest": "sha256:9f", "length": 523, "offset": "0", "filename": "a.warc.gz"}"#;
        let read = Line::read(line).expect("a revisit");
        assert!(read.is_revisit);
        assert_eq!(
            (read.date, read.url, read.hash, read.size),
            ("20240102030405", "http://example.org/", "sha256:9f", "523")
        );
        assert!(Line::read(&line.replace("http://", "urn:text:http://")).is_none());
    }
}
