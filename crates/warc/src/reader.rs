//! Blocking reader of the records of a file.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::input::Input;
use super::parser::without_padding;
use super::{After, Compression, Deviations, Error, Header, Parser, Problem, Record, SLACK};

/// Position and form of a record in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Offset of the record in bytes.
    pub offset: u64,
    /// Size of the record in the file in bytes; if compressed, the size of its gzip member.
    pub size: u64,
    /// Number of bytes at the end of an uncompressed record that close it, usually an empty line and the line end
    /// before it. 0 if the record is compressed.
    pub closing: u64,
    /// Compression of the record.
    pub compression: Compression,
    /// Deviations of the record from the standard.
    pub deviations: Deviations,
}

/// Reads the records of a WARC or ARC file in order.
///
/// ARC records are returned with the header of the equivalent WARC record: the record that describes the file
/// as `warcinfo`, HTTP captures as `response`, all others as `resource`.
///
/// ```
/// use crawlspace_warc::{Compression, Reader, RecordType, Writer};
/// let mut file = Vec::new();
/// let fields: [(&str, &[u8]); 2] =
///     [("WARC-Type", b"response"), ("WARC-Target-URI", b"http://example.com/")];
/// Writer::new(&mut file, Compression::PerRecord).write(&fields, b"HTTP/1.1 200 OK\r\n\r\nhello")?;
///
/// let mut warc = Reader::new("example.warc.gz", &file[..]);
/// while let Some(record) = warc.next()? {
///     assert_eq!(record.header().record_type(), RecordType::Response);
///     assert_eq!(record.header().target_uri(), Some(&b"http://example.com/"[..]));
///     assert_eq!(record.finish()?.size, file.len() as u64);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Reader<R> {
    file: String,
    input: Input<R>,
    parser: Parser,
    /// Offset of the current record or, between records, of the next record.
    offset: u64,
    in_record: bool,
    shared_members: bool,
}

impl Reader<File> {
    /// Opens a file.
    ///
    /// # Errors
    /// Fails when the file cannot be opened.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => Ok(Reader::new(name, file)),
            Err(error) => Err(Error {
                file: name,
                offset: 0,
                problem: Problem::Io(error),
            }),
        }
    }
}

impl<R: Read> Reader<R> {
    /// Creates a reader of `input`, which is read in steps of 64 KiB. Error messages use `file` as
    /// its name.
    pub fn new(file: impl Into<String>, input: R) -> Reader<R> {
        Reader {
            file: file.into(),
            input: Input::new(input),
            parser: Parser::of_file(),
            offset: 0,
            in_record: false,
            shared_members: false,
        }
    }

    /// Accepts files that were compressed as a whole: a gzip member may contain several records, each of
    /// which gets the offset of the member. By default, such files are an error, because their records have
    /// no offsets of their own.
    pub fn with_shared_members(mut self) -> Reader<R> {
        self.shared_members = true;
        self
    }

    /// Returns the next record, or `None` at the end of the file. The unread rest of the previous record is
    /// skipped.
    ///
    /// # Errors
    /// Fails if the next bytes are not a complete, valid record. The reader cannot continue after
    /// an error.
    #[allow(clippy::should_implement_trait)] // a record borrows its reader, so this cannot be an Iterator
    pub fn next(&mut self) -> Result<Option<Record<'_, R>>, Error> {
        if self.in_record {
            self.finish()?;
        }
        let header = self.begin().map_err(|problem| self.error(problem))?;
        Ok(header.map(|header| Record {
            reader: self,
            header,
        }))
    }

    fn begin(&mut self) -> Result<Option<Header>, Problem> {
        while !self.input.is_in_member() {
            self.offset = self.input.position();
            if !self.input.open()? {
                return match self.offset {
                    0 => Err(Problem::Empty),
                    _ => Ok(None),
                };
            }
            let bytes = self.input.bytes();
            let padding = bytes.len() - without_padding(bytes).len();
            if self.offset == 0 || padding == 0 {
                break;
            }
            self.input.consume(padding);
        }
        let mut after = After::More;
        loop {
            if let Some((header, length)) = self.parser.header(self.input.bytes(), after)? {
                self.input.consume(length);
                self.in_record = true;
                return Ok(Some(header));
            }
            after = match self.input.more() {
                // The parser reports an error in the available lines first, because it is more
                // specific.
                Err(Problem::Truncated) => After::File,
                more => more?,
            };
        }
    }

    /// Returns the available bytes of the block; empty only at its end.
    pub(super) fn block(&mut self) -> Result<&[u8], Error> {
        if self.parser.left() > 0 && self.input.bytes().is_empty() {
            let problem = match self.input.more() {
                Ok(After::More) => None,
                // In a complete gzip member, a block that is a few bytes shorter than its header
                // says is not truncated.
                Ok(After::Member) if self.parser.left() <= SLACK as u64 => None,
                Ok(after) => Some(self.parser.cut_off(after)),
                Err(problem) => Some(problem),
            };
            if let Some(problem) = problem {
                return Err(self.error(problem));
            }
        }
        let most = usize::try_from(self.parser.left()).unwrap_or(usize::MAX);
        let bytes = self.input.bytes();
        Ok(bytes.get(..most).unwrap_or(bytes))
    }

    /// Marks bytes of the block as consumed.
    pub(super) fn take(&mut self, bytes: usize) {
        let taken = self.parser.block(bytes);
        self.input.consume(taken);
    }

    pub(super) fn finish(&mut self) -> Result<Extent, Error> {
        while self.parser.left() > 0 {
            let bytes = self.block()?.len();
            if bytes == 0 {
                break;
            }
            self.take(bytes);
        }
        let compression = if self.input.is_in_member() {
            Compression::PerRecord
        } else {
            Compression::None
        };
        let end_of_block = self.input.position();
        self.end().map_err(|problem| self.error(problem))?;
        self.in_record = false;
        let end = self.input.position();
        Ok(Extent {
            offset: self.offset,
            size: end - self.offset,
            closing: match compression {
                Compression::None => end - end_of_block,
                Compression::PerRecord => 0,
            },
            compression,
            deviations: self.parser.deviations(),
        })
    }

    fn end(&mut self) -> Result<(), Problem> {
        let mut after = After::More;
        loop {
            if let Some(ending) = self.parser.end(self.input.bytes(), after)? {
                self.input.consume(ending.size);
                break;
            }
            after = self.input.more()?;
        }
        if !self.input.is_in_member() || self.input.close()? {
            Ok(())
        } else if !self.parser.may_follow(self.input.bytes()) {
            Err(self.parser.wrong_length())
        } else if self.shared_members {
            Ok(())
        } else {
            Err(Problem::NotRecordCompressed)
        }
    }

    pub(super) fn is_arc(&self) -> bool {
        self.parser.is_arc()
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn error(&self, problem: Problem) -> Error {
        Error {
            file: self.file.clone(),
            offset: self.offset,
            problem,
        }
    }
}
