use std::io::{self, BufRead, Read};

use super::arc;
use super::current::Record;
use super::input::{Counting, Input};
use super::{Compression, Error, Header, Problem, problem};

/// Maximum length of a record header, in bytes. A longer one is an error: the memory that a record
/// takes must not depend on who wrote it.
pub const MAX_HEADER: usize = 64 * 1024;

const VERSIONS: [&str; 2] = ["1.0", "1.1"];

use crawlspace_warc::Extent;

/// Reads the records of a WARC or ARC file, one after the other.
///
/// Those of an ARC file come with the header that a WARC record would have: the one that describes the file as
/// `warcinfo`, what web servers sent as `response`, all else as `resource`.
///
pub struct Reader<R: BufRead> {
    file: String,
    pub(super) input: Input<R>,
    /// Where the current record begins, or the next one.
    pub(super) offset: u64,
    /// What is still to be read of the current record's block; `None` between records.
    pub(super) remaining: Option<u64>,
    content_length: u64,
    records: u64,
    is_arc: bool,
    /// The record that is being read describes the ARC file.
    is_description: bool,
    shared_members: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads from `input`; errors call it `file`.
    pub fn new(file: impl Into<String>, input: R) -> Reader<R> {
        Reader {
            file: file.into(),
            input: Input::Disk(Counting { input, count: 0 }),
            offset: 0,
            remaining: None,
            content_length: 0,
            records: 0,
            is_arc: false,
            is_description: false,
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
        if self.remaining.is_some() {
            self.finish()?;
        }
        if !self.is_in_member() {
            self.offset = self.input.offset();
        }
        let header = self.begin().map_err(|problem| self.error(problem))?;
        Ok(header.map(|header| Record {
            reader: self,
            header,
        }))
    }

    fn begin(&mut self) -> Result<Option<Header>, Problem> {
        let is_first = self.records == 0;
        let here = self.input.fill_buf().map_err(problem)?;
        match here.first() {
            None if is_first => return Err(Problem::Empty),
            None => return Ok(None),
            Some(0x1f) => self.input.open_member(),
            Some(b'W') if !self.is_arc => {}
            Some(_) if self.is_arc || is_first && begins_like(here, arc::BEGIN) => {}
            Some(_) => return Err(Problem::NotWarc),
        }
        let mut budget = MAX_HEADER;
        let first = self.line(&mut budget)?;
        let header = if self.is_arc || is_first && first.starts_with(arc::BEGIN) {
            self.is_arc = true;
            self.is_description = first.starts_with(arc::BEGIN);
            let wrong = |what: &str| Problem::Header(format!("the line of the ARC record: {what}"));
            arc::Line::parse(&first).map_err(wrong)?.header()?
        } else {
            self.warc_header(&first, &mut budget)?
        };
        self.content_length = header.content_length();
        self.remaining = Some(self.content_length);
        self.records += 1;
        Ok(Some(header))
    }

    fn warc_header(&mut self, version: &[u8], budget: &mut usize) -> Result<Header, Problem> {
        let Some(version) = version.strip_prefix(b"WARC/") else {
            return Err(Problem::NotWarc);
        };
        if !VERSIONS.iter().any(|known| known.as_bytes() == version) {
            return Err(Problem::Version {
                found: String::from_utf8_lossy(version).into_owned(),
                known: &VERSIONS,
            });
        }
        let mut fields: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        loop {
            let line = self.line(budget)?;
            if line.is_empty() {
                break;
            }
            let quoted = || format!("{:?}", String::from_utf8_lossy(&line[..line.len().min(80)]));
            if matches!(line[0], b' ' | b'\t') {
                // A folded line goes on with the value of the line before.
                let Some((_, value)) = fields.last_mut() else {
                    return Err(Problem::Header(format!("{} continues no field", quoted())));
                };
                value.push(b' ');
                value.extend_from_slice(line.trim_ascii());
                continue;
            }
            match line.iter().position(|&byte| byte == b':') {
                Some(colon) if colon > 0 => fields.push((
                    line[..colon].trim_ascii().to_vec(),
                    line[colon + 1..].trim_ascii().to_vec(),
                )),
                _ => return Err(Problem::Header(format!("{} is not a field", quoted()))),
            }
        }
        Header::new(fields)
    }

    /// A line of the record header, without its end.
    fn line(&mut self, budget: &mut usize) -> Result<Vec<u8>, Problem> {
        let mut line = Vec::new();
        // One byte more than allowed tells a line that is too long from one that is cut off.
        let read = (&mut self.input)
            .take(*budget as u64 + 1)
            .read_until(b'\n', &mut line)
            .map_err(problem)?;
        if read > *budget {
            return Err(Problem::Header(format!(
                "it is longer than {MAX_HEADER} bytes"
            )));
        }
        *budget -= read;
        if line.last() != Some(&b'\n') {
            return Err(Problem::Truncated);
        }
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(line)
    }

    pub(super) fn read_block(&mut self, into: &mut [u8]) -> Result<usize, Error> {
        let remaining = self.remaining.unwrap_or(0);
        let most = into
            .len()
            .min(usize::try_from(remaining).unwrap_or(usize::MAX));
        if most == 0 {
            return Ok(0);
        }
        match self.input.read(&mut into[..most]) {
            Ok(0) => Err(self.cut_off()),
            Ok(n) => {
                self.remaining = Some(remaining - n as u64);
                Ok(n)
            }
            Err(error) => Err(self.error(problem(error))),
        }
    }

    pub(super) fn finish(&mut self) -> Result<Extent, Error> {
        let outcome = if self.is_arc {
            self.end_arc_record()
        } else {
            self.end_warc_record()
        };
        match outcome {
            Ok(true) => {}
            Ok(false) => return Err(self.cut_off()),
            Err(problem) => return Err(self.error(problem)),
        }
        let compression = match &self.input {
            Input::Disk(_) => Compression::None,
            _ => Compression::PerRecord,
        };
        if let Err(problem) = self.close_member() {
            return Err(self.error(problem));
        }
        self.remaining = None;
        let size = self.input.offset() - self.offset;
        Ok(Extent {
            offset: self.offset,
            size,
            compression,
        })
    }

    /// Reads what closes a record; false when the input ends before.
    fn end_warc_record(&mut self) -> Result<bool, Problem> {
        let mut end = [0; 4];
        if !self.skip_block()? || !self.fill(&mut end)? {
            return Ok(false);
        }
        if &end == b"\r\n\r\n" {
            Ok(true)
        } else {
            Err(Problem::ContentLength(self.content_length))
        }
    }

    /// A record of an ARC file ends with a line end, which some count to the block of the first one, and some leave
    /// out at the end of the file.
    fn end_arc_record(&mut self) -> Result<bool, Problem> {
        if !self.skip_block()? {
            return Ok(false);
        }
        let mut is_closed = self.is_description;
        loop {
            let here = self.input.fill_buf().map_err(problem)?;
            let ends = here
                .iter()
                .take_while(|byte| matches!(byte, b'\r' | b'\n'))
                .count();
            is_closed |= ends > 0 || here.is_empty();
            if ends == 0 {
                break;
            }
            self.input.consume(ends);
        }
        if is_closed {
            Ok(true)
        } else {
            Err(Problem::ContentLength(self.content_length))
        }
    }

    /// Skips the rest of the block; false when the input ends before.
    fn skip_block(&mut self) -> Result<bool, Problem> {
        let mut remaining = self.remaining.unwrap_or(0);
        while remaining > 0 {
            let here = self.input.fill_buf().map_err(problem)?.len();
            if here == 0 {
                return Ok(false);
            }
            let skipped = here.min(usize::try_from(remaining).unwrap_or(usize::MAX));
            self.input.consume(skipped);
            remaining -= skipped as u64;
        }
        Ok(true)
    }

    /// Fills the buffer; false when the input ends before.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<bool, Problem> {
        match self.input.read_exact(buffer) {
            Ok(()) => Ok(true),
            // A cut-off gzip member gives the same error as the end of the data within it.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(problem(error)),
        }
    }

    /// Nothing may follow the record in its gzip member, whose checksum is verified here.
    fn close_member(&mut self) -> Result<(), Problem> {
        if !self.is_in_member() {
            return Ok(());
        }
        let rest = self.input.fill_buf().map_err(problem)?;
        if rest.is_empty() {
            self.input.close_member();
            return Ok(());
        }
        let is_record = if self.is_arc {
            arc::may_begin(rest)
        } else {
            begins_like(rest, b"WARC/")
        };
        if !is_record {
            Err(Problem::ContentLength(self.content_length))
        } else if self.shared_members {
            Ok(())
        } else {
            Err(Problem::NotRecordCompressed)
        }
    }

    fn is_in_member(&self) -> bool {
        matches!(self.input, Input::Member(_))
    }

    /// The input ended within the record: either the file is cut off, or a whole gzip member was
    /// shorter than the record claims to be.
    pub(super) fn cut_off(&mut self) -> Error {
        let whole_member =
            self.is_in_member() && matches!(self.input.fill_buf(), Ok(rest) if rest.is_empty());
        let problem = if whole_member {
            Problem::ContentLength(self.content_length)
        } else {
            Problem::Truncated
        };
        self.error(problem)
    }

    pub(super) fn error(&self, problem: Problem) -> Error {
        Error {
            file: self.file.clone(),
            offset: self.offset,
            problem,
        }
    }
}

/// Whether bytes, of which there may be few, begin like that.
fn begins_like(bytes: &[u8], beginning: &[u8]) -> bool {
    bytes.iter().zip(beginning).all(|(a, b)| a == b)
}
