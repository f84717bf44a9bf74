//! WACZ files: the indexes in them, and where in them their WARC files are. Nothing is unpacked to disk: blocks and
//! records are read where they lie, and what is compressed as a whole is in memory, which is a secondary index as a
//! rule. A package on a server is read by parts of it.

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

/// Limit of an index that is kept in memory, in bytes.
const MAX_TEXT: u64 = 256 << 20;
/// Size up to which a plain index on a server is put in order in memory, in bytes. A larger one is searched there.
const MAX_SORTED: u64 = 1 << 20;
/// How deep packages may lie in packages.
const MAX_DEPTH: usize = 4;
/// The folders of indexes and of WARC files.
const INDEXES: &str = "indexes/";
const ARCHIVE: &str = "archive/";
/// The profile of a package of packages.
const MULTI: &str = "multi-wacz-package";

/// Where a package is, as a list or a folder has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) location: Location,
    /// The hash of the file, by which it is known at whatever URL it is today.
    pub(super) hash: Option<String>,
}

/// A WACZ file as it was when it was read.
#[derive(Debug)]
pub struct Package {
    /// A number that no other package has had.
    number: u64,
    /// Where it, or the package that it is in or named by, was listed.
    listed: Listed,
    location: Location,
    /// The members in which it is, from the outermost one on.
    members: Vec<String>,
    medium: Medium,
    pub(super) entries: Vec<Arc<Entry>>,
    /// WARC files by the names that rows have for them.
    archives: HashMap<Box<str>, Archive>,
    requires: OnceLock<Arc<[Required]>>,
    size: Option<u64>,
    /// What is wrong, in words.
    pub(super) problem: Option<String>,
}

/// A WARC file in a package.
#[derive(Debug)]
struct Archive {
    member: Box<str>,
    /// Holds its place in the package, once that is known.
    place: OnceLock<Range<u64>>,
}

/// The file, as it was.
#[derive(Clone, Debug)]
enum Medium {
    Disk(FileVersion),
    /// With what it says of its members.
    Remote(Arc<RemoteVersion>, Arc<Wacz>),
    /// It could not be read.
    None,
}

/// Where in a file a WARC file of a package is.
#[derive(Clone, Debug)]
pub enum ArchivePart {
    /// In a file of this machine.
    File(PathBuf, Range<u64>),
    /// In a file on a server.
    Remote(Arc<RemoteVersion>, Range<u64>),
}

/// What reading a package, and the packages in it, needs.
struct Reading<'a> {
    listed: &'a Listed,
    net: Option<&'a Arc<Net>>,
    /// When a server that has not answered is late.
    until: Option<Instant>,
    found: Vec<Arc<Package>>,
}

impl Package {
    /// Reads what is at a place: one package, or those that are in it or named by it. One that is damaged has an index
    /// that cannot be read, so that it is missed.
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

    /// Where it was listed.
    pub(super) fn listed(&self) -> &Listed {
        &self.listed
    }

    /// Where the file is.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// The number that the package's rows have ([`Row::package`](crate::row::Row::package)).
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The name of the package: of its file, or of the member of another package that it is.
    pub fn name(&self) -> String {
        match self.members.last() {
            Some(member) => member.rsplit('/').next().unwrap_or_default().to_owned(),
            None => self.location.name(),
        }
    }

    /// The size of the package in bytes, if it could be read.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// Whether it has a WARC file of that name.
    pub fn has(&self, name: &str) -> bool {
        let name = name.strip_prefix(ARCHIVE).unwrap_or(name);
        self.archives.contains_key(name)
    }

    /// Where the WARC file of that name is. `None` when there is none, or one that is compressed once more.
    ///
    /// # Errors
    /// When the package cannot be read.
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

    /// Asks a server where a WARC file begins.
    fn place(&self, member: &str) -> Result<Range<u64>, SourceError> {
        let failed = |why: String| SourceError::Io(why);
        let Medium::Remote(_, wacz) = &self.medium else {
            return Err(failed(format!("{}: it is gone", self.location)));
        };
        let place = wacz.place(member);
        let place = place.map_err(|error| failed(error.to_string()))?;
        place.ok_or_else(|| failed(format!("{}: {member} is compressed", self.location)))
    }

    /// The packages that this one needs, as it says itself.
    ///
    /// # Errors
    /// When it cannot be read.
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

    /// Whether the file is still as it was when it was read, on a thread that may wait. A server that does not say so at
    /// the moment changes nothing.
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

    /// Whether reading it showed that the file is another one now, or gone.
    pub(super) fn is_superseded(&self) -> bool {
        matches!(&self.medium, Medium::Remote(before, _) if !before.is_last())
    }

    /// Whether it is on a server.
    pub(super) fn is_remote(&self) -> bool {
        matches!(self.location, Location::Url(_))
    }

    /// Takes the URL that the file has now, whose hash is that of this one; false when that is of no use.
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

/// Returns the name that rows have for a WARC file. Some packages have all of their members in one more folder.
fn archive_name(member: &str) -> Option<&str> {
    let (folder, name) = member.split_once(ARCHIVE)?;
    let is_folder = folder.is_empty() || folder.ends_with('/');
    (is_folder && !name.is_empty()).then_some(name)
}

impl Reading<'_> {
    /// Reads the package at a place.
    fn at(&mut self, location: &Location, depth: usize) {
        let opened = match (location, self.net) {
            (Location::File(path), _) => match version(path) {
                Some(version) => Wacz::open(location, &Options::default())
                    .map(|wacz| (Medium::Disk(version), Arc::new(wacz)))
                    .map_err(|error| error.to_string()),
                None => Err(format!("{location}: it is gone")),
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
            (Location::Url(_), None) => Err(format!("{location}: it is on a server")),
        };
        match opened {
            Ok((medium, wacz)) => self.opened(location, &[], &medium, &wacz, depth),
            Err(why) => self.broken(location, why),
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
            self.broken(location, why);
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
            // One that is compressed once more cannot be read in the middle.
            let Some(short) = archive_name(name).filter(|_| is_stored) else {
                continue;
            };
            let place = OnceLock::new();
            // A server would have to be asked for each.
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

    /// Reads the packages that are in one, or named by it; false when it is none of those.
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
                "{file}: packages in packages, more than {MAX_DEPTH} deep"
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
                    let why = format!("{}: {name} is compressed once more", wacz.file());
                    self.broken(location, why);
                }
                Err(error) => self.broken(location, error.to_string()),
            }
        }
        for resource in about.resources {
            if inner.contains(&resource.path) {
                continue;
            }
            match location.join(&resource.path) {
                Ok(at) => self.at(&at, depth + 1),
                Err(why) => self.broken(location, format!("{}: {why}", wacz.file())),
            }
        }
        Ok(true)
    }

    fn broken(&mut self, location: &Location, why: String) {
        let medium = match location {
            Location::File(path) => version(path).map_or(Medium::None, Medium::Disk),
            Location::Url(_) => Medium::None,
        };
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

/// Returns the next number of a package.
fn number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

/// What `datapackage.json` says of a package of packages.
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
        Medium::None => NamedFile::broken(path.clone(), format!("{shown}: it is gone")),
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
                // It is a hint: without it all of the index is read.
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

/// Reads the lines of an index, gives them their urlkeys, and puts them in order. Lines that get another key end with a
/// blank.
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

/// Reads a secondary index as ZipNum has it. In packages, what is said of a block is JSON, and lines before the first one
/// say what it is.
///
/// # Errors
/// When it is of no use: not in order, or its blocks are not all of the index. Why, in words.
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
            return Err(format!("{:?} is about another file than {part}", shown()));
        }
        if block.length == 0 {
            continue;
        }
        if block.offset != covered {
            return Err(format!(
                "{:?}: the block before it ends at byte {covered}",
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
            "its blocks end at byte {covered}, and {part} at byte {size}"
        ));
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
                "another file",
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
