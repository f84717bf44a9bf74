//! Lines, and their fields as the module must read them.

use std::collections::{BTreeMap, BTreeSet};

use redis_tests::{Rng, rows};

use crate::model::pattern::Bytes;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Format {
    Auto,
    Cdx,
    Cdxj,
    Record,
    File,
}

impl Format {
    pub fn word(self) -> &'static str {
        ["AUTO", "CDX", "CDXJ", "RECORD", "FILE"][self as usize]
    }
}

/// A line of a batch. The model stores the JSON fields of the line and does not parse them.
#[derive(Clone, Debug)]
pub struct Line {
    pub text: Bytes,
    pub json: Option<Vec<(&'static str, String)>>,
}

/// The fields of a line.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    pub line: Bytes,
    pub fields: BTreeMap<&'static str, Bytes>,
    pub is_json: bool,
    /// The id for record tags, if the line has one.
    pub record: Option<Bytes>,
}

pub const STANDARD: [&str; 11] = rows![
    "urlkey"; "timestamp"; "url"; "mime"; "status"; "digest"; "redirect"; "robotflags"; "length"; "offset";
    "filename";
];

/// Returns the name of the field for an alias.
pub fn canonical(name: &str) -> &str {
    match name {
        "original" => "url",
        "mimetype" => "mime",
        "statuscode" => "status",
        "redirecturl" => "redirect",
        other => other,
    }
}

impl Capture {
    /// Returns the value of a field. Returns `None` if lines of this kind have no such field.
    pub fn get(&self, name: &str) -> Option<Bytes> {
        let name = canonical(name);
        if let Some(value) = self.fields.get(name) {
            return Some(value.clone());
        }
        if self.is_json {
            return Some(Vec::new());
        }
        STANDARD.contains(&name).then(|| b"-".to_vec())
    }

    pub fn filename(&self) -> Option<&Bytes> {
        self.fields.get("filename")
    }
}

/// The result of reading a line.
pub enum Read {
    Skipped,
    Bad,
    Good(Capture),
}

pub fn read(line: &Line, format: Format) -> Read {
    let text = &line.text;
    if text.is_empty() || text.starts_with(b" CDX") {
        return Read::Skipped;
    }
    let columns: Vec<&[u8]> = text.split(|b| *b == b' ').collect();
    let json = line
        .json
        .as_ref()
        .filter(|_| matches!(format, Format::Auto | Format::Cdxj));
    let mut capture = Capture {
        line: text.clone(),
        ..Capture::default()
    };
    let names: &[&'static str] = match (format, json, columns.len()) {
        (Format::File, ..) => &["filename"],
        (Format::Record, _, 4) => &["urlkey", "timestamp", "filename", "offset"],
        (_, Some(fields), _) => {
            capture.is_json = true;
            for (name, value) in fields {
                capture.fields.insert(name, value.clone().into_bytes());
            }
            &["urlkey", "timestamp"]
        }
        (Format::Record | Format::Cdxj, ..) => return Read::Bad,
        (_, _, 7) => &rows![
            "urlkey"; "timestamp"; "url"; "mime"; "status"; "digest"; "length";
        ],
        (_, _, 9 | 12) => &rows![
            "urlkey"; "timestamp"; "url"; "mime"; "status"; "digest"; "redirect"; "offset"; "filename";
        ],
        (_, _, 10 | 13) => &rows![
            "urlkey"; "timestamp"; "url"; "mime"; "status"; "digest"; "redirect"; "robotflags"; "offset";
            "filename";
        ],
        (_, _, 11 | 14) => &STANDARD,
        _ => return Read::Bad,
    };
    let columns = match format {
        Format::File => vec![&text[..]],
        _ => columns,
    };
    if format != Format::File {
        let date = columns[1];
        let empty = columns.iter().any(|column| column.is_empty());
        if date.is_empty() || !date.iter().all(u8::is_ascii_digit) || (empty && !capture.is_json) {
            return Read::Bad;
        }
    }
    for (name, column) in names.iter().zip(columns) {
        capture.fields.insert(name, column.to_vec());
    }
    if format != Format::File {
        let id = ["urlkey", "timestamp", "filename", "offset"].map(|name| {
            let field = capture.fields.get(name);
            field.map_or(&b"-"[..], |field| field)
        });
        capture.record = Some(id.join(&b' '));
    }
    Read::Good(capture)
}

pub const FILES: [&str; 9] = [
    "a$1", "a", "b", "x/a", "x/b", "c-1", "y/c-2", "x/y/c-12", "k",
];
pub const KEYS: [&str; 2] = ["k1", "k,2)/"];
pub const DATES: [&str; 3] = ["2019", "2020", "20200102"];
pub const OFFSETS: [&str; 3] = ["0", "1", "23"];
pub const STATUSES: [&str; 4] = ["200", "204", "404", "-"];
pub const VALUES: [&str; 16] = [
    "a", "b", "x/a", "x/", "c-1", "c-", "k1", "2020", "20", "200", "404", "-", "1", "", "text",
    "(a|b)",
];

/// Returns the column of a standard line for a field name.
fn column(rng: &mut Rng, name: &str) -> &'static str {
    match name {
        "urlkey" => *rng.pick(&KEYS),
        "timestamp" => *rng.pick(&DATES),
        "url" => *rng.pick(&["http://a/", "http://b/c-1"]),
        "mime" => *rng.pick(&["text/html", "text/css", "-"]),
        "status" => *rng.pick(&STATUSES),
        "digest" => *rng.pick(&["D1", "D2", "D2"]),
        "offset" => *rng.pick(&OFFSETS),
        "length" => *rng.pick(&["7", "12"]),
        "filename" => *rng.pick(&FILES),
        _ => *rng.pick(&["-", "z"]),
    }
}

pub fn record_id(rng: &mut Rng) -> String {
    let file = if rng.chance(10) {
        "-"
    } else {
        *rng.pick(&FILES)
    };
    let offset = if rng.chance(10) {
        "-"
    } else {
        *rng.pick(&OFFSETS)
    };
    format!("{} {} {file} {offset}", *rng.pick(&KEYS), *rng.pick(&DATES))
}

fn cdx(rng: &mut Rng) -> String {
    let first = "urlkey timestamp url mime status digest";
    let rest = *rng.pick(&[
        "length",
        "redirect offset filename",
        "redirect robotflags offset filename",
        "redirect robotflags length offset filename",
    ]);
    let mut columns: Vec<&str> = first
        .split(' ')
        .chain(rest.split(' '))
        .map(|name| column(rng, name))
        .collect();
    if rest != "length" && rng.chance(30) {
        columns.extend(["88", "99", "original-file"]);
    }
    columns.join(" ")
}

fn cdxj(rng: &mut Rng) -> Line {
    let mut fields: Vec<(&'static str, String)> = Vec::new();
    let mut json = Vec::new();
    for _ in 0..rng.below(5) {
        let name = *rng.pick(&[
            "url", "mime", "status", "digest", "offset", "filename", "filename", "colour", "coll",
        ]);
        if fields.iter().any(|(n, _)| *n == name) {
            continue;
        }
        let value = match name {
            "colour" | "coll" => *rng.pick(&["red", "1", "a b", "\u{fc}"]),
            name => column(rng, name),
        };
        let number =
            value.bytes().all(|b| b.is_ascii_digit()) && (value == "0" || !value.starts_with('0'));
        let written = if number && rng.chance(50) {
            value.to_owned()
        } else {
            format!(
                "\"{}\"",
                value
                    .replace('/', *rng.pick(&["/", "\\/"]))
                    .replace('\u{fc}', *rng.pick(&["\u{fc}", "\\u00fc"]))
            )
        };
        json.push(format!("\"{name}\":{written}"));
        fields.push((name, value.to_owned()));
    }
    let text = format!(
        "{} {} {{{}}}",
        *rng.pick(&KEYS),
        *rng.pick(&DATES),
        json.join(",")
    );
    Line {
        text: text.into_bytes(),
        json: Some(fields),
    }
}

/// Returns a random line, in most cases of this format.
pub fn random_line(rng: &mut Rng, format: Format, bad: u64) -> Line {
    let plain = |text: &str| Line {
        text: text.as_bytes().to_vec(),
        json: None,
    };
    if rng.chance(bad) {
        let bad = rows![
            "k 2020"; "k"; "k 2020 u"; "k x u m 200 d 7"; "k  u m 200 d 7"; "k 2020 {\"a\":"; "k 2020 {}}";
            "k x {}"; "k 2020 u m 200 d 7 8"; " k 2020 u";
        ];
        return plain(*rng.pick(&bad));
    }
    if rng.chance(6) {
        return plain(*rng.pick(&["", " CDX N b a", " CDX A b"]));
    }
    match format {
        Format::Auto if rng.chance(40) => cdxj(rng),
        Format::Auto | Format::Cdx => plain(&cdx(rng)),
        Format::Cdxj => cdxj(rng),
        Format::Record => plain(&record_id(rng)),
        Format::File => plain(*rng.pick(&FILES)),
    }
}

pub type Tags = BTreeSet<Bytes>;
