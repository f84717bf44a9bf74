//! Lines of the CDX that a job keeps of its own captures: `URL IP date mime length file offset [md5]`.

use crawlspace_index::lines::fields::{Fields, is_number, is_word, number};
use crawlspace_index::lines::{Bad, MAX_LINE};

/// A line. It borrows the bytes it was read from.
///
/// ```
/// use crawlspace_jobs::cdx_line::Line;
/// let line = Line::parse(b"http://a.dk/ 10.0.0.1 20090525130000 text/html 512 7-1.arc.gz 345")?;
/// assert_eq!((line.url, line.date, line.file, line.offset), ("http://a.dk/", "20090525130000", "7-1.arc.gz", 345));
/// # Ok::<(), crawlspace_index::lines::Bad>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// What was fetched.
    pub url: &'a str,
    /// The address that it came from, as written: any bytes.
    pub ip: &'a [u8],
    /// When: 14 digits.
    pub date: &'a str,
    /// The media type, as the server sent it: any bytes.
    pub mime: &'a [u8],
    /// The length of the content in bytes, with the header of the protocol, as it was before it was packed. Not that
    /// of the record in the file.
    pub length: Option<u64>,
    /// The name of the file that has it.
    pub file: &'a str,
    /// Where in there its record begins.
    pub offset: u64,
    /// The MD5 of the content, where it was made.
    pub md5: Option<&'a [u8]>,
}

/// The number of fields up to the name of the file.
const FILE: usize = 6;

/// Whether a line is the one that an index may begin with, which says what its columns are.
pub(crate) fn is_header(line: &[u8]) -> bool {
    line.starts_with(b" CDX ") || line == b" CDX"
}

impl<'a> Line<'a> {
    /// Reads a line, without its end. Fields have spaces or tabs between them; the URL and the name of the file have to be
    /// UTF-8.
    ///
    /// # Errors
    /// What is wrong with it. A header is no line.
    pub fn parse(line: &'a [u8]) -> Result<Line<'a>, Bad> {
        if line.len() > MAX_LINE {
            return Err(Bad::TooLong);
        }
        let mut words = Fields::of(line);
        let mut fields = [&b""[..]; 8];
        let mut file_at = 0;
        let mut count = 0;
        for field in &mut fields {
            *field = words.next_field();
            count += usize::from(!field.is_empty());
            if count == FILE {
                file_at = line.len() - words.rest().len() - field.len();
            }
        }
        while !words.next_field().is_empty() {
            count += 1;
        }
        let [url, ip, date, mime, length, file, offset, md5] = fields;
        if !(7..=8).contains(&count) {
            return Err(Bad::Fields(count, "7 or 8"));
        }
        let text = |field: &'a [u8], at: usize| {
            std::str::from_utf8(field).map_err(|error| Bad::NotUtf8(at + error.valid_up_to()))
        };
        // With the URL at the very beginning, and no byte in there below the space, the order of whole lines is that of
        // URLs.
        if !line.starts_with(url) {
            return Err(Bad::Url);
        }
        let url = text(url, 0)?;
        if !is_word(url) {
            return Err(Bad::Url);
        }
        if !matches!(date.len(), 14 | 17) || !is_number(date) {
            return Err(Bad::Date);
        }
        Ok(Line {
            url,
            ip,
            date: text(date.get(..14).unwrap_or(date), 0)?,
            mime,
            length: match length {
                b"-" => None,
                _ => Some(number(length).ok_or(Bad::Number("length"))?),
            },
            file: text(file, file_at)?,
            offset: number(offset).ok_or(Bad::Number("offset"))?,
            md5: Some(md5).filter(|md5| !matches!(*md5, b"" | b"-")),
        })
    }
}

#[cfg(test)]
mod tests;
