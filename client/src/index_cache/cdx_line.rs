//! Lines of the CDX that a job keeps of its own captures: `URL IP date mime length file offset [md5]`.

use super::lines::Bad;

/// A line. It borrows the bytes it was read from.
///
/// ```
/// use crawlspace_client::index_cache::cdx_line::Line;
/// let line = Line::parse(b"http://a.dk/ 10.0.0.1 20090525130000 text/html 512 7-1.arc.gz 345")?;
/// assert_eq!((line.url, line.date, line.file, line.offset), ("http://a.dk/", "20090525130000", "7-1.arc.gz", 345));
/// # Ok::<(), crawlspace_client::index_cache::lines::Bad>(())
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
pub fn is_header(line: &[u8]) -> bool {
    line.starts_with(b" CDX ") || line == b" CDX"
}

impl<'a> Line<'a> {
    /// Reads a line, without its end. Fields have spaces or tabs between them.
    ///
    /// # Errors
    /// What is wrong with it. A [header](is_header) is no line.
    pub fn parse(line: &'a [u8]) -> Result<Line<'a>, Bad> {
        if line.len() > super::lines::MAX_LINE {
            return Err(Bad::TooLong);
        }
        let text = std::str::from_utf8(line).map_err(|error| Bad::NotUtf8(error.valid_up_to()))?;
        let mut fields = [""; 8];
        let mut count = 0;
        for field in text.split_ascii_whitespace() {
            if let Some(place) = fields.get_mut(count) {
                *place = field;
            }
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

/// Whether nothing in it would end a word or steer a terminal.
pub(super) fn is_word(text: &str) -> bool {
    // To the end in any case: that is many bytes at once.
    text.bytes()
        .fold(true, |is, byte| is & (byte > b' ') & (byte != 0x7f))
}

/// The same, but for spaces.
pub(super) fn is_printable(text: &str) -> bool {
    text.bytes()
        .fold(true, |is, byte| is & (byte >= b' ') & (byte != 0x7f))
}

pub(super) fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A number without a sign.
pub(super) fn number(text: &str) -> Option<u64> {
    is_number(text).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests;
