//! Files on web servers, read by range requests, or downloaded completely from servers without support for ranges.
//!
//! Every response is compared with the previous ones. A file that changes during reading is an error, and so is a
//! response that contradicts itself; after a broken connection, reading continues at the same position.

mod retry;
mod stream;

use std::io::{self, Read, Write};
use std::sync::Arc;

use url::Url;

use self::retry::Retries;
pub(super) use self::stream::Stream;
use super::source::Disk;
use super::{Error, Location, Options, Problem};
use crawlspace_fetch::answer::{self, Answer};
use crawlspace_fetch::blocking::Body;
use crawlspace_fetch::range::Validators;

/// Number of bytes requested to find out if the server supports ranges.
const PROBE: u64 = 4;

/// A file on a server that supports range requests.
#[derive(Debug)]
pub(super) struct Remote {
    url: Url,
    size: u64,
    validators: Validators,
    options: Options,
}

/// Result of opening a URL.
pub(super) enum Opened {
    /// The server supports range requests.
    Parts(Arc<Remote>),
    /// The file was downloaded, because the server does not support range requests.
    Whole(Disk),
}

impl Remote {
    pub(super) fn open(url: &Url, options: &Options) -> Result<Opened, Problem> {
        let mut retries = Retries::new(options);
        let mut whole_only = false;
        loop {
            let range = (!whole_only).then_some((0, PROBE - 1));
            let attempt = ask(url, range, options).and_then(|answer| match answer {
                Answer::Part {
                    part,
                    validators,
                    body,
                } => {
                    if part.from != 0 || part.last >= PROBE {
                        return Err(Problem::Answer(format!(
                            "requested the first {PROBE} bytes, received {} to {}",
                            part.from, part.last
                        )));
                    }
                    // A response that is read to its end leaves its connection for the next request.
                    let announced = part.last + 1;
                    if io::copy(&mut body.take(announced + 1), &mut io::sink())? != announced {
                        return Err(Problem::Answer(format!(
                            "it does not send the {announced} bytes that it announced"
                        )));
                    }
                    // Without a total size, the end of the file is unknown.
                    Ok(part.total.map(|size| {
                        Opened::Parts(Arc::new(Remote {
                            url: url.clone(),
                            size,
                            validators,
                            options: options.clone(),
                        }))
                    }))
                }
                Answer::Whole { body, length, .. } => {
                    let disk = download(body, length, options)?;
                    Ok(Some(Opened::Whole(disk)))
                }
                Answer::NoSuchPart { total: Some(0) } => {
                    Err(Problem::NotZip("the file is empty".to_owned()))
                }
                Answer::NoSuchPart { .. } => Ok(None),
            });
            match attempt {
                Ok(Some(opened)) => return Ok(opened),
                Ok(None) if whole_only => {
                    let why = "it sends neither all of the file nor a part of known size";
                    return Err(Problem::Answer(why.to_owned()));
                }
                Ok(None) => whole_only = true,
                Err(problem) => retries.retry(problem)?,
            }
        }
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Returns a reader of `length` bytes from offset `from`. The request is sent when the first byte is read.
    pub(super) fn stream(self: &Arc<Remote>, from: u64, length: u64) -> Stream {
        Stream::new(Arc::clone(self), from, length)
    }

    /// Downloads `length` bytes of `input` to an unnamed file.
    pub(super) fn keep(&self, input: impl Read, length: u64) -> Result<Disk, Problem> {
        download(input, Some(length), &self.options)
    }
}

/// Requests a file, or a range of its bytes, with both ends included.
fn ask(url: &Url, range: Option<(u64, u64)>, options: &Options) -> Result<Answer<Body>, Problem> {
    let range = range.map(|(from, last)| format!("bytes={from}-{last}"));
    let response = options.send(answer::request(url, range.as_deref())?)?;
    let (status, headers) = (response.status, &response.headers);
    Ok(Answer::of(status, headers, response.url, response.body)?)
}

/// A file being received. Failures appear as errors of reading it.
pub struct Fetched {
    /// The URL of the file, after redirects.
    pub url: Url,
    /// The content of the file.
    pub body: Box<dyn Read + Send>,
}

/// Requests a file of any kind, with the same checks as for packages.
///
/// # Errors
/// Fails if the server does not send the file.
pub fn fetch(url: &Url, options: &Options) -> Result<Fetched, Error> {
    whole(url, options)
        .map_err(|problem| Error::new(Location::Url(url.clone()).to_string(), problem))
}

/// Requests a whole file. If its length is known, a broken connection is resumed where it broke.
fn whole(url: &Url, options: &Options) -> Result<Fetched, Problem> {
    let mut retries = Retries::new(options);
    loop {
        let attempt = ask(url, None, options).and_then(|answer| match answer {
            Answer::Whole {
                url: from,
                body,
                validators,
                length,
            } => Ok(Fetched {
                url: from,
                body: match length {
                    Some(size) => {
                        let remote = Remote {
                            url: url.clone(),
                            size,
                            validators,
                            options: options.clone(),
                        };
                        Box::new(Stream::begun(Arc::new(remote), body))
                    }
                    None => Box::new(body),
                },
            }),
            _ => Err(Problem::Answer(
                "it sends a part instead of the whole file".to_owned(),
            )),
        });
        match attempt {
            Ok(whole) => return Ok(whole),
            Err(problem) => retries.retry(problem)?,
        }
    }
}

/// Passes a file to `read`, which may stop before its end, and which is called again if the connection breaks.
pub(super) fn beginning<T>(
    url: &Url,
    options: &Options,
    read: impl Fn(&mut dyn Read) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let mut retries = Retries::new(options);
    loop {
        let attempt = ask(url, None, options).and_then(|answer| match answer {
            Answer::Whole { mut body, .. } => read(&mut body),
            _ => Err(Problem::Answer(
                "it sends a part instead of the whole file".to_owned(),
            )),
        });
        match attempt {
            Ok(read) => return Ok(read),
            Err(problem) => retries.retry(problem)?,
        }
    }
}

/// Copies `input` to an unnamed file.
fn download(mut input: impl Read, length: Option<u64>, options: &Options) -> Result<Disk, Problem> {
    let too_large = || Problem::TooLarge {
        what: "what has to be downloaded of it".to_owned(),
        limit: format!("{} bytes", options.download),
        option: "download",
    };
    if length.is_some_and(|length| length > options.download) {
        return Err(too_large());
    }
    let folder = options.folder.clone().unwrap_or_else(std::env::temp_dir);
    let on_disk = |error: io::Error| {
        let text = format!("{} (for what is downloaded): {error}", folder.display());
        Problem::Io(io::Error::new(error.kind(), text))
    };
    let mut file = tempfile::tempfile_in(&folder).map_err(on_disk)?;
    let mut buffer = vec![0; 64 * 1024];
    let mut count = 0;
    loop {
        let n = input.read(&mut buffer)?;
        if n == 0 {
            break;
        }
        count += n as u64;
        if count > options.download {
            return Err(too_large());
        }
        file.write_all(&buffer[..n]).map_err(on_disk)?;
    }
    if length.is_some_and(|length| length != count) {
        return Err(Problem::Connection("the connection broke off".to_owned()));
    }
    Disk::new(file).map_err(on_disk)
}
