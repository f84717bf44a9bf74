//! WACZ files: the indexes in them, and where in them their WARC files are. Nothing is unpacked to disk: blocks and
//! records are read where they lie, and what is compressed as a whole is in memory, which is a secondary index as a
//! rule.

use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::folder::Entry;
use crate::sorted::file::{FileVersion, NamedFile};
use crate::wacz::{Location, Options, Wacz};
use crate::zipnum::cluster::Cluster;
use crate::zipnum::cluster::block::Block;

/// Limit of an index that is kept in memory, in bytes.
const MAX_TEXT: u64 = 256 << 20;
/// The folders of indexes and of WARC files.
const INDEXES: &str = "indexes/";
const ARCHIVE: &str = "archive/";

/// A WACZ file as it was when it was read.
#[derive(Debug)]
pub struct Package {
    path: PathBuf,
    version: Option<FileVersion>,
    pub(super) entries: Vec<Arc<Entry>>,
    /// WARC files by the names that rows have for them, and where they are.
    archives: HashMap<Box<str>, Range<u64>>,
    /// What is wrong, in words.
    pub(super) problem: Option<String>,
}

impl Package {
    /// Reads what is in a file. One that is damaged has an index that cannot be read, so that it is missed.
    pub(super) fn read(path: &Path) -> Package {
        let version = version(path);
        let (entries, archives, problem) = match read(path, version) {
            Ok((entries, archives)) => (entries, archives, None),
            Err(why) => {
                let broken = NamedFile::broken(path.to_owned(), why.clone());
                (vec![entry(broken, None)], HashMap::new(), Some(why))
            }
        };
        Package {
            path: path.to_owned(),
            version,
            entries,
            archives,
            problem,
        }
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where in it the WARC file of that name is.
    pub fn archive(&self, name: &str) -> Option<Range<u64>> {
        let name = name.strip_prefix(ARCHIVE).unwrap_or(name);
        self.archives.get(name).cloned()
    }

    /// Whether the file is still as it was when it was read.
    pub(super) fn is_current(&self) -> bool {
        self.version.is_some() && version(&self.path) == self.version
    }
}

fn version(path: &Path) -> Option<FileVersion> {
    fs::metadata(path).ok().as_ref().map(FileVersion::of)
}

fn entry(file: NamedFile, cluster: Option<Cluster>) -> Arc<Entry> {
    Arc::new(Entry {
        file,
        cluster: cluster.map(Arc::new),
    })
}

type Found = (Vec<Arc<Entry>>, HashMap<Box<str>, Range<u64>>);

fn read(path: &Path, version: Option<FileVersion>) -> Result<Found, String> {
    let shown = path.display();
    let version = version.ok_or_else(|| format!("{shown}: it is gone"))?;
    let location = Location::File(path.to_owned());
    let wacz = Wacz::open(&location, &Options::default()).map_err(|error| error.to_string())?;
    let mut archives = HashMap::new();
    for name in wacz.names() {
        if let Some(short) = name.strip_prefix(ARCHIVE).filter(|short| !short.is_empty()) {
            // One that is compressed once more cannot be read in the middle.
            if let Some(place) = wacz.place(name).map_err(|error| error.to_string())? {
                archives.insert(short.into(), place);
            }
        }
    }
    let mut entries = Vec::new();
    for index in wacz.indexes() {
        let part = index.name();
        let secondary = part.strip_suffix(".gz").unwrap_or(part);
        let secondary = secondary
            .rsplit_once('.')
            .map_or(secondary, |(stem, _)| stem);
        let secondary = format!("{secondary}.idx");
        let place = if wacz.names().any(|name| name == secondary) {
            wacz.place(part).map_err(|error| error.to_string())?
        } else {
            None
        };
        let Some(place) = place else {
            let text = sorted(&wacz, index)?;
            let file = NamedFile::made(path.to_owned(), &text);
            entries.push(entry(
                file.map_err(|error| format!("{shown}: {error}"))?,
                None,
            ));
            continue;
        };
        let text = wacz
            .unpacked(&secondary, MAX_TEXT)
            .map_err(|error| error.to_string())?;
        let name = part.strip_prefix(INDEXES).unwrap_or(part);
        let text = blocks(&text, name, place.end - place.start)
            .map_err(|why| format!("{shown}: {secondary}: {why}"))?;
        let file = NamedFile::made(path.to_owned(), &text);
        let file = file.map_err(|error| format!("{shown}: {error}"))?;
        let part = NamedFile::part(path.to_owned(), version, place);
        entries.push(entry(file, Some(Cluster::of_part(path, name, part))));
    }
    if entries.is_empty() && !archives.is_empty() {
        return Err(format!("{shown}: it has no index"));
    }
    Ok((entries, archives))
}

/// The lines of an index in order.
fn sorted(wacz: &Wacz, index: &crate::wacz::Member) -> Result<Vec<u8>, String> {
    let mut lines = wacz.lines(index).map_err(|error| error.to_string())?;
    let (mut all, mut size) = (Vec::<Box<[u8]>>::new(), 0);
    while let Some(line) = lines.next().map_err(|error| error.to_string())? {
        size += line.len() as u64 + 1;
        if size > MAX_TEXT {
            let name = index.name();
            return Err(format!(
                "{name} has no secondary index (.idx), and is larger than {MAX_TEXT} bytes"
            ));
        }
        if !line.is_empty() {
            all.push(line.into());
        }
    }
    all.sort_unstable();
    let mut text = all.join(&b'\n');
    text.push(b'\n');
    Ok(text)
}

/// A secondary index as ZipNum has it. In packages, what is said of a block is JSON, and lines before the first one
/// say what it is.
fn blocks(text: &[u8], part: &str, size: u64) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    for line in text.split(|&byte| byte == b'\n') {
        if line.is_empty() || line.starts_with(b"!") {
            continue;
        }
        let shown = || String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
        let (begin, offset, length) = match (Block::read(line), memchr::memmem::find(line, b" {")) {
            (Some(block), _) => (block.begin, block.offset, block.length),
            (None, Some(at)) => {
                let json: Value = serde_json::from_slice(&line[at + 1..])
                    .map_err(|error| format!("{:?}: {error}", shown()))?;
                let (Some(offset), Some(length)) =
                    (json["offset"].as_u64(), json["length"].as_u64())
                else {
                    return Err(format!("{:?} has no offset and length", shown()));
                };
                if json["filename"].as_str().is_some_and(|name| name != part) {
                    return Err(format!("{:?} is about another file than {part}", shown()));
                }
                (line[..at].into(), offset, length)
            }
            (None, None) => return Err(format!("{:?} is about no block", shown())),
        };
        if offset.checked_add(length).is_none_or(|end| end > size) {
            return Err(format!("{:?} is behind the end of {part}", shown()));
        }
        out.extend_from_slice(&begin);
        out.extend_from_slice(format!("\t{part}\t{offset}\t{length}\n").as_bytes());
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secondary_indexes_of_packages_are_those_of_clusters() {
        let text = b"!meta 0 {\"format\": \"cdxj-gzip-1.0\", \"filename\": \"index.cdx.gz\"}\n\
            com,a)/ 2016 {\"offset\": 0, \"length\": 10, \"digest\": \"sha256:0\", \"filename\": \"index.cdx.gz\"}\n\
            com,b)/ 2016\tindex.cdx.gz\t10\t5\n";
        let found = blocks(text, "index.cdx.gz", 15).unwrap();
        let expected = "com,a)/ 2016\tindex.cdx.gz\t0\t10\ncom,b)/ 2016\tindex.cdx.gz\t10\t5\n";
        assert_eq!(String::from_utf8(found).unwrap(), expected);
        for (text, size, why) in [
            (
                "com,a)/ 2016 {\"offset\": 0, \"length\": 10}",
                9,
                "behind the end",
            ),
            (
                "com,a)/ 2016 {\"offset\": 18446744073709551615, \"length\": 10}",
                9,
                "behind the end",
            ),
            ("com,a)/ 2016 {\"offset\": \"0\"}", 9, "no offset"),
            (
                "com,a)/ 2016 {\"offset\": 0, \"length\": 1, \"filename\": \"x\"}",
                9,
                "another file",
            ),
            ("com,a)/ 2016 {", 9, "EOF"),
            ("com,a)/", 9, "no block"),
        ] {
            let found = blocks(text.as_bytes(), "index.cdx.gz", size).unwrap_err();
            assert!(found.contains(why), "{text}: {found}");
        }
    }
}
