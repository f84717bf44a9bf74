//! Parser of WARC and ARC records, over bytes that the caller reads.

use super::arc::{self, Line};
use super::gunzip::MAGIC;
use super::header::{MAX_HEADER, end_of_header};
use super::{Deviation, Deviations, Header, Problem};

/// Information about the input after the available bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// More bytes may follow.
    More,
    /// The gzip member ends.
    Member,
    /// The data ends with the requested range of the file; the bytes after it are unknown.
    Range,
    /// The file ends.
    File,
}

/// Bytes that terminate a WARC record.
pub const END: &[u8] = b"\r\n\r\n";
/// Maximum number of bytes by which a record may end before or after the end that its
/// `Content-Length` gives.
pub const SLACK: usize = 16;
/// Number of bytes after a block that determine where it ends: the maximum deviation, the end of the record,
/// and `WARC/` of the next one.
pub const LOOK: usize = SLACK + END.len() + WARC.len();
const WARC: &[u8] = b"WARC/";
/// First bytes of a gzip member.
const GZIP: [u8; 3] = [MAGIC, 0x8b, 8];
/// Maximum decompressed size of a record without `Content-Length`, in bytes. The parser needs the whole
/// record to determine its length.
pub const MAX_OPEN: usize = 1 << 20;

/// End of a record, as determined from the bytes after its block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// Number of bytes after the block that still belong to the record.
    pub size: usize,
    /// Number of bytes directly after the block that seem to belong to the block.
    pub longer: usize,
    /// True if the `longer` bytes may be superfluous line ends that do not belong to the block.
    pub may_be_padding: bool,
    /// Number of bytes at the end of the block that may be the line ends missing after it.
    pub within: usize,
    /// True if neither another record nor the end of the input follows; the block may then continue.
    pub is_doubtful: bool,
}

/// Parses consecutive records: call [`Parser::header`], then [`Parser::block`] until the end of the block,
/// then [`Parser::end`]. The parser stores no input: pass all bytes that have not been consumed yet to
/// each call.
///
/// ```
/// use crawlspace_warc::{After, Parser};
/// let file = b"WARC/1.0\r\nWARC-Type: resource\r\nContent-Length: 2\r\n\r\nhi\r\n\r\n";
/// let mut parser = Parser::of_file();
/// assert!(parser.header(&file[..30], After::More)?.is_none());
/// let (header, length) = parser.header(file, After::File)?.unwrap();
/// assert_eq!(header.content_length(), 2);
/// let rest = &file[length..];
/// assert_eq!(parser.block(rest.len()), 2);
/// assert_eq!(parser.end(&rest[2..], After::File)?.unwrap().size, 4);
/// # Ok::<(), crawlspace_warc::Problem>(())
/// ```
#[derive(Clone, Debug)]
pub struct Parser {
    /// True for a single record from anywhere in a file. An ARC record is then parsed without the record that
    /// describes its file, as a `response` with the media type of its header line.
    is_lone: bool,
    is_first: bool,
    is_arc: bool,
    content_length: u64,
    /// Number of bytes of the block still to come.
    left: u64,
    /// True once a line end was seen, or if none is required because the record describes the ARC
    /// file.
    is_closed: bool,
    deviations: Deviations,
}

impl Parser {
    /// Creates a parser for a file, starting at its beginning.
    pub fn of_file() -> Parser {
        Parser {
            is_lone: false,
            is_first: true,
            is_arc: false,
            content_length: 0,
            left: 0,
            is_closed: false,
            deviations: Deviations::default(),
        }
    }

    /// Creates a parser for a single record of a file.
    pub fn of_record() -> Parser {
        Parser {
            is_lone: true,
            ..Parser::of_file()
        }
    }

    /// Parses the header at the start of the bytes, and returns the header and its length. Returns `None` if more
    /// bytes are required. For an ARC record, returns the header of the equivalent WARC record.
    ///
    /// # Errors
    /// Fails when the bytes do not begin with a valid record, or the record is truncated.
    pub fn header(
        &mut self,
        bytes: &[u8],
        after: After,
    ) -> Result<Option<(Header, usize)>, Problem> {
        let is_warc = begins_like(bytes, WARC);
        let may_be_arc = self.is_first && begins_like(bytes, arc::BEGIN)
            || self.is_lone && arc::may_begin(bytes);
        let is_arc = self.is_arc || !is_warc && may_be_arc;
        if !is_arc && !is_warc {
            return Err(Problem::NotWarc);
        }
        let end = if is_arc {
            memchr::memchr(b'\n', bytes).map(|at| at + 1)
        } else {
            end_of_header(bytes)
        };
        let too_long = end.unwrap_or(bytes.len()) > MAX_HEADER;
        let Some(raw) = end.filter(|_| !too_long).and_then(|end| bytes.get(..end)) else {
            if !is_arc && (too_long || after != After::More) {
                // Check the available lines first, because their error is more specific.
                Header::parse_lines(bytes)?;
            }
            return match after {
                _ if too_long => {
                    let what = format!("it is longer than {MAX_HEADER} bytes");
                    Err(Problem::Header(what))
                }
                After::More => Ok(None),
                After::Member | After::Range | After::File => Err(Problem::Truncated),
            };
        };
        (self.is_closed, self.deviations) = (false, Deviations::default());
        let header = if is_arc {
            self.arc_header(raw)?
        } else {
            let mut header = Header::parse_lines(raw)?;
            self.deviations = header.deviations();
            if header.get("Content-Length").is_none() {
                match after {
                    After::More if bytes.len() <= MAX_OPEN => return Ok(None),
                    After::Member if bytes.len() <= MAX_OPEN => {
                        let block = &bytes[raw.len()..];
                        let block = block.strip_suffix(END).unwrap_or(block);
                        header.set_content_length(block.len() as u64);
                        self.deviations.add(Deviation::NoLength);
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
        if describes_file && self.is_lone {
            return Err(wrong("it describes the ARC file and is not a capture"));
        }
        let line = Line::parse(line).map_err(wrong)?;
        self.is_closed = describes_file;
        Ok(if self.is_lone {
            line.header("response", line.media_type)
        } else {
            line.likely_header()
        })
    }

    /// Consumes up to `bytes` bytes of the block, and returns their number; 0 at its end.
    pub fn block(&mut self, bytes: usize) -> usize {
        let size = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes);
        self.left -= size as u64;
        size
    }

    /// Returns the number of bytes of the block still to come.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Returns true if the record is from an ARC file.
    pub fn is_arc(&self) -> bool {
        self.is_arc
    }

    /// Returns the deviations from the standard in the part of the record that was parsed so far.
    pub fn deviations(&self) -> Deviations {
        self.deviations
    }

    /// Determines the end of the record, after its block was consumed. Returns `None` if more bytes are
    /// required.
    ///
    /// # Errors
    /// Fails when the record does not end near the end of its block, or is truncated.
    pub fn end(&mut self, bytes: &[u8], after: After) -> Result<Option<Ending>, Problem> {
        let is_last = after != After::More;
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        if left > 0 {
            // A complete gzip member shows that its record is complete.
            return if after == After::Member && left <= SLACK && bytes.is_empty() {
                (self.left, self.content_length) = (0, self.content_length - self.left);
                self.deviations.add(Deviation::Length);
                Ok(Some(Ending::default()))
            } else {
                Err(self.cut_off(after))
            };
        }
        let ending = if self.is_arc {
            // Some writers include the line end in the block of the first record, and some omit it at the end
            // of the file.
            let ends = line_ends(bytes);
            self.is_closed |= ends > 0;
            let rest = &bytes[ends..];
            // For a single record, a long run of line ends proves that the record has ended.
            let is_enough = self.is_lone && ends > SLACK;
            if rest.len() < arc::LOOK && !is_last && !is_enough {
                return Ok(None);
            }
            // The line ends may belong to a block that is longer than its header line says.
            let is_next = [&GZIP[..], WARC].iter().any(|next| begins_like(rest, next));
            let is_next = is_next || arc::may_begin(rest);
            let is_end = without_padding(rest).is_empty() || is_next;
            (is_end && (self.is_closed || bytes.is_empty())).then_some(Ending {
                size: ends,
                ..Ending::default()
            })
        } else {
            if bytes.len() < LOOK && !is_last {
                return Ok(None);
            }
            self.warc_end(bytes, after)
        };
        ending.map(Some).ok_or_else(|| self.wrong_length())
    }

    /// Searches the bytes after a block for the next record, or the end of the input.
    fn warc_end(&mut self, bytes: &[u8], after: After) -> Option<Ending> {
        let is_next = |rest: &[u8]| begins_like(rest, WARC) || begins_like(rest, &GZIP);
        let exact = Ending {
            size: END.len(),
            ..Ending::default()
        };
        if bytes.starts_with(END) && is_next(&bytes[END.len()..]) {
            return Some(exact);
        }
        // Only line ends and zeros may precede the next record. Without such bytes, the start of the next record must
        // be complete and unambiguous.
        let rest = without_padding(bytes);
        let size = bytes.len() - rest.len();
        if is_next(rest) && (size > 1 || rest.is_empty() || rest.len() >= WARC.len()) {
            // cdxj-indexer states lengths without the line ends after the block.
            if after != After::Range || !bytes.is_empty() {
                self.deviations.add(Deviation::Closing);
            }
            // A block that is longer than stated may itself end with line ends.
            let own = size
                .checked_sub(END.len())
                .filter(|own| (1..=SLACK).contains(own));
            if let Some(longer) = own.filter(|own| bytes[*own..size] == *END) {
                return Some(Ending {
                    size,
                    longer,
                    may_be_padding: bytes.starts_with(END),
                    ..Ending::default()
                });
            }
            let closing = &bytes[..line_ends(bytes).min(END.len())];
            let missing = END.len() - closing.len();
            let within = if END.ends_with(closing) { missing } else { 0 };
            return Some(Ending {
                size,
                within,
                ..Ending::default()
            });
        }
        // Search the next `SLACK` bytes for the end of the record.
        let longer = memchr::memmem::find_iter(bytes, END)
            .find(|&at| at <= SLACK && is_next(without_padding(&bytes[at + END.len()..])));
        let Some(longer) = longer else {
            return bytes.starts_with(END).then_some(Ending {
                is_doubtful: true,
                ..exact
            });
        };
        self.deviations.add(Deviation::Length);
        Some(Ending {
            size: bytes.len() - without_padding(&bytes[longer..]).len(),
            longer,
            ..Ending::default()
        })
    }

    /// Returns true if another record of the same file can begin with these bytes.
    pub(crate) fn may_follow(&self, bytes: &[u8]) -> bool {
        if self.is_arc {
            arc::may_begin(bytes)
        } else {
            begins_like(bytes, WARC)
        }
    }

    /// Returns the error of a record with a wrong length.
    pub(crate) fn wrong_length(&self) -> Problem {
        Problem::ContentLength(self.content_length)
    }

    /// Returns the error of a record that ends too early. If the gzip member is complete, the record was not truncated,
    /// so its length is wrong.
    pub(crate) fn cut_off(&self, after: After) -> Problem {
        match after {
            After::Member => self.wrong_length(),
            After::More | After::Range | After::File => Problem::Truncated,
        }
    }
}

fn line_ends(bytes: &[u8]) -> usize {
    let ends = bytes
        .iter()
        .take_while(|byte| matches!(byte, b'\r' | b'\n'));
    ends.count()
}

/// Strips the padding that some tools write between records: line ends and zeros.
pub(crate) fn without_padding(bytes: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| !matches!(byte, b'\r' | b'\n' | 0);
    let begin = bytes.iter().position(is_text);
    begin
        .and_then(|begin| bytes.get(begin..))
        .unwrap_or_default()
}

/// Returns true if the bytes begin with `beginning`, or are a prefix of it.
fn begins_like(bytes: &[u8], beginning: &[u8]) -> bool {
    bytes.iter().zip(beginning).all(|(a, b)| a == b)
}
