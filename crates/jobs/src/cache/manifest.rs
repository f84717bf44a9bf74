//! The manifest of an entry: its inputs, and the checksums of its files.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::super::{Error, JobSet, Work};
use super::{is_absent, open_file};
use crawlspace_index::timestamp::Timestamp;

/// The version of the format that is written. Entries whose manifests have another version are
/// built again.
const FORMAT: u32 = 2;
/// The start of a manifest, followed by the checksum of all bytes after the checksum.
const BEGIN: &[u8] = b"{\n  \"checksum\": \"";
const DIGITS: usize = 32;
/// Maximum size of a manifest, in bytes.
pub(super) const MAX_MANIFEST: u64 = 1 << 30;

/// The description of an entry: a JSON file whose first member is the checksum of the bytes after it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    format: u32,
    /// The cache of the entry: the name of its folder.
    pub cache: String,
    /// The name of the entry.
    pub entry: String,
    /// The jobs of the entry.
    #[serde(with = "as_text")]
    pub jobs: JobSet,
    /// The program that built the entry: `crawlspace` and its version.
    pub generator: String,
    /// Build time: RFC 3339, in UTC.
    pub made: String,
    /// The inputs of the entry.
    pub inputs: Vec<Input>,
    /// The files of the entry, without the manifest.
    pub files: Vec<FileSum>,
    /// Counts from the build: the number of lines, for example.
    pub counts: BTreeMap<String, u64>,
    /// Notes for users: on skipped lines, for example.
    pub notes: Vec<String>,
    /// The checksum of the manifest itself, in hexadecimal digits.
    #[serde(skip)]
    pub checksum: String,
}

/// The reason why a manifest cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The bytes differ from those that were written, or belong to another entry.
    #[error("{0}")]
    Damaged(String),
    /// The manifest has the format of another version of this program.
    #[error("the entry has format {0}, this version reads format {FORMAT}")]
    OtherFormat(u32),
}

#[derive(Deserialize)]
struct Format {
    format: u32,
}

/// An input of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// The name of a file, or of another entry.
    pub name: String,
    /// The size of the input in bytes.
    pub size: u64,
    /// The checksum of the input; `None` for files that are not part of a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
}

/// A file of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSum {
    /// The name in the folder of the entry; the name of the entry if that is a single file.
    pub name: String,
    /// The size of the file in bytes.
    pub size: u64,
    /// The 128-bit XXH3 checksum in hexadecimal digits, as `xxh128sum` prints it.
    pub xxh128: String,
}

impl Manifest {
    /// Creates a manifest without inputs and files, with the current time.
    pub(crate) fn new(cache: &str, entry: &str, jobs: JobSet) -> Manifest {
        Manifest {
            format: FORMAT,
            cache: cache.to_owned(),
            entry: entry.to_owned(),
            jobs,
            generator: concat!("crawlspace ", env!("CARGO_PKG_VERSION")).to_owned(),
            made: Timestamp::now().iso(),
            ..Manifest::default()
        }
    }

    /// Serializes the manifest, and returns its checksum too.
    pub(crate) fn to_bytes(&self) -> io::Result<(Vec<u8>, String)> {
        let json = serde_json::to_string_pretty(self)?;
        let rest = format!("\",{}\n", json.strip_prefix('{').unwrap_or(&json));
        let checksum = hex(xxh3_128(rest.as_bytes()));
        let bytes = [BEGIN, checksum.as_bytes(), rest.as_bytes()].concat();
        Ok((bytes, checksum))
    }

    /// Parses a manifest, after comparing all of its bytes with its checksum.
    ///
    /// # Errors
    /// Returns the reason why the manifest cannot be read.
    pub fn parse(bytes: &[u8]) -> Result<Manifest, Unreadable> {
        let damaged = |what: &str| Err(Unreadable::Damaged(what.to_owned()));
        let rest = bytes
            .strip_prefix(BEGIN)
            .and_then(|rest| rest.split_at_checked(DIGITS));
        let Some((checksum, rest)) = rest else {
            return damaged("the manifest is truncated, or was written by another program");
        };
        if hex(xxh3_128(rest)).as_bytes() != checksum {
            return damaged("the manifest is damaged: its checksum does not match");
        }
        // Check the format first: other formats may have other members.
        match serde_json::from_slice(bytes) {
            Ok(Format { format: FORMAT }) => {}
            Ok(Format { format }) => return Err(Unreadable::OtherFormat(format)),
            Err(error) => return damaged(&format!("the manifest cannot be read: {error}")),
        }
        let mut manifest: Manifest = match serde_json::from_slice(bytes) {
            Ok(manifest) => manifest,
            Err(error) => return damaged(&format!("the manifest cannot be read: {error}")),
        };
        manifest.checksum = String::from_utf8_lossy(checksum).into_owned();
        Ok(manifest)
    }

    /// Checks that the manifest belongs to this entry of this cache.
    ///
    /// # Errors
    /// Fails with the cache and the entry to which the manifest belongs.
    pub(crate) fn must_be_of(&self, cache: &str, entry: &str) -> Result<(), Unreadable> {
        if self.cache == cache && self.entry == entry {
            Ok(())
        } else {
            Err(Unreadable::Damaged(format!(
                "its manifest belongs to {}/{}: the entry was probably renamed",
                self.cache, self.entry
            )))
        }
    }

    /// Returns the entry as an input of another entry. The checksum only depends on the content, not on the
    /// build time.
    pub(crate) fn as_input(&self) -> Input {
        Input {
            name: self.entry.clone(),
            size: self.size(),
            checksum: Some(self.contents()),
        }
    }

    /// Returns the checksum of the names, sizes and checksums of the files.
    fn contents(&self) -> String {
        let mut hash = Xxh3::new();
        for file in &self.files {
            hash.update(format!("{} {} {}\n", file.name, file.size, file.xxh128).as_bytes());
        }
        hex(hash.digest128())
    }

    /// Returns the number of lines of the entry (of captures, in an index), if it was counted.
    pub fn lines(&self) -> Option<u64> {
        let rows = self.counts.get("rows").or(self.counts.get("lines"));
        rows.copied()
    }

    /// Returns the total size of the files in bytes.
    pub fn size(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }
}

/// Reads the manifest at a path. Returns `None` if the manifest does not exist, and the reason if it is
/// unreadable.
pub(crate) fn read_manifest(path: &Path) -> Option<Result<Manifest, Unreadable>> {
    let file = match open_file(path) {
        Ok(file) => file,
        Err(error) if is_absent(&error) => return None,
        Err(error) => {
            let what = format!("the manifest cannot be opened: {error}");
            return Some(Err(Unreadable::Damaged(what)));
        }
    };
    let mut bytes = Vec::new();
    Some(match file.take(MAX_MANIFEST).read_to_end(&mut bytes) {
        Ok(_) => Manifest::parse(&bytes),
        Err(error) => {
            let what = format!("the manifest cannot be read: {error}");
            Err(Unreadable::Damaged(what))
        }
    })
}

/// Returns the size and the checksum of a file.
///
/// # Errors
/// Fails if the file cannot be read, or the work is cancelled.
pub(crate) fn sum(path: &Path, work: &Work) -> Result<(u64, String), Error> {
    let mut file = open_file(path).map_err(Error::io(path, "open"))?;
    let mut hash = Xxh3::new();
    let mut buffer = vec![0; 256 * 1024];
    let mut size = 0;
    loop {
        work.check()?;
        match file.read(&mut buffer) {
            Ok(0) => return Ok((size, hex(hash.digest128()))),
            Ok(read) => {
                hash.update(&buffer[..read]);
                size += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::io(path, "read")(error)),
        }
    }
}

pub(crate) fn hex(sum: u128) -> String {
    format!("{sum:032x}")
}

mod as_text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use super::JobSet;

    pub(crate) fn serialize<S: Serializer>(jobs: &JobSet, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(jobs)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<JobSet, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(input)?;
        text.parse().map_err(D::Error::custom)
    }
}
