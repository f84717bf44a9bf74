//! WACZ files: their indexes, and the offsets of their WARC files.
//!
//! Nothing is unpacked to disk: blocks and records are read in place. Compressed members, usually secondary indexes,
//! are decompressed into memory. A package on a server is read by range requests.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use serde::Deserialize;
use tokio::runtime::Handle;
use tokio::time::timeout_at;

use super::entry::{Entry, Spelled};
use crate::sorted::file::{FileVersion, NamedFile};
use crate::sorted::line::Shape;
use crate::sorted::steps::elsewhere;
use crate::source::SourceError;
use crate::spelling::canonical;
use crate::zipnum::cluster::Cluster;
use crate::zipnum::cluster::block::Block;
use crawlspace_fetch::Net;
use crawlspace_fetch::file::{First, RemoteVersion};
use crawlspace_wacz::package::{Required, requires};
use crawlspace_wacz::{Location, Options, Wacz};

/// Maximum size of an index that is kept in memory, in bytes.
const MAX_TEXT: u64 = 256 << 20;
/// Maximum size of a plain index on a server that is sorted in memory, in bytes. A larger index is searched
/// on the server.
const MAX_SORTED: u64 = 1 << 20;
/// Maximum nesting depth of packages.
const MAX_DEPTH: usize = 4;
/// Folders of a package for indexes and for WARC files.
const INDEXES: &str = "indexes/";
const ARCHIVE: &str = "archive/";
/// The `profile` of a package of packages.
const MULTI: &str = "multi-wacz-package";

/// The location of a package in a list or folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) location: Location,
    /// The hash of the file, which identifies it if its URL changes.
    pub(super) hash: Option<String>,
}

/// A snapshot of a WACZ file.
#[derive(Debug)]
pub struct Package {
    /// A number that is unique in this process.
    number: u64,
    /// The listed location of this package, or of the package that contains or names it.
    listed: Listed,
    location: Location,
    /// The chain of members that contain the package, outermost first.
    members: Vec<String>,
    medium: Medium,
    pub(super) entries: Vec<Arc<Entry>>,
    /// The WARC files, by the names that rows use.
    archives: HashMap<Box<str>, Archive>,
    requires: OnceLock<Arc<[Required]>>,
    size: Option<u64>,
    /// Error message, if a part of the package cannot be read.
    pub(super) problem: Option<String>,
}

/// A WARC file in a package.
#[derive(Debug)]
struct Archive {
    member: Box<str>,
    /// The byte range of the WARC file in the package, once it is known.
    place: OnceLock<Range<u64>>,
}

/// The version of the file that was read.
#[derive(Clone, Debug)]
enum Medium {
    Disk(FileVersion),
    /// A file on a server, with the open package for its directory of members.
    Remote(Arc<RemoteVersion>, Arc<Wacz>),
    /// A file that could not be read.
    None,
}

/// The byte range of a WARC file in a package.
#[derive(Clone, Debug)]
pub enum ArchivePart {
    /// A range of a local file.
    File(PathBuf, Range<u64>),
    /// A range of a file on a server.
    Remote(Arc<RemoteVersion>, Range<u64>),
}

/// The state of reading a package, and the packages in it.
struct Reading<'a> {
    listed: &'a Listed,
    net: Option<&'a Arc<Net>>,
    /// Deadline of the response of a server.
    until: Option<Instant>,
    found: Vec<Arc<Package>>,
}

impl Package {
    /// Reads the packages at a location: one package, or the packages that it contains or names. A damaged package gets
    /// an index that cannot be read, so that queries report it as missing.
    pub(super) fn read(
        listed: &Listed,
        net: Option<&Arc<Net>>,
        until: Option<Instant>,
    ) -> Vec<Arc<Package>> {
        let mut reading = Reading {
            listed,
            net,
            until,
            found: Vec::new(),
        };
        reading.at(&listed.location, 0);
        reading.found
    }

    /// Returns the location at which the package was listed.
    pub(super) fn listed(&self) -> &Listed {
        &self.listed
    }

    /// Returns the location of the file.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Returns the number that marks the rows of the package ([`Row::package`](crate::row::Row::package)).
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the name of the package: the name of its file, or of the member of the package that contains it.
    pub fn name(&self) -> String {
        match self.members.last() {
            Some(member) => member.rsplit('/').next().unwrap_or_default().to_owned(),
            None => self.location.name(),
        }
    }

    /// Returns the size of the package in bytes, if it could be read.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// Returns whether the package has a WARC file of this name.
    pub fn has(&self, name: &str) -> bool {
        let name = name.strip_prefix(ARCHIVE).unwrap_or(name);
        self.archives.contains_key(name)
    }

    /// Returns the position of the WARC file with this name. Returns `None` if the WARC file is missing,
    /// or if its ZIP member is compressed.
    ///
    /// # Errors
    /// Fails if the package cannot be read.
    pub async fn archive(self: &Arc<Self>, name: &str) -> Result<Option<ArchivePart>, SourceError> {
        let name = name.strip_prefix(ARCHIVE).unwrap_or(name);
        let Some(archive) = self.archives.get(name) else {
            return Ok(None);
        };
        let range = match archive.place.get() {
            Some(range) => range.clone(),
            None => {
                let (package, member) = (Arc::clone(self), archive.member.clone());
                let found = elsewhere(move || package.place(&member)).await??;
                archive.place.get_or_init(|| found).clone()
            }
        };
        Ok(match (&self.medium, &self.location) {
            (Medium::Remote(version, _), _) => {
                Some(ArchivePart::Remote(Arc::clone(version), range))
            }
            (_, Location::File(path)) => Some(ArchivePart::File(path.clone(), range)),
            _ => None,
        })
    }

    /// Requests the byte range of a WARC file in the package from the server.
    fn place(&self, member: &str) -> Result<Range<u64>, SourceError> {
        let failed = |why: String| SourceError::Io(why);
        let Medium::Remote(_, wacz) = &self.medium else {
            return Err(failed(format!(
                "{}: the file no longer exists",
                self.location
            )));
        };
        let place = wacz.place(member);
        let place = place.map_err(|error| failed(error.to_string()))?;
        place.ok_or_else(|| failed(format!("{}: {member} is compressed", self.location)))
    }

    /// Returns the packages that this package declares as required.
    ///
    /// # Errors
    /// Fails if the package cannot be read.
    pub async fn requires(self: &Arc<Self>) -> Result<Arc<[Required]>, SourceError> {
        if let Some(requires) = self.requires.get() {
            return Ok(Arc::clone(requires));
        }
        let package = Arc::clone(self);
        let found = elsewhere(move || package.read_requires()).await?;
        let found = found.map_err(|error| SourceError::Io(error.to_string()))?;
        Ok(Arc::clone(self.requires.get_or_init(|| found.into())))
    }

    fn read_requires(&self) -> Result<Vec<Required>, crawlspace_wacz::Error> {
        if let Medium::Remote(_, wacz) = &self.medium {
            return requires(wacz);
        }
        let mut wacz = Wacz::open(&self.location, &Options::default())?;
        for member in &self.members {
            match wacz.inner(member)? {
                Some(inner) => wacz = inner,
                None => return Ok(Vec::new()),
            }
        }
        requires(&wacz)
    }

    /// Returns whether the file is unchanged since it was read; the calling thread may block. A server that does not
    /// respond counts as unchanged.
    pub(super) fn is_current(&self) -> bool {
        match (&self.medium, &self.location) {
            (Medium::Disk(before), Location::File(path)) => version(path) == Some(*before),
            (Medium::Remote(before, _), _) => {
                let file = Arc::clone(before.file());
                match Handle::current().block_on(file.version(First::End)) {
                    Ok(now) => Arc::ptr_eq(&now, before),
                    Err(_) => before.is_last(),
                }
            }
            _ => false,
        }
    }

    /// Returns whether a read showed that the file was replaced or removed.
    pub(super) fn is_superseded(&self) -> bool {
        matches!(&self.medium, Medium::Remote(before, _) if !before.is_last())
    }

    /// Returns whether the package is on a server.
    pub(super) fn is_remote(&self) -> bool {
        matches!(self.location, Location::Url(_))
    }

    /// Switches to the current URL of the file, whose hash is the same. Returns false if the package cannot
    /// use the URL.
    pub(super) fn moves_to(&self, now: &Listed) -> bool {
        match (&self.medium, &now.location) {
            (Medium::Remote(version, _), Location::Url(url))
                if self.location == self.listed.location =>
            {
                version.file().move_to(url);
                true
            }
            _ => false,
        }
    }
}

/// Returns the name that rows use for a WARC file. In some packages, all members are in an
/// additional folder.
fn archive_name(member: &str) -> Option<&str> {
    let (folder, name) = member.split_once(ARCHIVE)?;
    let is_folder = folder.is_empty() || folder.ends_with('/');
    (is_folder && !name.is_empty()).then_some(name)
}

impl Reading<'_> {
    /// Reads the package at a location.
    fn at(&mut self, location: &Location, depth: usize) {
        let opened = match (location, self.net) {
            (Location::File(path), _) => match version(path) {
                Some(version) => {
                    // Read the version before opening the file: if the file is still being written, a later
                    // listing has to read it again.
                    let medium = Medium::Disk(version);
                    match Wacz::open(location, &Options::default()) {
                        Ok(wacz) => Ok((medium, Arc::new(wacz))),
                        Err(error) => return self.broken(location, medium, error.to_string()),
                    }
                }
                None => Err(format!("{location}: the file no longer exists")),
            },
            (Location::Url(url), Some(net)) => {
                let (file, until) = (net.file(url), self.until);
                let asked = async move {
                    let asked = file.version(First::End);
                    match until {
                        Some(until) => timeout_at(until.into(), asked)
                            .await
                            .unwrap_or(Err(SourceError::Timeout)),
                        None => asked.await,
                    }
                };
                let version = Handle::current().block_on(asked);
                let version = version.map_err(|error| match error {
                    SourceError::Io(why) => why,
                    other => format!("{location}: {other}"),
                });
                version.and_then(|version| {
                    let wacz = Wacz::of_version(&version, &Options::default());
                    let wacz = Arc::new(wacz.map_err(|error| error.to_string())?);
                    Ok((Medium::Remote(version, Arc::clone(&wacz)), wacz))
                })
            }
            (Location::Url(_), None) => Err(format!(
                "{location}: files on servers are not supported here"
            )),
        };
        match opened {
            Ok((medium, wacz)) => self.opened(location, &[], &medium, &wacz, depth),
            Err(why) => self.broken(location, Medium::None, why),
        }
    }

    fn opened(
        &mut self,
        location: &Location,
        members: &[String],
        medium: &Medium,
        wacz: &Arc<Wacz>,
        depth: usize,
    ) {
        if let Err(why) = self.read(location, members, medium, wacz, depth) {
            self.broken(location, medium.clone(), why);
        }
    }

    fn read(
        &mut self,
        location: &Location,
        members: &[String],
        medium: &Medium,
        wacz: &Arc<Wacz>,
        depth: usize,
    ) -> Result<(), String> {
        if self.inner(location, members, medium, wacz, depth)? {
            return Ok(());
        }
        let mut archives = HashMap::new();
        for (name, is_stored) in wacz.members() {
            // A WARC file in a compressed member cannot be read from an offset.
            let Some(short) = archive_name(name).filter(|_| is_stored) else {
                continue;
            };
            let place = OnceLock::new();
            // On a server, finding the position of a WARC file takes a request. Send this request when
            // the file is first read.
            if matches!(medium, Medium::Disk(_))
                && let Some(range) = wacz.place(name).map_err(|error| error.to_string())?
            {
                let _ = place.set(range);
            }
            let member = name.into();
            archives
                .entry(short.into())
                .or_insert(Archive { member, place });
        }
        let number = number();
        let entries = indexes(location, medium, wacz, number)?;
        if entries.is_empty() && !archives.is_empty() {
            return Err(format!("{}: it has no index", wacz.file()));
        }
        let medium = match medium {
            Medium::Remote(version, _) => Medium::Remote(Arc::clone(version), Arc::clone(wacz)),
            other => other.clone(),
        };
        self.found.push(Arc::new(Package {
            number,
            listed: self.listed.clone(),
            location: location.clone(),
            members: members.to_vec(),
            medium,
            entries,
            archives,
            requires: OnceLock::new(),
            size: Some(wacz.size()),
            problem: None,
        }));
        Ok(())
    }

    /// Reads the packages that a package contains or names. Returns false if the package is not a package of
    /// packages.
    fn inner(
        &mut self,
        location: &Location,
        members: &[String],
        medium: &Medium,
        wacz: &Arc<Wacz>,
        depth: usize,
    ) -> Result<bool, String> {
        let is_own = |name: &str| name.starts_with(INDEXES) || name.starts_with(ARCHIVE);
        if wacz.members().any(|(name, _)| is_own(name)) {
            return Ok(false);
        }
        let text = wacz.datapackage().unwrap_or_default();
        let about: Multi = serde_json::from_str(&text).unwrap_or_default();
        if about.profile.as_deref() != Some(MULTI) {
            return Ok(false);
        }
        if depth >= MAX_DEPTH {
            let file = wacz.file();
            return Err(format!(
                "{file}: packages are nested more than {MAX_DEPTH} levels deep"
            ));
        }
        let mut inner: Vec<String> = Vec::new();
        for (name, _) in wacz.members() {
            if name.len() >= 5 && name[name.len() - 5..].eq_ignore_ascii_case(".wacz") {
                inner.push(name.to_owned());
            }
        }
        for name in &inner {
            let all: Vec<String> = members.iter().chain([name]).cloned().collect();
            match wacz.inner(name) {
                Ok(Some(one)) => self.opened(location, &all, medium, &Arc::new(one), depth + 1),
                Ok(None) => {
                    let why = format!(
                        "{}: the member {name} must not be compressed again",
                        wacz.file()
                    );
                    self.broken(location, medium.clone(), why);
                }
                Err(error) => self.broken(location, medium.clone(), error.to_string()),
            }
        }
        for resource in about.resources {
            if inner.contains(&resource.path) {
                continue;
            }
            match location.join(&resource.path) {
                Ok(at) => self.at(&at, depth + 1),
                Err(why) => {
                    let why = format!("{}: {why}", wacz.file());
                    self.broken(location, medium.clone(), why);
                }
            }
        }
        Ok(true)
    }

    /// Adds a package that cannot be read. The package is read again when the version of the file differs
    /// from `medium`.
    fn broken(&mut self, location: &Location, medium: Medium, why: String) {
        self.found.push(Arc::new(Package {
            number: number(),
            listed: self.listed.clone(),
            location: location.clone(),
            members: Vec::new(),
            medium,
            entries: Vec::new(),
            archives: HashMap::new(),
            requires: OnceLock::new(),
            size: None,
            problem: Some(why),
        }));
    }
}

/// Returns the next package number.
fn number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

/// The fields of `datapackage.json` that describe a package of packages.
#[derive(Default, Deserialize)]
struct Multi {
    profile: Option<String>,
    #[serde(default)]
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    #[serde(default)]
    path: String,
}

fn version(path: &Path) -> Option<FileVersion> {
    fs::metadata(path).ok().as_ref().map(FileVersion::of)
}

/// Reads the indexes of a package.
fn indexes(
    location: &Location,
    medium: &Medium,
    wacz: &Wacz,
    package: u64,
) -> Result<Vec<Arc<Entry>>, String> {
    let shown = wacz.file();
    let failed = |error: crawlspace_wacz::Error| error.to_string();
    let path = match location {
        Location::File(path) => path.clone(),
        url => PathBuf::from(url.to_string()),
    };
    let part = |place: Range<u64>| match medium {
        Medium::Disk(version) => NamedFile::part(path.clone(), *version, place),
        Medium::Remote(version, _) => NamedFile::remote_part(version, place),
        Medium::None => {
            NamedFile::broken(path.clone(), format!("{shown}: the file no longer exists"))
        }
    };
    let mut entries = Vec::new();
    let mut add = |file: NamedFile, cluster: Option<Cluster>, spelled| {
        let mut entry = Entry::new(file, cluster.map(Arc::new), spelled);
        entry.package = package;
        if let Medium::Disk(version) = medium {
            entry.made_of = Some(*version);
        }
        entries.push(Arc::new(entry));
    };
    for index in wacz.indexes() {
        let name = index.name();
        let stem = name.strip_suffix(".gz").unwrap_or(name);
        let stem = stem.rsplit_once('.').map_or(stem, |(stem, _)| stem);
        let secondary = format!("{stem}.idx");
        let place = wacz.place(name).map_err(failed)?;
        let is_compressed = name.ends_with(".gz");
        if let Some(place) = place.clone().filter(|_| is_compressed)
            && wacz.members().any(|(name, _)| name == secondary)
        {
            let text = wacz.unpacked(&secondary, MAX_TEXT).map_err(failed)?;
            let short = name.strip_prefix(INDEXES).unwrap_or(name);
            match blocks(&text, short, place.end - place.start) {
                Ok(text) => {
                    let cluster = Cluster::of_part(&path, short, part(place));
                    let file = NamedFile::made(path.clone(), text);
                    add(file, Some(cluster), Spelled::Somehow);
                    continue;
                }
                // The secondary index is optional: without it, the whole index is read.
                Err(why) => {
                    tracing::info!(package = %shown, %secondary, %why, "a secondary index is not used");
                }
            }
        }
        let is_large = |place: &Range<u64>| {
            matches!(medium, Medium::Remote(..))
                && !is_compressed
                && place.end - place.start > MAX_SORTED
        };
        match place.filter(is_large) {
            Some(place) => add(part(place), None, Spelled::Somehow),
            None => {
                let text = sorted(wacz, index)?;
                add(NamedFile::made(path.clone(), text), None, Spelled::Here);
            }
        }
    }
    Ok(entries)
}

/// Reads the lines of an index, replaces their keys by urlkeys, and sorts them. A trailing blank marks lines whose key
/// was replaced.
fn sorted(wacz: &Wacz, index: &crawlspace_wacz::Member) -> Result<Vec<u8>, String> {
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
        let respelled = Shape::of(line).and_then(|shape| {
            let (key, rest) = line.split_at(shape.key);
            match canonical(key, &line[shape.second + 1..]) {
                Cow::Owned(urlkey) => Some([&urlkey, rest.trim_ascii_end(), b" "].concat()),
                Cow::Borrowed(_) => None,
            }
        });
        match respelled {
            Some(line) => all.push(line.into()),
            None if line.is_empty() => {}
            None => all.push(line.trim_ascii_end().into()),
        }
    }
    all.sort_unstable();
    all.dedup();
    let mut text = all.join(&b'\n');
    text.push(b'\n');
    Ok(text)
}

/// Converts a secondary index of a package to the ZipNum form. In packages, blocks are described in JSON, below header
/// lines.
///
/// # Errors
/// Returns the reason why the secondary index is unusable: it is not sorted, or its blocks do not cover the whole
/// index.
fn blocks(text: &[u8], part: &str, size: u64) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut covered = 0;
    let mut before: Box<[u8]> = Box::default();
    for line in text.split(|&byte| byte == b'\n') {
        if line.is_empty() || line.starts_with(b"!") {
            continue;
        }
        let shown = || String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
        let Some(block) = Block::read(line) else {
            return Err(format!("{:?} does not describe a block", shown()));
        };
        if *block.part != *part && !block.part.is_empty() {
            return Err(format!("{:?} names a file other than {part}", shown()));
        }
        if block.length == 0 {
            continue;
        }
        if block.offset != covered {
            return Err(format!(
                "{:?}: the previous block ends at byte {covered}",
                shown()
            ));
        }
        if block.begin < before {
            return Err(format!("{:?} is not in order", shown()));
        }
        covered = block.offset.saturating_add(block.length);
        out.extend_from_slice(&block.begin);
        out.extend_from_slice(format!("\t{part}\t{}\t{}\n", block.offset, block.length).as_bytes());
        before = block.begin;
    }
    if covered != size {
        return Err(format!(
            "its blocks end at byte {covered}, but {part} ends at byte {size}"
        ));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secondary_index_of_a_package_is_read_like_that_of_a_cluster() {
        let text = b"!meta 0 {\"format\": \"cdxj-gzip-1.0\", \"filename\": \"index.cdx.gz\"}\n\
            com,a)/ 2016 {\"offset\": 0, \"length\": 10, \"digest\": \"sha256:0\", \"filename\": \"index.cdx.gz\"}\n\
            com,b)/ 2016\tindex.cdx.gz\t10\t5\n";
        let found = blocks(text, "index.cdx.gz", 15).unwrap();
        let expected = "com,a)/ 2016\tindex.cdx.gz\t0\t10\ncom,b)/ 2016\tindex.cdx.gz\t10\t5\n";
        assert_eq!(String::from_utf8(found).unwrap(), expected);
        let repeated = [&text[..], b"com,b)/ 2016 {\"offset\": 15, \"length\": 0}"].concat();
        assert_eq!(
            blocks(&repeated, "index.cdx.gz", 15).unwrap(),
            expected.as_bytes()
        );
        for (text, size, why) in [
            (
                "com,a)/ 2016 {\"offset\": 0, \"length\": 10}",
                9,
                "end at byte 10",
            ),
            (
                "com,a)/ 2016 {\"offset\": 0, \"length\": 8}",
                9,
                "end at byte 8",
            ),
            (
                "com,a)/ 2016 {\"offset\": 18446744073709551615, \"length\": 10}",
                9,
                "ends at byte 0",
            ),
            ("com,a)/ 2016 {\"offset\": \"0\"}", 9, "a block"),
            (
                "com,a)/ 2016 {\"offset\": 0, \"length\": 1, \"filename\": \"x\"}",
                9,
                "a file other than",
            ),
            (
                "b)/ 1\tindex.cdx.gz\t0\t1\na)/ 1\tindex.cdx.gz\t1\t8",
                9,
                "not in order",
            ),
            ("com,a)/ 2016 {", 9, "a block"),
            ("com,a)/", 9, "a block"),
        ] {
            let found = blocks(text.as_bytes(), "index.cdx.gz", size).unwrap_err();
            assert!(found.contains(why), "{text}: {found}");
        }
    }
}
