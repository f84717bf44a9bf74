//! The peer: an importer that sends the documented plain commands, one after the other.

use std::io::{BufRead, BufReader};

use flate2::read::MultiGzDecoder;
use redis_tests::Server;
use redis_tests::archive::{Entry, Folder, member};

use crate::load::{Connection, Item, Watch, encode};

/// How an import went.
pub struct Imported {
    pub seconds: f64,
    /// Share of a core that the server used.
    pub busy: f64,
    pub round_trips: u64,
}

/// Imports all files: the responses of each crawl and its commit, then the revisits, which need every original.
pub fn import(server: &Server, folder: &Folder) -> Imported {
    let watch = Watch::start(server);
    let mut client = Client {
        connection: Connection::tcp(server),
        request: Vec::new(),
        round_trips: 0,
    };
    let of_one_crawl = |a: &Entry, b: &Entry| a.crawl == b.crawl;
    for files in folder.entries.chunk_by(of_one_crawl) {
        client.ask(&["SADD", "uncommittedcrawls", &files[0].crawl]);
        for (place, file) in files.iter().enumerate() {
            client.responses(folder, file, place);
        }
        client.commit(&files[0].crawl);
    }
    for file in &folder.entries {
        client.revisits(folder, file);
    }
    for files in folder.entries.chunk_by(of_one_crawl) {
        client.sum(&files[0].crawl);
    }
    let seconds = watch.elapsed().as_secs_f64();
    Imported {
        seconds,
        busy: watch.stop(1, 0).busy,
        round_trips: client.round_trips,
    }
}

/// A line of an index, as far as it matters.
struct Line<'a> {
    is_revisit: bool,
    date: &'a str,
    url: &'a str,
    hash: &'a str,
    size: &'a str,
}

impl<'a> Line<'a> {
    /// `None` for what is neither a response nor a revisit. Not a JSON parser, and so quicker than one.
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

struct Client {
    connection: Connection,
    request: Vec<u8>,
    round_trips: u64,
}

impl Client {
    /// Sends one command and waits for its reply: its texts.
    fn ask_texts(&mut self, words: &[&str]) -> Vec<String> {
        self.request.clear();
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        encode(&mut self.request, &words);
        self.connection.send(&self.request);
        self.round_trips += 1;
        let mut texts = Vec::new();
        self.connection.read(1, |item| {
            if let Item::Bulk(bytes) = item {
                texts.push(String::from_utf8_lossy(bytes).into_owned());
            }
        });
        texts
    }

    fn ask(&mut self, words: &[&str]) {
        self.ask_texts(words);
    }

    fn responses(&mut self, folder: &Folder, file: &Entry, place: usize) {
        let (key, list) = (
            format!("h:{}", file.crawl),
            format!("c:{}:wacz", file.crawl),
        );
        let counts = format!("{key}:counts");
        for_each_line(folder, file, |line| {
            if !line.is_revisit {
                let Line {
                    date,
                    url,
                    hash,
                    size,
                    ..
                } = line;
                let record = format!("{place} {date} {url} {size}");
                self.ask(&["HSETNX", &key, hash, &record]);
                self.ask(&["HINCRBY", &counts, "totalUrls", "1"]);
            }
        });
        let size = file.size.to_string();
        let entry = format!(
            r#"{{"filename":"{}","hash":"{}","size":{size}}}"#,
            file.name, file.hash
        );
        self.ask(&["RPUSH", &list, &entry]);
        self.ask(&["HINCRBY", &counts, "totalCrawlSize", &size]);
    }

    /// The hashes of a crawl become part of the merged index.
    fn commit(&mut self, crawl: &str) {
        let key = format!("h:{crawl}");
        let mut cursor = "0".to_owned();
        loop {
            let mut page = self
                .ask_texts(&["HSCAN", &key, &cursor, "COUNT", "1000"])
                .into_iter();
            cursor = page.next().expect("a cursor");
            for hash in page.step_by(2) {
                self.ask(&["HSETNX", "allhashes", &hash, crawl]);
            }
            if cursor == "0" {
                break;
            }
        }
        self.ask(&["SMOVE", "uncommittedcrawls", "allcrawls", crawl]);
    }

    fn revisits(&mut self, folder: &Folder, file: &Entry) {
        let counts = format!("h:{}:counts", file.crawl);
        let (required, references) = (
            format!("{}:reqCrawls", file.crawl),
            format!("{}:duperefs", file.name),
        );
        for_each_line(folder, file, |line| {
            if !line.is_revisit {
                return;
            }
            let owner = self.ask_texts(&["HGET", "allhashes", line.hash]);
            let owner = owner.first().expect("every original is there");
            let record = self.ask_texts(&["HGET", &format!("h:{owner}"), line.hash]);
            let record = record.first().expect("every owner has the record");
            let number = |text: &str| text.parse::<i64>().expect("a number of bytes");
            let (rest, size) = record
                .rsplit_once(' ')
                .expect("a record ends with its size");
            let (place, _) = rest
                .split_once(' ')
                .expect("a record begins with its place");
            self.ask(&["HINCRBY", &counts, "totalUrls", "1"]);
            self.ask(&["HINCRBY", &counts, "dupeUrls", "1"]);
            let saved = number(size) - number(line.size);
            if saved > 0 {
                self.ask(&["HINCRBY", &counts, "conservedSize", &saved.to_string()]);
            }
            if *owner != file.crawl {
                self.ask(&["SADD", &required, owner]);
                self.ask(&["SADD", &references, &format!("{owner} {place}")]);
            }
        });
    }

    /// The counts of a crawl are added to those of all.
    fn sum(&mut self, crawl: &str) {
        let counts = self.ask_texts(&["HGETALL", &format!("h:{crawl}:counts")]);
        for pair in counts.chunks_exact(2) {
            self.ask(&["HINCRBY", "allcounts", &pair[0], &pair[1]]);
        }
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
