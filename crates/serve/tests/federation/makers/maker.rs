//! Index files and packages in the formats of the programs that create them.

use std::fmt::Write as _;
use std::io::{Cursor, Write as _};

use flate2::{Compression, write::GzEncoder};
use serde_json::json;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// A capture with the values that indexers write.
#[derive(Clone, Debug, Default)]
pub struct Row {
    pub url: String,
    /// Keys written by warcio.js and by the Python package surt.
    pub keys: [String; 2],
    /// Urlkey of the row in Crawlspace.
    pub urlkey: String,
    /// Timestamp of 14 digits.
    pub time: String,
    pub mime: String,
    /// SHA-1 of the payload in base 32.
    pub digest: String,
    pub file: String,
    pub offset: u64,
    pub length: u64,
    pub method: String,
    /// Field `requestBody` as written by warcio.js and by cdxj-indexer.
    pub bodies: [String; 2],
}

/// Family of indexers that write keys in the same form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Js = 0,
    Python = 1,
}

/// Condition under which a maker compresses the index and adds a secondary index.
#[derive(Clone, Copy, Debug)]
pub enum Packs {
    Always,
    /// From this number of lines on.
    Lines(usize),
    /// From this number of bytes on.
    Bytes(usize),
}

/// The line of a block whose key and timestamp are in the secondary index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefix {
    First,
    /// First line of the block, without its timestamp.
    FirstKey,
    /// Second line of the block, or the first line in the first block.
    Second,
}

/// Format in which a release of a program is published.
#[derive(Clone, Copy, Debug)]
pub struct Maker {
    pub name: &'static str,
    pub family: Family,
    /// Name of an uncompressed index.
    pub plain: &'static str,
    pub packs: Packs,
    /// Number of lines in a block.
    pub block: usize,
    pub prefix: Prefix,
    /// Repeats the last line of a block as the first one of the next block.
    pub repeats: bool,
    /// Adds an empty block with the same prefix after a full last block.
    pub ends_empty: bool,
    /// Writes a `!meta` header at the start of the secondary index.
    pub header: bool,
    /// Set if lines of the secondary index name the file.
    pub names_file: bool,
    /// Writes timestamps with 17 digits, and numbers in JSON.
    pub precise: bool,
    /// Stores the secondary index deflated in the package.
    pub deflates: bool,
    /// Writes the index to a folder instead of a package.
    pub loose: bool,
}

const WACZ: Maker = Maker {
    name: "wacz 0.6.0",
    family: Family::Python,
    plain: "",
    packs: Packs::Always,
    block: 1024,
    prefix: Prefix::First,
    repeats: false,
    ends_empty: true,
    header: true,
    names_file: false,
    precise: false,
    deflates: true,
    loose: false,
};
const BROWSERTRIX: Maker = Maker {
    name: "Browsertrix Crawler 1.14",
    family: Family::Js,
    plain: "index.cdxj",
    packs: Packs::Bytes(50_000),
    block: 256,
    ends_empty: false,
    names_file: true,
    deflates: false,
    ..WACZ
};

pub const MAKERS: [Maker; 6] = [
    WACZ,
    Maker {
        name: "cdxj-indexer 1.5.0 -c",
        block: 300,
        loose: true,
        ..WACZ
    },
    Maker {
        name: "js-wacz 0.1.6",
        plain: "index.cdx",
        packs: Packs::Lines(3000),
        block: 3000,
        prefix: Prefix::FirstKey,
        repeats: true,
        ..BROWSERTRIX
    },
    Maker {
        name: "ArchiveWeb.page 0.16.0",
        plain: "index.cdx",
        packs: Packs::Lines(2048),
        block: 1024,
        header: false,
        precise: true,
        ..BROWSERTRIX
    },
    Maker {
        name: "Browsertrix Crawler 1.3.0 to 1.13",
        block: 255,
        prefix: Prefix::Second,
        ..BROWSERTRIX
    },
    BROWSERTRIX,
];

impl Maker {
    /// Returns the name in letters, digits and dashes.
    pub fn slug(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        self.name.to_lowercase().chars().map(plain).collect()
    }

    /// Returns the lines of an index, in the maker's order.
    pub fn lines(&self, rows: &[Row]) -> Vec<String> {
        let mut lines: Vec<String> = rows.iter().map(|row| self.line(row)).collect();
        lines.sort_unstable();
        lines.dedup();
        lines
    }

    fn line(&self, row: &Row) -> String {
        let family = self.family as usize;
        let (key, body) = (&row.keys[family], &row.bodies[family]);
        let number = |n: u64| {
            if self.precise {
                json!(n)
            } else {
                json!(n.to_string())
            }
        };
        let mut members = vec![
            ("url", json!(row.url)),
            ("mime", json!(row.mime)),
            ("status", number(200)),
        ];
        let digest = match (self.family, self.precise) {
            (Family::Js, false) => row.digest.clone(),
            _ => format!("sha1:{}", row.digest),
        };
        if !digest.is_empty() {
            members.push(("digest", json!(digest)));
        }
        members.push(("length", number(row.length)));
        members.push(("offset", number(row.offset)));
        members.push(("filename", json!(row.file)));
        if !row.method.is_empty() {
            // cdxj-indexer keeps an empty body, and warcio omits it.
            if self.family == Family::Python || !body.is_empty() {
                members.push(("requestBody", json!(body)));
            }
            members.push(("method", json!(row.method)));
        }
        let blank = if self.family == Family::Python {
            " "
        } else {
            ""
        };
        let members: Vec<String> = members
            .iter()
            .map(|(name, value)| format!("\"{name}\":{blank}{value}"))
            .collect();
        let digits = if self.precise { "123" } else { "" };
        let members = members.join(&format!(",{blank}"));
        format!("{key} {}{digits} {{{members}}}", row.time)
    }

    /// Returns the files of an index, with their names.
    pub fn index(&self, lines: &[String], stem: &str) -> Vec<(String, Vec<u8>)> {
        let text: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
        let is_packed = match self.packs {
            Packs::Always => true,
            Packs::Lines(least) => lines.len() >= least,
            Packs::Bytes(least) => text.len() >= least,
        };
        if !is_packed {
            return vec![(self.plain.to_owned(), text.into_bytes())];
        }
        let end = if self.loose { "cdxj.gz" } else { "cdx.gz" };
        let name = format!("{stem}.{end}");
        let mut idx = String::new();
        if self.header {
            let blank = if self.names_file { "" } else { " " };
            // cdxj-indexer writes the path from its command line.
            let shown = if self.loose {
                format!("elsewhere/{name}")
            } else {
                name.clone()
            };
            let _ = writeln!(
                idx,
                "!meta 0 {{\"format\":{blank}\"cdxj-gzip-1.0\",{blank}\"filename\":{blank}\"{shown}\"}}"
            );
        }
        let (mut packed, mut at, mut prefix) = (Vec::new(), 0, String::new());
        while at < lines.len() {
            let mut end = (at + self.block).min(lines.len());
            if self.repeats && end < lines.len() {
                end += 1;
            }
            let block = &lines[at..end];
            let line = match self.prefix {
                Prefix::Second if at > 0 && block.len() > 1 => &block[1],
                _ => &block[0],
            };
            let mut words = line.splitn(3, ' ');
            let (key, time) = (words.next().unwrap(), words.next().unwrap());
            prefix = match self.prefix {
                Prefix::FirstKey => key.to_owned(),
                _ => format!("{key} {time}"),
            };
            let text: String = block.iter().flat_map(|line| [line, "\n"]).collect();
            self.block(
                &prefix,
                &gzip(text.as_bytes()),
                &name,
                &mut packed,
                &mut idx,
            );
            at = if self.repeats && end < lines.len() {
                end - 1
            } else {
                end
            };
        }
        if self.ends_empty && lines.len().is_multiple_of(self.block) {
            self.block(&prefix, &gzip(b""), &name, &mut packed, &mut idx);
        }
        if self.precise {
            assert_eq!(idx.pop(), Some('\n'));
        }
        vec![(name, packed), (format!("{stem}.idx"), idx.into_bytes())]
    }

    /// Adds a block and its line in the secondary index.
    fn block(
        &self,
        prefix: &str,
        member: &[u8],
        name: &str,
        packed: &mut Vec<u8>,
        idx: &mut String,
    ) {
        let (offset, length) = (packed.len(), member.len());
        // Digests of blocks are ignored.
        let digest = format!("{offset:064}");
        let about = if self.names_file {
            format!(
                "\"offset\":{offset},\"length\":{length},\"digest\":\"sha256:{digest}\",\"filename\":\"{name}\""
            )
        } else {
            format!("\"offset\": {offset}, \"length\": {length}, \"digest\": \"sha256:{digest}\"")
        };
        let _ = writeln!(idx, "{prefix} {{{about}}}");
        packed.extend_from_slice(member);
    }

    /// Creates a package of WARC files and their index.
    pub fn package(&self, rows: &[Row], warcs: &[(&str, &[u8])]) -> Vec<u8> {
        assert!(!self.loose, "{} makes no packages", self.name);
        let mut members: Vec<(String, Vec<u8>)> = Vec::new();
        for (name, bytes) in warcs {
            members.push((format!("archive/{name}"), bytes.to_vec()));
        }
        for (name, bytes) in self.index(&self.lines(rows), "index") {
            members.push((format!("indexes/{name}"), bytes));
        }
        let resources: Vec<_> = members
            .iter()
            .map(|(path, bytes)| {
                let name = path.rsplit('/').next();
                json!({"name": name, "path": path, "bytes": bytes.len()})
            })
            .collect();
        let about = json!({"wacz_version": "1.1.1", "software": self.name, "resources": resources});
        members.push((
            "datapackage.json".to_owned(),
            about.to_string().into_bytes(),
        ));
        let mut package = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, bytes) in members {
            let method = if name.ends_with(".idx") && self.deflates {
                CompressionMethod::Deflated
            } else {
                CompressionMethod::Stored
            };
            let options = SimpleFileOptions::default().compression_method(method);
            package.start_file(name, options).unwrap();
            package.write_all(&bytes).unwrap();
        }
        package.finish().unwrap().into_inner()
    }
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(text).unwrap();
    packed.finish().unwrap()
}
