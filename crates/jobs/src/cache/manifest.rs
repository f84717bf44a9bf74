//! What an entry is made of, and what its bytes must be.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::super::{Error, JobSet, Work};
use super::{is_absent, open_file};
use crawlspace_index::timestamp::Timestamp;

/// The version of the form that is written. Entries of other versions are rebuilt.
const FORMAT: u32 = 2;
/// What a manifest begins with; the checksum of all that comes behind it follows.
const BEGIN: &[u8] = b"{\n  \"checksum\": \"";
const DIGITS: usize = 32;
/// Maximum size of a manifest, in bytes.
pub(super) const MAX_MANIFEST: u64 = 1 << 30;

/// Says what an entry is: a JSON file of its own, whose first member is the checksum of all that comes behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    format: u32,
    /// The cache that it belongs to, which is the name of its folder.
    pub cache: String,
    /// The name of the entry.
    pub entry: String,
    /// The jobs that it stands for.
    #[serde(with = "as_text")]
    pub jobs: JobSet,
    /// What made it: `crawlspace` and its version.
    pub generator: String,
    /// When it was made: RFC 3339, in UTC.
    pub made: String,
    /// What it was made of.
    pub inputs: Vec<Input>,
    /// The files that it has, the manifest left out.
    pub files: Vec<FileSum>,
    /// What was counted when it was made: lines, for example.
    pub counts: BTreeMap<String, u64>,
    /// What people should know of it: lines that were skipped, for example.
    pub notes: Vec<String>,
    /// The checksum of the manifest itself, in hexadecimal digits.
    #[serde(skip)]
    pub checksum: String,
}

/// Why a manifest cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Its bytes are not those that were written, or of another entry.
    #[error("{0}")]
    Damaged(String),
    /// Another version of this program wrote it, in its own format.
    #[error("the entry has format {0}, this version reads format {FORMAT}")]
    OtherFormat(u32),
}

#[derive(Deserialize)]
struct Format {
    format: u32,
}

/// Something that an entry was made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// The name of a file, or of another entry.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its checksum; none for what is not ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
}

/// A file of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSum {
    /// Its name in the folder of the entry; that of the entry if this is a file itself.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// XXH3 with 128 bits, in hexadecimal digits, as `xxh128sum` prints it.
    pub xxh128: String,
}

impl Manifest {
    /// A manifest of nothing, made now by this program.
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

    /// The manifest as bytes, and its checksum with them.
    pub(crate) fn to_bytes(&self) -> io::Result<(Vec<u8>, String)> {
        let json = serde_json::to_string_pretty(self)?;
        let rest = format!("\",{}\n", json.strip_prefix('{').unwrap_or(&json));
        let checksum = hex(xxh3_128(rest.as_bytes()));
        let bytes = [BEGIN, checksum.as_bytes(), rest.as_bytes()].concat();
        Ok((bytes, checksum))
    }

    /// Reads what was written, and refuses it if any byte is another one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Manifest, Unreadable> {
        let damaged = |what: &str| Err(Unreadable::Damaged(what.to_owned()));
        let rest = bytes
            .strip_prefix(BEGIN)
            .and_then(|rest| rest.split_at_checked(DIGITS));
        let Some((checksum, rest)) = rest else {
            return damaged("the manifest is cut off, or of another program");
        };
        if hex(xxh3_128(rest)).as_bytes() != checksum {
            return damaged("the manifest is damaged: its checksum is another one");
        }
        // Other formats may have other members.
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

    /// Refuses it if it is that of another entry, or of an entry of another cache.
    ///
    /// # Errors
    /// Whose it is.
    pub(crate) fn must_be_of(&self, cache: &str, entry: &str) -> Result<(), Unreadable> {
        if self.cache == cache && self.entry == entry {
            Ok(())
        } else {
            Err(Unreadable::Damaged(format!(
                "its manifest is that of {}/{}: somebody must have renamed it",
                self.cache, self.entry
            )))
        }
    }

    /// The entry as an input of another one. Its checksum depends on its contents alone, not on when it was made.
    pub(crate) fn as_input(&self) -> Input {
        Input {
            name: self.entry.clone(),
            size: self.size(),
            checksum: Some(self.contents()),
        }
    }

    /// The checksum of the names, sizes and checksums of its files.
    fn contents(&self) -> String {
        let mut hash = Xxh3::new();
        for file in &self.files {
            hash.update(format!("{} {} {}\n", file.name, file.size, file.xxh128).as_bytes());
        }
        hex(hash.digest128())
    }

    /// How many lines the entry has, as far as that was counted: captures, in an index.
    pub fn lines(&self) -> Option<u64> {
        let rows = self.counts.get("rows").or(self.counts.get("lines"));
        rows.copied()
    }

    /// The size of all its files, in bytes.
    pub fn size(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }
}

/// The manifest that lies there, or what is wrong with it. None when there is none.
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

/// The size and checksum of a file.
///
/// # Errors
/// When it cannot be read, or somebody cancels the work.
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
