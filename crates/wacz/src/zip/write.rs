//! Writes zip files.

use std::io::{self, Seek, SeekFrom, Write};

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

use super::record::{MADE_BY, Record, WIDE};
use super::{END, END64, END64_LOCATOR, IN_ZIP64_16, IN_ZIP64_32, STORED};

/// Writes the data of a member. [`MemberWriter::finish`] completes it.
pub(crate) struct MemberWriter<W: Write + Seek> {
    data: Data<W>,
    record: Record,
    wide: bool,
    crc: Crc,
}

enum Data<W: Write> {
    Stored(Counting<W>),
    Deflated(DeflateEncoder<Counting<W>>),
}

impl<W: Write + Seek> MemberWriter<W> {
    /// Begins a member at the position of `out`. `size` is the size of the member's content in bytes,
    /// if known.
    pub(crate) fn new(
        mut out: W,
        mut record: Record,
        size: Option<u64>,
    ) -> io::Result<MemberWriter<W>> {
        record.header = out.stream_position()?;
        // Incompressible data becomes slightly larger.
        let wide = size.is_none_or(|size| size >= u64::from(IN_ZIP64_32) - (1 << 20));
        out.write_all(&record.local(wide))?;
        let out = Counting { out, count: 0 };
        Ok(MemberWriter {
            data: match record.method {
                STORED => Data::Stored(out),
                _ => Data::Deflated(DeflateEncoder::new(out, Compression::default())),
            },
            record,
            wide,
            crc: Crc::new(),
        })
    }

    /// Completes the header, and returns the end offset of the member and its record for the directory. The file is
    /// positioned at that offset.
    pub(crate) fn finish(self) -> io::Result<(u64, Record)> {
        let mut record = self.record;
        let Counting { mut out, count } = match self.data {
            Data::Stored(out) => out,
            Data::Deflated(data) => data.finish()?,
        };
        record.compressed = count;
        record.crc = self.crc.sum();
        if !self.wide && record.size.max(count) >= IN_ZIP64_32.into() {
            let text = "the member is longer than announced";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let end = out.stream_position()?;
        out.seek(SeekFrom::Start(record.header))?;
        out.write_all(&record.local(self.wide))?;
        out.seek(SeekFrom::Start(end))?;
        Ok((end, record))
    }
}

impl<W: Write + Seek> Write for MemberWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = match &mut self.data {
            Data::Stored(out) => out.write(bytes)?,
            Data::Deflated(data) => data.write(bytes)?,
        };
        self.crc.update(&bytes[..n]);
        self.record.size += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Counting<W> {
    out: W,
    count: u64,
}

impl<W: Write> Write for Counting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.count += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes the directory at the position of `out`, and the end record.
pub(crate) fn write_directory(
    mut out: impl Write + Seek,
    records: &[Record],
    comment: &[u8],
) -> io::Result<()> {
    let start = out.stream_position()?;
    let mut length = 0;
    for record in records {
        let bytes = record.central();
        length += bytes.len() as u64;
        out.write_all(&bytes)?;
    }
    let entries = records.len() as u64;
    let end = start + length;
    let mut bytes = Vec::new();
    if entries >= IN_ZIP64_16.into() || length >= IN_ZIP64_32.into() || start >= IN_ZIP64_32.into()
    {
        bytes.extend(END64.to_le_bytes());
        bytes.extend(44_u64.to_le_bytes());
        bytes.extend([MADE_BY, WIDE].map(u16::to_le_bytes).concat());
        bytes.extend([0; 8]);
        bytes.extend(
            [entries, entries, length, start]
                .map(u64::to_le_bytes)
                .concat(),
        );
        bytes.extend(END64_LOCATOR.to_le_bytes());
        bytes.extend(0_u32.to_le_bytes());
        bytes.extend(end.to_le_bytes());
        bytes.extend(1_u32.to_le_bytes());
    }
    let narrow = |n: u64| u32::try_from(n).unwrap_or(IN_ZIP64_32).to_le_bytes();
    let entries = u16::try_from(entries).unwrap_or(IN_ZIP64_16).to_le_bytes();
    bytes.extend(END.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend([entries, entries].concat());
    bytes.extend([narrow(length), narrow(start)].concat());
    bytes.extend((comment.len() as u16).to_le_bytes());
    bytes.extend(comment);
    out.write_all(&bytes)
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Read};

    use super::*;
    use crate::zip::Directory;
    use crate::zip::record::{Method, UTF8, dos_time};

    /// Reads the directory of a file whose part before offset `start` is missing; `write` writes
    /// the rest.
    fn read(start: u64, records: &[Record], comment: &[u8]) -> Directory {
        let mut end = Far {
            start,
            bytes: Cursor::new(Vec::new()),
        };
        write_directory(&mut end, records, comment).unwrap();
        let bytes = end.bytes.into_inner();
        let size = start + bytes.len() as u64;
        let section = |from: u64, length: u64| {
            let before = start.saturating_sub(from).min(length);
            let at = from.saturating_sub(start) as usize;
            io::repeat(0)
                .take(before)
                .chain(Cursor::new(bytes[at..].to_vec()))
        };
        Directory::read(size, u64::MAX, section).unwrap()
    }

    /// A file that pretends to begin at a far offset.
    struct Far {
        start: u64,
        bytes: Cursor<Vec<u8>>,
    }

    impl Write for Far {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.bytes.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Seek for Far {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            assert_eq!(to, SeekFrom::Current(0));
            Ok(self.start + self.bytes.position())
        }
    }

    #[test]
    fn numbers_of_any_size_read_back() {
        let edges = [
            0,
            1,
            u64::from(u32::MAX) - 1,
            u32::MAX.into(),
            1 << 32,
            1 << 40,
        ];
        for compressed in edges {
            for size in edges {
                for header in edges {
                    let start = header + compressed + 100;
                    let record = Record {
                        crc: 7,
                        compressed,
                        size,
                        header,
                        extra: vec![9, 9, 2, 0, 1, 2],
                        comment: b"about it".to_vec(),
                        ..Record::new(
                            "archive/\u{fc}.warc.gz",
                            Method::Stored,
                            dos_time("2026-03-19T10:20:15Z"),
                        )
                    };
                    let directory = read(start, std::slice::from_ref(&record), b"comment");
                    let [entry] = directory.entries() else {
                        panic!()
                    };
                    assert_eq!(
                        (entry.compressed, entry.size, entry.header, entry.crc),
                        (compressed, size, header, 7)
                    );
                    let found = directory.record(entry);
                    assert_eq!(found.time, record.time);
                    assert_eq!((found.extra, found.comment), (record.extra, record.comment));
                    assert_eq!(
                        (found.made_by, found.external, found.flags),
                        (record.made_by, record.external, UTF8)
                    );
                    assert_eq!(directory.comment(), b"comment");
                }
            }
        }
    }

    #[test]
    fn number_of_members_is_unlimited() {
        for n in [0, 1, 65_534, 65_535, 65_536, 70_000] {
            let records: Vec<Record> = (0..n)
                .map(|i| Record {
                    header: i * 50,
                    ..Record::new(&format!("{i}"), Method::Stored, 0)
                })
                .collect();
            assert_eq!(read(n * 50, &records, b"").entries().len() as u64, n);
        }
    }
}
