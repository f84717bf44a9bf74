//! Decoder of the chunked transfer coding (RFC 9112, section 7.1).

use bytes::{Bytes, BytesMut};

/// Maximum length of the line with the size of a chunk and its extensions, in bytes.
const MAX_LINE: usize = 4096;
/// Maximum length of the trailer section, in bytes.
const MAX_TRAILER: usize = 16 * 1024;

/// An incremental decoder of chunked bodies.
///
/// The decoder is strict by default: chunk boundaries are never guessed.
#[derive(Debug, Default)]
pub struct Chunked {
    state: ChunkState,
    trailer: Vec<u8>,
    /// Accepts lines that end with a bare LF.
    bare_line_feeds: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ChunkState {
    /// Expects the size of a chunk.
    #[default]
    Size,
    /// Inside a chunk; the value is the number of its remaining bytes.
    Data(u64),
    /// Expects the line end after the data of a chunk.
    DataEnd,
    /// Expects a line of the trailer section, which follows the last chunk.
    Trailer,
    Done,
}

/// Result of a decoding step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes of the body.
    Data(Bytes),
    /// More input is required.
    More,
    /// The body and its trailer section are complete.
    End,
}

impl Chunked {
    /// Creates a lenient decoder, which also accepts lines that end with a bare LF.
    pub fn lenient() -> Chunked {
        Chunked {
            bare_line_feeds: true,
            ..Chunked::default()
        }
    }

    /// Decodes the next piece of the input, and removes it from the input.
    ///
    /// # Errors
    /// Fails with a description of what is invalid in the coding.
    pub fn next(&mut self, input: &mut BytesMut) -> Result<Piece, String> {
        loop {
            match self.state {
                ChunkState::Size => {
                    let Some(line) = self.line(input, MAX_LINE, "a chunk's size")? else {
                        return Ok(Piece::More);
                    };
                    self.state = match size(&line)? {
                        0 => ChunkState::Trailer,
                        size => ChunkState::Data(size),
                    };
                }
                ChunkState::Data(left) => {
                    if input.is_empty() {
                        return Ok(Piece::More);
                    }
                    let most = usize::try_from(left).unwrap_or(usize::MAX);
                    let data = input.split_to(input.len().min(most)).freeze();
                    self.state = match left - data.len() as u64 {
                        0 => ChunkState::DataEnd,
                        left => ChunkState::Data(left),
                    };
                    return Ok(Piece::Data(data));
                }
                ChunkState::DataEnd => {
                    let size = match (input.first(), input.get(1)) {
                        (Some(b'\r'), Some(b'\n')) => 2,
                        (Some(b'\n'), _) if self.bare_line_feeds => 1,
                        (None, _) | (Some(b'\r'), None) => return Ok(Piece::More),
                        _ => return Err("a chunk is longer than its size says".to_owned()),
                    };
                    let _ = input.split_to(size);
                    self.state = ChunkState::Size;
                }
                ChunkState::Trailer => {
                    let left = MAX_TRAILER.saturating_sub(self.trailer.len());
                    let Some(line) = self.line(input, left, "the trailer section")? else {
                        return Ok(Piece::More);
                    };
                    if line.is_empty() {
                        self.state = ChunkState::Done;
                    } else {
                        self.trailer.extend_from_slice(&line);
                        self.trailer.extend_from_slice(b"\r\n");
                    }
                }
                ChunkState::Done => return Ok(Piece::End),
            }
        }
    }

    /// Returns true if all chunks were decoded. The trailer section may still be incomplete.
    pub fn has_all_data(&self) -> bool {
        matches!(self.state, ChunkState::Trailer | ChunkState::Done)
    }

    /// Returns the lines of the trailer section, without the empty line after them.
    pub fn trailer(&self) -> &[u8] {
        &self.trailer
    }

    /// Removes the next line from the input and returns it without its line end. Returns `None` if
    /// the line is incomplete.
    fn line(&self, input: &mut BytesMut, most: usize, what: &str) -> Result<Option<Bytes>, String> {
        let end = memchr::memchr(b'\n', input);
        if end.unwrap_or(input.len()) > most {
            return Err(format!("{what} is longer than {most} bytes"));
        }
        let Some(end) = end else {
            return Ok(None);
        };
        let mut line = input.split_to(end + 1).freeze();
        line.truncate(end);
        if line.ends_with(b"\r") {
            line.truncate(end - 1);
        } else if !self.bare_line_feeds {
            return Err(format!("{what} ends with a bare LF"));
        }
        Ok(Some(line))
    }
}

/// Decodes a chunked body leniently. Returns `None` if the coding is invalid, or ends before the last chunk.
pub fn unchunked(chunks: &[u8]) -> Option<Vec<u8>> {
    let mut chunked = Chunked::lenient();
    let mut input = BytesMut::from(chunks);
    let mut plain = Vec::with_capacity(chunks.len());
    loop {
        match chunked.next(&mut input) {
            Ok(Piece::Data(data)) => plain.extend_from_slice(&data),
            // Anything after the last chunk is not part of the body.
            _ if chunked.has_all_data() => return Some(plain),
            Ok(_) | Err(_) => return None,
        }
    }
}

fn size(line: &[u8]) -> Result<u64, String> {
    let digits = line
        .iter()
        .take_while(|byte| byte.is_ascii_hexdigit())
        .count();
    let (digits, rest) = line.split_at_checked(digits).unwrap_or((line, b""));
    // Some servers write spaces after the size of a chunk, although no chunk extension follows.
    let is_sound = matches!(rest.trim_ascii_start().first(), None | Some(b';'))
        && rest
            .iter()
            .all(|&byte| byte == b'\t' || !byte.is_ascii_control());
    let size = std::str::from_utf8(digits)
        .ok()
        .and_then(|digits| u64::from_str_radix(digits, 16).ok());
    match size {
        Some(size) if is_sound && digits.len() <= 16 => Ok(size),
        _ => Err(format!(
            "invalid chunk size {:?}",
            String::from_utf8_lossy(line.get(..line.len().min(40)).unwrap_or_default())
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes input in steps of this size. Returns the body, the trailer section, and the number of bytes
    /// left.
    fn decoded(coded: &[u8], step: usize) -> Result<(Vec<u8>, Vec<u8>, usize), String> {
        let mut chunked = Chunked::default();
        let mut input = BytesMut::new();
        let mut body = Vec::new();
        let mut parts = coded.chunks(step);
        loop {
            match chunked.next(&mut input)? {
                Piece::Data(data) => body.extend_from_slice(&data),
                Piece::End => {
                    let left = input.len() + parts.map(<[u8]>::len).sum::<usize>();
                    return Ok((body, chunked.trailer().to_vec(), left));
                }
                Piece::More => match parts.next() {
                    Some(part) => input.extend_from_slice(part),
                    None => return Err("cut off".to_owned()),
                },
            }
        }
    }

    #[test]
    fn body_does_not_depend_on_chunk_boundaries() {
        for (coded, body, trailer, left) in [
            ("0\r\n\r\n", "", "", 0),
            ("5\r\nhello\r\n0\r\n\r\nmore", "hello", "", 4),
            (
                "1\r\na\r\n00000000000000A\r\n0123456789\r\n0\r\n\r\n",
                "a0123456789",
                "",
                0,
            ),
            ("5;a=b;c=\"d;e\"\r\nhello\r\n0;x\r\n\r\n", "hello", "", 0),
            ("5  \r\nhello\r\n0  \r\n\r\n", "hello", "", 0),
            (
                "2\r\n\r\n\r\n0\r\nA: b\r\nC: d\r\n\r\n",
                "\r\n",
                "A: b\r\nC: d\r\n",
                0,
            ),
        ] {
            for step in 1..=coded.len() {
                let expected = (body.as_bytes().to_vec(), trailer.as_bytes().to_vec(), left);
                assert_eq!(
                    decoded(coded.as_bytes(), step),
                    Ok(expected),
                    "{coded:?} {step}"
                );
            }
            for cut in 0..coded.len() - left {
                let cut = &coded.as_bytes()[..cut];
                assert_eq!(decoded(cut, 3), Err("cut off".to_owned()), "{cut:?}");
            }
        }
    }

    #[test]
    fn invalid_chunked_coding_is_refused() {
        let long_extension = format!("5;{}\r\nhello\r\n0\r\n\r\n", "x".repeat(MAX_LINE));
        let long_trailer = format!("0\r\n{}\r\n", "a: b\r\n".repeat(MAX_TRAILER / 6 + 1));
        let endless = "1".repeat(MAX_LINE + 2);
        for wrong in [
            "\r\n",
            "x\r\n",
            "-1\r\n",
            "+1\r\na\r\n",
            "0x1\r\na\r\n",
            " 5\r\nhello\r\n",
            "5 x\r\nhello\r\n0\r\n\r\n",
            "5\nhello\r\n0\r\n\r\n",
            "5\r\nhello\n0\r\n\r\n",
            "5\r\nhello0\r\n\r\n",
            "5\r\nhello!\r\n0\r\n\r\n",
            "5\r\nhello\r\n0\r\na: b\n\r\n",
            "5;a=\u{1}\r\nhello\r\n0\r\n\r\n",
            "FFFFFFFFFFFFFFFFF\r\n",
            "10000000000000000\r\n",
            "00000000000000001\r\na\r\n0\r\n\r\n",
            &long_extension,
            &long_trailer,
            &endless,
        ] {
            for step in [1, 7, wrong.len()] {
                let refused = decoded(wrong.as_bytes(), step).unwrap_err();
                assert_ne!(refused, "cut off", "{wrong:?} {step}");
            }
        }
    }

    #[test]
    fn largest_size_does_not_overflow() {
        assert_eq!(
            decoded(b"FFFFFFFFFFFFFFFF\r\nabc", 100),
            Err("cut off".to_owned())
        );
    }

    #[test]
    fn chunks_of_a_record_are_joined() {
        for chunked in [
            "5\r\nhello\r\n6;a=b\r\n world\r\n0\r\n\r\n",
            "5\nhello\n6\r\n world\n0\n\n",
            "5\r\nhello\r\n6\r\n world\r\n0\r\n",
            "5\r\nhello\r\n6\r\n world\r\n0\r\nmore",
        ] {
            let plain = unchunked(chunked.as_bytes());
            assert_eq!(plain.as_deref(), Some(&b"hello world"[..]), "{chunked:?}");
        }
        for wrong in [
            "",
            "5\r\nhell",
            "x\r\n",
            "5\r\nhelloworld",
            "5\r\nhello\r\n",
            "-1\r\n",
            "ffffffffffffffff\r\n",
        ] {
            assert_eq!(unchunked(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
