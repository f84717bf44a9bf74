//! Reads the records of a job from one of its metadata files.

use std::fs::File;
use std::io::{self, BufRead, Read};

use xxhash_rust::xxh3::Xxh3;

use super::super::{Error, Input, JobId, Work};
use super::catalogue::MetadataFile;
use super::{JobContents, Kind, Options, Record, Taker, listing};
use crawlspace_wacz as wacz;
use crawlspace_wacz::Location;
use crawlspace_warc::digest::{Digest, Digester};
use crawlspace_warc::http::Head;
use crawlspace_warc::{self as warc, Header, Problem, Reader, RecordType};

/// Maximum number of other jobs that are reported.
const MAX_OTHERS: usize = 16;

/// Reads a file from beginning to end, passes the records of the job to `into`, and adds counts, inputs and notes to
/// `found`.
///
/// # Errors
/// Fails if the file cannot be read, is damaged, or its records cannot be assigned to a job.
pub(super) fn read(
    file: &MetadataFile,
    job: JobId,
    options: &Options,
    work: &Work,
    into: &mut Taker<'_>,
    found: &mut JobContents,
) -> Result<(), Error> {
    let (shown, source) = open(file, options)?;
    let mut seen = Seen {
        source,
        work,
        size: 0,
        sum: Xxh3::new(),
    };
    let outcome = {
        let mut pass = Pass {
            file,
            shown: &shown,
            job,
            is_ours: file.is_certain,
            into,
            found,
        };
        pass.read(Reader::new(shown.clone(), &mut seen).with_shared_members())
    };
    // Return a cancellation unchanged, because it is not an error of the file.
    work.check()?;
    match outcome? {
        Whose::Ours => found.files.push(Input {
            name: file.name.clone(),
            size: seen.size,
            checksum: Some(format!("{:032x}", seen.sum.digest128())),
        }),
        Whose::Others => found.files_of_others.push(Input {
            name: file.name.clone(),
            // The number of bytes read is not the size, because the file was not read to its end.
            size: match &file.location {
                Location::File(path) => std::fs::metadata(path).map_or(0, |there| there.len()),
                Location::Url(_) => 0,
            },
            checksum: None,
        }),
    }
    Ok(())
}

/// Opens a file, and returns its name for messages.
fn open(file: &MetadataFile, options: &Options) -> Result<(String, Box<dyn Read>), Error> {
    let shown = file.location.to_string();
    match &file.location {
        Location::File(path) => {
            // Opening a pipe might block forever.
            let about = std::fs::metadata(path).map_err(Error::io(path, "read"))?;
            if !about.is_file() {
                let error = io::Error::other("this is not a file, but a folder or a device");
                return Err(Error::io(path, "read")(error));
            }
            let file = File::open(path).map_err(Error::io(path, "open"))?;
            Ok((shown, Box::new(file)))
        }
        Location::Url(url) => {
            let http = file.reach.options(url, &options.http);
            let fetched = wacz::fetch(url, &http).map_err(listing::remote)?;
            let shown = if fetched.url == *url {
                shown
            } else {
                format!(
                    "{shown}, redirected to {}",
                    Location::Url(fetched.url.clone())
                )
            };
            Ok((shown, fetched.body))
        }
    }
}

/// Counts and hashes the bytes of a file while they are read.
struct Seen<'w> {
    source: Box<dyn Read>,
    work: &'w Work,
    size: u64,
    sum: Xxh3,
}

impl Read for Seen<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.work.check().is_err() {
            return Err(io::Error::other("stopped"));
        }
        let n = self.source.read(into)?;
        self.size += n as u64;
        self.sum.update(&into[..n]);
        Ok(n)
    }
}

/// The owner of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Ours,
    Others,
}

struct Pass<'p, 't> {
    file: &'p MetadataFile,
    shown: &'p str,
    job: JobId,
    /// True if the whole file belongs to this job, according to its name or to the first URL with a job.
    is_ours: bool,
    into: &'p mut Taker<'t>,
    found: &'p mut JobContents,
}

impl Pass<'_, '_> {
    fn read<R: Read>(&mut self, mut file: Reader<R>) -> Result<Whose, Error> {
        while let Some(record) = file.next()? {
            let url = record.header().target_uri().unwrap_or_default();
            let stated = job_of(url);
            let is_ours = match stated {
                Some(stated) => stated == Some(self.job),
                None => self.is_ours,
            };
            if stated.is_some() && !is_ours && !self.file.is_certain {
                return Ok(Whose::Others);
            }
            self.is_ours |= stated.is_some() && is_ours;
            if let Some(Some(other)) = stated.filter(|_| !is_ours)
                && self.found.others.len() < MAX_OTHERS
            {
                self.found.others.insert(other);
            }
            match Wanted::of(record.header()) {
                Some(wanted) if is_ours || stated.is_none() => {
                    self.give(wanted, is_ours, record)?;
                }
                _ => {
                    record.finish()?;
                }
            }
        }
        Ok(Whose::Ours)
    }

    /// Passes a record to its consumer, unless it has an unexpected media type.
    fn give<R: Read>(
        &mut self,
        wanted: Wanted,
        is_ours: bool,
        mut record: warc::Record<'_, R>,
    ) -> Result<(), Error> {
        let about = About::of(&mut record)?;
        let media_type = wanted.media_type();
        let (url, offset) = (&about.url, about.offset);
        if essence(&about.media_type) != media_type.as_bytes() {
            let stated = String::from_utf8_lossy(&about.media_type);
            self.found.notes.push(format!(
                "{}: offset {offset}: {url} is skipped: its media type is {stated:?} instead of {media_type}",
                self.file.name
            ));
            record.finish()?;
            return Ok(());
        }
        if !is_ours {
            // The migration is optional.
            if wanted == Wanted::Migration {
                record.finish()?;
                return Ok(());
            }
            let what = "its URL has no jobid=, and the name of the file has several numbers: the job is ambiguous";
            return Err(invalid(&record, what));
        }
        if about.is_segment {
            let what = "it is a segment of a record, and segmented records are not supported";
            return Err(invalid(&record, what));
        }
        if about.is_truncated {
            self.found.notes.push(format!(
                "{}: offset {offset}: {url} was cut short when it was written (WARC-Truncated)",
                self.shown
            ));
        }
        let mut block = Block {
            inner: &mut record,
            digester: about.digester,
            failure: None,
        };
        let taken = match wanted {
            Wanted::Raw(kind) => (self.into)(
                kind,
                Record {
                    file: self.shown,
                    offset,
                    url,
                    length: about.length,
                    block: &mut block,
                },
            ),
            Wanted::Migration => {
                let read = self.found.migrations.read(&self.file.name, &mut block);
                read.map_err(|error| Error::Lines {
                    file: self.shown.to_owned(),
                    what: error.to_string(),
                })
            }
        };
        if taken.is_ok() {
            block.read_rest();
        }
        // The error of the record names the cause more precisely than the error of its reader.
        if let Some(failure) = block.failure {
            return Err(failure.into());
        }
        let made = block.digester.map(Digester::finish);
        taken?;
        match about.digest {
            Some(digest) if made.as_ref() != Some(&digest) => {
                return Err(record.error(Problem::Digest(digest.text())).into());
            }
            _ => record.finish()?,
        };
        match wanted {
            Wanted::Raw(Kind::CrawlLog) => self.found.crawl_logs += 1,
            Wanted::Raw(Kind::Cdx) => self.found.cdxs += 1,
            Wanted::Migration => {}
        }
        Ok(())
    }
}

/// The fields of a record that are used.
struct About {
    url: String,
    offset: u64,
    /// The length of the block in bytes, without HTTP headers.
    length: u64,
    media_type: Vec<u8>,
    digest: Option<Digest>,
    /// Hashes the part of the block that was read.
    digester: Option<Digester>,
    is_segment: bool,
    is_truncated: bool,
}

impl About {
    /// Reads the header, and the HTTP header at the start of the block, if there is one.
    fn of<R: Read>(record: &mut warc::Record<'_, R>) -> Result<About, Error> {
        let header = record.header();
        let digest = header.get("WARC-Block-Digest").and_then(Digest::parse);
        let mut about = About {
            url: String::from_utf8_lossy(header.target_uri().unwrap_or_default()).into_owned(),
            offset: record.offset(),
            length: header.content_length(),
            media_type: header.get("Content-Type").unwrap_or_default().to_vec(),
            digester: digest.as_ref().map(|it| Digester::new(it.algorithm)),
            digest,
            is_segment: header.get("WARC-Segment-Number").is_some(),
            is_truncated: header.get("WARC-Truncated").is_some(),
        };
        if essence(&about.media_type) != b"application/http" {
            return Ok(about);
        }
        let bytes = record.http_head()?;
        let head = Head::of(&bytes);
        for name in ["Transfer-Encoding", "Content-Encoding"] {
            let coding = head.get(name);
            if coding.is_some_and(|coding| !coding.eq_ignore_ascii_case(b"identity")) {
                let what = "its HTTP content or transfer coding is not supported";
                return Err(invalid(record, what));
            }
        }
        about.media_type = head.get("Content-Type").unwrap_or_default().to_vec();
        about.length = about.length.saturating_sub(bytes.len() as u64);
        if let Some(digester) = &mut about.digester {
            digester.update(&bytes);
        }
        Ok(about)
    }
}

fn invalid<R: Read>(record: &warc::Record<'_, R>, what: &str) -> Error {
    record.error(Problem::Header(what.to_owned())).into()
}

/// A kind of record that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Raw(Kind),
    /// The new positions of records: see [`Migrations`](super::Migrations).
    Migration,
}

impl Wanted {
    fn of(header: &Header) -> Option<Wanted> {
        if !matches!(
            header.record_type(),
            RecordType::Resource | RecordType::Response | RecordType::Metadata
        ) {
            return None;
        }
        let path = path_of(header.target_uri()?)?;
        if path.starts_with(b"/crawl/logs/crawl.log") {
            return Some(Wanted::Raw(Kind::CrawlLog));
        }
        if path.starts_with(b"/crawl/index/cdx") {
            return Some(Wanted::Raw(Kind::Cdx));
        }
        // The compression tools write a URL without a host (`metadata://crawl/index/…`), and without a job.
        let path = path.strip_prefix(b"/crawl").unwrap_or(path);
        path.starts_with(b"/index/deduplicationmigration")
            .then_some(Wanted::Migration)
    }

    /// Returns the media type of records of this kind.
    fn media_type(self) -> &'static str {
        match self {
            Wanted::Raw(Kind::CrawlLog) | Wanted::Migration => "text/plain",
            Wanted::Raw(Kind::Cdx) => "application/x-cdx",
        }
    }
}

/// Returns a media type without parameters, in lower case.
fn essence(media_type: &[u8]) -> Vec<u8> {
    let bare = media_type.split(|byte| *byte == b';').next();
    bare.unwrap_or_default().trim_ascii().to_ascii_lowercase()
}

/// Returns the path of a `metadata://` URL with everything after it.
fn path_of(url: &[u8]) -> Option<&[u8]> {
    let colon = memchr::memchr(b':', url)?;
    let (scheme, rest) = url.split_at_checked(colon)?;
    let rest = rest.strip_prefix(b"://")?;
    if !scheme.eq_ignore_ascii_case(b"metadata") {
        return None;
    }
    rest.get(memchr::memchr(b'/', rest)?..)
}

/// Returns the job of a `metadata://` URL; the inner `None` means that the number is invalid.
fn job_of(url: &[u8]) -> Option<Option<JobId>> {
    let path = path_of(url)?;
    let query = path.get(memchr::memchr(b'?', path)? + 1..)?;
    let value = query
        .split(|byte| *byte == b'&')
        .find_map(|pair| pair.strip_prefix(b"jobid="))?;
    let digits = std::str::from_utf8(value)
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    Some(digits.and_then(|digits| digits.parse().ok().map(JobId)))
}

/// The block of a record, which keeps the first failure of reading it.
struct Block<'b> {
    inner: &'b mut dyn BufRead,
    digester: Option<Digester>,
    failure: Option<warc::Error>,
}

impl Block<'_> {
    /// Reads the rest of the block, if its digest is needed.
    fn read_rest(&mut self) {
        while self.digester.is_some() {
            match self.fill_buf().map(<[u8]>::len) {
                Ok(0) | Err(_) => break,
                Ok(n) => self.consume(n),
            }
        }
    }

    fn failed(&mut self, error: io::Error) -> io::Error {
        match error.downcast::<warc::Error>() {
            Ok(failure) => {
                let text = failure.to_string();
                self.failure.get_or_insert(failure);
                io::Error::other(text)
            }
            Err(error) => error,
        }
    }
}

impl Read for Block<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(into).map_err(|error| self.failed(error))?;
        if let Some(digester) = &mut self.digester {
            digester.update(&into[..n]);
        }
        Ok(n)
    }
}

impl BufRead for Block<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if let Err(error) = self.inner.fill_buf() {
            return Err(self.failed(error));
        }
        // Return the buffered bytes again without reading.
        self.inner.fill_buf()
    }

    fn consume(&mut self, n: usize) {
        if let Some(digester) = &mut self.digester {
            // This call does not read, because the bytes are buffered.
            if let Ok(here) = self.inner.fill_buf() {
                digester.update(here.get(..n).unwrap_or(here));
            }
        }
        self.inner.consume(n);
    }
}
