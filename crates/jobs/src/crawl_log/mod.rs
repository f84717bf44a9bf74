//! Lines of the `crawl.log` that Heritrix writes: one for everything that it tried to fetch.
//!
//! ```text
//! 2009-05-25T13:00:00.992Z   200       9717 https://a.dk/img/draft.png LLEE https://a.dk/css/screen.css image/png #016
//!     20090525130000915+76 sha1:AXH2IFNXC4MUT26SRHRJZHGR3FDAJDNR - duplicate:"1-1-0008.arc,22962264",content-size:9969
//! ```
//!
//! Twelve fields with white space between them: when it was logged, status, size, URL, path of hops, where the URL
//! was found, type, thread, begin of the fetch (17 digits) and how long it took (ms), digest, source tag, annotations.
//! The last field is the rest of the line: Heritrix 3 may log a JSON object behind the annotations. Old releases leave
//! out the last fields where they have nothing to say.

mod notes;

use std::ops::Range;

use memchr::{memchr, memrchr};

use crawlspace_index::lines::fields::{Fields, is_number, is_word, number};
use crawlspace_index::lines::{Bad, MAX_LINE};
pub use notes::Origin;
pub(crate) use notes::{Notes, Stored, push_migrated};

/// A line. It borrows the bytes it was read from.
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
    /// That of HTTP, 1 for an answer of a name server, 0 and below for what was not fetched.
    pub status: i32,
    /// The size of the document in bytes.
    pub size: Option<u64>,
    /// What was to be fetched.
    pub url: &'a str,
    /// Its type, as the server said.
    pub mime: &'a str,
    /// When the fetch began: 17 digits, or 14.
    pub start: Option<&'a str>,
    /// What stands behind the last colon of the digest.
    pub digest: Option<&'a str>,
    /// The rest of the line, behind the source tag: annotations with commas between them, and an object of JSON. Any
    /// bytes, since one that is not UTF-8 concerns its own annotation alone.
    pub notes: &'a [u8],
    url_at: usize,
}

/// A line has this many fields at least: up to the digest.
const FIELDS: usize = 10;
/// The number of the URL among them.
const URL: usize = 3;

impl<'a> Line<'a> {
    /// Reads a line, without its end. Only fields that are used have to be UTF-8.
    ///
    /// # Errors
    /// What is wrong with it. One about something that was not fetched is not wrong: see [`Line::is_capture`].
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
                // A size below 0 is one that is not known.
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

    /// The URL of a line, as far as it has one: enough to tell which lines belong together.
    pub(crate) fn url_of(line: &[u8]) -> &[u8] {
        let mut words = Fields::of(line);
        for _ in 0..URL {
            words.next_field();
        }
        words.next_field()
    }

    /// Returns whether a line at the end of a log was cut off in its digest: the digest ends the line, and has another
    /// length than those of its algorithm.
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
            // Old releases log SHA-1 without its name.
            b"sha1:" | b"sha-1:" | b"" => (32, 40),
            _ => return false,
        };
        let length = digest.len();
        !(is_base32 && length == base32 || is_hex && length == hex)
    }

    /// Where in the line the URL is.
    pub(crate) fn url_range(&self) -> Range<usize> {
        self.url_at..self.url_at + self.url.len()
    }

    /// Whether something was fetched: the status is above 0, and there is a time. Old releases log no digest of answers
    /// of name servers.
    pub fn is_capture(&self) -> bool {
        self.status > 0 && self.start.is_some()
    }

    /// When the fetch began: 14 digits.
    pub fn date(&self) -> Option<&'a str> {
        self.start.and_then(|start| start.get(..14))
    }

    /// Whether the type is one of text, which an index for deduplication leaves out.
    pub(crate) fn is_text(&self) -> bool {
        let begin = self.mime.as_bytes().get(..5);
        begin.is_some_and(|begin| begin.eq_ignore_ascii_case(b"text/"))
    }

    /// Returns the place of the first capture of the same content, by the annotation `duplicate:"file,offset"` or
    /// `deduplicate:"file,offset"`.
    pub fn duplicate(&self) -> Option<Origin<'a>> {
        match self.read_notes().stored {
            Stored::Duplicate(origin) => Some(origin),
            Stored::Own | Stored::Elsewhere => None,
        }
    }

    /// Returns the place of the record of this capture, as Heritrix 3 may log it. `None` for revisits
    /// (`duplicate:digest`, `duplicate:server-not-modified`, `warcRevisit:…`): their records have no payload.
    pub fn written(&self) -> Option<Origin<'a>> {
        self.read_notes().written()
    }

    /// Reads the annotations and the JSON.
    pub(crate) fn read_notes(&self) -> Notes<'a> {
        Notes::of(self.notes)
    }
}

fn signed(field: &[u8]) -> Option<i32> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// A field up to the first byte that is not UTF-8; `-` when there is nothing before it.
fn readable(field: &[u8]) -> &str {
    let chunk = field.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    if chunk.is_empty() { "-" } else { chunk }
}

/// The digits of `20090525130000915+76`.
fn begin(field: &[u8]) -> Result<Option<&str>, Bad> {
    if field == b"-" {
        return Ok(None);
    }
    let plus = memchr(b'+', field).unwrap_or(field.len());
    let (digits, took) = field.split_at(plus);
    let took = took.get(1..).unwrap_or(b"0");
    // A clock that was set back meanwhile makes it less than nothing.
    let took = took.strip_prefix(b"-").unwrap_or(took);
    if matches!(digits.len(), 14 | 17) && is_number(digits) && is_number(took) {
        std::str::from_utf8(digits).map(Some).map_err(|_| Bad::Date)
    } else {
        Err(Bad::Date)
    }
}

/// The digest behind the name of its algorithm.
fn opaque(field: &[u8]) -> Result<Option<&str>, Bad> {
    let colon = memrchr(b':', field);
    let digest = colon.and_then(|at| field.get(at + 1..)).unwrap_or(field);
    match std::str::from_utf8(digest).map_err(|_| Bad::Digest)? {
        "-" => Ok(None),
        // A name without a digest.
        "" => Err(Bad::Digest),
        digest if digest.is_ascii() && is_word(digest) => Ok(Some(digest)),
        _ => Err(Bad::Digest),
    }
}

#[cfg(test)]
mod tests;
