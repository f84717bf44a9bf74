//! A WACZ file to import, in the format of the queue.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crawlspace_wacz::Location;

/// A manifest entry with all fields filled in. Its JSON has the documented fields and, in addition, those that
/// Browsertrix's own importer reads: `url` is the location of the file, and `id` names the guard key that locks the
/// package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Package {
    /// Name of the package: an entry of the crawl's WACZ list, and of `src:d` once it is imported.
    pub name: String,
    /// Location: an absolute path or a URL.
    pub path: String,
    /// Hash of the package, if the manifest has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Size in bytes, if the manifest has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Crawl of the package.
    #[serde(rename = "crawlId")]
    pub crawl: String,
    /// Same as `path`; Browsertrix's importer reads this field.
    url: String,
    /// Same as `name`; Browsertrix's importer reads this field.
    id: String,
}

/// A queue entry, written by this importer or another one.
#[derive(Deserialize)]
struct QueueEntry {
    name: String,
    #[serde(default, deserialize_with = "text")]
    path: Option<String>,
    #[serde(default, deserialize_with = "text")]
    url: Option<String>,
    #[serde(default, deserialize_with = "text")]
    hash: Option<String>,
    #[serde(default, deserialize_with = "number")]
    size: Option<u64>,
    #[serde(default, rename = "crawlId", deserialize_with = "text")]
    crawl: Option<String>,
}

impl Package {
    pub(crate) fn new(
        name: String,
        path: String,
        hash: Option<String>,
        size: Option<u64>,
        crawl: String,
    ) -> Package {
        Package {
            url: path.clone(),
            id: name.clone(),
            name,
            path,
            hash,
            size,
            crawl,
        }
    }

    /// Returns the location without secrets in the query of a URL.
    pub(crate) fn shown_path(&self) -> String {
        let location = Location::parse(&self.path);
        location.map_or_else(|_| String::new(), |location| location.to_string())
    }

    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() // strings and a number: it cannot fail
    }

    /// Parses a queue entry. Other importers do not record the crawl; then `crawl` is used if
    /// given, otherwise the entry's name.
    pub(crate) fn from_json(
        json: &[u8],
        crawl: Option<&str>,
    ) -> Result<Package, serde_json::Error> {
        let entry: QueueEntry = serde_json::from_slice(json)?;
        let Some(path) = entry.path.or(entry.url) else {
            return Err(serde::de::Error::missing_field("path"));
        };
        let crawl = entry.crawl.or(crawl.map(str::to_owned));
        let crawl = crawl.unwrap_or_else(|| entry.name.clone());
        Ok(Package::new(
            entry.name, path, entry.hash, entry.size, crawl,
        ))
    }
}

/// Reads a non-empty string. Other values, which manifests pass on unchanged, count as missing.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) if !text.is_empty() => Some(text),
        _ => None,
    })
}

/// Reads a number of bytes, written as a number or a string.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    })
}

pub(super) fn is_sha256(hash: &str) -> bool {
    let digits = plain(hash);
    digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Returns true if both strings encode the same SHA-256, with or without a prefix, in upper or lower
/// case.
pub(super) fn is_same_hash(one: &str, other: &str) -> bool {
    plain(one) == plain(other)
}

/// Returns the digits of a SHA-256 in lower case.
pub(super) fn plain(hash: &str) -> String {
    let hash = hash.to_ascii_lowercase();
    let digits = hash.strip_prefix("sha256:");
    let digits = digits.or(hash.strip_prefix("sha-256:"));
    digits.unwrap_or(&hash).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str, crawl: Option<&str>) -> Package {
        Package::from_json(json.as_bytes(), crawl).expect("an entry")
    }

    #[test]
    fn entry_reads_back_and_has_the_fields_of_other_importers() {
        let package = Package::new(
            "a.wacz".into(),
            "/crawls/a.wacz".into(),
            Some("9f86".into()),
            Some(17),
            "c".into(),
        );
        let json = package.to_json();
        assert_eq!(read(&json, Some("other")), package);
        let value: Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(
            (&value["url"], &value["id"]),
            (&value["path"], &value["name"])
        );
    }

    #[test]
    fn entries_of_other_importers_are_parsed() {
        let single = r#"{"url":"https://e/a.wacz?x=1","name":"a.wacz"}"#;
        let package = read(single, None);
        assert_eq!(
            (&package.path[..], &package.crawl[..]),
            ("https://e/a.wacz?x=1", "a.wacz")
        );
        assert_eq!(read(single, Some("given")).crawl, "given");
        let listed = r#"{"name":"a.wacz","path":"p","url":"p","crawlId":"c","size":"12","hash":null,"bytes":{"x":[1]}}"#;
        let package = read(listed, Some("given"));
        assert_eq!(
            package,
            Package::new("a.wacz".into(), "p".into(), None, Some(12), "c".into())
        );
    }

    #[test]
    fn entry_without_name_or_location_is_refused() {
        for json in [
            r#"{"url":"p"}"#,
            r#"{"name":"a"}"#,
            r#"{"name":"a","path":7}"#,
            "[]",
            "a",
        ] {
            assert!(Package::from_json(json.as_bytes(), None).is_err(), "{json}");
        }
    }
}
