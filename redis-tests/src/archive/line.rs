//! Lines of the index of a WACZ file.

use std::fmt::Write as _;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::capture::{Capture, Kind};

/// The layout of the index of a WACZ file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `indexes/index.cdxj`.
    Cdxj,
    /// `indexes/index.cdxj.gz`, one gzip member.
    CdxjGzip,
    /// `indexes/index.cdx.gz` with several lines per gzip member, and `indexes/index.idx`.
    ZipNum,
    /// `indexes/index.cdx` with eleven columns.
    Cdx,
    /// Two indexes. Each of the two files contains every second line.
    Two,
}

impl Layout {
    /// All layouts.
    pub const ALL: [Layout; 5] = [
        Layout::Cdxj,
        Layout::CdxjGzip,
        Layout::ZipNum,
        Layout::Cdx,
        Layout::Two,
    ];

    /// Returns the names and contents of the WACZ members with the index of these records.
    pub fn members(self, captures: &[&Capture]) -> Vec<(&'static str, Vec<u8>)> {
        let text = |captures: &[&Capture]| sorted(captures.iter().map(|c| cdxj(c)));
        match self {
            Layout::Cdxj => vec![("indexes/index.cdxj", text(captures).concat().into())],
            Layout::CdxjGzip => {
                let packed = gzip(text(captures).concat().as_bytes());
                vec![("indexes/index.cdxj.gz", packed)]
            }
            Layout::ZipNum => zip_num(&text(captures)),
            Layout::Cdx => {
                let lines = sorted(captures.iter().map(|c| cdx(c))).concat();
                let text = format!(" CDX N b a m s k r M S V g\n{lines}");
                vec![("indexes/index.cdx", text.into())]
            }
            Layout::Two => {
                let half = |odd| captures.iter().skip(odd).step_by(2).copied();
                let halves = [0, 1].map(|odd| text(&half(odd).collect::<Vec<_>>()).concat());
                let [one, other] = halves;
                vec![
                    ("indexes/a.cdxj", one.into()),
                    ("indexes/b.cdx.gz", gzip(other.as_bytes())),
                ]
            }
        }
    }
}

fn sorted(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = lines.collect();
    lines.sort_unstable();
    lines
}

/// Compresses bytes as one gzip member.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    let written = packed.write_all(bytes).and_then(|()| packed.finish());
    written.expect("writing to memory cannot fail")
}

/// Builds a ZipNum index: blocks that can be decompressed independently, and the list of blocks.
fn zip_num(lines: &[String]) -> Vec<(&'static str, Vec<u8>)> {
    const LINES: usize = 100;
    let mut index =
        "!meta 0 {\"format\": \"cdxj-gzip-1.0\", \"filename\": \"index.cdx.gz\"}\n".to_owned();
    let mut packed = Vec::new();
    for some in lines.chunks(LINES) {
        let member = gzip(some.concat().as_bytes());
        let key = some[0].split(" {").next().unwrap_or_default();
        let (from, bytes) = (packed.len(), member.len());
        let _ = writeln!(
            index,
            "{key} {{\"offset\": {from}, \"length\": {bytes}, \"filename\": \"index.cdx.gz\"}}"
        );
        packed.extend(member);
    }
    vec![
        ("indexes/index.cdx.gz", packed),
        ("indexes/index.idx", index.into()),
    ]
}

fn mime(kind: Kind) -> &'static str {
    match kind {
        Kind::Response => "text/html",
        Kind::Revisit => "warc/revisit",
        Kind::Other => "text/plain",
    }
}

/// Formats a CDXJ line. All records have a digest and a length, even if they are neither responses
/// nor revisits.
fn cdxj(capture: &Capture) -> String {
    let (key, date) = (urlkey(&capture.url), &capture.date);
    let (url, mime) = (json_text(&capture.url), mime(capture.kind));
    let (digest, size) = (capture.hash_in_index(), capture.size);
    // Some indexes write numbers as strings.
    let quote = if capture.payload % 3 == 1 { "" } else { "\"" };
    let more = match capture.payload % 7 {
        6 => ", \"method\": \"POST\", \"requestBody\": \"a=\\u00e9\"",
        _ => "",
    };
    format!(
        "{key} {date} {{\"url\": {url}, \"mime\": \"{mime}\", \"status\": {quote}200{quote}, \"digest\": \"{digest}\", \
         \"length\": {quote}{size}{quote}, \"offset\": {quote}{}{quote}, \"filename\": \"data.warc.gz\"{more}}}\n",
        capture.payload * 1000
    )
}

/// Formats a CDX line. Spaces in URLs are encoded, because they separate columns.
fn cdx(capture: &Capture) -> String {
    let (key, date) = (urlkey(&capture.url), &capture.date);
    let (url, mime) = (&capture.url, mime(capture.kind));
    assert!(!url.contains(' '), "{url} does not fit into a column");
    let (digest, size) = (capture.hash_in_index(), capture.size);
    format!("{key} {date} {url} {mime} 200 {digest} - - {size} 0 data.warc.gz\n")
}

/// Returns the reversed host and the path, which is sufficient for sorting.
fn urlkey(url: &str) -> String {
    let url = url.to_lowercase().replace(' ', "%20");
    let Some((_, rest)) = url.split_once("://") else {
        return url;
    };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut labels: Vec<&str> = host.trim_start_matches("www.").split('.').collect();
    labels.reverse();
    format!("{})/{path}", labels.join(","))
}

/// Formats a JSON string. Escapes every second non-ASCII character, as some writers do.
pub fn json_text(text: &str) -> String {
    let mut json = String::from("\"");
    for (n, character) in text.chars().enumerate() {
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            '\0'..='\x1f' => _ = write!(json, "\\u{:04x}", u32::from(character)),
            ' '..='~' => json.push(character),
            _ if n % 2 == 0 => json.push(character),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let _ = write!(json, "\\u{unit:04x}");
                }
            }
        }
    }
    json.push('"');
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_fields_that_indexers_write() {
        let capture = Capture {
            kind: Kind::Revisit,
            payload: 2,
            date: "20240101010000".into(),
            url: "https://www.example.org/a b".into(),
            size: 523,
            wacz: 0,
            spellings: [0, 0],
        };
        let digest = crate::sha256_of(2);
        assert_eq!(
            cdxj(&capture),
            format!(
                "org,example)/a%20b 20240101010000 {{\"url\": \"https://www.example.org/a b\", \"mime\": \"warc/revisit\", \
                 \"status\": \"200\", \"digest\": \"{digest}\", \"length\": \"523\", \"offset\": \"2000\", \
                 \"filename\": \"data.warc.gz\"}}\n"
            )
        );
    }

    #[test]
    fn text_beyond_ascii_is_escaped_now_and_then() {
        assert_eq!(json_text("é\"\\\n🦀"), r#""é\"\\\u000a🦀""#);
        assert_eq!(json_text("aé 🦀"), r#""a\u00e9 \ud83e\udd80""#);
    }
}
