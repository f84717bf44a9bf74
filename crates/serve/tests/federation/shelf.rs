//! WARC files with an index, created record by record.

use std::fmt::Write as _;
use std::path::Path;

use crawlspace_warc::{Compression, Writer};
use redis_tests::archive::collection::sha1_base32;
use redis_tests::rows;
use tempfile::TempDir;

use crate::serving::Stage;

/// A folder with `warcs/`, and the lines of an index.
pub struct Shelf {
    pub dir: TempDir,
    pub index: String,
}

/// Location of a record.
#[derive(Clone, Debug)]
pub struct Slot {
    pub file: String,
    pub offset: u64,
    pub length: u64,
}

pub const HTTP: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n";

impl Shelf {
    pub fn new() -> Shelf {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("warcs")).unwrap();
        Shelf {
            dir,
            index: String::new(),
        }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Appends a record with these fields to a file.
    pub fn record(&self, file: &str, fields: &[(&str, &str)], block: &[u8]) -> Slot {
        let path = self.path().join("warcs").join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut bytes = std::fs::read(&path).unwrap_or_default();
        let offset = bytes.len() as u64;
        let fields = fields.iter().map(|(name, value)| (*name, value.as_bytes()));
        let fields: Vec<_> = fields.collect();
        let compression = if file.ends_with(".gz") {
            Compression::PerRecord
        } else {
            Compression::None
        };
        let length = Writer::new(&mut bytes, compression).write(&fields, block);
        let length = length.unwrap();
        std::fs::write(path, bytes).unwrap();
        let file = file.to_owned();
        Slot {
            file,
            offset,
            length,
        }
    }

    /// Appends a response with this payload.
    pub fn response(&self, file: &str, url: &str, timestamp: &str, payload: &[u8]) -> Slot {
        let block = [HTTP.as_bytes(), payload].concat();
        let digest = format!("sha1:{}", sha1_base32(payload));
        let fields = rows![
            "WARC-Type", "response";
            "WARC-Record-ID", &format!("<urn:uuid:{}>", sha1_base32(url.as_bytes()));
            "WARC-Date", &iso(timestamp);
            "WARC-Target-URI", url;
            "WARC-Payload-Digest", &digest;
            "Content-Type", "application/http; msgtype=response";
        ];
        self.record(file, &fields, &block)
    }

    /// Adds a line to the index, with further JSON members.
    pub fn line(&mut self, url: &str, timestamp: &str, slot: &Slot, more: &str) {
        let key = crawlspace_cdx::surt::urlkey(url).unwrap();
        let Slot {
            file,
            offset,
            length,
        } = slot;
        let file = serde_json::Value::from(file.as_str());
        writeln!(
            self.index,
            "{key} {timestamp} {{\"url\": \"{url}\", \"filename\": {file}, \"offset\": \"{offset}\", \
             \"length\": \"{length}\"{more}}}"
        )
        .unwrap();
    }

    /// Appends a response and its index line.
    pub fn capture(&mut self, file: &str, url: &str, timestamp: &str, payload: &[u8]) -> Slot {
        let slot = self.response(file, url, timestamp, payload);
        let digest = sha1_base32(payload);
        let more = format!(", \"digest\": \"{digest}\", \"mime\": \"text/plain\"");
        self.line(url, timestamp, &slot, &more);
        slot
    }

    /// Writes the sorted index and clears its lines. Returns its path.
    pub fn write_index(&mut self, name: &str) -> String {
        let mut lines: Vec<&str> = self.index.lines().collect();
        lines.sort_unstable();
        let path = self.path().join(name);
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        self.index.clear();
        path.display().to_string()
    }

    /// Starts a server with the contents as the collection `c`.
    pub fn serve(&mut self) -> Stage {
        let (index, warcs) = (self.write_index("index.cdxj"), self.warcs());
        Stage::start(&format!(
            "collections: {{c: {{index: {index}, resource: {warcs}}}}}\n"
        ))
    }

    /// Returns the path of the folder of WARC files.
    pub fn warcs(&self) -> String {
        self.path().join("warcs").display().to_string()
    }
}

pub fn iso(timestamp: &str) -> String {
    let part = |from: usize| &timestamp[from..from + 2];
    let date = format!("{}-{}-{}", &timestamp[..4], part(4), part(6));
    format!("{date}T{}:{}:{}Z", part(8), part(10), part(12))
}
