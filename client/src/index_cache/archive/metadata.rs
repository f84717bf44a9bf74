//! The records of a job in its metadata files.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use xxhash_rust::xxh3::Xxh3;

use super::super::{Error, Input, JobId, Work};
use super::catalogue::MetadataFile;
use super::{Found, Kind, Options, Record, Taker};
use crate::wacz::Location;
use crate::warc::{self, Header, Problem, Reader, RecordType};

/// What is read of a file at once, in bytes.
const STEP: usize = 256 * 1024;

/// Reads a file from its beginning to its end, gives the records of the job to `into`, and tells what was found.
///
/// # Errors
/// When it cannot be read, is damaged, or does not tell whose its records are.
pub(super) fn read(
    file: &MetadataFile,
    job: JobId,
    _options: &Options,
    work: &Work,
    into: &mut Taker<'_>,
    found: &mut Found,
) -> Result<(), Error> {
    let shown = file.location.to_string();
    let source: Box<dyn Read> = match &file.location {
        Location::File(path) => {
            // Opening a pipe might wait for ever.
            let about = std::fs::metadata(path).map_err(Error::io(path, "read"))?;
            if !about.is_file() {
                let error = io::Error::other("this is no file, but a folder or a device");
                return Err(Error::io(path, "read")(error));
            }
            Box::new(File::open(path).map_err(Error::io(path, "open"))?)
        }
        Location::Url(_) => {
            return Err(Error::Remote {
                url: shown,
                what: "not read so far".to_owned(),
            })
        }
    };
    let mut seen = Seen {
        source,
        work,
        size: 0,
        sum: Xxh3::new(),
    };
    let outcome = {
        let input = BufReader::with_capacity(STEP, &mut seen);
        let mut pass = Pass {
            file,
            shown: &shown,
            job,
            into,
            found,
        };
        pass.read(Reader::new(shown.clone(), input).with_shared_members())
    };
    // The file is not to blame for what could not be read of it.
    work.check()?;
    if outcome? == Whose::Ours {
        found.files.push(Input {
            name: file.name.clone(),
            size: seen.size,
            checksum: Some(format!("{:032x}", seen.sum.digest128())),
        });
    }
    Ok(())
}

/// The bytes of a file as they go by.
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
        self.sum.update(into.get(..n).unwrap_or_default());
        Ok(n)
    }
}

/// Whose a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Ours,
    Others,
}

struct Pass<'p, 't> {
    file: &'p MetadataFile,
    shown: &'p str,
    job: JobId,
    into: &'p mut Taker<'t>,
    found: &'p mut Found,
}

impl Pass<'_, '_> {
    fn read<R: BufRead>(&mut self, mut file: Reader<R>) -> Result<Whose, Error> {
        while let Some(mut record) = file.next()? {
            let header = record.header();
            let url = header.target_uri().unwrap_or_default();
            let stated = job_of(url);
            if stated == Some(self.job) {
                // All of a file is about one job.
            } else if stated.is_some() && !self.file.is_certain {
                return Ok(Whose::Others);
            }
            let Some(kind) = kind_of(header) else {
                record.finish()?;
                continue;
            };
            if stated.is_none() && !self.file.is_certain {
                let what = "its URL has no jobid=, and the name of the file has several numbers: nobody can tell whose it is";
                return Err(record.error(Problem::Header(what.to_owned())).into());
            }
            if stated.is_some_and(|stated| stated != self.job) {
                record.finish()?;
                continue;
            }
            let url = String::from_utf8_lossy(url).into_owned();
            let (offset, length) = (record.offset(), header.content_length());
            let mut block = Block {
                inner: &mut record,
                failure: None,
            };
            let taken = (self.into)(
                kind,
                Record {
                    file: self.shown,
                    offset,
                    url: &url,
                    length,
                    block: &mut block,
                },
            );
            // The record knows better than who reads it why it cannot be read.
            if let Some(failure) = block.failure.take() {
                return Err(failure.into());
            }
            taken?;
            record.finish()?;
            match kind {
                Kind::CrawlLog => self.found.crawl_logs += 1,
                Kind::Cdx => self.found.cdxs += 1,
            }
        }
        Ok(Whose::Ours)
    }
}

/// Which of the records that are looked for this is, if it is one.
fn kind_of(header: &Header) -> Option<Kind> {
    if !matches!(
        header.record_type(),
        RecordType::Resource | RecordType::Response | RecordType::Metadata
    ) {
        return None;
    }
    let path = path_of(header.target_uri()?)?;
    let (kind, media_type) = if path.starts_with(b"/crawl/logs/crawl.log") {
        (Kind::CrawlLog, &b"text/plain"[..])
    } else if path.starts_with(b"/crawl/index/cdx") {
        (Kind::Cdx, &b"application/x-cdx"[..])
    } else {
        return None;
    };
    let stated = header.get("Content-Type")?;
    let essence = stated.split(|byte| *byte == b';').next()?.trim_ascii();
    essence.eq_ignore_ascii_case(media_type).then_some(kind)
}

/// The path of a `metadata://` URL, and what follows it.
fn path_of(url: &[u8]) -> Option<&[u8]> {
    let rest = url.strip_prefix(b"metadata://")?;
    rest.get(memchr::memchr(b'/', rest)?..)
}

/// The job that a `metadata://` URL says.
fn job_of(url: &[u8]) -> Option<JobId> {
    let path = path_of(url)?;
    let query = path.get(memchr::memchr(b'?', path)? + 1..)?;
    let value = query
        .split(|byte| *byte == b'&')
        .find_map(|pair| pair.strip_prefix(b"jobid="))?;
    std::str::from_utf8(value).ok()?.parse().ok().map(JobId)
}

/// The block of a record, which remembers what was wrong with it.
struct Block<'b> {
    inner: &'b mut dyn BufRead,
    failure: Option<warc::Error>,
}

impl Block<'_> {
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
        self.inner.read(into).map_err(|error| self.failed(error))
    }
}

impl BufRead for Block<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if let Err(error) = self.inner.fill_buf() {
            return Err(self.failed(error));
        }
        // What is there is given again without reading.
        self.inner.fill_buf()
    }

    fn consume(&mut self, n: usize) {
        self.inner.consume(n);
    }
}
