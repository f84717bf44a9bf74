use std::fmt;
use std::path::{Path, PathBuf};

use url::Url;

use super::{Error, Problem};
use crawlspace_fetch::{s3, shown};

/// The location of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Location {
    /// A path in the file system.
    File(PathBuf),
    /// An `http`, `https` or `s3` URL.
    Url(Url),
}

impl Location {
    /// Parses a path, a `file:` URL, an `http(s)` URL, or the URL of an object, `s3://bucket/key`.
    ///
    /// ```
    /// use crawlspace_wacz::Location;
    /// assert_eq!(Location::parse("crawls/a.wacz")?, Location::File("crawls/a.wacz".into()));
    /// assert_eq!(Location::parse("file:///crawls/a.wacz")?, Location::File("/crawls/a.wacz".into()));
    /// assert!(matches!(Location::parse("https://example.org/a.wacz")?, Location::Url(_)));
    /// assert!(matches!(Location::parse("s3://bucket/a.wacz")?, Location::Url(_)));
    /// assert!(Location::parse("ftp://example.org/a.wacz").is_err());
    /// # Ok::<(), crawlspace_wacz::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Problem::Location`] for anything else.
    pub fn parse(text: &str) -> Result<Location, Error> {
        let refused =
            |why: String| Error::new(text.escape_debug().to_string(), Problem::Location(why));
        if text.is_empty() {
            return Err(Error::new(
                "''",
                Problem::Location("neither a path nor a URL".to_owned()),
            ));
        }
        let Some(scheme) = scheme(text) else {
            return Ok(Location::File(PathBuf::from(text)));
        };
        let url = Url::parse(text).map_err(|error| refused(format!("invalid URL: {error}")))?;
        Location::from_url(url).ok_or_else(|| refused(unreadable(scheme)))
    }

    /// Resolves a `path` that a file at this location contains: a URL, an absolute path, or a path relative to the
    /// folder of the file.
    ///
    /// A file at a URL can only refer to other URLs, because its author must not choose files on this machine. Only
    /// files in a bucket can refer to objects in that bucket, because other authors must not use the credentials of
    /// this machine.
    ///
    /// ```
    /// use crawlspace_wacz::Location;
    /// let local = Location::parse("/crawls/all.json")?;
    /// assert_eq!(local.join("2026/a.wacz").unwrap(), Location::File("/crawls/2026/a.wacz".into()));
    /// let remote = Location::parse("https://example.org/crawls/all.json")?;
    /// assert_eq!(remote.join("a.wacz").unwrap().to_string(), "https://example.org/crawls/a.wacz");
    /// assert!(remote.join("file:///etc/passwd").is_err());
    /// # Ok::<(), crawlspace_wacz::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the reason why the resolved location cannot be used.
    pub fn join(&self, path: &str) -> Result<Location, String> {
        if path.is_empty() {
            return Err("its path is empty".to_owned());
        }
        match self {
            Location::Url(base) => {
                let url = base
                    .join(path)
                    .map_err(|error| format!("its path {path:?} is not a valid URL: {error}"))?;
                let is_foreign = url.scheme() == s3::SCHEME
                    && (base.scheme(), base.host_str()) != (s3::SCHEME, url.host_str());
                match Location::from_url(url) {
                    Some(location @ Location::Url(_)) if !is_foreign => Ok(location),
                    Some(Location::Url(_)) => Err(format!(
                        "its path {path:?} is in a bucket; only a manifest in the same bucket may refer to it"
                    )),
                    _ => Err(format!(
                        "its path {path:?} is not an http(s) URL; a manifest at a URL may refer to nothing else"
                    )),
                }
            }
            Location::File(base) if scheme(path).is_none() => Ok(Location::File(
                base.parent().unwrap_or(Path::new("")).join(path),
            )),
            Location::File(_) => Location::parse(path)
                .map_err(|error| format!("its path {path:?} cannot be used: {}", error.problem)),
        }
    }

    fn from_url(url: Url) -> Option<Location> {
        match url.scheme() {
            "http" | "https" | s3::SCHEME => Some(Location::Url(url)),
            "file" => url.to_file_path().ok().map(Location::File),
            _ => None,
        }
    }

    /// Returns the last component of the path, without the query of a URL. Returns an empty string
    /// if the path has no components.
    pub fn name(&self) -> String {
        match self {
            Location::File(path) => match path.file_name() {
                Some(name) => name.to_string_lossy().into_owned(),
                None => String::new(),
            },
            Location::Url(url) => {
                let last = url.path().rsplit('/').next().unwrap_or_default();
                percent_decoded(last)
            }
        }
    }
}

impl From<PathBuf> for Location {
    fn from(path: PathBuf) -> Location {
        Location::File(path)
    }
}

impl From<&Path> for Location {
    fn from(path: &Path) -> Location {
        Location::File(path.to_owned())
    }
}

impl fmt::Display for Location {
    /// Formats the location for error messages. User, password and query of a URL are omitted, because they may be
    /// secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::File(path) => path.display().fmt(f),
            Location::Url(url) => f.write_str(&shown(url)),
        }
    }
}

/// Returns the scheme of a URL: the text before `://`, or before `:` for `file:`, so that file names with a colon stay
/// paths.
fn scheme(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_once(':')?;
    let mut letters = scheme.bytes();
    let is_scheme = letters.next().is_some_and(|b| b.is_ascii_alphabetic())
        && letters.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    (is_scheme && (rest.starts_with("//") || scheme.eq_ignore_ascii_case("file"))).then_some(scheme)
}

fn unreadable(scheme: &str) -> String {
    if scheme.eq_ignore_ascii_case("file") {
        return "a file: URL must name a path on this machine: file:///crawls/a.wacz".to_owned();
    }
    format!("{scheme}: URLs are not supported; use an http, https or s3 URL, or a path")
}

/// Decodes percent-encoding: `a%20b.wacz` becomes `a b.wacz`. Returns the string unchanged if the
/// result is not a file name.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(decoded) if byte == b'%' => {
                bytes.push(decoded);
                rest = &after[2..];
            }
            _ => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    match String::from_utf8(bytes) {
        Ok(name) if !name.contains(|c: char| c == '/' || c.is_control()) => name,
        _ => text.to_owned(),
    }
}
