//! A WACZ file to import, as it stands in the queue.

use serde::{Deserialize, Serialize};

/// An entry of a manifest, with everything filled in. Its JSON is that of the documents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Package {
    /// What it is called: an entry of the crawl's WACZ list, and of `src:d` when it is imported.
    pub name: String,
    /// Where it is: an absolute path, or a URL.
    pub path: String,
    /// Its hash, if the manifest has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Its size in bytes, if the manifest has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The crawl that it belongs to.
    #[serde(rename = "crawlId")]
    pub crawl: String,
}

impl Package {
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() // strings and a number: it cannot fail
    }

    pub fn from_json(json: &[u8]) -> Result<Package, serde_json::Error> {
        serde_json::from_slice(json)
    }
}
