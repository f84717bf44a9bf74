//! A folder of WACZ files and the manifest that lists them.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::crawler::Crawl;
use super::line::{Layout, json_text};
use super::zip;

/// WACZ files in a temporary folder.
pub struct Folder {
    dir: TempDir,
    /// Entries of the manifest.
    pub entries: Vec<Entry>,
}

/// A WACZ file as a manifest lists it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Name of the file.
    pub name: String,
    /// Path relative to the folder.
    pub path: String,
    /// SHA-256 of the whole file.
    pub hash: String,
    /// Size in bytes.
    pub size: u64,
    /// Crawl of the file.
    pub crawl: String,
}

impl Folder {
    /// Creates an empty folder.
    ///
    /// # Panics
    /// Panics if the folder cannot be created.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Folder {
        let dir = tempfile::Builder::new()
            .prefix("crawlspace-")
            .tempdir()
            .expect("a temporary directory");
        Folder {
            dir,
            entries: Vec::new(),
        }
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes the files of a crawl, with alternating index layouts, and lists them.
    pub fn write(&mut self, crawl: &Crawl) -> Vec<Entry> {
        let from = self.entries.len();
        for (wacz, name) in crawl.waczs.iter().enumerate() {
            let captures: Vec<_> = crawl.captures_of(wacz).collect();
            let has_spaces = captures.iter().any(|capture| capture.url.contains(' '));
            let layout = match Layout::ALL[self.entries.len() % Layout::ALL.len()] {
                // CDX cannot contain URLs with spaces, because spaces separate its columns; use
                // CDXJ.
                Layout::Cdx if has_spaces => Layout::Cdxj,
                layout => layout,
            };
            self.put(name, &crawl.id, &layout.members(&captures));
        }
        self.entries[from..].to_vec()
    }

    /// Writes the files of a crawl, with indexes in this layout, and lists them.
    pub fn write_as(&mut self, crawl: &Crawl, layout: Layout) {
        for (wacz, name) in crawl.waczs.iter().enumerate() {
            let captures: Vec<_> = crawl.captures_of(wacz).collect();
            self.put(name, &crawl.id, &layout.members(&captures));
        }
    }

    /// Writes a file with these indexes, and lists it.
    pub fn put(
        &mut self,
        name: &str,
        crawl: &str,
        indexes: &[(impl AsRef<str>, Vec<u8>)],
    ) -> Entry {
        let number = self.entries.len();
        let path = match number % 3 {
            0 => format!("{number}.wacz"),
            1 => format!("päckchen {number}.wacz"),
            _ => format!("sub folder/{number}%20.wacz"),
        };
        let file = self.file(&path);
        fs::create_dir_all(file.parent().expect("it is in the folder")).expect("a folder");
        let mut members: Vec<(&str, &[u8])> = indexes
            .iter()
            .map(|(member, bytes)| (member.as_ref(), &bytes[..]))
            .collect();
        let warc = format!("not read by any test: {name}").repeat(20);
        members.insert(0, ("archive/data.warc.gz", warc.as_bytes()));
        members.push(("pages/pages.jsonl", b"{\"format\": \"json-pages-1.0\"}\n"));
        members.push(("datapackage.json", b"{\"profile\": \"data-package\"}"));
        zip::store_in(&file, &members);
        self.list(name, &path, crawl)
    }

    /// Adds an existing file to the list.
    ///
    /// # Panics
    /// Panics if the file does not exist.
    pub fn list(&mut self, name: &str, path: &str, crawl: &str) -> Entry {
        let bytes = fs::read(self.file(path)).expect("the file is there");
        let hex: String = Sha256::digest(&bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let entry = Entry {
            name: name.to_owned(),
            path: path.to_owned(),
            hash: format!("sha256:{hex}"),
            size: bytes.len() as u64,
            crawl: crawl.to_owned(),
        };
        self.entries.push(entry.clone());
        entry
    }

    /// Returns the path of a file of the folder.
    pub fn file(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// Writes a manifest of all files into the folder and returns its path.
    pub fn manifest(&self) -> String {
        self.manifest_of("collection.json", &self.entries)
    }

    /// Writes a manifest of some files into the folder and returns its path. Every other entry has
    /// a hash and a size.
    ///
    /// # Panics
    /// Panics if the manifest cannot be written.
    pub fn manifest_of(&self, name: &str, entries: &[Entry]) -> String {
        let resource = |(n, entry): (usize, &Entry)| {
            let [name, path, hash, crawl] =
                [&entry.name, &entry.path, &entry.hash, &entry.crawl].map(|text| json_text(text));
            let more = match n % 2 {
                0 => format!(", \"hash\": {hash}, \"size\": {}", entry.size),
                _ => String::new(),
            };
            format!("{{\"name\": {name}, \"path\": {path}, \"crawlId\": {crawl}{more}}}")
        };
        let resources: Vec<String> = entries.iter().enumerate().map(resource).collect();
        let json = format!(
            "{{\"profile\": \"multi-wacz-package\", \"resources\": [\n{}\n]}}\n",
            resources.join(",\n")
        );
        let path = self.file(name);
        fs::write(&path, json).expect("the folder is writable");
        path.to_string_lossy().into_owned()
    }
}
