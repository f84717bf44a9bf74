//! Columns of the formats that part them by one space.

use super::spaces::Spaces;
use super::{Format, Reason, Shape};
use crate::Field;

/// The end of the digits that the text begins with, or of the `-` that a RECORD id has in their place.
#[inline]
pub(super) fn timestamp_end(text: &[u8], format: Format) -> usize {
    // 14 digits nearly always: two overlapping words, in place of 14 comparisons.
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

/// Whether each of the eight bytes is in `0x30..=0x39`: the upper half is 3, and adding 6 leaves it so.
fn all_digits(word: u64) -> bool {
    const UPPER: u64 = 0xF0F0_F0F0_F0F0_F0F0;
    const THREES: u64 = 0x3030_3030_3030_3030;
    // A byte above 0xF9 carries into the next, but then fails the first test.
    (word & UPPER == THREES) & (word.wrapping_add(0x0606_0606_0606_0606) & UPPER == THREES)
}

/// Whether the line has as many columns as the format may have, and none of them empty.
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

/// Refuses columns that must be numbers and are none: a URL with a space in it moves all that follow, and
/// the width alone does not tell. Up to width 11 the filename is the last column all the same, behind the offset,
/// which tells lines with another order of columns (wget has the filename there); beyond that another column would be
/// taken for the filename.
#[inline]
fn check_numbers(raw: &[u8], width: usize) -> Result<(), Reason> {
    // How many columns stand to the right of each.
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

/// The column of a CDX line of that many columns; none if such lines have none for the field.
pub(super) fn of_cdx<'a>(raw: &'a [u8], width: usize, field: &Field) -> Option<&'a [u8]> {
    let column = place(width, field)?;
    let right = width - 1 - column;
    // The URL is long, and stands left of the middle.
    Some(if column <= 2 {
        raw.split(|&b| b == b' ').nth(column)?
    } else {
        from_right(raw, right)
    })
}

/// The filename of a CDX line of that many columns, the last of which begins there.
#[inline]
pub(super) fn filename(raw: &[u8], width: usize, last: usize) -> &[u8] {
    match width {
        7 => super::NONE,
        9..=11 => &raw[last..],
        _ => from_right(raw, 3),
    }
}

/// The column that has `skipped` columns after it.
#[inline]
pub(super) fn from_right(raw: &[u8], skipped: usize) -> &[u8] {
    let mut rest = raw;
    for _ in 0..skipped {
        rest = &rest[..memchr::memrchr(b' ', rest).unwrap_or(0)];
    }
    &rest[memchr::memrchr(b' ', rest).map_or(0, |at| at + 1)..]
}

/// Which column the field has in CDX lines of that width, from 0:
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
