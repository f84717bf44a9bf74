//! The list of WACZ files of a crawl: `c:<crawl>:wacz`, with one JSON object per file.

pub use crawlspace_compact::limits::dedupe::{FILENAME_BYTES, WACZ_HASH_BYTES};
use serde::Deserialize;
use serde::de::{Deserializer, Visitor};

use super::error::Result;
use super::store::Store;

/// A WACZ file of a crawl, or a placeholder without a size until the file is finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaczEntry {
    /// The name of the file. It may contain any bytes.
    pub filename: Vec<u8>,
    /// The hash of a finished file, as the client sent it, if it is known.
    pub hash: Option<Vec<u8>>,
    /// The size of a finished file, in bytes.
    pub size: Option<u64>,
}

/// A JSON string that may contain invalid UTF-8, as file names can.
#[derive(Default)]
struct JsonBytes(Vec<u8>);

impl<'de> Deserialize<'de> for JsonBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = JsonBytes;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a string")
            }
            fn visit_bytes<E>(self, v: &[u8]) -> std::result::Result<JsonBytes, E> {
                Ok(JsonBytes(v.to_vec()))
            }
            fn visit_str<E>(self, v: &str) -> std::result::Result<JsonBytes, E> {
                Ok(JsonBytes(v.as_bytes().to_vec()))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

#[derive(Deserialize)]
struct JsonEntry {
    filename: JsonBytes,
    #[serde(default)]
    hash: Option<JsonBytes>,
    #[serde(default)]
    size: Option<u64>,
}

/// Appends a JSON string. Copies invalid UTF-8 verbatim, so that no bytes are lost.
pub fn write_json_string(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &b in bytes {
        match b {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', b]),
            0..=0x1f => out.extend_from_slice(format!("\\u{b:04x}").as_bytes()),
            _ => out.push(b),
        }
    }
    out.push(b'"');
}

impl WaczEntry {
    /// Parses a list element. Returns `None` if it is not such a JSON object.
    pub fn parse(json: &[u8]) -> Option<WaczEntry> {
        let entry: JsonEntry = serde_json::from_slice(json).ok()?;
        Some(WaczEntry {
            filename: entry.filename.0,
            hash: entry.hash.map(|hash| hash.0),
            size: entry.size,
        })
    }

    /// Returns the documented form of the list element.
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = b"{".to_vec();
        self.write_members(&mut out);
        out.push(b'}');
        out
    }

    /// Appends the members of the JSON object, without its braces.
    pub fn write_members(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\"filename\":");
        write_json_string(&self.filename, out);
        if let Some(hash) = &self.hash {
            out.extend_from_slice(b",\"hash\":");
            write_json_string(hash, out);
        }
        if let Some(size) = self.size {
            out.extend_from_slice(format!(",\"size\":{size}").as_bytes());
        }
    }

    /// Returns true if the file is finished. The hash of a finished file may be unknown.
    pub fn is_closed(&self) -> bool {
        self.size.is_some()
    }
}

/// Returns list element `i` of a crawl's files.
pub(super) fn file<K: Store>(ks: &mut K, waczs: &K::Name, i: u64) -> Result<Option<WaczEntry>> {
    let entry = ks.list_get(waczs, i)?;
    Ok(entry.and_then(|json| WaczEntry::parse(json.as_ref())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn entries_match_the_documentation() {
        let mut entry = WaczEntry {
            filename: b"crawl-0.wacz".to_vec(),
            hash: None,
            size: None,
        };
        assert_eq!(entry.to_json(), br#"{"filename":"crawl-0.wacz"}"#);
        entry.hash = Some(b"sha256:ab".to_vec());
        entry.size = Some(7);
        assert_eq!(
            entry.to_json(),
            br#"{"filename":"crawl-0.wacz","hash":"sha256:ab","size":7}"#
        );
    }

    proptest! {
        #[test]
        fn any_name_reads_back(filename in proptest::collection::vec(any::<u8>(), 0..60), closed in any::<bool>(), size in any::<u32>()) {
            let entry = WaczEntry { filename, hash: closed.then(|| b"sha256:\"x\"".to_vec()), size: closed.then_some(u64::from(size)) };
            prop_assert_eq!(WaczEntry::parse(&entry.to_json()), Some(entry));
        }

        #[test]
        fn parsing_never_panics(json in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = WaczEntry::parse(&json);
        }
    }
}
