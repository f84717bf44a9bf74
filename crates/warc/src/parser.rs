//! Records of WARC and ARC files, out of bytes that somebody else reads.

use super::arc::{self, Line};
use super::header::{MAX_HEADER, end_of_header};
use super::{Header, Problem};

/// What is accepted, beyond what the standards say.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The versions that are known.
    pub versions: &'static [&'static str],
    /// Number of fields of a header.
    pub max_fields: usize,
    /// Values of fields may hold control characters.
    pub control_characters: bool,
    /// Lines of a header may have more than one CR before their LF: the file was taken for text on its way.
    pub repeated_returns: bool,
    /// Nothing or one line end may close a record that nothing follows: indexes count the rest out of its length.
    pub open_end: bool,
    /// A record without `Content-Length` ends where its gzip member does, which is at most [`MAX_OPEN`] bytes.
    pub open_length: bool,
    /// An ARC record may come without the record that describes its file. It is a `response` of the media type that
    /// its line says: whoever asks for one record looks at its block.
    pub lone_arc: bool,
}

impl Rules {
    /// A file that is read from its beginning to its end.
    pub const FILE: Rules = Rules {
        versions: &["1.0", "1.1"],
        max_fields: usize::MAX,
        control_characters: true,
        repeated_returns: false,
        open_end: false,
        open_length: false,
        lone_arc: false,
    };
    /// One record of a file.
    pub const RECORD: Rules = Rules {
        versions: &["1.0", "1.1", "0.18", "0.17"],
        max_fields: 1000,
        control_characters: false,
        repeated_returns: true,
        open_end: true,
        open_length: true,
        lone_arc: true,
    };
}

/// What comes after the bytes that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// More bytes, as far as is known.
    More,
    /// The end of the gzip member that they are in.
    Member,
    /// The end of the file.
    File,
}

/// What closes a record of a WARC file.
pub const END: &[u8] = b"\r\n\r\n";
/// Number of bytes after a block that show that it ends there: the end of the record, and `WARC/` of the next one.
pub const LOOK: usize = END.len() + WARC.len();
const WARC: &[u8] = b"WARC/";
/// Maximum size of a record without `Content-Length`, unpacked, in bytes: all of it is read before its length is known.
pub const MAX_OPEN: usize = 1 << 20;

/// Parses one record after the other: [`Parser::header`], then [`Parser::block`] to the end of the block, then
/// [`Parser::end`]. It keeps no bytes: each call gets those that were not used yet.
///
/// ```
/// use crawlspace_warc::{After, Parser, Rules};
/// let file = b"WARC/1.0\r\nWARC-Type: resource\r\nContent-Length: 2\r\n\r\nhi\r\n\r\n";
/// let mut parser = Parser::new(Rules::FILE);
/// assert!(parser.header(&file[..30], After::More)?.is_none());
/// let (header, length) = parser.header(file, After::File)?.unwrap();
/// assert_eq!(header.content_length(), 2);
/// let rest = &file[length..];
/// assert_eq!(parser.block(rest.len()), 2);
/// assert_eq!(parser.end(&rest[2..], After::File)?, (4, true));
/// # Ok::<(), crawlspace_warc::Problem>(())
/// ```
#[derive(Clone, Debug)]
pub struct Parser {
    rules: Rules,
    is_first: bool,
    is_arc: bool,
    content_length: u64,
    /// What is still to come of the block.
    left: u64,
    /// A line end has come, or none is needed: the record describes the ARC file.
    is_closed: bool,
}

impl Parser {
    /// A parser for the beginning of a file, or of one record in it.
    pub fn new(rules: Rules) -> Parser {
        Parser {
            rules,
            is_first: true,
            is_arc: false,
            content_length: 0,
            left: 0,
            is_closed: false,
        }
    }

    /// The header that the bytes begin with, and its length; `None` when more of it has to come. That of an ARC
    /// record is the one that a WARC record would have.
    ///
    /// # Errors
    /// When no valid record begins there, or it is cut off.
    pub fn header(
        &mut self,
        bytes: &[u8],
        after: After,
    ) -> Result<Option<(Header, usize)>, Problem> {
        let is_warc = begins_like(bytes, WARC);
        let may_be_arc = self.is_first && begins_like(bytes, arc::BEGIN)
            || self.rules.lone_arc && arc::may_begin(bytes);
        let is_arc = self.is_arc || !is_warc && may_be_arc;
        if !is_arc && !is_warc {
            return Err(Problem::NotWarc);
        }
        let end = if is_arc {
            memchr::memchr(b'\n', bytes).map(|at| at + 1)
        } else {
            end_of_header(bytes, &self.rules)
        };
        let too_long = end.unwrap_or(bytes.len()) > MAX_HEADER;
        let Some(raw) = end.filter(|_| !too_long).and_then(|end| bytes.get(..end)) else {
            if !is_arc && (too_long || after != After::More) {
                // What is wrong with the lines that are there says more.
                Header::parse_lines(bytes, &self.rules)?;
            }
            return match after {
                _ if too_long => {
                    let what = format!("it is longer than {MAX_HEADER} bytes");
                    Err(Problem::Header(what))
                }
                After::More => Ok(None),
                After::Member | After::File => Err(Problem::Truncated),
            };
        };
        self.is_closed = false;
        let header = if is_arc {
            self.arc_header(raw)?
        } else {
            let mut header = Header::parse_lines(raw, &self.rules)?;
            if self.rules.open_length && header.get("Content-Length").is_none() {
                match after {
                    After::More if bytes.len() <= MAX_OPEN => return Ok(None),
                    After::Member if bytes.len() <= MAX_OPEN => {
                        let block = &bytes[raw.len()..];
                        let block = block.strip_suffix(END).unwrap_or(block);
                        header.set_content_length(block.len() as u64);
                    }
                    _ => {}
                }
            }
            header.complete()?
        };
        (self.is_arc, self.is_first) = (is_arc, false);
        self.content_length = header.content_length();
        self.left = self.content_length;
        Ok(Some((header, raw.len())))
    }

    fn arc_header(&mut self, line: &[u8]) -> Result<Header, Problem> {
        let wrong = |what: &str| Problem::Header(format!("the line of the ARC record: {what}"));
        let describes_file = line.starts_with(arc::BEGIN);
        if describes_file && self.rules.lone_arc {
            return Err(wrong("it describes the ARC file itself"));
        }
        let line = Line::parse(line).map_err(wrong)?;
        self.is_closed = describes_file;
        Ok(if self.rules.lone_arc {
            line.header("response", line.media_type)
        } else {
            line.likely_header()
        })
    }

    /// How many of the bytes that come next are of the block, which they are counted as; 0 after its end.
    pub fn block(&mut self, bytes: usize) -> usize {
        let size = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes);
        self.left -= size as u64;
        size
    }

    /// What is still to come of the block, in bytes.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Whether the record is one of an ARC file.
    pub fn is_arc(&self) -> bool {
        self.is_arc
    }

    /// How many of the bytes after the block close the record, and whether it is complete with them. If not, more
    /// has to come.
    ///
    /// # Errors
    /// When the record does not end there, or is cut off.
    pub fn end(&mut self, bytes: &[u8], after: After) -> Result<(usize, bool), Problem> {
        let is_last = after != After::More;
        let line_ends = || {
            bytes
                .iter()
                .take_while(|byte| matches!(byte, b'\r' | b'\n'))
        };
        let (size, is_right) = if self.is_arc {
            // Some count the line end to the block of the first record, and some leave it out at the end of the file.
            let ends = line_ends().count();
            self.is_closed |= ends > 0;
            if ends == bytes.len() && !is_last && !(self.rules.lone_arc && self.is_closed) {
                return Ok((ends, false));
            }
            (ends, self.is_closed || bytes.is_empty())
        } else if self.rules.open_end {
            if bytes.len() < LOOK && !is_last {
                return Ok((0, false));
            }
            let ends = line_ends().take(END.len()).count();
            let next = &bytes[ends..];
            (
                ends,
                next.is_empty() || ends >= 2 && begins_like(next, WARC),
            )
        } else {
            match bytes.get(..END.len()) {
                Some(end) => (END.len(), end == END),
                None if is_last => return Err(self.cut_off(after)),
                None => return Ok((0, false)),
            }
        };
        match (self.left, is_right) {
            (0, true) => Ok((size, true)),
            (0, false) => Err(self.wrong_length()),
            (_, _) => Err(self.cut_off(after)),
        }
    }

    /// Whether another record of the same file can begin with these bytes.
    pub(crate) fn may_follow(&self, bytes: &[u8]) -> bool {
        if self.is_arc {
            arc::may_begin(bytes)
        } else {
            begins_like(bytes, WARC)
        }
    }

    /// The problem of a record that does not end where it should.
    pub(crate) fn wrong_length(&self) -> Problem {
        Problem::ContentLength(self.content_length)
    }

    /// The problem of a record after which nothing comes too early. A whole gzip member was not cut off.
    pub(crate) fn cut_off(&self, after: After) -> Problem {
        match after {
            After::Member => self.wrong_length(),
            After::More | After::File => Problem::Truncated,
        }
    }
}

/// Whether bytes, of which there may be few, begin like that.
fn begins_like(bytes: &[u8], beginning: &[u8]) -> bool {
    bytes.iter().zip(beginning).all(|(a, b)| a == b)
}
