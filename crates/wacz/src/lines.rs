use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::bufread::MultiGzDecoder;

use super::{Error, Options, Problem};

/// Decompressed size in bytes up to which an index is exempt from the limit [`Options::ratio`].
const FREE: u64 = 16 << 20;
const BUFFER: usize = 64 * 1024;

/// The lines of an index, decompressed while they are read.
///
/// Checksums are verified at the end. Therefore, the lines are only known to be intact after [`Lines::next`]
/// has returned `None`.
pub struct Lines {
    file: String,
    member: String,
    text: Box<dyn BufRead + Send>,
    line: Vec<u8>,
    longest: usize,
    number: u64,
}

impl Lines {
    /// Reads the lines of `content`, a decompressed member that takes `compressed` bytes in the zip file.
    pub(super) fn new(
        file: &str,
        member: &str,
        content: impl Read + Send + 'static,
        compressed: u64,
        options: &Options,
    ) -> Result<Lines, Error> {
        let text = text(content, compressed, options)
            .map_err(|error| Error::of_member(file, member, error.into()))?;
        Ok(Lines {
            file: file.to_owned(),
            member: member.to_owned(),
            text,
            line: Vec::new(),
            longest: options.line,
            number: 0,
        })
    }

    /// Returns the next line without its line end, or `None` after the last line. Empty lines and headers are also
    /// returned.
    ///
    /// # Errors
    /// Fails if the member is damaged, or exceeds a limit of the options. Reading cannot continue after an error.
    #[allow(clippy::should_implement_trait)] // a line borrows the reader, so this is not an Iterator
    pub fn next(&mut self) -> Result<Option<&[u8]>, Error> {
        self.line.clear();
        // Read one byte more than the limit, to distinguish a line that is too long from a last line of maximum
        // length.
        let most = self.longest as u64 + 1;
        let read = (&mut self.text)
            .take(most)
            .read_until(b'\n', &mut self.line);
        match read {
            Err(error) => return Err(self.error(error.into())),
            Ok(0) => return Ok(None),
            Ok(_) => self.number += 1,
        }
        if self.line.ends_with(b"\n") {
            self.line.pop();
        } else if self.line.len() > self.longest {
            return Err(self.error(Problem::TooLarge {
                what: format!("line {}", self.number),
                limit: format!("{} bytes", self.longest),
                option: "line",
            }));
        }
        if self.line.ends_with(b"\r") {
            self.line.pop();
        }
        Ok(Some(&self.line))
    }

    /// Returns the number of the last line that was read, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the name of the member.
    pub fn member(&self) -> &str {
        &self.member
    }

    fn error(&self, problem: Problem) -> Error {
        Error::of_member(&self.file, &self.member, problem)
    }
}

/// Returns a reader of the text of the member; gzip content is decompressed.
fn text(
    mut content: impl Read + Send + 'static,
    compressed: u64,
    options: &Options,
) -> io::Result<Box<dyn BufRead + Send>> {
    let mut magic = Vec::with_capacity(2);
    (&mut content).take(2).read_to_end(&mut magic)?;
    let is_gzip = magic == [0x1f, 0x8b];
    let content = BufReader::with_capacity(BUFFER, Cursor::new(magic).chain(content));
    let bounds = |text| Bounded::new(text, compressed, options);
    if !is_gzip {
        return Ok(Box::new(BufReader::with_capacity(BUFFER, bounds(content))));
    }
    // A compressed index (ZipNum) has one gzip member per block.
    let unpacked = Gunzip(MultiGzDecoder::new(content));
    let bounds = Bounded::new(unpacked, compressed, options);
    Ok(Box::new(BufReader::with_capacity(BUFFER, bounds)))
}

/// Converts errors of the gzip decoder to [`Problem::Gzip`].
struct Gunzip<R: BufRead>(MultiGzDecoder<R>);

impl<R: BufRead> Read for Gunzip<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Problem::Gzip("it is truncated".to_owned()).into(),
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
                Problem::Gzip(error.to_string()).into()
            }
            _ => error,
        })
    }
}

/// Text with a size limit.
struct Bounded<R> {
    text: R,
    count: u64,
    total: u64,
    ratio: u64,
    compressed: u64,
}

impl<R> Bounded<R> {
    fn new(text: R, compressed: u64, options: &Options) -> Bounded<R> {
        Bounded {
            text,
            count: 0,
            total: options.text,
            ratio: options.ratio,
            compressed,
        }
    }

    fn check(&self) -> Result<(), Problem> {
        if self.count > self.total {
            return Err(Problem::TooLarge {
                what: "its text".to_owned(),
                limit: format!("{} bytes", self.total),
                option: "text",
            });
        }
        if self.count > FREE && self.count > self.compressed.saturating_mul(self.ratio) {
            return Err(Problem::TooLarge {
                what: "its text".to_owned(),
                limit: format!(
                    "{} times the {} bytes that it takes in the package",
                    self.ratio, self.compressed
                ),
                option: "ratio",
            });
        }
        Ok(())
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.text.read(into)?;
        self.count += n as u64;
        self.check()?;
        Ok(n)
    }
}
