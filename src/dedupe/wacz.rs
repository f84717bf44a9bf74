//! The list of WACZ files of a crawl: `c:<crawl>:wacz`, one JSON object each.

use serde::Deserialize;
use serde::de::{Deserializer, Visitor};

use crawlspace_host::text::Shown;

use super::begin::start;
use super::counts;
use super::error::{Error, Result};
use super::index::Index;
use super::keys::CrawlKey;
use super::store::Store;

/// Maximum length of a file name, in bytes.
pub const FILENAME_BYTES: usize = 4096;
/// Maximum length of a hash of a WACZ file, in bytes.
pub const WACZ_HASH_BYTES: usize = 256;

/// One WACZ file of a crawl; a placeholder without size until it is finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaczEntry {
    /// The file's name, any bytes.
    pub filename: Vec<u8>,
    /// Its hash as given, for a finished file, where it is known.
    pub hash: Option<Vec<u8>>,
    /// Its size in bytes, for a finished file.
    pub size: Option<u64>,
}

/// A JSON string that may hold bytes that are not UTF-8: file names can.
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

/// Appends a JSON string. Bytes that are not UTF-8 go in as they are, so that nothing is lost.
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
    /// Reads a list element; `None` when it is not such a JSON object.
    pub fn parse(json: &[u8]) -> Option<WaczEntry> {
        let entry: JsonEntry = serde_json::from_slice(json).ok()?;
        Some(WaczEntry {
            filename: entry.filename.0,
            hash: entry.hash.map(|hash| hash.0),
            size: entry.size,
        })
    }

    /// The list element as the documents write it.
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = b"{".to_vec();
        self.write_members(&mut out);
        out.push(b'}');
        out
    }

    /// The members of the JSON object, without its braces.
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

    /// Whether the file is finished. Its hash need not be known.
    pub fn is_closed(&self) -> bool {
        self.size.is_some()
    }
}

/// What is known of a WACZ file once it is finished.
#[derive(Clone, Copy, Debug)]
pub struct Finished<'a> {
    /// The name that it was opened with, or with `renames` another one.
    pub filename: &'a [u8],
    /// Its hash; empty when nobody knows it.
    pub hash: &'a [u8],
    /// Its size in bytes.
    pub size: u64,
    /// Whether the placeholder may have another name.
    pub renames: bool,
}

impl<K: Store> Index<K> {
    /// Puts a placeholder for a WACZ file into the crawl's list, or finds the one that is there;
    /// its index.
    ///
    /// # Errors
    /// `REMOVING` while the crawl is being removed. `WRONGTYPE` when a key holds another type; or when the server refuses.
    pub fn wacz_open(&mut self, ks: &mut K, crawl: &[u8], filename: &[u8]) -> Result<u64> {
        self.under_way.refuse_while_removing(ks, crawl)?;
        let waczs = self.crawls.key(ks, crawl, CrawlKey::Waczs);
        let len = ks.list_len(&waczs)?;
        for i in (0..len).rev() {
            let same = ks
                .list_get(&waczs, i)?
                .and_then(|entry| WaczEntry::parse(entry.as_ref()))
                .is_some_and(|entry| entry.filename == filename);
            if same {
                return Ok(i);
            }
        }
        start(self, ks, crawl)?;
        let placeholder = WaczEntry {
            filename: filename.to_vec(),
            hash: None,
            size: None,
        };
        Ok(ks.list_push(&waczs, &placeholder.to_json())? - 1)
    }

    /// Fills in the hash and size of a finished WACZ file and counts its size once; a repeated
    /// close with another size counts the difference.
    ///
    /// # Errors
    /// `NOCRAWL`, and `ERR` when the list has no such entry or another file there. A file that may be
    /// renamed takes the place of a placeholder, not of another finished file.
    pub fn wacz_close(
        &mut self,
        ks: &mut K,
        crawl: &[u8],
        i: u64,
        file: Finished<'_>,
    ) -> Result<()> {
        let Finished {
            filename,
            hash,
            size,
            renames,
        } = file;
        if self.crawls.state(ks, crawl)?.is_none() {
            return Err(Error::NoCrawl(crawl.to_vec()));
        }
        let waczs = self.crawls.key(ks, crawl, CrawlKey::Waczs);
        let len = ks.list_len(&waczs)?;
        let Some(stored) = ks.list_get(&waczs, i)? else {
            return Err(Error::Argument(format!(
                "index {i} is not in the WACZ list of crawl '{}', which has {len} entries; DEDUPE.WACZOPEN makes one",
                Shown(crawl)
            )));
        };
        let old = WaczEntry::parse(stored.as_ref());
        let old_size = old.as_ref().and_then(|entry| entry.size).unwrap_or(0);
        if let Some(old) = old.as_ref().filter(|old| old.filename != filename) {
            let rule = match renames {
                true if !old.is_closed() => None,
                true => Some("closed with; a finished file cannot be renamed"),
                false => Some("opened with; RENAME gives it another name"),
            };
            if let Some(rule) = rule {
                return Err(Error::Argument(format!(
                    "filename '{}' is not '{}', which entry {i} was {rule}",
                    Shown(filename),
                    Shown(&old.filename)
                )));
            }
        }
        let closed = WaczEntry {
            filename: filename.to_vec(),
            hash: (!hash.is_empty()).then(|| hash.to_vec()),
            size: Some(size),
        };
        if old.as_ref() == Some(&closed) {
            return Ok(());
        }
        let counts_key = self.crawls.key(ks, crawl, CrawlKey::Counts);
        counts::read(ks, &counts_key, counts::TOTAL_CRAWL_SIZE)?;
        start(self, ks, crawl)?;
        self.save_for_undo(
            ks,
            crawl,
            &[b"wacz.", i.to_string().as_bytes()].concat(),
            stored.as_ref(),
        )?;
        ks.list_set(&waczs, i, &closed.to_json())?;
        counts::add(
            ks,
            &counts_key,
            counts::TOTAL_CRAWL_SIZE,
            size as i64 - old_size as i64,
        )
    }

    /// The WACZ files of a crawl in order; elements that are not JSON objects of this kind are
    /// given with their raw text as the name.
    pub(super) fn wacz_list(&mut self, ks: &mut K, crawl: &[u8]) -> Result<Vec<WaczEntry>> {
        let waczs = self.crawls.key(ks, crawl, CrawlKey::Waczs);
        let len = ks.list_len(&waczs)?;
        let mut entries = Vec::with_capacity(len as usize);
        for i in 0..len {
            let Some(json) = ks.list_get(&waczs, i)? else {
                break;
            };
            entries.push(
                WaczEntry::parse(json.as_ref()).unwrap_or_else(|| WaczEntry {
                    filename: json.as_ref().to_vec(),
                    hash: None,
                    size: None,
                }),
            );
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn entries_look_as_the_documents_write_them() {
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
