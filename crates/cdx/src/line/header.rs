//! Headers of CDX files, which name the columns of the lines below them by letters.

/// The orders in which the columns of a CDX line are read, one for each number of columns.
const ORDERS: [&[u8]; 4] = [b"NbamskS", b"NbamskrVg", b"NbamskrMVg", b"NbamskrMSVg"];

/// How many columns a CDX line has at least.
const MIN_COLUMNS: usize = ORDERS[0].len();

/// Maximum length of the letters in an error message, in bytes.
const SHOWN: usize = 60;

/// Returns the letters of a header in an order of columns that is not read; `None` for any other line.
///
/// A header may begin with `A` (canonized URL) instead of `N` (massaged URL). One that names fewer columns than any CDX
/// line has describes no line that is read. Other spaces in front than one count as well, since some tools trim lines, and so does a byte
/// order mark.
pub(super) fn unread_order(line: &[u8]) -> Option<Box<str>> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let names = line.trim_ascii_start().strip_prefix(b"CDX")?;
    // pywb heads files of CDXJ by ` CDXJ urlkey timestamp JSON`.
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
