use std::collections::HashMap;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest as _, Sha256};

use super::http::download;
use super::source::Disk;
use super::zip::{Directory, DirectoryEntry, Fault, STORED, member};
use super::{Error, Lines, Location, Options, Problem};
use crawlspace_fetch::blocking::Client;
use crawlspace_fetch::file::{Opened, RemoteFile, RemoteVersion};

/// File name extensions of index members. For members with the same stem, the first extension in this list is
/// preferred: CDXJ has more fields than CDX, and compressed members are faster to read.
const ENDINGS: [&str; 4] = [".cdxj.gz", ".cdxj", ".cdx.gz", ".cdx"];
pub(super) const DATAPACKAGE: &str = "datapackage.json";

/// A WACZ file: a zip file with WARC files, their indexes and their metadata.
///
/// Opening a package reads the end of the file. Everything in that part that can be verified is verified.
/// Only the directory of the zip file is kept in memory.
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

/// The source of the bytes.
#[derive(Debug)]
enum Source {
    Disk(Disk),
    Remote {
        version: Arc<RemoteVersion>,
        client: Client,
        options: Box<Options>,
        /// Downloaded data of members, by the offset of their headers.
        kept: Mutex<HashMap<u64, Disk>>,
    },
    /// A range of a file on a server, in one version of the file. Only the requested bytes are
    /// fetched.
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
            Location::Url(url) => {
                let client = options.client()?;
                let file = RemoteFile::new(&client.net, url, options.policy());
                match client.wait(file.open())?? {
                    Opened::Parts(version) => Source::Remote {
                        version,
                        client,
                        options: Box::new(options.clone()),
                        kept: Mutex::default(),
                    },
                    // The server does not support range requests.
                    Opened::Whole(file) => {
                        let body = client.body(file.body);
                        Source::Disk(download(body, file.length, options)?)
                    }
                }
            }
        })
    }

    fn size(&self) -> u64 {
        match self {
            Source::Disk(disk) => disk.size(),
            Source::Remote { version, .. } => version.size(),
            Source::Version { size, .. } => *size,
        }
    }

    /// Returns a reader of `length` bytes from offset `from`.
    fn section(&self, from: u64, length: u64) -> Box<dyn Read + Send> {
        match self {
            Source::Disk(disk) => Box::new(disk.section(from, length)),
            Source::Remote {
                version, client, ..
            } => Box::new(client.body(version.pieces(from, length))),
            Source::Version { version, begin, .. } => {
                Box::new(version.reader(begin + from, length))
            }
        }
    }

    /// Returns a range of this source as a separate source. Returns `None` for a remote source that downloads
    /// whole members.
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

    /// Returns the offset of this source in the file. Returns `None` for a remote source that downloads whole
    /// members.
    fn begin(&self) -> Option<u64> {
        match self {
            Source::Disk(disk) => Some(disk.begin()),
            Source::Remote { .. } => None,
            Source::Version { begin, .. } => Some(*begin),
        }
    }

    /// Reads and checks the header of a member, and returns a reader of its stored data.
    fn data(&self, entry: &DirectoryEntry, name: &str) -> Result<Box<dyn Read + Send>, Problem> {
        // The size of the local header is still unknown, so limit the read to the longest possible header.
        let most = (entry.longest_header() + entry.compressed).min(entry.end - entry.header);
        match self {
            Source::Disk(_) | Source::Version { .. } => {
                let mut section = self.section(entry.header, most);
                member::read_header(&mut section, entry, name)?;
                Ok(section)
            }
            Source::Remote { options, kept, .. } => {
                // Requests for other members wait during the download, because they would share its
                // bandwidth.
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(disk) = kept.get(&entry.header) {
                    return Ok(Box::new(disk.section(0, entry.compressed)));
                }
                let mut stream = self.section(entry.header, most);
                member::read_header(&mut stream, entry, name)?;
                let disk = download(
                    (&mut stream).take(entry.compressed),
                    Some(entry.compressed),
                    options,
                )?;
                // Read to the end, so that the connection can be reused.
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
    /// Returns the name of the member, such as `indexes/index.cdx.gz`.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Wacz {
    /// Opens a package.
    ///
    /// # Errors
    /// Fails if the file cannot be read, is not a zip file, or is inconsistent.
    pub fn open(location: &Location, options: &Options) -> Result<Wacz, Error> {
        let file = location.to_string();
        let source =
            Source::open(location, options).map_err(|problem| Error::new(&file, problem))?;
        Wacz::of(file, source, options)
    }

    /// Opens a package on a server, in one version of the file. Must be called on a runtime thread that may
    /// block.
    ///
    /// # Errors
    /// Fails like [`Wacz::open`].
    pub fn of_version(version: &Arc<RemoteVersion>, options: &Options) -> Result<Wacz, Error> {
        let source = Source::Version {
            version: Arc::clone(version),
            begin: 0,
            size: version.size(),
        };
        let file = Location::Url(version.file().url()).to_string();
        Wacz::of(file, source, options)
    }

    /// Opens a package that is a member of this package. Returns `None` if the member is compressed, or if
    /// this package is remote and was opened by [`Wacz::open`].
    ///
    /// # Errors
    /// Fails like [`Wacz::open`].
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

    /// Returns the name that error messages use for the package.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the size of the whole file in bytes.
    pub fn size(&self) -> u64 {
        self.source.size()
    }

    /// Returns the CDX and CDXJ members, plain or gzip. If `indexes/` contains none, returns such members from any
    /// folder. Members with the same stem (`index.cdx`, `index.cdx.gz`) are the same index, so only one of them is
    /// returned. Secondary indexes (`index.idx`) are not included.
    pub fn indexes(&self) -> &[Member] {
        &self.indexes
    }

    /// Returns the lines of an index; may be called repeatedly. If the package is remote, the first call downloads the
    /// member, still compressed, to an unnamed file.
    ///
    /// # Errors
    /// Fails if the member cannot be read, or its header does not match the directory.
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

    /// Returns the text of `datapackage.json`, which describes the package.
    ///
    /// # Errors
    /// Fails if the member is missing, damaged, not UTF-8, or larger than the options allow.
    pub fn datapackage(&self) -> Result<String, Error> {
        self.text(DATAPACKAGE)
    }

    /// Returns whether there is a member with this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.directory.find(name).is_some()
    }

    /// Returns the names of all members in the order of the directory, each with a flag that is true for an
    /// uncompressed member.
    pub fn members(&self) -> impl Iterator<Item = (&str, bool)> {
        let entries = self.directory.entries().iter();
        entries.map(|entry| (self.directory.name(entry), entry.method == STORED))
    }

    /// Returns the byte range of a member in the file. Returns `None` if the member is compressed, or if the
    /// package is remote and was opened by [`Wacz::open`].
    ///
    /// # Errors
    /// Fails if there is no such member, or its header does not match the directory.
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

    /// Returns the decompressed content of a member, up to `limit` bytes.
    ///
    /// # Errors
    /// Fails if there is no such member, or if it is damaged or larger than the limit.
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

    /// Returns the directory of the zip file.
    pub(super) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Returns a reader of raw bytes of the file.
    pub(super) fn section(&self, from: u64, length: u64) -> impl Read + Send + use<> {
        self.source.section(from, length)
    }

    /// Returns the text of a small member.
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

    /// Returns the SHA-256 of the whole file, as `sha256:` and hexadecimal digits. `progress` is called with the number
    /// of bytes read so far. A remote file is downloaded completely to compute the hash, and is not kept.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
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

    /// Returns a reader of the decompressed content of a member.
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

/// Formats a SHA-256 hash as `sha256:` and hexadecimal digits.
pub(super) fn sha256_text(hash: &[u8]) -> String {
    let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

fn indexes(directory: &Directory) -> Vec<Member> {
    let all = |folder: &str| -> Vec<Member> {
        // Members with the best extension for their stem, in the order in which the stems first
        // appear.
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

/// Splits a name into its stem and the rank of its index extension.
fn stem(name: &str) -> Option<(&str, usize)> {
    ENDINGS.iter().enumerate().find_map(|(rank, ending)| {
        let (stem, found) = name.split_at_checked(name.len().checked_sub(ending.len())?)?;
        found.eq_ignore_ascii_case(ending).then_some((stem, rank))
    })
}
