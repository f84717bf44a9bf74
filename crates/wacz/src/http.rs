//! Files on web servers that are read or downloaded completely.

use std::io::{self, Read, Write};

use url::Url;

use super::source::Disk;
use super::{Error, Location, Options, Problem};
use crawlspace_fetch::Error as FetchError;
use crawlspace_fetch::blocking::Body;
use crawlspace_fetch::file::RemoteFile;

/// A file that is being received. If receiving fails, reading the body returns an error.
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
    let name = Location::Url(url.clone()).to_string();
    let failed = |error: FetchError| Error::new(&name, error.into());
    let client = options.client().map_err(failed)?;
    let file = RemoteFile::new(&client.net, url, options.policy());
    let file = client.wait(file.whole()).map_err(failed)?.map_err(failed)?;
    Ok(Fetched {
        url: file.url,
        body: Box::new(Checked(client.body(file.body))),
    })
}

/// Converts errors that occur while a body is read to errors of this crate, whose messages contain
/// a remedy.
struct Checked(Body);

impl Read for Checked {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Ok(self.0.read(into).map_err(Problem::from)?)
    }
}

/// Copies `input` to an unnamed file.
pub(super) fn download(
    mut input: impl Read,
    length: Option<u64>,
    options: &Options,
) -> Result<Disk, Problem> {
    let too_large = || Problem::TooLarge {
        what: "the download".to_owned(),
        limit: format!("{} bytes", options.download),
        option: "download",
    };
    if length.is_some_and(|length| length > options.download) {
        return Err(too_large());
    }
    let folder = options.folder.clone().unwrap_or_else(std::env::temp_dir);
    let on_disk = |error: io::Error| {
        let text = format!("{} (folder for downloads): {error}", folder.display());
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
        return Err(Problem::Connection("connection lost".to_owned()));
    }
    Disk::new(file).map_err(on_disk)
}
