//! Parses lines of the CDX file that lists the captures of a job: `URL IP date mime length file
//! offset [md5]`.

use crawlspace_index::lines::fields::{Fields, is_number, is_word, number};
use crawlspace_index::lines::{Bad, MAX_LINE};

/// A parsed line, which borrows the bytes of the line.
///
/// ```
/// use crawlspace_jobs::cdx_line::Line;
/// let line = Line::parse(b"http://a.dk/ 10.0.0.1 20090525130000 text/html 512 7-1.arc.gz 345")?;
/// assert_eq!((line.url, line.date, line.file, line.offset), ("http://a.dk/", "20090525130000", "7-1.arc.gz", 345));
/// # Ok::<(), crawlspace_index::lines::Bad>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The captured URL.
    pub url: &'a str,
    /// The address of the server, as written: any bytes.
    pub ip: &'a [u8],
    /// The capture date: 14 digits.
    pub date: &'a str,
    /// The media type, as the server sent it: any bytes.
    pub mime: &'a [u8],
    /// The uncompressed length of the content in bytes, including the protocol headers. The length of the
    /// record in the file is a different number.
    pub length: Option<u64>,
    /// The name of the file that contains the record.
    pub file: &'a str,
    /// The offset of the record in the file.
    pub offset: u64,
    /// The MD5 of the content, if it was computed.
    pub md5: Option<&'a [u8]>,
}

/// The number of fields up to and including the file name.
const FILE: usize = 6;

/// Returns whether a line is a header, which lists the columns of the index.
pub(crate) fn is_header(line: &[u8]) -> bool {
    line.starts_with(b" CDX ") || line == b" CDX"
}

impl<'a> Line<'a> {
    /// Parses a line without its line end. Fields are separated by spaces or tabs; the URL and the file name must be
    /// UTF-8.
    ///
    /// # Errors
    /// Fails with the reason why the line is invalid. A header is not a valid line.
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
        // Sorting lines also sorts them by URL, provided that each line starts with its URL and the
        // URL has no byte below the space.
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
