//! Columns of the formats that are separated by single spaces.

use super::spaces::Spaces;
use super::{Format, Reason, Shape};
use crate::Field;

/// Returns the end of the leading digits, or of the `-` that a RECORD id may contain instead of
/// digits.
#[inline]
pub(super) fn timestamp_end(text: &[u8], format: Format) -> usize {
    // Fast path for 14 digits, the usual case: two overlapping words instead of 14 comparisons.
    if let Some((word, [.., b' '])) = text.first_chunk::<15>().map(|chunk| (chunk, &chunk[..])) {
        let (low, high) = (eight(word, 0), eight(word, 6));
        if all_digits(low) & all_digits(high) {
            return 14;
        }
    }
    if format == Format::Record && text.starts_with(b"- ") {
        return 1;
    }
    text.iter().take_while(|b| b.is_ascii_digit()).count()
}

fn eight(text: &[u8; 15], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&text[at..at + 8]);
    u64::from_le_bytes(bytes)
}

/// Returns true if each of the eight bytes is in `0x30..=0x39`: the upper half is 3, and adding 6 keeps it 3.
fn all_digits(word: u64) -> bool {
    const UPPER: u64 = 0xF0F0_F0F0_F0F0_F0F0;
    const THREES: u64 = 0x3030_3030_3030_3030;
    // The sum of a byte above 0xF9 carries into the next byte, but such a byte fails the first
    // test.
    (word & UPPER == THREES) & (word.wrapping_add(0x0606_0606_0606_0606) & UPPER == THREES)
}

/// Checks that the line has a number of columns that the format allows, and that no column is empty.
#[inline]
pub(super) fn check(raw: &[u8], spaces: Spaces, format: Format) -> Result<Shape<'static>, Reason> {
    let width = spaces.count + 1;
    let shape = match (format, width) {
        (Format::Record, 4) => Shape::Record,
        (Format::Auto | Format::Cdx, 7 | 9..=14) => Shape::Cdx {
            width,
            last: spaces.last + 1,
        },
        _ => return Err(Reason::Columns(width, format)),
    };
    if spaces.doubled || spaces.first == 0 || raw.last() == Some(&b' ') {
        let empty = raw.split(|&b| b == b' ').position(<[u8]>::is_empty);
        return Err(Reason::Empty(empty.map_or(0, |column| column + 1)));
    }
    if let Shape::Cdx { width, .. } = shape {
        check_numbers(raw, width)?;
    }
    Ok(shape)
}

/// Rejects non-numeric values in numeric columns. A URL with a space shifts all following columns,
/// which the number of columns alone does not reveal. Lines of up to 11 columns still end with the
/// filename. The offset before the filename must be numeric, which reveals lines with a different
/// order of columns (wget writes the filename in that position). In lines with more columns, a
/// different column would be read as the filename.
#[inline]
fn check_numbers(raw: &[u8], width: usize) -> Result<(), Reason> {
    // Number of columns to the right of each numeric column.
    let right: &[usize] = match width {
        ..9 => return Ok(()),
        9..=11 => &[1],
        14 => &[1, 2, 4, 5, 9],
        13 => &[1, 2, 4, 8],
        _ => &[1, 2, 4, 7],
    };
    let is_number = |text: &[u8]| text == b"-" || text.iter().all(u8::is_ascii_digit);
    match right.iter().find(|&&n| !is_number(from_right(raw, n))) {
        None => Ok(()),
        Some(n) => Err(Reason::Number(width - n)),
    }
}

/// Returns the column of a field in a CDX line of this width, or `None` if such lines have no column for
/// the field.
pub(super) fn of_cdx<'a>(raw: &'a [u8], width: usize, field: &Field) -> Option<&'a [u8]> {
    let column = place(width, field)?;
    let right = width - 1 - column;
    // Search for columns up to the URL from the left, and for later columns from the right, because the URL
    // is long.
    Some(if column <= 2 {
        raw.split(|&b| b == b' ').nth(column)?
    } else {
        from_right(raw, right)
    })
}

/// Returns the filename of a CDX line of this width, whose last column starts at `last`.
#[inline]
pub(super) fn filename(raw: &[u8], width: usize, last: usize) -> &[u8] {
    match width {
        7 => super::NONE,
        9..=11 => &raw[last..],
        _ => from_right(raw, 3),
    }
}

/// Returns the column that is followed by `skipped` columns.
#[inline]
pub(super) fn from_right(raw: &[u8], skipped: usize) -> &[u8] {
    let mut rest = raw;
    for _ in 0..skipped {
        rest = &rest[..memchr::memrchr(b' ', rest).unwrap_or(0)];
    }
    &rest[memchr::memrchr(b' ', rest).map_or(0, |at| at + 1)..]
}

/// Returns the position of a field in CDX lines of this width, starting at 0:
///
/// | width | after `urlkey timestamp url mime status digest` |
/// |---|---|
/// | 7 | length |
/// | 9 | redirect offset filename |
/// | 10 | redirect robotflags offset filename |
/// | 11 | redirect robotflags length offset filename |
/// | 12, 13, 14 | those of 9, 10, 11 and orig.length orig.offset orig.filename |
fn place(width: usize, field: &Field) -> Option<usize> {
    let last = if width > 11 { width - 4 } else { width - 1 };
    let tail = matches!(width, 9..=14);
    match field {
        Field::Urlkey => Some(0),
        Field::Timestamp => Some(1),
        Field::Url => Some(2),
        Field::Mime => Some(3),
        Field::Status => Some(4),
        Field::Digest => Some(5),
        Field::Redirect => tail.then_some(6),
        Field::Robotflags => (tail && last > 8).then_some(7),
        Field::Length => match width {
            7 => Some(6),
            _ => (last == 10).then_some(8),
        },
        Field::Offset => tail.then_some(last - 1),
        Field::Filename => tail.then_some(last),
        Field::OrigLength => (width > 11).then_some(width - 3),
        Field::OrigOffset => (width > 11).then_some(width - 2),
        Field::OrigFilename => (width > 11).then_some(width - 1),
        Field::Other(_) => None,
    }
}
