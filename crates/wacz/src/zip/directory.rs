use std::io::Read;
use std::ops::Range;

use super::number::{Numbers, extra_field, without_field};
use super::record::Record;
use super::{
    CENTRAL, END, END64, END64_LOCATOR, Fault, IN_ZIP64_16, IN_ZIP64_32, ZIP64_EXTRA, name,
};
use crate::Problem;

/// Maximum length of the records at the end of a zip file, in bytes: the end record with its comment, and the zip64
/// locator before it.
const TAIL: u64 = 20 + 22 + 65_535;

/// The directory of a zip file: its members. Reading it checks that members do not overlap.
#[derive(Debug)]
pub(crate) struct Directory {
    /// The directory as stored in the file.
    bytes: Vec<u8>,
    entries: Vec<DirectoryEntry>,
    start: u64,
    comment: Vec<u8>,
}

/// The entry of a member in the directory.
#[derive(Clone, Debug)]
pub(crate) struct DirectoryEntry {
    /// Range of the entry in the directory, including its extra field and its comment.
    pub(crate) record: Range<u32>,
    name_length: u16,
    pub(crate) flags: u16,
    pub(crate) method: u16,
    pub(crate) crc: u32,
    pub(crate) compressed: u64,
    pub(crate) size: u64,
    /// Offset of the local header in the file.
    pub(crate) header: u64,
    /// Start of the next member or of the directory.
    pub(crate) end: u64,
}

/// The fields of the end record that describe the directory.
struct EndRecord {
    start: u64,
    length: u64,
    entries: u64,
    comment: Vec<u8>,
}

impl Directory {
    /// Reads the directory of a file of `size` bytes. `section` returns a reader for a range, given its offset and
    /// length. This function calls `section` for the end of the file, and again for the directory if the directory
    /// begins before the range already read.
    pub(crate) fn read<R: Read>(
        size: u64,
        limit: u64,
        section: impl Fn(u64, u64) -> R,
    ) -> Result<Directory, Fault> {
        let read = |from: u64, length: u64| -> Result<Vec<u8>, Problem> {
            let mut bytes = vec![0; length as usize];
            section(from, length).read_exact(&mut bytes)?;
            Ok(bytes)
        };
        let tail_start = size.saturating_sub(TAIL);
        let tail = read(tail_start, size - tail_start)?;
        let place = EndRecord::find(&tail, tail_start, &read)?;
        if place.length > limit {
            return Err(Problem::TooLarge {
                what: "the directory of the zip file".to_owned(),
                limit: format!("{limit} bytes"),
                option: "directory",
            }
            .into());
        }
        let bytes = match place.start.checked_sub(tail_start) {
            Some(skipped) => tail[skipped as usize..][..place.length as usize].to_vec(),
            None => read(place.start, place.length)?,
        };
        drop(tail);
        let mut directory = Directory {
            bytes,
            entries: Vec::new(),
            start: place.start,
            comment: place.comment,
        };
        directory.read_entries(place.entries)?;
        directory.check_names()?;
        directory.check_overlaps()?;
        Ok(directory)
    }

    /// Returns the members, in the order of the directory.
    pub(crate) fn entries(&self) -> &[DirectoryEntry] {
        &self.entries
    }

    /// Returns the name of a member.
    pub(crate) fn name(&self, entry: &DirectoryEntry) -> &str {
        // Checked by `read`.
        std::str::from_utf8(self.name_bytes(entry)).unwrap_or_default()
    }

    /// Returns the member with this name.
    pub(crate) fn find(&self, name: &str) -> Option<&DirectoryEntry> {
        self.entries.iter().find(|entry| self.name(entry) == name)
    }

    /// Returns the offset of the directory in the file.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Returns the comment at the end of the file.
    pub(crate) fn comment(&self) -> &[u8] {
        &self.comment
    }

    /// Returns the complete record of a member.
    pub(crate) fn record(&self, entry: &DirectoryEntry) -> Record {
        let bytes = &self.bytes[entry.record.start as usize..entry.record.end as usize];
        let number = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let wide = |at: usize| u32::from(number(at)) | u32::from(number(at + 2)) << 16;
        let (extra, comment) =
            bytes[46 + usize::from(entry.name_length)..].split_at(number(30).into());
        Record {
            made_by: number(4),
            needed: number(6),
            flags: entry.flags,
            method: entry.method,
            time: wide(12),
            crc: entry.crc,
            compressed: entry.compressed,
            size: entry.size,
            internal: number(36),
            external: wide(38),
            header: entry.header,
            name: self.name_bytes(entry).to_vec(),
            extra: without_field(extra, ZIP64_EXTRA),
            comment: comment.to_vec(),
        }
    }

    fn name_bytes(&self, entry: &DirectoryEntry) -> &[u8] {
        &self.bytes[entry.record.start as usize + 46..][..entry.name_length.into()]
    }

    fn read_entries(&mut self, expected: u64) -> Result<(), Fault> {
        let mut rest = Numbers(&self.bytes);
        while !rest.0.is_empty() {
            let before = self.bytes.len() - rest.0.len();
            let number = self.entries.len() + 1;
            let Some(mut entry) = DirectoryEntry::read(&mut rest, self.start) else {
                let how = format!("entry {number} of its directory is invalid");
                return Err(Problem::Directory(how).into());
            };
            entry.record = before as u32..(self.bytes.len() - rest.0.len()) as u32;
            self.entries.push(entry);
        }
        let found = self.entries.len() as u64;
        if found != expected {
            let how = format!(
                "its directory has {found} entries, but the end record of the file says {expected}"
            );
            return Err(Problem::Directory(how).into());
        }
        for entry in &self.entries {
            let name = self.name_bytes(entry);
            if let Err(why) = name::check(name) {
                return Err(Fault::of(
                    &String::from_utf8_lossy(name),
                    Problem::Name(why),
                ));
            }
        }
        Ok(())
    }

    /// Checks that names are unique: readers would disagree on which of two members to use.
    fn check_names(&self) -> Result<(), Fault> {
        let mut names: Vec<&[u8]> = self
            .entries
            .iter()
            .map(|entry| self.name_bytes(entry))
            .collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => {
                let name = String::from_utf8_lossy(pair[0]);
                Err(Fault::of(
                    &name,
                    Problem::Name("several members have this name".to_owned()),
                ))
            }
            None => Ok(()),
        }
    }

    /// Checks that members do not overlap: if members shared bytes, a small file could decompress to
    /// a huge size.
    fn check_overlaps(&mut self) -> Result<(), Fault> {
        let mut order: Vec<u32> = (0..self.entries.len() as u32).collect();
        order.sort_unstable_by_key(|&i| self.entries[i as usize].header);
        let mut next = self.start;
        for &i in order.iter().rev() {
            let entry = &mut self.entries[i as usize];
            entry.end = next;
            let data = entry.header.checked_add(30 + u64::from(entry.name_length));
            let end = data.and_then(|data| data.checked_add(entry.compressed));
            if end.is_none_or(|end| end > next) {
                let entry = entry.clone();
                let how = "its data overlaps the next member or the directory".to_owned();
                return Err(Fault::of(self.name(&entry), Problem::Damaged(how)));
            }
            next = entry.header;
        }
        Ok(())
    }
}

impl EndRecord {
    fn find(
        tail: &[u8],
        tail_start: u64,
        read: &dyn Fn(u64, u64) -> Result<Vec<u8>, Problem>,
    ) -> Result<EndRecord, Problem> {
        let at = end_record(tail)?.ok_or_else(|| no_end(tail, tail_start))?;
        let mut end = Numbers(&tail[at..]);
        let damaged = |how: &str| Problem::Directory(how.to_owned());
        let broken = || damaged("the record at its end is truncated");
        let mut fields = || {
            end.u32()?;
            let disks = (end.u16()?, end.u16()?, end.u16()?);
            let place = (end.u16()?, end.u32()?, end.u32()?);
            let comment_length = end.u16()?;
            Some((disks, place, end.bytes(comment_length.into())?.to_vec()))
        };
        let (disks, (entries, length, start), comment) = fields().ok_or_else(broken)?;
        let mut place = EndRecord {
            start: start.into(),
            length: length.into(),
            entries: entries.into(),
            comment,
        };
        // The directory must end at or before this offset.
        let mut limit = tail_start + at as u64;
        let locator = at.checked_sub(20).map(|at| Numbers(&tail[at..]));
        let locator = locator.filter(|locator| locator.clone().u32() == Some(END64_LOCATOR));
        let needs_zip64 = disks.2 == IN_ZIP64_16
            || entries == IN_ZIP64_16
            || length == IN_ZIP64_32
            || start == IN_ZIP64_32;
        if let Some(locator) = locator {
            limit = place.take_zip64(locator, tail, tail_start, limit, read)?;
        } else if needs_zip64 {
            return Err(damaged("its zip64 record is missing"));
        } else if disks != (0, 0, entries) {
            return Err(damaged("it is one part of a split zip file"));
        }
        if place
            .start
            .checked_add(place.length)
            .is_none_or(|end| end > limit)
        {
            return Err(damaged("its directory is outside the file"));
        }
        Ok(place)
    }

    /// Replaces the numbers by those of the zip64 record to which a locator refers, and returns the offset
    /// of that record.
    fn take_zip64(
        &mut self,
        mut locator: Numbers<'_>,
        tail: &[u8],
        tail_start: u64,
        limit: u64,
        read: &dyn Fn(u64, u64) -> Result<Vec<u8>, Problem>,
    ) -> Result<u64, Problem> {
        let damaged = |how: &str| Problem::Directory(how.to_owned());
        let mut fields = || {
            locator.u32()?;
            Some((locator.u32()?, locator.u64()?, locator.u32()?))
        };
        let Some((disk, at, of_disks)) = fields() else {
            return Err(damaged("the record at its end is truncated"));
        };
        if disk != 0 || of_disks > 1 {
            return Err(damaged("it is one part of a split zip file"));
        }
        if at.checked_add(56 + 20).is_none_or(|end| end > limit) {
            return Err(damaged("its zip64 record is outside the file"));
        }
        let record = match at.checked_sub(tail_start) {
            Some(at) => tail[at as usize..][..56].to_vec(),
            None => read(at, 56)?,
        };
        let mut record = Numbers(&record);
        let mut fields = || {
            if record.u32()? != END64 {
                return None;
            }
            record.bytes(12)?; // its size and two versions
            let disks = (record.u32()?, record.u32()?, record.u64()?);
            Some((disks, record.u64()?, record.u64()?, record.u64()?))
        };
        let Some((disks, entries, length, start)) = fields() else {
            return Err(damaged("its zip64 record is invalid"));
        };
        if disks != (0, 0, entries) {
            return Err(damaged("it is one part of a split zip file"));
        }
        // If the 32-bit record also contains the number, both records must agree.
        let agrees = |old: u64, none: u64, new: u64| old == none || old == new;
        if !agrees(self.entries, IN_ZIP64_16.into(), entries)
            || !agrees(self.length, IN_ZIP64_32.into(), length)
            || !agrees(self.start, IN_ZIP64_32.into(), start)
        {
            return Err(damaged("the two records at its end contradict each other"));
        }
        (self.entries, self.length, self.start) = (entries, length, start);
        Ok(at)
    }
}

/// Returns the offset of the end record: the record whose comment ends at the end of the file. Two such records are an
/// error, because one would be in the comment of the other, and readers would disagree on which one to use.
fn end_record(tail: &[u8]) -> Result<Option<usize>, Problem> {
    let Some(last) = tail.len().checked_sub(22) else {
        return Ok(None);
    };
    let mut ends = (0..=last).rev().filter(|&at| {
        let record = &tail[at..];
        let comment = usize::from(u16::from_le_bytes([record[20], record[21]]));
        record.starts_with(&END.to_le_bytes()) && record.len() == 22 + comment
    });
    let found = ends.next();
    match ends.next() {
        None => Ok(found),
        Some(_) => Err(Problem::Directory("it has two end records".to_owned())),
    }
}

/// Returns the error for a file without an end record.
fn no_end(tail: &[u8], tail_start: u64) -> Problem {
    let not_zip = |what: &str| Problem::NotZip(what.to_owned());
    if tail_start > 0 {
        return not_zip(
            "it does not end like a zip file; if the download was incomplete, download it again",
        );
    }
    match tail {
        [] => not_zip("the file is empty"),
        [b'P', b'K', ..] => not_zip("it begins as a zip file, but is truncated; download it again"),
        [0x1f, 0x8b, ..] => not_zip("it is a gzip file (a WARC file?)"),
        [b'W', b'A', b'R', b'C', b'/', ..] => not_zip("it is a WARC file; `wacz create` packs it"),
        _ => match tail.trim_ascii_start().first() {
            Some(b'{' | b'[') => {
                not_zip("it looks like JSON; the name of a manifest must end in .json")
            }
            Some(b'<') => not_zip("it looks like HTML; the link may lead to a page about the file"),
            _ => not_zip("it is not a zip file"),
        },
    }
}

impl DirectoryEntry {
    /// Returns the maximum size of the local header in bytes, including the name and the longest
    /// possible extra fields.
    pub(crate) fn longest_header(&self) -> u64 {
        30 + u64::from(self.name_length) + u64::from(u16::MAX)
    }

    /// Parses an entry. Returns `None` if it is invalid or the member is on another disk.
    fn read(rest: &mut Numbers<'_>, directory: u64) -> Option<DirectoryEntry> {
        if rest.u32()? != CENTRAL {
            return None;
        }
        rest.bytes(4)?; // versions
        let (flags, method) = (rest.u16()?, rest.u16()?);
        rest.bytes(4)?; // time and date
        let crc = rest.u32()?;
        let (compressed, size) = (rest.u32()?, rest.u32()?);
        let lengths = (rest.u16()?, rest.u16()?, rest.u16()?);
        let disk = rest.u16()?;
        rest.bytes(6)?; // attributes
        let header = rest.u32()?;
        rest.bytes(lengths.0.into())?;
        let extra = rest.bytes(lengths.1.into())?;
        rest.bytes(lengths.2.into())?;
        let mut wide = extra_field(extra, ZIP64_EXTRA);
        let mut widen = |narrow: u32| match narrow {
            IN_ZIP64_32 => wide.as_mut()?.u64(),
            _ => Some(narrow.into()),
        };
        // Read in the order in which the zip64 extra field stores the numbers.
        let size = widen(size)?;
        let compressed = widen(compressed)?;
        let header = widen(header)?;
        let disk = match disk {
            IN_ZIP64_16 => wide.as_mut()?.u32()?,
            _ => disk.into(),
        };
        (disk == 0 && header < directory).then_some(DirectoryEntry {
            record: 0..0,
            name_length: lengths.0,
            flags,
            method,
            crc,
            compressed,
            size,
            header,
            end: 0,
        })
    }
}
