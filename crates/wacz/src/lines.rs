use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::bufread::MultiGzDecoder;

use super::{Error, Options, Problem};

/// How much of the text of an index the limit of [`Options::ratio`] leaves alone, in bytes.
const FREE: u64 = 16 << 20;
const BUFFER: usize = 64 * 1024;

/// The lines of an index, one after the other, unpacked while they are read.
///
/// Checksums stand at the end: only after [`Lines::next`] has said `None` is it known that all lines were those that
/// the package was made with.
pub struct Lines {
    file: String,
    member: String,
    text: Box<dyn BufRead + Send>,
    line: Vec<u8>,
    longest: usize,
    number: u64,
}

impl Lines {
    /// `content` is the member as it is unpacked from the zip file, where it takes `compressed` bytes.
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

    /// The next line, without its end, or `None` after the last one. Empty lines and headers are lines, too.
    ///
    /// # Errors
    /// When the member is damaged, or larger than the options allow. There is no going on after an error.
    #[allow(clippy::should_implement_trait)] // a line borrows the reader, so this is no Iterator
    pub fn next(&mut self) -> Result<Option<&[u8]>, Error> {
        self.line.clear();
        // One byte more than allowed tells a line that is too long from the last one.
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

    /// The number of the line that was read last, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The name of the member.
    pub fn member(&self) -> &str {
        &self.member
    }

    fn error(&self, problem: Problem) -> Error {
        Error::of_member(&self.file, &self.member, problem)
    }
}

/// What is in the member: its content, or what that unpacks to if it is gzip.
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
    // An index in blocks (ZipNum) has one gzip member for each.
    let unpacked = Gunzip(MultiGzDecoder::new(content));
    let bounds = Bounded::new(unpacked, compressed, options);
    Ok(Box::new(BufReader::with_capacity(BUFFER, bounds)))
}

/// Says what is wrong with gzip data in our own words.
struct Gunzip<R: BufRead>(MultiGzDecoder<R>);

impl<R: BufRead> Read for Gunzip<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Problem::Gzip("it is cut off".to_owned()).into(),
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
                Problem::Gzip(error.to_string()).into()
            }
            _ => error,
        })
    }
}

/// Text up to a limit.
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
