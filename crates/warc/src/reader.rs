//! The records of a file, for a thread that may wait.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::input::Input;
use super::parser::without_padding;
use super::{After, Compression, Deviations, Error, Header, Parser, Problem, Record, SLACK};

/// Where a record lies in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes before it.
    pub offset: u64,
    /// Its size in the file in bytes, that of the gzip member if it is compressed.
    pub size: u64,
    /// How it is written.
    pub compression: Compression,
    /// How it deviates from the standard.
    pub deviations: Deviations,
}

/// Reads the records of a WARC or ARC file, one after the other.
///
/// Those of an ARC file come with the header that a WARC record would have: the one that describes the file as
/// `warcinfo`, what web servers sent as `response`, all else as `resource`.
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
    /// Where the current record begins, or the next one.
    offset: u64,
    in_record: bool,
    shared_members: bool,
}

impl Reader<File> {
    /// Opens a file.
    ///
    /// # Errors
    /// When it cannot be opened.
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
    /// Reads from `input`, in steps of 64 KiB; errors call it `file`.
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

    /// Reads also what others have compressed as a whole: gzip members that hold many records, all of which have the
    /// offset of their member then. Without this they are an error, since none has a place of its own in the file.
    pub fn with_shared_members(mut self) -> Reader<R> {
        self.shared_members = true;
        self
    }

    /// The next record, or `None` at the end of the file. What was not read of the record before is skipped.
    ///
    /// # Errors
    /// Anything that is not a whole WARC record. The reader cannot go on after an error.
    #[allow(clippy::should_implement_trait)] // a record borrows its reader, so this is no Iterator
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
                // What is wrong with the lines that are there says more.
                Err(Problem::Truncated) => After::File,
                more => more?,
            };
        }
    }

    /// The bytes of the block that are there; none only at its end.
    pub(super) fn block(&mut self) -> Result<&[u8], Error> {
        if self.parser.left() > 0 && self.input.bytes().is_empty() {
            let problem = match self.input.more() {
                Ok(After::More) => None,
                // A few bytes less than the header says are no loss where all of a gzip member was read.
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

    /// Skips bytes of the block that were used.
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
        self.end().map_err(|problem| self.error(problem))?;
        self.in_record = false;
        Ok(Extent {
            offset: self.offset,
            size: self.input.position() - self.offset,
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
