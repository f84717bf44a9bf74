//! Files on web servers that are no packages, read with the same care.

use std::io::Read;

use url::Url;

use super::{Error, Location, Options, http};

/// A file that is being fetched. What goes wrong with it is an error of reading it.
pub struct Fetched {
    /// Where it comes from: another place than was asked, if one was sent on to it.
    pub url: Url,
    body: Box<dyn Read + Send>,
}

/// Asks for a file.
///
/// # Errors
/// When the server does not send it.
pub fn fetch(url: &Url, options: &Options) -> Result<Fetched, Error> {
    let failed = |problem| Error::new(Location::Url(url.clone()).to_string(), problem);
    let whole = http::whole(url, options).map_err(failed)?;
    Ok(Fetched {
        url: whole.url,
        body: whole.body,
    })
}

impl Read for Fetched {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.body.read(into)
    }
}
