//! Lines of the CDX that a job keeps of its own captures: `URL IP date mime length file offset [md5]`.

use crawlspace_archive::lines::fields::{Fields, is_number, is_word, number};
use crawlspace_archive::lines::{Bad, MAX_LINE};

/// A line. It borrows the bytes it was read from.
///
/// ```
/// use crawlspace_jobs::cdx_line::Line;
/// let line = Line::parse(b"http://a.dk/ 10.0.0.1 20090525130000 text/html 512 7-1.arc.gz 345")?;
/// assert_eq!((line.url, line.date, line.file, line.offset), ("http://a.dk/", "20090525130000", "7-1.arc.gz", 345));
/// # Ok::<(), crawlspace_archive::lines::Bad>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// What was fetched.
    pub url: &'a str,
    /// From which address, as written.
    pub ip: &'a str,
    /// When: 14 digits.
    pub date: &'a str,
    /// Of which type the server said that it is.
    pub mime: &'a str,
    /// The length of the content in bytes, with the header of the protocol, as it was before it was packed. Not that
    /// of the record in the file.
    pub length: Option<u64>,
    /// The name of the file that has it.
    pub file: &'a str,
    /// Where in there its record begins.
    pub offset: u64,
    /// The MD5 of the content, where it was made.
    pub md5: Option<&'a str>,
}

/// Whether a line is the one that an index may begin with, which says what its columns are.
pub(crate) fn is_header(line: &[u8]) -> bool {
    line.starts_with(b" CDX ") || line == b" CDX"
}

impl<'a> Line<'a> {
    /// Reads a line, without its end. Fields have spaces or tabs between them.
    ///
    /// # Errors
    /// What is wrong with it. A header is no line.
    pub fn parse(line: &'a [u8]) -> Result<Line<'a>, Bad> {
        if line.len() > MAX_LINE {
            return Err(Bad::TooLong);
        }
        let text = std::str::from_utf8(line).map_err(|error| Bad::NotUtf8(error.valid_up_to()))?;
        let mut words = Fields::of(text);
        let mut fields = [""; 8];
        let mut count = 0;
        for field in &mut fields {
            *field = words.next_field();
            count += usize::from(!field.is_empty());
        }
        while !words.next_field().is_empty() {
            count += 1;
        }
        let [url, ip, date, mime, length, file, offset, md5] = fields;
        if !(7..=8).contains(&count) {
            return Err(Bad::Fields(count, "7 or 8"));
        }
        // With the URL at the very beginning, and no byte in there below the space, the order of whole lines is that of
        // URLs.
        if !text.starts_with(url) || !is_word(url) {
            return Err(Bad::Url);
        }
        if !matches!(date.len(), 14 | 17) || !is_number(date) {
            return Err(Bad::Date);
        }
        Ok(Line {
            url,
            ip,
            date: date.get(..14).unwrap_or(date),
            mime,
            length: match length {
                "-" => None,
                _ => Some(number(length).ok_or(Bad::Number("length"))?),
            },
            file,
            offset: number(offset).ok_or(Bad::Number("offset"))?,
            md5: Some(md5).filter(|md5| !matches!(*md5, "" | "-")),
        })
    }
}

#[cfg(test)]
mod tests;
