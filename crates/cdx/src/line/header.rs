//! Headers of CDX files. A header lists the columns of the lines below it, one letter per column.

/// Supported orders of the columns of a CDX line, one per number of columns.
const ORDERS: [&[u8]; 4] = [b"NbamskS", b"NbamskrVg", b"NbamskrMVg", b"NbamskrMSVg"];

/// Minimum number of columns of a CDX line.
const MIN_COLUMNS: usize = ORDERS[0].len();

/// Maximum number of bytes of the letters that an error message contains.
const SHOWN: usize = 60;

/// Returns the letters of a header with an unsupported order of columns, or `None` for any other line.
///
/// A header may begin with `A` (canonized URL) instead of `N` (massaged URL). A header with fewer letters
/// than a CDX line has columns describes no valid line, and is ignored. Leading spaces may be missing or
/// repeated, since some tools trim lines, and a byte order mark is accepted.
pub(super) fn unread_order(line: &[u8]) -> Option<Box<str>> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let names = line.trim_ascii_start().strip_prefix(b"CDX")?;
    // pywb writes the header ` CDXJ urlkey timestamp JSON` to CDXJ files.
    if !names.first()?.is_ascii_whitespace() {
        return None;
    }
    let words = names.split(u8::is_ascii_whitespace);
    let words: Vec<&[u8]> = words.filter(|word| !word.is_empty()).collect();
    if words.len() < MIN_COLUMNS || ORDERS.iter().any(|order| is_order(&words, order)) {
        return None;
    }
    let shown = names.trim_ascii();
    let shown = shown.get(..SHOWN).unwrap_or(shown);
    Some(shown.escape_ascii().to_string().into())
}

fn is_order(words: &[&[u8]], order: &[u8]) -> bool {
    let is_letter =
        |(word, letter): (&&[u8], &u8)| **word == [*letter] || *letter == b'N' && **word == *b"A";
    words.len() == order.len() && words.iter().zip(order).all(is_letter)
}
