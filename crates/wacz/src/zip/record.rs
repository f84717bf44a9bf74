//! Metadata of a member, and its encodings as a local header and as a directory entry.

use super::{CENTRAL, DEFLATED, DESCRIPTOR, IN_ZIP64_32, LOCAL, STORED, ZIP64_EXTRA};

/// Format version that a reader must support: `PLAIN` for folders and `deflate`, `WIDE` for zip64.
const PLAIN: u16 = 20;
pub(super) const WIDE: u16 = 45;
/// Created on a Unix system, so that the attributes are Unix file modes.
pub(super) const MADE_BY: u16 = 3 << 8 | WIDE;
/// Regular file, mode 0644.
const ATTRIBUTES: u32 = 0o100_644 << 16;
/// The name is UTF-8.
pub(super) const UTF8: u16 = 1 << 11;

/// The compression method of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Stored,
    Deflated,
}

/// The record of a member in the directory.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) made_by: u16,
    /// Minimum format version that a reader must support.
    pub(crate) needed: u16,
    pub(crate) flags: u16,
    pub(crate) method: u16,
    /// Modification time and date in MS-DOS format.
    pub(crate) time: u32,
    pub(crate) crc: u32,
    pub(crate) compressed: u64,
    pub(crate) size: u64,
    pub(crate) internal: u16,
    pub(crate) external: u32,
    pub(crate) header: u64,
    pub(crate) name: Vec<u8>,
    /// Extra fields, except the zip64 field.
    pub(crate) extra: Vec<u8>,
    pub(crate) comment: Vec<u8>,
}

impl Record {
    /// Creates the record for a member whose data is not written yet.
    pub(crate) fn new(name: &str, method: Method, time: u32) -> Record {
        Record {
            made_by: MADE_BY,
            needed: PLAIN,
            flags: if name.is_ascii() { 0 } else { UTF8 },
            method: match method {
                Method::Stored => STORED,
                Method::Deflated => DEFLATED,
            },
            time,
            crc: 0,
            compressed: 0,
            size: 0,
            internal: 0,
            external: ATTRIBUTES,
            header: 0,
            name: name.as_bytes().to_vec(),
            extra: Vec::new(),
            comment: Vec::new(),
        }
    }

    /// Resets the sizes and the checksum to the values for a member whose data is not written yet.
    pub(crate) fn emptied(self) -> Record {
        Record {
            flags: self.flags & !DESCRIPTOR,
            crc: 0,
            compressed: 0,
            size: 0,
            ..self
        }
    }

    /// Encodes the local header. With `wide`, the sizes are zip64 fields.
    pub(super) fn local(&self, wide: bool) -> Vec<u8> {
        let mut bytes = LOCAL.to_le_bytes().to_vec();
        bytes.extend(if wide { WIDE } else { PLAIN }.to_le_bytes());
        bytes.extend(self.flags.to_le_bytes());
        bytes.extend(self.method.to_le_bytes());
        bytes.extend(self.time.to_le_bytes());
        bytes.extend(self.crc.to_le_bytes());
        let narrow = |n: u64| if wide { IN_ZIP64_32 } else { n as u32 };
        bytes.extend(narrow(self.compressed).to_le_bytes());
        bytes.extend(narrow(self.size).to_le_bytes());
        bytes.extend((self.name.len() as u16).to_le_bytes());
        bytes.extend(if wide { 20_u16 } else { 0 }.to_le_bytes());
        bytes.extend(&self.name);
        if wide {
            bytes.extend(wide_field(&[self.size, self.compressed]));
        }
        bytes
    }

    /// Encodes the entry of the directory.
    pub(super) fn central(&self) -> Vec<u8> {
        let is_wide = |n: &u64| *n >= IN_ZIP64_32.into();
        let numbers = [self.size, self.compressed, self.header];
        let wide: Vec<u64> = numbers.into_iter().filter(is_wide).collect();
        let mut extra = self.extra.clone();
        if !wide.is_empty() {
            extra.splice(..0, wide_field(&wide));
        }
        let narrow = |n: u64| (if is_wide(&n) { IN_ZIP64_32 } else { n as u32 }).to_le_bytes();
        let mut bytes = CENTRAL.to_le_bytes().to_vec();
        bytes.extend(self.made_by.to_le_bytes());
        let needed = if wide.is_empty() {
            self.needed
        } else {
            self.needed.max(WIDE)
        };
        bytes.extend(needed.to_le_bytes());
        bytes.extend(self.flags.to_le_bytes());
        bytes.extend(self.method.to_le_bytes());
        bytes.extend(self.time.to_le_bytes());
        bytes.extend(self.crc.to_le_bytes());
        bytes.extend(narrow(self.compressed));
        bytes.extend(narrow(self.size));
        for length in [self.name.len(), extra.len(), self.comment.len(), 0] {
            bytes.extend((length as u16).to_le_bytes());
        }
        bytes.extend(self.internal.to_le_bytes());
        bytes.extend(self.external.to_le_bytes());
        bytes.extend(narrow(self.header));
        bytes.extend(&self.name);
        bytes.extend(extra);
        bytes.extend(&self.comment);
        bytes
    }
}

/// Encodes the zip64 extra field with these numbers.
fn wide_field(numbers: &[u64]) -> Vec<u8> {
    let mut bytes = ZIP64_EXTRA.to_le_bytes().to_vec();
    bytes.extend((numbers.len() as u16 * 8).to_le_bytes());
    bytes.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
    bytes
}

/// Converts a date like `2026-03-19T10:20:15Z` to MS-DOS format; an invalid date becomes 1 January 1980, the
/// first date of that format.
pub(crate) fn dos_time(iso: &str) -> u32 {
    const FIRST: u32 = 1 << 21 | 1 << 16;
    let number = |from: usize, to: usize| iso.get(from..to)?.parse::<u32>().ok();
    let fields = || {
        let date = (
            number(0, 4)?.checked_sub(1980)?,
            number(5, 7)?,
            number(8, 10)?,
        );
        let time = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        let is_sound =
            date.0 < 128 && date.1 < 13 && date.2 < 32 && time.0 < 24 && time.1 < 60 && time.2 < 60;
        is_sound.then_some(
            date.0 << 25 | date.1 << 21 | date.2 << 16 | time.0 << 11 | time.1 << 5 | (time.2 / 2),
        )
    };
    fields().unwrap_or(FIRST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_equal_those_of_the_text() {
        assert_eq!(dos_time("1980-01-01T00:00:00Z"), 1 << 21 | 1 << 16);
        assert_eq!(
            dos_time("2026-03-19T10:20:15Z"),
            46 << 25 | 3 << 21 | 19 << 16 | 10 << 11 | 20 << 5 | 7
        );
        for none in [
            "",
            "now",
            "1979-12-31T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "\u{fc}026-03-19T10:20:15Z",
        ] {
            assert_eq!(dos_time(none), dos_time("1980-01-01T00:00:00Z"), "{none}");
        }
    }
}
