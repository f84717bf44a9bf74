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

use memchr::memrchr;

use crawlspace_archive::lines::fields::{Fields, is_number, is_word, number};
use crawlspace_archive::lines::{Bad, MAX_LINE};
pub use notes::Origin;

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
/// # Ok::<(), crawlspace_archive::lines::Bad>(())
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
    /// All behind the source tag: annotations with commas between them, and an object of JSON.
    pub notes: &'a str,
    url_at: usize,
}

/// A line has this many fields at least: up to the digest.
const FIELDS: usize = 10;
/// The number of the URL among them.
const URL: usize = 3;

impl<'a> Line<'a> {
    /// Reads a line, without its end.
    ///
    /// # Errors
    /// What is wrong with it. One about something that was not fetched is not wrong: see [`Line::is_capture`].
    pub fn parse(line: &'a [u8]) -> Result<Line<'a>, Bad> {
        if line.len() > MAX_LINE {
            return Err(Bad::TooLong);
        }
        let text = std::str::from_utf8(line).map_err(|error| Bad::NotUtf8(error.valid_up_to()))?;
        let mut words = Fields::of(text);
        let mut fields = [""; FIELDS];
        let mut url_at = 0;
        for (count, field) in fields.iter_mut().enumerate() {
            *field = words.next_field();
            if field.is_empty() {
                return Err(Bad::Fields(count, "10 or more"));
            }
            if count == URL {
                url_at = text.len() - words.rest().len() - field.len();
            }
        }
        let [_, status, size, url, _, _, mime, _, start, digest] = fields;
        let _source = words.next_field();
        if !is_word(url) {
            return Err(Bad::Url);
        }
        Ok(Line {
            url_at,
            status: status.parse().map_err(|_| Bad::Number("status"))?,
            size: match size {
                // A size below 0 is one that is not known.
                "-" => None,
                _ if size.strip_prefix('-').is_some_and(is_number) => None,
                _ => Some(number(size).ok_or(Bad::Number("size"))?),
            },
            url,
            mime,
            start: begin(start)?,
            digest: opaque(digest)?,
            notes: words.rest().trim_ascii(),
        })
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

    /// Where the first capture of the same content is, by the annotation `duplicate:"file,offset"` or
    /// `deduplicate:"file,offset"`.
    pub fn duplicate(&self) -> Option<Origin<'a>> {
        notes::duplicate(self.notes)
    }

    /// Where the capture itself was written, as Heritrix 3 may log it.
    pub fn written(&self) -> Option<Origin<'a>> {
        notes::written(self.notes)
    }

    /// The `ETag` of the answer, where an annotation or the JSON has one.
    pub(crate) fn etag(&self) -> Option<std::borrow::Cow<'a, str>> {
        notes::etag(self.notes)
    }
}

/// The digits of `20090525130000915+76`.
fn begin(field: &str) -> Result<Option<&str>, Bad> {
    if field == "-" {
        return Ok(None);
    }
    let (digits, took) = field.split_once('+').unwrap_or((field, "0"));
    // A clock that was set back meanwhile makes it less than nothing.
    let took = took.strip_prefix('-').unwrap_or(took);
    if matches!(digits.len(), 14 | 17) && is_number(digits) && is_number(took) {
        Ok(Some(digits))
    } else {
        Err(Bad::Date)
    }
}

/// The digest behind the name of its algorithm.
fn opaque(field: &str) -> Result<Option<&str>, Bad> {
    let colon = memrchr(b':', field.as_bytes());
    let digest = colon.and_then(|at| field.get(at + 1..)).unwrap_or(field);
    match digest {
        "-" => Ok(None),
        // A name without a digest.
        "" => Err(Bad::Digest),
        _ if digest.is_ascii() && is_word(digest) => Ok(Some(digest)),
        _ => Err(Bad::Digest),
    }
}

#[cfg(test)]
mod tests;
