use std::collections::HashMap;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest as _, Sha256};

use super::http::{Opened, Remote};
use super::source::Disk;
use super::zip::{Directory, DirectoryEntry, Fault, STORED, member};
use super::{Error, Lines, Location, Options, Problem};
use crawlspace_fetch::file::RemoteVersion;

/// The endings of index members, the best one of several of one stem first: CDXJ says more than CDX, and what is
/// compressed is read sooner.
const ENDINGS: [&str; 4] = [".cdxj.gz", ".cdxj", ".cdx.gz", ".cdx"];
pub(super) const DATAPACKAGE: &str = "datapackage.json";

/// A package of web archives: a zip file with WARC files, their indexes and what they are about.
///
/// Opening one reads the end of the file. Nothing in it is believed that can be checked, and nothing is kept in memory
/// but the directory of the zip file.
///
/// ```no_run
/// use crawlspace_wacz::{Location, Options, Wacz};
/// let wacz = Wacz::open(&Location::parse("crawl-1.wacz")?, &Options::default())?;
/// for index in wacz.indexes() {
///     let mut lines = wacz.lines(index)?;
///     while let Some(line) = lines.next()? {
///         println!("{}", String::from_utf8_lossy(line));
///     }
/// }
/// # Ok::<(), crawlspace_wacz::Error>(())
/// ```
#[derive(Debug)]
pub struct Wacz {
    file: String,
    source: Source,
    options: Options,
    directory: Directory,
    indexes: Vec<Member>,
}

/// Where the bytes are.
#[derive(Debug)]
enum Source {
    Disk(Disk),
    Remote {
        remote: Arc<Remote>,
        /// What was downloaded of it: the data of members, by the places of their headers.
        kept: Mutex<HashMap<u64, Disk>>,
    },
    /// A part of a version of a file, of which nothing is downloaded but what is read.
    Version {
        version: Arc<RemoteVersion>,
        begin: u64,
        size: u64,
    },
}

impl Source {
    fn open(location: &Location, options: &Options) -> Result<Source, Problem> {
        Ok(match location {
            Location::File(path) => Source::Disk(Disk::open(path)?),
            Location::Url(url) => match Remote::open(url, options)? {
                Opened::Whole(disk) => Source::Disk(disk),
                Opened::Parts(remote) => Source::Remote {
                    remote,
                    kept: Mutex::default(),
                },
            },
        })
    }

    fn size(&self) -> u64 {
        match self {
            Source::Disk(disk) => disk.size(),
            Source::Remote { remote, .. } => remote.size(),
            Source::Version { size, .. } => *size,
        }
    }

    /// A reader of `length` bytes from offset `from`.
    fn section(&self, from: u64, length: u64) -> Box<dyn Read + Send> {
        match self {
            Source::Disk(disk) => Box::new(disk.section(from, length)),
            Source::Remote { remote, .. } => Box::new(remote.stream(from, length)),
            Source::Version { version, begin, .. } => {
                Box::new(version.reader(begin + from, length))
            }
        }
    }

    /// A part of what it has, as if it were all. `None` when it is on a server and is not read by parts.
    fn part(&self, part: Range<u64>) -> Option<Source> {
        match self {
            Source::Disk(disk) => Some(Source::Disk(disk.part(part))),
            Source::Remote { .. } => None,
            Source::Version { version, begin, .. } => Some(Source::Version {
                version: Arc::clone(version),
                begin: begin + part.start,
                size: part.end - part.start,
            }),
        }
    }

    /// Where in the file it begins. `None` where it has no part of that.
    fn begin(&self) -> Option<u64> {
        match self {
            Source::Disk(disk) => Some(disk.begin()),
            Source::Remote { .. } => None,
            Source::Version { begin, .. } => Some(*begin),
        }
    }

    /// What is stored of a member, its header read and found to be right.
    fn data(&self, entry: &DirectoryEntry, name: &str) -> Result<Box<dyn Read + Send>, Problem> {
        // The size of its own header is not known, and what comes after it may be anything.
        let most = (entry.longest_header() + entry.compressed).min(entry.end - entry.header);
        match self {
            Source::Disk(_) | Source::Version { .. } => {
                let mut section = self.section(entry.header, most);
                member::read_header(&mut section, entry, name)?;
                Ok(section)
            }
            Source::Remote { remote, kept } => {
                // Whoever wants another member meanwhile waits; the line to the server is the same one.
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(disk) = kept.get(&entry.header) {
                    return Ok(Box::new(disk.section(0, entry.compressed)));
                }
                let mut stream = remote.stream(entry.header, most);
                member::read_header(&mut stream, entry, name)?;
                let disk = remote.keep((&mut stream).take(entry.compressed), entry.compressed)?;
                // A connection whose answer was read can be used again.
                let _ = io::copy(&mut stream, &mut io::sink());
                kept.insert(entry.header, disk.clone());
                Ok(Box::new(disk.section(0, entry.compressed)))
            }
        }
    }
}

/// A member of a package.
#[derive(Clone, Debug)]
pub struct Member {
    name: Arc<str>,
    entry: DirectoryEntry,
}

impl Member {
    /// Its name: `indexes/index.cdx.gz`.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Wacz {
    /// Opens a package.
    ///
    /// # Errors
    /// When it cannot be read, or is no zip file, or one that contradicts itself.
    pub fn open(location: &Location, options: &Options) -> Result<Wacz, Error> {
        let file = location.to_string();
        let source =
            Source::open(location, options).map_err(|problem| Error::new(&file, problem))?;
        Wacz::of(file, source, options)
    }

    /// Opens the package that is a version of a file on a server, on a thread of a runtime that may wait.
    ///
    /// # Errors
    /// As [`Wacz::open`].
    pub fn of_version(version: &Arc<RemoteVersion>, options: &Options) -> Result<Wacz, Error> {
        let source = Source::Version {
            version: Arc::clone(version),
            begin: 0,
            size: version.size(),
        };
        let file = Location::Url(version.file().url()).to_string();
        Wacz::of(file, source, options)
    }

    /// Opens a package that is a member of this one. `None` when its bytes do not lie there as they are.
    ///
    /// # Errors
    /// As [`Wacz::open`].
    pub fn inner(&self, name: &str) -> Result<Option<Wacz>, Error> {
        let Some((place, begin)) = self.place(name)?.zip(self.source.begin()) else {
            return Ok(None);
        };
        let source = self.source.part(place.start - begin..place.end - begin);
        let file = format!("{}, {name}", self.file);
        let open = |source| Wacz::of(file, source, &self.options);
        source.map(open).transpose()
    }

    fn of(file: String, source: Source, options: &Options) -> Result<Wacz, Error> {
        let at_fault = |fault: Fault| Error {
            file: file.clone(),
            member: fault.member,
            problem: fault.problem,
        };
        let section = |from, length| source.section(from, length);
        let directory =
            Directory::read(source.size(), options.directory, section).map_err(at_fault)?;
        Ok(Wacz {
            file,
            source,
            options: options.clone(),
            indexes: indexes(&directory),
            directory,
        })
    }

    /// Its name as errors have it.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The size of the whole file, in bytes.
    pub fn size(&self) -> u64 {
        self.source.size()
    }

    /// The CDX and CDXJ members, plain or gzip: those in `indexes/`, or anywhere if there are none in there. Of several
    /// of one stem (`index.cdx`, `index.cdx.gz`), which are the same index, one. Not those of other indexes into them
    /// (`index.idx`).
    pub fn indexes(&self) -> &[Member] {
        &self.indexes
    }

    /// The lines of an index, as often as they are wanted. The first time, a member of a remote package is downloaded,
    /// compressed as it is, to a file without a name.
    ///
    /// # Errors
    /// When the member cannot be read, or does not begin as the directory says.
    pub fn lines(&self, index: &Member) -> Result<Lines, Error> {
        let content = self.content(&index.name, &index.entry)?;
        Lines::new(
            &self.file,
            &index.name,
            content,
            index.entry.compressed,
            &self.options,
        )
    }

    /// The text of `datapackage.json`, which says what is in the package.
    ///
    /// # Errors
    /// When there is none, or it is damaged, or no text, or larger than the options allow.
    pub fn datapackage(&self) -> Result<String, Error> {
        self.text(DATAPACKAGE)
    }

    /// Whether there is a member of that name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.directory.find(name).is_some()
    }

    /// The names of all members, in the order of the directory, and whether their bytes lie there as they are.
    pub fn members(&self) -> impl Iterator<Item = (&str, bool)> {
        let entries = self.directory.entries().iter();
        entries.map(|entry| (self.directory.name(entry), entry.method == STORED))
    }

    /// Where in the file the bytes of a member are. `None` when they are compressed, or it was opened at a URL.
    ///
    /// # Errors
    /// When there is no such member, or it does not begin as the directory says.
    pub fn place(&self, name: &str) -> Result<Option<Range<u64>>, Error> {
        let entry = self.entry(name)?;
        let Some(file) = self.source.begin().filter(|_| entry.method == STORED) else {
            return Ok(None);
        };
        let most = entry.longest_header().min(entry.end - entry.header);
        let mut section = self.source.section(entry.header, most);
        let header = member::read_header(&mut section, entry, name)
            .map_err(|problem| Error::of_member(&self.file, name, problem))?;
        let begin = file + entry.header + header;
        Ok(Some(begin..begin + entry.compressed))
    }

    /// What a member unpacks to, which is not to be more than `limit` bytes.
    ///
    /// # Errors
    /// When there is no such member, or it is damaged or larger.
    pub fn unpacked(&self, name: &str, limit: u64) -> Result<Vec<u8>, Error> {
        let entry = self.entry(name)?;
        let of_member = |problem| Error::of_member(&self.file, name, problem);
        if entry.size > limit {
            return Err(of_member(Problem::TooLarge {
                what: "its text".to_owned(),
                limit: format!("{limit} bytes"),
                option: "text",
            }));
        }
        let mut bytes = Vec::new();
        let read = self.content(name, entry)?.read_to_end(&mut bytes);
        read.map_err(|error| of_member(error.into()))?;
        Ok(bytes)
    }

    fn entry(&self, name: &str) -> Result<&DirectoryEntry, Error> {
        let found = self.directory.find(name);
        found.ok_or_else(|| {
            let missing = Problem::Damaged("it is missing".to_owned());
            Error::of_member(&self.file, name, missing)
        })
    }

    /// What the zip file says about itself.
    pub(super) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The bytes of the file as they are.
    pub(super) fn section(&self, from: u64, length: u64) -> impl Read + Send + use<> {
        self.source.section(from, length)
    }

    /// The text of a small member.
    pub(super) fn text(&self, name: &'static str) -> Result<String, Error> {
        let of_member = |problem| Error::of_member(&self.file, name, problem);
        let Some(entry) = self.directory.find(name) else {
            return Err(Error::new(&self.file, Problem::Missing(name)));
        };
        if entry.size > self.options.datapackage {
            return Err(of_member(Problem::TooLarge {
                what: "its text".to_owned(),
                limit: format!("{} bytes", self.options.datapackage),
                option: "datapackage",
            }));
        }
        let mut text = Vec::new();
        let mut content = self.content(name, entry)?;
        let read = content.read_to_end(&mut text);
        read.map_err(|error| of_member(error.into()))?;
        String::from_utf8(text).map_err(|_| of_member(Problem::Json("it is not UTF-8".to_owned())))
    }

    /// SHA-256 of the whole file, `sha256:` and hexadecimal digits. `progress` is told how many bytes were read so far.
    /// All of a remote file is downloaded for that, and nothing of it kept.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn digest(&self, mut progress: impl FnMut(u64)) -> Result<String, Error> {
        let mut hash = Sha256::new();
        let mut buffer = vec![0; 256 * 1024];
        let mut count = 0;
        let mut file = self.source.section(0, self.size());
        loop {
            let read = file.read(&mut buffer);
            let n = read.map_err(|error| Error::new(&self.file, error.into()))?;
            if n == 0 {
                break;
            }
            hash.update(&buffer[..n]);
            count += n as u64;
            progress(count);
        }
        Ok(sha256_text(&hash.finalize()))
    }

    /// What a member unpacks to.
    fn content(
        &self,
        name: &str,
        entry: &DirectoryEntry,
    ) -> Result<impl Read + Send + 'static, Error> {
        let data = self.source.data(entry, name);
        let data = data.map_err(|problem| Error::of_member(&self.file, name, problem))?;
        Ok(member::Content::new(data, entry))
    }
}

/// As hashes of files are written.
pub(super) fn sha256_text(hash: &[u8]) -> String {
    let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

fn indexes(directory: &Directory) -> Vec<Member> {
    let all = |folder: &str| -> Vec<Member> {
        // By stem, which of the endings is best, in the order of the first one of each stem.
        let mut best: Vec<(usize, Member)> = Vec::new();
        let mut place: HashMap<&str, usize> = HashMap::new();
        for entry in directory.entries() {
            let name = directory.name(entry);
            let Some((stem, rank)) = stem(name).filter(|_| name.starts_with(folder)) else {
                continue;
            };
            let found = Member {
                name: name.into(),
                entry: entry.clone(),
            };
            match place.get(stem) {
                Some(&at) if rank < best[at].0 => best[at] = (rank, found),
                Some(_) => {}
                None => {
                    place.insert(stem, best.len());
                    best.push((rank, found));
                }
            }
        }
        best.into_iter().map(|(_, member)| member).collect()
    };
    let usual = all("indexes/");
    if usual.is_empty() {
        return all("");
    }
    usual
}

/// The name without the ending of an index, and which one it has.
fn stem(name: &str) -> Option<(&str, usize)> {
    ENDINGS.iter().enumerate().find_map(|(rank, ending)| {
        let (stem, found) = name.split_at_checked(name.len().checked_sub(ending.len())?)?;
        found.eq_ignore_ascii_case(ending).then_some((stem, rank))
    })
}
