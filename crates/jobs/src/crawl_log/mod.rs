//! Parses the lines of Heritrix's `crawl.log`, which has a line for each URL that Heritrix tried to fetch.
//!
//! ```text
//! 2009-05-25T13:00:00.992Z   200       9717 https://a.dk/img/draft.png LLEE https://a.dk/css/screen.css image/png #016
//!     20090525130000915+76 sha1:AXH2IFNXC4MUT26SRHRJZHGR3FDAJDNR - duplicate:"1-1-0008.arc,22962264",content-size:9969
//! ```
//!
//! A line has twelve fields, separated by white space: log time, status, size, URL, hop path, referrer, media type,
//! thread, start (17 digits) and duration (ms) of the fetch, digest, source tag, annotations. The last field is the
//! rest of the line: Heritrix 3 can log a JSON object after the annotations. Old releases omit empty fields at the end.

mod notes;

use std::ops::Range;

use memchr::{memchr, memrchr};

use crawlspace_index::lines::fields::{Fields, is_number, is_word, number};
use crawlspace_index::lines::{Bad, MAX_LINE};
pub use notes::Origin;
pub(crate) use notes::{Notes, Stored, push_migrated};

/// A parsed line, which borrows the bytes of the line.
///
/// ```
/// use crawlspace_jobs::crawl_log::Line;
/// let line = Line::parse(
///     b"2009-05-25T13:00:00.992Z   200       9717 http://a.dk/a.png LLEE http://a.dk/ image/png #016 \
///       20090525130000915+76 sha1:AXH2IFNXC4MUT26SRHRJZHGR3FDAJDNR - duplicate:\"1-1-0008.arc,22962264\",3t",
/// )?;
/// assert!(line.is_capture());
/// assert_eq!(line.url, "http://a.dk/a.png");
/// assert_eq!(line.date(), Some("20090525130000"));
/// assert_eq!(line.digest, Some("AXH2IFNXC4MUT26SRHRJZHGR3FDAJDNR"));
/// let origin = line.duplicate().unwrap();
/// assert_eq!((&origin.file[..], origin.offset), ("1-1-0008.arc", 22_962_264));
/// # Ok::<(), crawlspace_index::lines::Bad>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The HTTP status; 1 for a DNS response, 0 and below if nothing was fetched.
    pub status: i32,
    /// The size of the document in bytes.
    pub size: Option<u64>,
    /// The URL.
    pub url: &'a str,
    /// The media type, as the server sent it.
    pub mime: &'a str,
    /// The start of the fetch: 17 or 14 digits.
    pub start: Option<&'a str>,
    /// The digest, without the name of the algorithm.
    pub digest: Option<&'a str>,
    /// The rest of the line after the source tag: annotations, separated by commas, and a JSON object. May contain any
    /// bytes, because invalid UTF-8 only affects its own annotation.
    pub notes: &'a [u8],
    url_at: usize,
}

/// Minimum number of fields of a line: up to the digest.
const FIELDS: usize = 10;
/// The index of the URL among the fields.
const URL: usize = 3;

impl<'a> Line<'a> {
    /// Parses a line without its line end. Only the fields that are used must be UTF-8.
    ///
    /// # Errors
    /// Fails with the reason why the line is invalid. A line about a failed fetch is valid: see
    /// [`Line::is_capture`].
    pub fn parse(line: &'a [u8]) -> Result<Line<'a>, Bad> {
        if line.len() > MAX_LINE {
            return Err(Bad::TooLong);
        }
        let mut words = Fields::of(line);
        let mut fields = [&b""[..]; FIELDS];
        let mut url_at = 0;
        for (count, field) in fields.iter_mut().enumerate() {
            *field = words.next_field();
            if field.is_empty() {
                return Err(Bad::Fields(count, "10 or more"));
            }
            if count == URL {
                url_at = line.len() - words.rest().len() - field.len();
            }
        }
        let [_, status, size, url, _, _, mime, _, start, digest] = fields;
        let _source = words.next_field();
        let url =
            std::str::from_utf8(url).map_err(|error| Bad::NotUtf8(url_at + error.valid_up_to()))?;
        if !is_word(url) {
            return Err(Bad::Url);
        }
        Ok(Line {
            url_at,
            status: signed(status).ok_or(Bad::Number("status"))?,
            size: match size {
                // A negative number means that the size is unknown.
                b"-" => None,
                _ if size.strip_prefix(b"-").is_some_and(is_number) => None,
                _ => Some(number(size).ok_or(Bad::Number("size"))?),
            },
            url,
            mime: readable(mime),
            start: begin(start)?,
            digest: opaque(digest)?,
            notes: words.rest().trim_ascii(),
        })
    }

    /// Returns the URL of a line without parsing the line; enough to group lines by URL.
    pub(crate) fn url_of(line: &[u8]) -> &[u8] {
        let mut words = Fields::of(line);
        for _ in 0..URL {
            words.next_field();
        }
        words.next_field()
    }

    /// Returns whether a line at the end of a log is truncated within its digest: the line ends
    /// with the digest, and the digest is not as long as its algorithm requires.
    pub(crate) fn is_digest_cut_off(&self, line: &[u8]) -> bool {
        let line = line.trim_ascii_end();
        let Some(digest) = self
            .digest
            .filter(|digest| line.ends_with(digest.as_bytes()))
        else {
            return false;
        };
        let before = line.get(..line.len() - digest.len()).unwrap_or_default();
        let field = before
            .rsplit(u8::is_ascii_whitespace)
            .next()
            .unwrap_or_default();
        let is_base32 = digest
            .bytes()
            .all(|b| matches!(b, b'A'..=b'Z' | b'2'..=b'7'));
        let is_hex = digest.bytes().all(|b| b.is_ascii_hexdigit());
        let (base32, hex) = match &field.to_ascii_lowercase()[..] {
            b"md5:" => (26, 32),
            b"sha256:" | b"sha-256:" => (52, 64),
            // Old releases log SHA-1 digests without the name of the algorithm.
            b"sha1:" | b"sha-1:" | b"" => (32, 40),
            _ => return false,
        };
        let length = digest.len();
        !(is_base32 && length == base32 || is_hex && length == hex)
    }

    /// Returns the range of the URL in the line.
    pub(crate) fn url_range(&self) -> Range<usize> {
        self.url_at..self.url_at + self.url.len()
    }

    /// Returns whether something was fetched: the status is positive, and there is a start time. Old releases do not
    /// log digests of DNS responses.
    pub fn is_capture(&self) -> bool {
        self.status > 0 && self.start.is_some()
    }

    /// Returns the start of the fetch: 14 digits.
    pub fn date(&self) -> Option<&'a str> {
        self.start.and_then(|start| start.get(..14))
    }

    /// Returns whether the media type is text, which a deduplication index leaves out.
    pub(crate) fn is_text(&self) -> bool {
        let begin = self.mime.as_bytes().get(..5);
        begin.is_some_and(|begin| begin.eq_ignore_ascii_case(b"text/"))
    }

    /// Returns the position of the first capture of the same content, from the annotation `duplicate:"file,offset"` or
    /// `deduplicate:"file,offset"`.
    pub fn duplicate(&self) -> Option<Origin<'a>> {
        match self.read_notes().stored {
            Stored::Duplicate(origin) => Some(origin),
            Stored::Own | Stored::Elsewhere => None,
        }
    }

    /// Returns the position of the record of this capture, if Heritrix 3 logged it. Returns `None` for
    /// revisits (`duplicate:digest`, `duplicate:server-not-modified`, `warcRevisit:…`): their records have no
    /// payload.
    pub fn written(&self) -> Option<Origin<'a>> {
        self.read_notes().written()
    }

    /// Parses the annotations and the JSON.
    pub(crate) fn read_notes(&self) -> Notes<'a> {
        Notes::of(self.notes)
    }
}

fn signed(field: &[u8]) -> Option<i32> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// Returns the part of a field before the first invalid UTF-8 byte; `-` if it is empty.
fn readable(field: &[u8]) -> &str {
    let chunk = field.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    if chunk.is_empty() { "-" } else { chunk }
}

/// Parses the digits of `20090525130000915+76`.
fn begin(field: &[u8]) -> Result<Option<&str>, Bad> {
    if field == b"-" {
        return Ok(None);
    }
    let plus = memchr(b'+', field).unwrap_or(field.len());
    let (digits, took) = field.split_at(plus);
    let took = took.get(1..).unwrap_or(b"0");
    // The duration is negative if the clock was set back during the fetch.
    let took = took.strip_prefix(b"-").unwrap_or(took);
    if matches!(digits.len(), 14 | 17) && is_number(digits) && is_number(took) {
        std::str::from_utf8(digits).map(Some).map_err(|_| Bad::Date)
    } else {
        Err(Bad::Date)
    }
}

/// Returns the digest without the name of its algorithm.
fn opaque(field: &[u8]) -> Result<Option<&str>, Bad> {
    let colon = memrchr(b':', field);
    let digest = colon.and_then(|at| field.get(at + 1..)).unwrap_or(field);
    match std::str::from_utf8(digest).map_err(|_| Bad::Digest)? {
        "-" => Ok(None),
        // A field that has only the name of an algorithm, and no digest.
        "" => Err(Bad::Digest),
        digest if digest.is_ascii() && is_word(digest) => Ok(Some(digest)),
        _ => Err(Bad::Digest),
    }
}

#[cfg(test)]
mod tests;
