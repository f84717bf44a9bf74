//! Reads the content of a member, and verifies it at the end.

use std::io::{self, BufRead, BufReader, Read};

use flate2::Crc;
use flate2::bufread::DeflateDecoder;

use super::number::{Numbers, extra_field};
use super::{
    DEFLATED, DESCRIPTOR, DirectoryEntry, ENCRYPTED, IN_ZIP64_32, LOCAL, STORED, ZIP64_EXTRA,
};
use crate::Problem;

/// Reads the local header of a member, which must agree with the directory. `input` must be positioned at the header,
/// and is positioned at the data of the member afterwards. Returns the size of the header.
pub(crate) fn read_header(
    input: &mut impl Read,
    entry: &DirectoryEntry,
    name: &str,
) -> Result<u64, Problem> {
    if entry.flags & ENCRYPTED != 0 {
        return Err(Problem::Encrypted);
    }
    if !matches!(entry.method, STORED | DEFLATED) {
        return Err(Problem::Method(entry.method));
    }
    let mut fixed = [0; 30];
    input.read_exact(&mut fixed)?;
    let header = Local::read(&fixed);
    let Some(header) = header else {
        return Err(Problem::Damaged(
            "it does not begin where the directory says".to_owned(),
        ));
    };
    let mut found = vec![0; header.name_length.into()];
    input.read_exact(&mut found)?;
    let mut extra = vec![0; header.extra_length.into()];
    input.read_exact(&mut extra)?;
    let differs = |what: &str| {
        Problem::Damaged(format!(
            "the {what} in its local header and in the directory differ"
        ))
    };
    if found != name.as_bytes() {
        return Err(differs("name"));
    }
    if header.method != entry.method || header.flags & ENCRYPTED != 0 {
        return Err(differs("compression"));
    }
    if header.flags & DESCRIPTOR == 0 {
        let mut wide = extra_field(&extra, ZIP64_EXTRA);
        let mut widen = |narrow: u32| match narrow {
            IN_ZIP64_32 => wide.as_mut()?.u64(),
            _ => Some(narrow.into()),
        };
        let (size, compressed) = (widen(header.size), widen(header.compressed));
        if size != Some(entry.size) || compressed != Some(entry.compressed) {
            return Err(differs("size"));
        }
        if header.crc != entry.crc {
            return Err(differs("checksum"));
        }
    }
    let length = 30 + u64::from(header.name_length) + u64::from(header.extra_length);
    if entry.header + length + entry.compressed > entry.end {
        return Err(Problem::Damaged(
            "its data overlaps the next member or the directory".to_owned(),
        ));
    }
    Ok(length)
}

struct Local {
    flags: u16,
    method: u16,
    crc: u32,
    compressed: u32,
    size: u32,
    name_length: u16,
    extra_length: u16,
}

impl Local {
    fn read(fixed: &[u8; 30]) -> Option<Local> {
        let mut fields = Numbers(fixed);
        if fields.u32()? != LOCAL {
            return None;
        }
        fields.u16()?; // version
        let (flags, method) = (fields.u16()?, fields.u16()?);
        fields.u32()?; // time and date
        Some(Local {
            flags,
            method,
            crc: fields.u32()?,
            compressed: fields.u32()?,
            size: fields.u32()?,
            name_length: fields.u16()?,
            extra_length: fields.u16()?,
        })
    }
}

/// The content of a member. Reading fails at the end of the content if the size or the checksum is
/// wrong.
pub(crate) struct Content<R: Read> {
    data: Data<R>,
    compressed: u64,
    size: u64,
    crc: u32,
    read: Crc,
    count: u64,
    proved: bool,
}

enum Data<R: Read> {
    Stored(io::Take<R>),
    Deflated(DeflateDecoder<BufReader<io::Take<R>>>),
}

impl<R: Read> Content<R> {
    /// Reads the content from `input`, which is positioned at the data of the member.
    pub(crate) fn new(input: R, entry: &DirectoryEntry) -> Content<R> {
        let data = input.take(entry.compressed);
        Content {
            data: match entry.method {
                STORED => Data::Stored(data),
                _ => Data::Deflated(DeflateDecoder::new(BufReader::with_capacity(
                    64 * 1024,
                    data,
                ))),
            },
            compressed: entry.compressed,
            size: entry.size,
            crc: entry.crc,
            read: Crc::new(),
            count: 0,
            proved: false,
        }
    }

    fn prove(&mut self) -> Result<(), Problem> {
        let wrong = |what: String| Err(Problem::Damaged(what));
        let taken = match &mut self.data {
            Data::Stored(_) => self.count,
            Data::Deflated(data) => {
                let taken = data.total_in();
                // The decompressor must consume all data. `fill_buf` also reads from the input if its
                // buffer is empty.
                if !data.get_mut().fill_buf()?.is_empty() {
                    return wrong("bytes follow the end of its compressed data".to_owned());
                }
                taken
            }
        };
        if self.count != self.size {
            return wrong(format!(
                "it has {} bytes, but the directory says {}",
                self.count, self.size
            ));
        }
        if taken != self.compressed {
            return wrong(format!(
                "it takes {taken} bytes of the file, but the directory says {}",
                self.compressed
            ));
        }
        if self.read.sum() != self.crc {
            return wrong("its checksum (CRC-32) is wrong".to_owned());
        }
        self.proved = true;
        Ok(())
    }
}

impl<R: Read> Read for Content<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.proved || into.is_empty() {
            return Ok(0);
        }
        let n = match &mut self.data {
            Data::Stored(data) => data.read(into)?,
            Data::Deflated(data) => data.read(into).map_err(deflate_problem)?,
        };
        if n == 0 {
            self.prove()?;
            return Ok(0);
        }
        self.count += n as u64;
        if self.count > self.size {
            let what = format!(
                "it has more than the {} bytes that the directory says",
                self.size
            );
            return Err(Problem::Damaged(what).into());
        }
        self.read.update(&into[..n]);
        Ok(n)
    }
}

/// Converts an error of the decoder to [`Problem::Damaged`].
fn deflate_problem(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            Problem::Damaged(format!("its compressed data is invalid ({error})")).into()
        }
        _ => error,
    }
}
