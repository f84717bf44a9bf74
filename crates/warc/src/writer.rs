use std::io::{self, Write};

use flate2::write::GzEncoder;

/// Compression of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Uncompressed.
    None,
    /// A separate gzip member for each record, so that each record can be read independently.
    PerRecord,
}

/// Writes WARC/1.1 records.
///
/// ```
/// use crawlspace_warc::{Compression, Writer};
/// let mut file = Vec::new();
/// let mut warc = Writer::new(&mut file, Compression::PerRecord);
/// let size = warc.write(&[("WARC-Type", b"metadata")], b"outlinks: 3\r\n")?;
/// assert_eq!(size, file.len() as u64);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    compression: Compression,
}

impl<W: Write> Writer<W> {
    /// Creates a writer that appends to `out`.
    pub fn new(out: W, compression: Compression) -> Writer<W> {
        Writer { out, compression }
    }

    /// Writes one record, with `Content-Length` added to the fields. Returns the size of the record
    /// in the file, in bytes.
    ///
    /// # Errors
    /// Fails with the errors of `out`; `InvalidInput` for a field name or value with a line end.
    pub fn write(&mut self, fields: &[(&str, &[u8])], block: &[u8]) -> io::Result<u64> {
        let mut header = b"WARC/1.1\r\n".to_vec();
        let length = block.len().to_string();
        for (name, value) in fields
            .iter()
            .copied()
            .chain([("Content-Length", length.as_bytes())])
        {
            let clean = |bytes: &[u8]| !bytes.iter().any(|b| matches!(b, b'\r' | b'\n'));
            if !clean(name.as_bytes()) || !clean(value) {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("the field {name:?} contains a line end"),
                ));
            }
            header.extend_from_slice(name.as_bytes());
            header.extend_from_slice(b": ");
            header.extend_from_slice(value);
            header.extend_from_slice(b"\r\n");
        }
        header.extend_from_slice(b"\r\n");

        let parts = [&header[..], block, b"\r\n\r\n"];
        let mut out = Counting {
            out: &mut self.out,
            count: 0,
        };
        match self.compression {
            Compression::None => parts.iter().try_for_each(|part| out.write_all(part))?,
            Compression::PerRecord => {
                let mut member = GzEncoder::new(&mut out, flate2::Compression::default());
                parts.iter().try_for_each(|part| member.write_all(part))?;
                member.finish()?;
            }
        }
        Ok(out.count)
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
